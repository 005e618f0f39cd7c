//! The sequence file: where a session's numbers go on, and that nobody else uses them.
//!
//! A file of JSON, replaced as a whole (written beside it, flushed to the disk, renamed, the folder flushed), so that a
//! crash leaves the old one or the new one. While a session runs, the file is ahead of it: it names a number that has
//! not been sent yet. After a crash the numbers therefore jump, which the far side asks about and we fill; they are never
//! used twice, which no far side takes. A lock beside it keeps a second process away for as long as this one lives.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// What the file says of its form.
const VERSION: u32 = 1;
/// No sequence file is longer, in bytes.
const LONGEST: u64 = 4_096;

/// The numbers that the next messages have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Numbers {
    pub(super) next_out: u64,
    pub(super) next_in: u64,
}

impl Numbers {
    /// Those of a session that begins.
    pub(super) const FIRST: Self = Self { next_out: 1, next_in: 1 };
}

/// What the file holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Kept {
    version: u32,
    session: String,
    pub(super) next_out: u64,
    pub(super) next_in: u64,
    /// Why nothing is sent until a person has looked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) stopped: Option<String>,
}

impl Kept {
    pub(super) fn numbers(&self) -> Numbers {
        Numbers { next_out: self.next_out, next_in: self.next_in }
    }
}

/// Why the numbers are not to be had.
#[derive(Debug, Error)]
pub(super) enum StoreError {
    /// Another process, or a session that is still ending, has them.
    #[error("{path} is in use by process {by}: one identity is for one supervisor", path = path.display())]
    Held { path: PathBuf, by: String },
    /// Not what this program writes, or another session's.
    #[error(
        "{path}: found {found}; expected the numbers of session {session}; nothing was sent. Set them right, or move the \
         file away to begin at 1",
        path = path.display()
    )]
    Damaged { path: PathBuf, found: String, session: String },
    /// The file system.
    #[error("{path}: {error}", path = path.display())]
    Io { path: PathBuf, error: io::Error },
}

/// The file, locked.
#[derive(Debug)]
pub(super) struct Store {
    path: PathBuf,
    session: String,
    lock: File,
}

impl Drop for Store {
    fn drop(&mut self) {
        // Not left to closing: a program that is just being started may have the file open until it runs.
        let _ = flock(&self.lock, FlockOperation::Unlock);
    }
}

impl Store {
    /// Takes the lock; reads nothing.
    pub(super) fn lock(path: &Path, session: &str) -> Result<Self, StoreError> {
        let wrong = |error: io::Error| StoreError::Io { path: path.to_owned(), error };
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            fs::create_dir_all(folder).map_err(wrong)?;
        }
        let open = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(beside(path, ".lock"));
        let mut lock = open.map_err(wrong)?;
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(error) if error == rustix::io::Errno::WOULDBLOCK => {
                let mut by = String::new();
                // The holder writes its number after it has the lock, so there may be none yet.
                let _ = lock.take(32).read_to_string(&mut by);
                return Err(StoreError::Held { path: path.to_owned(), by: by.trim().to_owned() });
            }
            Err(error) => return Err(wrong(error.into())),
        }
        let told = lock.set_len(0).and_then(|()| lock.rewind()).and_then(|()| writeln!(lock, "{}", std::process::id()));
        told.map_err(wrong)?;
        Ok(Self { path: path.to_owned(), session: session.to_owned(), lock })
    }

    /// What is kept; a file that is not there is a session that begins.
    pub(super) fn read(&self) -> Result<Kept, StoreError> {
        let wrong = |error: io::Error| StoreError::Io { path: self.path.clone(), error };
        let mut text = String::new();
        match File::open(&self.path).and_then(|file| file.take(LONGEST).read_to_string(&mut text)) {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(self.kept(Numbers::FIRST, None)),
            Err(error) if error.kind() == io::ErrorKind::InvalidData => return Err(self.damaged("no text")),
            Err(error) => return Err(wrong(error)),
        }
        let kept: Kept = serde_json::from_str(&text).map_err(|error| self.damaged(error))?;
        match &kept {
            Kept { version, .. } if *version != VERSION => Err(self.damaged(format_args!("version {version}"))),
            Kept { session, .. } if *session != self.session => Err(self.damaged(format_args!("session {session:?}"))),
            Kept { next_out: 0, .. } | Kept { next_in: 0, .. } => Err(self.damaged("the number 0")),
            _ => Ok(kept),
        }
    }

    fn damaged(&self, found: impl std::fmt::Display) -> StoreError {
        StoreError::Damaged { path: self.path.clone(), found: found.to_string(), session: self.session.clone() }
    }

    /// What would be kept.
    pub(super) fn kept(&self, numbers: Numbers, stopped: Option<String>) -> Kept {
        let Numbers { next_out, next_in } = numbers;
        Kept { version: VERSION, session: self.session.clone(), next_out, next_in, stopped }
    }

    /// Replaces the file; returns when it is on the disk.
    pub(super) fn write(&self, kept: &Kept) -> io::Result<()> {
        let new = beside(&self.path, ".new");
        let mut file = File::create(&new)?;
        serde_json::to_writer(&mut file, kept)?;
        file.write_all(b"\n")?;
        file.sync_data()?;
        fs::rename(&new, &self.path)?;
        let folder = self.path.parent().filter(|folder| !folder.as_os_str().is_empty());
        File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
    }
}

fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAME: &str = "FIX.4.4 PROBE -> BROKER";

    fn place(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("broker-failover-store-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        folder.join("east.seq")
    }

    #[test]
    fn numbers_are_read_back_and_a_file_that_is_not_there_begins_at_1() {
        let path = place("back");
        let store = Store::lock(&path, NAME).unwrap();
        assert_eq!(store.read().unwrap().numbers(), Numbers::FIRST);
        let kept = store.kept(Numbers { next_out: 4_711, next_in: u64::MAX }, Some("why".to_owned()));
        store.write(&kept).unwrap();
        assert_eq!(store.read().unwrap(), kept);
        assert!(!beside(&path, ".new").exists());
    }

    #[test]
    fn nobody_else_has_them_until_they_are_let_go() {
        let path = place("lock");
        let store = Store::lock(&path, NAME).unwrap();
        let text = Store::lock(&path, NAME).unwrap_err().to_string();
        assert!(
            text.ends_with(&format!("is in use by process {}: one identity is for one supervisor", std::process::id()))
        );
        drop(store);
        assert!(Store::lock(&path, NAME).is_ok());
    }

    #[test]
    fn what_this_program_did_not_write_for_this_session_is_told_and_left() {
        let path = place("damaged");
        let store = Store::lock(&path, NAME).unwrap();
        let right = serde_json::to_string(&store.kept(Numbers { next_out: 2, next_in: 3 }, None)).unwrap();
        for (contents, found) in [
            (String::new(), "EOF while parsing a value"),
            ("\0".repeat(64), "expected value"),
            (right[..right.len() - 9].to_owned(), "EOF while parsing"),
            (right.replace("PROBE", "OTHER"), "session \"FIX.4.4 OTHER -> BROKER\""),
            (right.replace(":2,", ":0,"), "the number 0"),
            (right.replace(":2,", ":-2,"), "invalid value: integer `-2`"),
            (right.replace("\"version\":1", "\"version\":2"), "version 2"),
            (right.replace("next_in", "next"), "unknown field `next`"),
        ] {
            fs::write(&path, &contents).unwrap();
            let error = store.read().unwrap_err().to_string();
            assert!(error.contains(&format!("found {found}")) && error.contains(NAME), "{error}");
            assert_eq!(fs::read_to_string(&path).unwrap(), contents);
        }
        fs::write(&path, [0xFF, 0xFE]).unwrap();
        assert!(store.read().unwrap_err().to_string().contains("found no text"));
        fs::write(&path, right).unwrap();
        assert_eq!(store.read().unwrap().numbers(), Numbers { next_out: 2, next_in: 3 });
    }
}
