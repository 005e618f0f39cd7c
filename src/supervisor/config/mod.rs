//! The supervisor's configuration: what a checked TOML file says.

mod budget;
mod build;
mod depth;
mod descriptors;
mod effective;
mod feed;
mod findings;
mod fix;
mod keys;
mod lint;
mod plan;
mod read;
mod recovery;
mod reports;
mod schema;
mod watch;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use super::probes::{Password, Secret};
use super::scheduler::{Confirming, MOST_CONFIRMS};
use crate::engine::{Endpoint, Policy, Silence, TriggerRule};
pub use crate::planning::Detection;

pub use budget::BudgetConfig;
pub(crate) use build::redacted;
pub use build::{Checked, effective, load, parse, socket, text_of};
pub use depth::{Depth, Exclusivity, Identity, Terms};
pub use effective::{Effective, Origin};
pub use findings::{Finding, Severity};
pub use plan::{PlanFile, duration, load_plan, parse_plan};
pub use schema::json_schema;

/// A checked configuration. Every path is absolute or relative to the working directory already.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// `[supervisor]`
    pub supervisor: SupervisorConfig,
    /// `[[group]]`, in order; names are unique.
    pub groups: Vec<GroupConfig>,
    /// `[[budget]]`: what probes and held sessions may ask of one credential or address.
    pub budgets: Vec<BudgetConfig>,
    /// SHA-256 of the file, in hexadecimal; the journal keeps it.
    pub hash: String,
}

/// `[supervisor]`
#[derive(Clone, Debug, PartialEq)]
pub struct SupervisorConfig {
    /// Read-only HTTP: status and metrics. Off if absent.
    pub listen: Option<SocketAddr>,
    /// Local control socket; peer credentials are checked.
    pub socket: PathBuf,
    /// Local socket on which gateways may report and do nothing else. Off if absent.
    pub report_socket: Option<PathBuf>,
    /// Users, by number, that may report there besides our own and root. Default none.
    pub report_users: Vec<u32>,
    /// The journal's folder.
    pub journal: PathBuf,
    /// A journal segment is closed at this size, in bytes. Default 16 MiB.
    pub segment_size: u64,
    /// Closed segments that are older go, unless the current state needs them. Default 90 days.
    pub keep_for: Duration,
    /// The oldest closed segments go while the journal is larger, unless the current state needs them. Default 1 GiB.
    pub keep_size: u64,
}

/// `[[group]]`: one broker account.
#[derive(Clone, Debug, PartialEq)]
pub struct GroupConfig {
    /// Unique name.
    pub name: String,
    /// From a fault until orders flow again, at worst. Settings that cannot meet it are refused. Absent: not checked.
    pub rto: Option<Duration>,
    /// What the broker does with a second session of one identity. Default unknown, which is read as the strictest of each.
    pub exclusivity: Exclusivity,
    /// What must have been proved of a path within `max_health_age` for it to be a target. Default reachable.
    pub required_depth: Depth,
    /// `feed`: what gateways read. None if absent.
    pub feed: Option<FeedConfig>,
    /// `[group.policy]`
    pub policy: Policy,
    /// `[group.shadow]`: a policy that is only tried out. Where it says nothing it is `policy`.
    pub shadow: Option<Policy>,
    /// `[group.probing]`
    pub probing: Probing,
    /// `[[group.endpoint]]`, in order of registration.
    pub endpoints: Vec<EndpointConfig>,
    /// `[group.failback]`
    pub failback: FailbackMode,
    /// `[group.hooks]`
    pub hooks: Hooks,
    /// A hold (SWITCHING or RECONCILING) that lasts longer becomes a halt with code HOLD_EXPIRED. Default 5 min.
    pub max_hold: Duration,
    /// No evidence on the active path for longer than this is loud. Default: the policy's `max_health_age`.
    pub no_evidence_alarm: Duration,
    /// A gateway that still reports so long after a switch was carried out that it sends on the path that was left halts
    /// the group. Default 2 s.
    pub follow_within: Duration,
}

/// `feed`, `feed_valid_for`, `feed_when_stale`
#[derive(Clone, Debug, PartialEq)]
pub struct FeedConfig {
    /// The file.
    pub path: PathBuf,
    /// How long it holds, and what gateways do then. Default: the worst detection time of the group's paths, at least 2 s
    /// and at most 30 s; hold.
    pub terms: crate::feed::Terms,
}

/// `[group.probing]`
#[derive(Clone, Debug, PartialEq)]
pub struct Probing {
    /// Slots of every endpoint, active or not. Default 1 s.
    pub interval: Duration,
    /// Slots after the first failure, and while an answer is overdue by as much. Default: a quarter of `interval`.
    pub interval_when_failing: Duration,
    /// Hard: resolve + connect + TLS + logon + answer. Default 800 ms.
    pub timeout: Duration,
    /// Each group's slots are shifted by a random part of its interval, up to this share of it, so that not all groups ask at
    /// once. Those of one group start together. Default 0.1.
    pub jitter: f64,
}

/// `[[group.endpoint]]`
#[derive(Clone, Debug, PartialEq)]
pub struct EndpointConfig {
    /// What the engine registers.
    pub endpoint: Endpoint,
    /// Whether the priority stands in the file.
    pub explicit_priority: bool,
    /// `probe`: one, or a list of several.
    pub probes: Vec<ProbeConfig>,
    /// Whether all of them must succeed (the default) or any one.
    pub require: Require,
    /// `watch`: a session that is held open beside the probes. Default none.
    pub watch: Option<WatchConfig>,
    /// Keys of what it shares with others (quota, address, uplink): flow is not moved between endpoints that share a key
    /// for a fault of that key.
    pub shared_fate: Vec<String>,
    /// What the broker does to resting orders when this path disconnects, in the operator's words; told to the reconcile
    /// hook. Default `unknown`.
    pub cancel_on_disconnect: CancelOnDisconnect,
}

impl EndpointConfig {
    /// How the end of its held session is confirmed: with as many failures as its trigger counts. A window of nothing
    /// but failures cannot be shortened by asking; one failure sets the failing pace.
    #[must_use]
    pub fn confirming(&self, group: &GroupConfig) -> Confirming {
        let spacing = self.watch.as_ref().map_or(Duration::ZERO, |watch| watch.confirm_spacing);
        let failures = match self.endpoint.trigger.unwrap_or(group.policy.trigger()).rule() {
            TriggerRule::Consecutive(failures) | TriggerRule::Failures { failures, .. } => failures.min(MOST_CONFIRMS),
            TriggerRule::Window(_) => 1,
        };
        Confirming { spacing, failures }
    }
}

/// How several probes of one endpoint add up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Require {
    /// Every one must succeed: a shallow success never clears a deeper failure.
    All,
    /// One success is enough.
    Any,
}

/// What the broker does to resting orders when a path disconnects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CancelOnDisconnect {
    /// Not known: the strictest reading applies.
    Unknown,
    /// Nothing.
    None,
    /// Cancels the session's orders.
    Session,
    /// Cancels the account's orders, other paths' too.
    Account,
}

/// One probe of an endpoint.
#[derive(Clone, Debug, PartialEq)]
pub struct ProbeConfig {
    /// What it does.
    pub kind: ProbeKind,
    /// An answer that takes as long or longer counts as a failure.
    pub slow_after: Option<Duration>,
    /// What its success proves, and what it costs.
    pub terms: Terms,
}

/// What a probe does. The address is the endpoint's `url`.
#[derive(Clone, Debug, PartialEq)]
pub enum ProbeKind {
    /// `{ tcp = {} }`: connects. Proves that something accepts, nothing more.
    Tcp,
    /// `{ tls = { .. } }`: connects and completes a handshake, checking the certificate as a client would.
    Tls(TlsConfig),
    /// `{ http = { .. } }`: one request on a fresh connection; TLS if the url says https.
    Http(HttpConfig),
    /// `{ websocket = { .. } }`: a handshake on a fresh connection, then a message; TLS if the url says wss.
    WebSocket(WebSocketConfig),
    /// `{ exec = { .. } }`: a program; exit status 0 is a success. Its process group is killed at the deadline.
    Exec(ExecConfig),
    /// `{ fix = { .. } }`: a FIX session of the probe's own, which is held; TLS if the url says fixs.
    Fix(Box<FixConfig>),
    /// `{ report = { .. } }`: what the gateway itself reports of its session and of its own orders.
    Report(ReportConfig),
}

/// How TLS is spoken.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TlsConfig {
    /// PEM file of the authorities to trust instead of the system's.
    pub ca_file: Option<PathBuf>,
    /// Name to send and to check, if it is not the url's host.
    pub server_name: Option<String>,
}

/// What is asked over HTTP, and what is a good answer.
#[derive(Clone, Debug, PartialEq)]
pub struct HttpConfig {
    /// Default `/`.
    pub path: String,
    /// Default GET.
    pub method: String,
    /// Extra headers; values are secret and never logged.
    pub headers: Vec<(String, String)>,
    /// Default `[200]`.
    pub expect_status: Vec<u16>,
    /// The body must contain this.
    pub expect_body: Option<String>,
    /// JSON pointer to the account in the body.
    pub account_pointer: Option<String>,
    /// These say that another session holds our login. Default none.
    pub competing_session_status: Vec<u16>,
    /// TLS, for https.
    pub tls: TlsConfig,
}

/// How a WebSocket session is opened, and what shows that it works.
#[derive(Clone, Debug, PartialEq)]
pub struct WebSocketConfig {
    /// Default `/`.
    pub path: String,
    /// Extra headers of the handshake; values are secret and never logged.
    pub headers: Vec<(String, String)>,
    /// The subprotocol to ask for, which the far side must then choose.
    pub subprotocol: Option<String>,
    /// A text message that is sent after the handshake; secret (it may hold a logon).
    pub subscribe: Option<String>,
    /// A message that contains this must come. Absent: a ping is sent, and its pong must come.
    pub expect_message: Option<String>,
    /// These answers to the handshake say that another session holds our login. Default none.
    pub competing_session_status: Vec<u16>,
    /// TLS, for wss.
    pub tls: TlsConfig,
}

/// `watch`: a session that is held open, whose end fires probes at once.
#[derive(Clone, Debug, PartialEq)]
pub struct WatchConfig {
    /// What is held open.
    pub session: SessionKind,
    /// Between two of the probes that its end fires. Default 10 ms, or `interval_when_failing` if that is shorter.
    pub confirm_spacing: Duration,
    /// Without traffic for so long, the far side is asked for a sign of life. Default 5 s.
    pub ping_interval: Duration,
    /// What opening it costs, and whether that proves that its login is accepted.
    pub terms: Terms,
}

/// What is held open. It must not be opened with the identity that trades.
#[derive(Clone, Debug, PartialEq)]
pub enum SessionKind {
    /// A connection.
    Tcp,
    /// A connection and a TLS handshake.
    Tls(TlsConfig),
    /// A WebSocket session; `expect_message` is of no use to it.
    WebSocket(WebSocketConfig),
}

/// A program to run.
#[derive(Clone, Debug, PartialEq)]
pub struct ExecConfig {
    /// Program and arguments; no shell.
    pub command: Vec<String>,
    /// This says that another session holds our login.
    pub competing_session_exit: Option<u8>,
    /// This says that our credential was not accepted.
    pub logon_refused_exit: Option<u8>,
}

/// A FIX session, on an identity that does not trade.
#[derive(Clone, Debug, PartialEq)]
pub struct FixConfig {
    /// BeginString.
    pub version: FixVersion,
    /// SenderCompID (49): who we are.
    pub sender_comp_id: String,
    /// SenderSubID (50).
    pub sender_sub_id: Option<String>,
    /// TargetCompID (56): who the far side is.
    pub target_comp_id: String,
    /// TargetSubID (57).
    pub target_sub_id: Option<String>,
    /// Username (553).
    pub username: Option<String>,
    /// Password (554), secret.
    pub password: Option<Password>,
    /// HeartBtInt (108), whole seconds. Default 30 s.
    pub heart_beat_interval: Duration,
    /// Whether each Logon begins at 1 with ResetSeqNumFlag (141) = Y, or goes on with the sequence file's numbers.
    pub reset_on_logon: bool,
    /// DefaultApplVerID (1137); FIXT.1.1 has it, and no other version.
    pub default_appl_ver_id: Option<String>,
    /// Further fields of the Logon, by tag; values are secret.
    pub logon_fields: Vec<(u32, Secret)>,
    /// Where the numbers are kept. One file for each session.
    pub sequence_file: PathBuf,
    /// The first wait after a Logon that was refused, or after the third in a row that a fault of the path made fail; it
    /// doubles. Default 5 s.
    pub relogon_wait: Duration,
    /// The longest of these waits. Default 1 min.
    pub relogon_wait_max: Duration,
    /// Which field of the Logon's answer names the account.
    pub account_tag: Option<u32>,
    /// Parts of a Logout's or Reject's text, in any case, that say that another session holds our identity.
    pub competing_session_text: Vec<String>,
    /// SessionStatus (1409) values that say so.
    pub competing_session_status: Vec<u64>,
    /// TLS, for fixs.
    pub tls: TlsConfig,
}

impl FixConfig {
    /// The session's name, such as `FIX.4.4 PROBE/DESK -> BROKER`.
    #[must_use]
    pub fn session(&self) -> String {
        let sub = |sub: &Option<String>| sub.as_ref().map_or_else(String::new, |sub| format!("/{sub}"));
        let (sender, target) = (sub(&self.sender_sub_id), sub(&self.target_sub_id));
        let begin = self.version.begin_string();
        format!("{begin} {}{sender} -> {}{target}", self.sender_comp_id, self.target_comp_id)
    }
}

/// A version of the session protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FixVersion {
    /// FIX.4.2
    Fix42,
    /// FIX.4.4
    Fix44,
    /// FIXT.1.1, the session layer of FIX 5.0 and later.
    Fixt11,
}

impl FixVersion {
    /// What BeginString (8) says.
    #[must_use]
    pub const fn begin_string(self) -> &'static str {
        match self {
            Self::Fix42 => "FIX.4.2",
            Self::Fix44 => "FIX.4.4",
            Self::Fixt11 => "FIXT.1.1",
        }
    }
}

/// What a gateway's reports mean.
#[derive(Clone, Debug, PartialEq)]
pub struct ReportConfig {
    /// No report for longer than this is silence. Default, and least: 2 x `interval`.
    pub max_silence: Duration,
    /// A session on which nothing has come in for longer is a fault of the path. Default 60 s: two of the 30 s that FIX
    /// sessions commonly agree on, after which the far side ends them, too.
    pub max_heartbeat_age: Duration,
    /// Answers to orders (acks and rejects) since the last slot without which there is no success. Default 0.
    pub min_answers: u64,
    /// The share of orders without an answer from which on the path is at fault. Default 0.5.
    pub unknown_share: f64,
    /// What silence is: the policy's.
    pub silence: Silence,
}

/// Whether a failback is done or only reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailbackMode {
    /// Done.
    Automatic,
    /// Reported as possible; a person does it.
    Manual,
}

/// `[group.hooks]`. A missing fence hook means that only a person can confirm a fence.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Hooks {
    /// Makes a path unable to submit orders. Levels are tried in order.
    pub fence: Vec<Hook>,
    /// Moves the transport to a path under its epoch (and undoes an older fence of it).
    pub switch: Vec<Hook>,
    /// Settles orders in flight: answers with counts.
    pub reconcile: Vec<Hook>,
    /// Halts trading.
    pub halt: Vec<Hook>,
    /// Told every change of order flow; on a freeze its answer is awaited before the fence.
    pub flow: Vec<Hook>,
}

/// One way to carry out a hook.
#[derive(Clone, Debug, PartialEq)]
pub struct Hook {
    /// What is done.
    pub action: HookAction,
    /// Required deadline.
    pub timeout: Duration,
    /// Whether it may be repeated when it is not known whether it ran. Default false.
    pub idempotent: bool,
    /// For a fence: what it proves, in the operator's words (such as `session closed`).
    pub proves: Option<String>,
    /// For a fence: how long that holds. Absent: until undone.
    pub holds: Option<Duration>,
}

/// What a hook does.
#[derive(Clone, Debug, PartialEq)]
pub enum HookAction {
    /// Program and arguments; no shell. Exit status 0 is success.
    Command(Vec<String>),
    /// POST of a JSON body; a 2xx answer is success.
    Webhook(String),
}
