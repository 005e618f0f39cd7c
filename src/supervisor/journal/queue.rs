//! What waits to be written, and the handle through which everybody but the writer puts it there.

use std::future::Future;
use std::mem;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use tokio::sync::{Notify, oneshot};

use super::record::{Entry, Seq};
use super::writer::{JournalFailed, SYNC_EVERY, wall};

/// Observations are written within this time (and put on disk within [`SYNC_EVERY`] from then on).
pub const WRITE_WITHIN: Duration = Duration::from_millis(20);
/// The most observations that wait to be written; whoever appends one more waits.
pub const LONGEST_QUEUE: usize = 65_536;

pub(super) type Done = oneshot::Sender<Result<Seq, JournalFailed>>;

/// A record on its way to the writer.
pub(super) struct Item {
    pub(super) entry: Entry,
    pub(super) wall: u64,
    /// Whoever waits for it to be durable.
    pub(super) done: Option<Done>,
}

#[derive(Default)]
struct Queue {
    items: Vec<Item>,
    /// Whether anybody waits for one of `items` to be durable.
    durable: bool,
    /// Whether the writer waits for a first item and must be woken.
    asleep: bool,
    /// No more items are taken.
    closed: Option<JournalFailed>,
}

#[derive(Default)]
pub(super) struct Shared {
    queue: Mutex<Queue>,
    work: Condvar,
    room: Condvar,
    /// Tells those that wait without a thread: there is room again, or the journal ended.
    changed: Notify,
}

impl Shared {
    /// Takes what nobody will write any more.
    pub(super) fn left(&self) -> Vec<Item> {
        mem::take(&mut self.queue.lock().items)
    }

    /// So many were taken from the queue: if it was full, those that wait can go on.
    fn make_room(&self, taken: usize) {
        if taken >= LONGEST_QUEUE {
            self.room.notify_all();
            self.changed.notify_waiters();
        }
    }

    pub(super) fn close(&self, why: &JournalFailed) -> bool {
        let mut queue = self.queue.lock();
        let first = queue.closed.is_none();
        if first {
            queue.closed = Some(why.clone());
        }
        drop(queue);
        self.work.notify_all();
        self.room.notify_all();
        self.changed.notify_waiters();
        first
    }
}

/// Has records written. Cheap to clone; every clone speaks to the same writer.
///
/// Records are written in the order in which they are appended, by whichever handle.
#[derive(Clone)]
pub struct JournalHandle {
    shared: Arc<Shared>,
}

impl std::fmt::Debug for JournalHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("JournalHandle").field("failed", &self.failed()).finish_non_exhaustive()
    }
}

impl JournalHandle {
    pub(super) const fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    /// Appends an observation: handed over, written within [`WRITE_WITHIN`], on disk within [`SYNC_EVERY`] from
    /// then on.
    ///
    /// Does no I/O, and no system call but to wake a writer that had nothing to do. If [`LONGEST_QUEUE`] observations wait already, waits until there is room; a task awaits
    /// [`room`](Self::room) first.
    ///
    /// # Errors
    /// The journal failed, or was closed. Nothing was appended.
    pub fn append(&self, entry: Entry) -> Result<(), JournalFailed> {
        let wall = wall();
        let mut queue = self.shared.queue.lock();
        while queue.closed.is_none() && queue.items.len() >= LONGEST_QUEUE {
            self.shared.room.wait(&mut queue);
        }
        if let Some(why) = &queue.closed {
            return Err(why.clone());
        }
        queue.items.push(Item { entry, wall, done: None });
        let asleep = mem::take(&mut queue.asleep);
        drop(queue);
        if asleep {
            self.shared.work.notify_one();
        }
        Ok(())
    }

    /// Appends a decision, at once; what is returned resolves when it and everything appended before it is on disk.
    ///
    /// Appended even if nobody waits for the result. Never waits for room.
    ///
    /// # Errors
    /// The journal failed, or was closed: take it that the decision was not recorded, and do not carry it out.
    #[must_use = "the decision must not be carried out before this resolves"]
    pub fn append_durable(
        &self,
        entry: Entry,
    ) -> impl Future<Output = Result<Seq, JournalFailed>> + Send + 'static + use<> {
        let receiver = self.enqueue(entry);
        async move {
            match receiver {
                Ok(receiver) => receiver.await.unwrap_or(Err(JournalFailed::Closed)),
                Err(why) => Err(why),
            }
        }
    }

    /// [`append_durable`](Self::append_durable) for a thread of its own: blocks, and so panics inside a runtime.
    ///
    /// # Errors
    /// As for [`append_durable`](Self::append_durable).
    pub fn append_durable_blocking(&self, entry: Entry) -> Result<Seq, JournalFailed> {
        self.enqueue(entry)?.blocking_recv().unwrap_or(Err(JournalFailed::Closed))
    }

    fn enqueue(&self, entry: Entry) -> Result<oneshot::Receiver<Result<Seq, JournalFailed>>, JournalFailed> {
        let (done, receiver) = oneshot::channel();
        let wall = wall();
        let mut queue = self.shared.queue.lock();
        if let Some(why) = &queue.closed {
            return Err(why.clone());
        }
        queue.items.push(Item { entry, wall, done: Some(done) });
        let first = !mem::replace(&mut queue.durable, true);
        queue.asleep = false;
        drop(queue);
        // Of those that come before it looks, the first wakes the writer.
        if first {
            self.shared.work.notify_one();
        }
        Ok(receiver)
    }

    /// Resolves when [`append`](Self::append) would not wait, or the journal ended.
    pub async fn room(&self) {
        loop {
            let changed = self.shared.changed.notified();
            let mut changed = std::pin::pin!(changed);
            changed.as_mut().enable();
            {
                let queue = self.shared.queue.lock();
                if queue.closed.is_some() || queue.items.len() < LONGEST_QUEUE {
                    return;
                }
            }
            changed.await;
        }
    }

    /// Why nothing can be recorded any more, if that is so.
    #[must_use]
    pub fn failed(&self) -> Option<JournalFailed> {
        self.shared.queue.lock().closed.clone()
    }

    /// Resolves when nothing can be recorded any more.
    pub async fn until_failed(&self) -> JournalFailed {
        loop {
            let changed = self.shared.changed.notified();
            let mut changed = std::pin::pin!(changed);
            changed.as_mut().enable();
            if let Some(why) = self.failed() {
                return why;
            }
            changed.await;
        }
    }

    /// Takes storage for failed: it has not answered for `long`. What it holds beyond the last durable record is unknown.
    pub fn stalled(&self, long: Duration) -> JournalFailed {
        let error = format!("no answer within {long:?}");
        let why = JournalFailed::Storage { action: "sync", file: "its folder".to_owned(), error, full: false };
        self.shared.close(&why);
        self.failed().unwrap_or(why)
    }

    /// How many records wait to be written.
    #[must_use]
    pub fn backlog(&self) -> usize {
        self.shared.queue.lock().items.len()
    }
}

/// How long the first decision waits for others that come right behind it, where a sync takes `sync`: they would wait for
/// the next one. Nothing to speak of beside the sync; nothing at all where a timer is too coarse to say so.
fn company(sync: Duration) -> Option<Duration> {
    const SHARE: u32 = 64;
    const LEAST: Duration = Duration::from_micros(30);
    Some(sync.min(SYNC_EVERY) / SHARE).filter(|wait| *wait >= LEAST)
}

/// Waits for records, or until what was written must be put on disk. False: the journal is closed, these are the last.
pub(super) fn next_batch(shared: &Shared, batch: &mut Vec<Item>, unsynced: Option<Duration>, sync: Duration) -> bool {
    let mut queue = shared.queue.lock();
    // Observations that come one after another are written together, and wake nobody.
    while !queue.durable && queue.closed.is_none() {
        if shared.work.wait_for(&mut queue, WRITE_WITHIN).timed_out() {
            break;
        }
    }
    while queue.items.is_empty() && queue.closed.is_none() {
        queue.asleep = true;
        match unsynced.map(|age| SYNC_EVERY.saturating_sub(age)) {
            Some(left) if shared.work.wait_for(&mut queue, left).timed_out() => break,
            Some(_) => {}
            None => shared.work.wait(&mut queue),
        }
    }
    queue.asleep = false;
    if let Some(wait) = company(sync).filter(|_| queue.durable && queue.closed.is_none()) {
        // Nobody wakes it meanwhile but who closes the journal.
        shared.work.wait_for(&mut queue, wait);
    }
    queue.durable = false;
    mem::swap(&mut queue.items, batch);
    let more = queue.closed.is_none();
    drop(queue);
    shared.make_room(batch.len());
    more
}

/// Takes those who came while a batch was made and wait to be durable, with everything before them: they go to the disk with
/// it instead of waiting for the next sync.
pub(super) fn latecomers(shared: &Shared, batch: &mut Vec<Item>) -> bool {
    let mut queue = shared.queue.lock();
    if !mem::take(&mut queue.durable) {
        return false;
    }
    mem::swap(&mut queue.items, batch);
    drop(queue);
    shared.make_room(batch.len());
    true
}
