//! An HTTP/1 answer, decoded as its bytes come in.

use httparse::{EMPTY_HEADER, Response, Status};

use super::{Fault, Verdict};

/// The longest body that is looked at, in bytes.
pub(super) const LONGEST_BODY: usize = 64 * 1024;
/// The longest head, interim answers included, in bytes.
const LONGEST_HEAD: usize = 16 * 1024;
/// The most header fields.
const MOST_HEADERS: usize = 64;
/// The longest line that states a chunk's size, in bytes.
const LONGEST_CHUNK_LINE: usize = 256;
/// Bytes asked for at once. (Allocators are quickest below 1 KiB, and most answers are shorter.)
const PIECE: usize = 1_000;

/// What the head tells.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) status: u16,
    pub(super) retry_after: Option<String>,
    pub(super) date: Option<String>,
}

/// The body, without its transfer coding.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Body<'a> {
    /// All of it.
    Complete(&'a [u8]),
    /// Its first 64 KiB; the rest is not read.
    TooLong(&'a [u8]),
}

/// How far the answer has come.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Answer<'a> {
    /// Not all of it, but the head perhaps.
    More(Option<&'a Head>),
    /// All of it, or as much as is looked at.
    Whole(&'a Head, Body<'a>),
}

/// Why it is not an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wrong {
    /// Closed before it was complete.
    Cut {
        /// Whether nothing at all had come.
        empty: bool,
    },
    /// Not HTTP/1, or framed in a way that cannot be relied on.
    Malformed(&'static str),
}

impl Wrong {
    pub(super) fn into_verdict(self) -> Verdict {
        match self {
            Self::Cut { empty: true } => Verdict::fault(Fault::Reset, "closed without an answer"),
            Self::Cut { empty: false } => Verdict::fault(Fault::Reset, "closed in the middle of the answer"),
            Self::Malformed(what) => Verdict::fault(Fault::UnexpectedAnswer, format!("not an HTTP answer: {what}")),
        }
    }
}

#[derive(Debug)]
enum Framing {
    /// This many bytes.
    Length(u64),
    /// Until the connection is closed.
    Close,
    /// In chunks.
    Chunked(Chunk),
}

#[derive(Clone, Copy, Debug)]
enum Chunk {
    /// The line with the size is next.
    Size,
    /// So many bytes of data are next.
    Data(u64),
    /// The end of the line after the data is next.
    DataEnd,
    /// Trailer lines are next, up to an empty one.
    Trailer,
    /// That was all.
    Done,
}

/// Decodes one answer. Bytes go into [`Decoder::room`]; [`Decoder::advance`] looks at them.
#[derive(Debug)]
pub(super) struct Decoder {
    head_only: bool,
    /// What came in. Of a body in chunks, only what is not decoded yet.
    raw: Vec<u8>,
    /// Whether anything ever came in.
    any: bool,
    /// Bytes of interim answers that were skipped.
    skipped: usize,
    head: Option<(Head, Framing)>,
    /// Decoded chunks.
    chunks: Vec<u8>,
}

impl Decoder {
    /// For an answer to HEAD, `head_only`: it has no body whatever its head says.
    pub(super) fn new(head_only: bool) -> Self {
        Self { head_only, raw: Vec::new(), any: false, skipped: 0, head: None, chunks: Vec::new() }
    }

    /// Where to append the next bytes.
    pub(super) fn room(&mut self) -> &mut Vec<u8> {
        self.raw.reserve(PIECE);
        &mut self.raw
    }

    /// Looks at what has come in; `closed` says that nothing more will.
    pub(super) fn advance(&mut self, closed: bool) -> Result<Answer<'_>, Wrong> {
        self.any |= !self.raw.is_empty();
        while self.head.is_none() {
            match self.parse_head()? {
                true => {}
                false if closed => return Err(Wrong::Cut { empty: !self.any }),
                false => return Ok(Answer::More(None)),
            }
        }
        if let Some((_, Framing::Chunked(chunk))) = &mut self.head {
            decode_chunks(chunk, &mut self.raw, &mut self.chunks)?;
        }
        let Some((head, framing)) = &self.head else { return Ok(Answer::More(None)) };
        let (body, complete) = match framing {
            Framing::Length(length) => {
                let length = usize::try_from(*length).unwrap_or(usize::MAX);
                (self.raw.get(..length).unwrap_or(&self.raw), self.raw.len() >= length)
            }
            Framing::Close => (self.raw.as_slice(), closed),
            Framing::Chunked(chunk) => (self.chunks.as_slice(), matches!(chunk, Chunk::Done)),
        };
        match body.get(..LONGEST_BODY) {
            Some(start) if body.len() > LONGEST_BODY => Ok(Answer::Whole(head, Body::TooLong(start))),
            _ if complete => Ok(Answer::Whole(head, Body::Complete(body))),
            _ if closed => Err(Wrong::Cut { empty: false }),
            _ => Ok(Answer::More(Some(head))),
        }
    }

    /// Takes in the head, or skips an interim answer (1xx); whether either was there as a whole.
    fn parse_head(&mut self) -> Result<bool, Wrong> {
        let mut headers = [EMPTY_HEADER; MOST_HEADERS];
        let mut response = Response::new(&mut headers);
        let parsed = response.parse(&self.raw).map_err(|error| match error {
            httparse::Error::Status | httparse::Error::Version => Wrong::Malformed("no status line of HTTP/1"),
            httparse::Error::TooManyHeaders => Wrong::Malformed("more than 64 header fields"),
            _ => Wrong::Malformed("a header field is not well-formed"),
        })?;
        let length = match parsed {
            Status::Complete(length) => length,
            Status::Partial if self.skipped + self.raw.len() > LONGEST_HEAD => {
                return Err(Wrong::Malformed("the head is longer than 16 KiB"));
            }
            Status::Partial => return Ok(false),
        };
        let status = response.code.unwrap_or_default();
        if (100..200).contains(&status) {
            self.raw.drain(..length);
            self.skipped += length;
            return if self.skipped > LONGEST_HEAD {
                Err(Wrong::Malformed("too many interim answers"))
            } else {
                Ok(true)
            };
        }
        let mut head = Head { status, retry_after: None, date: None };
        let mut stated = None;
        let mut coded = None;
        for header in response.headers.iter() {
            let value = || String::from_utf8_lossy(header.value).into_owned();
            if header.name.eq_ignore_ascii_case("content-length") {
                let length = content_length(header.value)?;
                if stated.is_some_and(|other| other != length) {
                    return Err(Wrong::Malformed("two different lengths"));
                }
                stated = Some(length);
            } else if header.name.eq_ignore_ascii_case("transfer-encoding") {
                coded = Some(header.value.trim_ascii().to_ascii_lowercase().ends_with(b"chunked"));
            } else if header.name.eq_ignore_ascii_case("retry-after") {
                head.retry_after = Some(value());
            } else if header.name.eq_ignore_ascii_case("date") {
                // Of interest only beside Retry-After, and too frequent to copy for nothing.
                if status == 429 || status == 418 {
                    head.date = Some(value());
                }
            }
        }
        let framing = if self.head_only || matches!(status, 204 | 304) {
            Framing::Length(0)
        } else {
            match (coded, stated) {
                (Some(true), _) => Framing::Chunked(Chunk::Size),
                (Some(false), _) | (None, None) => Framing::Close,
                (None, Some(length)) => Framing::Length(length),
            }
        };
        self.raw.drain(..length);
        self.head = Some((head, framing));
        Ok(true)
    }
}

fn content_length(value: &[u8]) -> Result<u64, Wrong> {
    let digits = value.trim_ascii();
    let text = std::str::from_utf8(digits).ok().filter(|_| digits.iter().all(u8::is_ascii_digit));
    text.and_then(|text| text.parse().ok()).ok_or(Wrong::Malformed("the length is not a number"))
}

/// Moves what is decoded from `raw` to `body`, until more is needed, all is done or the body is too long.
fn decode_chunks(chunk: &mut Chunk, raw: &mut Vec<u8>, body: &mut Vec<u8>) -> Result<(), Wrong> {
    let mut at = 0;
    let mut trailer = 0;
    while body.len() <= LONGEST_BODY {
        let rest = raw.get(at..).unwrap_or_default();
        match *chunk {
            Chunk::Data(left) => {
                let take = usize::try_from(left).unwrap_or(usize::MAX).min(rest.len());
                body.extend_from_slice(rest.get(..take).unwrap_or_default());
                at += take;
                let left = left.saturating_sub(take as u64);
                *chunk = if left == 0 { Chunk::DataEnd } else { Chunk::Data(left) };
                if left > 0 {
                    break;
                }
            }
            Chunk::Done => break,
            Chunk::Size | Chunk::DataEnd | Chunk::Trailer => {
                let end = rest.iter().position(|byte| *byte == b'\n');
                if end.unwrap_or(rest.len()) > LONGEST_CHUNK_LINE {
                    return Err(Wrong::Malformed("a chunk's line is too long"));
                }
                let Some(end) = end else { break };
                let line = rest.get(..end).unwrap_or_default();
                let line = line.strip_suffix(b"\r").unwrap_or(line);
                at += end + 1;
                *chunk = match *chunk {
                    Chunk::Size => match chunk_size(line)? {
                        0 => Chunk::Trailer,
                        size => Chunk::Data(size),
                    },
                    Chunk::DataEnd if line.is_empty() => Chunk::Size,
                    Chunk::DataEnd => return Err(Wrong::Malformed("a chunk is longer than it says")),
                    _ if line.is_empty() => Chunk::Done,
                    _ => {
                        trailer += end;
                        if trailer > LONGEST_HEAD {
                            return Err(Wrong::Malformed("the trailer is too long"));
                        }
                        Chunk::Trailer
                    }
                };
            }
        }
    }
    raw.drain(..at);
    Ok(())
}

fn chunk_size(line: &[u8]) -> Result<u64, Wrong> {
    let digits = line.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
    let text = std::str::from_utf8(digits).ok().filter(|_| digits.iter().all(u8::is_ascii_hexdigit));
    text.and_then(|text| u64::from_str_radix(text, 16).ok()).ok_or(Wrong::Malformed("a chunk's size is not a number"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Feeds `bytes` in pieces and closes the connection; the status and the body, or what is wrong.
    fn decode(bytes: &[u8], piece: usize, head_only: bool) -> Result<(u16, Vec<u8>, bool), Wrong> {
        let mut decoder = Decoder::new(head_only);
        let mut pieces = bytes.chunks(piece.max(1));
        loop {
            let next = pieces.next();
            decoder.room().extend_from_slice(next.unwrap_or_default());
            if let Answer::Whole(head, body) = decoder.advance(next.is_none())? {
                let (body, whole) = match body {
                    Body::Complete(body) => (body.to_vec(), true),
                    Body::TooLong(body) => (body.to_vec(), false),
                };
                return Ok((head.status, body, whole));
            }
            assert!(next.is_some(), "a closed connection ends it");
        }
    }

    fn both(bytes: &[u8]) -> Result<(u16, Vec<u8>, bool), Wrong> {
        let whole = decode(bytes, usize::MAX, false);
        for piece in [1, 2, 3, 7] {
            assert_eq!(decode(bytes, piece, false), whole, "in pieces of {piece}");
        }
        whole
    }

    #[test]
    fn a_body_is_framed_by_length_by_chunks_or_by_the_end_of_the_connection() {
        let ok = |body: &str| Ok((200, body.as_bytes().to_vec(), true));
        assert_eq!(both(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"), ok("ok"));
        assert_eq!(both(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok and what is not asked for"), ok("ok"));
        assert_eq!(both(b"HTTP/1.0 200\r\n\r\nok"), ok("ok"));
        assert_eq!(
            both(b"HTTP/1.1 200 OK\r\ntransfer-encoding: Chunked\r\ncontent-length: 9\r\n\r\n1;x=y\r\no\r\n01\r\nk\r\n0\r\nA: b\r\n\r\n"),
            ok("ok")
        );
        assert_eq!(both(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 x\r\n\r\nHTTP/1.1 200 OK\r\n\r\nok"), ok("ok"));
        assert_eq!(decode(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n", 5, true), ok(""));
        assert_eq!(both(b"HTTP/1.1 204 No Content\r\n\r\n").map(|(status, ..)| status), Ok(204));
    }

    #[test]
    fn what_ends_too_early_is_cut() {
        let cut = Err(Wrong::Cut { empty: false });
        assert_eq!(both(b""), Err(Wrong::Cut { empty: true }));
        assert_eq!(both(b"HTTP/1.1 200 OK\r\nContent-Le"), cut);
        assert_eq!(both(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok"), cut);
        assert_eq!(both(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n"), cut);
        assert_eq!(both(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n"), cut);
        assert_eq!(both(b"HTTP/1.1 100 Continue\r\n\r\n"), cut);
    }

    #[test]
    fn what_is_not_http_or_contradicts_itself_is_malformed() {
        for bytes in [
            b"SSH-2.0-OpenSSH_9.2\r\n".as_slice(),
            b"HTTP/2 200\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok",
            b"HTTP/1.1 200 OK\r\nContent-Length: +2\r\n\r\nok",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nok\r\n0\r\n\r\n",
        ] {
            assert!(matches!(both(bytes), Err(Wrong::Malformed(_))), "{:?}", String::from_utf8_lossy(bytes));
        }
        let endless = b"HTTP/1.1 200 OK\r\nX: ".iter().copied().chain(std::iter::repeat_n(b'a', 20_000));
        assert!(matches!(both(&endless.collect::<Vec<_>>()), Err(Wrong::Malformed(_))));
    }

    #[test]
    fn only_the_first_64_kib_of_a_body_are_looked_at() {
        let body = vec![b'a'; LONGEST_BODY + 1];
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", u64::MAX);
        let found = decode(&[head.as_bytes(), &body].concat(), 1_000, false).unwrap();
        assert_eq!((found.1.len(), found.2), (LONGEST_BODY, false));
        let chunked = format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{:x}\r\n", u64::MAX);
        let found = decode(&[chunked.as_bytes(), &body].concat(), 1_000, false).unwrap();
        assert_eq!((found.1.len(), found.2), (LONGEST_BODY, false));
        let exact = format!("HTTP/1.1 200 OK\r\nContent-Length: {LONGEST_BODY}\r\n\r\n");
        assert!(decode(&[exact.as_bytes(), &body[1..]].concat(), 1_000, false).unwrap().2);
    }

    proptest! {
        #[test]
        fn any_bytes_in_any_pieces_end_in_the_same_answer(
            bytes in prop::collection::vec(any::<u8>(), 0..400),
            headed in any::<bool>(),
            piece in 1_usize..50,
        ) {
            let head: &[u8] = if headed { b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" } else { b"" };
            let bytes = [head, &bytes].concat();
            prop_assert_eq!(decode(&bytes, piece, false), decode(&bytes, usize::MAX, false));
        }
    }
}
