//! Gateways that report: over the control socket, or over a socket of their own.
//!
//! A gateway is one connection. What it reports goes two ways: into the [`Inbox`] of the endpoint's `report` probe,
//! which makes one result of it at its next slot, and, if it says that orders may leave, past its group, which knows the
//! path on which they may. The second is asked for only when the published epoch is not the one that was agreed on before,
//! so that a gateway that follows costs its group nothing.
//!
//! A connection may report at [`RATE`] a second, [`BURST`] at once. Whoever reports more is told so, later and later, and
//! delays nobody but itself.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::RwLock;
use serde::Deserialize;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tracing::{debug, warn};

use super::clock::{BootClock, boottime};
use super::control::{Answer, find};
use super::group::Sending;
use super::group::task::GroupHandle;
use super::journal::Peer;
use crate::report::{LONGEST_LINE, Report, VERSION};

mod inbox;
mod socket;

pub(super) use socket::MOST_CONNECTIONS;

pub use inbox::{Counts, Inbox, Look, Newest, Seen};
pub use socket::{listen, serve};

/// Reports of one connection that are taken in a second.
pub const RATE: u32 = 50;
/// Reports of one connection that are taken at once, after it said nothing for two seconds.
pub const BURST: u32 = 100;
/// Connections of gateways to the control socket at the same time: half of its places, so that a command finds one.
pub const MOST_GATEWAYS: usize = 64;

/// How far a report may lie ahead of our clock, in nanoseconds. It is the same clock, but not everyone reads all of it.
const AHEAD: u64 = 1_000_000_000;

/// The longest excerpt of a name that an answer repeats, in characters.
const TOLD: usize = 64;

/// Where reports find the endpoints that they are of.
#[derive(Clone, Debug)]
pub struct Desk(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    clock: BootClock,
    /// By group and endpoint. One whose probe is gone is not there any more.
    inboxes: RwLock<BTreeMap<(String, String), Weak<Inbox>>>,
    places: Arc<Semaphore>,
    connections: AtomicU64,
}

impl Desk {
    /// No endpoint has a `report` probe yet. `clock` is that of the groups.
    #[must_use]
    pub fn new(clock: BootClock) -> Self {
        Self(Arc::new(Shared {
            clock,
            inboxes: RwLock::default(),
            places: Arc::new(Semaphore::new(MOST_GATEWAYS)),
            connections: AtomicU64::new(0),
        }))
    }

    /// What is reported of this endpoint goes there from now on, for as long as its probe lives.
    pub fn deliver(&self, group: &str, endpoint: &str, inbox: &Arc<Inbox>) {
        let mut inboxes = self.0.inboxes.write();
        inboxes.retain(|_, inbox| inbox.strong_count() > 0);
        inboxes.insert((group.to_owned(), endpoint.to_owned()), Arc::downgrade(inbox));
    }

    fn inbox(&self, report: &Report) -> Option<Arc<Inbox>> {
        let name = (report.group.clone(), report.endpoint.clone());
        self.0.inboxes.read().get(&name).and_then(Weak::upgrade)
    }

    /// The endpoints of a group that have a `report` probe.
    fn reported(&self, group: &str) -> Vec<String> {
        let inboxes = self.0.inboxes.read();
        let of_group = inboxes.iter().filter(|((of, _), inbox)| of == group && inbox.strong_count() > 0);
        of_group.map(|((_, endpoint), _)| endpoint.clone()).collect()
    }

    /// A connection of `peer`.
    pub(super) fn gateway(&self, peer: Peer) -> Gateway {
        let number = self.0.connections.fetch_add(1, Ordering::Relaxed);
        let tokens = Tokens { left: BURST, since: boottime() };
        Gateway {
            desk: self.clone(),
            peer,
            number,
            tokens,
            place: None,
            agreed: None,
            holds: Vec::new(),
            warned: false,
        }
    }
}

/// The line as a report, if its first key says that it is one.
pub(super) fn of_line(line: &[u8]) -> Option<Result<Report, String>> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Line {
        report: Report,
    }
    let inside = line.trim_ascii_start().strip_prefix(b"{")?.trim_ascii_start();
    inside.starts_with(b"\"report\"").then(|| {
        if line.len() > LONGEST_LINE {
            return Err(format!("a report of {} bytes; expected {LONGEST_LINE} at most", line.len()));
        }
        let parsed = serde_json::from_slice::<Line>(line);
        parsed.map(|line| line.report).map_err(|error| format!("not a report: {error}"))
    })
}

/// One connection of a gateway; dropped, it has ended.
#[derive(Debug)]
pub(super) struct Gateway {
    desk: Desk,
    peer: Peer,
    number: u64,
    tokens: Tokens,
    place: Option<OwnedSemaphorePermit>,
    /// Group, endpoint and epoch on which it may send, as the group said: it holds for as long as the epoch is in force.
    agreed: Option<(String, String, u64)>,
    /// Endpoints that it reports.
    holds: Vec<Weak<Inbox>>,
    warned: bool,
}

impl Gateway {
    /// Whether it is one of the [`MOST_GATEWAYS`].
    pub(super) const fn has_place(&self) -> bool {
        self.place.is_some()
    }

    /// Takes a report, or says why not. A connection that reports too fast waits here.
    pub(super) async fn take(&mut self, groups: &[GroupHandle], report: Result<Report, String>) -> Answer {
        let taken = match self.pace().await.and(report) {
            Ok(report) => self.deliver(groups, &report).await,
            Err(why) => Err(format!("{why}; nothing was changed")),
        };
        match taken {
            Ok(()) => Answer::Ok("taken".into()),
            Err(why) if std::mem::replace(&mut self.warned, true) => {
                debug!(user = self.peer.uid, process = self.peer.pid, why, "report refused");
                Answer::Error(why)
            }
            Err(why) => {
                // Once for each connection: a flood of reports must not be one of log lines.
                warn!(user = self.peer.uid, process = self.peer.pid, why, "report refused");
                Answer::Error(why)
            }
        }
    }

    async fn pace(&mut self) -> Result<(), String> {
        if self.place.is_none() {
            let place = Arc::clone(&self.desk.0.places).try_acquire_owned();
            let full = |_| format!("{MOST_GATEWAYS} gateways are connected already");
            self.place = Some(place.map_err(full)?);
        }
        if self.tokens.take(boottime()) {
            return Ok(());
        }
        // Nothing more is read of it meanwhile.
        tokio::time::sleep(Duration::from_secs(1) / RATE).await;
        Err(format!("more than {RATE} reports a second, {BURST} at once"))
    }

    async fn deliver(&mut self, groups: &[GroupHandle], report: &Report) -> Result<(), String> {
        let unchanged = |why: String| format!("{why}; nothing was changed");
        let now = boottime();
        let at = checked(report, now).map_err(unchanged)?;
        let group = find(groups, Some(&report.group)).map_err(unchanged)?;
        let delivered = match self.desk.inbox(report) {
            Some(inbox) => inbox.put(self.number, self.peer, at, now, report).map(|is_new| {
                if is_new {
                    self.holds.push(Arc::downgrade(&inbox));
                }
            }),
            None => Err(self.unknown(report)),
        };
        // Whoever may not report of a path may well send on it.
        if report.sending {
            self.follows(group, report, at).await?;
        }
        delivered.map_err(unchanged)
    }

    fn unknown(&self, report: &Report) -> String {
        let known = self.desk.reported(&report.group);
        let known = if known.is_empty() { "none has".to_owned() } else { format!("there is: {}", known.join(", ")) };
        let endpoint: String = report.endpoint.chars().take(TOLD).collect();
        format!("no endpoint {endpoint:?} with a report probe in group {:?}; {known}", report.group)
    }

    /// Asks the group whether orders may leave there, unless it said so of this epoch and the epoch is still in force.
    async fn follows(&mut self, group: &GroupHandle, report: &Report, at: u64) -> Result<(), String> {
        let in_force = group.reader.active().map(|active| active.epoch.get());
        let said = (&*report.group, &*report.endpoint, report.epoch);
        let agreed = self.agreed.as_ref().map(|(group, endpoint, epoch)| (&**group, &**endpoint, *epoch));
        if agreed == Some(said) && in_force == Some(report.epoch) {
            return Ok(());
        }
        let sending = Sending {
            endpoint: report.endpoint.clone(),
            epoch: report.epoch,
            at: self.desk.0.clock.at(at),
            peer: self.peer,
            line: serde_json::to_string(report).unwrap_or_default(),
        };
        group.sends(sending).await?;
        self.agreed = Some((report.group.clone(), report.endpoint.clone(), report.epoch));
        Ok(())
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        for inbox in self.holds.iter().filter_map(Weak::upgrade) {
            inbox.leave(self.number);
        }
    }
}

/// When the report was so, in nanoseconds of CLOCK_BOOTTIME, if what it says can be.
fn checked(report: &Report, now: u64) -> Result<u64, String> {
    let Report { version, epoch, at_ms, .. } = report;
    if *version != VERSION {
        return Err(format!("version {version}; expected {VERSION}"));
    }
    if *epoch == 0 {
        return Err("epoch 0; expected the epoch that the gateway was told, from 1".to_owned());
    }
    let at = at_ms.saturating_mul(1_000_000);
    if at > now.saturating_add(AHEAD) {
        let now = now / 1_000_000;
        return Err(format!("at_ms {at_ms} is ahead of the clock; expected CLOCK_BOOTTIME, which is {now}"));
    }
    Ok(at.min(now))
}

/// Reports that may still be taken.
#[derive(Debug)]
struct Tokens {
    left: u32,
    /// Up to when they were counted, in nanoseconds.
    since: u64,
}

impl Tokens {
    fn take(&mut self, now: u64) -> bool {
        let each = 1_000_000_000 / u64::from(RATE);
        let more = now.saturating_sub(self.since) / each;
        let left = u64::from(self.left).saturating_add(more).min(u64::from(BURST));
        self.since = if left == u64::from(BURST) { now } else { self.since.saturating_add(more * each) };
        self.left = u32::try_from(left).unwrap_or(BURST);
        let taken = self.left > 0;
        self.left = self.left.saturating_sub(1);
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn a_burst_is_taken_and_then_no_more_than_the_rate() {
        let mut tokens = Tokens { left: BURST, since: 0 };
        assert_eq!((0..1000).filter(|_| tokens.take(0)).count(), 100);
        let each = SECOND / 50;
        assert!(!tokens.take(each - 1));
        assert!(tokens.take(each));
        assert!(!tokens.take(each));
        // However often it asks.
        let taken = (0..10_000).filter(|step| tokens.take(each + step * SECOND / 1000)).count();
        assert_eq!(taken, 499, "50 a second for 9.999 s");
        assert_eq!((0..1000).filter(|_| tokens.take(u64::MAX)).count(), 100, "never more than the burst");
        assert!(!tokens.take(0), "a clock that goes back gives none");
    }

    #[test]
    fn a_line_is_a_report_if_its_first_key_says_so() {
        assert!(of_line(b" {\t\"report\":1}").is_some());
        assert!(of_line(b"{\"status\":true}").is_none());
        assert!(of_line(b"{\"reporter\":true}").is_none());
        assert!(of_line(b"").is_none());
    }
}
