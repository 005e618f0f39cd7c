//! What a group makes of a journal that fails, of a freeze, and of its own records after a restart.

use super::*;

#[test]
fn a_switchover_that_was_decided_before_a_crash_is_begun_after_it_if_it_is_still_possible() {
    let begun = World::new(config(|_| {}));
    let decided = DriverState { plan: Some(Plan::Switchover("west".to_owned())), ..DriverState::new() };
    for (round, stage, plan) in [("+++", Some(Stage::Fence), decided.plan.clone()), ("+x+", None, None)] {
        let mut world = World::of(config(|_| {}), begun.core.engine().clone(), decided.clone());
        world.round(round);
        assert_eq!((world.stage(), &world.core.state().plan), (stage, &plan), "{round}");
    }
}

#[test]
fn a_hold_goes_on_across_restarts_and_a_halt_ends_it() {
    let begun = World::new(config(|_| {}));
    let held = |before: u64| {
        let mut world = World::of(config(|_| {}), begun.core.engine().clone(), DriverState::new());
        world.rounds(&["+++", "x++", "x++"]);
        let engine = world.core.engine().clone();
        let mut world = World::of(config(|_| {}), engine, world.core.state().clone());
        world.core = world.core.held_for(Duration::from_secs(before));
        world
    };
    let mut world = held(299);
    world.wait(0);
    assert_eq!(world.core.next_deadline(), Some(Timestamp::from_nanos(SECOND)));
    world.now = SECOND - 1;
    world.event(Event::Deadline);
    assert_eq!(world.published, "HOLD SWITCHING");
    world.now = SECOND;
    world.event(Event::Deadline);
    assert_eq!(world.published, "HALT HOLD_EXPIRED");
    // What is not held has been held for no time.
    let mut open = World::of(config(|_| {}), begun.core.engine().clone(), DriverState::new());
    open.core = open.core.held_for(Duration::from_secs(299));
    open.rounds(&["+++", "x++", "x++", "x++"]);
    assert_eq!(open.published, "HOLD SWITCHING");
}

#[test]
fn a_stall_forgets_what_was_seen_and_waits_for_every_endpoint() {
    let mut world = World::new(config(|_| {}));
    world.rounds(&["+++", "x++"]);
    world.event(Event::Stall { text: "frozen for 10 s".to_owned() });
    world.slot("east", false);
    assert_eq!(world.core.engine().health(world.core.engine().id("east").unwrap()).unwrap().consecutive_failures(), 1);
    world.slot("east", false);
    assert_eq!(world.stage(), None, "west and north have not been heard of since");
    world.slot("west", true);
    world.slot("north", true);
    assert_eq!((world.stage(), &*world.published), (Some(Stage::Fence), "HOLD SWITCHING"));
}

#[test]
fn a_freeze_that_is_told_for_each_endpoint_is_recorded_once_and_waits_for_the_disk_once() {
    let mut world = World::new(config(|_| {}));
    world.rounds(&["+++", "x++"]);
    let stall = |world: &mut World| {
        let effects = world.core.handle(Timestamp::from_nanos(world.now), Event::Stall { text: "frozen".to_owned() });
        effects.iter().find_map(|effect| match effect {
            Effect::Record { entry: Entry::Input { verb: Verb::Restart(_), .. }, durable } => Some(*durable),
            _ => None,
        })
    };
    assert_eq!([(); 3].map(|()| stall(&mut world)), [Some(true), None, None]);
    world.slot("east", true);
    assert_eq!(stall(&mut world), Some(true), "there was something to forget");
}

#[test]
fn a_journal_that_fails_halts_and_takes_back_what_was_not_durable() {
    let mut world = World::new(config(|_| {}));
    world.rounds(&["+++", "x++", "x++"]);
    world.end_hook(Stage::Fence, HookResult::Ok);
    assert_eq!(world.core.engine().epoch().unwrap().get(), 2);
    // The record of SWITCHED could not be written: nothing of what followed it happened.
    let (ticket, request) = world.running.take().unwrap();
    let entry = world.records.iter().rfind(|entry| is_switched(entry)).unwrap().clone();
    let undone =
        vec![Effect::Record { entry, durable: true }, Effect::Run { ticket, level: 0, request: Box::new(request) }];
    world.event(Event::JournalFailed { text: "no space left".to_owned(), undone });
    assert_eq!(world.stage(), Some(Stage::Halt), "the hook that was not started does not bar the halt hook");
    assert_eq!(world.core.engine().epoch().unwrap().get(), 1);
    assert_eq!(world.published, "HALT JOURNAL_FAILED");
    world.rounds(&["x++", "x++"]);
    world.end_hook(Stage::Halt, HookResult::Ok);
    assert_eq!((world.stage(), world.core.engine().epoch().unwrap().get()), (None, 1));
    assert!(world.command(Command::Resume).is_err());
}

fn is_switched(entry: &Entry) -> bool {
    matches!(entry, Entry::Input { answer: Outcome::Decided("SWITCHED", _), .. })
}

#[test]
fn a_journal_that_fails_takes_back_nothing_that_is_on_disk() {
    let mut world = World::new(config(|_| {}));
    world.rounds(&["+++", "x++", "x++"]);
    for stage in [Stage::Fence, Stage::Switch, Stage::Reconcile] {
        world.end_hook(stage, HookResult::Ok);
    }
    world.rounds(&["x++", "x++"]);
    world.event(Event::JournalFailed { text: "no space left".to_owned(), undone: Vec::new() });
    assert_eq!(world.published, "HALT JOURNAL_FAILED");
    let (_, request) = world.running.clone().unwrap();
    assert_eq!((request.stage, &*request.endpoint, request.epoch), (Stage::Halt, "west", 2));
}

#[test]
fn a_journal_that_fails_while_a_hook_runs_lets_it_end_and_then_only_halts() {
    for (stages, running) in [(0, Stage::Fence), (1, Stage::Switch), (2, Stage::Reconcile)] {
        let mut world = World::new(config(|_| {}));
        world.rounds(&["+++", "x++", "x++"]);
        for stage in [Stage::Fence, Stage::Switch].into_iter().take(stages) {
            world.end_hook(stage, HookResult::Ok);
        }
        let epoch = world.core.engine().epoch();
        world.event(Event::JournalFailed { text: "no space left".to_owned(), undone: Vec::new() });
        world.end_hook(running, HookResult::Ok);
        world.end_hook(Stage::Halt, HookResult::Exit(1));
        world.wait(1);
        world.end_hook(Stage::Halt, HookResult::Ok);
        world.rounds(&["x++", "+++", "+++"]);
        assert_eq!((world.stage(), &*world.published), (None, "HALT JOURNAL_FAILED"));
        assert_eq!(world.core.engine().epoch(), epoch);
    }
}

#[test]
fn a_lost_state_folder_begins_held_on_the_stated_endpoint() {
    let config = config(|_| {});
    let engine = first_start(&config, "west", Timestamp::ZERO).unwrap();
    assert!(first_start(&config, "nowhere", Timestamp::ZERO).is_err());
    let mut world = World::of(config, engine, DriverState::new());
    assert_eq!(world.published, "HOLD RECONCILING");
    world.event(Event::Deadline);
    world.end_hook(Stage::Reconcile, HookResult::Ok);
    assert_eq!(world.core.engine().order_flow(), OrderFlow::Hold { reason: crate::engine::HoldReason::Starting });
    world.round("+++");
    assert_eq!(world.published, "OPEN west #1");
}

#[test]
fn folding_the_records_gives_the_state_that_was_lost() {
    let mut world = World::new(config(|_| {}));
    let stages = [Stage::Fence, Stage::Switch, Stage::Reconcile];
    world.rounds(&["+++", "x++", "x++"]);
    for (done, stage) in stages.into_iter().enumerate() {
        let mut folded = DriverState::new();
        world.records.iter().for_each(|entry| folded.fold(&entry.to_body()));
        assert_eq!(folded.running.map(|(stage, _)| stage), Some(stage), "after {done} stages");
        assert_eq!(folded.carried, world.core.state().carried);
        assert_eq!(folded.plan, world.core.state().plan);
        world.end_hook(stage, HookResult::Ok);
    }
    let mut folded = DriverState::new();
    world.records.iter().for_each(|entry| folded.fold(&entry.to_body()));
    assert_eq!((folded.running, folded.carried, folded.plan), (None, true, None));
}
