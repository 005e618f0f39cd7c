//! Name look-ups that cannot hold anything up.
//!
//! The system's look-up (`getaddrinfo`) blocks a thread and cannot be cancelled. So it runs on a thread of its own, at
//! most one for each name and [`MOST_LOOKUPS`] in all; whoever asks waits no longer than half of what is left of its
//! own deadline. A name whose look-up hangs delays no other name.

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::net::{IpAddr, ToSocketAddrs};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{Semaphore, watch};
use tokio::time::{Instant, timeout_at};

use super::{Fault, NoEvidence, Verdict, fault};
use crate::supervisor::aside::begin;

/// Look-ups that may run at once. Each occupies a thread until the system's resolver gives up.
pub const MOST_LOOKUPS: usize = 64;

/// A blocking look-up of a name.
type Lookup = dyn Fn(&str) -> io::Result<Vec<IpAddr>> + Send + Sync;
/// What a look-up came to, once it has.
type Answer = Option<Arc<io::Result<Vec<IpAddr>>>>;

/// Looks names up, for any number of probes at once.
#[derive(Clone)]
pub struct Resolver {
    lookup: Arc<Lookup>,
    running: Arc<Mutex<HashMap<String, watch::Receiver<Answer>>>>,
    permits: Arc<Semaphore>,
}

impl Default for Resolver {
    /// The system's resolver.
    fn default() -> Self {
        // The port is of no interest; the function wants one.
        Self::new(|name| Ok((name, 0).to_socket_addrs()?.map(|address| address.ip()).collect()))
    }
}

impl fmt::Debug for Resolver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Resolver").field("running", &self.running.lock().len()).finish_non_exhaustive()
    }
}

impl Resolver {
    /// A resolver that asks `lookup`, which may block.
    pub fn new(lookup: impl Fn(&str) -> io::Result<Vec<IpAddr>> + Send + Sync + 'static) -> Self {
        Self { lookup: Arc::new(lookup), running: Arc::default(), permits: Arc::new(Semaphore::new(MOST_LOOKUPS)) }
    }

    /// Look-ups that are running now.
    #[must_use]
    pub fn running(&self) -> usize {
        self.running.lock().len()
    }

    /// The addresses of `name`; never none.
    pub(super) async fn resolve(&self, name: &str, deadline: Instant) -> Result<Vec<IpAddr>, Verdict> {
        let now = Instant::now();
        let deadline = now + deadline.saturating_duration_since(now) / 2;
        match &*self.ask(name, deadline).await? {
            Ok(found) if !found.is_empty() => Ok(found.clone()),
            Ok(_) => Err(Verdict::fault(Fault::Dns, format!("look up {name}: no address"))),
            Err(error) => Err(fault::of_lookup(name, error)),
        }
    }

    async fn ask(&self, name: &str, deadline: Instant) -> Result<Arc<io::Result<Vec<IpAddr>>>, Verdict> {
        let late = || Verdict::fault(Fault::Dns, format!("look up {name}: no answer in time"));
        let mut answer = match self.join(name) {
            Some(answer) => answer,
            None => {
                let permit = match timeout_at(deadline, Arc::clone(&self.permits).acquire_owned()).await {
                    Ok(Ok(permit)) => permit,
                    Ok(Err(_)) | Err(_) => {
                        let text = format!("look up {name}: {MOST_LOOKUPS} other look-ups are still running");
                        return Err(Verdict::no_evidence(NoEvidence::LocalExhausted, text));
                    }
                };
                // Somebody else may have begun while we waited for the permit.
                match self.join(name) {
                    Some(answer) => answer,
                    None => self.start(name, permit).map_err(|error| fault::of_spawn("a thread", &error))?,
                }
            }
        };
        match timeout_at(deadline, answer.wait_for(Option::is_some)).await {
            Ok(Ok(found)) => found.clone().ok_or_else(late),
            Ok(Err(_)) => Err(Verdict::fault(Fault::Error, format!("look up {name}: the look-up failed inside"))),
            Err(_) => Err(late()),
        }
    }

    /// The look-up of this name that is already running.
    fn join(&self, name: &str) -> Option<watch::Receiver<Answer>> {
        self.running.lock().get(name).cloned()
    }

    fn start(&self, name: &str, permit: tokio::sync::OwnedSemaphorePermit) -> io::Result<watch::Receiver<Answer>> {
        let (sender, receiver) = watch::channel(None);
        self.running.lock().insert(name.to_owned(), receiver.clone());
        // Whatever happens, in `lookup` or before it, the name must not stay marked as running.
        let running = Running { resolver: self.clone(), name: name.to_owned(), _permit: permit };
        begin(move || {
            let found = (running.resolver.lookup)(&running.name);
            drop(running);
            sender.send_replace(Some(Arc::new(found)));
        })?;
        Ok(receiver)
    }
}

struct Running {
    resolver: Resolver,
    name: String,
    _permit: tokio::sync::OwnedSemaphorePermit,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.resolver.running.lock().remove(&self.name);
    }
}
