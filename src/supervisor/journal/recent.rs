//! The newest records once more, in a file whose blocks were written beforehand.
//!
//! To sync a file that grew, a file system commits its new length as well as the bytes: that is a second trip to the
//! disk, and on a fast one most of what a decision waits for. A file that keeps its length needs only the bytes. But a
//! segment that ends in blanks is not what an operator reads or follows. So segments grow, on disk within
//! [`SYNC_EVERY`](super::SYNC_EVERY), and what a decision needs before that is put here, too: each line that the segment
//! on disk may not have yet. Where the segment turns out to end early, after a power cut, its lines go on from here.
//!
//! It begins with the newest line that the segment on disk has, and is written anew with it after each sync of the segment,
//! before anybody is told. So whatever is durable is in the segment up to that line, or here: what is missing from the
//! segment behind it, and not here, was promised to nobody, and need not stop a start.
//!
//! Nothing here is believed that does not continue the chain of the segment, so what is left of earlier lines does no
//! harm, and a file that is not there, or that could not be made, is only slower.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::Path;

use super::line::{Link, Whole};
use super::read::ReadError;
use super::record::Seq;
use super::segment::{PreparedFile, Storage};

/// Its name in the journal's folder.
pub(super) const FILE: &str = "RECENT";
/// Some thousands of records: more than a second of them, or the segment is synced sooner.
const SIZE: usize = 1 << 20;

/// What the writer knows of it.
pub(super) struct Recent {
    file: Box<dyn PreparedFile>,
    /// So much of it is taken by the line that it begins with, and by those that a decision waited for.
    end: usize,
    /// Lines that the segment has, and this not yet.
    lines: Vec<u8>,
    /// They do not fit: it begins anew when the segment is on disk.
    full: bool,
}

impl Recent {
    /// Makes the file, on disk. What an older one holds must be in the segments, on disk, up to the line `newest`.
    pub(super) fn make(storage: &mut dyn Storage, newest: &[u8]) -> io::Result<Self> {
        let file = storage.prepare(FILE, SIZE)?;
        storage.sync()?;
        let mut recent = Self { file, end: 0, lines: Vec::new(), full: false };
        recent.restart(newest)?;
        Ok(recent)
    }

    /// The segment has these, too.
    pub(super) fn add(&mut self, lines: &[u8]) {
        self.full |= self.end.saturating_add(self.lines.len()).saturating_add(lines.len()) > SIZE;
        if !self.full {
            self.lines.extend_from_slice(lines);
        }
    }

    /// Whether [`sync`](Self::sync) would put every line on disk that the segment on disk may not have.
    pub(super) const fn is_complete(&self) -> bool {
        !self.full
    }

    /// Puts on disk what was added.
    pub(super) fn sync(&mut self) -> io::Result<()> {
        self.file.write_at(&self.lines, u64::try_from(self.end).unwrap_or(u64::MAX))?;
        self.file.sync()?;
        self.end = self.end.saturating_add(self.lines.len());
        self.lines.clear();
        Ok(())
    }

    /// The segment is on disk up to the line `newest`: nothing else of this is needed any more.
    pub(super) fn restart(&mut self, newest: &[u8]) -> io::Result<()> {
        // One that does not fit says nothing.
        let newest = if newest.len() > SIZE { b"\n" } else { newest };
        (self.end, self.full) = (0, false);
        self.lines.clear();
        self.lines.extend_from_slice(newest);
        self.sync()
    }
}

/// What the file in `folder` holds; nothing if there is none.
pub(super) fn read(folder: &Path) -> Result<Vec<u8>, ReadError> {
    let path = folder.join(FILE);
    match bytes(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        read => read.map_err(|error| ReadError::io(&path, error)),
    }
}

fn bytes(path: &Path) -> io::Result<Vec<u8>> {
    // What is no file of the journal's may never end, or never begin.
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::other("the journal's recent records are expected here, and this is no file"));
    }
    let mut bytes = Vec::new();
    File::open(path)?.take(SIZE as u64).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The first line in `recent`, if it is whole, with its end.
pub(super) fn first(recent: &[u8]) -> Option<(Seq, &[u8])> {
    let line = recent.split_inclusive(|byte| *byte == b'\n').next()?;
    numbered(line).map(|(seq, _)| (seq, line))
}

fn numbered(line: &[u8]) -> Option<(Seq, Whole<'_>)> {
    let whole = Whole::check(line.strip_suffix(b"\n")?)?;
    Some((whole.seq()?, whole))
}

/// Those of the lines in `recent` that go on after `link`, from record `next` on, each with its end; and the number of
/// the record after them.
pub(super) fn after(recent: &[u8], mut next: Seq, mut link: Link) -> (&[u8], Seq) {
    let (mut begins, mut ends) = (0, 0);
    for line in recent.split_inclusive(|byte| *byte == b'\n') {
        let Some((seq, whole)) = numbered(line) else { break };
        let continues = seq == next && whole.continues(link);
        if continues {
            ends += line.len();
            (next, link) = (next.saturating_add(1), whole.link());
        } else if begins == ends && seq < next {
            // The segment has it.
            begins += line.len();
            ends = begins;
        } else {
            break;
        }
    }
    (recent.get(begins..ends).unwrap_or_default(), next)
}
