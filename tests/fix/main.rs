//! The `fix` probe with real sockets: against acceptors of our own that misbehave in one way each (`hostile`), against
//! QuickFIX (`interop`), and through the binary (`run`, `desk`). All of them are watched by one trace: never two sessions
//! of one identity at once.

#![cfg(feature = "cli")]
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_macros,
    unreachable_pub,
    reason = "a test may look at the clock, wait and print"
)]

mod acceptor;
#[path = "../brokers/mod.rs"]
mod brokers;
mod budgets;
mod desk;
mod floods;
mod hostile;
mod interop;
mod keeping;
#[allow(dead_code, reason = "this program uses a part of it")]
#[path = "../run/rig.rs"]
mod rig;
mod run;
#[path = "../brokers/sessions.rs"]
mod sessions;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use broker_failover::engine::Endpoint;
use broker_failover::supervisor::config::{
    CancelOnDisconnect, EndpointConfig, FixConfig, FixVersion, ProbeConfig, ProbeKind, Require, Terms, TlsConfig,
};
use broker_failover::supervisor::probes::{Evidence, Prober, Resolver, Verdict, farewell, of_endpoint, probe_once};

/// Long enough for a busy machine; only what hangs gets there.
pub(crate) const PATIENT: Duration = Duration::from_secs(20);
/// For what does hang.
pub(crate) const SHORT: Duration = Duration::from_millis(900);

/// A folder of the test's own.
pub(crate) fn folder(test: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("broker-failover-fix-{}-{test}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("a folder");
    folder
}

/// An identity that goes on from session to session, kept in `folder`. No other test has it.
pub(crate) fn identity(folder: &Path) -> FixConfig {
    let name = folder.file_name().expect("a name").to_string_lossy().to_uppercase();
    FixConfig {
        version: FixVersion::Fix44,
        sender_comp_id: name,
        sender_sub_id: None,
        target_comp_id: "BROKER".to_owned(),
        target_sub_id: None,
        username: None,
        password: None,
        heart_beat_interval: Duration::from_secs(30),
        reset_on_logon: false,
        default_appl_ver_id: None,
        logon_fields: Vec::new(),
        sequence_file: folder.join("east.seq"),
        relogon_wait: Duration::from_secs(600),
        relogon_wait_max: Duration::from_secs(600),
        account_tag: None,
        competing_session_text: Vec::new(),
        competing_session_status: Vec::new(),
        tls: TlsConfig::default(),
    }
}

pub(crate) fn prober(url: &str, config: &FixConfig) -> Arc<dyn Prober> {
    of_endpoint(&endpoint(url, config, Terms::default()), &Resolver::default()).expect("a prober")
}

/// East, whose one probe is this one.
pub(crate) fn endpoint(url: &str, config: &FixConfig, terms: Terms) -> EndpointConfig {
    EndpointConfig {
        endpoint: Endpoint::primary("east", "us-east-1", url),
        explicit_priority: true,
        probes: vec![ProbeConfig { kind: ProbeKind::Fix(Box::new(config.clone())), slow_after: None, terms }],
        require: Require::All,
        shared_fate: Vec::new(),
        watch: None,
        cancel_on_disconnect: CancelOnDisconnect::Unknown,
    }
}

/// One slot, and what it came to in short.
pub(crate) async fn slot(prober: &Arc<dyn Prober>) -> (String, String) {
    in_short(probe_once(&**prober, PATIENT).await)
}

/// The same where no answer is to come.
pub(crate) async fn short_slot(prober: &Arc<dyn Prober>) -> (String, String) {
    in_short(probe_once(&**prober, SHORT).await)
}

pub(crate) fn in_short(verdict: Verdict) -> (String, String) {
    match verdict {
        Verdict::Success(Evidence { .. }) => ("+".to_owned(), String::new()),
        Verdict::PathFault { fault, text } => (format!("{fault:?}"), text),
        Verdict::NoEvidence { cause, text, .. } => (format!("?{cause:?}"), text),
    }
}

/// Drops a prober, and waits until its session has ended.
pub(crate) async fn part(prober: Arc<dyn Prober>) {
    drop(prober);
    assert!(tokio::task::spawn_blocking(|| farewell(PATIENT)).await.expect("no panic"), "a session does not end");
}

/// Waits for `what`; a machine may be busy.
pub(crate) async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    for _ in 0..2_000 {
        if is_so() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("waited for it in vain: {what}");
}
