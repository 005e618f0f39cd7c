//! `fix`: a FIX session of the probe's own, which is held.
//!
//! The first slot logs on; each later one sends a TestRequest into the session that is there, and takes whatever comes
//! in after it for the answer: a live far side may be busy saying other things. Brokers limit how often one may log on,
//! and a Logon each second would be an outage of our own making. A session that was lost is a fault of the next slot,
//! once; the slot after that logs on again, and waits grow where that fails. Nobody logs on outside a slot.
//!
//! The identity must not be the one that trades: many brokers end the older of two sessions of one identity.
//!
//! Each path's session has a thread of its own, which also answers the far side between the slots. Dropped, the probe
//! lets it say goodbye; [`farewell`] waits for that.

use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use serde::{Deserialize, Serialize};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use super::tcp::Dialler;
use super::tls::Connector;
use super::{Fault, NoEvidence, ProbeFuture, Prober, Verdict};
use crate::supervisor::config::FixConfig;

mod codec;
mod holder;
mod session;
mod store;
#[cfg(test)]
mod tests;

pub(crate) use holder::FREE_ATTEMPTS;
use holder::{Ask, Path};
use session::Terms;

/// Asks that may wait for the thread; there is one at a time, unless the thread hangs.
const MOST_ASKS: usize = 8;

/// A text that is not shown.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Secret(String);

impl Secret {
    /// Takes a text that is not to be shown.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text, for whom it is meant.
    pub(super) fn tell(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// Where the password is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Password {
    /// Here.
    Stated(Secret),
    /// The first line of this file, read for each Logon.
    File(PathBuf),
    /// In this variable of the environment.
    Environment(String),
}

/// Holds a session.
pub(super) struct FixProbe {
    path: Arc<Path>,
    /// The thread that holds it, from the first slot on.
    thread: Mutex<Option<Thread>>,
}

struct Thread {
    asks: mpsc::Sender<Ask>,
    /// Gone when it has ended.
    alive: Weak<Alive>,
}

/// A thread that holds a session has it until its end.
struct Alive;

impl Drop for Alive {
    fn drop(&mut self) {
        // Whoever is about to wait must not miss it.
        drop(LEAVING.lock());
        ENDED.notify_all();
    }
}

impl FixProbe {
    pub(super) fn new(dialler: Dialler, connector: Option<Connector>, config: &FixConfig) -> Self {
        let terms = Terms {
            begin: config.version.begin_string(),
            sender: config.sender_comp_id.clone(),
            sender_sub: config.sender_sub_id.clone(),
            target: config.target_comp_id.clone(),
            target_sub: config.target_sub_id.clone(),
            username: config.username.clone().map(Secret),
            heart_beat: config.heart_beat_interval.as_secs().max(1),
            reset: config.reset_on_logon,
            default_appl_ver_id: config.default_appl_ver_id.clone(),
            logon_fields: config.logon_fields.clone(),
            account_tag: config.account_tag,
            competing_texts: config.competing_session_text.iter().map(|text| text.to_lowercase()).collect(),
            competing_status: config.competing_session_status.clone(),
        };
        let path = Path {
            dialler,
            connector,
            session: config.session(),
            terms: Arc::new(terms),
            password: config.password.clone(),
            sequence_file: config.sequence_file.clone(),
            first_wait: config.relogon_wait,
            longest_wait: config.relogon_wait_max,
        };
        Self { path: Arc::new(path), thread: Mutex::new(None) }
    }

    /// Hands a slot to the thread, which is started if there is none.
    fn hand_over(&self, ask: Ask) -> Result<(), Verdict> {
        let mut thread = self.thread.lock();
        if thread.is_none() {
            let (asks, asked) = mpsc::channel(MOST_ASKS);
            let (path, alive) = (Arc::clone(&self.path), Arc::new(Alive));
            let seen = Arc::downgrade(&alive);
            holder::start(path, asked, alive).map_err(|error| {
                Verdict::no_evidence(NoEvidence::LocalExhausted, format!("a thread for the session: {error}"))
            })?;
            *thread = Some(Thread { asks, alive: seen });
        }
        let sent = thread.as_ref().map(|thread| thread.asks.try_send(ask));
        match sent {
            Some(Err(mpsc::error::TrySendError::Closed(_))) => {
                // It is begun anew at the next slot.
                *thread = None;
                Err(ended_by_itself())
            }
            Some(Err(mpsc::error::TrySendError::Full(_))) => {
                Err(Verdict::fault(Fault::Error, "the thread of the session does not take any more"))
            }
            _ => Ok(()),
        }
    }
}

fn ended_by_itself() -> Verdict {
    Verdict::fault(Fault::Panic, "the thread of the session panicked")
}

impl Prober for FixProbe {
    fn overlaps(&self) -> bool {
        false
    }

    fn probe(&self, deadline: Instant) -> ProbeFuture<'_> {
        Box::pin(async move {
            let (answer, answered) = oneshot::channel();
            match self.hand_over(Ask { answer, deadline }) {
                Ok(()) => answered.await.unwrap_or_else(|_| ended_by_itself()),
                Err(verdict) => verdict,
            }
        })
    }
}

/// Sessions that say goodbye, and the news that one has ended.
static LEAVING: Mutex<Vec<Weak<Alive>>> = Mutex::new(Vec::new());
static ENDED: Condvar = Condvar::new();

fn is_alive(one: &Weak<Alive>) -> bool {
    one.strong_count() > 0
}

impl Drop for FixProbe {
    fn drop(&mut self) {
        if let Some(Thread { asks, alive }) = self.thread.get_mut().take() {
            drop(asks);
            let mut leaving = LEAVING.lock();
            leaving.retain(is_alive);
            leaving.push(alive);
        }
    }
}

/// Waits until every session whose probe was dropped has logged out, for no longer than `limit`; whether all have.
/// A process that ends before leaves them to the far side, which may keep the identity for a while.
pub fn farewell(limit: Duration) -> bool {
    let until = Instant::now() + limit;
    let mut leaving = LEAVING.lock();
    loop {
        leaving.retain(is_alive);
        let left = until.saturating_duration_since(Instant::now());
        if leaving.is_empty() || left.is_zero() {
            return leaving.is_empty();
        }
        ENDED.wait_for(&mut leaving, left);
    }
}
