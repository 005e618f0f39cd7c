//! Probes, and what their results mean.

use std::time::Duration;

use serde::{Deserialize, Serialize};

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
    /// From the slot's start to the answer.
    pub latency: Duration,
    /// Until the certificate that was seen expires.
    pub certificate_expires_in: Option<Duration>,
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
    /// The right answer, too late (`slow_after`).
    Slow,
    /// The probe itself failed.
    Error,
    /// The probe panicked.
    Panic,
    /// A probe that must not overlap was still running when its next slot came due.
    Overlap,
}

/// Why a result says nothing of the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum NoEvidence {
    /// Our own descriptors, addresses, memory or processes are exhausted.
    LocalExhausted,
    /// Our clock makes the certificate look expired or not yet valid.
    LocalClock,
    /// 429 or 418: the far side asks for patience.
    Throttled,
    /// Another session took the identity.
    CompetingSession,
    /// This process was frozen or late.
    Frozen,
}
