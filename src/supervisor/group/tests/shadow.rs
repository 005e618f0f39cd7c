//! A policy that is only tried out, event by event.

use crate::supervisor::group::ShadowCounts;
use crate::supervisor::journal::{Body, ShadowEnd, ShadowRecord};

use super::*;

fn policy(change: impl FnOnce(&mut PolicySettings)) -> Policy {
    let mut settings = config(|_| {}).policy.settings().clone();
    change(&mut settings);
    Policy::new(settings).unwrap()
}

/// Failures in a row: of the group, and of its shadow.
fn patience(group: u32, shadow: u32) -> World {
    World::new(config(|config| {
        config.policy = policy(|settings| settings.failure_threshold = group);
        config.shadow = Some(policy(|settings| settings.failure_threshold = shadow));
    }))
}

impl World {
    /// What was said of the shadow since the last call.
    fn differences(&mut self) -> Vec<ShadowRecord> {
        let said = self.records.iter().filter_map(|entry| match entry {
            Entry::Shadow(record) => Some((**record).clone()),
            _ => None,
        });
        let said = said.collect();
        self.records.clear();
        said
    }

    fn counts(&self) -> (u64, u64, u64) {
        let status = self.core.shadow_status(Timestamp::from_nanos(self.now)).unwrap();
        let ShadowCounts { shadow_first, group_first, otherwise } = status.counts;
        (shadow_first, group_first, otherwise)
    }

    fn failed_over(&mut self) {
        self.end_hook(Stage::Fence, HookResult::Ok);
        self.end_hook(Stage::Switch, HookResult::Ok);
        self.end_hook(Stage::Reconcile, HookResult::Ok);
        assert_eq!(self.published, "OPEN west #2");
    }
}

/// How it ended, and after how many seconds.
fn end(record: &ShadowRecord) -> (Option<ShadowEnd>, Option<u64>) {
    (record.ended, record.lasted.map(|lasted| lasted.0 / SECOND))
}

#[test]
fn a_shadow_that_would_leave_the_path_sooner_is_said_once_and_once_more_when_the_group_agrees() {
    let mut world = patience(3, 1);
    world.rounds(&["+++"]);
    assert_eq!(world.differences(), []);
    world.rounds(&["x++"]);
    let said = world.differences();
    let [begins] = &said[..] else { panic!("{said:?}") };
    assert_eq!(
        begins.to_string(),
        "east #1: group NO_ACTION (ACTIVE_DEGRADED, path DEGRADED, then OPEN east #1), shadow FENCE_REQUIRED to west \
         (FENCE_NOT_CONFIRMED, path DOWN, then HOLD SWITCHING)"
    );
    assert_eq!((begins.code(), end(begins)), ("SHADOW_DIFFERS", (None, None)));
    assert_eq!((world.stage(), &*world.published), (None, "OPEN east #1"), "nothing follows from it");
    let status = world.core.shadow_status(Timestamp::from_nanos(world.now + SECOND / 2)).unwrap();
    assert_eq!((status.differs_for, status.differs), (Some(0.5), Some(begins.to_string())));
    world.rounds(&["x++"]);
    assert_eq!(world.differences(), [], "it is said once");
    world.rounds(&["x++"]);
    let said = world.differences();
    let [ended] = &said[..] else { panic!("{said:?}") };
    assert_eq!((ended.code(), end(ended)), ("SHADOW_ENDED", (Some(ShadowEnd::Agreed), Some(2))));
    assert!(ended.to_string().ends_with("; for 2s, then they agreed"), "{ended}");
    assert_eq!(world.stage(), Some(Stage::Fence));
    world.failed_over();
    assert_eq!((world.differences(), world.counts()), (vec![], (1, 0, 0)));
    assert_eq!(world.core.shadow_status(Timestamp::ZERO).unwrap().differs_for, None);
}

#[test]
fn a_blip_that_only_the_shadow_would_have_left_the_path_for_passes() {
    let mut world = patience(3, 1);
    world.rounds(&["+++", "x++", "+++", "+++", "x++"]);
    let said = world.differences();
    let ends: Vec<_> = said.iter().map(end).collect();
    assert_eq!(ends, [(None, None), (Some(ShadowEnd::Passed), Some(1)), (None, None)]);
    assert_eq!((world.counts(), &*world.published), ((2, 0, 0), "OPEN east #1"));
}

#[test]
fn a_shadow_that_would_have_kept_the_path_goes_on_looking_at_it_after_it_was_left() {
    for (results, how, seconds) in [("x", ShadowEnd::Agreed, 2), ("+", ShadowEnd::Passed, 1)] {
        let mut world = patience(2, 4);
        world.rounds(&["+++", "x++", "x++"]);
        let said = world.differences();
        let [begins] = &said[..] else { panic!("{said:?}") };
        assert_eq!((&*begins.group.outcome, &*begins.shadow.reason), ("FENCE_REQUIRED", "ACTIVE_DEGRADED"));
        // Flow leaves it meanwhile, and the shadow with it.
        world.failed_over();
        assert_eq!(world.differences(), []);
        let round = format!("{results}++");
        world.rounds(&[&round, &round, &round]);
        let said = world.differences();
        let [ended] = &said[..] else { panic!("{said:?}") };
        assert_eq!((end(ended), &*ended.endpoint), ((Some(how), Some(seconds)), "east"), "{results}");
        assert_eq!(world.counts(), (0, 1, 0));
        // It is on west as the group is, and loses that path later than the group does.
        world.rounds(&["+x+", "+x+"]);
        let said = world.differences();
        assert_eq!((said.len(), &*said[0].endpoint, said[0].epoch), (1, "west", 2));
    }
}

#[test]
fn a_shadow_fails_back_by_its_own_cooldown_and_says_when_the_groups_is_over() {
    let mut world = World::new(config(|config| config.shadow = Some(policy(|own| own.cooldown = Duration::ZERO))));
    world.rounds(&["+++", "x++", "x++"]);
    world.failed_over();
    assert_eq!(world.differences(), []);
    world.rounds(&["+++", "+++"]);
    let said = world.differences();
    let [begins] = &said[..] else { panic!("{said:?}") };
    assert_eq!((&*begins.shadow.outcome, begins.shadow.target.as_deref()), ("FENCE_REQUIRED", Some("east")));
    let cools = (&*begins.group.outcome, begins.group.opens_in.map(|left| left.0 / SECOND));
    assert_eq!(cools, ("COOLDOWN_ACTIVE", Some(58)), "the switch was two seconds ago");
    for _ in 0..58 {
        assert_eq!(world.differences(), []);
        world.round("+++");
    }
    assert_eq!(end(&world.differences()[0]), (Some(ShadowEnd::Agreed), Some(58)));
    assert_eq!(world.stage(), Some(Stage::Fence), "the group fails back");
}

#[test]
fn a_failback_that_only_the_group_makes_ends_as_a_move() {
    let mut world = World::new(config(|config| {
        config.policy = policy(|own| own.cooldown = Duration::ZERO);
        config.shadow = Some(policy(|own| own.cooldown = Duration::from_secs(100)));
    }));
    world.rounds(&["+++", "x++", "x++"]);
    world.failed_over();
    world.rounds(&["+++", "+++"]);
    assert_eq!(world.stage(), Some(Stage::Fence));
    world.end_hook(Stage::Fence, HookResult::Ok);
    world.end_hook(Stage::Switch, HookResult::Ok);
    let said = world.differences();
    let ends: Vec<_> = said.iter().map(end).collect();
    assert_eq!(ends, [(None, None), (Some(ShadowEnd::Moved), Some(0))]);
    assert_eq!(said[0].shadow.opens_in.map(|left| left.0 / SECOND), Some(98));
    assert_eq!(world.counts(), (0, 1, 0));
}

#[test]
fn a_person_who_moves_flow_ends_a_difference_and_makes_none() {
    let mut world = patience(3, 1);
    world.rounds(&["+++", "x++"]);
    assert!(world.command(Command::Switchover { target: "north".to_owned() }).is_ok());
    world.end_hook(Stage::Fence, HookResult::Ok);
    world.end_hook(Stage::Switch, HookResult::Ok);
    let ends: Vec<_> = world.differences().iter().map(end).collect();
    assert_eq!(ends, [(None, None), (Some(ShadowEnd::Moved), Some(0))]);
    world.end_hook(Stage::Reconcile, HookResult::Ok);
    world.rounds(&["+++", "+++"]);
    assert_eq!((world.differences(), &*world.published), (vec![], "OPEN north #2"), "an operator placed it there");
}

#[test]
fn a_shadow_that_needs_no_fence_or_no_reconciliation_differs_for_as_long_as_these_take() {
    let mut world = World::new(config(|config| {
        config.shadow = Some(policy(|own| (own.require_fence, own.require_reconciliation) = (false, false)));
    }));
    world.rounds(&["+++", "x++", "x++", "x++"]);
    let said = world.differences();
    assert_eq!((said.len(), &*said[0].shadow.outcome, &*said[0].shadow.flow), (1, "SWITCHED", "OPEN west #2"));
    world.failed_over();
    let ends: Vec<_> = world.differences().iter().map(end).collect();
    assert_eq!(ends, [(Some(ShadowEnd::Moved), Some(1))]);
    assert_eq!(world.counts(), (0, 0, 1));
}

#[test]
fn a_halt_for_want_of_a_target_is_a_difference_too() {
    let mut world = patience(2, 3);
    world.rounds(&["+++", "xxx", "xxx"]);
    assert_eq!(world.published, "HALT NO_TARGET_AVAILABLE");
    let said = world.differences();
    assert_eq!((said.len(), &*said[0].group.flow, &*said[0].shadow.flow), (1, "HALT", "OPEN east #1"));
    world.round("xxx");
    assert_eq!(end(&world.differences()[0]), (Some(ShadowEnd::Agreed), Some(1)));
}

#[test]
fn a_stall_forgets_what_the_shadow_saw_and_nothing_is_asked_before_everybody_was_heard_of() {
    let mut world = patience(3, 1);
    world.rounds(&["+++", "x++"]);
    world.event(Event::Stall { text: "frozen".to_owned() });
    let ends: Vec<_> = world.differences().iter().map(end).collect();
    assert_eq!(ends, [(None, None), (Some(ShadowEnd::Forgotten), Some(0))]);
    world.now += SECOND;
    world.slot("east", false);
    assert_eq!(world.differences(), [], "west and north are awaited");
    world.slot("west", true);
    world.slot("north", true);
    assert_eq!(world.differences().iter().map(end).collect::<Vec<_>>(), [(None, None)]);
    assert_eq!(world.counts(), (2, 0, 0), "what was counted stays");
}

#[test]
fn a_reload_may_bring_change_or_end_a_shadow_and_no_other_one_drops_what_it_saw() {
    let mut world = patience(3, 1);
    world.rounds(&["+++", "x++"]);
    let east = |world: &World| world.state("east");
    world.reload(|config| config.max_hold = Duration::from_secs(60)).unwrap();
    assert_eq!(world.differences().len(), 1, "that changes no policy");
    // Two in a row are two in a row, for the new one, too.
    let (_, records) = world.reload(|config| config.shadow = Some(policy(|own| own.failure_threshold = 2))).unwrap();
    assert_eq!((records, east(&world)), (vec!["config"], crate::engine::EndpointState::Degraded));
    assert_eq!(world.differences().iter().map(end).collect::<Vec<_>>(), [(Some(ShadowEnd::Forgotten), Some(0))]);
    world.round("x++");
    assert_eq!(world.differences().iter().map(end).collect::<Vec<_>>(), [(None, None)]);
    world.reload(|config| config.shadow = None).unwrap();
    world.round("+++");
    assert_eq!((world.differences(), world.core.shadow_status(Timestamp::ZERO)), (vec![], None));
    world.reload(|config| config.shadow = Some(policy(|own| own.failure_threshold = 1))).unwrap();
    world.round("x++");
    assert_eq!(world.differences().len(), 1);
    assert_eq!((world.published.as_str(), world.stage()), ("OPEN east #1", None));
}

#[test]
fn a_paused_group_and_a_dry_run_are_compared_as_well() {
    let mut world = patience(3, 1);
    world.rounds(&["+++"]);
    world.command(Command::Pause).unwrap();
    world.rounds(&["x++"]);
    assert_eq!(world.differences().len(), 1);
    let mut dry = patience(3, 1);
    dry.core = dry.core.dry();
    dry.rounds(&["+++", "x++", "x++", "x++"]);
    assert_eq!(dry.differences().iter().map(end).collect::<Vec<_>>()[1], (Some(ShadowEnd::Agreed), Some(2)));
}

#[test]
fn what_is_said_is_a_note_in_words_and_for_programs() {
    let mut world = patience(3, 1);
    world.rounds(&["+++", "x++"]);
    let entry = world.records.iter().find(|entry| matches!(entry, Entry::Shadow(_))).unwrap();
    let Body::Note(note) = entry.to_body() else { panic!("{entry:?}") };
    let written = serde_json::to_value(&note).unwrap();
    assert_eq!(written["code"], "SHADOW_DIFFERS");
    assert!(written["text"].as_str().unwrap().starts_with("east #1: group NO_ACTION"), "{written}");
    assert_eq!(written["shadow"]["shadow"]["target"], "west");
    let text = serde_json::to_string(&note).unwrap();
    assert_eq!(serde_json::from_str::<crate::supervisor::journal::NoteRecord>(&text).unwrap(), note);
    let entry = world.differences().remove(0);
    let ended = ShadowRecord { ended: Some(ShadowEnd::Passed), lasted: entry.shadow.opens_in, ..entry };
    assert_eq!(serde_json::to_value(&ended).unwrap()["ended"], "PASSED");
}
