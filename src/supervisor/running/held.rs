//! Sessions that are held open beside the probes: opened, watched, and opened again, without haste and without a herd.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Semaphore, mpsc};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Instant, sleep, timeout_at};
use tracing::{error, trace};

use super::super::group::task::Message;
use super::super::group::{Event, SessionNews};
use super::super::probes::{Fault, Holder, Loss, NoEvidence, Verdict};
use super::super::scheduler::{Confirmer, Confirming};
use crate::engine::EndpointId;

/// The first wait before a session is opened again; it doubles each time.
const FIRST_WAIT: Duration = Duration::from_millis(500);
/// The longest of those waits.
const LONGEST_WAIT: Duration = Duration::from_secs(60);
/// A session that stood for so long was a good one: the waits begin anew.
const STEADY: Duration = Duration::from_secs(10);

/// A session that is held, or will be again. Dropped, it is let go.
pub(super) struct Held {
    /// What opens it.
    pub(super) holder: Arc<dyn Holder>,
    /// How its end is confirmed, and of what the scheduler calls it.
    pub(super) how: Confirming,
    pub(super) key: EndpointId,
    place: Arc<Semaphore>,
    task: JoinHandle<()>,
}

/// Everything that holding one takes.
#[derive(Clone)]
pub(super) struct Hold {
    pub(super) endpoint: String,
    pub(super) holder: Arc<dyn Holder>,
    /// What its end sets off.
    pub(super) confirmer: Confirmer,
    /// How long opening it may take.
    pub(super) timeout: Duration,
    /// Where the group hears of it.
    pub(super) inbox: mpsc::Sender<Message>,
}

/// How one attempt at a session ended.
enum End {
    /// It stood for so long.
    Lost(Duration),
    /// It could not be opened; perhaps not to be asked for again before so long.
    Refused(Option<Duration>),
    /// Nobody was asked: our own limits forbid it.
    Withheld,
}

impl Held {
    /// Holds a session from now on, in the place of another, which hangs up first: a broker must not see both. Must be
    /// called on a tokio runtime.
    pub(super) fn start(hold: Hold, how: Confirming, key: EndpointId, before: Option<Self>) -> Self {
        let place = before.as_ref().map_or_else(|| Arc::new(Semaphore::new(1)), |before| Arc::clone(&before.place));
        drop(before);
        let holder = Arc::clone(&hold.holder);
        let task = tokio::spawn(hold.go_on(Arc::clone(&place)));
        Self { holder, how, key, place, task }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Hold {
    /// One session after the other. Each in a task of its own, so that one that panics is told, and is not the last;
    /// where the probes are, so that its end becomes a probe without a detour.
    async fn go_on(self, place: Arc<Semaphore>) {
        let mut attempt = 0;
        loop {
            // It may be told so anew while this waits, and a reload may end it.
            while let Some(patience) = self.confirmer.patience() {
                sleep(patience.min(LONGEST_WAIT)).await;
            }
            let mut session = JoinSet::new();
            session.spawn_on(self.clone().once(Arc::clone(&place)), &self.confirmer.runtime());
            let end = match session.join_next().await {
                Some(Ok(end)) => end,
                Some(Err(error)) => {
                    let text = error.to_string();
                    error!(endpoint = self.endpoint, error = text, "the watch of a session died");
                    self.tell(SessionNews::Died { text }).await;
                    End::Refused(None)
                }
                None => End::Refused(None),
            };
            let asked = !matches!(end, End::Withheld);
            let (lasted, patience) = match end {
                End::Lost(lasted) => (lasted, Duration::ZERO),
                End::Refused(patience) => (Duration::ZERO, patience.unwrap_or_default()),
                End::Withheld => (Duration::ZERO, Duration::ZERO),
            };
            if lasted >= STEADY {
                attempt = 0;
            }
            sleep(wait(attempt, RandomState::new().hash_one(attempt)).max(patience.min(LONGEST_PATIENCE))).await;
            // Where nobody was asked, nobody is spared by a longer wait.
            attempt = attempt.saturating_add(u32::from(asked));
        }
    }

    async fn once(self, place: Arc<Semaphore>) -> End {
        // Held for as long as the session: one that was let go is gone a moment later.
        let _place = place.acquire().await;
        let deadline = Instant::now() + self.timeout;
        let opened = timeout_at(deadline, self.holder.hold(deadline)).await;
        match opened.unwrap_or_else(|_| Err(Verdict::timeout(self.timeout))) {
            Ok(loss) => End::Lost(self.until(loss).await),
            Err(verdict) => {
                let logon_refused = matches!(verdict, Verdict::PathFault { fault: Fault::LogonRefused, .. });
                let (text, end) = match verdict {
                    Verdict::NoEvidence { cause: NoEvidence::OverBudget | NoEvidence::LogonsStopped, text, .. } => {
                        (text, End::Withheld)
                    }
                    Verdict::NoEvidence { text, retry_after, .. } => (text, End::Refused(retry_after)),
                    Verdict::PathFault { text, .. } => (text, End::Refused(None)),
                    Verdict::Success(_) => (String::new(), End::Refused(None)),
                };
                self.tell(SessionNews::Refused { text, logon_refused }).await;
                end
            }
        }
    }

    async fn until(&self, loss: Loss) -> Duration {
        let since = Instant::now();
        // Watched before it is told: nothing may come between its end and the probes.
        let mut loss = std::pin::pin!(loss);
        let text = tokio::select! {
            biased;
            text = &mut loss => text,
            () = self.tell(SessionNews::Open) => loss.await,
        };
        trace!(endpoint = self.endpoint, "session ended");
        let confirmed = self.confirmer.confirm();
        let lasted = since.elapsed();
        self.tell(SessionNews::Lost { text, confirmed }).await;
        lasted
    }

    async fn tell(&self, news: SessionNews) {
        let event = Event::Session { endpoint: self.endpoint.clone(), news };
        // A group that has stopped needs not know.
        let _ = self.inbox.send(Message::Event(event)).await;
    }
}

/// The longest that a far side's wish for patience is followed: a day.
const LONGEST_PATIENCE: Duration = Duration::from_secs(86_400);

/// How long to wait before the next attempt: half of it for certain, half at random, so that sessions that end together
/// do not come back together.
fn wait(attempt: u32, draw: u64) -> Duration {
    let whole = FIRST_WAIT.saturating_mul(1_u32.checked_shl(attempt).unwrap_or(u32::MAX)).min(LONGEST_WAIT);
    let share = f64::from(u32::try_from(draw >> 32).unwrap_or(0)) / f64::from(u32::MAX);
    whole / 2 + (whole / 2).mul_f64(share)
}

/// The most openings of one session in any such span. As many as the shortest waits let in; of a longer span, as many in each
/// [`STEADY`] of it: a session that stood for so long, so that the waits begin anew, let none in meanwhile.
pub(in super::super) fn most_openings(span: Duration) -> u128 {
    let refused_within = |span: Duration| {
        let (mut openings, mut at) = (0, Duration::ZERO);
        while at < span {
            at += wait(openings, 0);
            openings += 1;
        }
        u128::from(openings)
    };
    let whole = span.as_nanos() / STEADY.as_nanos();
    let rest = Duration::from_nanos(u64::try_from(span.as_nanos() % STEADY.as_nanos()).unwrap_or(u64::MAX));
    whole.saturating_mul(refused_within(STEADY)).saturating_add(refused_within(rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::sync::atomic::{AtomicU32, Ordering};

    use super::super::super::probes::Opening;
    use super::super::super::scheduler::{Confirmed, Group, Options, Scheduler};

    /// Panics the first time; the second time its session ends at once.
    struct Clumsy(AtomicU32);

    impl Holder for Clumsy {
        fn hold(&self, _: Instant) -> Opening<'_> {
            Box::pin(async {
                assert!(self.0.fetch_add(1, Ordering::SeqCst) > 0, "clumsy");
                let loss: Loss = Box::pin(async { "gone".to_owned() });
                Ok(loss)
            })
        }
    }

    fn start(holder: Arc<dyn Holder>, group: &Group, inbox: mpsc::Sender<Message>, before: Option<Held>) -> Held {
        let how = Confirming { spacing: Duration::from_millis(10), failures: 3 };
        let key = EndpointId::from_index(0);
        let confirmer = group.confirmer(key, how);
        let hold = Hold { endpoint: "east".to_owned(), holder, confirmer, timeout: Duration::from_secs(5), inbox };
        Held::start(hold, how, key, before)
    }

    #[tokio::test]
    async fn b08_a_watch_that_dies_is_told_and_another_takes_its_place() {
        let scheduler = Scheduler::start(Options::default()).unwrap();
        let (events, _taken) = mpsc::channel(1);
        let group = scheduler.group(events);
        let (inbox, mut heard) = mpsc::channel(8);
        let held = start(Arc::new(Clumsy(AtomicU32::new(0))), &group, inbox, None);
        let mut next = async || match heard.recv().await {
            Some(Message::Event(Event::Session { endpoint, news })) => {
                assert_eq!(endpoint, "east");
                news
            }
            other => panic!("{other:?}"),
        };
        assert!(matches!(next().await, SessionNews::Died { text } if text.contains("panic")));
        // It may end before it was told to stand.
        let news = match next().await {
            SessionNews::Open => next().await,
            news => news,
        };
        assert_eq!(news, SessionNews::Lost { text: "gone".to_owned(), confirmed: Confirmed::Unwatched });
        drop(held);
        while heard.recv().await.is_some() {}
    }

    /// Counts its sessions; the most at once.
    #[derive(Default)]
    struct Counting {
        open: Arc<AtomicU32>,
        most: AtomicU32,
    }

    /// A session that takes a moment to hang up.
    struct Standing(Arc<AtomicU32>);

    impl Drop for Standing {
        fn drop(&mut self) {
            std::thread::yield_now();
            self.0.fetch_sub(1, Ordering::SeqCst);
        }
    }

    impl Holder for Counting {
        fn hold(&self, _: Instant) -> Opening<'_> {
            Box::pin(async {
                self.most.fetch_max(self.open.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                let standing = Standing(Arc::clone(&self.open));
                let loss: Loss = Box::pin(async move {
                    let _standing = standing;
                    std::future::pending().await
                });
                Ok(loss)
            })
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn b12_a_session_in_the_place_of_another_opens_when_that_one_has_hung_up() {
        let scheduler = Scheduler::start(Options::default()).unwrap();
        let (events, _taken) = mpsc::channel(1);
        let group = scheduler.group(events);
        let (inbox, mut heard) = mpsc::channel(8);
        let counting = Arc::new(Counting::default());
        let mut held = None;
        for _ in 0..2_000 {
            held = Some(start(Arc::<Counting>::clone(&counting), &group, inbox.clone(), held.take()));
            let news = heard.recv().await;
            assert!(matches!(news, Some(Message::Event(Event::Session { news: SessionNews::Open, .. }))), "{news:?}");
        }
        drop(held);
        assert_eq!(counting.most.load(Ordering::SeqCst), 1, "never two at once");
    }

    #[test]
    fn waits_double_from_half_a_second_to_a_minute_and_half_of_each_is_random() {
        let bounds = |attempt| [wait(attempt, 0).as_millis(), wait(attempt, u64::MAX).as_millis()];
        assert_eq!(bounds(0), [250, 500]);
        assert_eq!(bounds(1), [500, 1_000]);
        assert_eq!(bounds(6), [16_000, 32_000]);
        assert_eq!(bounds(7), [30_000, 60_000]);
        assert_eq!(bounds(u32::MAX), [30_000, 60_000]);
    }

    /// The openings of a session that stands for as long as `stands` says, anew for each, where every wait is the shortest.
    fn openings(stands: impl Fn(usize) -> Duration) -> Vec<Duration> {
        let (mut attempt, mut at, mut openings) = (0, Duration::ZERO, Vec::new());
        while openings.len() < 400 {
            openings.push(at);
            let lasted = stands(openings.len());
            if lasted >= STEADY {
                attempt = 0;
            }
            at += lasted + wait(attempt, 0);
            attempt += 1;
        }
        openings
    }

    #[test]
    fn no_span_holds_more_openings_than_are_said_however_long_the_sessions_stand() {
        let most = |millis| most_openings(Duration::from_millis(millis));
        assert_eq!([0, 1, 250, 251, 751].map(most), [0, 1, 1, 2, 3]);
        assert_eq!([10_000, 10_001, 20_000].map(most), [6, 7, 12]);
        // Refused at once but for each so many-th one, which stands for as long as makes the waits begin anew.
        for each in 1..12 {
            let all = openings(|number| if number % each == 0 { STEADY } else { Duration::ZERO });
            for (place, first) in all.iter().enumerate() {
                for (more, last) in all[place..].iter().take(60).enumerate() {
                    let span = *last - *first + Duration::from_nanos(1);
                    assert!((more as u128) < most_openings(span), "{more} more in {span:?}, each {each}");
                }
            }
        }
    }

    #[test]
    fn a_session_that_is_dropped_again_and_again_is_opened_ten_times_in_the_first_minute_at_most() {
        let mut attempts = 0;
        let mut at = Duration::ZERO;
        while at < Duration::from_secs(60) {
            at += wait(attempts, 0);
            attempts += 1;
        }
        assert!(attempts <= 9, "{attempts}");
    }
}
