//! Several probes of one path as one.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tokio::time::Instant;

use super::{Evidence, ProbeFuture, Prober, Verdict};
use crate::supervisor::config::Require;
use crate::supervisor::report::Inbox;

/// Runs all of them at once.
///
/// `All`: the path is as good as its worst part. The first fault decides at once, and where several are known by then,
/// the first in configured order explains. Without a fault, no evidence of one is no evidence of the path.
///
/// `Any`: the first success decides. Where one might still have succeeded (it gave no evidence), the others' faults do
/// not condemn the path; where all failed, the first in configured order explains.
pub(super) struct Several {
    probers: Vec<Box<dyn Prober>>,
    require: Require,
}

impl Several {
    pub(super) fn new(probers: Vec<Box<dyn Prober>>, require: Require) -> Self {
        Self { probers, require }
    }
}

impl Prober for Several {
    fn overlaps(&self) -> bool {
        self.probers.iter().all(|prober| prober.overlaps())
    }

    fn probe(&self, deadline: Instant) -> ProbeFuture<'_> {
        let mut parts: Vec<_> = self.probers.iter().map(|prober| Part::Running(prober.probe(deadline))).collect();
        Box::pin(poll_fn(move |cx| {
            for part in &mut parts {
                if let Part::Running(future) = part {
                    if let Poll::Ready(verdict) = future.as_mut().poll(cx) {
                        *part = Part::Done(verdict);
                    }
                }
            }
            combine(self.require, &parts).map_or(Poll::Pending, Poll::Ready)
        }))
    }

    fn inbox(&self) -> Option<Arc<Inbox>> {
        self.probers.iter().find_map(|prober| prober.inbox())
    }
}

enum Part<'a> {
    Running(ProbeFuture<'a>),
    Done(Verdict),
}

/// The verdict of the whole, once it is certain.
fn combine(require: Require, parts: &[Part<'_>]) -> Option<Verdict> {
    let done = || parts.iter().filter_map(|part| if let Part::Done(verdict) = part { Some(verdict) } else { None });
    let fault = || done().find(|verdict| matches!(verdict, Verdict::PathFault { .. }));
    let unknown = || done().find(|verdict| matches!(verdict, Verdict::NoEvidence { .. }));
    let successes =
        || done().filter_map(|verdict| if let Verdict::Success(seen) = verdict { Some(seen) } else { None });
    let all_done = done().count() == parts.len();
    match require {
        Require::All => match fault() {
            Some(fault) => Some(fault.clone()),
            None if all_done => Some(match unknown() {
                Some(unknown) => unknown.clone(),
                None => Verdict::Success(together(successes())),
            }),
            None => None,
        },
        Require::Any => match successes().next() {
            Some(seen) => Some(Verdict::Success(seen.clone())),
            None if all_done => unknown().or_else(fault).cloned(),
            None => None,
        },
    }
}

/// The slowest answer, the certificate that expires first, and the deepest proof.
fn together<'a>(seen: impl Iterator<Item = &'a Evidence>) -> Evidence {
    seen.fold(Evidence::default(), |all, one| Evidence {
        latency: all.latency.max(one.latency),
        certificate_expires_in: sooner(all.certificate_expires_in, one.certificate_expires_in),
        depth: all.depth.max(one.depth),
        account: all.account.or_else(|| one.account.clone()),
    })
}

fn sooner(a: Option<Duration>, b: Option<Duration>) -> Option<Duration> {
    a.into_iter().chain(b).min()
}

#[cfg(test)]
mod tests {
    use super::super::{Depth, Fault, NoEvidence};
    use super::*;

    fn ok(millis: u64) -> Verdict {
        Verdict::Success(Evidence { latency: Duration::from_millis(millis), ..Evidence::default() })
    }

    fn bad(text: &str) -> Verdict {
        Verdict::fault(Fault::Refused, text)
    }

    fn unknown() -> Verdict {
        Verdict::no_evidence(NoEvidence::Throttled, "429")
    }

    fn all(verdicts: Vec<Option<Verdict>>, require: Require) -> Option<Verdict> {
        let never = || Part::Running(Box::pin(std::future::pending()));
        let parts: Vec<_> = verdicts.into_iter().map(|verdict| verdict.map_or_else(never, Part::Done)).collect();
        combine(require, &parts)
    }

    #[test]
    fn all_of_them_must_succeed_and_the_slowest_counts() {
        let all = |verdicts| all(verdicts, Require::All);
        assert_eq!(all(vec![Some(ok(3)), Some(ok(2))]), Some(ok(3)));
        assert_eq!(all(vec![Some(ok(3)), None]), None);
        assert_eq!(all(vec![Some(ok(3)), Some(bad("deep"))]), Some(bad("deep")), "no shallow success clears it");
        assert_eq!(all(vec![None, Some(bad("deep"))]), Some(bad("deep")), "nothing can clear it any more");
        assert_eq!(all(vec![Some(bad("first")), Some(bad("second"))]), Some(bad("first")));
        assert_eq!(all(vec![Some(unknown()), Some(ok(1))]), Some(unknown()));
        assert_eq!(all(vec![Some(unknown()), None]), None, "a fault may still come");
        assert_eq!(all(vec![Some(unknown()), Some(bad("x"))]), Some(bad("x")));
    }

    #[test]
    fn any_of_them_may_succeed() {
        let any = |verdicts| all(verdicts, Require::Any);
        assert_eq!(any(vec![None, Some(ok(2))]), Some(ok(2)));
        assert_eq!(any(vec![Some(bad("first")), None]), None);
        assert_eq!(any(vec![Some(bad("first")), Some(bad("second"))]), Some(bad("first")));
        assert_eq!(any(vec![Some(bad("first")), Some(unknown())]), Some(unknown()), "it might have succeeded");
    }

    #[test]
    fn the_deepest_proof_counts_where_all_must_succeed_and_the_first_answer_where_any_may() {
        let deep = |depth| Some(Verdict::Success(Evidence { depth, ..Evidence::default() }));
        let depth = |parts, require| match all(parts, require) {
            Some(Verdict::Success(seen)) => seen.depth,
            other => panic!("{other:?}"),
        };
        let three = || vec![deep(Depth::Authenticated), deep(Depth::OrderPath), deep(Depth::Reachable)];
        assert_eq!(depth(three(), Require::All), Depth::OrderPath);
        assert_eq!(depth(vec![deep(Depth::Reachable), deep(Depth::Authenticated)], Require::All), Depth::Authenticated);
        assert_eq!(depth(three(), Require::Any), Depth::Authenticated);
    }

    #[test]
    fn the_certificate_that_expires_first_counts() {
        let day = Duration::from_secs(86_400);
        assert_eq!(sooner(Some(2 * day), Some(day)), Some(day));
        assert_eq!(sooner(None, Some(day)), Some(day));
        assert_eq!(sooner(None, None), None);
    }
}
