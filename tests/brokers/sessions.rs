//! The trace of the sessions that a test program's servers saw, and the rule that is checked whenever one of them goes:
//! never two at once under one exclusive identity.
//!
//! One trace serves the whole program, since the sessions of one identity may reach several servers; identities are a
//! test's own. Each server owns a [`Register`], and no test can forget the check: it is made when the register is dropped,
//! together with a second one, that there was something to check.

#![allow(dead_code, unreachable_pub, reason = "each test program uses a part of it, as it would of a library")]

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::net::TcpStream;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// What happened to a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// It was logged on.
    Opened,
    /// It ended, in whatever way.
    Closed,
}

/// One event of the trace.
#[derive(Clone, Debug)]
pub struct SessionEvent {
    /// Which session.
    number: u64,
    /// Whose session.
    pub identity: String,
    /// Opened or closed.
    pub what: What,
    /// When the server saw it.
    pub at: Instant,
}

/// Events in the order of time, and the sessions that are open.
#[derive(Default)]
struct Trace {
    events: Vec<SessionEvent>,
    open: Vec<(u64, String, Option<OwnedFd>)>,
    opened: u64,
}

static TRACE: Mutex<Trace> = Mutex::new(Trace { events: Vec::new(), open: Vec::new(), opened: 0 });

fn trace() -> MutexGuard<'static, Trace> {
    TRACE.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Trace {
    fn add(&mut self, number: u64, identity: &str, what: What) {
        // Inside the lock: the order of the trace is the order of time.
        self.events.push(SessionEvent { number, identity: identity.to_owned(), what, at: Instant::now() });
    }

    fn open(&mut self, identity: &str, connection: Option<OwnedFd>) -> u64 {
        // Who hung up before this one came in is gone, whether or not its server has had the time to see that.
        let gone = |(_, of, connection): &(u64, String, Option<OwnedFd>)| of == identity && has_hung_up(connection);
        let numbers: Vec<_> = self.open.iter().filter(|one| gone(one)).map(|(number, ..)| *number).collect();
        numbers.into_iter().for_each(|number| self.close(number));
        self.opened += 1;
        self.add(self.opened, identity, What::Opened);
        self.open.push((self.opened, identity.to_owned(), connection));
        self.opened
    }

    fn close(&mut self, number: u64) {
        let place = self.open.iter().position(|(open, ..)| *open == number);
        if let Some((_, identity, _)) = place.map(|place| self.open.swap_remove(place)) {
            self.add(number, &identity, What::Closed);
        }
    }
}

/// Whether the far side of a connection has closed it; what it sent before may still be unread.
fn has_hung_up(connection: &Option<OwnedFd>) -> bool {
    connection.as_ref().is_some_and(|connection| {
        let mut asked = [PollFd::new(connection, PollFlags::RDHUP)];
        poll(&mut asked, Some(&Timespec::default())).is_ok_and(|found| found > 0)
    })
}

/// What one server saw. Owned by what the test holds of it: dropped, it checks.
pub struct Register {
    book: Arc<Book>,
}

/// The part of a [`Register`] that is handed to whoever serves connections.
#[derive(Default)]
pub struct Book {
    identities: Mutex<BTreeSet<String>>,
    expected: Mutex<Expected>,
}

/// How many sessions there are to be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Expected {
    /// At least one: a server that saw none has shown nothing, and fails its test.
    #[default]
    Some,
    /// Nobody is to open a session of his own here.
    None,
    /// One server of several, each of which behaves otherwise: others show that there was something to check.
    Any,
}

/// A session that is open. Dropped, it is closed.
#[derive(Debug)]
pub struct Open(u64);

/// A second handle of a connection, for [`Book::open`].
pub fn handle(connection: impl AsFd) -> Option<OwnedFd> {
    connection.as_fd().try_clone_to_owned().ok()
}

impl Register {
    /// Of a server that is there to see sessions.
    pub fn new() -> Self {
        Self { book: Arc::new(Book::default()) }
    }

    /// From its beginning on; checked at its end.
    pub fn expect(&self, expected: Expected) {
        *self.book.expected.lock().unwrap_or_else(PoisonError::into_inner) = expected;
    }

    pub fn book(&self) -> Arc<Book> {
        Arc::clone(&self.book)
    }

    /// How many sessions it saw; or what is wrong with them.
    pub fn check(&self) -> Result<usize, String> {
        let identities = self.book.identities.lock().unwrap_or_else(PoisonError::into_inner).clone();
        // Let go before anything can panic.
        let events = trace().events.clone();
        let of = |identity: &str| events.iter().filter(|one| one.identity == identity).cloned().collect::<Vec<_>>();
        let mut sessions = 0;
        for identity in &identities {
            let events = of(identity);
            sessions += events.iter().filter(|event| event.what == What::Opened).count();
            if let Some(place) = first_second_session(&events, identity) {
                return Err(format!("{identity}: two sessions at once, from event {place} on\n{}", told(&events)));
            }
        }
        let expected = *self.book.expected.lock().unwrap_or_else(PoisonError::into_inner);
        match (sessions, expected) {
            (0, Expected::Some) => Err("no session was seen here: nothing was checked".to_owned()),
            (1.., Expected::None) => Err(format!("nobody was to open a session here: {identities:?} did")),
            _ => Ok(sessions),
        }
    }
}

impl Drop for Register {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        match self.check() {
            Ok(sessions) => println!("{sessions} sessions, and never two of one identity at once"),
            Err(why) => panic!("{why}"),
        }
    }
}

impl Book {
    /// A server let somebody in, or is about to: from its first word on he is there.
    pub fn open(&self, identity: &str, connection: Option<OwnedFd>) -> Open {
        self.identities.lock().unwrap_or_else(PoisonError::into_inner).insert(identity.to_owned());
        Open(trace().open(identity, connection))
    }
}

impl Open {
    /// It was none: what looked like a session turned out to be something else.
    pub fn never_was(self) {
        let mut trace = trace();
        trace.open.retain(|(number, ..)| *number != self.0);
        trace.events.retain(|event| event.number != self.0);
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        trace().close(self.0);
    }
}

/// A name that nobody else in this program has.
pub fn own(name: &str) -> String {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    format!("{name} {}", NUMBER.fetch_add(1, Ordering::Relaxed))
}

/// How often `identity` was let in, wherever.
pub fn opened(identity: &str) -> usize {
    trace().events.iter().filter(|event| event.identity == identity && event.what == What::Opened).count()
}

/// Whether `identity` was let in, and is there no more.
pub fn is_closed(identity: &str) -> bool {
    opened(identity) > 0 && !trace().open.iter().any(|(_, open, _)| open == identity)
}

/// Place of the event that opens a session of `identity` while another is open.
pub fn first_second_session(events: &[SessionEvent], identity: &str) -> Option<usize> {
    let mut open = 0_usize;
    events.iter().enumerate().filter(|(_, event)| event.identity == identity).find_map(|(place, event)| {
        match event.what {
            What::Opened => open += 1,
            What::Closed => open = open.checked_sub(1).expect("a session ends once, after its beginning"),
        }
        (open > 1).then_some(place)
    })
}

fn told(events: &[SessionEvent]) -> String {
    let begun = events.first().map(|event| event.at);
    events.iter().fold(String::new(), |mut text, event| {
        let since = begun.map_or(0.0, |begun| event.at.duration_since(begun).as_secs_f64());
        let _ = writeln!(text, "{since:9.3} {:?} {}", event.what, event.identity);
        text
    })
}

#[test]
fn the_checker_sees_two_sessions_at_once_and_nothing_else() {
    let (a, b) = (own("a"), own("b"));
    let register = Register::new();
    let book = register.book();
    assert_eq!(register.check(), Err("no session was seen here: nothing was checked".to_owned()));
    drop(book.open(&a, None));
    let first = book.open(&a, None);
    let _other = book.open(&b, None);
    assert_eq!(register.check(), Ok(3), "one after the other, or of different identities");
    drop(first);
    drop(book.open(&a, None));
    assert_eq!(register.check(), Ok(4));
    // At another server, which is checked for it too.
    let elsewhere = Register::new();
    let one = book.open(&a, None);
    let two = elsewhere.book().open(&a, None);
    for register in [&register, &elsewhere] {
        let why = register.check().expect_err("two at once");
        assert!(why.starts_with(&format!("{a}: two sessions at once, from event 7 on\n")), "{why}");
    }
    // However they end, it was so.
    drop((one, two));
    let dropped = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(elsewhere)));
    assert!(dropped.is_err(), "a test whose register goes fails");
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(register))).is_err());

    let nobody = Register::new();
    nobody.expect(Expected::None);
    assert_eq!(nobody.check(), Ok(0));
    let session = nobody.book().open(&own("c"), None);
    assert!(nobody.check().is_err_and(|why| why.starts_with("nobody was to open a session here")));
    session.never_was();
    assert_eq!(nobody.check(), Ok(0));
    drop(nobody.book().open(&own("d"), None));
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(nobody))).is_err());
}

#[test]
fn who_hung_up_is_gone_before_his_server_reads_it() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let (register, name) = (Register::new(), own("hung up"));
    let connect = || {
        let ours = TcpStream::connect(listener.local_addr().expect("an address")).expect("a connection");
        let theirs = listener.accept().expect("a connection").0;
        (ours, register.book().open(&name, handle(&theirs)))
    };
    let (mut first, _session) = connect();
    std::io::Write::write_all(&mut first, b"a last word that nobody reads").expect("sent");
    // To close it would not do: a program that another test starts has a copy of it for a moment.
    first.shutdown(std::net::Shutdown::Both).expect("it is there");
    drop(first);
    let (second, _session) = connect();
    assert_eq!(register.check(), Ok(2));
    let (_third, _session) = connect();
    assert!(register.check().is_err(), "the second one is still there");
    drop(second);
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(register))).is_err());
}
