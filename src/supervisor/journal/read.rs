//! Segments -> records, each checked; and what a journal comes to.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use thiserror::Error;

use super::line::{Link, Whole};
use super::mirror::{Group, MakeFollow, Mirror};
use super::recent;
use super::record::{AgedProof, Body, HookStartRecord, Record, Seq, StageRecord};
use super::segment;
use crate::engine::Snapshot;

/// A place where the journal does not hold what was written to it.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{segment}, line {line}: {what}")]
pub struct Damage {
    /// File name of the segment.
    pub segment: String,
    /// 1-based line in it.
    pub line: u64,
    /// What was found, and what was expected.
    pub what: String,
}

/// Why a journal cannot be read.
#[derive(Debug, Error)]
pub enum ReadError {
    /// It is damaged elsewhere than in its last line, or is of another version. Nothing was changed.
    #[error("the journal is damaged: {0}")]
    Damaged(#[from] Damage),
    /// A file cannot be read. Nothing was changed.
    #[error("{}: {error}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
}

impl ReadError {
    pub(super) fn io(path: &Path, error: io::Error) -> Self {
        Self::Io { path: path.to_owned(), error }
    }
}

/// The last line of the last segment, if it is broken: a write that never came to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Torn {
    /// File name of the segment.
    pub segment: String,
    /// 1-based line in it.
    pub line: u64,
    /// Where the line begins, in bytes.
    pub offset: u64,
    /// What is there.
    pub bytes: Vec<u8>,
    /// Number that the record would have had.
    pub seq: Seq,
}

/// A segment that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentInfo {
    /// Number of its first record.
    pub first: Seq,
    /// Number of its last record.
    pub last: Seq,
    /// Size in bytes, without a torn last line.
    pub bytes: u64,
    /// Wall time of its last record, in microseconds since 1970.
    pub wall: u64,
}

/// What a scan came to.
#[derive(Debug)]
pub(super) struct Scan {
    pub(super) segments: Vec<SegmentInfo>,
    pub(super) torn: Option<Torn>,
    /// The end of the newest segment as the recent lines know it.
    pub(super) tail: Option<Tail>,
    /// The newest line, with its end.
    pub(super) newest: Vec<u8>,
    /// What the next record continues.
    pub(super) next: Seq,
    pub(super) link: Link,
}

/// The end of the newest segment: from the first of the recent lines on, with those that the segment lost.
#[derive(Debug)]
pub(super) struct Tail {
    pub(super) segment: String,
    /// Where it begins, in bytes.
    pub(super) offset: usize,
    /// All that is to be there, up to the segment's end.
    pub(super) lines: Vec<u8>,
    /// How many of its records were not on disk as a whole.
    pub(super) lost: Seq,
}

/// From which record on a scan hands out records. Everything is checked (checksums, chain, numbers) in any case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum From {
    /// The oldest that there is.
    Oldest,
    /// The head of the newest segment, which has the state of every group.
    NewestHead,
}

/// Reads the journal in `folder`, oldest record first.
pub(super) fn scan(
    folder: &Path,
    from: From,
    mut take: impl FnMut(&Record, bool) -> Result<(), String>,
) -> Result<Scan, ReadError> {
    let mut segments = Segments::open(folder)?;
    segments.from = from;
    while segments.read(&mut take)? {}
    Ok(segments.scan)
}

/// A journal that is read a segment at a time, oldest first. Everything is checked as in [`for_each`].
#[derive(Debug)]
pub struct Segments {
    folder: PathBuf,
    left: std::vec::IntoIter<Seq>,
    newest: Option<Seq>,
    from: From,
    scan: Scan,
}

impl Segments {
    /// The segments of the journal in `folder`; none, if it holds no journal.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn open(folder: &Path) -> Result<Self, ReadError> {
        let names = segment::list(folder).map_err(|error| ReadError::io(folder, error))?;
        let scan =
            Scan { segments: Vec::new(), torn: None, tail: None, newest: Vec::new(), next: 1, link: Link::FIRST };
        let newest = names.last().copied();
        Ok(Self { folder: folder.to_owned(), left: names.into_iter(), newest, from: From::Oldest, scan })
    }

    /// The files of those that are left.
    pub fn left(&self) -> impl Iterator<Item = PathBuf> {
        self.left.as_slice().iter().map(|first| self.folder.join(segment::name(*first)))
    }

    /// Hands out each record of the next segment, with whether it stands in the segment's head. False if there is no
    /// other segment.
    ///
    /// # Errors
    /// It is damaged (records before the damage were handed out), or cannot be read, or `take` says that something is
    /// wrong with a record.
    pub fn read(&mut self, take: impl FnMut(&Record, bool) -> Result<(), String>) -> Result<bool, ReadError> {
        let Some(first) = self.left.next() else { return Ok(false) };
        let is_newest = Some(first) == self.newest;
        let path = self.folder.join(segment::name(first));
        // Before the segment: what is recent is in the segment already while a supervisor writes.
        let recent = if is_newest { recent::read(&self.folder)? } else { Vec::new() };
        let bytes = fs::read(&path).map_err(|error| ReadError::io(&path, error))?;
        let wanted = is_newest || self.from == From::Oldest;
        let mut reading =
            Reading { name: segment::name(first), first, is_newest, wanted, line: 0, head_ends: 0, recent: None };
        reading.read(&bytes, &recent, &mut self.scan, take)?;
        Ok(true)
    }
}

/// One segment that is being read.
struct Reading {
    name: String,
    first: Seq,
    is_newest: bool,
    wanted: bool,
    line: u64,
    /// The last line of its head.
    head_ends: u64,
    /// Number and place of the first record that is among the recent ones.
    recent: Option<(Seq, Option<usize>)>,
}

impl Reading {
    fn damage(&self, what: impl Into<String>) -> ReadError {
        Damage { segment: self.name.clone(), line: self.line, what: what.into() }.into()
    }

    fn read(
        &mut self,
        bytes: &[u8],
        recent: &[u8],
        scan: &mut Scan,
        mut take: impl FnMut(&Record, bool) -> Result<(), String>,
    ) -> Result<(), ReadError> {
        let mut last = None;
        let first = recent::first(recent);
        self.recent = first.map(|(first, _)| (first, None));
        let ends = self.lines(bytes, scan, &mut last, &mut take)?;
        let place = self.recent.take().and_then(|(_, place)| place);
        let (whole, rest) = bytes.split_at_checked(ends).unwrap_or_default();
        let before = scan.next;
        let (lost, after) = recent::after(recent, before, scan.link);
        // A head is on disk before its segment has a name.
        let lost = if self.line < self.head_ends { &[] } else { lost };
        let mut known = Cow::Borrowed(whole);
        if lost.is_empty() {
            let is_there = |(_, line)| whole.get(place?..)?.starts_with(line).then_some(());
            let promised = first.and_then(is_there).is_none();
            self.broken(rest, ends, promised, scan)?;
        } else {
            scan.torn = (!rest.is_empty()).then(|| self.torn(rest, ends, before));
            // They are the very bytes that were written in this place: what was written after them is behind them.
            known.to_mut().extend_from_slice(lost);
            known.to_mut().extend_from_slice(rest.get(lost.len()..).unwrap_or_default());
            let filled = known.get(ends..).unwrap_or_default();
            let more = self.lines(filled, scan, &mut last, &mut take)?;
            let behind = known.to_mut().split_off(ends.saturating_add(more));
            // A segment that lacks these was not synced since, so nobody was told that what is behind them is durable; unless
            // it is no power cut that took them.
            if !is_holed(rest, lost) && (has_more(&behind, scan.next) || has_newer(rest, scan.next)) {
                self.line += 1;
                return Err(self.damage("a broken line, and a whole record behind it that does not follow"));
            }
        }
        if let Some(offset) = place.or((!lost.is_empty()).then_some(ends)) {
            let lines = known.get(offset..).unwrap_or_default().to_vec();
            let lost = if lost.is_empty() { 0 } else { after.saturating_sub(before) };
            scan.tail = Some(Tail { segment: self.name.clone(), offset, lines, lost });
        }
        scan.newest = known.split_inclusive(|byte| *byte == b'\n').next_back().unwrap_or_default().to_vec();
        self.finish(known.len(), scan, last.as_ref())
    }

    /// Hands out whole lines, up to the end or the first that is broken: gives its place.
    fn lines(
        &mut self,
        bytes: &[u8],
        scan: &mut Scan,
        last: &mut Option<Record>,
        take: &mut impl FnMut(&Record, bool) -> Result<(), String>,
    ) -> Result<usize, ReadError> {
        let mut rest = bytes;
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            let Some(whole) = rest.get(..end).and_then(Whole::check) else { break };
            let after = rest.get(end + 1..).unwrap_or_default();
            self.line += 1;
            self.in_order(whole, scan)?;
            if let Some((first, place @ None)) = &mut self.recent {
                *place = (*first == scan.next).then_some(bytes.len() - rest.len());
            }
            if self.wanted || self.line == 1 || after.is_empty() {
                let record = whole.parse().map_err(|why| self.damage(why))?;
                self.head(&record)?;
                if self.wanted {
                    take(&record, self.line <= self.head_ends).map_err(|why| self.damage(why))?;
                }
                *last = Some(record);
            }
            scan.next = scan.next.checked_add(1).ok_or_else(|| self.damage("there are no numbers left"))?;
            scan.link = whole.link();
            rest = after;
        }
        Ok(bytes.len() - rest.len())
    }

    fn finish(&self, bytes: usize, scan: &mut Scan, last: Option<&Record>) -> Result<(), ReadError> {
        let Some(last) = last else {
            return Err(self.damage("the segment is empty; expected its first record"));
        };
        if self.line < self.head_ends {
            return Err(self.damage(format!("the end of the segment; its head has {} lines", self.head_ends)));
        }
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        scan.segments.push(SegmentInfo { first: self.first, last: last.seq, bytes, wall: last.wall });
        Ok(())
    }

    /// The line's number and its link continue the line before.
    fn in_order(&self, whole: Whole<'_>, scan: &mut Scan) -> Result<(), ReadError> {
        let seq = whole.seq().ok_or_else(|| self.damage("no number of a record"))?;
        if self.line == 1 {
            if seq != self.first {
                return Err(self.damage(format!("record {seq}; expected {}, as the file is named", self.first)));
            }
            if scan.segments.is_empty() && seq > 1 {
                // Older segments are gone: what this one continues cannot be checked any more.
                scan.next = seq;
                return Ok(());
            }
        }
        if seq != scan.next {
            let missing = if self.line == 1 { ": a segment is missing" } else { "" };
            return Err(self.damage(format!("record {seq}; expected {}{missing}", scan.next)));
        }
        if !whole.continues(scan.link) {
            return Err(self.damage(format!("record {seq} does not continue the record before: \"prev\" is another")));
        }
        Ok(())
    }

    /// The first record says how long the head is.
    fn head(&mut self, record: &Record) -> Result<(), ReadError> {
        match &record.body {
            Body::Segment(segment) if self.line == 1 => {
                if segment.format != super::record::FORMAT {
                    let ours = super::record::FORMAT;
                    return Err(self.damage(format!("format {}; this version reads format {ours}", segment.format)));
                }
                self.head_ends = u64::from(segment.groups).saturating_mul(2).saturating_add(1);
                Ok(())
            }
            Body::Segment(_) => Err(self.damage("a record of kind \"segment\" inside a segment")),
            body if self.line == 1 => {
                let kind = body.kind();
                Err(self.damage(format!("a first record of kind {kind:?}; expected \"segment\"")))
            }
            _ => Ok(()),
        }
    }

    /// A line that is not whole, and what follows it: torn, if nothing does and it was not written as part of a head; or if
    /// nobody was `promised` that what is there is durable, and it is blank as what never came to the disk.
    fn broken(&mut self, rest: &[u8], offset: usize, promised: bool, scan: &mut Scan) -> Result<(), ReadError> {
        if rest.is_empty() {
            return Ok(());
        }
        let end = rest.iter().position(|byte| *byte == b'\n');
        let line = rest.get(..end.unwrap_or(rest.len())).unwrap_or_default();
        let follows = end.is_some_and(|end| end + 1 < rest.len());
        if !promised && line.contains(&0) {
            scan.torn = Some(self.torn(rest, offset, scan.next));
            return Ok(());
        }
        let before = self.line;
        self.line += 1;
        let what = match (end.is_some(), Whole::check(line).is_some()) {
            (true, _) => "the checksum of the line is not that of what it says",
            (false, false) => "a line that breaks off",
            (false, true) => "a line without an end",
        };
        if !self.is_newest || follows {
            return Err(self.damage(what));
        }
        if self.line <= self.head_ends.max(1) {
            return Err(self.damage(format!("{what}, in the head of a segment, which is on disk before its name is")));
        }
        if Whole::is_followed(line) {
            return Err(self.damage("a whole record whose end is damaged, and more after it"));
        }
        self.line = before;
        scan.torn = Some(self.torn(rest, offset, scan.next));
        Ok(())
    }

    /// What is there in place of record `seq`, after the last whole line.
    fn torn(&self, rest: &[u8], offset: usize, seq: Seq) -> Torn {
        Torn {
            segment: self.name.clone(),
            line: self.line + 1,
            offset: u64::try_from(offset).unwrap_or(u64::MAX),
            bytes: rest.to_owned(),
            seq,
        }
    }
}

/// Whether `rest` is `lost`, but for what never came to the disk.
fn is_holed(rest: &[u8], lost: &[u8]) -> bool {
    rest.iter().zip(lost).all(|(have, wrote)| have == wrote || *have == 0)
}

/// Whether what stands in place of a broken line holds a whole record from number `next` on: one that nothing else has.
fn has_newer(rest: &[u8], next: Seq) -> bool {
    let newer = |line| Whole::check(line).and_then(Whole::seq).is_some_and(|seq| seq >= next);
    rest.split(|byte| *byte == b'\n').any(newer)
}

/// The same, also where the end of that record is damaged.
fn has_more(rest: &[u8], next: Seq) -> bool {
    has_newer(rest, next) || rest.split(|byte| *byte == b'\n').any(Whole::is_followed)
}

/// What a journal comes to: everything that a supervisor needs to go on.
#[derive(Clone, Debug, PartialEq)]
pub struct Recovered {
    /// The groups that were ever configured, by name.
    pub groups: BTreeMap<String, RecoveredGroup>,
    /// Hash of the last run's configuration; `None` if there never was one.
    pub config_hash: Option<String>,
    /// Whether the last run ended on purpose: its last record is `stop`.
    pub stopped: bool,
    /// The torn last line, which was cut and is kept aside.
    pub torn: Option<Torn>,
    /// Number of the next record.
    pub next: Seq,
}

/// What the journal says of one group.
#[derive(Clone, Debug, PartialEq)]
pub struct RecoveredGroup {
    /// The configuration that its engine was made of: the first line of a scenario.
    pub config: String,
    /// Hash of the file that said so.
    pub config_hash: String,
    /// The engine to restore, with ages as of the group's last record.
    pub snapshot: Snapshot,
    /// Hooks that started and of which it is not known whether they ran to their end.
    pub pending: Vec<HookStartRecord>,
    /// The last stage of the switch that is under way.
    pub stage: Option<StageRecord>,
    /// The last fence that was proved, and its age as of the group's last record.
    pub fence: Option<AgedProof>,
    /// For how long order flow had been held for a switch, as of the group's last record.
    pub held_for: Duration,
    /// Whether a halt hook confirmed the present halt.
    pub halt_confirmed: bool,
    /// What the caller kept ([`Follow`](super::Follow)); null if nothing.
    pub driver: serde_json::Value,
}

impl RecoveredGroup {
    fn of(group: &Group) -> Self {
        Self {
            config: group.config.line.clone(),
            config_hash: group.config.hash.clone(),
            snapshot: group.snapshot(),
            pending: group.hooks().cloned().collect(),
            stage: group.stage().cloned(),
            fence: group.fence(),
            held_for: Duration::from_nanos(group.held().map_or(0, |held| held.age.0)),
            halt_confirmed: group.halt_confirmed(),
            driver: group.driver(),
        }
    }
}

impl Recovered {
    pub(super) fn of(mirror: &Mirror, scan: &Scan) -> Self {
        Self {
            groups: mirror.groups().map(|(name, group)| (name.to_owned(), RecoveredGroup::of(group))).collect(),
            config_hash: mirror.run().map(|run| run.config_hash.clone()),
            stopped: mirror.run().is_some_and(|run| run.stopped),
            torn: scan.torn.clone(),
            next: scan.next,
        }
    }
}

/// Follows a journal from its newest head.
pub(super) fn follow(folder: &Path, make: MakeFollow) -> Result<(Mirror, Scan), ReadError> {
    let mut mirror = Mirror::new(make);
    let scan = scan(folder, From::NewestHead, |record, _| mirror.follow(record))?;
    Ok((mirror, scan))
}

/// What the journal in `folder` comes to, without changing anything and without its lock.
///
/// # Errors
/// It is damaged, or cannot be read.
pub fn recover(folder: &Path, make: MakeFollow) -> Result<Recovered, ReadError> {
    let (mirror, scan) = follow(folder, make)?;
    Ok(Recovered::of(&mirror, &scan))
}

/// Hands out every record, oldest first, with whether it stands in the head of a segment.
///
/// # Errors
/// The journal is damaged (records before the damage were handed out), or cannot be read.
pub fn for_each(folder: &Path, mut take: impl FnMut(&Record, bool)) -> Result<Option<Torn>, ReadError> {
    let scan = scan(folder, From::Oldest, |record, in_head| {
        take(record, in_head);
        Ok(())
    })?;
    Ok(scan.torn)
}

/// What a journal holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Its segments, oldest first.
    pub segments: Vec<SegmentInfo>,
    /// Records of each kind.
    pub kinds: BTreeMap<&'static str, u64>,
    /// Inputs whose recorded answer is what the engine answers.
    pub inputs: u64,
    /// The groups.
    pub groups: Vec<String>,
    /// The torn last line.
    pub torn: Option<Torn>,
}

impl Counts {
    /// Number of records.
    #[must_use]
    pub fn records(&self) -> u64 {
        self.kinds.values().sum()
    }

    /// Size in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.segments.iter().map(|segment| segment.bytes).sum()
    }
}

/// Checks everything: each line, the chain, the numbers, that every input is answered as recorded, and that each head
/// repeats the state that the records before it lead to.
///
/// # Errors
/// The journal is damaged, or cannot be read.
pub fn verify(folder: &Path, make: MakeFollow) -> Result<Counts, ReadError> {
    let mut mirror = Mirror::new(make);
    let mut counts = Counts::default();
    let scan = scan(folder, From::Oldest, |record, _| {
        *counts.kinds.entry(record.body.kind()).or_default() += 1;
        counts.inputs += u64::from(matches!(record.body, Body::Input { .. }));
        mirror.follow(record)
    })?;
    counts.groups = mirror.groups().map(|(name, _)| name.to_owned()).collect();
    counts.segments = scan.segments;
    counts.torn = scan.torn;
    Ok(counts)
}
