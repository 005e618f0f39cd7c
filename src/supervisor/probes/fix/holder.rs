//! The thread that holds a session: sockets, time and the sequence file around the state machine.

use std::future::{pending, poll_fn, ready};
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::runtime;
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::time::{Instant, sleep_until, timeout, timeout_at};
use tracing::{debug, info, warn};

use super::session::{End, Moment, Session, Terms};
use super::store::{Kept, Numbers, Store, StoreError};
use super::{Alive, Password, Secret};
use crate::manager::Clock;
use crate::supervisor::aside::{self, aside};
use crate::supervisor::clock::{self, BootClock};
use crate::supervisor::probes::tcp::Dialler;
use crate::supervisor::probes::tls::{self, Connector};
use crate::supervisor::probes::{Evidence, Fault, NoEvidence, Verdict, fault};

/// How long a Logout may stay unanswered (QuickFIX/J's default).
const LOGOUT_WAIT: Duration = Duration::from_secs(2);
/// How long the far side's socket may take nothing.
const WRITE_WAIT: Duration = Duration::from_secs(1);
/// How long the disk may take for the last numbers when the thread ends.
const LAST_WRITE_WAIT: Duration = Duration::from_secs(1);
/// How long after the disk refused a write it is not asked again, unless a session ends.
const REWRITE_WAIT: Duration = Duration::from_secs(1);
/// Numbers that the sequence file is ahead of the session: one write for so many messages.
const AHEAD: u64 = 64;
/// Attempts that a fault of the path may make fail in a row before there is a wait: as many as usually make a path DOWN.
pub(crate) const FREE_ATTEMPTS: u32 = 3;
/// A timer that is late by more was late because we were not running.
const LATE: u64 = 500_000_000;
/// What is read at once, in bytes.
const CHUNK: usize = 8 * 1024;
/// Reads one after the other before everything else has its turn: a far side that never pauses keeps no slot and no timer
/// waiting.
const MOST_READS: u32 = 16;
/// Reads before a slot asks. Between slots all is read as it comes, so that a far side of which more than this is left
/// never pauses, and what it says next it says now.
const MOST_READS_BEFORE: u32 = 128;
/// Answers that wait for the sequence file, in bytes, from which on nothing more is read: the far side may send faster than
/// a disk writes.
const MOST_UNSENT: usize = 64 * 1024;

/// A slot.
pub(super) struct Ask {
    pub(super) answer: oneshot::Sender<Verdict>,
    pub(super) deadline: Instant,
}

/// Where to log on, and as whom.
#[derive(Debug)]
pub(super) struct Path {
    pub(super) dialler: Dialler,
    pub(super) connector: Option<Connector>,
    /// What the sequence file calls the session.
    pub(super) session: String,
    pub(super) terms: Arc<Terms>,
    pub(super) password: Option<Password>,
    pub(super) sequence_file: PathBuf,
    pub(super) first_wait: Duration,
    pub(super) longest_wait: Duration,
}

/// Starts the thread; it ends when nobody can ask any more, and drops `alive` then.
pub(super) fn start(path: Arc<Path>, asks: mpsc::Receiver<Ask>, alive: Arc<Alive>) -> io::Result<()> {
    let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
    std::thread::Builder::new().name("bf-fix".to_owned()).spawn(move || {
        let _alive = alive;
        runtime.block_on(hold(path, asks));
        // A look-up or the disk may still hang; nobody waits for it.
        runtime.shutdown_background();
    })?;
    Ok(())
}

async fn hold(path: Arc<Path>, mut asks: mpsc::Receiver<Ask>) {
    let mut holder = Holder {
        path,
        clock: BootClock::default(),
        places: Arc::new(Semaphore::new(1)),
        keeper: None,
        live: None,
        lost: None,
        wait: Wait::default(),
    };
    let mut buffer = vec![0; CHUNK];
    let mut reads = 0;
    loop {
        let due = holder.due();
        let reads_on = reads < MOST_READS;
        let may_read = reads_on && holder.may_read();
        reads += 1;
        let Holder { live, keeper, .. } = &mut holder;
        let (stream, pending) = match live {
            Some(live) => (Some(&mut live.stream), live.pending.as_mut()),
            None => (None, None),
        };
        tokio::select! {
            biased;
            read = read(stream, &mut buffer), if may_read => {
                holder.received(read.map(|length| &buffer[..length])).await;
                continue;
            }
            () = written(keeper) => holder.flush().await,
            () = given_up(pending) => holder.forget_ask(),
            ask = asks.recv() => match ask {
                Some(ask) => holder.asked(ask, &mut buffer).await,
                None => return holder.leave(&mut buffer).await,
            },
            () = reached(due) => holder.tick(due).await,
            () = ready(()), if !reads_on => {}
        }
        reads = 0;
    }
}

async fn read(stream: Option<&mut Stream>, buffer: &mut [u8]) -> io::Result<usize> {
    match stream {
        Some(stream) => stream.read(buffer).await,
        None => pending().await,
    }
}

async fn written(keeper: &mut Option<Keeper>) {
    match keeper {
        Some(keeper) if keeper.writing.is_some() => keeper.settle().await,
        _ => pending().await,
    }
}

async fn given_up(waiting: Option<&mut Waiting>) {
    match waiting {
        Some(waiting) => waiting.ask.answer.closed().await,
        None => pending().await,
    }
}

async fn reached(due: Option<Due>) {
    match due {
        // The timers' own resolution would make it wait a little for what has passed.
        Some(due) if due.instant <= Instant::now() => {}
        Some(due) => sleep_until(due.instant).await,
        None => pending().await,
    }
}

/// When a timer fires, by both clocks.
#[derive(Clone, Copy)]
struct Due {
    instant: Instant,
    at: u64,
}

trait Io: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Io for T {}
type Stream = Box<dyn Io>;

/// A connection on which a Logon was sent.
struct Live {
    stream: Stream,
    session: Session,
    /// Until when the certificate is valid.
    certificate: Option<Instant>,
    since: Instant,
    unsent: Vec<u8>,
    pending: Option<Waiting>,
}

/// A slot that waits for a sign of life.
struct Waiting {
    ask: Ask,
    started: Instant,
    /// Messages that had come in by then.
    heard: u64,
}

/// When to log on again.
#[derive(Default)]
struct Wait {
    failures: u32,
    until: Option<Instant>,
    why: String,
}

impl Wait {
    fn failed(&mut self, path: &Path, verdict: &Verdict, is_fault_of_path: bool) {
        self.failures = self.failures.saturating_add(1);
        let free = if is_fault_of_path { FREE_ATTEMPTS - 1 } else { 0 };
        let Some(doublings) = self.failures.checked_sub(free + 1) else { return };
        let wait = path.first_wait.saturating_mul(1_u32.checked_shl(doublings).unwrap_or(u32::MAX));
        self.until = Some(Instant::now() + spread(wait.min(path.longest_wait), RandomState::new().hash_one(())));
        self.why = match verdict {
            Verdict::PathFault { text, .. } | Verdict::NoEvidence { text, .. } => text.clone(),
            Verdict::Success(_) => String::new(),
        };
    }
}

/// Up to a quarter more, at random: sessions that were lost together do not come back together.
fn spread(wait: Duration, draw: u64) -> Duration {
    let draw = u32::try_from(draw % 256).unwrap_or(0);
    wait.saturating_add((wait / 1_024).saturating_mul(draw))
}

struct Holder {
    path: Arc<Path>,
    clock: BootClock,
    /// For one piece of work of the disk that is under way.
    places: Arc<Semaphore>,
    keeper: Option<Keeper>,
    live: Option<Live>,
    /// How the last session was lost, if no slot was told yet.
    lost: Option<Verdict>,
    wait: Wait,
}

impl Holder {
    fn now(&self) -> Moment {
        Moment { at: self.clock.now().as_nanos(), wall: clock::wall() }
    }

    fn due(&self) -> Option<Due> {
        let at = self.live.as_ref()?.session.due();
        Some(Due { instant: Instant::now() + Duration::from_nanos(at.saturating_sub(self.now().at)), at })
    }

    async fn asked(&mut self, ask: Ask, buffer: &mut [u8]) {
        if self.live.is_some() {
            return self.test(ask, buffer).await;
        }
        if let Some(lost) = self.lost.take() {
            return answer(ask, lost);
        }
        if let Some(until) = self.wait.until.filter(|until| *until > Instant::now()) {
            let left = until.saturating_duration_since(Instant::now());
            let text = format!("no Logon for another {left:.1?}, because: {}", self.wait.why);
            return answer(ask, Verdict::no_evidence(NoEvidence::LogonWait, text));
        }
        let Ask { mut answer, deadline } = ask;
        let verdict = tokio::select! {
            biased;
            verdict = self.log_on(deadline, buffer) => Some(verdict),
            () = answer.closed() => None,
        };
        let verdict = verdict.unwrap_or_else(|| Verdict::fault(Fault::Timeout, "no answer to the Logon in time"));
        if !matches!(verdict, Verdict::Success(_)) {
            self.let_go(&verdict).await;
        }
        // If the slot was given up, its result is told already.
        let _ = answer.send(verdict);
    }

    /// From nothing to an established session, or why not.
    async fn log_on(&mut self, deadline: Instant, buffer: &mut [u8]) -> Verdict {
        match self.try_log_on(deadline, buffer).await {
            Ok(evidence) => Verdict::Success(evidence),
            Err(verdict) => *verdict,
        }
    }

    async fn try_log_on(&mut self, deadline: Instant, buffer: &mut [u8]) -> Result<Evidence, Box<Verdict>> {
        let started = Instant::now();
        let kept = self.numbers(deadline).await?;
        if let Some(why) = &kept.stopped {
            let text = format!("no Logon until a person has looked at {}: {why}", self.path.sequence_file.display());
            return Err(Box::new(Verdict::no_evidence(NoEvidence::LogonWait, text)));
        }
        let password = match &self.path.password {
            Some(password) => Some(tell(password, &self.places).await?),
            None => None,
        };
        let (stream, certificate) = self.connect(deadline).await?;
        let mut numbers = kept.numbers();
        if !self.path.terms.reset {
            self.reserve(numbers, deadline).await?;
        } else {
            numbers = Numbers::FIRST;
        }
        let session = Session::new(Arc::clone(&self.path.terms), password, numbers, self.now());
        let since = Instant::now();
        self.live = Some(Live { stream, session, certificate, since, unsent: Vec::new(), pending: None });
        loop {
            self.send().await?;
            let now = self.now();
            let Some(live) = &mut self.live else { return Err(Box::new(closed_early())) };
            if let Some(end) = live.session.ended().cloned() {
                return Err(Box::new(self.verdict_on(&end, "the Logon was refused")));
            }
            if live.session.is_established() {
                for note in live.session.take_notes() {
                    warn!(session = self.path.session, "{note}");
                }
                info!(session = self.path.session, account = live.session.account().unwrap_or("not told"), "logged on");
                return Ok(evidence(live, started));
            }
            let read = live.stream.read(buffer).await;
            match read.map_err(|error| Box::new(fault::of_io("wait for the Logon's answer", &error)))? {
                0 => return Err(Box::new(closed_early())),
                length => live.session.receive(&buffer[..length], now),
            }
        }
    }

    async fn connect(&self, deadline: Instant) -> Result<(Stream, Option<Instant>), Box<Verdict>> {
        let stream = self.path.dialler.dial(deadline).await?;
        let Some(connector) = &self.path.connector else { return Ok((Box::new(stream), None)) };
        let stream = connector.handshake(stream).await?;
        let certificate = tls::expires_in(&stream).and_then(|left| Instant::now().checked_add(left));
        Ok((Box::new(stream), certificate))
    }

    /// The lock, taken once, and the numbers as the file has them now.
    async fn numbers(&mut self, deadline: Instant) -> Result<Kept, Box<Verdict>> {
        let held = |error: StoreError| {
            let text = error.to_string();
            Box::new(match error {
                StoreError::Held { .. } => Verdict::no_evidence(NoEvidence::CompetingSession, text),
                StoreError::Damaged { .. } => Verdict::fault(Fault::Error, text),
                StoreError::Io { .. } => Verdict::no_evidence(NoEvidence::LocalExhausted, text),
            })
        };
        let keeper = match &mut self.keeper {
            Some(keeper) => keeper,
            none => {
                let (path, session) = (self.path.sequence_file.clone(), self.path.session.clone());
                let lock = move || Store::lock(&path, &session);
                let store = on_disk(deadline, in_turn(&self.places, lock)).await?.map_err(held)?;
                none.insert(Keeper { store: Arc::new(store), on_disk: 0, writing: None, next: None, again: None })
            }
        };
        on_disk(deadline, async {
            keeper.settle().await;
            Ok(())
        })
        .await?;
        let store = Arc::clone(&keeper.store);
        on_disk(deadline, in_turn(&self.places, move || store.read())).await?.map_err(held)
    }

    /// The file gets ahead of what will be sent.
    async fn reserve(&mut self, numbers: Numbers, deadline: Instant) -> Result<(), Box<Verdict>> {
        let Some(keeper) = &mut self.keeper else { return Ok(()) };
        keeper.on_disk = 0;
        keeper.keep(ahead(numbers), None);
        on_disk(deadline, async {
            keeper.settle().await;
            Ok(())
        })
        .await?;
        if keeper.on_disk > numbers.next_out {
            return Ok(());
        }
        let text = format!("{} cannot be written; nothing was sent", self.path.sequence_file.display());
        Err(Box::new(Verdict::no_evidence(NoEvidence::LocalExhausted, text)))
    }

    /// A slot of a session that is there.
    async fn test(&mut self, ask: Ask, buffer: &mut [u8]) {
        // What lies in the socket already is no answer to what is asked now.
        for _ in 0..MOST_READS_BEFORE {
            let Some(live) = self.live.as_mut().filter(|live| live.unsent.len() < MOST_UNSENT) else { break };
            let Some(read) = read_at_once(&mut live.stream, buffer).await else { break };
            self.received(read.map(|length| &buffer[..length])).await;
        }
        let now = self.now();
        let Some(live) = &mut self.live else {
            let lost = self.lost.take().unwrap_or_else(closed_early);
            return answer(ask, lost);
        };
        let (heard, deadline) = (live.session.heard(), ask.deadline);
        live.session.ask(now);
        live.pending = Some(Waiting { ask, started: Instant::now(), heard });
        self.flush().await;
        // Once more, if what was being written was overtaken meanwhile.
        for _ in 0..2 {
            let (true, Some(keeper)) = (self.is_held_back(), &mut self.keeper) else { break };
            let written = on_disk(deadline, async {
                keeper.settle().await;
                Ok(())
            });
            // What was not written is told below.
            let _ = written.await;
            self.flush().await;
        }
        let Some(live) = &mut self.live else { return };
        if !live.unsent.is_empty() {
            if let Some(Waiting { ask, .. }) = live.pending.take() {
                let text = format!("{} is not written yet: nothing was sent", self.path.sequence_file.display());
                answer(ask, Verdict::no_evidence(NoEvidence::LocalExhausted, text));
            }
        }
    }

    /// Whether what is read can be answered, as far as that is known.
    fn may_read(&self) -> bool {
        self.live.as_ref().is_none_or(|live| live.unsent.len() < MOST_UNSENT)
    }

    /// Whether something waits for the sequence file.
    fn is_held_back(&self) -> bool {
        self.live.as_ref().is_some_and(|live| !live.unsent.is_empty())
    }

    async fn received(&mut self, read: io::Result<&[u8]>) {
        let now = self.now();
        let Some(live) = &mut self.live else { return };
        match read {
            Ok([]) => return self.lose(Verdict::fault(Fault::Reset, "the far side closed the session")).await,
            Ok(bytes) => live.session.receive(bytes, now),
            Err(error) => return self.lose(fault::of_io("the session", &error)).await,
        }
        for note in live.session.take_notes() {
            warn!(session = self.path.session, "{note}");
        }
        self.flush().await;
        let Some(live) = &mut self.live else { return };
        let Some(waiting) = &live.pending else { return };
        if live.session.heard() <= waiting.heard {
            return;
        }
        let Some(Waiting { ask, started, .. }) = live.pending.take() else { return };
        let verdict = match live.session.rejected() {
            Some(text) => Verdict::fault(Fault::UnexpectedAnswer, format!("our TestRequest was rejected: {text}")),
            None => Verdict::Success(evidence(live, started)),
        };
        answer(ask, verdict);
    }

    fn forget_ask(&mut self) {
        if let Some(live) = &mut self.live {
            live.pending = None;
        }
    }

    async fn tick(&mut self, due: Option<Due>) {
        let now = self.now();
        let (Some(live), Some(due)) = (&mut self.live, due) else { return };
        let late = now.at.saturating_sub(due.at);
        if late > LATE {
            live.session.excuse(late, now);
        }
        live.session.tick(now);
        self.flush().await;
    }

    /// Sends what there is to be sent, and minds the session's end.
    async fn flush(&mut self) {
        if let Err(verdict) = self.send().await {
            return self.lose(*verdict).await;
        }
        let Some(end) = self.live.as_ref().and_then(|live| live.session.ended()) else { return };
        let verdict = self.verdict_on(end, "the far side logged out");
        self.lose(verdict).await;
    }

    /// Sends what there is to be sent, as far as the sequence file is ahead of it.
    async fn send(&mut self) -> Result<(), Box<Verdict>> {
        let (Some(live), Some(keeper)) = (&mut self.live, &mut self.keeper) else { return Ok(()) };
        live.unsent.extend(live.session.take_out());
        let numbers = live.session.numbers();
        if !self.path.terms.reset {
            if keeper.on_disk.saturating_sub(numbers.next_out) < AHEAD / 2 && keeper.may_write() {
                keeper.keep(ahead(numbers), None);
            }
            if numbers.next_out > keeper.on_disk {
                return Ok(());
            }
        }
        if live.unsent.is_empty() {
            return Ok(());
        }
        let out = std::mem::take(&mut live.unsent);
        let stream = &mut live.stream;
        let sent = timeout(WRITE_WAIT, async {
            stream.write_all(&out).await?;
            stream.flush().await
        })
        .await;
        match sent {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(Box::new(fault::of_io("send", &error))),
            Err(_) => Err(Box::new(Verdict::fault(Fault::Timeout, "the far side takes nothing that we send"))),
        }
    }

    /// The session is over: whoever waits is told, or else the next slot.
    async fn lose(&mut self, verdict: Verdict) {
        let waiting = self.live.as_mut().and_then(|live| live.pending.take());
        self.let_go(&verdict).await;
        match waiting {
            Some(Waiting { ask, .. }) => answer(ask, verdict),
            None => self.lost = Some(verdict),
        }
    }

    /// Ends the connection, if there is one, and keeps where its numbers ended.
    async fn let_go(&mut self, verdict: &Verdict) {
        let Some(mut live) = self.live.take() else {
            // Nobody was asked: the pace of the slots is wait enough, and what stands in the way is ours.
            return;
        };
        // A session that lasted shows that logging on works.
        if live.session.heard() > 0 && live.since.elapsed() > self.path.longest_wait {
            self.wait = Wait::default();
        }
        let end = live.session.ended();
        let is_fault_of_path = !matches!(end, Some(End::Refused(_) | End::Competing(_) | End::Sequence(_)));
        let stopped = match end {
            Some(End::Sequence(why)) => Some(why.clone()),
            _ => None,
        };
        self.wait.failed(&self.path, verdict, is_fault_of_path);
        info!(session = self.path.session, "the session ended: {verdict:?}");
        if let Some(keeper) = &mut self.keeper {
            if !self.path.terms.reset || stopped.is_some() {
                keeper.keep(live.session.numbers(), stopped);
            }
        }
        // Its last word, such as the answer to a Logout, must not be lost to a reset.
        let _ = timeout(Duration::from_millis(100), live.stream.shutdown()).await;
    }

    /// Nobody asks any more: says goodbye, and waits for the answer and the disk.
    async fn leave(&mut self, buffer: &mut [u8]) {
        let now = self.now();
        if let Some(live) = &mut self.live {
            live.session.close(now);
            let until = Instant::now() + LOGOUT_WAIT;
            let parted = timeout_at(until, self.part(buffer)).await;
            debug!(session = self.path.session, answered = parted.is_ok(), "logged out");
        }
        self.let_go(&Verdict::fault(Fault::Reset, "we logged out")).await;
        if let Some(keeper) = &mut self.keeper {
            let _ = timeout(LAST_WRITE_WAIT, keeper.settle()).await;
        }
    }

    async fn part(&mut self, buffer: &mut [u8]) {
        while self.send().await.is_ok() {
            let now = self.now();
            let Some(live) = &mut self.live else { return };
            if live.session.ended().is_some() {
                return;
            }
            match live.stream.read(buffer).await {
                Ok(length @ 1..) => live.session.receive(&buffer[..length], now),
                _ => return,
            }
        }
    }

    fn verdict_on(&self, end: &End, ended: &str) -> Verdict {
        match end {
            End::Refused(text) => Verdict::fault(Fault::LogonRefused, format!("{ended}: {text}")),
            End::Competing(text) => Verdict::no_evidence(
                NoEvidence::CompetingSession,
                format!("IDENTITY_HELD: another session holds our identity: {text}"),
            ),
            End::Sequence(text) => {
                let file = self.path.sequence_file.display();
                let text = format!("{text}. No further Logon until a person has looked at {file}");
                Verdict::fault(Fault::SequenceBroken, text)
            }
            End::LoggedOut(text) => Verdict::fault(Fault::Reset, format!("{ended}: {text}")),
            End::Wrong(text) => Verdict::fault(Fault::UnexpectedAnswer, text.clone()),
            End::Silent(text) => Verdict::fault(Fault::Timeout, text.clone()),
            End::Done => Verdict::fault(Fault::Reset, "we logged out"),
        }
    }
}

fn answer(ask: Ask, verdict: Verdict) {
    // If the slot was given up, its result is told already.
    let _ = ask.answer.send(verdict);
}

fn closed_early() -> Verdict {
    Verdict::fault(Fault::Reset, "the far side closed the connection and did not answer the Logon")
}

fn evidence(live: &Live, started: Instant) -> Evidence {
    let account = live.session.account().map(str::to_owned);
    let left = live.certificate.map(|until| until.saturating_duration_since(Instant::now()));
    Evidence { latency: started.elapsed(), certificate_expires_in: left, account, ..Evidence::default() }
}

fn ahead(numbers: Numbers) -> Numbers {
    Numbers { next_out: numbers.next_out.saturating_add(AHEAD), ..numbers }
}

/// What can be read without waiting.
async fn read_at_once(stream: &mut Stream, buffer: &mut [u8]) -> Option<io::Result<usize>> {
    poll_fn(|cx| {
        let mut read = ReadBuf::new(buffer);
        Poll::Ready(match Pin::new(&mut *stream).poll_read(cx, &mut read) {
            Poll::Ready(result) => Some(result.map(|()| read.filled().len())),
            Poll::Pending => None,
        })
    })
    .await
}

/// Does work aside, after what was begun before it.
async fn in_turn<T: Send + 'static>(
    places: &Arc<Semaphore>,
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<T> {
    drop(places.acquire().await);
    aside(places, work).await
}

/// The disk's work within the slot's time; what it lacks says nothing of the path.
async fn on_disk<T>(deadline: Instant, work: impl Future<Output = io::Result<T>>) -> Result<T, Box<Verdict>> {
    let local = |text: String| Box::new(Verdict::no_evidence(NoEvidence::LocalExhausted, text));
    // Sooner than the slot is given up, which would count against the path.
    let until = Instant::now() + deadline.saturating_duration_since(Instant::now()) * 4 / 5;
    match timeout_at(until, work).await {
        Ok(Ok(done)) => Ok(done),
        Ok(Err(error)) => Err(local(format!("the sequence file: {error}"))),
        Err(_) => Err(local("the disk of the sequence file does not answer".to_owned())),
    }
}

async fn tell(password: &Password, places: &Arc<Semaphore>) -> Result<Secret, Box<Verdict>> {
    let wrong = |text: String| Box::new(Verdict::fault(Fault::Error, text));
    match password {
        Password::Stated(secret) => Ok(secret.clone()),
        Password::Environment(name) => match std::env::var(name) {
            Ok(value) if !value.is_empty() => Ok(Secret::new(value)),
            _ => Err(wrong(format!("password_env: the variable {name} is not set; expected the password"))),
        },
        Password::File(path) => {
            let file = path.clone();
            let read = in_turn(places, move || std::fs::read_to_string(&file)).await;
            let text = read.and_then(|read| read);
            let text = text.map_err(|error| wrong(format!("password_file {}: {error}", path.display())))?;
            match text.lines().next().map(str::trim_end) {
                Some(line) if !line.is_empty() && !line.chars().any(char::is_control) => Ok(Secret::new(line)),
                _ => Err(wrong(format!("password_file {}: expected the password in its first line", path.display()))),
            }
        }
    }
}

/// Writes the sequence file aside, the newest numbers last.
struct Keeper {
    store: Arc<Store>,
    /// The next number to be sent, as the disk has it.
    on_disk: u64,
    writing: Option<(Kept, oneshot::Receiver<io::Result<()>>)>,
    next: Option<Kept>,
    /// After a failure: when to try again.
    again: Option<Instant>,
}

impl Keeper {
    fn may_write(&self) -> bool {
        self.writing.is_none() && self.again.is_none_or(|again| again <= Instant::now())
    }

    fn keep(&mut self, numbers: Numbers, stopped: Option<String>) {
        let kept = self.store.kept(numbers, stopped);
        match self.writing {
            Some(_) => self.next = Some(kept),
            None => self.write(kept),
        }
    }

    fn write(&mut self, kept: Kept) {
        let (done, came_to) = oneshot::channel();
        let (store, contents) = (Arc::clone(&self.store), kept.clone());
        let begun = aside::begin(move || {
            let came_to = store.write(&contents);
            // Before it is told: the last to hold the store unlocks it.
            drop(store);
            // Whoever gave up has no use for it.
            let _ = done.send(came_to);
        });
        match begun {
            Ok(()) => self.writing = Some((kept, came_to)),
            Err(error) => warn!("a thread to write the sequence file: {error}"),
        }
    }

    /// Until nothing is left to be written.
    async fn settle(&mut self) {
        while let Some((kept, came_to)) = &mut self.writing {
            let came_to = came_to.await.unwrap_or_else(|_| Err(io::Error::other("it panicked")));
            match came_to {
                Ok(()) => self.on_disk = kept.next_out,
                Err(error) => {
                    warn!("the sequence file cannot be written: {error}");
                    self.again = Some(Instant::now() + REWRITE_WAIT);
                }
            }
            self.writing = None;
            if let Some(next) = self.next.take() {
                self.write(next);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::super::tests::terms;
    use super::*;
    use crate::supervisor::probes::tcp::Close;
    use crate::supervisor::probes::{Resolver, Target};

    const FIRST: Duration = Duration::from_secs(5);
    const LONGEST: Duration = Duration::from_secs(60);

    fn path() -> Path {
        let target = Arc::new(Target::parse("fix://127.0.0.1:1").unwrap());
        Path {
            dialler: Dialler { target, resolver: Resolver::default(), close: Close::Orderly },
            connector: None,
            session: "FIX.4.4 PROBE -> BROKER".to_owned(),
            terms: Arc::new(terms()),
            password: None,
            sequence_file: PathBuf::from("numbers"),
            first_wait: FIRST,
            longest_wait: LONGEST,
        }
    }

    /// Fails once more: at least and at most how long the next Logon waits, if it does.
    fn fails(wait: &mut Wait, is_fault_of_path: bool) -> Option<(Duration, Duration)> {
        let before = Instant::now();
        wait.failed(&path(), &Verdict::fault(Fault::Reset, "closed"), is_fault_of_path);
        let until = wait.until?;
        Some((until - Instant::now(), until - before))
    }

    /// Whether a wait of these bounds can be `seconds`, or up to a quarter longer.
    fn is_of(seconds: u64, (least, most): (Duration, Duration)) -> bool {
        let wait = Duration::from_secs(seconds);
        wait <= most && least < wait + wait / 4
    }

    #[test]
    fn waits_double_from_the_first_to_the_longest_after_three_free_attempts_and_after_none_where_we_were_refused() {
        for (is_fault_of_path, free) in [(true, FREE_ATTEMPTS - 1), (false, 0)] {
            let mut wait = Wait::default();
            for _ in 0..free {
                assert_eq!(fails(&mut wait, is_fault_of_path), None, "at the next slot");
            }
            for seconds in [5, 10, 20, 40, 60, 60, 60] {
                let found = fails(&mut wait, is_fault_of_path).expect("a wait");
                assert!(is_of(seconds, found), "{seconds} s, not {found:?}");
                assert_eq!(wait.why, "closed");
            }
            // However often.
            for failures in [31, 32, 33, u32::MAX] {
                wait.failures = failures;
                let found = fails(&mut wait, is_fault_of_path).expect("a wait");
                assert!(is_of(60, found), "after {failures} failures {found:?}");
            }
        }
    }

    #[test]
    fn a_wait_is_never_shorter_and_never_a_quarter_longer_and_seldom_the_same() {
        let spreads: HashSet<_> = (0..1_000).map(|draw| spread(LONGEST, draw)).collect();
        assert_eq!((spreads.iter().min(), spreads.len()), (Some(&LONGEST), 256));
        assert_eq!(spreads.iter().max(), Some(&(LONGEST + LONGEST / 1_024 * 255)), "less than a quarter more");
        assert_eq!(spread(Duration::MAX, u64::MAX), Duration::MAX);
        let mut drawn = HashSet::new();
        for _ in 0..32 {
            let mut wait = Wait::default();
            let before = Instant::now();
            wait.failed(&path(), &Verdict::fault(Fault::LogonRefused, "no"), false);
            // In steps that the time between two looks at the clock does not reach.
            drawn.insert((wait.until.expect("a wait") - before).as_millis() / 100);
        }
        assert!(drawn.len() > 1, "all waits were {drawn:?} tenths of a second");
    }
}
