//! One result of one probe.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// An endpoint of a history, by the order in which they first appear: 0, 1, 2, ..
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EndpointIndex(pub u32);

/// The result of one probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// When, in nanoseconds since 1970 (UTC).
    pub at: u64,
    /// Which endpoint was probed.
    pub endpoint: EndpointIndex,
    /// Whether the probe succeeded.
    pub ok: bool,
    /// How long it took, if the history says so.
    pub latency: Option<Duration>,
}

/// The names of the endpoints of a history.
#[derive(Clone, Debug, Default)]
pub struct Names {
    names: Vec<Arc<str>>,
    indices: BTreeMap<Arc<str>, EndpointIndex>,
    /// The one asked for last: rows of one endpoint often follow each other.
    last: usize,
}

impl Names {
    /// The most endpoints that a history may have; a column with more names is none of endpoints.
    pub const MOST: usize = 4_096;

    /// The name of an endpoint of this history; empty for one of another history.
    #[must_use]
    pub fn name(&self, endpoint: EndpointIndex) -> &str {
        self.names.get(endpoint.0 as usize).map_or("", |name| name)
    }

    /// The endpoint of this name.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<EndpointIndex> {
        self.indices.get(name).copied()
    }

    /// All of them, in order.
    pub fn iter(&self) -> impl Iterator<Item = (EndpointIndex, &str)> {
        (0..).map(EndpointIndex).zip(self.names.iter().map(|name| &**name))
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Whether none has appeared yet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// The endpoint of this name, if it is the one that is likely next: endpoints mostly take turns.
    #[inline]
    pub(super) fn guess(&mut self, name: &[u8]) -> Option<EndpointIndex> {
        let next = if self.last + 1 < self.names.len() { self.last + 1 } else { 0 };
        for guess in [next, self.last] {
            if self.names.get(guess).is_some_and(|known| known.as_bytes() == name) {
                self.last = guess;
                return Some(EndpointIndex(u32::try_from(guess).ok()?));
            }
        }
        None
    }

    /// The endpoint of this name, which may be new; `None` if there are [`MOST`](Self::MOST) already.
    pub(super) fn index(&mut self, name: &str) -> Option<EndpointIndex> {
        let index = match self.indices.get(name) {
            Some(index) => *index,
            None if self.names.len() >= Self::MOST => return None,
            None => {
                let index = EndpointIndex(u32::try_from(self.names.len()).ok()?);
                let name: Arc<str> = name.into();
                self.names.push(Arc::clone(&name));
                self.indices.insert(name, index);
                index
            }
        };
        self.last = index.0 as usize;
        Some(index)
    }
}
