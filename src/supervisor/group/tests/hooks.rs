//! What hooks are told, what they prove, and what their failures come to, event by event.

use super::*;

#[test]
fn b34_a_failed_fence_never_leads_to_a_switch_and_a_person_can_stand_in() {
    let mut world = World::new(config(|_| {}));
    world.rounds(&["+++", "x++", "x++"]);
    for result in [HookResult::Exit(1), HookResult::Timeout, HookResult::Unreachable("gone".to_owned())] {
        world.end_hook(Stage::Fence, result);
        assert_eq!((world.stage(), &*world.published), (None, "HOLD SWITCHING"));
        while world.stage().is_none() {
            world.round("x++");
        }
    }
    assert_eq!(world.core.engine().epoch().unwrap().get(), 1);
    world.end_hook(Stage::Fence, HookResult::Exit(1));
    assert!(world.command(Command::ConfirmFence { epoch: 7 }).is_err());
    assert!(world.command(Command::ConfirmFence { epoch: 1 }).is_ok());
    world.round("x++");
    assert_eq!((world.stage(), world.core.engine().epoch().unwrap().get()), (Some(Stage::Switch), 2));
}

#[test]
fn b34_a_failed_switch_tries_the_next_target_and_then_halts() {
    let mut world = World::new(config(|_| {}));
    world.rounds(&["+++", "x++", "x++"]);
    world.end_hook(Stage::Fence, HookResult::Ok);
    world.end_hook(Stage::Switch, HookResult::Exit(1));
    // West never carried flow, but its epoch was published: it is fenced like any other.
    assert_eq!((world.stage(), &*world.published), (Some(Stage::Fence), "HOLD SWITCHING"));
    world.end_hook(Stage::Fence, HookResult::Ok);
    assert_eq!(world.running.as_ref().unwrap().1.endpoint, "north");
    world.end_hook(Stage::Switch, HookResult::Exit(1));
    world.end_hook(Stage::Fence, HookResult::Ok);
    world.end_hook(Stage::Switch, HookResult::Exit(1));
    assert_eq!((world.stage(), &*world.published), (Some(Stage::Halt), "HALT SWITCH_FAILED"));
}

#[test]
fn b10_unknown_orders_and_failed_reconciliations_keep_the_hold() {
    let mut world = World::new(config(|_| {}));
    world.rounds(&["+++", "x++", "x++"]);
    world.end_hook(Stage::Fence, HookResult::Ok);
    world.end_hook(Stage::Switch, HookResult::Ok);
    world.end_hook(Stage::Reconcile, HookResult::Timeout);
    assert_eq!((world.stage(), &*world.published), (None, "HOLD RECONCILING"));
    world.wait(1);
    let (ticket, _) = world.running.take().unwrap();
    let counts = Some(ReconcileCounts { resting: 0, filled: 0, unknown: 1 });
    let report = HookReport { result: HookResult::Ok, millis: 1, output: String::new(), counts };
    world.event(Event::HookEnded { ticket, report });
    assert_eq!((world.stage(), &*world.published), (None, "HOLD RECONCILING"));
    assert!(world.noted("ORDERS_UNKNOWN"));
    assert!(world.command(Command::ConfirmReconciled { epoch: 1 }).unwrap_err().starts_with("STALE_RECONCILE"));
    world.round("x++");
    assert!(world.command(Command::ConfirmReconciled { epoch: 2 }).is_ok());
    assert_eq!(world.published, "OPEN west #2");
}

#[test]
fn b19_a_halt_is_retried_until_its_hook_confirms_it() {
    let mut world = World::new(config(|_| {}));
    world.rounds(&["+++", "xxx", "xxx"]);
    assert_eq!((world.stage(), &*world.published), (Some(Stage::Halt), "HALT NO_TARGET_AVAILABLE"));
    assert!(world.noted("SUSPECT_OBSERVER"));
    world.end_hook(Stage::Halt, HookResult::Exit(1));
    assert!(!world.core.state().halt_confirmed);
    world.wait(1);
    world.end_hook(Stage::Halt, HookResult::Ok);
    assert!(world.core.state().halt_confirmed);
    // A path that comes back is switched to, fenced as ever, and reconciled; nothing opens by itself.
    world.rounds(&["x+x"]);
    world.end_hook(Stage::Fence, HookResult::Ok);
    world.end_hook(Stage::Switch, HookResult::Ok);
    assert_eq!((world.stage(), &*world.published), (Some(Stage::Reconcile), "HOLD RECONCILING"));
}

#[test]
fn the_waits_between_attempts_at_a_halt_grow_and_are_bounded() {
    let mut world = World::new(config(|_| {}));
    world.rounds(&["+++", "xxx", "xxx"]);
    assert_eq!(world.stage(), Some(Stage::Halt));
    for seconds in [1, 2, 4, 8, 16, 30, 30, 30] {
        world.end_hook(Stage::Halt, HookResult::Exit(1));
        let due = world.now + seconds * SECOND;
        world.now = due - 1;
        world.event(Event::Deadline);
        assert_eq!(world.stage(), None, "a nanosecond before {seconds} s");
        assert_eq!(world.core.next_deadline().map(Timestamp::as_nanos), Some(due));
        world.now = due;
        world.event(Event::Deadline);
        assert_eq!(world.stage(), Some(Stage::Halt), "after {seconds} s");
    }
    // Another halt is told at once, and its waits begin anew.
    world.end_hook(Stage::Halt, HookResult::Exit(1));
    assert!(world.command(Command::Halt { text: "by hand".to_owned() }).is_ok());
    world.end_hook(Stage::Halt, HookResult::Exit(1));
    assert_eq!(world.stage(), None);
    world.wait(1);
    assert_eq!(world.stage(), Some(Stage::Halt));
}

#[test]
fn a_failover_during_reconciliation_abandons_the_hook_and_does_not_wait_for_it() {
    let mut world = World::new(config(|_| {}));
    world.rounds(&["+++", "x++", "x++"]);
    world.end_hook(Stage::Fence, HookResult::Ok);
    world.end_hook(Stage::Switch, HookResult::Ok);
    let (ticket, _) = world.running.clone().unwrap();
    world.rounds(&["xx+", "xx+"]);
    assert_eq!((world.abandoned.clone(), &*world.published), (vec![ticket], "HOLD SWITCHING"));
    world.end_hook(Stage::Reconcile, HookResult::Abandoned);
    let (_, request) = world.running.clone().unwrap();
    assert_eq!((request.stage, &*request.endpoint, request.epoch), (Stage::Fence, "west", 2));
}

#[test]
fn a_freeze_is_told_before_the_fence() {
    let mut world = World::new(config(|config| config.hooks.flow = hook(true)));
    world.rounds(&["+++"]);
    world.end_hook(Stage::Flow, HookResult::Ok);
    world.rounds(&["x++", "x++"]);
    let (_, request) = world.running.clone().unwrap();
    assert_eq!((request.stage, request.detail.as_deref()), (Stage::Flow, Some("HOLD SWITCHING")));
    world.end_hook(Stage::Flow, HookResult::Timeout);
    assert_eq!(world.stage(), Some(Stage::Fence));
}

#[test]
fn a_proof_that_no_longer_holds_is_made_anew() {
    let mut world = World::new(config(|config| config.hooks.fence[0].holds = Some(Duration::from_secs(10))));
    world.rounds(&["+++", "x++", "x++", "xxx", "xxx", "xxx"]);
    world.end_hook(Stage::Fence, HookResult::Ok);
    assert_eq!(world.published, "HALT NO_TARGET_AVAILABLE");
    world.end_hook(Stage::Halt, HookResult::Ok);
    for _ in 0..12 {
        world.round("xxx");
    }
    if world.stage() == Some(Stage::Fence) {
        world.end_hook(Stage::Fence, HookResult::Ok);
    }
    world.wait(60);
    world.rounds(&["x+x"]);
    world.end_hook(Stage::Fence, HookResult::Ok);
    assert_eq!(world.stage(), Some(Stage::Switch));
}

#[test]
fn what_a_fence_proves_and_for_how_long_is_recorded_with_the_switch_and_shown() {
    let mut world = World::new(config(|config| {
        config.hooks.fence = [hook(false), hook(false)].concat();
        config.hooks.fence[1].proves = Some("credential revoked".to_owned());
        config.hooks.fence[1].holds = Some(Duration::from_secs(10));
    }));
    world.rounds(&["+++", "x++", "x++"]);
    world.end_hook(Stage::Fence, HookResult::Exit(1));
    world.now += SECOND;
    world.end_hook(Stage::Fence, HookResult::Ok);
    let proof = GroupStatus::of(&world.core, Timestamp::from_nanos(world.now)).proof.unwrap();
    assert_eq!((proof.level, proof.until), (Some(1), Some(world.now + 10 * SECOND)), "from the hook's end on");
    for stage in [Stage::Switch, Stage::Reconcile] {
        world.end_hook(stage, HookResult::Ok);
    }
    // A hook that says nothing of it, and a person, prove until somebody undoes it.
    world.rounds(&["xx+", "xx+"]);
    world.end_hook(Stage::Fence, HookResult::Ok);
    for stage in [Stage::Switch, Stage::Reconcile] {
        world.end_hook(stage, HookResult::Ok);
    }
    world.rounds(&["+xx", "+xx"]);
    assert!(world.command(Command::ConfirmFence { epoch: 3 }).is_ok());
    let proof = GroupStatus::of(&world.core, Timestamp::from_nanos(world.now)).proof.unwrap();
    assert_eq!((proof.epoch, proof.level, proof.until), (3, None, None));
    let of = |entry: &Entry| match entry {
        Entry::Stage(record) => record.fence.clone(),
        _ => None,
    };
    let proofs: Vec<_> = world.records.iter().filter_map(of).collect();
    let told: Vec<_> = proofs.iter().map(|proof| (&*proof.endpoint, proof.epoch, &*proof.by)).collect();
    assert_eq!(told, [("east", 1, "fence hook 1"), ("west", 2, "fence hook 0"), ("north", 3, "a person")]);
    let proved: Vec<_> =
        proofs.iter().map(|proof| (proof.proves.as_deref(), proof.holds.map(|holds| holds.0 / SECOND))).collect();
    assert_eq!(proved, [(Some("credential revoked"), Some(10)), (Some("session closed"), None), (None, None)]);
}

#[test]
fn a_hook_is_told_the_reason_of_the_decision_that_it_carries_out_whatever_is_answered_meanwhile() {
    let mut world = World::new(config(|_| {}));
    let reason = |world: &World| world.running.as_ref().map(|(_, request)| (request.stage, request.reason.clone()));
    let told = |stage, reason: &str| Some((stage, reason.to_owned()));
    world.rounds(&["+++", "x++", "x++", "x++"]);
    assert_eq!(reason(&world), told(Stage::Fence, "FENCE_NOT_CONFIRMED"));
    world.end_hook(Stage::Fence, HookResult::Ok);
    assert_eq!(reason(&world), told(Stage::Switch, "ACTIVE_DOWN"));
    // West is well meanwhile, and the cooldown bars the way back.
    world.rounds(&["+++", "+++"]);
    world.end_hook(Stage::Switch, HookResult::Ok);
    assert_eq!(reason(&world), told(Stage::Reconcile, "ACTIVE_DOWN"));
    world.end_hook(Stage::Reconcile, HookResult::Exit(1));
    world.rounds(&["+++"]);
    assert_eq!(reason(&world), told(Stage::Reconcile, "ACTIVE_DOWN"), "when it is tried again, too");
    world.end_hook(Stage::Reconcile, HookResult::Ok);
    world.rounds(&["+++"]);
    // A person halts: that is no decision of ours.
    assert!(world.command(Command::Halt { text: "look first".to_owned() }).is_ok());
    let code = world.core.engine().halt_order().unwrap().code().to_owned();
    assert_eq!(reason(&world), told(Stage::Halt, &code));
    world.end_hook(Stage::Halt, HookResult::Ok);
    assert!(world.command(Command::Resume).is_ok());
    world.end_hook(Stage::Reconcile, HookResult::Ok);
    world.rounds(&["xxx", "xxx"]);
    assert_eq!(reason(&world), told(Stage::Halt, "NO_ELIGIBLE_TARGET"));
}

#[test]
fn b34_switches_that_fail_in_a_row_end_in_a_halt_that_a_person_lifts() {
    let mut world = World::new(config(|config| config.hooks.halt = Vec::new()));
    world.rounds(&["+++", "x++", "x++"]);
    for _ in 0..3 {
        world.end_hook(Stage::Fence, HookResult::Ok);
        world.end_hook(Stage::Switch, HookResult::Exit(1));
    }
    assert_eq!(world.published, "HALT SWITCH_FAILED");
    // The path that was not reached is fenced; then nothing is hammered.
    world.end_hook(Stage::Fence, HookResult::Ok);
    world.rounds(&["x++"; 20]);
    assert_eq!((world.stage(), world.core.engine().epoch().unwrap().get()), (None, 4));
    assert!(world.command(Command::Resume).is_ok());
    assert_eq!(world.stage(), Some(Stage::Switch));
}

#[test]
fn a_hook_that_keeps_failing_is_told_with_its_reason_and_what_a_person_can_do() {
    let mut world = World::new(config(|_| {}));
    let trouble = |world: &World| world.core.hook_trouble(Timestamp::from_nanos(world.now));
    world.rounds(&["+++", "x++", "x++"]);
    assert_eq!(trouble(&world), None);
    for failures in 1..=2 {
        let (ticket, _) = world.running.take().unwrap();
        let output = "trying\ncannot reach the gateway\n".to_owned();
        let report = HookReport { result: HookResult::Exit(3), millis: 1, output, counts: None };
        world.event(Event::HookEnded { ticket, report });
        let times = if failures == 1 { "once, with" } else { "2 times, the last time with" };
        let expected = format!(
            "the fence hook failed {times} exit status 3: cannot reach the gateway; again in {failures} s; or \
             confirm-fence --epoch 1"
        );
        assert_eq!(trouble(&world), Some(expected));
        while world.stage().is_none() {
            world.round("x++");
        }
    }
    world.end_hook(Stage::Fence, HookResult::Ok);
    assert_eq!(trouble(&world), None, "what succeeded at last is no trouble");
    world.end_hook(Stage::Switch, HookResult::Ok);
    let (ticket, _) = world.running.take().unwrap();
    let counts = Some(ReconcileCounts { resting: 0, filled: 0, unknown: 2 });
    let report = HookReport { result: HookResult::Ok, millis: 1, output: String::new(), counts };
    world.event(Event::HookEnded { ticket, report });
    let text = trouble(&world).unwrap();
    assert!(text.contains("2 orders of unknown fate") && text.ends_with("or confirm-reconciled --epoch 2"), "{text}");
    assert!(world.command(Command::ConfirmReconciled { epoch: 2 }).is_ok());
    assert_eq!(trouble(&world), None);
}

#[test]
fn a_paused_group_says_what_it_would_do_and_that_a_halt_hook_waits() {
    let mut world = World::new(config(|_| {}));
    world.rounds(&["+++"]);
    let would = |world: &World| world.core.would_answer(Timestamp::from_nanos(world.now));
    assert!(world.command(Command::Pause).is_ok());
    assert_eq!(would(&world), None, "nothing to do");
    world.rounds(&["x++", "x++"]);
    assert!(would(&world).unwrap().starts_with("FENCE_REQUIRED: "), "{:?}", would(&world));
    let said = world.command(Command::Halt { text: "desk".to_owned() }).unwrap();
    assert_eq!(said, "HALT OPERATOR; paused: the halt hook runs only after unpause");
    assert_eq!(world.stage(), None);
    assert!(world.command(Command::Unpause).is_ok());
    assert_eq!((world.stage(), would(&world)), (Some(Stage::Halt), None));
}
