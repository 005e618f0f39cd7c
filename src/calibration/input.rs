//! The bytes of a file, whatever they are wrapped in.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use flate2::bufread::MultiGzDecoder;

/// What is read at once.
pub(super) const CHUNK: usize = 1 << 16;

const GZIP: [u8; 2] = [0x1f, 0x8b];
const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// The content of a file, unwrapped.
pub(super) type Content = BufReader<Box<dyn Read + Send>>;

/// Counts what is read of the file on disk.
struct Counted {
    file: File,
    read: Arc<AtomicU64>,
}

impl Read for Counted {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read(buffer)?;
        self.read.fetch_add(count as u64, Ordering::Relaxed);
        Ok(count)
    }
}

/// Opens a file and looks at its first bytes: its content, and what it was wrapped in.
pub(super) fn open(path: &Path, read: Arc<AtomicU64>) -> io::Result<(Content, Option<&'static str>)> {
    let mut raw = BufReader::with_capacity(CHUNK, Counted { file: File::open(path)?, read });
    let start = raw.fill_buf()?;
    let (inner, wrapped): (Box<dyn Read + Send>, _) = if start.starts_with(&GZIP) {
        (Box::new(MultiGzDecoder::new(raw)), Some("gzip"))
    } else if start.starts_with(&ZSTD) {
        (Box::new(zstd::Decoder::with_buffer(raw)?), Some("zstd"))
    } else {
        (Box::new(raw), None)
    };
    Ok((BufReader::with_capacity(CHUNK, inner), wrapped))
}

/// The longest row, in bytes; what is longer is no row, and is not held in memory to find that out.
pub(super) const LONGEST_ROW: usize = 1 << 20;

/// What is said of a longer one.
pub(super) const TOO_LONG: &str = "found a row of more than 1 MiB; expected a result of a probe a line";

/// Content of which no more is handed out for one row than a row may have.
pub(super) struct Rationed {
    content: Content,
    left: usize,
}

impl Rationed {
    pub(super) fn new(content: Content) -> Self {
        Self { content, left: LONGEST_ROW }
    }

    /// A new row begins.
    #[inline]
    pub(super) fn refill(&mut self) {
        self.left = LONGEST_ROW;
    }

    /// Whether the row had more than is handed out.
    pub(super) fn is_spent(&self) -> bool {
        self.left == 0
    }
}

impl Read for Rationed {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.is_spent() {
            return Err(io::Error::new(io::ErrorKind::InvalidData, TOO_LONG));
        }
        let count = self.content.read(buffer)?;
        self.left = self.left.saturating_sub(count);
        Ok(count)
    }
}

/// What went wrong while reading, in words.
pub(super) fn in_words(error: &io::Error, wrapped: Option<&str>) -> String {
    match (wrapped, error.kind()) {
        (Some(wrapped), io::ErrorKind::UnexpectedEof) => {
            format!("the {wrapped} stream breaks off; expected its end: the file is truncated")
        }
        (Some(wrapped), _) => format!("the {wrapped} stream is damaged: {error}"),
        (None, _) => format!("cannot be read: {error}"),
    }
}
