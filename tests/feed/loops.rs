//! The feed of a group whose loop is gone or stuck while its process lives on, beside another group that is well.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier};
use std::time::Duration;

use broker_failover::engine::Timestamp;
use broker_failover::feed::{self, FeedReader, Snapshot};
use broker_failover::supervisor::clock::BootClock;
use broker_failover::supervisor::config::parse;
use broker_failover::supervisor::group::task::{self, GroupHandle, Ledger, Message, Results};
use broker_failover::supervisor::group::{Command, Core, DriverState, Entry, GroupFeed, first_start};
use broker_failover::supervisor::probes::Limits;
use tokio::sync::{mpsc, oneshot};

use crate::file::Folder;

/// A journal that takes everything, and in which a loop meets a fault of ours.
#[derive(Clone)]
enum Journal {
    Takes,
    Panics,
    /// Once: says so here, and comes back when it is let go here.
    Wedges(Arc<(AtomicBool, Barrier)>),
}

impl Journal {
    fn meet(&self) {
        match self {
            Self::Takes => {}
            Self::Panics => panic!("a fault of the test"),
            Self::Wedges(once) => {
                if !once.0.swap(true, Ordering::SeqCst) {
                    once.1.wait();
                    once.1.wait();
                }
            }
        }
    }
}

impl Ledger for Journal {
    fn append(&self, _: &Arc<str>, _: Timestamp, _: Entry) {
        self.meet();
    }

    async fn append_durable(&self, _: &Arc<str>, _: Timestamp, _: &Entry) -> Result<(), String> {
        self.meet();
        Ok(())
    }
}

/// A group of two paths that nobody probes, and its feed.
fn start(folder: &Folder, name: &str, journal: Journal) -> (GroupHandle, FeedReader) {
    let text = format!(
        "[supervisor]\nsocket = \"s\"\njournal = \"j\"\n[[group]]\nname = \"{name}\"\nexclusivity = \"last-login-wins\"\n\
         feed = \"{name}.feed\"\nfeed_valid_for = \"1s\"\n[group.policy]\nrequire_fence = false\n\
         require_reconciliation = false\n[[group.endpoint]]\nname = \"east\"\nregion = \"r\"\n\
         url = \"http://127.0.0.1:1\"\nprimary = true\nprobe = {{ http = {{}} }}\n\
         [[group.endpoint]]\nname = \"west\"\nregion = \"r\"\nurl = \"http://127.0.0.1:2\"\npriority = 10\n\
         probe = {{ http = {{}} }}\n"
    );
    let checked = parse(&text, folder.feed().parent().unwrap());
    let config = checked.config.unwrap_or_else(|| panic!("{:#?}", checked.findings)).groups.remove(0);
    let feed = GroupFeed::open(config.feed.as_ref().unwrap()).unwrap();
    let path = config.feed.as_ref().unwrap().path.clone();
    let engine = first_start(&config, "east", Timestamp::ZERO).unwrap();
    let core = Core::new(config, engine, DriverState::new(), Timestamp::ZERO);
    let (_, events) = mpsc::channel(1);
    let results = Results { events, watched: Vec::new(), limits: Limits::default() };
    let handle = task::start(core, journal, BootClock::default(), results, Some(feed));
    (handle, FeedReader::open(path).unwrap())
}

/// Has the loop write to its journal; what comes of it is not waited for.
async fn disturb(group: &GroupHandle) {
    let (answer, _) = oneshot::channel();
    group.inbox.send(Message::Ask { command: Command::Pause, caller: None, answer }).await.unwrap();
}

async fn until(feed: &FeedReader, what: &str, reached: impl Fn(&Snapshot) -> bool) -> Snapshot {
    for _ in 0..6_000 {
        if let Some(snapshot) = feed.read().filter(&reached) {
            return snapshot;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("waited for it in vain: {what}");
}

/// What each feed says once the first one's last heartbeat is stale, and the second one's is not.
async fn lapses_beside(broken: &FeedReader, well: &FeedReader) {
    let seen = until(broken, "it is stale", |now| now.is_stale(feed::now())).await;
    let other = until(well, "the other goes on", |now| now.heartbeat() > seen.valid_until()).await;
    let later = until(well, "and on", |now| now.heartbeat() > other.valid_until() && !now.is_stale(feed::now())).await;
    assert!(later.sequence() > other.sequence());
    let still = broken.read().expect("no publication was begun");
    assert_eq!(still, seen, "nobody extends it any more");
    assert!(still.is_stale(feed::now()) && !still.is_stopped(), "it lapsed, and was not stopped");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_feed_of_a_loop_that_ends_by_a_fault_lapses_and_another_groups_goes_on() {
    let folder = Folder::in_memory("loop-ends");
    let (lives, well) = start(&folder, "lives", Journal::Takes);
    let (breaks, broken) = start(&folder, "breaks", Journal::Panics);
    for feed in [&well, &broken] {
        let _ = until(feed, "it is valid", |now| now.heartbeat() > 0 && !now.is_stale(feed::now())).await;
    }
    disturb(&lives).await;
    disturb(&breaks).await;
    assert_eq!(task::until_one_ends(&[lives.clone(), breaks]).await, "breaks");
    lapses_beside(&broken, &well).await;
    lives.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_feed_of_a_loop_that_is_wedged_lapses_while_another_groups_goes_on_and_is_valid_again_when_it_is_free() {
    let folder = Folder::in_memory("loop-wedged");
    let once = Arc::new((AtomicBool::new(false), Barrier::new(2)));
    let meet = || {
        tokio::task::spawn_blocking({
            let once = Arc::clone(&once);
            move || once.1.wait()
        })
    };
    let (lives, well) = start(&folder, "lives", Journal::Takes);
    let (stuck, broken) = start(&folder, "wedged", Journal::Wedges(Arc::clone(&once)));
    for feed in [&well, &broken] {
        let _ = until(feed, "it is valid", |now| now.heartbeat() > 0 && !now.is_stale(feed::now())).await;
    }
    disturb(&stuck).await;
    meet().await.unwrap();
    lapses_beside(&broken, &well).await;
    meet().await.unwrap();
    let _ = until(&broken, "it is valid again", |now| !now.is_stale(feed::now())).await;
    lives.stop().await;
    stuck.stop().await;
}
