//! What a journal looks like on disk, and what comes back from it.

use broker_failover::engine::*;
use broker_failover::scenario::Verb;
use broker_failover::supervisor::hooks::{HookResult, Stage};
use broker_failover::supervisor::journal::*;

use crate::desk::*;

#[test]
fn a_journal_is_json_lines_with_its_keys_in_one_order() {
    let (folder, _) = small("reads");
    let text = folder.text();
    let keys = ["{\"seq\":", ",\"at\":", ",\"boot\":", ",\"wall\":", ",\"group\":", ",\"kind\":", ",\"body\":"];
    for (line, seq) in text.lines().zip(1..) {
        let value: serde_json::Value = serde_json::from_str(line).unwrap();
        assert_eq!(value["seq"], seq);
        let mut place = 0;
        for key in keys {
            place += line[place..].find(key).unwrap_or_else(|| panic!("{key} in {line}"));
        }
        assert!(line[place..].contains(",\"prev\":\"") && line.ends_with("\"}"));
    }
    let inputs: Vec<_> = text.lines().filter(|line| line.contains("\"kind\":\"input\"")).collect();
    assert!(inputs[0].contains(
        r#""body":{"line":{"at":0.011,"probe":"east","ok":true},"answer":{"outcome":"HEALTHY","flow":"OPEN east #1"}}"#
    ));
    let switch = r#""switch":{"kind":"FAILOVER","from":"east","to":"west","epoch":2},"flow":"HOLD RECONCILING"}"#;
    assert!(text.contains(switch), "{text}");
}

#[test]
fn what_is_appended_is_what_is_read_back() {
    let folder = Folder::new("back");
    let (journal, recovered) = folder.open();
    assert_eq!((recovered.next, recovered.config_hash.as_deref(), recovered.groups.len()), (1, None, 0));
    let mut desk = Desk::new("Übersee \"1\"", &journal.handle());
    desk.probe("east", true);
    let bodies = [
        desk.hook_start(Stage::Fence, 1),
        desk.hook_end(Stage::Fence, 1, HookResult::Exit(-9)),
        desk.stage(SwitchStage::Decided),
        desk.stage(SwitchStage::Fenced),
        Body::Command(CommandRecord {
            peer: Some(Peer { uid: 1000, pid: 7 }),
            command: serde_json::json!({"halt": {"text": "Mittag\n\u{2028}"}}),
            refused: Some("no".to_owned()),
        }),
        note("control \u{0} characters, \u{1f980}"),
    ];
    bodies.iter().for_each(|body| desk.append(body.clone()));
    journal.close(at(99), "SIGTERM").unwrap();
    let records = folder.records();
    let read: Vec<_> = records.iter().map(|record| record.body.clone()).collect();
    assert!(matches!(&read[..3], [Body::Segment(_), Body::Start(_), Body::Config(_)]), "{read:?}");
    assert_eq!(read[4..10], bodies);
    // The last segment: the whole state, and the stop.
    assert!(matches!(&read[10..13], [Body::Segment(_), Body::Config(_), Body::Snapshot(_)]), "{read:?}");
    assert_eq!(read[13..], [Body::Stop(StopRecord { reason: "SIGTERM".to_owned() })]);
    assert!(records[3..10].iter().all(|record| record.group.as_deref() == Some("Übersee \"1\"")));
    assert_eq!(records[3].at, at(11));
    assert!(folder.recover().unwrap().stopped);
}

#[test]
fn a_record_that_is_not_what_happened_is_refused_before_it_is_written() {
    let folder = Folder::new("contradiction");
    let (journal, _) = folder.open();
    let mut desk = Desk::new("main", &journal.handle());
    desk.probe("east", true);
    let kept = desk.durably(note("before"));
    let lie = Answer::short("NO_ACTION", Some("ACTIVE_DOWN"));
    let evaluate = Verb::Input(Input::Evaluate(Evaluation::Failover, FenceClaim::None));
    let failed =
        journal.handle().append_durable_blocking(desk.entry(Body::Input { verb: evaluate, answer: lie })).unwrap_err();
    assert!(matches!(&failed, JournalFailed::Contradiction { seq, .. } if *seq == kept + 1), "{failed}");
    assert_eq!(journal.handle().append(desk.entry(note("after"))), Err(failed.clone()));
    assert_eq!(journal.close(at(1), "end"), Err(failed));
    assert_eq!(folder.records().last().unwrap().seq, kept);
    // The journal is as good as it was.
    let (journal, _) = folder.open();
    journal.close(at(1), "end").unwrap();
}

#[test]
fn an_input_that_could_not_be_replayed_is_refused() {
    let folder = Folder::new("long");
    let (journal, _) = folder.open();
    let mut desk = Desk::new("main", &journal.handle());
    let long = ProbeResult::Failure("x".repeat(1 << 20).into());
    let failed = desk.decide(Input::Probe { endpoint: "east".to_owned(), result: long }).unwrap_err();
    assert!(failed.to_string().contains("at most 1048576"), "{failed}");
    drop(journal);
    assert!(folder.verify().unwrap().torn.is_none());
}

#[test]
fn inputs_of_a_group_that_waits_for_its_snapshot_are_refused() {
    let (folder, _) = small("waits");
    let (journal, recovered) = folder.open();
    let mut desk = Desk::recovered("main", &journal.handle(), &recovered, 5);
    desk.probe("east", true);
    desk.durably(note("fine"));
    drop(journal);
    let (journal, recovered) = folder.open();
    let restored = recovered.groups["main"].snapshot.clone();
    let engine = Engine::restore(desk.engine.policy().clone(), restored, at(0), RestartKind::Monitor).unwrap();
    let mut desk = Desk { journal: journal.handle(), engine, ..desk };
    let failed = desk.decide(Input::Validate).unwrap_err();
    assert!(failed.to_string().contains("waits for a \"snapshot\""), "{failed}");
}
