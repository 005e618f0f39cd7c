//! A reload in each stage of a switch.

use crate::engine::{EndpointState, RestartKind};
use crate::supervisor::journal::Body;
use crate::supervisor::reload::of_group;

use super::super::Reloaded;
use super::*;

impl World {
    /// Reads a file again that differs by `edit`; what becomes of what was under way, and the kinds of the records.
    pub(super) fn reload(
        &mut self,
        edit: impl FnOnce(&mut GroupConfig),
    ) -> Result<(Vec<String>, Vec<&'static str>), String> {
        let mut new = self.core.config().clone();
        edit(&mut new);
        let change = of_group(self.core.config(), &new).unwrap();
        let Reloaded { core, records, words } = self.core.reloaded(Timestamp::from_nanos(self.now), &change, "hash")?;
        self.event(Event::Reloaded(core));
        Ok((words, records.iter().map(Body::kind).collect()))
    }

    pub(super) fn state(&self, name: &str) -> EndpointState {
        let engine = self.core.engine();
        engine.health(engine.id(name).unwrap()).unwrap().state()
    }
}

fn probed_otherwise(config: &mut GroupConfig, name: &str) {
    let one = config.endpoints.iter_mut().find(|one| one.endpoint.name == name).unwrap();
    one.probes[0].slow_after = Some(Duration::from_millis(100));
}

fn without(config: &mut GroupConfig, name: &str) {
    config.endpoints.retain(|one| one.endpoint.name != name);
}

#[test]
fn an_endpoint_that_is_asked_otherwise_is_unknown_and_no_other_is() {
    let mut world = World::new(config(|_| {}));
    world.rounds(&["+++", "x++", "+++"]);
    let (words, records) = world.reload(|config| probed_otherwise(config, "west")).unwrap();
    assert_eq!((words.len(), records), (0, vec!["config", "snapshot"]));
    assert_eq!(world.state("west"), EndpointState::Unknown);
    assert_eq!((world.state("east"), world.state("north")), (EndpointState::Healthy, EndpointState::Healthy));
    let north = world.core.engine().health(world.core.engine().id("north").unwrap()).unwrap();
    assert_eq!(north.consecutive_successes(), 3, "counters too");
    assert_eq!(world.published, "OPEN east #1");
}

#[test]
fn priority_shared_fate_hooks_and_alarms_leave_every_health_as_it_was() {
    let mut world = World::new(config(|_| {}));
    world.rounds(&["+++"]);
    let (_, records) = world.reload(|config| config.endpoints[1].endpoint.priority = 99).unwrap();
    assert_eq!(records, ["config", "snapshot"]);
    let (_, records) = world
        .reload(|config| {
            config.endpoints[1].shared_fate = vec!["isp".to_owned()];
            config.hooks.fence[0].timeout = Duration::from_secs(9);
            config.max_hold = Duration::from_secs(60);
            config.failback = FailbackMode::Manual;
        })
        .unwrap();
    assert_eq!(records, ["config"], "the engine's configuration is the same");
    for name in ["east", "west", "north"] {
        assert_eq!(world.state(name), EndpointState::Healthy, "{name}");
    }
    // The new priority decides.
    world.rounds(&["x++", "x++"]);
    world.end_hook(Stage::Fence, HookResult::Ok);
    assert_eq!(world.running.as_ref().unwrap().1.endpoint, "north");
}

#[test]
fn a_failover_to_another_target_does_not_wait_for_a_changed_one() {
    let mut world = World::new(config(|_| {}));
    world.rounds(&["+++", "x++"]);
    world.reload(|config| probed_otherwise(config, "west")).unwrap();
    world.slot("east", false);
    assert_eq!((world.stage(), &*world.published), (Some(Stage::Fence), "HOLD SWITCHING"));
    world.end_hook(Stage::Fence, HookResult::Ok);
    assert_eq!(world.running.as_ref().unwrap().1.endpoint, "north");
}

#[test]
fn nobody_halts_for_want_of_a_target_before_a_changed_one_was_heard_of() {
    let mut world = World::new(config(|config| without(config, "north")));
    world.now += SECOND;
    world.slot("east", true);
    world.slot("west", true);
    world.slot("east", false);
    world.reload(|config| probed_otherwise(config, "west")).unwrap();
    world.slot("east", false);
    assert_eq!((world.stage(), &*world.published), (None, "OPEN east #1"));
    // Its first result decides, whichever it is.
    let mut other = World { core: world.core.clone(), records: Vec::new(), ..World::new(config(|_| {})) };
    (other.now, other.published) = (world.now, world.published.clone());
    world.slot("west", true);
    assert_eq!((world.stage(), &*world.published), (Some(Stage::Fence), "HOLD SWITCHING"));
    other.slot("west", false);
    assert_eq!(other.published, "HALT NO_TARGET_AVAILABLE");
}

#[test]
fn another_policy_is_a_restart_of_the_monitor() {
    let mut world = World::new(config(|_| {}));
    world.rounds(&["+++", "x++"]);
    world
        .reload(|config| {
            let settings = PolicySettings { failure_threshold: 1, ..config.policy.settings().clone() };
            config.policy = Policy::new(settings).unwrap();
        })
        .unwrap();
    assert_eq!(world.published, "OPEN east #1");
    // One failure is enough now, but nothing is evaluated before every endpoint was heard of.
    world.slot("east", false);
    world.slot("west", true);
    assert_eq!(world.stage(), None);
    world.slot("north", true);
    assert_eq!(world.stage(), Some(Stage::Fence));
}

#[test]
fn the_active_path_keeps_its_address_and_its_place_in_the_file() {
    let mut world = World::new(config(|_| {}));
    world.rounds(&["+++"]);
    let why = world.reload(|config| config.endpoints[0].endpoint.url = "tcp://u:secret@127.0.0.1:9".to_owned());
    let why = why.unwrap_err();
    assert!(why.contains("the active endpoint \"east\" has url tcp://...@127.0.0.1:9"), "{why}");
    assert!(why.contains("expected url tcp://127.0.0.1:1, region r"), "{why}");
    let why = world.reload(|config| without(config, "east")).unwrap_err();
    assert!(why.contains("\"east\" is not in the file any more"), "{why}");
    // Asked otherwise, it is the same path, of which nothing is known.
    world.reload(|config| probed_otherwise(config, "east")).unwrap();
    assert_eq!((world.state("east"), &*world.published), (EndpointState::Unknown, "OPEN east #1"));
    // Once flow has left it, it may change.
    world.rounds(&["x++", "x++"]);
    for stage in [Stage::Fence, Stage::Switch, Stage::Reconcile] {
        world.end_hook(stage, HookResult::Ok);
    }
    world.reload(|config| config.endpoints[0].endpoint.url = "tcp://127.0.0.1:9".to_owned()).unwrap();
    assert!(world.reload(|config| config.endpoints[1].endpoint.region = "other".to_owned()).is_err());
}

#[test]
fn endpoints_in_another_order_are_the_same_endpoints() {
    let mut world = World::new(config(|_| {}));
    world.rounds(&["+++", "x++", "x++"]);
    world.end_hook(Stage::Fence, HookResult::Ok);
    assert_eq!(world.stage(), Some(Stage::Switch));
    world.reload(|config| config.endpoints.reverse()).unwrap();
    world.end_hook(Stage::Switch, HookResult::Ok);
    let (_, request) = world.running.clone().unwrap();
    assert_eq!(
        (request.stage, &*request.endpoint, request.target.as_deref()),
        (Stage::Reconcile, "west", Some("east"))
    );
    world.end_hook(Stage::Reconcile, HookResult::Ok);
    assert_eq!(world.published, "OPEN west #2");
    // The path that was left may go while flow is reconciled, too.
    world.rounds(&["+x+", "+x+"]);
    world.end_hook(Stage::Fence, HookResult::Ok);
    world.end_hook(Stage::Switch, HookResult::Ok);
    let lost = world.running.take().unwrap();
    assert_eq!(lost.1.target.as_deref(), Some("west"));
    world.reload(|config| without(config, "west")).unwrap();
    world.running = Some(lost);
    world.end_hook(Stage::Reconcile, HookResult::Exit(1));
    world.wait(1);
    assert_eq!(world.running.as_ref().unwrap().1.target, None);
}

#[test]
fn a_switch_that_is_not_carried_out_is_not_taken_for_carried_out() {
    let mut world = World::new(config(|_| {}));
    world.rounds(&["+++", "x++", "x++"]);
    world.end_hook(Stage::Fence, HookResult::Ok);
    let why = world.reload(|config| config.hooks.switch.clear()).unwrap_err();
    assert!(why.contains("the switch of epoch 2 is not carried out"), "{why}");
    world.end_hook(Stage::Switch, HookResult::Ok);
    world.reload(|config| config.hooks.switch.clear()).unwrap();
    world.end_hook(Stage::Reconcile, HookResult::Ok);
    assert_eq!(world.published, "OPEN west #2");
    // From here on nobody is asked to move the transport; a hook that comes later is for the next switch.
    world.rounds(&["+x+", "+x+"]);
    world.end_hook(Stage::Fence, HookResult::Ok);
    world.end_hook(Stage::Reconcile, HookResult::Ok);
    assert_eq!(world.published, "OPEN east #3");
    world.reload(|config| config.hooks.switch = hook(false)).unwrap();
    assert_eq!((world.stage(), world.core.state().carried), (None, true));
}

#[test]
fn a_fence_is_wanted_until_it_is_made_by_what_the_file_says_now() {
    let mut world = World::new(config(|config| config.hooks.fence[0].holds = Some(Duration::from_secs(60))));
    world.rounds(&["+++", "x++", "x++"]);
    let unfenced = |config: &mut GroupConfig| {
        let settings = PolicySettings { require_fence: false, ..config.policy.settings().clone() };
        config.policy = Policy::new(settings).unwrap();
    };
    let why = world.reload(unfenced).unwrap_err();
    assert!(why.contains("require_fence is false while epoch 1 is being left"), "{why}");
    // What a hook that runs will have proved is what the file said when it started.
    let why = world.reload(|config| config.hooks.fence[0].holds = None).unwrap_err();
    assert!(why.contains("fence hook 0 runs"), "{why}");
    world.reload(|config| config.hooks.fence[0].timeout = Duration::from_secs(9)).unwrap();
    world.rounds(&["xxx", "xxx"]);
    world.end_hook(Stage::Fence, HookResult::Ok);
    assert_eq!(world.published, "HALT NO_TARGET_AVAILABLE");
    assert!(world.core.state().proof.is_some());
    // A proof that held for a minute is not one for ever because the file says so now.
    let (words, _) = world.reload(|config| config.hooks.fence[0].holds = None).unwrap();
    assert_eq!(words, ["the proof of the fence is dropped: its hook differs"]);
    world.end_hook(Stage::Halt, HookResult::Ok);
    world.rounds(&["x+x"]);
    assert_eq!(world.stage(), Some(Stage::Fence));
    world.end_hook(Stage::Fence, HookResult::Ok);
    assert_eq!(world.stage(), Some(Stage::Switch));
}

#[test]
fn hooks_that_were_tried_in_vain_are_tried_anew_from_the_first() {
    let mut world = World::new(config(|config| config.hooks.fence = [hook(false), hook(false)].concat()));
    world.rounds(&["+++", "x++", "x++"]);
    world.end_hook(Stage::Fence, HookResult::Exit(1));
    world.end_hook(Stage::Fence, HookResult::Exit(1));
    assert_eq!(world.stage(), None, "the next attempt is a second away");
    world.reload(|config| config.hooks.fence.truncate(1)).unwrap();
    assert_eq!(world.stage(), Some(Stage::Fence));
    world.end_hook(Stage::Fence, HookResult::Ok);
    assert_eq!(world.stage(), Some(Stage::Switch));
}

#[test]
fn a_journal_that_failed_bars_every_reload() {
    let mut world = World::new(config(|_| {}));
    world.rounds(&["+++"]);
    world.event(Event::JournalFailed { text: "no space left".to_owned(), undone: Vec::new() });
    assert!(world.reload(|config| config.max_hold = Duration::from_secs(60)).unwrap_err().contains("journal failed"));
}

#[test]
fn an_endpoint_that_goes_is_not_waited_for() {
    let mut world = World::new(config(|_| {}));
    world.now += SECOND;
    world.slot("east", true);
    world.slot("west", true);
    world.slot("east", false);
    world.slot("east", false);
    assert_eq!(world.stage(), None, "north has not been heard of since the start");
    world.reload(|config| without(config, "north")).unwrap();
    assert_eq!(world.stage(), Some(Stage::Fence));
}

#[test]
fn what_a_reload_refuses_while_a_path_is_left_a_start_takes_at_its_word() {
    let restarted = |world: &World, edit: fn(&mut GroupConfig)| {
        let mut new = world.core.config().clone();
        edit(&mut new);
        let now = Timestamp::from_nanos(world.now);
        let snapshot = super::super::adapted(&new, world.core.engine().snapshot(now));
        let engine = Engine::restore(new.policy.clone(), snapshot, now, RestartKind::Monitor).unwrap();
        World::of(new, engine, world.core.state().clone().restarted(|_| true))
    };
    let mut world = World::new(config(|_| {}));
    world.rounds(&["+++", "x++", "x++"]);
    assert_eq!(world.stage(), Some(Stage::Fence));
    let mut unfenced = restarted(&world, |config| {
        let settings = PolicySettings { require_fence: false, ..config.policy.settings().clone() };
        config.policy = Policy::new(settings).unwrap();
    });
    assert_eq!((unfenced.stage(), &*unfenced.published), (None, "HOLD SWITCHING"), "the restart itself moves nothing");
    unfenced.rounds(&["x++", "x++"]);
    assert_eq!((unfenced.stage(), &*unfenced.published), (Some(Stage::Switch), "HOLD RECONCILING"));

    world.end_hook(Stage::Fence, HookResult::Ok);
    assert_eq!(world.stage(), Some(Stage::Switch));
    let mut unswitched = restarted(&world, |config| config.hooks.switch.clear());
    assert_eq!((unswitched.stage(), &*unswitched.published), (None, "HOLD RECONCILING"));
    unswitched.rounds(&["x++"]);
    unswitched.end_hook(Stage::Reconcile, HookResult::Ok);
    assert_eq!(unswitched.published, "OPEN west #2");
}
