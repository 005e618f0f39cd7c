//! The bytes of a file, whatever they are wrapped in.

use std::io::{self, BufRead, BufReader, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use flate2::bufread::GzDecoder;

/// What is read at once.
const CHUNK: usize = 1 << 16;

const GZIP: [u8; 2] = [0x1f, 0x8b];
const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// Bytes as they are handed in.
pub(super) type Raw = Box<dyn Read + Send>;
/// The same, unwrapped.
pub(super) type Content = BufReader<Raw>;

/// Counts what is read.
struct Counted {
    raw: Raw,
    read: Arc<AtomicU64>,
}

impl Read for Counted {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.raw.read(buffer)?;
        self.read.fetch_add(count as u64, Ordering::Relaxed);
        Ok(count)
    }
}

/// The members of a gzip stream, one after the other, and nothing else after them.
struct Members<R> {
    /// None once reading failed.
    member: Option<GzDecoder<R>>,
}

impl<R: BufRead> Read for Members<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while let Some(mut member) = self.member.take() {
            let count = member.read(buffer)?;
            if count > 0 || buffer.is_empty() {
                self.member = Some(member);
                return Ok(count);
            }
            let mut rest = member.into_inner();
            let start = rest.fill_buf()?;
            if start.is_empty() {
                break;
            }
            if start.iter().zip(GZIP).any(|(found, expected)| *found != expected) {
                return Err(io::Error::new(io::ErrorKind::InvalidData, FOLLOWED));
            }
            self.member = Some(GzDecoder::new(rest));
        }
        Ok(0)
    }
}

/// What is said of a gzip stream that is not the end of its file.
const FOLLOWED: &str = "something follows that is no gzip; expected the end, or another gzip member";

/// Looks at the first bytes: the content, and what it was wrapped in.
pub(super) fn unwrapped(raw: Raw, read: Arc<AtomicU64>) -> io::Result<(Content, Option<&'static str>)> {
    let mut raw = BufReader::with_capacity(CHUNK, Counted { raw, read });
    let start = raw.fill_buf()?;
    let (inner, wrapped): (Raw, _) = if start.starts_with(&GZIP) {
        (Box::new(Members { member: Some(GzDecoder::new(raw)) }), Some("gzip"))
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

/// What went wrong while reading, in words.
pub(super) fn in_words(error: &io::Error, wrapped: Option<&str>) -> String {
    match (wrapped, error.kind()) {
        (Some(wrapped), io::ErrorKind::UnexpectedEof) => {
            format!("the {wrapped} stream breaks off; expected its end: the file is truncated")
        }
        (Some(wrapped), io::ErrorKind::InvalidData) if error.to_string() == FOLLOWED => {
            format!("after the end of the {wrapped} stream {FOLLOWED}")
        }
        (Some(wrapped), _) => format!("the {wrapped} stream is damaged: {error}"),
        (None, _) => format!("cannot be read: {error}"),
    }
}
