//! FIX tag=value: bytes <-> messages. No I/O and no clock.
//!
//! Framing is by tags 8, 9 and 10 alone. What does not fit is refused, never skipped: TCP delivers what was sent, so
//! that a stream that is not FIX, or is FIX with a wrong checksum, was spoilt by something on the path, and whatever
//! might be found further on in it proves nothing. At most one message of [`LONGEST_BODY`] is kept.

use std::fmt;

use thiserror::Error;

/// Ends each field.
const SOH: u8 = 1;
/// The longest body that is taken, in bytes. The longest session-level message is a few hundred.
pub(super) const LONGEST_BODY: usize = 65_536;
/// The shortest: a MsgType of one character.
const SHORTEST_BODY: usize = 5;
/// The longest BeginString (`FIXT.1.1` has 8).
const LONGEST_BEGIN: usize = 16;
/// Digits of the longest BodyLength that is read; some engines pad with zeros.
const LONGEST_LENGTH: usize = 9;
/// `10=123` and its SOH.
const TRAILER: usize = 7;

/// The tags that this side reads or writes, by the names of the standard.
pub(super) mod tag {
    pub(in super::super) const BEGIN_SEQ_NO: u32 = 7;
    pub(in super::super) const BEGIN_STRING: u32 = 8;
    pub(in super::super) const BODY_LENGTH: u32 = 9;
    pub(in super::super) const CHECK_SUM: u32 = 10;
    pub(in super::super) const END_SEQ_NO: u32 = 16;
    pub(in super::super) const MSG_SEQ_NUM: u32 = 34;
    pub(in super::super) const MSG_TYPE: u32 = 35;
    pub(in super::super) const NEW_SEQ_NO: u32 = 36;
    pub(in super::super) const POSS_DUP_FLAG: u32 = 43;
    pub(in super::super) const REF_SEQ_NUM: u32 = 45;
    pub(in super::super) const SENDER_COMP_ID: u32 = 49;
    pub(in super::super) const SENDER_SUB_ID: u32 = 50;
    pub(in super::super) const SENDING_TIME: u32 = 52;
    pub(in super::super) const TARGET_COMP_ID: u32 = 56;
    pub(in super::super) const TARGET_SUB_ID: u32 = 57;
    pub(in super::super) const TEXT: u32 = 58;
    pub(in super::super) const ENCRYPT_METHOD: u32 = 98;
    pub(in super::super) const HEART_BT_INT: u32 = 108;
    pub(in super::super) const TEST_REQ_ID: u32 = 112;
    pub(in super::super) const ORIG_SENDING_TIME: u32 = 122;
    pub(in super::super) const GAP_FILL_FLAG: u32 = 123;
    pub(in super::super) const RESET_SEQ_NUM_FLAG: u32 = 141;
    pub(in super::super) const SESSION_REJECT_REASON: u32 = 373;
    pub(in super::super) const USERNAME: u32 = 553;
    pub(in super::super) const PASSWORD: u32 = 554;
    pub(in super::super) const DEFAULT_APPL_VER_ID: u32 = 1137;
    pub(in super::super) const SESSION_STATUS: u32 = 1409;
}

/// Header fields without which no message is one, and that no message has twice.
const REQUIRED: [u32; 5] =
    [tag::MSG_TYPE, tag::SENDER_COMP_ID, tag::TARGET_COMP_ID, tag::MSG_SEQ_NUM, tag::SENDING_TIME];
/// Fields that belong around a body, never into it.
const FRAME: [u32; 3] = [tag::BEGIN_STRING, tag::BODY_LENGTH, tag::CHECK_SUM];

/// Fields whose value may hold SOH, each with the tag of the field before it that tells its length.
const DATA: [(u32, u32); 15] = [
    (90, 91),
    (93, 89),
    (95, 96),
    (212, 213),
    (348, 349),
    (350, 351),
    (352, 353),
    (354, 355),
    (356, 357),
    (358, 359),
    (360, 361),
    (362, 363),
    (364, 365),
    (445, 446),
    (1401, 1402),
];

/// Why bytes are not FIX.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(super) enum Garbled {
    /// Another protocol, or the middle of a message.
    #[error("{found:?} is no beginning of a FIX message; expected 8=FIX... and 9=")]
    Begin { found: String },
    /// Not a length, or none that any message has.
    #[error("BodyLength (9) {found:?}; expected a number from {SHORTEST_BODY} to {LONGEST_BODY}")]
    BodyLength { found: String },
    /// Where the body should end, no trailer begins.
    #[error("{found:?} where BodyLength (9) says that CheckSum (10) stands")]
    Trailer { found: String },
    /// The bytes were changed on the way, or the sum is wrong.
    #[error("CheckSum (10) {found}; expected {expected:03}")]
    CheckSum { found: String, expected: u8 },
    /// Not `tag=value`.
    #[error("{found:?} is no field; expected tag=value")]
    Field { found: String },
    /// A field that every message has.
    #[error("the message has no field {tag}")]
    Missing { tag: u32 },
    /// A field that no message has twice, or that has no place in a body.
    #[error("the message has a field {tag} too many")]
    Repeated { tag: u32 },
    /// Not a sequence number.
    #[error("MsgSeqNum (34) {found:?}; expected a number above zero")]
    MsgSeqNum { found: String },
}

/// One whole message: framed, its checksum right, its header there.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Message {
    begin: Box<str>,
    body: Box<[u8]>,
    number: u64,
}

impl fmt::Debug for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.begin, excerpt(&self.body, usize::MAX))
    }
}

impl Message {
    /// BeginString.
    pub(super) fn begin(&self) -> &str {
        &self.begin
    }

    /// MsgType.
    pub(super) fn kind(&self) -> &[u8] {
        self.get(tag::MSG_TYPE).unwrap_or_default()
    }

    /// MsgSeqNum.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// The first field with this tag.
    pub(super) fn get(&self, tag: u32) -> Option<&[u8]> {
        Fields { rest: &self.body, data: None }.flatten().find(|(found, _)| *found == tag).map(|(_, value)| value)
    }

    /// Whether a flag is there and set.
    pub(super) fn is_set(&self, tag: u32) -> bool {
        self.get(tag) == Some(b"Y")
    }

    /// A number that is there; one that is too large counts as the largest. `None` for anything else.
    pub(super) fn integer(&self, tag: u32) -> Option<u64> {
        integer(self.get(tag)?)
    }

    fn new(begin: &[u8], body: &[u8]) -> Result<Self, Garbled> {
        let mut seen = [false; REQUIRED.len()];
        let mut number = None;
        for (place, field) in (Fields { rest: body, data: None }).enumerate() {
            let (tag, value) = field?;
            if place == 0 && tag != tag::MSG_TYPE {
                return Err(Garbled::Missing { tag: tag::MSG_TYPE });
            }
            if let Some(at) = REQUIRED.iter().position(|required| *required == tag) {
                if std::mem::replace(&mut seen[at], true) {
                    return Err(Garbled::Repeated { tag });
                }
            } else if FRAME.contains(&tag) {
                return Err(Garbled::Repeated { tag });
            }
            if tag == tag::MSG_SEQ_NUM {
                number = Some(integer(value).filter(|number| *number > 0).ok_or_else(|| {
                    let found = excerpt(value, 20);
                    Garbled::MsgSeqNum { found }
                })?);
            }
        }
        if let Some((tag, _)) = REQUIRED.iter().zip(seen).find(|(_, seen)| !seen) {
            return Err(Garbled::Missing { tag: *tag });
        }
        let begin = String::from_utf8_lossy(begin).into();
        Ok(Self { begin, body: body.into(), number: number.unwrap_or_default() })
    }
}

/// Digits as a number, the largest if it is too large.
fn integer(digits: &[u8]) -> Option<u64> {
    let plain = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    let add = |number: u64, digit: &u8| number.saturating_mul(10).saturating_add(u64::from(digit - b'0'));
    plain.then(|| digits.iter().fold(0, add))
}

/// The fields of a body, in order. After an error there are no more.
struct Fields<'a> {
    rest: &'a [u8],
    /// The tag and length of the data that the field before announced.
    data: Option<(u32, usize)>,
}

impl<'a> Fields<'a> {
    fn field(&mut self) -> Result<(u32, &'a [u8]), Garbled> {
        let wrong = |found: &[u8]| Garbled::Field { found: excerpt(found, 40) };
        let rest = self.rest;
        let equals = rest.iter().take(LONGEST_LENGTH + 1).position(|byte| *byte == b'=').ok_or_else(|| wrong(rest))?;
        let (digits, value) = (&rest[..equals], &rest[equals + 1..]);
        let tag = integer(digits).filter(|_| digits.first() != Some(&b'0')).and_then(|tag| u32::try_from(tag).ok());
        let tag = tag.ok_or_else(|| wrong(rest))?;
        let length = match self.data.take() {
            Some((data, length)) if data == tag => length,
            _ => value.iter().position(|byte| *byte == SOH).ok_or_else(|| wrong(rest))?,
        };
        if length == 0 || value.get(length) != Some(&SOH) {
            return Err(wrong(rest));
        }
        let (value, rest) = (&value[..length], &value[length + 1..]);
        if let Some((_, data)) = DATA.iter().find(|(length, _)| *length == tag) {
            let length = integer(value).and_then(|length| usize::try_from(length).ok());
            self.data = Some((*data, length.ok_or_else(|| wrong(self.rest))?));
        }
        self.rest = rest;
        Ok((tag, value))
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(u32, &'a [u8]), Garbled>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let field = self.field();
        if field.is_err() {
            self.rest = &[];
        }
        Some(field)
    }
}

/// Messages out of what comes in, wherever it is cut. Once garbled, it stays so.
#[derive(Debug, Default)]
pub(super) struct Decoder {
    buffer: Vec<u8>,
    garbled: Option<Garbled>,
}

impl Decoder {
    /// Takes what came in. Between two pushes, take [`Self::message`]s until there is none: then no more than one message
    /// and one push are ever kept.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        if self.garbled.is_none() {
            self.buffer.extend_from_slice(bytes);
        }
    }

    /// The next message, if it is whole.
    pub(super) fn message(&mut self) -> Result<Option<Message>, Garbled> {
        if let Some(garbled) = &self.garbled {
            return Err(garbled.clone());
        }
        match framed(&self.buffer) {
            Ok(None) => Ok(None),
            Ok(Some((message, length))) => {
                self.buffer.drain(..length);
                Ok(Some(message))
            }
            Err(garbled) => {
                self.buffer = Vec::new();
                self.garbled = Some(garbled.clone());
                Err(garbled)
            }
        }
    }
}

/// The message at the start of `bytes` and its length in bytes, `None` if there is more to come.
fn framed(bytes: &[u8]) -> Result<Option<(Message, usize)>, Garbled> {
    let Some((begin, rest)) = header(bytes, bytes, b"8=", LONGEST_BEGIN)? else { return Ok(None) };
    let Some((digits, rest)) = header(bytes, rest, b"9=", LONGEST_LENGTH)? else { return Ok(None) };
    let length = integer(digits).and_then(|length| usize::try_from(length).ok());
    let length = length.filter(|length| (SHORTEST_BODY..=LONGEST_BODY).contains(length));
    let length = length.ok_or_else(|| Garbled::BodyLength { found: excerpt(digits, LONGEST_LENGTH) })?;
    if rest.len() < length + TRAILER {
        return Ok(None);
    }
    let (body, trailer) = (&rest[..length], &rest[length..length + TRAILER]);
    let end = bytes.len() - rest.len() + length;
    let sum = match trailer {
        [b'1', b'0', b'=', sum @ .., SOH] if sum.iter().all(u8::is_ascii_digit) && body.last() == Some(&SOH) => sum,
        _ => return Err(Garbled::Trailer { found: excerpt(trailer, TRAILER) }),
    };
    let expected = checksum(&bytes[..end]);
    if integer(sum) != Some(u64::from(expected)) {
        return Err(Garbled::CheckSum { found: excerpt(sum, 3), expected });
    }
    Ok(Some((Message::new(begin, body)?, end + TRAILER)))
}

/// A field's value, and what follows the field.
type Split<'a> = (&'a [u8], &'a [u8]);

/// The value behind `name`, and what follows it; `None` if there is more to come. What can become neither is refused at
/// once: an answer in another protocol must not be waited for.
fn header<'a>(whole: &[u8], bytes: &'a [u8], name: &[u8; 2], longest: usize) -> Result<Option<Split<'a>>, Garbled> {
    let wrong = || Garbled::Begin { found: excerpt(whole, 40) };
    if bytes.iter().zip(name).any(|(found, expected)| found != expected) {
        return Err(wrong());
    }
    let Some(value) = bytes.get(name.len()..) else { return Ok(None) };
    match value.iter().take(longest + 1).position(|byte| *byte == SOH) {
        Some(0) => Err(wrong()),
        Some(length) if value[..length].iter().all(u8::is_ascii_graphic) => {
            Ok(Some((&value[..length], &value[length + 1..])))
        }
        None if value.len() <= longest && value.iter().all(u8::is_ascii_graphic) => Ok(None),
        _ => Err(wrong()),
    }
}

fn checksum(bytes: &[u8]) -> u8 {
    bytes.iter().fold(0, |sum, byte| sum.wrapping_add(*byte))
}

/// The beginning of what was found, fit to be told: SOH as `|`, other control characters as `?`.
pub(super) fn excerpt(bytes: &[u8], longest: usize) -> String {
    let shown = |c: char| match c {
        '\u{1}' => '|',
        c if c.is_control() => '?',
        c => c,
    };
    String::from_utf8_lossy(bytes).chars().take(longest).map(shown).collect()
}

/// A message under construction: fields in the order in which they are put.
#[derive(Debug, Default)]
pub(super) struct Body(Vec<u8>);

impl Body {
    /// Adds a field. A SOH in a value would end it and forge the next field, so that it is left out.
    #[must_use]
    pub(super) fn with(mut self, tag: u32, value: impl AsRef<[u8]>) -> Self {
        self.0.extend_from_slice(tag.to_string().as_bytes());
        self.0.push(b'=');
        self.0.extend(value.as_ref().iter().filter(|byte| **byte != SOH));
        self.0.push(SOH);
        self
    }

    /// The same, if there is a value.
    #[must_use]
    pub(super) fn with_some(self, tag: u32, value: Option<impl AsRef<[u8]>>) -> Self {
        match value {
            Some(value) => self.with(tag, value),
            None => self,
        }
    }

    /// These fields, and then those.
    #[must_use]
    pub(super) fn followed_by(mut self, rest: &Self) -> Self {
        self.0.extend_from_slice(&rest.0);
        self
    }

    /// The whole message.
    pub(super) fn framed(&self, begin: &str) -> Vec<u8> {
        let mut bytes = format!("8={begin}\u{1}9={}\u{1}", self.0.len()).into_bytes();
        bytes.extend_from_slice(&self.0);
        let sum = checksum(&bytes);
        bytes.extend_from_slice(format!("10={sum:03}\u{1}").as_bytes());
        bytes
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sample() -> Body {
        Body::default()
            .with(tag::MSG_TYPE, "A")
            .with(tag::SENDER_COMP_ID, "BROKER")
            .with(tag::TARGET_COMP_ID, "PROBE")
            .with(tag::MSG_SEQ_NUM, "7")
            .with(tag::SENDING_TIME, "20261130-05:00:00.000")
    }

    fn decoded(bytes: &[u8]) -> Result<Option<Message>, Garbled> {
        let mut decoder = Decoder::default();
        decoder.push(bytes);
        decoder.message()
    }

    /// With the frame of another body.
    fn raw(body: &str) -> Vec<u8> {
        let body = body.replace('|', "\u{1}");
        let head = format!("8=FIX.4.4\u{1}9={}\u{1}{body}", body.len());
        format!("{head}10={:03}\u{1}", checksum(head.as_bytes())).into_bytes()
    }

    #[test]
    fn a_message_is_framed_as_the_standard_says() {
        // Computed elsewhere: 15 bytes of body, and the sum of all bytes before 10=.
        let bytes = Body::default().with(35, "0").with(49, "A").with(56, "B").framed("FIX.4.2");
        assert_eq!(bytes, b"8=FIX.4.2\x019=15\x0135=0\x0149=A\x0156=B\x0110=169\x01");
        let message = decoded(&sample().framed("FIXT.1.1")).unwrap().unwrap();
        assert_eq!((message.begin(), message.kind(), message.number()), ("FIXT.1.1", &b"A"[..], 7));
        assert_eq!(message.get(tag::TEXT), None);
    }

    #[test]
    fn what_is_not_fix_is_refused_as_soon_as_it_can_be() {
        for (bytes, expected) in [
            (&b"H"[..], "\"H\" is no beginning of a FIX message; expected 8=FIX... and 9="),
            (b"8=FIX.4.4\x01X", "\"8=FIX.4.4|X\" is no beginning of a FIX message; expected 8=FIX... and 9="),
            (b"8=\x01", "\"8=|\" is no beginning of a FIX message; expected 8=FIX... and 9="),
            (
                b"8=AAAAAAAAAAAAAAAAA",
                "\"8=AAAAAAAAAAAAAAAAA\" is no beginning of a FIX message; expected 8=FIX... and 9=",
            ),
            (b"8=FIX.4.4\x019=4\x01", "BodyLength (9) \"4\"; expected a number from 5 to 65536"),
            (b"8=FIX.4.4\x019=65537\x01", "BodyLength (9) \"65537\"; expected a number from 5 to 65536"),
            (b"8=FIX.4.4\x019=-10\x01", "BodyLength (9) \"-10\"; expected a number from 5 to 65536"),
            (
                b"8=FIX.4.4\x019=5\x0135=0\x0110=1x3\x01",
                "\"10=1x3|\" where BodyLength (9) says that CheckSum (10) stands",
            ),
            (
                b"8=FIX.4.4\x019=6\x0135=0\x0110=163\x011",
                "\"0=163|1\" where BodyLength (9) says that CheckSum (10) stands",
            ),
            (b"8=FIX.4.4\x019=5\x0135=0\x0110=000\x01", "CheckSum (10) 000; expected 163"),
        ] {
            assert_eq!(decoded(bytes).unwrap_err().to_string(), expected);
        }
    }

    #[test]
    fn a_header_field_that_is_missing_or_there_twice_is_refused() {
        let whole = "35=0|49=A|56=B|34=1|52=X|";
        assert!(decoded(&raw(whole)).unwrap().is_some());
        for (tag, field) in [(49, "49=A|"), (56, "56=B|"), (34, "34=1|"), (52, "52=X|"), (35, "35=0|")] {
            assert_eq!(decoded(&raw(&whole.replace(field, ""))), Err(Garbled::Missing { tag }));
            assert_eq!(decoded(&raw(&format!("{whole}{field}"))), Err(Garbled::Repeated { tag }));
        }
        for tag in [8, 9, 10] {
            assert_eq!(decoded(&raw(&format!("{whole}{tag}=1|"))), Err(Garbled::Repeated { tag }));
        }
        assert_eq!(decoded(&raw("49=A|35=0|56=B|34=1|52=X|")), Err(Garbled::Missing { tag: 35 }));
    }

    #[test]
    fn fields_are_tag_and_value_and_data_may_hold_anything() {
        for (field, is_right) in [
            ("58=a=b|", true),
            ("58=|", false),
            ("=a|", false),
            ("058=a|", false),
            ("x=a|", false),
            ("58|", false),
            ("9999999999=a|", false),
            ("95=5|96=a|b=c|", true),
            ("95=6|96=a|b=c|", false),
            ("95=18446744073709551616|96=a|", false),
            ("95=1|58=a|", true),
        ] {
            let found = decoded(&raw(&format!("35=0|49=A|56=B|34=1|52=X|{field}")));
            assert_eq!(found.is_ok(), is_right, "{field}: {found:?}");
        }
        let message = decoded(&raw("35=0|49=A|56=B|34=1|52=X|95=6|96=a|34=2|58=z|")).unwrap().unwrap();
        assert_eq!((message.get(96), message.get(58)), (Some(&b"a\x0134=2"[..]), Some(&b"z"[..])));
    }

    #[test]
    fn numbers_never_wrap() {
        for (number, expected) in [("1", Some(1)), ("18446744073709551616", Some(u64::MAX)), ("0", None), ("-1", None)]
        {
            let message = decoded(&raw(&format!("35=0|49=A|56=B|34={number}|52=X|")));
            assert_eq!(message.ok().flatten().map(|message| message.number()), expected, "{number}");
        }
    }

    #[test]
    fn once_garbled_it_stays_so_and_keeps_nothing() {
        let mut decoder = Decoder::default();
        decoder.push(b"HTTP/1.1 400 Bad Request\r\n");
        let garbled = decoder.message().unwrap_err();
        decoder.push(&sample().framed("FIX.4.4"));
        assert_eq!(decoder.message(), Err(garbled));
        assert!(decoder.buffer.is_empty() && decoder.buffer.capacity() == 0);
    }

    fn body() -> impl Strategy<Value = Vec<(u32, Vec<u8>)>> {
        let value = proptest::collection::vec(2_u8..=255, 1..40);
        // Above the tags that mean something to the codec.
        proptest::collection::vec((2000_u32..5000, value), 0..12)
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back_wherever_it_is_cut(
            bodies in proptest::collection::vec(body(), 1..5),
            cuts in proptest::collection::vec(1_usize..60, 1..40),
        ) {
            let written: Vec<_> = bodies.iter().map(|fields| {
                fields.iter().fold(sample(), |body, (tag, value)| body.with(*tag, value)).framed("FIX.4.4")
            }).collect();
            let stream = written.concat();
            let (mut decoder, mut rest, mut read) = (Decoder::default(), &stream[..], Vec::new());
            let mut cuts = cuts.iter().cycle();
            while !rest.is_empty() {
                let (piece, after) = rest.split_at((*cuts.next().unwrap()).min(rest.len()));
                decoder.push(piece);
                rest = after;
                while let Some(message) = decoder.message().unwrap() {
                    read.push(message);
                }
            }
            prop_assert_eq!(read.len(), bodies.len());
            for (message, fields) in read.iter().zip(&bodies) {
                for (tag, _) in fields {
                    let first = fields.iter().find(|(other, _)| other == tag).map(|(_, value)| &**value);
                    prop_assert_eq!(message.get(*tag), first);
                }
            }
            prop_assert!(decoder.buffer.is_empty());
        }

        #[test]
        fn any_bytes_are_taken_without_harm_and_cut_anywhere_they_mean_the_same(
            pieces in proptest::collection::vec(
                prop_oneof![
                    proptest::collection::vec(any::<u8>(), 0..30),
                    prop::sample::select(vec![
                        b"8=FIX.4.4\x01".to_vec(), b"9=5\x01".to_vec(), b"9=25\x01".to_vec(), b"35=0\x01".to_vec(),
                        b"10=163\x01".to_vec(), b"95=3\x01".to_vec(), b"34=1\x01".to_vec(),
                        sample().framed("FIX.4.4"), sample().with(95, "2").with(96, "x").framed("FIX.4.2"),
                    ]),
                ],
                0..12,
            ),
            flips in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..3),
        ) {
            let mut stream = pieces.concat();
            for (at, byte) in flips {
                if !stream.is_empty() {
                    let at = at.index(stream.len());
                    stream[at] = byte;
                }
            }
            let all = |chunk: usize| {
                let (mut decoder, mut read) = (Decoder::default(), Vec::new());
                for piece in stream.chunks(chunk) {
                    decoder.push(piece);
                    loop {
                        match decoder.message() {
                            Ok(Some(message)) => read.push(message),
                            Ok(None) => break,
                            Err(garbled) => return (read, Some(garbled)),
                        }
                    }
                    assert!(decoder.buffer.len() <= LONGEST_BODY + 40 + chunk);
                }
                (read, None)
            };
            let whole = all(stream.len().max(1));
            let bytewise = all(1);
            prop_assert_eq!(&whole.0, &bytewise.0);
            // How much of what is not FIX is quoted depends on how much was there.
            prop_assert_eq!(
                whole.1.map(|garbled| std::mem::discriminant(&garbled)),
                bytewise.1.map(|garbled| std::mem::discriminant(&garbled))
            );
        }

        #[test]
        fn a_byte_that_was_changed_is_never_taken(at in any::<prop::sample::Index>(), by in 1_u8..=255) {
            let mut bytes = sample().framed("FIX.4.4");
            let at = at.index(bytes.len());
            bytes[at] = bytes[at].wrapping_add(by);
            let found = decoded(&bytes);
            prop_assert!(!matches!(found, Ok(Some(_))), "{:?}", found);
        }
    }
}
