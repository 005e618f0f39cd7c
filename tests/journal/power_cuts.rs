//! A segment that had not reached the disk as a whole, and the recent records beside it.

use std::fs;
use std::path::PathBuf;

use broker_failover::engine::*;
use broker_failover::supervisor::journal::*;

use crate::desk::*;

impl Folder {
    fn recent(&self) -> PathBuf {
        self.0.join("RECENT")
    }

    /// Where the recent records are kept as they were: once in a second they begin anew.
    fn then(&self) -> PathBuf {
        self.0.join("then")
    }

    /// The folder as a power cut leaves it: the newest segment holds `segment`.
    fn after_a_power_cut(&self, segment: &[u8]) -> Self {
        let left = self.copy("power-cut");
        fs::copy(self.then(), left.recent()).unwrap();
        fs::write(left.newest(), segment).unwrap();
        left
    }
}

/// A journal that is being written, whose newest decisions are among the recent records; where those begin in its
/// segment; and the number of its last record.
fn written(name: &str) -> (Folder, Journal, Desk, usize, Seq) {
    let folder = Folder::new(name);
    let (journal, _) = folder.open();
    let mut desk = Desk::new("main", &journal.handle());
    desk.fail_over();
    loop {
        let epoch = desk.epoch();
        let last = desk.decide(Input::Evaluate(Evaluation::Failover, FenceClaim::Epoch(epoch))).unwrap();
        desk.durably(note("one more"));
        let (recent, segment) = (fs::read(folder.recent()).unwrap(), fs::read(folder.newest()).unwrap());
        let first = &recent[..=recent.iter().position(|byte| *byte == b'\n').unwrap()];
        let begin = segment.windows(first.len()).position(|window| window == first);
        let is_there = |seq: Seq| String::from_utf8_lossy(&recent).contains(&format!("{{\"seq\":{seq},"));
        if let Some(begin) = begin.filter(|_| is_there(last) && is_there(last + 1)) {
            fs::write(folder.then(), recent).unwrap();
            return (folder, journal, desk, begin, last + 1);
        }
    }
}

fn codes(folder: &Folder) -> Vec<String> {
    let code = |record: &Record| match &record.body {
        Body::Note(note) => Some(note.code.to_string()),
        _ => None,
    };
    folder.records().iter().filter_map(code).collect()
}

#[test]
fn records_that_the_segment_lost_are_put_back() {
    let (folder, journal, desk, begin, last) = written("lost");
    let whole = fs::read(folder.newest()).unwrap();
    let starts = whole.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(end, _)| end + 1);
    let cuts = starts.filter(|start| *start >= begin).chain((begin..whole.len()).step_by(397));
    for cut in cuts {
        let left = folder.after_a_power_cut(&whole[..cut]);
        // Whoever only reads sees them, too.
        let read = left.recover().unwrap();
        assert_eq!((read.next, &read.groups["main"].snapshot), (last + 1, &desk.snapshot()), "cut at {cut}");
        let (journal, recovered) = left.open();
        assert_eq!((recovered.next, &recovered.groups), (read.next, &read.groups));
        journal.close(at(0), "end").unwrap();
        assert!(!left.recent().exists(), "whoever ends in order leaves nothing beside the segments");
        assert!(left.text().as_bytes().starts_with(&whole), "cut at {cut}");
        let torn = whole[..cut].last() != Some(&b'\n');
        assert_eq!(left.0.join(format!("torn-{}.bin", recovered.torn.map_or(0, |torn| torn.seq))).exists(), torn);
        let codes = codes(&left);
        assert_eq!(codes.iter().any(|code| code == "TORN_TAIL"), torn);
        assert_eq!(codes.iter().any(|code| code == "LOST_TAIL"), cut < whole.len());
        left.verify().unwrap();
    }
    drop(journal);
}

#[test]
fn a_hole_that_the_recent_records_fill_is_filled() {
    let (folder, journal, desk, begin, last) = written("hole");
    let whole = fs::read(folder.newest()).unwrap();
    let mut holed = whole.clone();
    holed[begin..begin + 40].fill(0);
    let left = folder.after_a_power_cut(&holed);
    let (journal_of_it, recovered) = left.open();
    assert_eq!((recovered.next, &recovered.groups["main"].snapshot), (last + 1, &desk.snapshot()));
    let torn = recovered.torn.unwrap();
    assert_eq!(fs::read(left.0.join(format!("torn-{}.bin", torn.seq))).unwrap(), &holed[begin..]);
    drop(journal_of_it);
    assert!(left.text().as_bytes().starts_with(&whole));
    left.verify().unwrap();
    drop(journal);
}

/// A journal with an observation behind its recent records, where those begin, and its segment. Observations are written
/// within milliseconds, and are no recent records before a decision follows.
fn written_on(name: &str) -> (Folder, Journal, Desk, usize, Vec<u8>) {
    let (folder, journal, mut desk, begin, _) = written(name);
    let before = fs::read(folder.newest()).unwrap().len();
    desk.probe("south", true);
    let whole = loop {
        let whole = fs::read(folder.newest()).unwrap();
        if whole.len() > before {
            break whole;
        }
        std::thread::yield_now();
    };
    (folder, journal, desk, begin, whole)
}

#[test]
fn a_record_that_only_the_segment_has_stays_behind_a_hole_that_is_filled() {
    let (folder, journal, desk, begin, whole) = written_on("hole-before");
    let mut holed = whole.clone();
    holed[begin..begin + 512].fill(0);
    let left = folder.after_a_power_cut(&holed);
    let (opened, recovered) = left.open();
    assert_eq!(recovered.groups["main"].snapshot, desk.snapshot());
    drop(opened);
    assert!(left.text().as_bytes().starts_with(&whole));
    assert_eq!(codes(&left).iter().filter(|code| *code == "LOST_TAIL" || *code == "TORN_TAIL").count(), 2);
    left.verify().unwrap();
    drop(journal);
}

#[test]
fn a_hole_in_what_nobody_was_promised_is_cut_with_what_is_behind_it_where_that_is_known() {
    let (folder, journal, mut desk, _, whole) = written_on("unpromised");
    let promised = desk.durably(note("decided"));
    fs::copy(folder.recent(), folder.then()).unwrap();
    let begin = fs::read(folder.newest()).unwrap().len();
    assert!(begin > whole.len());
    let mut last = whole;
    while last.iter().skip(begin).filter(|byte| **byte == b'\n').count() < 3 {
        desk.probe("south", true);
        last = fs::read(folder.newest()).unwrap();
    }
    last[begin + 10..begin + 40].fill(0);
    let left = folder.after_a_power_cut(&last);
    let (opened, recovered) = left.open();
    assert!(recovered.next > promised && recovered.next <= promised + 3, "{} after {promised}", recovered.next);
    let torn = recovered.torn.unwrap();
    assert_eq!(
        fs::read(left.0.join(format!("torn-{}.bin", torn.seq))).unwrap(),
        &last[begin..],
        "nothing is thrown away"
    );
    drop(opened);
    left.verify().unwrap();
    // Without the recent records it is not known what was promised.
    let left = folder.after_a_power_cut(&last);
    fs::remove_file(left.recent()).unwrap();
    assert!(damage(&left.recover().unwrap_err()).what.contains("checksum"));
    // And what is changed is not what a power cut leaves.
    last[begin + 10..begin + 40].fill(b'x');
    let left = folder.after_a_power_cut(&last);
    assert!(damage(&left.recover().unwrap_err()).what.contains("checksum"));
    drop(journal);
}

#[test]
fn what_no_power_cut_does_before_a_record_that_only_the_segment_has_is_damage() {
    let (folder, journal, _, begin, whole) = written_on("edited");
    let mut edited = whole;
    edited.insert(begin + 40, b'x');
    let left = folder.after_a_power_cut(&edited);
    assert!(damage(&left.recover().unwrap_err()).what.contains("a whole record behind it"));
    assert!(Journal::open(left.options(), at(0)).is_err());
    assert_eq!(fs::read(left.newest()).unwrap(), edited, "nothing was changed");
    drop(journal);
}

#[test]
fn recent_records_of_another_journal_or_none_at_all_change_nothing() {
    let (folder, journal, _, begin, _) = written("mine");
    let (other, other_journal, ..) = written("another");
    let cut = &fs::read(folder.newest()).unwrap()[..begin];
    let alone = folder.copy("alone");
    fs::write(alone.newest(), cut).unwrap();
    let expected = alone.recover().unwrap();
    let recent = fs::read(other.then()).unwrap();
    let half = fs::read(folder.then()).unwrap().split_off(100);
    for recent in [recent, half, vec![0; 1 << 20], b"\n\n\n".to_vec(), Vec::new()] {
        let left = folder.after_a_power_cut(cut);
        fs::write(left.recent(), recent).unwrap();
        assert_eq!(left.recover().unwrap(), expected);
    }
    drop((journal, other_journal));
}

#[test]
fn b40_of_recent_records_with_a_flipped_bit_none_is_believed_from_there_on_and_the_segment_is_as_good_as_before() {
    let (folder, journal, desk, begin, last) = written("recent-flip");
    let whole = fs::read(folder.newest()).unwrap();
    let mut recent = fs::read(folder.then()).unwrap();
    // Behind its lines it is blank.
    recent.truncate(recent.iter().rposition(|byte| *byte == b'\n').unwrap() + 1);
    let lines = recent.iter().filter(|byte| **byte == b'\n').count() as u64;
    let first = last + 1 - lines;
    let line = |place: usize| recent[..place].iter().filter(|byte| **byte == b'\n').count() as u64;
    let end_of_first = begin + recent.iter().position(|byte| *byte == b'\n').unwrap() + 1;
    let needed = folder.after_a_power_cut(&whole[..end_of_first]);
    let unneeded = folder.after_a_power_cut(&whole);
    fs::write(needed.recent(), &recent).unwrap();
    assert_eq!(needed.recover().unwrap().next, last + 1, "as it was, all of it is put back");
    // Each third byte, and one bit of it, which goes round: all bits of all bytes would take three quarters of a minute.
    for place in (0..recent.len()).step_by(3) {
        let bit = place % 8;
        let mut flipped = recent.clone();
        flipped[place] ^= 1 << bit;
        fs::write(needed.recent(), &flipped).unwrap();
        // The first of its lines is in the segment, too: without it nothing here goes on from there.
        let believed = first + line(place).max(1);
        assert_eq!(needed.recover().unwrap().next, believed, "byte {place}, bit {bit}");
        if place % 8 == 0 {
            fs::write(unneeded.recent(), &flipped).unwrap();
            let recovered = unneeded.recover().unwrap();
            assert_eq!((recovered.next, &recovered.groups["main"].snapshot), (last + 1, &desk.snapshot()));
        }
    }
    drop(journal);
}

#[test]
fn what_is_there_under_the_name_of_the_recent_records_is_never_written_to() {
    let (folder, journal, _, begin, _) = written("linked");
    let cut = &fs::read(folder.newest()).unwrap()[..begin];
    let left = folder.after_a_power_cut(cut);
    let expected = left.recover().unwrap().next;
    let (backup, target) = (left.0.join("backup"), left.0.join("target"));
    fs::rename(left.recent(), &target).unwrap();
    fs::hard_link(&target, &backup).unwrap();
    std::os::unix::fs::symlink(&target, left.recent()).unwrap();
    fs::set_permissions(&target, std::os::unix::fs::PermissionsExt::from_mode(0o400)).unwrap();
    let (opened, recovered) = left.open();
    assert_eq!(recovered.next, expected, "a link is read");
    assert!(fs::symlink_metadata(left.recent()).unwrap().is_file(), "and gives way to a file");
    assert_eq!(fs::read(&backup).unwrap(), fs::read(folder.then()).unwrap());
    drop((opened, journal));
}

#[test]
fn what_is_no_file_under_the_name_of_the_recent_records_is_named() {
    let (folder, _) = small("no-file");
    let refused = |folder: &Folder| {
        let expected = format!(
            "{}: the journal's recent records are expected here, and this is no file",
            folder.recent().display()
        );
        assert_eq!(folder.recover().unwrap_err().to_string(), expected);
        assert_eq!(Journal::open(folder.options(), at(0)).unwrap_err().to_string(), expected);
    };
    fs::create_dir(folder.recent()).unwrap();
    refused(&folder);
    fs::remove_dir(folder.recent()).unwrap();
    // Whoever opens this waits for somebody who writes to it.
    assert!(std::process::Command::new("mkfifo").arg(folder.recent()).status().unwrap().success());
    refused(&folder);
    fs::remove_file(folder.recent()).unwrap();
    fs::File::create(folder.recent()).unwrap().set_len(1 << 40).unwrap();
    assert!(folder.recover().is_ok(), "no more is read than the journal puts there");
}

#[test]
fn whoever_reads_while_a_supervisor_writes_finds_no_damage() {
    let folder = Folder::new("read-along");
    let options = Options { segment_size: 20_000, ..folder.options() };
    let (journal, _) = Journal::open(options, at(0)).unwrap();
    let mut desk = Desk::new("main", &journal.handle());
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..300 {
                (0..5).for_each(|_| desk.probe("west", true));
                desk.evaluate(FenceClaim::None).unwrap();
            }
            done.store(true, std::sync::atomic::Ordering::SeqCst);
        });
        let mut newest = 0;
        while !done.load(std::sync::atomic::Ordering::SeqCst) {
            let next = folder.recover().unwrap().next;
            assert!(next >= newest, "{next} after {newest}");
            newest = next;
            folder.verify().unwrap();
        }
    });
    journal.close(at(9), "end").unwrap();
    folder.verify().unwrap();
}
