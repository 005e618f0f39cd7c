//! What was reported of one endpoint since its `report` probe last looked.

use std::time::Duration;

use parking_lot::Mutex;

use crate::report::{Report, Session};
use crate::supervisor::journal::Peer;

/// Reports of one endpoint, from one gateway at a time. All times are nanoseconds of CLOCK_BOOTTIME.
#[derive(Debug)]
pub struct Inbox {
    max_silence: u64,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    holder: Option<Holder>,
    newest: Option<Newest>,
    counts: Counts,
    /// Reports since the last look.
    reports: u64,
    last_look: u64,
    /// Nobody reported since: the newest report, the start, or the end of a time in which nobody looked.
    silent_since: u64,
    /// Looks in a row that found nothing new.
    empty_looks: u32,
}

/// Who reports.
#[derive(Clone, Copy, Debug)]
struct Holder {
    connection: u64,
    peer: Peer,
    heard: u64,
}

/// Orders since the last look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// That the broker took.
    pub acks: u64,
    /// That it refused.
    pub rejects: u64,
    /// Of which the outcome became unknown.
    pub unknown: u64,
}

/// What the newest report says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Newest {
    /// When that was so.
    pub at: u64,
    /// The session.
    pub session: Session,
    /// Since when nothing came in from the broker; `None`: nothing ever did.
    pub heartbeat_age: Option<Duration>,
    /// The slowest answer since the last look.
    pub latency: Option<Duration>,
}

/// What a look finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// New reports, the newest of them not older than `max_silence`.
    Reported(Seen),
    /// None since the last look. The newest, if it is not older than `max_silence`.
    Nothing(Option<Newest>),
    /// None for longer than `max_silence`.
    Silent(Duration),
}

/// New reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// The newest.
    pub newest: Newest,
    /// Orders of all of them.
    pub counts: Counts,
}

impl Inbox {
    /// Nothing was reported yet, at `now`.
    #[must_use]
    pub fn new(max_silence: Duration, now: u64) -> Self {
        let state = State {
            holder: None,
            newest: None,
            counts: Counts::default(),
            reports: 0,
            last_look: now,
            silent_since: now,
            empty_looks: 0,
        };
        let max_silence = u64::try_from(max_silence.as_nanos()).unwrap_or(u64::MAX);
        Self { max_silence, state: Mutex::new(state) }
    }

    /// Takes a report that was so `at`; whether the connection is one that did not report this endpoint before.
    ///
    /// # Errors
    /// Another one reports it: it is still connected, and was heard within `max_silence`.
    pub(super) fn put(&self, connection: u64, peer: Peer, at: u64, now: u64, report: &Report) -> Result<bool, String> {
        let mut state = self.state.lock();
        let is_new = match &mut state.holder {
            Some(holder) if holder.connection == connection => {
                holder.heard = now;
                false
            }
            Some(Holder { peer: other, heard, .. }) if now.saturating_sub(*heard) <= self.max_silence => {
                let Peer { uid, pid } = other;
                return Err(format!(
                    "another connection reports {:?} (user {uid}, process {pid}); expected one gateway for each endpoint",
                    report.endpoint
                ));
            }
            _ => {
                state.holder = Some(Holder { connection, peer, heard: now });
                true
            }
        };
        state.add(at, report);
        Ok(is_new)
    }

    /// That connection has ended.
    pub(super) fn leave(&self, connection: u64) {
        self.state.lock().holder.take_if(|holder| holder.connection == connection);
    }

    /// What was reported since the last look, which this is from now on.
    pub fn look(&self, now: u64) -> Look {
        let mut state = self.state.lock();
        if now.saturating_sub(state.last_look) > self.max_silence {
            // We did not look: what was reported meanwhile may still wait to be read.
            state.silent_since = state.silent_since.max(now);
        }
        state.last_look = now;
        let is_late = |newest: &Newest| now.saturating_sub(newest.at) > self.max_silence;
        let newest = state.newest.filter(|newest| !is_late(newest));
        let (reports, counts) = (std::mem::take(&mut state.reports), std::mem::take(&mut state.counts));
        if let (Some(newest), 1..) = (newest, reports) {
            state.empty_looks = 0;
            if let Some(newest) = &mut state.newest {
                newest.latency = None;
            }
            return Look::Reported(Seen { newest, counts });
        }
        state.empty_looks = state.empty_looks.saturating_add(1);
        let silence = now.saturating_sub(state.silent_since);
        // The first empty look may be our own delay; a report that was waiting is there at the next.
        if silence > self.max_silence && state.empty_looks > 1 {
            return Look::Silent(Duration::from_nanos(silence));
        }
        Look::Nothing(newest)
    }
}

impl State {
    fn add(&mut self, at: u64, report: &Report) {
        self.reports = self.reports.saturating_add(1);
        let Counts { acks, rejects, unknown } = &mut self.counts;
        *acks = acks.saturating_add(report.acks);
        *rejects = rejects.saturating_add(report.rejects);
        *unknown = unknown.saturating_add(report.unknown);
        let latency = self.newest.and_then(|newest| newest.latency).max(report.latency_us.map(Duration::from_micros));
        match &mut self.newest {
            // Of two reports the later one tells how it is now, in whatever order they came.
            Some(newest) if newest.at > at => newest.latency = latency,
            newest => {
                let heartbeat_age = report.heartbeat_age_ms.map(Duration::from_millis);
                *newest = Some(Newest { at, session: report.session, heartbeat_age, latency });
                self.silent_since = self.silent_since.max(at);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;
    const PEER: Peer = Peer { uid: 1, pid: 2 };

    fn inbox() -> Inbox {
        Inbox::new(Duration::from_millis(2000), 0)
    }

    fn report(acks: u64, latency: Option<u64>) -> Report {
        Report { acks, session: Session::Up, latency_us: latency, at_ms: 0, ..Report::new("main", "east", 1) }
    }

    fn put(inbox: &Inbox, connection: u64, at: u64, report: &Report) -> Result<bool, String> {
        inbox.put(connection, PEER, at * MS, at * MS, report)
    }

    fn acks(look: Look) -> Option<u64> {
        if let Look::Reported(seen) = look { Some(seen.counts.acks) } else { None }
    }

    #[test]
    fn each_report_is_in_one_look() {
        let inbox = inbox();
        put(&inbox, 1, 100, &report(2, Some(9))).unwrap();
        put(&inbox, 1, 200, &report(3, Some(4))).unwrap();
        let Look::Reported(seen) = inbox.look(300 * MS) else { panic!() };
        assert_eq!(
            (seen.counts.acks, seen.newest.at, seen.newest.latency),
            (5, 200 * MS, Some(Duration::from_micros(9)))
        );
        assert!(matches!(inbox.look(400 * MS), Look::Nothing(Some(newest)) if newest.at == 200 * MS));
        put(&inbox, 1, 450, &report(1, None)).unwrap();
        let Look::Reported(seen) = inbox.look(500 * MS) else { panic!() };
        assert_eq!((seen.counts.acks, seen.newest.latency), (1, None));
    }

    #[test]
    fn silence_is_longer_than_the_limit_and_seen_twice() {
        let inbox = inbox();
        put(&inbox, 1, 100, &report(0, None)).unwrap();
        assert!(acks(inbox.look(500 * MS)).is_some());
        assert!(matches!(inbox.look(1500 * MS), Look::Nothing(Some(_))));
        assert!(matches!(inbox.look(2100 * MS), Look::Nothing(Some(_))), "exactly the limit is not longer");
        assert_eq!(inbox.look(2101 * MS), Look::Silent(Duration::from_millis(2001)));
        // A report that says how it was longer ago than that changes nothing.
        inbox.put(1, PEER, 150 * MS, 2200 * MS, &report(7, None)).unwrap();
        assert!(matches!(inbox.look(2300 * MS), Look::Silent(_)));
        put(&inbox, 1, 2400, &report(1, None)).unwrap();
        assert_eq!(acks(inbox.look(2500 * MS)), Some(1), "what is too old is not counted later");
    }

    #[test]
    fn the_first_empty_look_after_we_were_away_is_not_silence() {
        let inbox = inbox();
        put(&inbox, 1, 100, &report(0, None)).unwrap();
        assert!(acks(inbox.look(200 * MS)).is_some());
        // Frozen for a minute.
        assert_eq!(inbox.look(60_000 * MS), Look::Nothing(None));
        assert_eq!(inbox.look(61_000 * MS), Look::Nothing(None));
        assert_eq!(inbox.look(62_000 * MS), Look::Nothing(None));
        assert!(matches!(inbox.look(62_001 * MS), Look::Silent(_)));
    }

    #[test]
    fn one_late_look_that_finds_nothing_is_not_silence_yet() {
        let inbox = inbox();
        put(&inbox, 1, 100, &report(0, None)).unwrap();
        assert!(acks(inbox.look(200 * MS)).is_some());
        // Not away for long enough to begin anew, but what was reported meanwhile may not have been read.
        assert_eq!(inbox.look(2150 * MS), Look::Nothing(None));
        assert_eq!(inbox.look(2160 * MS), Look::Silent(Duration::from_millis(2060)));
    }

    #[test]
    fn one_gateway_reports_until_it_leaves_or_falls_silent() {
        let inbox = inbox();
        assert_eq!(put(&inbox, 1, 0, &report(1, None)), Ok(true));
        assert_eq!(put(&inbox, 1, 100, &report(1, None)), Ok(false));
        let why = put(&inbox, 2, 2100, &report(100, None)).unwrap_err();
        assert!(why.contains("another connection reports \"east\" (user 1, process 2)"), "{why}");
        assert_eq!(acks(inbox.look(2100 * MS)), Some(2), "the refused one counts for nothing");
        assert_eq!(put(&inbox, 2, 2101, &report(1, None)), Ok(true), "the first has been silent for longer");
        assert!(put(&inbox, 1, 2200, &report(1, None)).is_err());
        inbox.leave(1);
        assert!(put(&inbox, 3, 2300, &report(1, None)).is_err(), "it was not the first's to leave any more");
        inbox.leave(2);
        assert_eq!(put(&inbox, 3, 2400, &report(1, None)), Ok(true));
    }

    #[test]
    fn counts_end_at_their_limit() {
        let inbox = inbox();
        for at in [1, 2] {
            put(&inbox, 1, at, &report(u64::MAX, Some(u64::MAX))).unwrap();
        }
        assert_eq!(acks(inbox.look(3 * MS)), Some(u64::MAX));
    }
}
