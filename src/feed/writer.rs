//! The write side: one for each feed.
//!
//! It writes with `pwrite`, in three steps, and maps nothing. On Linux a file's pages are the very memory that its readers
//! have mapped, so that a write is seen at once; the lock that the file system takes for each write keeps the steps in
//! their order for every processor. A mapping would be written in nanoseconds where this takes about a microsecond; but a
//! full disk, or somebody who truncates the file, would then end the supervisor by a signal, where here it is an error
//! like any other. Nothing is synced: readers see the page cache, and after a power cut it is another boot.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{Access, AtFlags, CWD, FlockOperation, OFlags, accessat, flock, fstatfs};
use rustix::io::Errno;

use super::clock;
use super::error::FeedError;
use super::layout::{MAGIC, PAYLOAD, Published, SEQUENCE, SIZE, WhenStale};
use super::reader::{NEVER_WAIT, check_file, check_magic};

/// Where in the file the sequence begins, and the payload.
const SEQUENCE_AT: u64 = SEQUENCE as u64 * 8;
const PAYLOAD_AT: u64 = SEQUENCE_AT + 8;

/// How long a publication holds, and what a gateway does from then on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// For so long, unless it is published again.
    pub valid_for: Duration,
    /// What then.
    pub when_stale: WhenStale,
}

/// The one writer of a feed. The file stays when it is dropped, and lapses at its moment.
#[derive(Debug)]
pub struct FeedWriter {
    file: File,
    path: PathBuf,
    /// Of the last publication: even.
    sequence: u64,
    boot: u64,
    in_memory: bool,
}

impl Drop for FeedWriter {
    fn drop(&mut self) {
        // Not left to closing: a program that is just being started may have the file open until it runs.
        let _ = flock(&self.file, FlockOperation::Unlock);
    }
}

impl FeedWriter {
    /// Takes the feed over that an earlier run left at `path`, so that whoever has it mapped sees this one too, or makes
    /// a new one, which others may read (mode 644, less the umask). Nothing is published yet.
    ///
    /// # Errors
    /// Something else is there: no feed, a link, another layout, another user's file, or one that another process writes.
    /// Or the system refuses.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, FeedError> {
        let path = path.as_ref();
        let failed = |error| FeedError::file(path, error);
        let boot = clock::boot().map_err(failed)?;
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).map_err(failed)?;
        }
        let file = match existing(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                create(path, boot).and_then(|()| existing(path)).map_err(failed)?
            }
            Err(error) if error.raw_os_error() == Some(Errno::LOOP.raw_os_error()) => {
                return Err(is_link(path));
            }
            found => found.map_err(failed)?,
        };
        check_file(path, &file, &[rustix::process::geteuid().as_raw()])?;
        if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
            return Err(FeedError::refused(path, "a feed that another process writes", "one writer"));
        }
        let mut found = [0; SIZE];
        file.read_exact_at(&mut found, 0).map_err(failed)?;
        let word = |at: usize| <[u8; 8]>::try_from(&found[at * 8..at * 8 + 8]).unwrap_or_default();
        check_magic(path, word(0))?;
        // One that was left in the middle of a publication: that one is over.
        let last = u64::from_le_bytes(word(SEQUENCE));
        let sequence = last.wrapping_add(last & 1);
        let in_memory = fstatfs(&file).is_ok_and(|found| is_memory(found.f_type as u64));
        Ok(Self { file, path: path.to_owned(), sequence, boot, in_memory })
    }

    /// Whether [`open`](Self::open) would take over what is at `path`, or make it, as far as can be seen without a change.
    /// Whether another process writes it is not asked: that is so beside a supervisor that runs.
    ///
    /// # Errors
    /// Why it would not.
    pub fn look(path: impl AsRef<Path>) -> Result<(), FeedError> {
        let path = path.as_ref();
        let failed = |error| FeedError::file(path, error);
        if path.is_symlink() {
            return Err(is_link(path));
        }
        let file = match OpenOptions::new().read(true).custom_flags(NEVER_WAIT).open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return may_be_made(path),
            found => found.map_err(failed)?,
        };
        check_file(path, &file, &[rustix::process::geteuid().as_raw()])?;
        may(path, Access::WRITE_OK).map_err(|error| failed(error.into()))?;
        let mut magic = [0; 8];
        file.read_exact_at(&mut magic, 0).map_err(failed)?;
        check_magic(path, magic)
    }

    /// Whether the file is in memory (tmpfs), so that no disk can delay a write.
    #[must_use]
    pub const fn is_in_memory(&self) -> bool {
        self.in_memory
    }

    /// Publishes `what`, valid from now on under `terms`.
    ///
    /// # Errors
    /// Those of the file system. What readers see then is the last publication, which lapses at its moment, or nothing.
    /// It may be tried again.
    pub fn publish(&mut self, what: Published, terms: Terms) -> io::Result<()> {
        let now = super::now();
        let valid_for = u64::try_from(terms.valid_for.as_nanos()).unwrap_or(u64::MAX);
        self.write(what.payload(now, now.saturating_add(valid_for), terms.when_stale, false, self.boot))
    }

    /// Says that nobody decides any more from now on: stale at once, everything else as it was.
    ///
    /// # Errors
    /// As [`publish`](Self::publish).
    pub fn stop(&mut self, what: Published, when_stale: WhenStale) -> io::Result<()> {
        let now = super::now();
        self.write(what.payload(now, now, when_stale, true, self.boot))
    }

    /// Whether readers that open the path still find this file, as it was made.
    ///
    /// # Errors
    /// What happened to it.
    pub fn check(&self) -> Result<(), FeedError> {
        let failed = |error| FeedError::file(&self.path, error);
        let found = self.file.metadata().map_err(failed)?;
        let is_ours = match std::fs::symlink_metadata(&self.path) {
            // One that was moved away lives on under another name.
            Ok(named) => (named.dev(), named.ino()) == (found.dev(), found.ino()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => false,
            Err(error) => return Err(failed(error)),
        };
        if !is_ours {
            return Err(FeedError::refused(&self.path, "that it was removed or replaced", "it to be left alone"));
        }
        check_file(&self.path, &self.file, &[found.uid()])?;
        // A publication after somebody cut it to nothing makes it as long as it was, and leaves this out.
        let mut magic = [0; 8];
        self.file.read_exact_at(&mut magic, 0).map_err(failed)?;
        check_magic(&self.path, magic)
    }

    fn write(&mut self, payload: [u64; PAYLOAD]) -> io::Result<()> {
        let mut bytes = [0; PAYLOAD * 8];
        for (to, word) in bytes.chunks_exact_mut(8).zip(payload) {
            to.copy_from_slice(&word.to_le_bytes());
        }
        self.file.write_all_at(&self.sequence.wrapping_add(1).to_le_bytes(), SEQUENCE_AT)?;
        self.file.write_all_at(&bytes, PAYLOAD_AT)?;
        let sequence = self.sequence.wrapping_add(2);
        self.file.write_all_at(&sequence.to_le_bytes(), SEQUENCE_AT)?;
        self.sequence = sequence;
        Ok(())
    }
}

/// Whether a file can be made there, and the folders that are missing before it.
fn may_be_made(path: &Path) -> Result<(), FeedError> {
    let here = |folder: &'_ Path| if folder.as_os_str().is_empty() { PathBuf::from(".") } else { folder.to_owned() };
    let mut folders = path.ancestors().skip(1).map(here);
    // A link that leads nowhere is there: no folder can be made in its place.
    let Some(folder) = folders.find(|folder| folder.symlink_metadata().is_ok()) else { return Ok(()) };
    let makes = if folder.is_dir() { may(&folder, Access::WRITE_OK | Access::EXEC_OK) } else { Err(Errno::NOTDIR) };
    makes.map_err(|error| {
        FeedError::refused(path, format!("{}: {error}", folder.display()), "a folder in which it can be made")
    })
}

/// Whether this process may use what is there so.
fn may(path: &Path, access: Access) -> rustix::io::Result<()> {
    accessat(CWD, path, access, AtFlags::EACCESS)
}

fn is_link(path: &Path) -> FeedError {
    FeedError::refused(path, "a symbolic link", "the feed itself")
}

/// Whether files in `folder` are in memory, so that no disk can delay a write.
#[must_use]
pub fn is_in_memory(folder: &Path) -> bool {
    rustix::fs::statfs(folder).is_ok_and(|found| is_memory(found.f_type as u64))
}

fn existing(path: &Path) -> io::Result<File> {
    let flags = NEVER_WAIT | OFlags::NOFOLLOW.bits() as i32;
    OpenOptions::new().read(true).write(true).custom_flags(flags).open(path)
}

/// A whole file, or none: whoever finds it finds all of it. One that appears meanwhile is left alone.
fn create(path: &Path, boot: u64) -> io::Result<()> {
    let mut name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?.to_owned();
    name.push(format!(".new-{}", std::process::id()));
    let new = path.with_file_name(name);
    let mut bytes = [0; SIZE];
    bytes[..8].copy_from_slice(&MAGIC);
    bytes[48..56].copy_from_slice(&boot.to_le_bytes());
    let made = OpenOptions::new().write(true).create_new(true).mode(0o644).open(&new);
    let made = made.and_then(|file| file.write_all_at(&bytes, 0));
    let linked = made.and_then(|()| std::fs::hard_link(&new, path));
    let _ = std::fs::remove_file(&new);
    match linked {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

/// tmpfs and ramfs (statfs(2)).
const fn is_memory(kind: u64) -> bool {
    matches!(kind, 0x0102_1994 | 0x8584_58f6)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn who_lets_go_of_a_feed_leaves_it_to_the_next_whoever_has_a_copy_of_the_descriptor() {
        let path = std::env::temp_dir().join(format!("broker-failover-feed-copy-{}", std::process::id()));
        let writer = FeedWriter::open(&path).expect("a new feed");
        assert!(FeedWriter::open(&path).is_err(), "one writer");
        // What a program has that was begun and is not yet itself.
        let copy = writer.file.try_clone().expect("a descriptor");
        drop(writer);
        FeedWriter::open(&path).expect("nobody writes it any more");
        drop(copy);
        std::fs::remove_file(path).expect("it is there");
    }
}
