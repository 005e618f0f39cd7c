//! Hooks: programs and webhooks that carry out what was decided.

use serde::{Deserialize, Serialize};

/// What a hook is told: environment variables BROKER_FAILOVER_GROUP, .._ENDPOINT, .._EPOCH, .. for a command, the JSON
/// body for a webhook.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HookRequest {
    /// What is asked: `fence`, `switch`, `reconcile`, `halt`, `flow`.
    pub stage: Stage,
    /// The group.
    pub group: String,
    /// The endpoint that is fenced, switched to, reconciled on or halted on.
    pub endpoint: String,
    /// Its url, as configured.
    pub url: String,
    /// The epoch that is fenced or carried out.
    pub epoch: u64,
    /// For a fence: where flow would go. For a switch: the path that was left.
    pub target: Option<String>,
    /// Reason code of the decision.
    pub reason: String,
    /// For `reconcile`: which fence level succeeded and what it proves. For `flow`: the new order flow.
    pub detail: Option<String>,
    /// For `reconcile`: `unknown`, `none`, `session` or `account` of the path that was left.
    pub cancel_on_disconnect: Option<String>,
}

/// The stages that have hooks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stage {
    /// Make a path unable to submit orders.
    Fence,
    /// Move the transport.
    Switch,
    /// Settle orders in flight.
    Reconcile,
    /// Halt trading.
    Halt,
    /// Told of a change of order flow.
    Flow,
}

/// How one run of one hook ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HookReport {
    /// Success, or what went wrong.
    pub result: HookResult,
    /// Milliseconds that it took.
    pub millis: u64,
    /// What it printed or answered, bounded to 4 KiB, secrets redacted.
    pub output: String,
    /// For `reconcile`: the counts that it answered.
    pub counts: Option<ReconcileCounts>,
}

/// How a hook ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum HookResult {
    /// Exit status 0, or a 2xx answer.
    Ok,
    /// Another exit status (negative: killed by that signal).
    Exit(i32),
    /// Another HTTP status.
    Status(u16),
    /// Its deadline passed; its process group was killed.
    Timeout,
    /// It could not be started or reached.
    Unreachable(String),
    /// Its answer could not be understood.
    BadAnswer(String),
}

/// What a reconcile hook answers on its last line of output, or in its HTTP answer:
/// `{"resting":3,"filled":1,"unknown":0}`. Unknown above zero keeps the hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReconcileCounts {
    /// Orders that rest at the broker.
    pub resting: u64,
    /// Orders that were filled meanwhile.
    pub filled: u64,
    /// Orders whose outcome is still unknown.
    pub unknown: u64,
}
