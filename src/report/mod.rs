//! What a gateway reports of its own session and orders, and a small blocking [client](Reporter) that reports it.
//!
//! One line of JSON for each report, over a local socket of the supervisor, and one line of answer. The protocol, for
//! gateways in other languages, is in `references/gateway-report.md`. Never report from the thread that sends orders: a
//! call may wait for the supervisor.

use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

mod client;

pub use client::{LONGEST_WAIT, ReportError, Reporter};

/// The version of the protocol that is spoken here.
pub const VERSION: u32 = 1;

/// The longest line of a report, in bytes, its end included.
pub const LONGEST_LINE: usize = 1024;

/// What a gateway says of one path: how it is now, and what happened on it since the report before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Report {
    /// [`VERSION`].
    pub version: u32,
    /// The group of endpoints: the account.
    pub group: String,
    /// The endpoint.
    pub endpoint: String,
    /// The epoch that the gateway believes to be in force, from 1: the last that it was told.
    pub epoch: u64,
    /// When this was so, in milliseconds of CLOCK_BOOTTIME: see [`now_ms`].
    pub at_ms: u64,
    /// The session on this path.
    pub session: Session,
    /// Whether new orders may leave on this path now, as far as the gateway is concerned: not whether one just did.
    pub sending: bool,
    /// Orders that the broker took, since the report before.
    pub acks: u64,
    /// Orders that the broker refused, since the report before. A refusal is an answer: the path works.
    pub rejects: u64,
    /// Orders of which the outcome became unknown since the report before: no answer in time, a 503. Not refused ones.
    pub unknown: u64,
    /// Milliseconds since anything last came in from the broker on this session. Absent: nothing ever did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub heartbeat_age_ms: Option<u64>,
    /// The slowest answer to an order since the report before, in microseconds. Absent: not measured, or there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_us: Option<u64>,
}

/// The state of a session with the broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Session {
    /// Logged on.
    Up,
    /// Trying to log on.
    LoggingOn,
    /// Neither.
    Down,
}

impl Session {
    /// As the protocol has it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Up => "up",
            Self::LoggingOn => "logging-on",
            Self::Down => "down",
        }
    }
}

impl Report {
    /// A report of now: no session, nothing sent, nothing counted.
    #[must_use]
    pub fn new(group: impl Into<String>, endpoint: impl Into<String>, epoch: u64) -> Self {
        Self {
            version: VERSION,
            group: group.into(),
            endpoint: endpoint.into(),
            epoch,
            at_ms: now_ms(),
            session: Session::Down,
            sending: false,
            acks: 0,
            rejects: 0,
            unknown: 0,
            heartbeat_age_ms: None,
            latency_us: None,
        }
    }
}

/// Now, in milliseconds of CLOCK_BOOTTIME: one clock for every process of this machine, so that a report that waited in
/// a socket cannot look younger than it is.
#[must_use]
pub fn now_ms() -> u64 {
    let time = clock_gettime(ClockId::Boottime);
    let (seconds, nanos) = (u64::try_from(time.tv_sec).unwrap_or(0), u64::try_from(time.tv_nsec).unwrap_or(0));
    seconds.saturating_mul(1000).saturating_add(nanos / 1_000_000)
}
