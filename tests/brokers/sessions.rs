//! The trace of sessions that a test's servers saw, and the rule that every such test checks: never two at once under
//! one exclusive identity.

#![allow(dead_code, unreachable_pub, reason = "each test program uses a part of it, as it would of a library")]

use std::fmt::Write as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

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
    /// Whose session.
    pub identity: String,
    /// Opened or closed.
    pub what: What,
    /// When the server saw it.
    pub at: Instant,
}

/// Every session of a test, whichever of its servers saw it. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Sessions(Arc<Mutex<Vec<SessionEvent>>>);

/// A session that is open. Dropped, it is closed.
#[derive(Debug)]
pub struct Open {
    sessions: Sessions,
    identity: String,
}

impl Sessions {
    /// A server let somebody in.
    pub fn open(&self, identity: &str) -> Open {
        self.add(identity, What::Opened);
        Open { sessions: self.clone(), identity: identity.to_owned() }
    }

    fn add(&self, identity: &str, what: What) {
        let mut events = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Taken inside the lock: the order of the trace is the order of time.
        events.push(SessionEvent { identity: identity.to_owned(), what, at: Instant::now() });
    }

    /// The trace so far.
    pub fn events(&self) -> Vec<SessionEvent> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// How often `identity` was let in.
    pub fn opened(&self, identity: &str) -> usize {
        self.events().iter().filter(|event| event.identity == identity && event.what == What::Opened).count()
    }

    /// Panics, with the trace, if `identity` ever had two sessions at once.
    pub fn assert_never_two_at_once(&self, identity: &str) {
        if let Some(place) = first_second_session(&self.events(), identity) {
            panic!("{identity}: two sessions at once, from event {place} on\n{}", told(&self.events()));
        }
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.sessions.add(&self.identity, What::Closed);
    }
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
    let sessions = Sessions::default();
    drop(sessions.open("a"));
    let first = sessions.open("a");
    let _other = sessions.open("b");
    sessions.assert_never_two_at_once("a");
    drop(first);
    drop(sessions.open("a"));
    sessions.assert_never_two_at_once("a");
    assert_eq!(first_second_session(&sessions.events(), "a"), None);
    let _one = sessions.open("a");
    let _two = sessions.open("a");
    assert_eq!(first_second_session(&sessions.events(), "a"), Some(sessions.events().len() - 1));
    assert_eq!((sessions.opened("a"), sessions.opened("b")), (5, 1));
}
