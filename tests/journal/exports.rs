//! A journal as a scenario.

use broker_failover::engine::*;
use broker_failover::supervisor::hooks::Stage;
use broker_failover::supervisor::journal::*;

use crate::desk::*;

#[test]
fn an_export_replays_to_the_recorded_answers_across_restarts() {
    let folder = Folder::new("export");
    let mut answers = 0;
    for life in 0..4 {
        let (journal, recovered) = folder.open();
        let mut desk = Desk::new_or_recovered("main", &journal.handle(), &recovered);
        desk.fail_over();
        let epoch = desk.epoch();
        desk.append(desk.hook_start(Stage::Fence, 1));
        desk.decide(Input::Reconciled(epoch)).unwrap();
        desk.now += 200 * life;
        (0..3).for_each(|_| desk.probe("east", true));
        // Gated by the cooldown: its age must have been carried over.
        desk.decide(Input::Evaluate(Evaluation::Failback, FenceClaim::None)).unwrap();
        drop(journal);
        answers = folder.records().iter().filter(|record| matches!(record.body, Body::Input { .. })).count();
    }
    let exported = folder.exported("main");
    assert_eq!(replay_alike(&exported), answers, "every input is there");
    let restarts = exported.iter().filter(|line| line.line.contains("\"restart\":\"monitor\"")).count();
    assert_eq!(restarts, 3);
    assert!(exported[0].line.starts_with("# group \"main\", from record 3 of "), "{}", exported[0].line);
    assert!(exported[1].line.starts_with("{\"config\":{"));
    assert!(exported.iter().any(|line| line.line.starts_with("# ") && line.line.contains("hook_start")));
    // Up to a record in the middle.
    let mut some = Vec::new();
    export(&folder.0, "main", Some(10), |line| some.push(line.clone())).unwrap();
    assert_eq!(some[..], exported[..some.len()]);
    assert!(!export(&folder.0, "nobody", None, |_| panic!("a line")).unwrap());
}

#[test]
fn an_export_goes_on_over_a_restart_whose_snapshot_was_written_a_little_later() {
    let (folder, _) = small("later");
    let (journal, recovered) = folder.open();
    let group = &recovered.groups["main"];
    let policy = new_engine().policy().clone();
    let engine = Engine::restore(policy, group.snapshot.clone(), at(3), RestartKind::Monitor).unwrap();
    let mut desk = Desk { name: "main".into(), engine, journal: journal.handle(), now: 450 };
    desk.append(desk.config());
    desk.append(Body::Snapshot(Box::new(Checkpoint::of(desk.snapshot()))));
    (0..3).for_each(|_| desk.probe("east", true));
    // On either side of the cooldown of 500 ms, which the switch began 10 ms before the restart (`decide` takes 10 ms).
    for now in [482, 483] {
        desk.now = now;
        let failback = Input::Evaluate(Evaluation::Failback, FenceClaim::None);
        desk.decide(failback).unwrap();
    }
    drop(journal);
    let exported = folder.exported("main");
    let answers: Vec<_> = exported.iter().filter_map(|line| line.answer.as_ref()).collect();
    assert_eq!(replay_alike(&exported), answers.len());
    assert!(exported[1].line.starts_with("{\"config\":{") && exported[1].line.contains("east.example"));
    let outcomes: Vec<_> = answers.iter().rev().take(2).map(|answer| &*answer.outcome).collect();
    assert_eq!(outcomes, ["FENCE_REQUIRED", "COOLDOWN_ACTIVE"]);
}

#[test]
fn an_export_begins_anew_where_the_configuration_changed() {
    let (folder, _) = small("reconfigured");
    let (journal, recovered) = folder.open();
    let group = &recovered.groups["main"];
    let policy = Policy::new(PolicySettings { failure_threshold: 1, ..PolicySettings::default() }).unwrap();
    let engine = Engine::restore(policy, group.snapshot.clone(), at(1), RestartKind::Monitor).unwrap();
    let mut desk = Desk { name: "main".into(), engine, journal: journal.handle(), now: 1 };
    desk.append(desk.config());
    desk.append(Body::Snapshot(Box::new(Checkpoint::of(desk.snapshot()))));
    desk.probe("west", false);
    desk.evaluate(FenceClaim::None).unwrap();
    journal.close(at(100), "end").unwrap();
    let exported = folder.exported("main");
    assert_eq!(replay_alike(&exported), 2);
    assert!(exported[1].line.contains("\"failure_threshold\":1") && exported[1].line.ends_with("\"endpoints\":[]}}"));
    assert!(exported[2].line.starts_with("{\"restore\":{"));
    folder.verify().unwrap();
}

#[test]
fn a_reload_that_leaves_some_health_as_it_was_is_read_back_and_exported_as_that() {
    let folder = Folder::new("reloaded");
    let (journal, _) = Journal::open(Options { segment_size: 4000, ..folder.options() }, at(0)).unwrap();
    let mut desk = Desk::new("main", &journal.handle());
    for name in ["east", "west", "south", "west"] {
        desk.probe(name, true);
    }
    desk.probe("east", false);
    // South is asked otherwise from now on; the others are as they were.
    let (seen, snapshot) = (desk.now, desk.snapshot());
    let health = |endpoint: &str, failures, successes, probed_at: u64, error: Option<&str>| HealthRecord {
        endpoint: endpoint.to_owned(),
        failures,
        successes,
        probed_at: Seconds(at(probed_at).as_nanos()),
        error: error.map(str::to_owned),
        trigger: None,
    };
    let refused = "Refused: connection";
    let health = vec![health("east", 1, 0, seen, Some(refused)), health("west", 0, 2, seen - 10, None)];
    let mut engine =
        Engine::restore(desk.engine.policy().clone(), snapshot.clone(), at(seen), RestartKind::Monitor).unwrap();
    let id = |engine: &Engine, name: &str| engine.id(name).unwrap();
    engine.record_probe(at(seen), id(&engine, "east"), ProbeResult::Failure(refused.into())).unwrap();
    for _ in 0..2 {
        engine.record_probe(at(seen - 10), id(&engine, "west"), ProbeResult::Success).unwrap();
    }
    desk.engine = engine;
    desk.append(desk.config());
    desk.append(Body::Snapshot(Box::new(Checkpoint { health, ..Checkpoint::of(snapshot) })));
    // Two more failures are three in a row, and west is where flow goes: the journal's own engine agrees, also after
    // the heads of many segments.
    (0..40).for_each(|_| desk.probe("west", true));
    desk.probe("east", false);
    desk.probe("east", false);
    desk.evaluate(FenceClaim::None).unwrap();
    drop(journal);
    folder.verify().unwrap();
    let exported = folder.exported("main");
    let answers: Vec<_> = exported.iter().filter_map(|line| line.answer.as_ref()).collect();
    assert_eq!(replay_alike(&exported), answers.len());
    let last = answers.last().unwrap();
    assert_eq!((&*last.outcome, last.fence.as_ref().map(|fence| &*fence.target)), ("FENCE_REQUIRED", Some("west")));
    assert!(!exported.iter().any(|line| line.line.contains("\"restart\"")), "a restart would forget all health");
}
