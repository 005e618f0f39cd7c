//! Segments as files: their names, their folder, and the seam at which storage can be made to fail.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FallocateFlags, FlockOperation, StatxFlags, fallocate, flock, statx};

use super::record::Seq;

const SUFFIX: &str = ".jsonl";
/// A segment whose head is not complete yet.
pub(super) const UNFINISHED: &str = ".new";
const LOCK: &str = "LOCK";

/// The file name of the segment that begins with record `first`.
pub(super) fn name(first: Seq) -> String {
    format!("{first:020}{SUFFIX}")
}

fn first_of(name: &str) -> Option<Seq> {
    let digits = name.strip_suffix(SUFFIX)?;
    let plain = digits.len() == 20 && digits.bytes().all(|byte| byte.is_ascii_digit());
    if plain { digits.parse().ok() } else { None }
}

/// The segments in `folder` by the number of their first record, oldest first; none if there is no such folder.
pub(super) fn list(folder: &Path) -> io::Result<Vec<Seq>> {
    let mut found = names(folder)?.iter().filter_map(|name| first_of(name)).collect::<Vec<_>>();
    found.sort_unstable();
    Ok(found)
}

/// Makes the folder if it is not there, with its name on disk: a journal that a power cut takes away as a whole would
/// take every decision with it.
pub(super) fn make_folder(folder: &Path) -> io::Result<()> {
    if folder.is_dir() {
        return Ok(());
    }
    fs::create_dir_all(folder).map_err(|error| {
        io::Error::new(error.kind(), format!("the journal's folder is not there and cannot be made: {error}"))
    })?;
    let parent = folder.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(parent)?.sync_all()
}

/// Everything in `folder` that has a name in UTF-8.
pub(super) fn names(folder: &Path) -> io::Result<Vec<String>> {
    match fs::read_dir(folder) {
        Ok(entries) => {
            entries.filter_map(|entry| entry.map(|entry| entry.file_name().into_string().ok()).transpose()).collect()
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// A file that the journal writes.
pub trait SegmentFile: Send {
    /// Appends all of `bytes`, or fails.
    ///
    /// # Errors
    /// Whatever the storage says; how much was written is unknown then.
    fn write(&mut self, bytes: &[u8]) -> io::Result<()>;

    /// Puts everything that was written on disk.
    ///
    /// # Errors
    /// Whatever the storage says; what is on disk is unknown then.
    fn sync(&mut self) -> io::Result<()>;

    /// Reserves room for a file of so many bytes, without changing its length. Only a help: may do nothing.
    ///
    /// # Errors
    /// There is no room, or the storage cannot.
    fn reserve(&mut self, bytes: u64) -> io::Result<()>;

    /// Looks whether it still has a name: what is on disk without one is gone with this process. [`sync`](Self::sync)
    /// looks, too.
    ///
    /// # Errors
    /// It was removed.
    fn is_named(&self) -> io::Result<()> {
        Ok(())
    }
}

/// A file whose length never changes, so that putting its bytes on disk changes nothing else there.
pub trait PreparedFile: Send {
    /// Writes all of `bytes` from byte `at` on, inside the file, or fails.
    ///
    /// # Errors
    /// Whatever the storage says; what is in their place is unknown then.
    fn write_at(&mut self, bytes: &[u8], at: u64) -> io::Result<()>;

    /// Puts everything that was written on disk.
    ///
    /// # Errors
    /// Whatever the storage says; what is on disk is unknown then.
    fn sync(&mut self) -> io::Result<()>;
}

/// The folder that the journal writes to: the seam at which tests make storage fail.
pub trait Storage: Send {
    /// Makes an empty file.
    ///
    /// # Errors
    /// It cannot be made, or is there.
    fn create(&mut self, name: &str) -> io::Result<Box<dyn SegmentFile>>;

    /// Opens a file to append to.
    ///
    /// # Errors
    /// It cannot be opened.
    fn append(&mut self, name: &str) -> io::Result<Box<dyn SegmentFile>>;

    /// Makes a file of `bytes` bytes, all of them written and on disk, or makes it anew. Only a help: where there is
    /// none, a decision waits for the segment.
    ///
    /// # Errors
    /// There is no room, or the storage cannot: nothing is there then.
    fn prepare(&mut self, name: &str, bytes: usize) -> io::Result<Box<dyn PreparedFile>> {
        let _ = (name, bytes);
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Gives a file another name.
    ///
    /// # Errors
    /// It cannot be renamed.
    fn rename(&mut self, from: &str, to: &str) -> io::Result<()>;

    /// Removes a file.
    ///
    /// # Errors
    /// It cannot be removed.
    fn remove(&mut self, name: &str) -> io::Result<()>;

    /// Puts names on disk.
    ///
    /// # Errors
    /// Whatever the storage says.
    fn sync(&mut self) -> io::Result<()>;
}

/// A folder of the file system.
#[derive(Debug)]
pub struct Disk {
    folder: PathBuf,
}

impl Disk {
    /// The folder `folder`, which must exist.
    #[must_use]
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into() }
    }
}

impl SegmentFile for File {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.write_all(bytes)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.sync_data()?;
        self.is_named()
    }

    fn reserve(&mut self, bytes: u64) -> io::Result<()> {
        Ok(fallocate(&*self, FallocateFlags::KEEP_SIZE, 0, bytes)?)
    }

    fn is_named(&self) -> io::Result<()> {
        // Not its times: once they were looked at, the kernel gives the next write finer ones, and the next sync has the
        // inode to write as well.
        let names = match statx(self, "", AtFlags::EMPTY_PATH, StatxFlags::NLINK) {
            Ok(found) => u64::from(found.stx_nlink),
            Err(_) => self.metadata()?.nlink(),
        };
        if names == 0 {
            return Err(io::Error::new(io::ErrorKind::NotFound, "the file was removed while it was written"));
        }
        Ok(())
    }
}

impl PreparedFile for File {
    fn write_at(&mut self, bytes: &[u8], at: u64) -> io::Result<()> {
        self.write_all_at(bytes, at)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.sync_data()?;
        SegmentFile::is_named(self)
    }
}

impl Storage for Disk {
    fn create(&mut self, name: &str) -> io::Result<Box<dyn SegmentFile>> {
        let file = OpenOptions::new().append(true).create_new(true).open(self.folder.join(name))?;
        Ok(Box::new(file))
    }

    fn append(&mut self, name: &str) -> io::Result<Box<dyn SegmentFile>> {
        Ok(Box::new(OpenOptions::new().append(true).open(self.folder.join(name))?))
    }

    fn prepare(&mut self, name: &str, bytes: usize) -> io::Result<Box<dyn PreparedFile>> {
        let path = self.folder.join(name);
        // Never into what is there: it may be a link, to another file or in a backup.
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut file = OpenOptions::new().write(true).create_new(true).open(&path)?;
        let made = file.write_all(&vec![0; bytes]).and_then(|()| file.sync_all());
        if let Err(error) = made {
            // What does not fit must not take the room that the segments need.
            let _ = fs::remove_file(&path);
            return Err(error);
        }
        Ok(Box::new(file))
    }

    fn rename(&mut self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.folder.join(from), self.folder.join(to))
    }

    fn remove(&mut self, name: &str) -> io::Result<()> {
        fs::remove_file(self.folder.join(name))
    }

    fn sync(&mut self) -> io::Result<()> {
        File::open(&self.folder)?.sync_all()
    }
}

/// Keeps others from writing to the folder for as long as it lives. The kernel lets go of it when the process ends,
/// however it ends.
#[derive(Debug)]
pub(super) struct Lock {
    file: File,
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Not only by closing: a child that was forked and has not come to its program yet has the file open, too.
        let _ = flock(&self.file, FlockOperation::Unlock);
    }
}

/// Why there is no lock.
pub(super) enum Locked {
    /// This process has it, as far as its file says.
    By(String),
    Io(io::Error),
}

impl Lock {
    pub(super) fn take(folder: &Path) -> Result<Self, Locked> {
        let path = folder.join(LOCK);
        let open = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path);
        let mut file = open.map_err(Locked::Io)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(error) if error == rustix::io::Errno::WOULDBLOCK => {
                let mut holder = String::new();
                // The holder writes its number after it has the lock, so there may be none yet.
                let _ = file.take(32).read_to_string(&mut holder);
                return Err(Locked::By(holder.trim().to_owned()));
            }
            Err(error) => return Err(Locked::Io(error.into())),
        }
        let told = file.set_len(0).and_then(|()| file.rewind()).and_then(|()| writeln!(file, "{}", std::process::id()));
        told.map_err(Locked::Io)?;
        Ok(Self { file })
    }
}

/// Puts `bytes` aside in a file of their own, on disk, and gives its name. Never replaces a file.
pub(super) fn keep_aside(folder: &Path, seq: Seq, bytes: &[u8]) -> io::Result<String> {
    const MOST: u32 = 10_000;
    for attempt in 1..=MOST {
        let name = if attempt == 1 { format!("torn-{seq}.bin") } else { format!("torn-{seq}-{attempt}.bin") };
        match OpenOptions::new().write(true).create_new(true).open(folder.join(&name)) {
            Ok(mut file) => {
                file.write_all(bytes)?;
                file.sync_all()?;
                File::open(folder)?.sync_all()?;
                return Ok(name);
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::other(format!("{MOST} files torn-{seq}-*.bin are there already")))
}

/// Has a file end with `bytes`, from byte `at` on, on disk.
pub(super) fn end_with(path: &Path, bytes: &[u8], at: u64) -> io::Result<()> {
    let file = OpenOptions::new().write(true).open(path)?;
    file.write_all_at(bytes, at)?;
    file.set_len(at.saturating_add(u64::try_from(bytes.len()).unwrap_or(u64::MAX)))?;
    file.sync_all()
}
