//! Bytes of CSV -> records, fast enough that reading is not what calibration takes.
//!
//! Quotes, odd line ends and what lies across two chunks are csv-core's, byte by byte. A row without any of that, as
//! nearly all are, is only looked through for commas and its end, eight bytes at once. A test holds that
//! both ways say the same of any bytes.

use std::io::{self, BufRead as _, BufReader, Read};

use csv_core::ReadRecordResult;

use super::input::{LONGEST_ROW, TOO_LONG};

/// Where fields of a row, and rows, are held that csv-core has to read; grown as they need it.
const TEXT: usize = 1 << 10;
const FIELDS: usize = 32;

/// The records of some content.
pub(super) struct Records<R> {
    content: BufReader<R>,
    core: Box<csv_core::Reader>,
    /// Bytes of the present record that still are in the buffer of the content.
    taken: usize,
    /// What csv-core made of a record.
    text: Vec<u8>,
    /// Where each field ends, of the present record.
    ends: Vec<usize>,
    /// The line that comes next, and that of the present record; 1-based.
    next_line: u64,
    line: u64,
}

/// The fields of a row.
#[derive(Clone, Copy)]
pub(super) struct Record<'a> {
    text: &'a [u8],
    ends: &'a [usize],
    /// Bytes between two fields.
    between: usize,
}

impl<'a> Record<'a> {
    /// How many fields there are.
    #[inline]
    pub(super) const fn len(self) -> usize {
        self.ends.len()
    }

    /// A field; empty if there is none.
    #[inline]
    pub(super) fn field(self, place: usize) -> &'a [u8] {
        let before = place.checked_sub(1).and_then(|before| self.ends.get(before));
        let start = before.map_or(0, |end| end + self.between);
        self.ends.get(place).and_then(|end| self.text.get(start..*end)).unwrap_or_default()
    }

    pub(super) fn iter(self) -> impl Iterator<Item = &'a [u8]> {
        (0..self.len()).map(move |place| self.field(place))
    }
}

impl<R: Read> Records<R> {
    pub(super) fn new(content: BufReader<R>) -> Self {
        Self {
            content,
            core: Box::new(csv_core::Reader::new()),
            taken: 0,
            text: vec![0; TEXT],
            ends: Vec::with_capacity(FIELDS),
            next_line: 1,
            line: 1,
        }
    }

    /// The line in which the present record begins; of one that cannot be read too.
    pub(super) const fn line(&self) -> u64 {
        self.line
    }

    /// The next record, or the header; none at the end.
    #[inline]
    pub(super) fn read(&mut self) -> io::Result<Option<Record<'_>>> {
        self.content.consume(self.taken);
        self.taken = 0;
        if !self.skip_line_ends()? {
            return Ok(None);
        }
        self.line = self.next_line;
        if let Some(length) = plain(self.content.buffer(), &mut self.ends) {
            self.next_line += 1;
            self.taken = length;
            return Ok(Some(Record { text: self.content.buffer(), ends: &self.ends, between: 1 }));
        }
        self.any()
    }

    /// Whether anything follows lines that are empty. A record may have left its own end, of two bytes, half behind.
    #[inline]
    fn skip_line_ends(&mut self) -> io::Result<bool> {
        loop {
            match self.content.fill_buf()?.first() {
                None => return Ok(false),
                Some(end @ (b'\r' | b'\n')) => {
                    self.next_line += u64::from(*end == b'\n');
                    self.content.consume(1);
                }
                Some(_) => return Ok(true),
            }
        }
    }

    /// A record of any kind.
    #[cold]
    fn any(&mut self) -> io::Result<Option<Record<'_>>> {
        self.core.set_line(self.next_line);
        self.ends.clear();
        self.ends.resize(FIELDS, 0);
        let (mut read, mut written, mut fields) = (0, 0, 0);
        loop {
            let input = self.content.fill_buf()?;
            let (text, ends) = (self.text.get_mut(written..), self.ends.get_mut(fields..));
            let (result, taken, more, ended) =
                self.core.read_record(input, text.unwrap_or_default(), ends.unwrap_or_default());
            self.content.consume(taken);
            (read, written, fields) = (read + taken, written + more, fields + ended);
            match result {
                // What is longer is no row, and is not held in memory to find that out.
                _ if read > LONGEST_ROW => return Err(io::Error::new(io::ErrorKind::InvalidData, TOO_LONG)),
                ReadRecordResult::InputEmpty => {}
                ReadRecordResult::OutputFull => self.text.resize(self.text.len() * 2, 0),
                ReadRecordResult::OutputEndsFull => self.ends.resize(self.ends.len() * 2, 0),
                ReadRecordResult::Record => break,
                ReadRecordResult::End => return Ok(None),
            }
        }
        self.next_line = self.core.line();
        self.ends.truncate(fields);
        Ok(Some(Record { text: &self.text, ends: &self.ends, between: 0 }))
    }
}

/// How long a row is, with the end of its line, and where its fields end, if it has neither quotes nor an odd end and lies,
/// with a few bytes more, in the buffer as a whole.
#[inline]
fn plain(buffer: &[u8], ends: &mut Vec<usize>) -> Option<usize> {
    ends.clear();
    let mut rest = buffer;
    let mut passed = 0;
    while let Some((eight, behind)) = rest.split_first_chunk() {
        let mut low = up_to_comma(*eight);
        while low != 0 {
            let bits = low.trailing_zeros() & !7;
            let place = passed + bits as usize / 8;
            low &= low - 1;
            match (u64::from_le_bytes(*eight) >> bits) as u8 {
                b',' => ends.push(place),
                b'\n' => {
                    ends.push(place);
                    return Some(place + 1);
                }
                b'\r' if buffer.get(place + 1) == Some(&b'\n') => {
                    ends.push(place);
                    return Some(place + 2);
                }
                b'"' | b'\r' => return None,
                _ => {}
            }
        }
        (rest, passed) = (behind, passed + 8);
    }
    None
}

/// The top bit of each byte that is at most a comma, as all that part fields and rows are, and quotes; few others are. Of
/// bytes behind such a one it may be set in vain.
#[inline]
const fn up_to_comma(eight: [u8; 8]) -> u64 {
    const EACH: u64 = u64::MAX / 255;
    let bytes = u64::from_le_bytes(eight);
    bytes.wrapping_sub(EACH * (b',' as u64 + 1)) & !bytes & (EACH * 0x80)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    type Rows = Vec<Vec<Vec<u8>>>;

    /// The rows of a text that arrives in chunks of so many bytes, and the line of each.
    fn ours(text: &[u8], chunk: usize) -> (Rows, Vec<u64>) {
        let mut records = Records::new(BufReader::with_capacity(chunk, text));
        let (mut rows, mut lines) = (Vec::new(), Vec::new());
        while let Some(record) = records.read().unwrap() {
            rows.push(record.iter().map(<[u8]>::to_vec).collect());
            lines.push(records.line());
        }
        (rows, lines)
    }

    fn theirs(text: &[u8]) -> Rows {
        let mut reader = csv::ReaderBuilder::new().has_headers(false).flexible(true).from_reader(text);
        reader.byte_records().map(|record| record.unwrap().iter().map(<[u8]>::to_vec).collect()).collect()
    }

    proptest! {
        #[test]
        fn any_bytes_are_the_records_that_the_csv_crate_makes_of_them(
            text in prop::collection::vec(prop::sample::select(&b"aaaab-~\xff,,,,\n\n\r\"\" +"[..]), 0..200),
            chunk in 1..100_usize,
        ) {
            prop_assert_eq!(ours(&text, chunk).0, theirs(&text));
        }
    }

    #[test]
    fn a_record_is_known_by_the_line_in_which_it_begins() {
        for (text, lines) in [
            ("a,b\nc,d\n", vec![1, 2]),
            ("a,b\r\nc,d\r\n\"e\",f\r\ng", vec![1, 2, 3, 4]),
            ("\n\na\n\n\nb", vec![3, 6]),
            ("\"a\nb\",c\nd,\"\n\n\"\ne\n", vec![1, 3, 6]),
        ] {
            for chunk in [1, 3, 100] {
                assert_eq!(ours(text.as_bytes(), chunk).1, lines, "{text:?} in chunks of {chunk}");
            }
        }
    }

    #[test]
    fn a_row_may_have_as_many_bytes_as_is_said_and_no_more() {
        for quote in ["", "\""] {
            let row = |length: usize| format!("a,b\n{quote}{}{quote}\nc", "x".repeat(length - 2 * quote.len()));
            let most = row(LONGEST_ROW - 1);
            assert_eq!(ours(most.as_bytes(), 4_096).1, [1, 2, 3]);
            let beyond = row(LONGEST_ROW + 1);
            let mut records = Records::new(BufReader::new(beyond.as_bytes()));
            records.read().unwrap();
            assert_eq!((records.read().map(|_| ()).unwrap_err().to_string(), records.line()), (TOO_LONG.to_owned(), 2));
        }
    }
}
