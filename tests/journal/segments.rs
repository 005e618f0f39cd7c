//! Segments, retention, and what a restart finds.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use broker_failover::engine::*;
use broker_failover::scenario::Verb;
use broker_failover::supervisor::hooks::{HookResult, Stage};
use broker_failover::supervisor::journal::*;

use crate::desk::*;

/// Writes so much that there are many small segments; gives the state that it ends in.
fn long(folder: &Folder, options: Options, rounds: usize) -> BTreeMap<String, Snapshot> {
    let (journal, recovered) = Journal::open(options, at(0)).unwrap();
    let mut desks = ["main", "other"].map(|name| Desk::new_or_recovered(name, &journal.handle(), &recovered));
    for round in 0..rounds {
        let desk = &mut desks[round % 2];
        desk.fail_over();
        let epoch = desk.epoch();
        desk.append(desk.hook_start(Stage::Switch, round as u64));
        desk.append(desk.hook_end(Stage::Switch, round as u64, HookResult::Ok));
        desk.decide(Input::Reconciled(epoch)).unwrap();
        for endpoint in ["east", "west", "south", "east", "west", "south"] {
            desk.probe(endpoint, round % 3 > 0);
            desk.now += 100;
        }
        desk.evaluate(FenceClaim::None).unwrap();
        if round % 5 == 0 {
            desk.forget();
        }
    }
    journal.close(at(u64::from(u32::MAX)), "end").unwrap();
    assert!(folder.segments().len() > 1);
    desks.into_iter().map(|desk| (desk.name.to_string(), desk.snapshot())).collect()
}

fn states(recovered: &Recovered) -> BTreeMap<String, Snapshot> {
    recovered.groups.iter().map(|(name, group)| (name.clone(), group.snapshot.clone())).collect()
}

#[test]
fn each_segment_can_be_read_without_the_older_ones() {
    let folder = Folder::new("alone");
    let ended = long(&folder, Options { segment_size: 6000, ..folder.options() }, 12);
    let counts = folder.verify().unwrap();
    assert!(counts.segments.len() > 4, "{counts:?}");
    assert_eq!(states(&folder.recover().unwrap()), ended);
    // From each segment on: the same state, and every later answer as recorded.
    let segments = folder.segments();
    for oldest in 1..segments.len() {
        let copy = folder.copy("alone-from");
        segments[..oldest].iter().for_each(|path| fs::remove_file(copy.0.join(path.file_name().unwrap())).unwrap());
        copy.verify().unwrap();
        assert_eq!(states(&copy.recover().unwrap()), ended, "from segment {oldest}");
    }
}

#[test]
fn a_segment_that_is_missing_in_the_middle_is_named() {
    let folder = Folder::new("gap");
    long(&folder, Options { segment_size: 6000, ..folder.options() }, 8);
    let segments = folder.segments();
    fs::remove_file(&segments[1]).unwrap();
    let error = folder.recover().unwrap_err();
    let third = segments[2].file_name().unwrap().to_str().unwrap();
    assert_eq!(damage(&error).segment, third);
    assert!(damage(&error).what.ends_with("a segment is missing"), "{error}");
}

#[test]
fn damage_in_an_old_segment_is_found_too() {
    let folder = Folder::new("old");
    long(&folder, Options { segment_size: 6000, ..folder.options() }, 8);
    let path = &folder.segments()[0];
    let mut bytes = fs::read(path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 4;
    fs::write(path, bytes).unwrap();
    assert!(Journal::open(folder.options(), at(0)).is_err());
}

#[test]
fn a_segment_whose_head_was_not_finished_is_begun_again() {
    let (folder, state) = small("unfinished");
    let next = folder.recover().unwrap().next;
    fs::write(folder.0.join(format!("{next:020}.jsonl.new")), "{\"seq\":").unwrap();
    let (journal, recovered) = folder.open();
    assert_eq!(recovered.groups["main"].snapshot, state);
    drop(journal);
    assert!(fs::read_dir(&folder.0).unwrap().all(|entry| !entry.unwrap().path().to_str().unwrap().ends_with(".new")));
    folder.verify().unwrap();
}

#[test]
fn retention_keeps_what_the_present_needs() {
    let folder = Folder::new("retention");
    let keep = Keep { age: Duration::MAX, size: 60_000 };
    let ended = long(&folder, Options { segment_size: 6000, keep, ..folder.options() }, 40);
    let counts = folder.verify().unwrap();
    assert!(counts.bytes() < 80_000 && counts.segments[0].first > 1, "{counts:?}");
    assert_eq!(states(&folder.recover().unwrap()), ended);
    assert!(replay_alike(&folder.exported("main")) > 10);
}

#[test]
fn b25_the_records_of_an_unfinished_switch_are_never_dropped() {
    let folder = Folder::new("unfinished-switch");
    let nothing = Keep { age: Duration::ZERO, size: 0 };
    let (journal, _) = Journal::open(Options { segment_size: 4000, keep: nothing, ..folder.options() }, at(0)).unwrap();
    let mut desk = Desk::new("main", &journal.handle());
    desk.probe("east", true);
    let decided = desk.durably(desk.stage(SwitchStage::Decided));
    let started = desk.durably(desk.hook_start(Stage::Fence, 7));
    let probes = |desk: &mut Desk| (0..100).for_each(|_| desk.probe("west", true));
    probes(&mut desk);
    desk.durably(note("settled"));
    let oldest = || folder.verify().unwrap().segments[0].first;
    assert!(oldest() <= decided, "the switch's first record is gone");
    let recovered = folder.recover().unwrap();
    let group = &recovered.groups["main"];
    assert_eq!(group.stage.as_ref().map(|stage| stage.stage), Some(SwitchStage::Decided));
    assert_eq!(group.pending.iter().map(|hook| hook.ticket).collect::<Vec<_>>(), [7]);
    desk.append(desk.hook_end(Stage::Fence, 7, HookResult::Ok));
    desk.append(desk.stage(SwitchStage::Open));
    probes(&mut desk);
    desk.durably(note("settled"));
    assert!(oldest() > started, "nothing needs it any more");
}

#[test]
fn a_restart_finds_the_same_state_with_the_time_that_was_down_counted_as_none() {
    let folder = Folder::new("restart");
    let (journal, _) = folder.open();
    let mut desk = Desk::new("main", &journal.handle());
    desk.fail_over();
    let epoch = desk.epoch();
    desk.decide(Input::Reconciled(epoch)).unwrap();
    desk.decide(Input::Maintenance { endpoint: "south".to_owned(), on: true }).unwrap();
    drop(journal);
    let recovered = folder.recover().unwrap();
    let group = &recovered.groups["main"];
    assert_eq!((&group.snapshot, recovered.stopped), (&desk.snapshot(), false));
    assert_eq!(group.snapshot.last_switch_age, Some(20_000_000));
    assert_eq!(group.config, {
        let Body::Config(config) = desk.config() else { unreachable!() };
        config.line
    });
    // A group that nobody mentions stays as it was, through any number of restarts and segments.
    for _ in 0..3 {
        let (journal, recovered) = Journal::open(Options { segment_size: 1, ..folder.options() }, at(0)).unwrap();
        assert_eq!(recovered.groups["main"].snapshot, desk.snapshot());
        let other = Desk::new_or_recovered("other", &journal.handle(), &recovered);
        other.durably(note("alone"));
        other.durably(note("alone"));
        journal.close(at(1_000_000), "end").unwrap();
    }
    assert_eq!(folder.recover().unwrap().groups["main"].snapshot, desk.snapshot());
    folder.verify().unwrap();
}

#[test]
fn b10_a_crash_between_switched_and_reconciled_goes_on_at_reconcile() {
    let folder = Folder::new("b10");
    let (journal, _) = folder.open();
    let mut desk = Desk::new("main", &journal.handle());
    desk.fail_over();
    desk.durably(desk.stage(SwitchStage::Fenced));
    desk.durably(desk.hook_start(Stage::Switch, 1));
    desk.durably(desk.hook_end(Stage::Switch, 1, HookResult::Ok));
    desk.durably(desk.stage(SwitchStage::Switched));
    desk.durably(desk.hook_start(Stage::Reconcile, 2));
    drop(journal);
    let recovered = folder.recover().unwrap();
    let group = &recovered.groups["main"];
    assert_eq!(group.snapshot.order_flow, SnapshotFlow::Reconciling);
    assert!(group.held_for > Duration::ZERO && group.held_for < Duration::from_millis(500), "{:?}", group.held_for);
    assert_eq!(group.stage.as_ref().map(|stage| stage.stage), Some(SwitchStage::Switched));
    assert_eq!(group.pending.iter().map(|hook| hook.request.stage).collect::<Vec<_>>(), [Stage::Reconcile]);
    let fence = group.fence.as_ref().unwrap();
    assert_eq!((fence.proof.proves.as_deref(), fence.proof.epoch), (Some("session closed"), 2));
    // Three records tell it: decided, moved, settled; the third is not there.
    let kinds: Vec<_> = folder
        .records()
        .iter()
        .filter_map(|record| match &record.body {
            Body::Input { answer, .. } if answer.switch.is_some() => Some("decided"),
            Body::HookEnd(end) if end.stage == Stage::Switch => Some("moved"),
            Body::Input { verb: Verb::Input(Input::Reconciled(_)), .. } => Some("settled"),
            _ => None,
        })
        .collect();
    assert_eq!(kinds, ["decided", "moved"]);
}

#[test]
fn b19_a_halt_and_whether_it_was_confirmed_outlive_a_restart_and_a_recovery_of_the_path() {
    let folder = Folder::new("b19");
    let (journal, _) = folder.open();
    let mut desk = Desk::new("main", &journal.handle());
    desk.probe("east", true);
    desk.decide(Input::Halt(HaltOrder::operator("desk asked"))).unwrap();
    desk.durably(desk.hook_start(Stage::Halt, 1));
    desk.durably(desk.hook_end(Stage::Halt, 1, HookResult::Exit(1)));
    let halted = |confirmed| {
        let recovered = folder.recover().unwrap();
        let group = &recovered.groups["main"];
        assert!(matches!(&group.snapshot.order_flow, SnapshotFlow::Halted { code, .. } if code == "OPERATOR"));
        assert_eq!(group.halt_confirmed, confirmed);
    };
    halted(false);
    drop(journal);
    let (journal, recovered) = folder.open();
    let mut desk = Desk::recovered("main", &journal.handle(), &recovered, 1);
    (0..5).for_each(|_| desk.probe("east", true));
    desk.evaluate(FenceClaim::None).unwrap();
    halted(false);
    desk.durably(desk.hook_end(Stage::Halt, 2, HookResult::Ok));
    drop(journal);
    halted(true);
}

#[test]
fn b34_a_hook_that_failed_is_recorded_as_failed_and_proves_nothing() {
    let folder = Folder::new("b34");
    let (journal, _) = folder.open();
    let mut desk = Desk::new("main", &journal.handle());
    desk.probe("east", true);
    desk.decide(Input::FenceStarted(1)).unwrap();
    desk.durably(desk.stage(SwitchStage::Decided));
    for ticket in 1..=3 {
        desk.durably(desk.hook_start(Stage::Fence, ticket));
        desk.durably(desk.hook_end(Stage::Fence, ticket, HookResult::Timeout));
    }
    drop(journal);
    let recovered = folder.recover().unwrap();
    let group = &recovered.groups["main"];
    assert_eq!((group.fence.as_ref(), group.pending.len()), (None, 0));
    assert_eq!(group.stage.as_ref().map(|stage| stage.stage), Some(SwitchStage::Decided));
    assert!(group.snapshot.active.as_ref().unwrap().spent);
    let ends = folder.records().iter().filter(|record| matches!(&record.body, Body::HookEnd(_))).count();
    assert_eq!(ends, 3, "each retry is recorded");
}

/// Counts the records of a group: what a caller keeps beside the engine.
#[derive(Default)]
struct Counting(u64);

impl Follow for Counting {
    fn fold(&mut self, _: &Body) {
        self.0 += 1;
    }

    fn save(&self) -> serde_json::Value {
        self.0.into()
    }

    fn load(&mut self, saved: &serde_json::Value) -> Result<(), String> {
        self.0 = saved.as_u64().ok_or("a number is expected")?;
        Ok(())
    }
}

#[test]
fn what_a_caller_keeps_beside_the_engine_comes_back_whatever_segments_are_left() {
    let folder = Folder::new("follow");
    let keep = Keep { age: Duration::ZERO, size: 0 };
    let follow: MakeFollow = || Box::new(Counting::default());
    let options = Options { segment_size: 3000, keep, follow, ..folder.options() };
    let (journal, _) = Journal::open(options.clone(), at(0)).unwrap();
    let desk = Desk::new("main", &journal.handle());
    (0..99).for_each(|_| desk.append(note("x")));
    drop(journal);
    let (_, recovered) = Journal::open(options, at(0)).unwrap();
    assert!(folder.verify().unwrap().segments[0].first > 1);
    assert_eq!(recovered.groups["main"].driver, serde_json::json!(100));
}

#[test]
fn threads_that_append_at_once_keep_their_own_order_and_lose_nothing() {
    const THREADS: usize = 8;
    const RECORDS: usize = 500;
    let folder = Folder::new("threads");
    let (journal, _) = Journal::open(Options { segment_size: 20_000, ..folder.options() }, at(0)).unwrap();
    let main = Desk::new("main", &journal.handle());
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (handle, main) = (journal.handle(), &main);
            scope.spawn(move || {
                let mut last = 0;
                for record in 0..RECORDS {
                    let entry = main.entry(note(&format!("{thread} {record}")));
                    if record % 50 == 0 {
                        let seq = handle.append_durable_blocking(entry).unwrap();
                        assert!(seq > last);
                        last = seq;
                    } else {
                        handle.append(entry).unwrap();
                    }
                }
            });
        }
    });
    journal.close(at(2), "end").unwrap();
    let mut next = [0; THREADS];
    for record in folder.records() {
        let Body::Note(note) = &record.body else { continue };
        let (thread, number) = note.text.split_once(' ').unwrap();
        let next = &mut next[thread.parse::<usize>().unwrap()];
        assert_eq!(number.parse::<usize>().unwrap(), *next);
        *next += 1;
    }
    assert_eq!(next, [RECORDS; THREADS]);
    folder.verify().unwrap();
}

#[test]
fn for_how_long_order_flow_was_held_is_known_after_any_number_of_restarts_and_segments() {
    let folder = Folder::new("held");
    let open = || Journal::open(Options { segment_size: 4000, ..folder.options() }, at(0)).unwrap();
    let held = || folder.recover().unwrap().groups["main"].held_for;
    let (journal, _) = open();
    let mut desk = Desk::new("main", &journal.handle());
    desk.fail_over();
    (0..50).for_each(|_| desk.probe("west", true));
    desk.durably(note("settled"));
    drop(journal);
    // Since the evaluation that asked for a fence, which two more inputs of 10 ms followed.
    assert_eq!(held(), Duration::from_millis(520));
    for restarts in 1..=3 {
        let (journal, recovered) = open();
        let mut desk = Desk::recovered("main", &journal.handle(), &recovered, 1);
        (0..20).for_each(|_| desk.probe("west", true));
        desk.durably(note("settled"));
        drop(journal);
        // What each run adds, 1 ms until its snapshot and 20 probes, and nothing for the time between two.
        assert_eq!(held(), Duration::from_millis(520 + 201 * restarts));
    }
    let (journal, recovered) = open();
    let mut desk = Desk::recovered("main", &journal.handle(), &recovered, 1);
    desk.decide(Input::Halt(HaltOrder::operator("enough"))).unwrap();
    drop(journal);
    assert_eq!(held(), Duration::ZERO);
}
