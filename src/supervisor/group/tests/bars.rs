//! Bars that follow from what probes measured, event by event.

use std::time::Duration;

use crate::engine::{BarCause, Bars};
use crate::supervisor::config::{Depth, GroupConfig, Identity, SessionKind, Terms, WatchConfig};
use crate::supervisor::group::{Command, DriverState, GroupStatus, SessionNews};
use crate::supervisor::hooks::{HookResult, Stage};
use crate::supervisor::journal::Follow;
use crate::supervisor::probes::{Evidence, Fault, NoEvidence, Verdict};

use super::*;

fn deep(config: &mut GroupConfig) {
    config.required_depth = Depth::Authenticated;
}

/// East and west share a quota; north does not.
fn quota(config: &mut GroupConfig) {
    for endpoint in &mut config.endpoints[..2] {
        endpoint.shared_fate = vec!["quota".to_owned()];
    }
}

fn logging_on(config: &mut GroupConfig) {
    for endpoint in &mut config.endpoints {
        let terms = Terms { identity: Identity::Own, credential: "probe-user".to_owned(), ..Terms::default() };
        endpoint.probes[0].terms = terms;
    }
}

fn proves(depth: Depth) -> Verdict {
    Verdict::Success(Evidence { depth, ..Evidence::default() })
}

fn ban(seconds: u64) -> Verdict {
    let retry_after = Some(Duration::from_secs(seconds));
    Verdict::NoEvidence { cause: NoEvidence::Banned, text: "status 418".to_owned(), retry_after }
}

impl World {
    fn bars(&self, name: &str) -> Vec<&'static str> {
        let bars: Bars = self.core.engine().bars(self.core.engine().id(name).unwrap());
        bars.iter().map(BarCause::code).collect()
    }

    fn status(&self) -> GroupStatus {
        GroupStatus::of(&self.core, Timestamp::from_nanos(self.now))
    }

    fn unusable(&self, name: &str) -> Option<&'static str> {
        self.status().endpoints.iter().find(|one| one.name == name).unwrap().unusable
    }
}

#[test]
fn a_green_path_below_the_required_depth_is_no_target_until_it_proves_it_and_no_longer_once_that_is_too_old() {
    let mut world = World::new(config(deep));
    world.rounds(&["+++"]);
    assert_eq!((world.bars("west"), world.status().eligible_targets.len()), (vec!["DEPTH"], 0));
    assert_eq!(world.unusable("west"), Some("the required depth is not proved (DEPTH)"));
    assert_eq!(world.published, "OPEN east #1", "a bar on the active path moves nothing");
    world.rounds(&["x++", "x++"]);
    assert_eq!((world.stage(), &*world.published), (Some(Stage::Halt), "HALT NO_TARGET_AVAILABLE"));
    world.end_hook(Stage::Halt, HookResult::Ok);

    world.verdict("west", proves(Depth::OrderPath));
    assert_eq!((world.bars("west"), world.stage()), (vec![], Some(Stage::Fence)), "deeper than needed is deep enough");
    let ages = world.status().endpoints[1].depth_ages;
    assert_eq!((ages.reachable, ages.authenticated, ages.order_path), (Some(0.0), Some(0.0), Some(0.0)));

    let mut world = World::new(config(deep));
    for name in ["east", "west", "north"] {
        world.verdict(name, proves(Depth::Authenticated));
    }
    assert_eq!(world.bars("west"), [""; 0]);
    // Shallow successes go on; the depth is too old one nanosecond after max_health_age.
    world.now = 30 * SECOND;
    world.slot("west", true);
    assert_eq!(world.bars("west"), [""; 0]);
    world.now += 1;
    world.slot("west", true);
    assert_eq!(world.bars("west"), ["DEPTH"]);
    let ages = world.status().endpoints[1].depth_ages;
    assert_eq!((ages.reachable, ages.order_path), (Some(0.0), None));
    assert!(ages.authenticated.is_some_and(|age| age > 30.0));
}

#[test]
fn where_reachable_is_enough_nothing_is_barred() {
    let mut world = World::new(config(|_| {}));
    world.rounds(&["+++"]);
    assert_eq!(world.status().eligible_targets, ["west", "north"]);
    assert!(!world.records.iter().any(|entry| format!("{entry:?}").contains("Bar {")), "no record of a bar");
}

#[test]
fn a_freeze_forgets_the_depths() {
    let mut world = World::new(config(deep));
    for name in ["east", "west", "north"] {
        world.verdict(name, proves(Depth::Authenticated));
    }
    world.event(Event::Stall { text: "frozen".to_owned() });
    assert_eq!(world.bars("west"), ["DEPTH"]);
}

#[test]
fn an_endpoint_that_fronts_another_account_is_barred_until_a_person_lifts_it_over_a_restart_too() {
    let wrong = || Verdict::fault(Fault::AccountMismatch, "it fronts account \"U2\", expected \"U1\"");
    let mut world = World::new(config(|_| {}));
    world.rounds(&["+++"]);
    world.verdict("west", wrong());
    assert_eq!((world.bars("west"), &*world.published), (vec!["ACCOUNT_MISMATCH"], "OPEN east #1"));
    assert!(world.noted("ACCOUNT_MISMATCH"));
    world.rounds(&["+++", "+++"]);
    assert_eq!(world.bars("west"), ["ACCOUNT_MISMATCH"], "green again is no proof that it was never so");
    assert_eq!(world.unusable("west"), Some("it fronts another account (ACCOUNT_MISMATCH)"));
    assert_eq!(world.status().waits_for.as_deref(), Some("unbar west"));
    world.rounds(&["x++", "x++"]);
    let request = world.running.as_ref().map(|(_, request)| request.target.clone());
    assert_eq!(request.flatten().as_deref(), Some("north"));

    let (engine, state) = (world.core.engine().clone(), world.core.state().clone());
    let snapshot = engine.snapshot(Timestamp::from_nanos(world.now));
    let restored =
        Engine::restore(engine.policy().clone(), snapshot, Timestamp::ZERO, crate::engine::RestartKind::Monitor);
    let mut world = World::of(config(|_| {}), restored.unwrap(), state);
    assert_eq!(world.bars("west"), ["ACCOUNT_MISMATCH"]);
    assert!(world.command(Command::Unbar { endpoint: "north".to_owned() }).unwrap_err().contains("not barred"));
    assert!(world.command(Command::Unbar { endpoint: "nowhere".to_owned() }).unwrap_err().contains("UNKNOWN_ENDPOINT"));
    assert!(world.command(Command::Unbar { endpoint: "west".to_owned() }).is_ok());
    assert_eq!(world.bars("west"), [""; 0]);
}

#[test]
fn the_active_path_that_fronts_another_account_halts_at_once() {
    let mut world = World::new(config(|_| {}));
    world.rounds(&["+++"]);
    world.verdict("east", Verdict::fault(Fault::AccountMismatch, "it fronts account \"U2\", expected \"U1\""));
    assert_eq!((world.stage(), &*world.published), (Some(Stage::Halt), "HALT ACCOUNT_MISMATCH"));
    assert_eq!(world.bars("east"), ["ACCOUNT_MISMATCH"]);
}

#[test]
fn b14_a_ban_of_the_whole_quota_halts_with_shared_ban_and_moves_nobody_inside_it() {
    let mut world = World::new(config(quota));
    world.rounds(&["++x"]);
    world.verdict("east", ban(600));
    assert_eq!((world.stage(), &*world.published), (Some(Stage::Halt), "HALT SHARED_BAN"));
    assert_eq!(
        (world.bars("east"), world.bars("west"), world.bars("north")),
        (vec!["SHARED_FATE"], vec!["SHARED_FATE"], vec![])
    );
    let expected = "it shares the fate of a path that is shut out (SHARED_FATE)";
    assert_eq!(world.unusable("west"), Some(expected));
    world.end_hook(Stage::Halt, HookResult::Ok);
    // What was asked before the ban lifts nothing, and what comes after it does.
    world.now += SECOND;
    world.slot("west", true);
    assert_eq!(world.bars("west"), ["SHARED_FATE"]);
    world.now += 600 * SECOND;
    world.slot("east", true);
    world.slot("west", true);
    assert_eq!((world.bars("east"), world.bars("west")), (vec![], vec![]));
    assert_eq!(world.stage(), None, "nobody was fenced");
    assert_eq!(world.published, "HALT SHARED_BAN", "a person resumes");
    assert!(world.command(Command::Resume).is_ok());
}

#[test]
fn b14_a_path_outside_the_quota_is_switched_to() {
    let mut world = World::new(config(quota));
    world.rounds(&["+++"]);
    world.verdict("east", ban(600));
    let request = world.running.as_ref().map(|(_, request)| (request.stage, request.target.clone()));
    assert_eq!(request, Some((Stage::Fence, Some("north".to_owned()))), "west comes first, and shares the quota");
    world.end_hook(Stage::Fence, HookResult::Ok);
    world.end_hook(Stage::Switch, HookResult::Ok);
    world.end_hook(Stage::Reconcile, HookResult::Ok);
    assert_eq!(world.published, "OPEN north #2");
}

#[test]
fn a_path_outside_the_quota_that_comes_back_later_is_switched_to_and_the_halt_stays() {
    let mut world = World::new(config(quota));
    world.rounds(&["++x"]);
    world.verdict("east", ban(600));
    world.end_hook(Stage::Halt, HookResult::Ok);
    world.slot("north", true);
    assert_eq!(world.stage(), Some(Stage::Fence));
    world.end_hook(Stage::Fence, HookResult::Ok);
    world.end_hook(Stage::Switch, HookResult::Ok);
    assert_eq!(world.published, "HALT SHARED_BAN");
}

#[test]
fn being_asked_for_patience_is_no_ban() {
    let mut world = World::new(config(quota));
    world.rounds(&["+++"]);
    let retry_after = Some(Duration::from_secs(30));
    world.verdict("east", Verdict::NoEvidence { cause: NoEvidence::Throttled, text: "429".to_owned(), retry_after });
    assert_eq!((world.stage(), &*world.published, world.bars("west")), (None, "OPEN east #1", vec![]));
}

#[test]
fn b14_two_refused_logons_stop_until_a_person_clears_them_over_a_restart_too() {
    let refused = || Verdict::fault(Fault::LogonRefused, "status 401");
    let mut world = World::new(config(logging_on));
    world.rounds(&["+++"]);
    world.verdict("west", refused());
    world.slot("north", true);
    assert_eq!(world.core.state().refused_logons.len(), 0, "the credential was accepted");
    world.verdict("west", refused());
    world.verdict("north", refused());
    assert_eq!(world.core.state().refused_logons["probe-user"], 2, "whichever path it was tried on");
    assert!(world.noted("LOGONS_STOPPED"));
    world.slot("east", true);
    assert_eq!(world.core.state().refused_logons["probe-user"], 2, "one that was under way clears nothing");
    assert_eq!(world.status().waits_for.as_deref(), Some("clear-logons"));

    let mut read = DriverState::new();
    for entry in &world.records {
        read.fold(&entry.to_body());
    }
    assert_eq!(read.refused_logons, world.core.state().refused_logons, "the journal says the same");

    assert!(world.command(Command::ClearLogons).unwrap().contains("probe-user"));
    assert_eq!((world.cleared, world.core.state().refused_logons.len()), (1, 0));
    assert!(world.command(Command::ClearLogons).is_err());
}

#[test]
fn b14_refused_logons_of_a_held_session_count_with_those_of_the_probes() {
    let held = |proves| {
        let terms = Terms { proves, identity: Identity::Own, credential: "probe-user".to_owned(), ..Terms::default() };
        let session = SessionKind::Tcp;
        WatchConfig { session, confirm_spacing: Duration::from_secs(1), ping_interval: Duration::from_secs(1), terms }
    };
    let refused = || SessionNews::Refused { text: "status 401".to_owned(), logon_refused: true };
    let count = |world: &World| world.core.state().refused_logons.get("probe-user").copied();
    for (proves, after_one_that_stands) in [(Depth::Authenticated, None), (Depth::Reachable, Some(1))] {
        let mut world = World::new(config(|config| {
            logging_on(config);
            config.endpoints[0].watch = Some(held(proves));
        }));
        let hear = |world: &mut World, news| world.event(Event::Session { endpoint: "east".to_owned(), news });
        world.rounds(&["+++"]);
        hear(&mut world, SessionNews::Refused { text: "status 503".to_owned(), logon_refused: false });
        assert_eq!(count(&world), None, "another refusal says nothing of the credential");
        hear(&mut world, refused());
        assert_eq!(count(&world), Some(1));
        hear(&mut world, SessionNews::Open);
        assert_eq!(count(&world), after_one_that_stands, "accepted, if its opening proves that");
        world.slot("north", true);
        assert_eq!(count(&world), None, "a probe that succeeded proves it");
        hear(&mut world, refused());
        world.verdict("west", Verdict::fault(Fault::LogonRefused, "status 401"));
        assert!(count(&world) == Some(2) && world.noted("LOGONS_STOPPED"), "wherever they were refused");
        hear(&mut world, SessionNews::Open);
        assert_eq!(count(&world), Some(2), "a person clears it");
    }
}

#[test]
fn b07_a_competing_session_halts_instead_of_stealing_the_login_back() {
    let competing = || Verdict::no_evidence(NoEvidence::CompetingSession, "status 409");
    let mut world = World::new(config(|_| {}));
    world.rounds(&["+++"]);
    world.verdict("east", competing());
    world.slot("east", true);
    world.verdict("east", competing());
    assert_eq!((world.stage(), &*world.published), (None, "OPEN east #1"), "not twice in a row");
    world.verdict("east", competing());
    assert_eq!((world.stage(), &*world.published), (Some(Stage::Halt), "HALT COMPETING_SESSION"));
    assert_eq!(world.core.engine().epoch().map(crate::engine::Epoch::get), Some(1), "nobody was switched to");

    // A probe's own session that is taken costs no order.
    let mut world = World::new(config(logging_on));
    world.rounds(&["+++"]);
    for _ in 0..5 {
        world.verdict("east", competing());
        world.verdict("west", competing());
    }
    assert_eq!((world.stage(), &*world.published), (None, "OPEN east #1"));
}
