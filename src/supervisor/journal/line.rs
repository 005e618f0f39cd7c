//! A record as its line, and back: the text, the checksum and the chain.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde_json::value::RawValue;
use sha2::{Digest as _, Sha256};

use super::record::{Answer, Body, ConfigRecord, Record, Seq};
use super::stamp;
use crate::engine::Timestamp;
use crate::scenario::{self, Step, Verb};

impl Body {
    /// The body as the journal has it.
    pub(super) fn to_json(&self) -> String {
        let mut out = Vec::new();
        // What was read from JSON can be written as JSON.
        let _ = self.write(&scenario::seconds(0), &mut out);
        String::from_utf8_lossy(&out).into_owned()
    }

    /// `at`: the record's time in seconds.
    fn write(&self, at: &str, out: &mut Vec<u8>) -> serde_json::Result<()> {
        match self {
            Self::Segment(body) => serde_json::to_writer(out, body),
            Self::Start(body) => serde_json::to_writer(out, body),
            Self::Config(ConfigRecord { line, hash }) => {
                out.extend_from_slice(b"{\"line\":");
                out.extend_from_slice(line.as_bytes());
                out.extend_from_slice(b",\"hash\":");
                serde_json::to_writer(&mut *out, hash)?;
                out.push(b'}');
                Ok(())
            }
            Self::Snapshot(body) => serde_json::to_writer(out, body),
            Self::Input { verb, answer } => {
                out.extend_from_slice(b"{\"line\":");
                out.extend_from_slice(verb.to_line_at(at).as_bytes());
                out.extend_from_slice(b",\"answer\":");
                serde_json::to_writer(&mut *out, answer)?;
                out.push(b'}');
                Ok(())
            }
            Self::HookStart(body) => serde_json::to_writer(out, body),
            Self::HookEnd(body) => serde_json::to_writer(out, body),
            Self::Stage(body) => serde_json::to_writer(out, body),
            Self::Command(body) => serde_json::to_writer(out, body),
            Self::Note(body) => serde_json::to_writer(out, body),
            Self::Stop(body) => serde_json::to_writer(out, body),
        }
    }

    fn parse(kind: &str, at: u64, body: &str) -> Result<Self, String> {
        fn read<'de, T: Deserialize<'de>>(body: &'de str) -> Result<T, String> {
            serde_json::from_str(body).map_err(|error| error.to_string())
        }
        Ok(match kind {
            "segment" => Self::Segment(read(body)?),
            "start" => Self::Start(read(body)?),
            "config" => {
                let StoredConfig { line, hash } = read(body)?;
                Self::Config(ConfigRecord { line: line.get().to_owned(), hash })
            }
            "snapshot" => Self::Snapshot(read(body)?),
            "input" => {
                let StoredInput { line, answer } = read(body)?;
                let step = Step::parse(line.get()).map_err(|fault| fault.to_string())?;
                if step.at != at {
                    return Err("the input's \"at\" is not the record's".to_owned());
                }
                if matches!(step.verb, Verb::Status | Verb::WallStep(_)) {
                    return Err(format!("the verb {:?} is no input of an engine", step.verb.name()));
                }
                Self::Input { verb: step.verb, answer }
            }
            "hook_start" => Self::HookStart(read(body)?),
            "hook_end" => Self::HookEnd(read(body)?),
            "stage" => Self::Stage(read(body)?),
            "command" => Self::Command(read(body)?),
            "note" => Self::Note(read(body)?),
            "stop" => Self::Stop(read(body)?),
            _ => return Err(format!("the kind {kind:?} is unknown: written by another version")),
        })
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredConfig<'a> {
    #[serde(borrow)]
    line: &'a RawValue,
    hash: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredInput<'a> {
    #[serde(borrow)]
    line: &'a RawValue,
    answer: Answer,
}

/// The first 128 bits of the SHA-256 of a line without its end, in hexadecimal. To change a line and keep the chain,
/// one has to find a second text with the same 128 bits, or write every later line anew.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Link([u8; 32]);

impl Link {
    /// What the first line of a journal continues.
    pub(super) const FIRST: Self = Self([b'0'; 32]);

    pub(super) fn of(line: &[u8]) -> Self {
        Self(hex(Sha256::digest(line)))
    }

    fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.escape_ascii().fmt(f)
    }
}

/// As many of `bytes` as fit, in lower-case hexadecimal.
fn hex<const N: usize>(bytes: impl IntoIterator<Item = u8>) -> [u8; N] {
    // Without a branch: nothing foretells a digit of a hash.
    const fn digit(nibble: u8) -> u8 {
        let low = nibble & 0xf;
        b'0' + low + (low > 9) as u8 * (b'a' - b'0' - 10)
    }
    let mut hex = [b'0'; N];
    for (pair, byte) in hex.chunks_exact_mut(2).zip(bytes) {
        if let [high, low] = pair {
            (*high, *low) = (digit(byte >> 4), digit(byte));
        }
    }
    hex
}

const PREV: &[u8] = b",\"prev\":\"";
const CRC: &[u8] = b"\",\"crc\":\"";
const END: &[u8] = b"\"}";
/// Where the end of a line begins, counted from its end: `","crc":"12345678"}`.
const CRC_PART: usize = CRC.len() + 8 + END.len();
/// The same for `,"prev":"..`.
const PREV_PART: usize = PREV.len() + 32 + CRC_PART;

/// What is the same for every record of a run, or of a second.
#[derive(Clone, Debug)]
pub(super) struct Stamp {
    /// The text from the boot id to the wall time.
    boot: Vec<u8>,
    moments: stamp::Moments,
}

impl Stamp {
    /// `boot`: first 8 characters of the boot id.
    pub(super) fn new(boot: &str) -> Self {
        let boot = format!(",\"boot\":{},\"wall\":\"", serde_json::Value::from(boot)).into_bytes();
        Self { boot, moments: stamp::Moments::default() }
    }
}

/// Where a record goes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) seq: Seq,
    pub(super) prev: Link,
}

/// Appends a line with its end to `out` and gives the link that the next one continues.
pub(super) fn write_line(
    out: &mut Vec<u8>,
    place: Place,
    stamp: &mut Stamp,
    wall: u64,
    (at, group, body): (Timestamp, Option<&str>, &Body),
) -> serde_json::Result<Link> {
    let start = out.len();
    let push = |out: &mut Vec<u8>, text: &str| out.extend_from_slice(text.as_bytes());
    push(out, "{\"seq\":");
    serde_json::to_writer(&mut *out, &place.seq)?;
    push(out, ",\"at\":");
    let at = scenario::seconds(at.as_nanos());
    push(out, &at);
    out.extend_from_slice(&stamp.boot);
    stamp.moments.write(wall, out);
    push(out, "\",\"group\":");
    serde_json::to_writer(&mut *out, &group)?;
    push(out, ",\"kind\":\"");
    push(out, body.kind());
    push(out, "\",\"body\":");
    body.write(&at, out)?;
    out.extend_from_slice(PREV);
    out.extend_from_slice(place.prev.as_bytes());
    let crc = crc32fast::hash(out.get(start..).unwrap_or_default());
    out.extend_from_slice(CRC);
    out.extend_from_slice(&crc_hex(crc));
    out.extend_from_slice(END);
    let link = Link::of(out.get(start..).unwrap_or_default());
    out.push(b'\n');
    Ok(link)
}

fn crc_hex(crc: u32) -> [u8; 8] {
    hex(crc.to_be_bytes())
}

/// A line, without its end, that is whole: its checksum is right.
#[derive(Clone, Copy, Debug)]
pub(super) struct Whole<'a> {
    line: &'a [u8],
}

impl<'a> Whole<'a> {
    /// `None`: the line is broken.
    pub(super) fn check(line: &'a [u8]) -> Option<Self> {
        let covered = line.get(..line.len().checked_sub(CRC_PART)?)?;
        let rest = line.get(covered.len()..)?;
        let crc = rest.strip_prefix(CRC)?.strip_suffix(END)?;
        let begins = covered.starts_with(b"{\"seq\":");
        (begins && crc == crc_hex(crc32fast::hash(covered))).then_some(Self { line })
    }

    /// Whether `bytes` begin with a whole line that more than one byte follows: a line whose end was damaged, not a
    /// line that was never completed.
    pub(super) fn is_followed(bytes: &[u8]) -> bool {
        let mut from = 0;
        while let Some(found) = bytes.get(from..).and_then(|rest| find(rest, CRC)) {
            let end = from + found + CRC_PART;
            if bytes.len() > end + 1 && bytes.get(..end).is_some_and(|line| Whole::check(line).is_some()) {
                return true;
            }
            from += found + 1;
        }
        false
    }

    pub(super) fn link(self) -> Link {
        Link::of(self.line)
    }

    /// The link that it continues.
    pub(super) fn prev(self) -> Option<&'a [u8]> {
        let part = self.line.get(self.line.len().checked_sub(PREV_PART)?..)?;
        part.strip_prefix(PREV)?.get(..32)
    }

    pub(super) fn continues(self, link: Link) -> bool {
        self.prev() == Some(link.as_bytes())
    }

    pub(super) fn seq(self) -> Option<Seq> {
        let rest = self.line.strip_prefix(b"{\"seq\":")?;
        let digits = rest.get(..rest.iter().position(|byte| !byte.is_ascii_digit())?)?;
        std::str::from_utf8(digits).ok()?.parse().ok()
    }

    /// The record; in words why it is none.
    pub(super) fn parse(self) -> Result<Record, String> {
        let text = std::str::from_utf8(self.line).map_err(|_| "not UTF-8".to_owned())?;
        let stored: Stored<'_> = serde_json::from_str(text).map_err(|error| error.to_string())?;
        let at = scenario::parse_seconds(stored.at.get()).ok_or_else(|| format!("\"at\" is {}", stored.at))?;
        let wall = stamp::parse(&stored.wall).ok_or_else(|| format!("\"wall\" is {:?}", stored.wall))?;
        let body = Body::parse(&stored.kind, at, stored.body.get())
            .map_err(|why| format!("a record of kind {:?}: {why}", stored.kind))?;
        Ok(Record {
            seq: stored.seq,
            at: Timestamp::from_nanos(at),
            boot: stored.boot,
            wall,
            group: stored.group,
            body,
        })
    }
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack.windows(needle.len()).position(|window| window == needle)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored<'a> {
    seq: Seq,
    #[serde(borrow)]
    at: &'a RawValue,
    boot: String,
    #[serde(borrow)]
    wall: Cow<'a, str>,
    group: Option<String>,
    #[serde(borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    body: &'a RawValue,
    #[allow(dead_code, reason = "checked as bytes; named so that no other key passes")]
    #[serde(borrow)]
    prev: Cow<'a, str>,
    #[allow(dead_code, reason = "checked as bytes; named so that no other key passes")]
    #[serde(borrow)]
    crc: Cow<'a, str>,
}
