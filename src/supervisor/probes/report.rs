//! `report`: what the gateway itself says of its session and of its own orders.
//!
//! Nobody is asked: a slot looks at what was reported since the slot before. Only a report that is new makes a success,
//! so that none is older than its report. That there is no session is a state, and is a fault in every slot until
//! another report says otherwise or the last one is too old to say anything.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::{Evidence, Fault, NoEvidence, ProbeFuture, Prober, Verdict};
use crate::engine::Silence;
use crate::planning::counted;
use crate::report::Session;
use crate::supervisor::clock::boottime;
use crate::supervisor::config::{Depth, ReportConfig};
use crate::supervisor::report::{Counts, Inbox, Look, Newest, Seen};

/// Looks at what was reported.
#[derive(Debug)]
pub(super) struct ReportProbe {
    config: ReportConfig,
    inbox: Arc<Inbox>,
}

impl ReportProbe {
    pub(super) fn new(config: &ReportConfig) -> Self {
        Self { config: config.clone(), inbox: Arc::new(Inbox::new(config.max_silence, boottime())) }
    }
}

impl Prober for ReportProbe {
    fn overlaps(&self) -> bool {
        true
    }

    fn probe(&self, _deadline: Instant) -> ProbeFuture<'_> {
        let now = boottime();
        let verdict = judged(&self.config, self.inbox.look(now), now);
        Box::pin(std::future::ready(verdict))
    }

    fn inbox(&self) -> Option<Arc<Inbox>> {
        Some(Arc::clone(&self.inbox))
    }
}

fn judged(config: &ReportConfig, look: Look, now: u64) -> Verdict {
    match look {
        Look::Reported(Seen { newest, counts }) => no_session(newest, now)
            .or_else(|| stale(config, newest))
            .or_else(|| unanswered(config, counts))
            .unwrap_or_else(|| answered(config, newest, counts)),
        Look::Nothing(newest) => newest.and_then(|newest| no_session(newest, now)).unwrap_or_else(|| {
            Verdict::no_evidence(NoEvidence::Silent, "the gateway reported nothing since the last slot")
        }),
        Look::Silent(silence) => {
            let text = format!("the gateway has reported nothing for {silence:.1?}");
            match config.silence {
                Silence::Note => Verdict::no_evidence(NoEvidence::Silent, text),
                Silence::Failure => Verdict::fault(Fault::Silent, text),
            }
        }
    }
}

fn no_session(newest: Newest, now: u64) -> Option<Verdict> {
    let said = Duration::from_nanos(now.saturating_sub(newest.at));
    let what = match newest.session {
        Session::Up => return None,
        Session::LoggingOn => "logging on",
        Session::Down => "no session",
    };
    Some(Verdict::fault(Fault::NoSession, format!("{what}, as the gateway said {said:.1?} ago")))
}

fn stale(config: &ReportConfig, newest: Newest) -> Option<Verdict> {
    let limit = config.max_heartbeat_age;
    let text = match newest.heartbeat_age {
        Some(age) if age <= limit => return None,
        Some(age) => format!("a session on which nothing has come in for {age:?}, more than {limit:?}"),
        None => "a session on which nothing ever came in".to_owned(),
    };
    Some(Verdict::fault(Fault::StaleHeartbeat, text))
}

fn unanswered(config: &ReportConfig, Counts { acks, rejects, unknown }: Counts) -> Option<Verdict> {
    let orders = acks.saturating_add(rejects).saturating_add(unknown);
    if unknown == 0 || (unknown as f64) < config.unknown_share * orders as f64 {
        return None;
    }
    let what = if unknown == 1 { "its outcome is unknown, it was" } else { "their outcome is unknown, they were" };
    let text = format!("{unknown} of {} without an answer: {what} not refused", counted(orders, "order"));
    Some(Verdict::fault(Fault::Unanswered, text))
}

fn answered(config: &ReportConfig, newest: Newest, Counts { acks, rejects, .. }: Counts) -> Verdict {
    let (answers, least) = (acks.saturating_add(rejects), config.min_answers);
    if answers < least {
        let text = format!("{} to orders since the last slot; a success takes {least}", counted(answers, "answer"));
        return Verdict::no_evidence(NoEvidence::FewAnswers, text);
    }
    // A reject is an answer, and shows no order that was taken.
    let depth = if acks > 0 { Depth::OrderPath } else { Depth::Authenticated };
    Verdict::Success(Evidence { latency: newest.latency.unwrap_or_default(), depth, ..Evidence::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(silence: Silence) -> ReportConfig {
        ReportConfig {
            max_silence: Duration::from_secs(2),
            max_heartbeat_age: Duration::from_secs(10),
            min_answers: 0,
            unknown_share: 0.5,
            silence,
        }
    }

    fn newest(session: Session, heartbeat: Option<u64>) -> Newest {
        let heartbeat_age = heartbeat.map(Duration::from_millis);
        Newest { at: 0, session, heartbeat_age, latency: Some(Duration::from_millis(3)) }
    }

    fn up() -> Newest {
        newest(Session::Up, Some(10))
    }

    fn of(newest: Newest, (acks, rejects, unknown): (u64, u64, u64)) -> Look {
        Look::Reported(Seen { newest, counts: Counts { acks, rejects, unknown } })
    }

    fn judge(config: &ReportConfig, look: Look) -> String {
        match judged(config, look, 400_000_000) {
            Verdict::Success(evidence) => format!("+ {:?}", evidence.latency),
            Verdict::PathFault { fault, text } => format!("x {fault:?}: {text}"),
            Verdict::NoEvidence { cause, text, .. } => format!("? {cause:?}: {text}"),
        }
    }

    #[test]
    fn each_report_is_a_success_a_fault_or_no_evidence() {
        let note = config(Silence::Note);
        let cases = [
            (of(up(), (0, 0, 0)), "+ 3ms"),
            (of(up(), (3, 0, 0)), "+ 3ms"),
            // A refusal is an answer of the broker.
            (of(up(), (0, 9, 0)), "+ 3ms"),
            (
                of(newest(Session::Down, Some(10)), (9, 0, 0)),
                "x NoSession: no session, as the gateway said 400.0ms ago",
            ),
            (
                of(newest(Session::LoggingOn, None), (0, 0, 0)),
                "x NoSession: logging on, as the gateway said 400.0ms ago",
            ),
            (of(newest(Session::Up, Some(10_000)), (0, 0, 0)), "+ 3ms"),
            (
                of(newest(Session::Up, Some(10_001)), (9, 0, 0)),
                "x StaleHeartbeat: a session on which nothing has come in for 10.001s, more than 10s",
            ),
            (of(newest(Session::Up, None), (0, 0, 0)), "x StaleHeartbeat: a session on which nothing ever came in"),
            (of(up(), (3, 3, 5)), "+ 3ms"),
            (
                of(up(), (3, 3, 6)),
                "x Unanswered: 6 of 12 orders without an answer: their outcome is unknown, they were not refused",
            ),
            (
                of(up(), (0, 0, 1)),
                "x Unanswered: 1 of 1 order without an answer: its outcome is unknown, it was not refused",
            ),
            (
                of(up(), (u64::MAX, u64::MAX, u64::MAX)),
                "x Unanswered: 18446744073709551615 of 18446744073709551615 orders without an answer: their outcome is \
                 unknown, they were not refused",
            ),
            (Look::Nothing(None), "? Silent: the gateway reported nothing since the last slot"),
            // A success is never used twice; that there is no session is a state.
            (Look::Nothing(Some(up())), "? Silent: the gateway reported nothing since the last slot"),
            (
                Look::Nothing(Some(newest(Session::Down, None))),
                "x NoSession: no session, as the gateway said 400.0ms ago",
            ),
            (Look::Silent(Duration::from_secs(3)), "? Silent: the gateway has reported nothing for 3.0s"),
        ];
        for (look, expected) in cases {
            assert_eq!(judge(&note, look), expected, "{look:?}");
        }
    }

    #[test]
    fn silence_is_a_failure_where_the_policy_says_so() {
        let look = Look::Silent(Duration::from_secs(3));
        assert_eq!(judge(&config(Silence::Failure), look), "x Silent: the gateway has reported nothing for 3.0s");
        assert_eq!(
            judge(&config(Silence::Failure), Look::Nothing(None)),
            "? Silent: the gateway reported nothing since the last slot"
        );
    }

    #[test]
    fn only_an_ack_proves_the_order_path() {
        let depth = |orders| match judged(&config(Silence::Note), of(up(), orders), 0) {
            Verdict::Success(evidence) => evidence.depth,
            verdict => panic!("{verdict:?}"),
        };
        assert_eq!(depth((0, 0, 0)), Depth::Authenticated, "a session that is up");
        assert_eq!(depth((0, 9, 0)), Depth::Authenticated, "refused, every one");
        assert_eq!(depth((1, 9, 0)), Depth::OrderPath);
        assert_eq!(depth((1, 0, 0)), Depth::OrderPath);
    }

    #[test]
    fn a_success_may_take_answers_to_orders() {
        let config = ReportConfig { min_answers: 3, unknown_share: 0.0, ..config(Silence::Note) };
        assert_eq!(judge(&config, of(up(), (2, 1, 0))), "+ 3ms");
        assert_eq!(
            judge(&config, of(up(), (1, 1, 0))),
            "? FewAnswers: 2 answers to orders since the last slot; a success takes 3"
        );
        // At a share of 0 any is too many, and none never is.
        assert!(judge(&config, of(up(), (1000, 0, 1))).starts_with("x Unanswered"));
    }
}
