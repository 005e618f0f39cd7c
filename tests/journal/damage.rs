//! Lines that are torn, changed, lost or moved.

use std::fs;

use broker_failover::supervisor::journal::*;

use crate::desk::*;

#[test]
fn b40_a_journal_cut_at_every_byte_of_its_last_line_goes_on_from_the_line_before() {
    let (folder, whole) = small("cut");
    let bytes = fs::read(folder.newest()).unwrap();
    let last = bytes[..bytes.len() - 1].iter().rposition(|byte| *byte == b'\n').unwrap() + 1;
    // The state without the last record.
    let shorter = {
        let copy = folder.copy("cut-shorter");
        fs::write(copy.newest(), &bytes[..last]).unwrap();
        copy.recover().unwrap()
    };
    assert!(shorter.torn.is_none());
    for cut in last..=bytes.len() {
        let copy = folder.copy("cut-at");
        fs::write(copy.newest(), &bytes[..cut]).unwrap();
        let (journal, recovered) = copy.open();
        let group = &recovered.groups["main"];
        if cut == bytes.len() {
            assert_eq!((&group.snapshot, &recovered.torn), (&whole, &None));
        } else {
            assert_eq!(group.snapshot, shorter.groups["main"].snapshot, "cut at {cut}");
            let torn = recovered.torn.as_ref().map_or(&[][..], |torn| &torn.bytes);
            assert_eq!(torn, &bytes[last..cut]);
            let aside = copy.0.join(format!("torn-{}.bin", recovered.next));
            assert_eq!(fs::read(&aside).ok(), (cut > last).then(|| bytes[last..cut].to_vec()));
        }
        let next = recovered.next;
        let mut desk = Desk::recovered("main", &journal.handle(), &recovered, 1);
        desk.probe("south", true);
        let appended = desk.durably(note("record 11"));
        drop(journal);
        // Nothing later is hidden by what was torn.
        let (journal, recovered) = copy.open();
        assert!(recovered.torn.is_none() && recovered.next == appended + 1);
        drop(journal);
        let records = copy.records();
        assert!(records.iter().zip(1..).all(|(record, seq)| record.seq == seq));
        let noted = records.iter().any(|record| matches!(&record.body, Body::Note(note) if note.code == "TORN_TAIL"));
        assert_eq!(noted, cut > last && cut < bytes.len());
        assert!(records.iter().any(|record| record.body == note("record 11")) && records[0].seq < next);
        copy.verify().unwrap();
    }
}

#[test]
fn b40_one_bit_flipped_anywhere_is_refused_or_was_the_torn_last_line() {
    let (folder, _) = small("flip");
    let bytes = fs::read(folder.newest()).unwrap();
    let last = bytes[..bytes.len() - 1].iter().rposition(|byte| *byte == b'\n').unwrap() + 1;
    let lines_before = |place: usize| 1 + bytes[..place].iter().filter(|byte| **byte == b'\n').count() as u64;
    let copy = folder.copy("flipped");
    let path = copy.newest();
    let (mut refused, mut torn) = (0, 0);
    let before_last = bytes[..last - 1].iter().rposition(|byte| *byte == b'\n').unwrap() + 1;
    for place in 0..bytes.len() {
        // Every bit of the last two lines, where what is torn and what is damaged meet. Before them two bits of each byte,
        // one of which goes round: all eight of them anywhere would take a quarter of a minute.
        let bits = if place >= before_last { (0..8).collect() } else { vec![5, place % 8] };
        for bit in bits {
            let mut flipped = bytes.clone();
            flipped[place] ^= 1 << bit;
            fs::write(&path, &flipped).unwrap();
            match copy.recover() {
                Ok(recovered) => {
                    let torn_at = recovered.torn.as_ref().map(|torn| torn.offset);
                    assert_eq!(torn_at, Some(last as u64), "byte {place}, bit {bit} went unnoticed");
                    assert!(place >= last, "byte {place}, bit {bit} took the last line with it");
                    torn += 1;
                }
                Err(error) => {
                    // A newline made of a byte of the last line leaves two broken lines: refused, too.
                    assert!(place < last || flipped[place] == b'\n', "byte {place}, bit {bit}: {error}");
                    let damage = damage(&error);
                    assert_eq!(format!("{}", path.file_name().unwrap().to_str().unwrap()), damage.segment);
                    // The place is named, or that of the line that does not fit it.
                    assert!(damage.line.abs_diff(lines_before(place)) <= 1, "byte {place}, bit {bit}: {error}");
                    refused += 1;
                }
            }
            assert_eq!(fs::read(&path).unwrap(), flipped, "reading changes nothing");
        }
    }
    println!("{refused} flipped bits refused, {torn} in the last line");
}

#[test]
fn b40_a_damaged_journal_is_not_opened_and_not_touched() {
    let (folder, _) = small("damaged");
    let path = folder.newest();
    let mut bytes = fs::read(&path).unwrap();
    let fifth = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n').nth(3).unwrap().0 + 20;
    bytes[fifth] ^= 1;
    fs::write(&path, &bytes).unwrap();
    let error = Journal::open(folder.options(), at(0)).unwrap_err();
    let OpenError::Read(ReadError::Damaged(damage)) = &error else { panic!("{error}") };
    assert_eq!((damage.line, &*damage.segment), (5, "00000000000000000001.jsonl"));
    assert!(error.to_string().contains("line 5: the checksum of the line"), "{error}");
    assert_eq!(fs::read(&path).unwrap(), bytes);
}

#[test]
fn lines_that_are_missing_doubled_or_moved_are_named() {
    let (folder, _) = small("order");
    let text = fs::read_to_string(folder.newest()).unwrap();
    let lines: Vec<_> = text.lines().collect();
    let refused = |lines: &[&str]| {
        let copy = folder.copy("order-changed");
        fs::write(copy.newest(), lines.join("\n") + "\n").unwrap();
        let error = copy.recover().unwrap_err();
        (damage(&error).line, damage(&error).what.clone())
    };
    let missing = [&lines[..4], &lines[5..]].concat();
    assert_eq!(refused(&missing), (5, "record 6; expected 5".to_owned()));
    let doubled = [&lines[..5], &lines[4..]].concat();
    assert_eq!(refused(&doubled), (6, "record 5; expected 6".to_owned()));
    let moved = [&lines[..4], &lines[5..6], &lines[4..5], &lines[6..]].concat();
    assert_eq!(refused(&moved), (5, "record 6; expected 5".to_owned()));
    assert_eq!(refused(&lines[1..]).1, "record 2; expected 1, as the file is named");
}

#[test]
fn a_line_that_was_changed_with_its_checksum_breaks_the_chain() {
    let (folder, _) = small("chain");
    let path = folder.newest();
    let text = fs::read_to_string(&path).unwrap();
    let lines: Vec<_> = text.lines().collect();
    let prev = lines[4].split("\"prev\":\"").nth(1).unwrap().split('"').next().unwrap();
    let (changed, _) = sealed(&lines[4].replace("west", "east"), prev);
    assert_ne!(changed, lines[4]);
    fs::write(&path, text.replace(lines[4], &changed)).unwrap();
    let error = folder.recover().unwrap_err();
    assert_eq!(damage(&error).line, 6);
    assert!(error.to_string().contains("\"prev\" is another"), "{error}");
}

#[test]
fn an_answer_that_the_engine_does_not_give_is_damage_even_with_every_checksum_right() {
    let (folder, _) = small("outcome");
    forge(&folder.newest(), |line| line.replace("\"outcome\":\"DOWN\"", "\"outcome\":\"DEGRADED\""));
    let error = folder.recover().unwrap_err();
    let what = &damage(&error).what;
    assert_eq!(what, "the engine answers \"DOWN\" to this input; the record says \"DEGRADED\"");
}

#[test]
fn what_another_version_wrote_is_an_error_and_not_skipped() {
    for (from, to, expected) in [
        ("\"kind\":\"input\"", "\"kind\":\"inputs\"", "the kind \"inputs\" is unknown"),
        ("\"outcome\":\"DOWN\"", "\"outcome\":\"DOWN\",\"why\":1", "unknown field `why`"),
        ("\"format\":1", "\"format\":2", "format 2; this version reads format 1"),
        (",\"kind\":\"input\"", ",\"more\":1,\"kind\":\"input\"", "unknown field `more`"),
    ] {
        let (folder, _) = small("version");
        forge(&folder.newest(), |line| line.replace(from, to));
        let error = folder.recover().unwrap_err();
        assert!(damage(&error).what.contains(expected), "{error}");
    }
}

#[test]
fn where_another_version_decided_otherwise_the_way_out_is_said() {
    let (folder, _) = small("upgrade");
    forge(&folder.newest(), |line| {
        line.replace("\"version\":\"0.1.0\"", "\"version\":\"0.0.9\"")
            .replace("\"outcome\":\"DOWN\"", "\"outcome\":\"DEGRADED\"")
    });
    let error = folder.recover().unwrap_err();
    let expected = "version 0.0.9 wrote it, this is 0.1.0: start that one and stop it, then this one";
    assert!(damage(&error).what.ends_with(expected), "{error}");
}

#[test]
fn after_a_stop_no_decision_of_the_last_run_is_followed() {
    let (folder, state) = small("stopped");
    let (journal, recovered) = folder.open();
    let desk = Desk::recovered("main", &journal.handle(), &recovered, 1);
    assert_eq!(recovered.groups["main"].snapshot, state);
    journal.close(at(9), "SIGTERM").unwrap();
    let newest = fs::read_to_string(folder.newest()).unwrap();
    let kinds: Vec<_> =
        newest.lines().map(|line| line.split("\"kind\":\"").nth(1).unwrap().split('"').next().unwrap()).collect();
    assert_eq!(kinds, ["segment", "config", "snapshot", "stop"]);
    assert_eq!(folder.recover().unwrap().groups["main"].snapshot, desk.snapshot());
}

#[test]
fn only_one_process_writes_and_the_other_is_told_which() {
    let folder = Folder::new("lock");
    let (journal, _) = folder.open();
    let error = Journal::open(folder.options(), at(0)).unwrap_err();
    let expected = format!("is in use by process {}; nothing was changed", std::process::id());
    assert!(error.to_string().ends_with(&expected), "{error}");
    drop(journal);
    folder.open();
}
