//! What an operator sees of a FIX path that fronts another account, and of a credential that is refused: the binary's `run`
//! between FIX acceptors of our own, and QuickFIX.

use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio::runtime::Runtime;
use tokio::sync::watch;

use crate::acceptor::{Acceptor, Peer};
use crate::interop::{QuickFix, python};
use crate::rig::{NAMES, Rig, Setting};
use crate::{folder, identity};

/// What a venue does with a Logon.
#[derive(Clone, Debug)]
enum Mode {
    /// Takes it, and names this account.
    Account(&'static str),
    /// Answers no.
    Wrong,
    /// Says that somebody else is there in our name.
    Held,
    /// Accepts on behalf of a far side that is dead, and closes.
    Dead,
}

/// The FIX side of one path.
struct Venue {
    acceptor: Acceptor,
    mode: Arc<Mutex<Mode>>,
    refused: Arc<AtomicUsize>,
    /// Each change ends the session that is there.
    cut: watch::Sender<()>,
}

impl Venue {
    async fn start(account: &'static str) -> Self {
        let mode = Arc::new(Mutex::new(Mode::Account(account)));
        let (refused, cut) = (Arc::default(), watch::Sender::new(()));
        let acceptor = Acceptor::start({
            let (mode, refused, cut) = (Arc::clone(&mode), Arc::clone(&refused), cut.subscribe());
            move |_, peer| serve(peer, Arc::clone(&mode), Arc::clone(&refused), cut.clone())
        })
        .await;
        Self { acceptor, mode, refused, cut }
    }

    /// From the next Logon on, which is asked for at once.
    fn set(&self, mode: Mode) {
        *self.mode.lock().unwrap() = mode;
        self.cut.send_replace(());
    }

    fn refused(&self) -> usize {
        self.refused.load(Ordering::SeqCst)
    }
}

async fn serve(mut peer: Peer, mode: Arc<Mutex<Mode>>, refused: Arc<AtomicUsize>, mut cut: watch::Receiver<()>) {
    cut.mark_unchanged();
    let mode = mode.lock().unwrap().clone();
    if matches!(mode, Mode::Dead) {
        return;
    }
    peer.logon().await;
    match mode {
        Mode::Dead => {}
        Mode::Held => peer.send("5", "58=already connected from elsewhere|").await,
        Mode::Wrong => {
            refused.fetch_add(1, Ordering::SeqCst);
            peer.send("5", "58=the password is wrong|").await;
        }
        Mode::Account(account) => {
            peer.send("A", &format!("98=0|108=30|141=Y|1={account}|")).await;
            tokio::select! {
                () = peer.serve() => {}
                _ = cut.changed() => {}
            }
        }
    }
}

/// Paths to these ports; `keys` are further ones of each probe, in which NAME is its endpoint.
fn rig(test: &str, ports: &[u16], policy: &str, keys: &str) -> Rig {
    let sender = folder(test).file_name().expect("a name").to_string_lossy().to_uppercase();
    let endpoint = format!(
        "account = \"U1\"\nprobe = {{ fix = {{ version = \"FIX.4.4\", sender_comp_id = \"{sender}-NAME\", target_comp_id = \
         \"BROKER\", reset_on_logon = \"always\", sequence_file = \"NAME.seq\", account_tag = 1, relogon_wait = \"100ms\", \
         relogon_wait_max = \"100ms\"{keys} }} }}"
    );
    let probing = "interval = \"200ms\"\ninterval_when_failing = \"100ms\"\ntimeout = \"1500ms\"".to_owned();
    let policy = format!("{policy}\ncooldown = \"1h\"");
    let setting = Setting { endpoints: ports.len(), endpoint, policy, probing, ..Setting::default() };
    let rig = Rig::new(&setting);
    let text = fs::read_to_string(rig.file("config.toml")).expect("a configuration");
    let mut parts = text.split("[[group.endpoint]]");
    let mut text = parts.next().expect("a head").to_owned();
    for (((part, name), front), port) in parts.zip(NAMES).zip(&rig.fronts).zip(ports) {
        let part = part.replace("NAME", name);
        let part = part.replace(&format!("http://{}", front.address()), &format!("fix://127.0.0.1:{port}"));
        text = format!("{text}[[group.endpoint]]{part}");
    }
    fs::write(rig.file("config.toml"), text).expect("a configuration");
    rig
}

/// Between these venues.
fn between(test: &str, venues: &[Venue], policy: &str, keys: &str) -> Rig {
    let ports: Vec<_> = venues.iter().map(|venue| venue.acceptor.address.port()).collect();
    rig(test, &ports, policy, keys)
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime")
}

fn endpoint<'a>(group: &'a Value, name: &str) -> &'a Value {
    let all = group["endpoints"].as_array().into_iter().flatten();
    all.into_iter().find(|one| one["name"] == name).unwrap_or(&Value::Null)
}

fn is_well(group: &Value, name: &str) -> bool {
    endpoint(group, name)["state"] == "HEALTHY"
}

const QUICK: &str = "failure_threshold = 2";
/// Nothing moves, however many failures there are.
const PATIENT: &str = "failure_threshold = 1000000";

#[test]
fn a_fix_path_whose_logon_names_another_account_is_no_target_until_a_person_says_so() {
    let runtime = runtime();
    let venues = ["U1", "U2"].map(|account| runtime.block_on(Venue::start(account)));
    let mut rig = between("account-backup", &venues, QUICK, "");
    rig.start(&["--first-start", "east"]);
    let group = rig.until("west is barred, and flow is open", |group| {
        endpoint(group, "west")["bars"] == json!(["ACCOUNT_MISMATCH"]) && group["order_flow"] == "OPEN east #1"
    });
    assert_eq!((&group["eligible_targets"], &group["waits_for"]), (&json!([]), &json!("unbar west")));
    let error = rig.until("and why", |group| endpoint(group, "west")["last_probe_error"].is_string());
    let error = endpoint(&error, "west")["last_probe_error"].as_str().expect("a text").to_owned();
    assert_eq!(error, "AccountMismatch: it fronts account \"U2\", expected \"U1\"");
    assert!(rig.noted("ACCOUNT_MISMATCH"));
    let metric = "broker_failover_endpoint_account_mismatch{group=\"main\",endpoint=\"west\"} 1";
    assert!(rig.get("/metrics").2.contains(metric), "{}", rig.get("/metrics").2);

    // It would answer, and is not gone to.
    let [east, west] = &venues;
    east.set(Mode::Dead);
    rig.until("there is nowhere to go", |group| group["order_flow"] == "HALT NO_TARGET_AVAILABLE");
    assert_eq!((rig.count("start fence"), rig.count("start switch")), (0, 0));
    east.set(Mode::Account("U1"));
    rig.until("flow is open again", |group| group["order_flow"] == "OPEN east #1");

    // That it fronts the right one now is not enough: a person says so.
    west.set(Mode::Account("U1"));
    rig.until("west answers rightly", |group| is_well(group, "west"));
    assert!(rig.refuse(&["switchover", "west"]).contains("ACCOUNT_MISMATCH"));
    rig.obey(&["unbar", "west"]);
    rig.until("west is a target", |group| group["eligible_targets"] == json!(["west"]));
    assert!(rig.terminate().success());
    rig.verify();
}

#[test]
fn a_fix_session_that_comes_back_in_front_of_another_account_halts_trading() {
    let runtime = runtime();
    let venues = ["U1", "U1"].map(|account| runtime.block_on(Venue::start(account)));
    let mut rig = between("account-active", &venues, QUICK, "");
    rig.start(&["--first-start", "east"]);
    rig.until("flow is open", |group| group["order_flow"] == "OPEN east #1" && is_well(group, "west"));
    venues[0].set(Mode::Account("U2"));
    let group = rig.until("trading halts", |group| group["order_flow"] == "HALT ACCOUNT_MISMATCH");
    let text = group["halt_text"].as_str().expect("a text");
    assert_eq!(text, "the active path east: it fronts account \"U2\", expected \"U1\"");
    rig.until("the halt hook has confirmed", |group| group["halt_confirmed"] == true);
    assert_eq!(rig.started()[..2], ["reconcile east 1", "halt east 1"], "nobody was switched to");
    assert!(rig.terminate().success());
    rig.verify();
}

#[test]
fn b01_a_path_that_takes_connections_for_a_dead_far_side_is_left_for_one_that_logs_on() {
    let runtime = runtime();
    let venues = ["U1", "U1"].map(|account| runtime.block_on(Venue::start(account)));
    let mut rig = between("dead", &venues, "failure_threshold = 3", "");
    rig.start(&["--first-start", "east"]);
    rig.until("flow is open", |group| group["order_flow"] == "OPEN east #1" && is_well(group, "west"));
    let [east, west] = &venues;
    let before = east.acceptor.accepted();
    east.set(Mode::Dead);
    let group = rig.until("flow is open on west", |group| group["order_flow"] == "OPEN west #2");
    let error = endpoint(&group, "east")["last_probe_error"].as_str().expect("a text");
    assert!(error.starts_with("Reset: "), "{error}");
    assert!(east.acceptor.accepted() > before, "a connect succeeded, and was no success");
    assert_eq!(rig.started(), ["reconcile east 1", "fence east 1", "switch west 2", "reconcile west 2"]);
    assert_eq!(west.acceptor.accepted(), 1, "it has been logged on all the time");
    assert!(rig.terminate().success());
    rig.verify();
}

#[test]
fn b06_a_path_where_our_name_is_held_is_no_target_and_is_asked_one_at_a_time_until_it_is_free() {
    let runtime = runtime();
    let venues = ["U1", "U1"].map(|account| runtime.block_on(Venue::start(account)));
    let [east, west] = &venues;
    west.set(Mode::Held);
    let mut rig = between("name-held", &venues, QUICK, ", competing_session_text = [\"already connected\"]");
    rig.start(&["--first-start", "east"]);
    rig.until("flow is open", |group| group["order_flow"] == "OPEN east #1");
    rig.wait("several Logons, one after the other", |_| west.acceptor.accepted() >= 4);
    let held = |note: &Value| note["text"].as_str().is_some_and(|text| text.contains("IDENTITY_HELD"));
    assert!(rig.records("note").iter().any(held), "{}", rig.tell());
    let group = rig.group();
    assert_eq!((&endpoint(&group, "west")["state"], &group["eligible_targets"]), (&json!("UNKNOWN"), &json!([])));
    east.set(Mode::Dead);
    rig.until("there is nowhere to go", |group| group["order_flow"] == "HALT NO_TARGET_AVAILABLE");
    assert_eq!((rig.count("start fence"), rig.count("start switch")), (0, 0));
    west.set(Mode::Account("U1"));
    rig.until("flow is open on west", |group| group["order_flow"] == "OPEN west #2");
    assert!(rig.terminate().success());
    rig.verify();
}

/// Notes of slots in which nobody was asked.
fn stopped(rig: &Rig) -> usize {
    let of = |note: &&Value| note["text"].as_str().is_some_and(|text| text.contains("LogonsStopped"));
    rig.records("note").iter().filter(of).count()
}

#[test]
fn b14_two_refused_fix_logons_stop_the_credential_until_a_person_clears_it_and_no_other() {
    let runtime = runtime();
    let venues = ["U1", "U1", "U1"].map(|account| runtime.block_on(Venue::start(account)));
    let mut rig = between("stopped", &venues, PATIENT, "");
    rig.start(&["--first-start", "east"]);
    rig.until("all are logged on", |group| {
        group["order_flow"] == "OPEN east #1" && NAMES.iter().all(|name| is_well(group, name))
    });
    let logons = || venues.each_ref().map(|venue| venue.acceptor.accepted());
    assert_eq!(logons(), [1, 1, 1]);
    let west = &venues[1];
    west.set(Mode::Wrong);
    rig.wait("logons are stopped", |rig| rig.noted("LOGONS_STOPPED"));
    rig.wait("slots that ask nobody", |rig| stopped(rig) > 10);
    assert_eq!((west.refused(), logons()), (2, [1, 3, 1]), "many slots, two refusals");
    let group = rig.group();
    assert_eq!((&group["waits_for"], &group["order_flow"]), (&json!("clear-logons"), &json!("OPEN east #1")));
    assert!(is_well(&group, "east") && is_well(&group, "north"), "{group:#}");

    // Neither a restart nor a reload is a person.
    assert!(rig.terminate().success());
    rig.start(&[]);
    let seen = stopped(&rig);
    rig.wait("slots that ask nobody", |rig| stopped(rig) > seen + 10);
    rig.obey(&["reload"]);
    west.set(Mode::Account("U1"));
    let seen = stopped(&rig);
    rig.wait("slots that ask nobody", |rig| stopped(rig) > seen + 10);
    assert_eq!((west.refused(), logons()), (2, [2, 3, 2]));

    rig.obey(&["clear-logons"]);
    rig.until("every path is known", |group| NAMES.iter().all(|name| is_well(group, name)));
    assert_eq!((west.refused(), logons()), (2, [2, 4, 2]));
    assert!(rig.refuse(&["clear-logons"]).contains("no logon was refused"));
    assert!(rig.terminate().success());
    rig.verify();
}

#[test]
fn quickfix_refuses_a_password_twice_and_is_not_asked_again_and_its_account_is_compared() {
    let Some(python) = python() else { return };
    let runtime = runtime();
    let acceptor = |name: &str, password: &str, account: &str| {
        let folder = folder(&format!("qf-desk-{name}"));
        let mut config = identity(&folder);
        let sender = folder.with_file_name(format!("broker-failover-fix-{}-qf-desk", std::process::id()));
        config.sender_comp_id =
            format!("{}-{name}", sender.file_name().expect("a name").to_string_lossy().to_uppercase());
        runtime.block_on(QuickFix::start_with(&python, &folder, &config, password, Some(account), &[]))
    };
    let quickfixes = [acceptor("east", "word-east", "U1"), acceptor("west", "right", "U2")];
    let keys = ", username = \"joe\", password = \"word-NAME\"";
    let mut rig = rig("qf-desk", &quickfixes.each_ref().map(|quickfix| quickfix.port), PATIENT, keys);
    rig.start(&["--first-start", "east"]);
    rig.wait("logons are stopped", |rig| rig.noted("LOGONS_STOPPED"));
    rig.until("flow is open on the path that takes us", |group| group["order_flow"] == "OPEN east #1");
    let refusals = || quickfixes[1].count("out 5");
    rig.wait("QuickFIX has told of both", |_| refusals() == 2);
    rig.wait("slots that ask nobody", |rig| stopped(rig) > 10);
    assert_eq!((refusals(), quickfixes[1].count("logon")), (2, 0));

    // The right password alone changes nothing.
    let text = fs::read_to_string(rig.file("config.toml")).expect("a configuration");
    fs::write(rig.file("config.toml"), text.replace("word-west", "right")).expect("a configuration");
    rig.obey(&["reload"]);
    let seen = stopped(&rig);
    rig.wait("slots that ask nobody", |rig| stopped(rig) > seen + 10);
    assert_eq!((refusals(), quickfixes[1].count("logon")), (2, 0));
    rig.obey(&["clear-logons"]);
    rig.until("it is another account", |group| endpoint(group, "west")["bars"] == json!(["ACCOUNT_MISMATCH"]));
    assert_eq!((refusals(), quickfixes[1].count("logon"), &*rig.flow()), (2, 1, "OPEN east #1"));
    assert!(rig.terminate().success());
    rig.verify();
}
