//! Hooks: programs and webhooks that carry out what was decided.

mod command;
mod webhook;

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use super::config::{Hook, HookAction};

/// The most of a hook's output that is kept, in bytes.
pub const LONGEST_OUTPUT: usize = 4096;

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
    /// Reason code of the decision; for `halt` the code of the halt.
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

impl Stage {
    /// Its name in the configuration, the journal and the log.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fence => "fence",
            Self::Switch => "switch",
            Self::Reconcile => "reconcile",
            Self::Halt => "halt",
            Self::Flow => "flow",
        }
    }
}

impl std::fmt::Display for Stage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
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
    /// It was not wanted any more and was killed.
    Abandoned,
}

impl std::fmt::Display for HookResult {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Ok => f.write_str("ok"),
            Self::Exit(status) if *status < 0 => write!(f, "killed by signal {}", status.unsigned_abs()),
            Self::Exit(status) => write!(f, "exit status {status}"),
            Self::Status(status) => write!(f, "HTTP status {status}"),
            Self::Timeout => f.write_str("no end by its deadline"),
            Self::Unreachable(why) | Self::BadAnswer(why) => f.write_str(why),
            Self::Abandoned => f.write_str("abandoned"),
        }
    }
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

/// Runs one hook to its end, its deadline, or until `abandoned` resolves; whatever happens, there is a report.
pub async fn run(hook: &Hook, request: &HookRequest, abandoned: impl Future<Output = ()>) -> HookReport {
    let started = Instant::now();
    let deadline = started + hook.timeout;
    let ended = match &hook.action {
        HookAction::Command(argv) => command::run(argv, request, deadline, abandoned).await,
        HookAction::Webhook(url) => {
            tokio::select! {
                ended = tokio::time::timeout_at(deadline, webhook::run(url, request)) => ended.unwrap_or_else(|_| Ended::of(HookResult::Timeout)),
                () = abandoned => Ended::of(HookResult::Abandoned),
            }
        }
    };
    let mut report = report(request.stage, ended, started.elapsed());
    report.output = without_secrets(report.output, &request.url);
    report
}

/// The output without the user and the password that stand in the url.
fn without_secrets(output: String, url: &str) -> String {
    let Some((user, rest)) = url.split_once("://").and_then(|(_, rest)| rest.rsplit_once('@')) else { return output };
    if rest.is_empty() || user.contains('/') {
        return output;
    }
    let password = user.split_once(':').map_or(user, |(_, password)| password);
    [user, password]
        .into_iter()
        .filter(|secret| !secret.is_empty())
        .fold(output, |text, secret| text.replace(secret, "***"))
}

/// How a run ended, before its answer is read.
struct Ended {
    result: HookResult,
    output: Vec<u8>,
}

impl Ended {
    const fn of(result: HookResult) -> Self {
        Self { result, output: Vec::new() }
    }
}

fn report(stage: Stage, ended: Ended, took: Duration) -> HookReport {
    let text = String::from_utf8_lossy(&ended.output);
    let mut result = ended.result;
    let mut counts = None;
    if stage == Stage::Reconcile && result == HookResult::Ok {
        match counts_in(&text) {
            Ok(found) => counts = Some(found),
            Err(why) => result = HookResult::BadAnswer(why),
        }
    }
    let output = text.trim_end().to_owned();
    HookReport { result, millis: u64::try_from(took.as_millis()).unwrap_or(u64::MAX), output, counts }
}

/// The counts on the last line that is not blank.
fn counts_in(output: &str) -> Result<ReconcileCounts, String> {
    let expected = "expected {\"resting\":N,\"filled\":N,\"unknown\":N} on the last line";
    let line = output.lines().rev().find(|line| !line.trim().is_empty()).ok_or(format!("no output; {expected}"))?;
    // Numbers without their names are taken in order by the parser, and by nobody who reads them.
    let line = line.trim();
    if !line.starts_with('{') {
        return Err(format!("not an object; {expected}"));
    }
    serde_json::from_str(line).map_err(|error| format!("{error}; {expected}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_hook_prints_is_kept_without_the_secrets_of_the_url() {
        let clean = |output: &str, url| without_secrets(output.to_owned(), url);
        let url = "https://desk:pa55@api.example/x";
        assert_eq!(
            clean("at https://desk:pa55@api.example/x: pa55 refused", url),
            "at https://***@api.example/x: *** refused"
        );
        assert_eq!(clean("at https://api.example/a@b", "https://api.example/a@b"), "at https://api.example/a@b");
        assert_eq!(clean("ok", "tcp://127.0.0.1:1"), "ok");
    }

    #[test]
    fn counts_stand_on_the_last_line() {
        let counts = counts_in("looking\n{\"resting\":3,\"filled\":1,\"unknown\":0}\n\n").unwrap();
        assert_eq!(counts, ReconcileCounts { resting: 3, filled: 1, unknown: 0 });
        for bad in ["", "ok", "[0,0,0]", "{\"resting\":3}", "{\"resting\":-1,\"filled\":0,\"unknown\":0}", "{\"a\":1}"]
        {
            assert!(counts_in(bad).is_err(), "{bad}");
        }
    }
}
