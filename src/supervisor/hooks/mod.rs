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
    /// Reason code of the decision that it carries out, or the code of a halt that was ordered.
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
    report(request, ended, started.elapsed())
}

/// The end of what was printed, without the user and the password that stand in the url, of at most [`LONGEST_OUTPUT`]
/// bytes. Why it failed stands on standard error, the answer on the last line of output: each has half of it, or more.
fn kept(ended: &Ended, url: &str) -> String {
    let secrets = secrets(url);
    let (mut muttered, output) = (clean(&ended.muttered, &secrets), clean(&ended.output, &secrets));
    if !muttered.is_empty() && !muttered.ends_with('\n') {
        muttered.push('\n');
    }
    let room = LONGEST_OUTPUT.saturating_sub(output.len()).max(LONGEST_OUTPUT / 2);
    let muttered = end_of(&muttered, room);
    let output = end_of(&output, LONGEST_OUTPUT - muttered.len());
    format!("{muttered}{output}").trim_end().to_owned()
}

/// What was printed, without secrets.
fn clean(printed: &[u8], secrets: &[&str]) -> String {
    let text = String::from_utf8_lossy(printed);
    let mut whole = &*text;
    if printed.len() >= LONGEST_OUTPUT {
        // What was cut begins anywhere: behind at most three bytes of a character, or in the middle of a secret.
        for _ in 0..3 {
            whole = whole.strip_prefix(char::REPLACEMENT_CHARACTER).unwrap_or(whole);
        }
        whole = without_end_of(whole, secrets);
    }
    secrets.iter().fold(whole.to_owned(), |text, secret| text.replace(secret, "***"))
}

/// As much of the end as fits into so many bytes.
fn end_of(text: &str, most: usize) -> &str {
    let begin = text.char_indices().map(|(at, _)| at).find(|at| text.len() - at <= most);
    begin.and_then(|at| text.get(at..)).unwrap_or_default()
}

/// The user with the password, and the password, that stand in the url.
fn secrets(url: &str) -> Vec<&str> {
    let Some((user, rest)) = url.split_once("://").and_then(|(_, rest)| rest.rsplit_once('@')) else {
        return Vec::new();
    };
    if rest.is_empty() || user.contains('/') {
        return Vec::new();
    }
    let password = user.split_once(':').map_or(user, |(_, password)| password);
    [user, password].into_iter().filter(|secret| !secret.is_empty()).collect()
}

/// The text without the longest end of a secret that it begins with.
fn without_end_of<'a>(text: &'a str, secrets: &[&str]) -> &'a str {
    let ends = secrets.iter().flat_map(|secret| secret.char_indices().filter_map(|(at, _)| secret.get(at..)));
    let rests = ends.filter_map(|end| text.strip_prefix(end));
    rests.min_by_key(|rest| rest.len()).unwrap_or(text)
}

/// How a run ended, before its answer is read.
struct Ended {
    result: HookResult,
    /// The end of what it printed on standard error.
    muttered: Vec<u8>,
    /// The end of what it printed or answered.
    output: Vec<u8>,
}

impl Ended {
    const fn of(result: HookResult) -> Self {
        Self { result, muttered: Vec::new(), output: Vec::new() }
    }
}

fn report(request: &HookRequest, ended: Ended, took: Duration) -> HookReport {
    let output = kept(&ended, &request.url);
    let mut result = ended.result;
    let mut counts = None;
    if request.stage == Stage::Reconcile && result == HookResult::Ok {
        // Standard error first, so that an answer stays on the last line; a line of its own, whatever stands before it.
        match counts_in(&String::from_utf8_lossy(&[&ended.muttered, &ended.output[..]].join(&b'\n'))) {
            Ok(found) => counts = Some(found),
            Err(why) => result = HookResult::BadAnswer(why),
        }
    }
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

    fn ended(muttered: &[u8], output: &[u8]) -> Ended {
        Ended { result: HookResult::Ok, muttered: muttered.to_vec(), output: output.to_vec() }
    }

    #[test]
    fn what_a_hook_prints_is_kept_without_the_secrets_of_the_url() {
        let url = "https://desk:pa55@api.example/x";
        let printed = ended(b"at https://desk:pa55@api.example/x", b"pa55 refused\n");
        assert_eq!(kept(&printed, url), "at https://***@api.example/x\n*** refused");
        let none = ended(b"", b"at https://api.example/a@b");
        assert_eq!(kept(&none, "https://api.example/a@b"), "at https://api.example/a@b");
        assert_eq!(kept(&ended(b"", b"ok"), "tcp://127.0.0.1:1"), "ok");
    }

    #[test]
    fn what_a_hook_prints_is_bounded_whatever_it_is() {
        let url = "https://d:p@api.example/x";
        // Each p becomes three characters, each byte that is no text one of three bytes; and an é is not cut in two.
        for byte in [&b"x"[..], b"p", b"\xff", "é".as_bytes()] {
            let long = byte.repeat(LONGEST_OUTPUT / byte.len());
            for (muttered, output) in
                [(&long[..], &long[..]), (&long, b""), (b"", &long), (b"why", &long), (&long, b"{}")]
            {
                let kept = kept(&ended(muttered, output), url);
                assert!(kept.len() <= LONGEST_OUTPUT, "{}", kept.len());
                assert!(kept.len() > LONGEST_OUTPUT - 6, "{} for {muttered:.9?} and {output:.9?}", kept.len());
                assert!(muttered != b"why" || kept.starts_with("why\n"), "{kept:.9}");
                assert!(output != b"{}" || kept.ends_with("\n{}"), "{kept:.9}");
            }
        }
    }

    #[test]
    fn no_end_of_a_secret_is_left_where_the_output_was_cut() {
        let url = "https://desk:pa55wörd@api.example/x";
        let printed = format!("desk:pa55wörd@api.example {}", "x".repeat(LONGEST_OUTPUT));
        for cut in 0.."desk:pa55wörd".len() {
            let raw = printed.as_bytes().get(cut..cut + LONGEST_OUTPUT).unwrap();
            let text = clean(raw, &secrets(url));
            assert!(text.starts_with("@api.example x"), "{cut}: {text:.20}");
        }
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
