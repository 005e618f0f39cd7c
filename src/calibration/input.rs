//! The bytes of a file, whatever they are wrapped in.

use std::io::{self, BufRead, BufReader, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use flate2::bufread::GzDecoder;

/// What is read at once.
const CHUNK: usize = 1 << 16;

const GZIP: [u8; 2] = [0x1f, 0x8b];
const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
/// What follows the first byte, 0x50 to 0x5f, of a frame that readers pass over: tools put an index into one.
const SKIPPABLE: [u8; 3] = [0x2a, 0x4d, 0x18];

/// Bytes as they are handed in.
pub(super) type Raw = Box<dyn Read + Send>;
/// The same, unwrapped.
pub(super) type Content = BufReader<Raw>;

/// Counts what is read, and reads as much as there is room for: who looks at a beginning sees it, however slowly a pipe is
/// filled.
struct Counted {
    raw: Raw,
    read: Arc<AtomicU64>,
    /// What came behind the last bytes.
    failed: Option<io::Error>,
}

impl Read for Counted {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        let mut count = 0;
        while let Some(room) = buffer.get_mut(count..).filter(|room| !room.is_empty()) {
            match self.raw.read(room) {
                Ok(0) => break,
                Ok(more) => count += more,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if count == 0 => return Err(error),
                Err(error) => {
                    self.failed = Some(error);
                    break;
                }
            }
        }
        self.read.fetch_add(count as u64, Ordering::Relaxed);
        Ok(count)
    }
}

/// The bytes of a file, counted.
type Source = BufReader<Counted>;

/// A member of a gzip stream, or a frame of a zstd stream.
trait Part: Read + Sized {
    /// The one that begins here.
    fn of(source: Source) -> io::Result<Self>;
    /// What follows it.
    fn rest(self) -> Source;
    /// Whether another one begins so, as far as its beginning is there.
    fn begins(start: &[u8]) -> bool;
}

impl Part for GzDecoder<Source> {
    fn of(source: Source) -> io::Result<Self> {
        Ok(Self::new(source))
    }

    fn rest(self) -> Source {
        self.into_inner()
    }

    fn begins(start: &[u8]) -> bool {
        start.iter().zip(GZIP).all(|(found, expected)| *found == expected)
    }
}

impl Part for zstd::Decoder<'static, Source> {
    fn of(source: Source) -> io::Result<Self> {
        Self::with_buffer(source).map(Self::single_frame)
    }

    fn rest(self) -> Source {
        self.into_inner()
    }

    fn begins(start: &[u8]) -> bool {
        let is = |start: &[u8], magic: &[u8]| start.iter().zip(magic).all(|(found, expected)| found == expected);
        let skippable = |(kind, rest): (&u8, &[u8])| (0x50..=0x5f).contains(kind) && is(rest, &SKIPPABLE);
        is(start, &ZSTD) || start.split_first().is_some_and(skippable)
    }
}

/// The parts of a compressed stream, one after the other, and nothing else after them.
struct Parts<P> {
    /// None once reading failed.
    part: Option<P>,
}

impl<P: Part> Parts<P> {
    fn of(source: Source) -> io::Result<Self> {
        Ok(Self { part: Some(P::of(source)?) })
    }
}

impl<P: Part> Read for Parts<P> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while let Some(mut part) = self.part.take() {
            let count = part.read(buffer)?;
            if count > 0 || buffer.is_empty() {
                self.part = Some(part);
                return Ok(count);
            }
            let mut rest = part.rest();
            let start = rest.fill_buf()?;
            if start.is_empty() {
                break;
            }
            if !P::begins(start) {
                return Err(io::Error::new(io::ErrorKind::InvalidData, FOLLOWED));
            }
            self.part = Some(P::of(rest)?);
        }
        Ok(0)
    }
}

/// What is said of a compressed stream that is not the end of its file.
const FOLLOWED: &str = "something else follows";

/// Looks at the first bytes: the content, and what it was wrapped in.
pub(super) fn unwrapped(raw: Raw, read: Arc<AtomicU64>) -> io::Result<(Content, Option<&'static str>)> {
    let mut raw = BufReader::with_capacity(CHUNK, Counted { raw, read, failed: None });
    let start = raw.fill_buf()?;
    let (inner, wrapped): (Raw, _) = if start.starts_with(&GZIP) {
        (Box::new(Parts::<GzDecoder<_>>::of(raw)?), Some("gzip"))
    } else if start.len() >= ZSTD.len() && zstd::Decoder::begins(start) {
        (Box::new(Parts::<zstd::Decoder<'_, _>>::of(raw)?), Some("zstd"))
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
            let part = if wrapped == "gzip" { "member" } else { "frame" };
            format!(
                "after the end of the {wrapped} stream something follows that is no {wrapped}; expected the end, or another \
                 {wrapped} {part}"
            )
        }
        (Some(wrapped), _) => format!("the {wrapped} stream is damaged: {error}"),
        (None, _) => format!("cannot be read: {error}"),
    }
}
