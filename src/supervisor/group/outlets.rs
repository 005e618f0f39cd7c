//! Where a group's order flow is published: to readers in this process, to the feed, and to subscribers; and the beat that
//! says that the loop is alive.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use serde::Serialize;
use tokio::sync::{Semaphore, watch};
use tokio::time::{Interval, MissedTickBehavior, interval, timeout};
use tracing::{error, info, trace};

use crate::engine::{Engine, HaltCode, HaltOrder, OrderAction, OrderFlow, Reason, Timestamp};
use crate::feed::{self, FeedError, FeedWriter, Published};
use crate::path::{self, Path, PathPublisher, PathReader};

use super::super::aside::aside;
use super::super::config::{FeedConfig, GroupConfig};

/// Changes that are kept for a subscriber who is slow; one who is slower misses some, never the newest.
const KEPT: usize = 64;
/// How often the loop says that it is alive where there is no feed.
const BEAT: Duration = Duration::from_secs(1);
/// Heartbeats in the time for which the feed is valid.
const BEATS: u32 = 4;
/// How long a disk may take to take a feed: a fence waits as long for the freeze to be seen.
const LONGEST_WRITE: Duration = Duration::from_millis(500);

/// What order flow has become, as subscribers are told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Change {
    /// One more with each change of the group; starts anew with each run.
    pub number: u64,
    /// The group.
    pub group: String,
    /// Name of the active endpoint.
    pub endpoint: Option<String>,
    /// Its epoch.
    pub epoch: Option<u64>,
    /// `OPEN east #1`, `HOLD SWITCHING`, `HALT OPERATOR`.
    pub order_flow: String,
    /// Whether new orders may be sent.
    pub may_submit: bool,
    /// Whether resting orders may be cancelled.
    pub may_cancel: bool,
    /// Whether the state of orders may be asked for.
    pub may_query: bool,
    /// Reason code of the decision that made it so; null where no decision did.
    pub reason: Option<&'static str>,
    /// An ordered halt's words.
    pub halt_text: Option<String>,
}

/// The latest changes, oldest first; never empty.
pub type Recent = VecDeque<Arc<Change>>;

/// What subscribers of a group are told from.
#[derive(Clone, Debug)]
pub struct Changes {
    /// The latest changes; closed when the group's loop has ended.
    pub recent: watch::Receiver<Recent>,
    beaten: Arc<AtomicU64>,
}

impl Changes {
    #[cfg(test)]
    pub(crate) fn of(recent: watch::Receiver<Recent>) -> Self {
        Self { recent, beaten: Arc::new(AtomicU64::new(feed::now())) }
    }

    /// How long ago the loop last said that it is alive.
    #[must_use]
    pub fn beat_age(&self) -> Duration {
        Duration::from_nanos(feed::now().saturating_sub(self.beaten.load(Ordering::Relaxed)))
    }
}

/// The feed of a group, taken over and not written yet.
#[derive(Debug)]
pub struct GroupFeed {
    config: FeedConfig,
    writer: Arc<Mutex<FeedWriter>>,
    in_memory: bool,
    /// A write that hangs keeps its place, so that only one can.
    places: Arc<Semaphore>,
}

impl GroupFeed {
    /// Takes over what an earlier run left, or makes a new file.
    ///
    /// # Errors
    /// As [`FeedWriter::open`].
    pub fn open(config: &FeedConfig) -> Result<Self, FeedError> {
        let writer = FeedWriter::open(&config.path)?;
        let in_memory = writer.is_in_memory();
        let writer = Arc::new(Mutex::new(writer));
        Ok(Self { config: config.clone(), writer, in_memory, places: Arc::new(Semaphore::new(1)) })
    }

    /// Memory is written in place. A disk may hang, and must not take the loop with it.
    async fn write(
        &self,
        work: impl FnOnce(&mut FeedWriter) -> std::io::Result<()> + Send + 'static,
    ) -> Result<(), String> {
        if self.in_memory {
            return work(&mut self.writer.lock()).map_err(|error| error.to_string());
        }
        let writer = Arc::clone(&self.writer);
        match timeout(LONGEST_WRITE, aside(&self.places, move || work(&mut writer.lock()))).await {
            Ok(written) => written.and_then(|written| written).map_err(|error| error.to_string()),
            Err(_) => Err(format!("its disk has not answered for {LONGEST_WRITE:?}")),
        }
    }
}

/// Publishes, and beats.
pub(super) struct Outlets {
    group: String,
    path: PathPublisher,
    feed: Option<GroupFeed>,
    published: Published,
    changes: watch::Sender<Recent>,
    beat: Interval,
    beaten: Arc<AtomicU64>,
    trouble: Option<String>,
    untold: bool,
}

impl Outlets {
    /// The outlets of a group whose engine is `engine`, with what reads them. The feed is not written yet.
    pub(super) fn new(
        config: &GroupConfig,
        engine: &Engine,
        now: Timestamp,
        feed: Option<GroupFeed>,
    ) -> (Self, PathReader, Changes) {
        let path = Path::of(engine);
        let first = change(&config.name, 1, path, engine);
        let (publisher, reader) = path::publish(path, now);
        let (changes, recent) = watch::channel(Recent::from([Arc::new(first)]));
        let beaten = Arc::new(AtomicU64::new(feed::now()));
        let outlets = Self {
            group: config.name.clone(),
            path: publisher,
            beat: beats(feed.as_ref()),
            feed,
            published: published(path, engine),
            changes,
            beaten: Arc::clone(&beaten),
            trouble: None,
            untold: false,
        };
        (outlets, reader, Changes { recent, beaten })
    }

    /// Lets everybody see it; whether order flow reads differently now. The feed is written before this ends, or has said
    /// why it cannot be: that stops nothing, since it lapses by itself, and the fence is what makes a path unable to trade.
    pub(super) async fn publish(
        &mut self,
        path: Path,
        engine: &Engine,
        now: Timestamp,
        reason: Option<Reason>,
    ) -> bool {
        self.path.publish(path, now, reason);
        trace!(group = &*self.group, "published");
        self.published = published(path, engine);
        self.write_feed(false).await;
        self.tell(path, engine, reason)
    }

    /// Tells subscribers if it is news; whether order flow reads differently now.
    pub(super) fn tell(&mut self, path: Path, engine: &Engine, reason: Option<Reason>) -> bool {
        let last = self.changes.borrow().back().cloned();
        let number = last.as_ref().map_or(0, |last| last.number);
        let told =
            Change { reason: last.as_ref().and_then(|last| last.reason), ..change(&self.group, number, path, engine) };
        if last.as_deref() == Some(&told) {
            return false;
        }
        let new = Arc::new(Change { number: number + 1, reason: reason.map(Reason::code), ..told });
        let differs = last.is_none_or(|last| last.order_flow != new.order_flow);
        self.changes.send_modify(|recent| {
            recent.push_back(new);
            if recent.len() > KEPT {
                recent.pop_front();
            }
        });
        differs
    }

    /// Order flow in words, as it was last told.
    pub(super) fn order_flow(&self) -> String {
        self.changes.borrow().back().map(|last| last.order_flow.clone()).unwrap_or_default()
    }

    /// Ends when the next beat is due.
    pub(super) async fn due(&mut self) {
        self.beat.tick().await;
    }

    /// Says that the loop is alive: what is published holds for longer.
    pub(super) async fn beat(&mut self) {
        self.beaten.store(feed::now(), Ordering::Relaxed);
        self.write_feed(true).await;
    }

    /// Does `work`, which the loop waits for and which ends in bounded time, and beats meanwhile: a disk that is slow is no
    /// loop that is dead.
    pub(super) async fn beating<T>(&mut self, work: impl Future<Output = T>) -> T {
        let mut work = std::pin::pin!(work);
        loop {
            tokio::select! {
                biased;
                done = &mut work => return done,
                () = self.due() => self.beat().await,
            }
        }
    }

    /// The file may ask for other terms now.
    pub(super) async fn reconfigured(&mut self, config: &GroupConfig) {
        let (Some(feed), Some(new)) = (&mut self.feed, &config.feed) else { return };
        if feed.config.terms != new.terms {
            feed.config.terms = new.terms;
            self.beat = beats(self.feed.as_ref());
            self.write_feed(false).await;
        }
    }

    /// Nobody decides from now on.
    pub(super) async fn stop(&mut self) {
        let Some(feed) = &self.feed else { return };
        let (published, when_stale) = (self.published, feed.config.terms.when_stale);
        let stopped = feed.write(move |writer| writer.stop(published, when_stale)).await;
        self.wrote(stopped);
    }

    /// Why the feed cannot be written, while it cannot.
    pub(super) fn trouble(&self) -> Option<&str> {
        self.trouble.as_deref()
    }

    /// The same once, for the journal, when it begins.
    pub(super) fn new_trouble(&mut self) -> Option<String> {
        std::mem::take(&mut self.untold).then(|| self.trouble.clone()).flatten()
    }

    async fn write_feed(&mut self, looks: bool) {
        let Some(feed) = &self.feed else { return };
        let (published, terms) = (self.published, feed.config.terms);
        let written = feed.write(move |writer| {
            writer.publish(published, terms)?;
            if looks { writer.check().map_err(std::io::Error::other) } else { Ok(()) }
        });
        let written = written.await;
        // Only a beat looks at the file itself: what it found stays true until the next one.
        if looks || written.is_err() {
            self.wrote(written);
        }
    }

    fn wrote(&mut self, written: Result<(), String>) {
        let path = self.feed.as_ref().map_or_else(PathBuf::new, |feed| feed.config.path.clone());
        match (written, self.trouble.is_some()) {
            (Ok(()), false) => {}
            (Ok(()), true) => {
                (self.trouble, self.untold) = (None, false);
                info!(group = self.group, feed = %path.display(), "the feed is written again");
            }
            (Err(text), known) => {
                if !known {
                    error!(group = self.group, feed = %path.display(), error = text, "the feed cannot be written: it lapses");
                    self.untold = true;
                }
                self.trouble = Some(text);
            }
        }
    }
}

fn beats(feed: Option<&GroupFeed>) -> Interval {
    let every = feed.map_or(BEAT, |feed| feed.config.terms.valid_for / BEATS);
    let mut beat = interval(every.max(Duration::from_millis(1)));
    beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    beat
}

/// What the feed says of `path`. What is published may be less than what the engine decided already.
fn published(path: Path, engine: &Engine) -> Published {
    let active = path.active();
    let name = active.and_then(|active| engine.endpoint(active.endpoint)).map_or("", |endpoint| &endpoint.name);
    let active = active.map(|active| (active.endpoint, active.epoch));
    Published::new(active, name, path.order_flow(), path.permits(OrderAction::Cancel))
}

fn change(group: &str, number: u64, path: Path, engine: &Engine) -> Change {
    let active = path.active();
    let endpoint = active.and_then(|active| engine.endpoint(active.endpoint)).map(|endpoint| endpoint.name.clone());
    let order = engine.halt_order().filter(|_| path.must_halt());
    let order_flow = match path.order_flow() {
        OrderFlow::Open { epoch, .. } => format!("OPEN {} #{epoch}", endpoint.as_deref().unwrap_or("?")),
        OrderFlow::Hold { reason } => format!("HOLD {}", reason.name()),
        OrderFlow::Halt { code: HaltCode::NoTargetAvailable } => format!("HALT {}", HaltOrder::NO_TARGET_AVAILABLE),
        OrderFlow::Halt { code: HaltCode::Operator } => format!("HALT {}", HaltOrder::OPERATOR),
        OrderFlow::Halt { code: HaltCode::Caller } => format!("HALT {}", order.map_or("CALLER", HaltOrder::code)),
    };
    Change {
        number,
        group: group.to_owned(),
        endpoint,
        epoch: active.map(|active| active.epoch.get()),
        order_flow,
        may_submit: path.permits(OrderAction::Submit),
        may_cancel: path.permits(OrderAction::Cancel),
        may_query: path.permits(OrderAction::Query),
        reason: None,
        halt_text: order.map(|order| order.text().to_owned()),
    }
}
