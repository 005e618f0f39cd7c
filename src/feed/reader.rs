//! The read side, for gateways in Rust.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::sync::atomic::Ordering;

use rustix::fs::OFlags;

use super::clock;
use super::error::FeedError;
use super::layout::{MAGIC, SIZE, Snapshot, VERSION};
use super::lock;
use super::map::Mapped;
use crate::engine::OrderAction;

/// A feed that is read. Cheap to share between threads; open one for each process.
#[derive(Debug)]
pub struct FeedReader {
    mapped: Mapped,
    boot: u64,
}

impl FeedReader {
    /// Opens the feed that this user, or root, writes.
    ///
    /// # Errors
    /// It is not there, it is not a feed of this layout, others may write it, or it was written before this machine's last
    /// boot: until the supervisor runs. Try again later; nothing may be done meanwhile.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, FeedError> {
        let own = rustix::process::geteuid().as_raw();
        Self::open_as(path.as_ref(), &[own, 0])
    }

    /// Opens the feed that the user `uid` writes: where the supervisor runs as another user than the gateway.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_of(path: impl AsRef<Path>, uid: u32) -> Result<Self, FeedError> {
        Self::open_as(path.as_ref(), &[uid])
    }

    fn open_as(path: &Path, owners: &[u32]) -> Result<Self, FeedError> {
        let file = OpenOptions::new().read(true).custom_flags(NEVER_WAIT).open(path);
        let file = file.map_err(|error| FeedError::file(path, error))?;
        check_file(path, &file, owners)?;
        let mapped = Mapped::map(&file).map_err(|error| FeedError::file(path, error))?;
        check_magic(path, mapped.words()[0].load(Ordering::Relaxed).to_ne_bytes())?;
        let boot = clock::boot().map_err(|error| FeedError::file(path, error))?;
        // One that is being written just now is being written in this boot.
        if lock::read(mapped.words()).is_some_and(|snapshot| snapshot.boot() != boot) {
            let expected = "one of this boot: its supervisor has not run since";
            return Err(FeedError::refused(path, "a feed that was written before this boot of the machine", expected));
        }
        Ok(Self { mapped, boot })
    }

    /// What the feed says now: eight loads, no lock, no clock and no system call. `None`: it cannot be told now, since it
    /// has been in the middle of being written for some 50 microseconds: do nothing new, and ask again. It stays so if the
    /// supervisor died in the middle of it.
    #[inline]
    #[must_use]
    pub fn read(&self) -> Option<Snapshot> {
        lock::read(self.mapped.words()).filter(|snapshot| snapshot.boot() == self.boot)
    }

    /// Whether new orders may be sent on the active path at `now`, on the clock of [`now`](super::now()).
    #[inline]
    #[must_use]
    pub fn may_submit(&self, now: u64) -> bool {
        self.read().is_some_and(|snapshot| snapshot.may(OrderAction::Submit, now))
    }
}

/// A pipe in the place of the feed must not hang whoever opens it.
pub(super) const NEVER_WAIT: i32 = OFlags::NONBLOCK.union(OFlags::CLOEXEC).bits() as i32;

/// Whether only one of `owners` can have written the file, and it has the size of a feed.
pub(super) fn check_file(path: &Path, file: &File, owners: &[u32]) -> Result<(), FeedError> {
    let found = file.metadata().map_err(|error| FeedError::file(path, error))?;
    let refused = |found: String, expected: String| Err(FeedError::refused(path, found, expected));
    if !found.is_file() {
        let kind = found.file_type();
        let kind = if kind.is_dir() {
            "a folder"
        } else if kind.is_fifo() {
            "a pipe"
        } else {
            "something that is no regular file"
        };
        return refused(kind.to_owned(), format!("a file of {SIZE} bytes"));
    }
    if !owners.contains(&found.uid()) {
        let owners: Vec<_> = owners.iter().map(u32::to_string).collect();
        return refused(format!("a file of user {}", found.uid()), format!("one of user {}", owners.join(" or ")));
    }
    let mode = found.permissions().mode() & 0o777;
    if mode & 0o022 != 0 {
        return refused(format!("mode {mode:03o}"), "a file that only its owner may write, such as 644".to_owned());
    }
    if found.len() != SIZE as u64 {
        return refused(format!("{} bytes", found.len()), format!("{SIZE} bytes"));
    }
    Ok(())
}

/// Whether the file says that it is a feed, in this layout.
pub(super) fn check_magic(path: &Path, found: [u8; 8]) -> Result<(), FeedError> {
    if found == MAGIC {
        return Ok(());
    }
    if found[..6] == MAGIC[..6] {
        let found = format!("layout version {}", found[6]);
        return Err(FeedError::refused(path, found, format!("version {VERSION}")));
    }
    Err(FeedError::refused(path, format!("a file that begins with {found:02x?}"), format!("{MAGIC:02x?}, a feed")))
}
