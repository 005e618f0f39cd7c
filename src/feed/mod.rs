//! The feed: what a gateway may do, as 64 bytes of a memory-mapped file that any language reads.
//!
//! One file for each group, published as a sequence lock: one writer, any number of readers in any process, and no system
//! call on the read path. The bytes are in `references/gateway-feed.md`; `assets/broker_failover_feed.h` reads them in C
//! and C++.
//!
//! A feed says until when it holds. The decision loop itself moves that moment on, so that a supervisor that is dead, hung
//! or stopped is seen by whoever looks at the clock; what a gateway does from then on is its operator's choice, and stands
//! in the file too ([`WhenStale`]).
//!
//! A snapshot can be outdated by the time the order is on the wire: the epoch must travel with the order to whatever
//! sends it, and the broker-side fence is the real guard.
//!
//! Needs Linux: CLOCK_BOOTTIME, its boot id, and a page cache that `pwrite` shares with mappings.

#[cfg(not(loom))]
mod clock;
#[cfg(not(loom))]
mod error;
mod layout;
mod lock;
#[cfg(not(loom))]
mod map;
#[cfg(not(loom))]
mod reader;
#[cfg(not(loom))]
mod writer;

#[cfg(not(loom))]
pub use clock::now;
#[cfg(not(loom))]
pub use error::FeedError;
pub use layout::{Published, SIZE, Snapshot, VERSION, WhenStale, name_hash};
#[cfg(not(loom))]
pub use reader::FeedReader;
#[cfg(not(loom))]
pub use writer::{FeedWriter, Terms, is_in_memory};
