//! Probes, and what their results mean.
//!
//! A [`Prober`] asks one path once. [`prober`] makes one from the configuration, for each kind in a file of its own;
//! [`of_endpoint`] makes all that an endpoint needs into one, in which a shallow success never clears a deeper failure.
//! When to ask, and what it means that no answer comes, is the [scheduler's](super::scheduler) part.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use thiserror::Error;
use tokio::time::{Instant, timeout_at};

use super::config::{Depth, EndpointConfig, ProbeConfig, ProbeKind};
use super::report::Inbox;

mod answer;
mod exec;
mod fault;
mod fix;
mod http;
mod limits;
mod report;
mod resolve;
mod session;
mod several;
mod target;
mod tcp;
mod tls;
mod websocket;

pub(crate) use fix::FREE_ATTEMPTS;
pub use fix::{Password, Secret, farewell};
pub use limits::{Limits, MOST_REFUSED_LOGONS};
pub use resolve::{MOST_LOOKUPS, Resolver};
pub use session::{Holder, Loss, Opening, holder};
pub use target::{Host, Scheme, Target, UrlError, redact};
pub use tls::TlsSetupError;

use several::Several;
use tcp::{Close, Dialler};

/// An answer that is being waited for. Dropped, the probe is given up and leaves nothing behind.
pub type ProbeFuture<'a> = Pin<Box<dyn Future<Output = Verdict> + Send + 'a>>;

/// Asks one path.
pub trait Prober: Send + Sync {
    /// Whether a second probe may start while one is running. Not where a probe holds a session or logs on.
    fn overlaps(&self) -> bool;

    /// Asks once, on a fresh connection or in a session that is held. `deadline` is when the answer is given up: a prober
    /// that can stop by itself in a better way does so before, and need not mind it otherwise.
    fn probe(&self, deadline: Instant) -> ProbeFuture<'_>;

    /// Where a gateway's reports reach it, if it is they that it waits for.
    fn inbox(&self) -> Option<Arc<Inbox>> {
        None
    }
}

/// Asks once, outside any schedule: no answer by `timeout` is a fault.
pub async fn probe_once(prober: &dyn Prober, timeout: Duration) -> Verdict {
    let deadline = Instant::now() + timeout;
    timeout_at(deadline, prober.probe(deadline)).await.unwrap_or_else(|_| Verdict::timeout(timeout))
}

/// The prober of everything that `endpoint` is asked.
///
/// # Errors
///
/// The first probe that cannot be carried out as configured.
pub fn of_endpoint(endpoint: &EndpointConfig, resolver: &Resolver) -> Result<Arc<dyn Prober>, ProberError> {
    together(endpoint, |probe| prober(endpoint, probe, resolver))
}

/// The same inside the limits of `group`'s credentials and budgets.
///
/// # Errors
///
/// As for [`of_endpoint`].
pub fn within(
    limits: &Limits,
    group: &str,
    endpoint: &EndpointConfig,
    resolver: &Resolver,
) -> Result<Arc<dyn Prober>, ProberError> {
    together(endpoint, |probe| Ok(limits.bound(group, &probe.terms, prober(endpoint, probe, resolver)?)))
}

/// What holds the session that `endpoint` is to be watched by, inside the limits of `group`'s credentials and budgets.
///
/// # Errors
///
/// As for [`holder`].
pub fn holder_within(
    limits: &Limits,
    group: &str,
    endpoint: &EndpointConfig,
    resolver: &Resolver,
) -> Result<Option<Arc<dyn Holder>>, ProberError> {
    let Some(watch) = &endpoint.watch else { return Ok(None) };
    Ok(holder(endpoint, resolver)?.map(|holder| limits.bound_holder(group, &watch.terms, holder)))
}

fn together(
    endpoint: &EndpointConfig,
    make: impl FnMut(&ProbeConfig) -> Result<Box<dyn Prober>, ProberError>,
) -> Result<Arc<dyn Prober>, ProberError> {
    let probers = endpoint.probes.iter().map(make).collect::<Result<Vec<_>, _>>()?;
    match <[_; 1]>::try_from(probers) {
        Ok([only]) => Ok(only.into()),
        Err(probers) if probers.is_empty() => Err(ProberError::NoProbe),
        Err(probers) => Ok(Arc::new(Several::new(probers, endpoint.require))),
    }
}

/// The prober of one of `endpoint`'s probes.
///
/// # Errors
///
/// It cannot be carried out as configured; nothing was asked.
pub fn prober(
    endpoint: &EndpointConfig,
    probe: &ProbeConfig,
    resolver: &Resolver,
) -> Result<Box<dyn Prober>, ProberError> {
    let dialler = |close| -> Result<Dialler, ProberError> {
        let target = Arc::new(Target::parse(&endpoint.endpoint.url)?);
        Ok(Dialler { target, resolver: resolver.clone(), close })
    };
    let prober: Box<dyn Prober> = match &probe.kind {
        ProbeKind::Tcp => Box::new(tcp::TcpProbe(dialler(Close::Abrupt)?)),
        ProbeKind::Tls(config) => {
            let dialler = dialler(Close::Orderly)?;
            let connector = tls::Connector::new(config, &dialler.target, false)?;
            Box::new(tls::TlsProbe { dialler, connector })
        }
        ProbeKind::Http(config) => {
            let mut dialler = dialler(Close::Abrupt)?;
            let tls = match dialler.target.scheme {
                Scheme::Http => None,
                Scheme::Https => {
                    dialler.close = Close::Orderly;
                    Some(tls::Connector::new(&config.tls, &dialler.target, true)?)
                }
                other => {
                    return Err(ProberError::Scheme {
                        probe: "http",
                        expected: "http:// or https://",
                        scheme: other.name(),
                    });
                }
            };
            Box::new(http::HttpProbe::new(dialler, tls, config)?)
        }
        ProbeKind::Fix(config) => {
            let dialler = dialler(Close::Orderly)?;
            let tls = match dialler.target.scheme {
                Scheme::Fix => None,
                Scheme::Fixs => Some(tls::Connector::new(&config.tls, &dialler.target, false)?),
                other => {
                    return Err(ProberError::Scheme {
                        probe: "fix",
                        expected: "fix:// or fixs://",
                        scheme: other.name(),
                    });
                }
            };
            Box::new(fix::FixProbe::new(dialler, tls, config))
        }
        ProbeKind::Report(config) => Box::new(report::ReportProbe::new(config)),
        ProbeKind::WebSocket(config) => Box::new(websocket::WebSocketProbe::new(dialler(Close::Orderly)?, config)?),
        ProbeKind::Exec(config) => {
            Box::new(exec::ExecProbe::new(config, &endpoint.endpoint).ok_or(ProberError::Command)?)
        }
    };
    let (proves, account) = (probe.terms.proves, endpoint.endpoint.account.clone());
    let judged = Judged { prober, proves, account, slow_after: probe.slow_after };
    Ok(if judged.has_something_to_say() { Box::new(judged) } else { judged.prober })
}

/// Why a probe cannot be carried out as configured.
#[derive(Debug, Error)]
pub enum ProberError {
    /// The endpoint's url.
    #[error("url: {0}")]
    Url(#[from] UrlError),
    /// A probe of something that speaks another protocol.
    #[error("url: {probe} needs {expected}, found {scheme}://")]
    Scheme {
        /// Which one.
        probe: &'static str,
        /// What it speaks.
        expected: &'static str,
        /// Found.
        scheme: &'static str,
    },
    /// TLS.
    #[error(transparent)]
    Tls(#[from] TlsSetupError),
    /// The endpoint has no probe.
    #[error("no probe: an endpoint that nobody asks is never HEALTHY")]
    NoProbe,
    /// An HTTP method.
    #[error("method {method:?} is not an HTTP method")]
    Method {
        /// Found.
        method: String,
    },
    /// A request path.
    #[error("path {path:?}: expected / and then printable ASCII without spaces (percent-encode others)")]
    Path {
        /// Found.
        path: String,
    },
    /// A header; the value is secret and not told.
    #[error("header {name:?}: the name is not a token, or the value holds control characters")]
    Header {
        /// Its name.
        name: String,
    },
    /// A header that the WebSocket handshake itself makes.
    #[error("header {name:?} is the handshake's own; expected others (there is subprotocol for the subprotocol)")]
    HandshakeHeader {
        /// Its name.
        name: String,
    },
    /// Not a subprotocol.
    #[error("subprotocol {subprotocol:?}: expected one name without spaces or separators")]
    Subprotocol {
        /// Found.
        subprotocol: String,
    },
    /// An empty command.
    #[error("command: expected a program")]
    Command,
}

/// What the configuration makes of a success: how deep it goes, whether it came in time and of the right account.
struct Judged {
    prober: Box<dyn Prober>,
    proves: Depth,
    account: Option<String>,
    slow_after: Option<Duration>,
}

impl Judged {
    fn has_something_to_say(&self) -> bool {
        self.proves > Depth::Reachable || self.account.is_some() || self.slow_after.is_some()
    }

    fn judge(&self, mut seen: Evidence) -> Verdict {
        // Told before anything else: an answer of another account is none, however fast.
        if let (Some(found), Some(stated)) = (&seen.account, &self.account) {
            if found != stated {
                let text = format!("it fronts account {found:?}, expected {stated:?}");
                return Verdict::fault(Fault::AccountMismatch, text);
            }
        }
        if let Some(limit) = self.slow_after.filter(|limit| seen.latency >= *limit) {
            let text = format!("the right answer after {:?}, too late from {limit:?} on", seen.latency);
            return Verdict::fault(Fault::Slow, text);
        }
        seen.depth = seen.depth.max(self.proves);
        Verdict::Success(seen)
    }
}

impl Prober for Judged {
    fn overlaps(&self) -> bool {
        self.prober.overlaps()
    }

    fn probe(&self, deadline: Instant) -> ProbeFuture<'_> {
        Box::pin(async move {
            match self.prober.probe(deadline).await {
                Verdict::Success(seen) => self.judge(seen),
                verdict => verdict,
            }
        })
    }

    fn inbox(&self) -> Option<Arc<Inbox>> {
        self.prober.inbox()
    }
}

impl Verdict {
    /// A fault of the path.
    #[must_use]
    pub fn fault(fault: Fault, text: impl Into<String>) -> Self {
        Self::PathFault { fault, text: told(text.into()) }
    }

    /// Nothing known of the path.
    #[must_use]
    pub fn no_evidence(cause: NoEvidence, text: impl Into<String>) -> Self {
        Self::NoEvidence { cause, text: told(text.into()), retry_after: None }
    }

    pub(super) fn timeout(timeout: Duration) -> Self {
        Self::fault(Fault::Timeout, format!("no answer within {timeout:?}"))
    }
}

/// The longest text of a verdict, in characters. The far side has a say in it (a certificate may name thousands of
/// hosts), and each slot's is kept.
const LONGEST_TEXT: usize = 300;

fn told(text: String) -> String {
    match text.char_indices().nth(LONGEST_TEXT) {
        Some((end, _)) => format!("{}...", text.get(..end).unwrap_or_default()),
        None => text,
    }
}

/// What one probe, or one slot, came to.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// The far side gave a positive answer.
    Success(Evidence),
    /// The path is at fault: counts as a failure.
    PathFault {
        /// What kind of fault.
        fault: Fault,
        /// In words, without secrets.
        text: String,
    },
    /// Nothing is known of the path: counts as neither success nor failure and refreshes nothing.
    NoEvidence {
        /// Why.
        cause: NoEvidence,
        /// In words, without secrets.
        text: String,
        /// Ask again no sooner than after this.
        retry_after: Option<Duration>,
    },
}

/// What a success showed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Evidence {
    /// From the slot's start to the answer; of a gateway's report, what it says.
    pub latency: Duration,
    /// Until the certificate that was seen expires.
    pub certificate_expires_in: Option<Duration>,
    /// How deep it went. A prober need not say so: what the configuration states is filled in.
    pub depth: Depth,
    /// The account that the far side named, if it did.
    pub account: Option<String>,
}

/// A fault of the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Fault {
    /// The name does not resolve.
    Dns,
    /// Connection refused.
    Refused,
    /// Connection reset, or closed early.
    Reset,
    /// No answer by the deadline; also given by the scheduler when a probe cannot.
    Timeout,
    /// No route, network unreachable, or another error of the network.
    Network,
    /// The handshake or the certificate was not acceptable.
    Tls,
    /// An answer, but not the expected one (status, body, exit status).
    UnexpectedAnswer,
    /// The far side answered a Logon with no: the credential may be wrong, and asking on may lock it.
    LogonRefused,
    /// It fronts another account than the stated one.
    AccountMismatch,
    /// The two sides' sequence numbers do not fit: a person must look.
    SequenceBroken,
    /// The right answer, too late (`slow_after`).
    Slow,
    /// The probe itself failed.
    Error,
    /// The probe panicked.
    Panic,
    /// A probe that must not overlap was still running when its next slot came due.
    Overlap,
    /// The gateway has no session on the path.
    NoSession,
    /// The gateway has a session, and nothing has come in on it for too long.
    StaleHeartbeat,
    /// Too many orders without an answer. Their outcome is unknown: they were not refused.
    Unanswered,
    /// The gateway reports nothing any more, and the policy's `silence` is a failure.
    Silent,
}

/// Why a result says nothing of the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum NoEvidence {
    /// Our own descriptors, addresses, memory or processes are exhausted.
    LocalExhausted,
    /// By our clock, a certificate that is otherwise right is not valid yet: our clock is behind. (One that has expired
    /// is a fault of the path.)
    LocalClock,
    /// 429: the far side asks for patience.
    Throttled,
    /// 418: the far side shuts out our address, or our key, for a time.
    Banned,
    /// The budget that it is charged to is spent; nobody was asked.
    OverBudget,
    /// Two logons with its credential were refused, and no person has cleared that; nobody was asked.
    LogonsStopped,
    /// Another session took the identity.
    CompetingSession,
    /// A probe that logs on waits until it may do so again; nobody was asked.
    LogonWait,
    /// This process was frozen or late.
    Frozen,
    /// The gateway reported nothing.
    Silent,
    /// The gateway reported fewer answers to orders than make a success.
    FewAnswers,
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Nobody;

    impl Prober for Nobody {
        fn overlaps(&self) -> bool {
            true
        }

        fn probe(&self, _: Instant) -> ProbeFuture<'_> {
            Box::pin(std::future::pending())
        }
    }

    #[test]
    fn a_success_is_as_deep_as_is_stated_and_deeper_where_the_prober_saw_more() {
        for (proves, saw, depth) in [
            (Depth::Authenticated, Depth::Reachable, Depth::Authenticated),
            (Depth::Authenticated, Depth::OrderPath, Depth::OrderPath),
            (Depth::Reachable, Depth::Reachable, Depth::Reachable),
        ] {
            let judged = Judged { prober: Box::new(Nobody), proves, account: None, slow_after: None };
            let seen = Evidence { depth: saw, ..Evidence::default() };
            assert_eq!(judged.judge(seen), Verdict::Success(Evidence { depth, ..Evidence::default() }));
        }
    }

    #[test]
    fn however_much_the_far_side_says_a_verdict_is_short() {
        let Verdict::PathFault { text, .. } = Verdict::fault(Fault::Tls, "\u{fc}".repeat(100_000)) else { panic!() };
        assert_eq!(text.chars().count(), LONGEST_TEXT + 3);
        assert_eq!(Verdict::fault(Fault::Tls, "short"), Verdict::PathFault { fault: Fault::Tls, text: "short".into() });
    }
}
