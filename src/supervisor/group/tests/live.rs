//! Two live paths: what a gateway says against the path that is in force.

use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestRng, TestRunner};

use crate::engine::{HaltOrder, Input};
use crate::scenario::Verb;
use crate::supervisor::group::Sending;
use crate::supervisor::journal::Peer;

use super::*;

const MS: u64 = 1_000_000;
/// `follow_within` of the tests' configuration.
const GRACE: u64 = 2 * SECOND;

impl World {
    fn sends(&mut self, endpoint: &str, epoch: u64) -> Result<String, String> {
        self.sent_at(self.now, endpoint, epoch)
    }

    fn sent_at(&mut self, at: u64, endpoint: &str, epoch: u64) -> Result<String, String> {
        let peer = Peer { uid: 7, pid: 8 };
        let line = format!("{{\"endpoint\":\"{endpoint}\",\"epoch\":{epoch}}}");
        let at = Timestamp::from_nanos(at);
        self.event(Event::Sending(Sending { endpoint: endpoint.to_owned(), epoch, at, peer, line }));
        self.reply.take().unwrap()
    }

    fn two_live(&self) -> bool {
        self.core.engine().halt_order().is_some_and(|order| order.code() == "TWO_LIVE_PATHS")
    }

    /// Flow is open on west in epoch 2, and was on east in epoch 1 before.
    fn on_west() -> Self {
        let mut world = Self::new(config(|_| {}));
        world.rounds(&["+++", "x++", "x++"]);
        world.end_hook(Stage::Fence, HookResult::Ok);
        world.end_hook(Stage::Switch, HookResult::Ok);
        world.end_hook(Stage::Reconcile, HookResult::Ok);
        assert_eq!(world.published, "OPEN west #2");
        world
    }

    fn evidence(&self) -> Vec<&str> {
        let text =
            |entry| if let &Entry::Note { code: "TWO_LIVE_PATHS", ref text } = entry { Some(&**text) } else { None };
        self.records.iter().filter_map(text).collect()
    }
}

#[test]
fn a_gateway_that_goes_on_sending_on_a_path_that_was_left_halts_trading_from_the_end_of_the_grace_on() {
    let mut world = World::on_west();
    assert_eq!(world.sends("west", 2), Ok("it may".to_owned()));
    assert_eq!(world.sends("east", 1), Ok("it may".to_owned()), "it may not have heard of it yet");
    let left = world.now;
    world.now = left + GRACE - 1;
    assert!(world.sends("east", 1).is_ok());
    assert!(!world.two_live());
    // What counts is when it was so, not when it was told.
    world.now = left + GRACE + SECOND;
    assert!(world.sent_at(left + GRACE - 1, "east", 1).is_ok());
    let why = world.sent_at(left + GRACE, "east", 1).unwrap_err();
    assert_eq!(
        why,
        "TWO_LIVE_PATHS: a gateway (user 7, process 8) reports that orders may leave on east in epoch 1: that path was \
         left 2.0s before; flow is on west in epoch 2; trading is halted"
    );
    assert_eq!((&*world.published, world.stage()), ("HALT TWO_LIVE_PATHS", Some(Stage::Halt)));
    let [evidence] = world.evidence()[..] else { panic!("{:?}", world.evidence()) };
    assert!(evidence.ends_with("its report: {\"endpoint\":\"east\",\"epoch\":1}"), "{evidence}");
    // An ordinary input of the engine, so that whoever replays the journal halts, too.
    let is_halt = |entry: &Entry| matches!(entry, Entry::Input { verb: Verb::Input(Input::Halt(order)), .. } if order.code() == "TWO_LIVE_PATHS");
    let place = |wanted: &dyn Fn(&Entry) -> bool| world.records.iter().position(wanted).unwrap();
    let noted = place(&|entry| matches!(entry, Entry::Note { code: "TWO_LIVE_PATHS", .. }));
    assert!(noted < place(&is_halt), "the evidence is on disk before the halt is");
}

#[test]
fn the_same_again_is_no_news_and_a_resume_does_not_help_while_it_goes_on() {
    let mut world = World::on_west();
    world.wait(3);
    assert!(world.sends("east", 1).is_err());
    world.end_hook(Stage::Halt, HookResult::Ok);
    let records = world.records.len();
    assert!(world.sends("east", 1).is_err());
    assert_eq!((world.records.len(), world.stage()), (records, None));
    assert_eq!(world.command(Command::Resume), Ok("HOLD RECONCILING".to_owned()));
    assert!(world.sends("west", 2).is_ok());
    assert!(world.sends("east", 1).is_err());
    assert_eq!(world.published, "HALT TWO_LIVE_PATHS");
    assert_eq!(world.evidence().len(), 2);
}

#[test]
fn a_persons_halt_does_not_hide_it() {
    let mut world = World::on_west();
    assert!(world.command(Command::Halt { text: "desk".to_owned() }).is_ok());
    world.end_hook(Stage::Halt, HookResult::Ok);
    world.wait(3);
    assert!(world.sends("east", 1).is_err());
    assert_eq!((&*world.published, world.stage()), ("HALT TWO_LIVE_PATHS", Some(Stage::Halt)));
}

#[test]
fn no_delay_explains_another_endpoint_in_the_present_epoch_or_an_epoch_that_was_never_given() {
    let mut world = World::on_west();
    let why = world.sends("north", 2).unwrap_err();
    assert!(why.contains("on north in epoch 2: that is the epoch of west"), "{why}");
    assert!(world.two_live());
    let mut world = World::on_west();
    let why = world.sends("west", 3).unwrap_err();
    assert!(why.contains("the present epoch is 2, on west, and that one was never given"), "{why}");
    assert!(world.two_live());
}

#[test]
fn nobody_sends_on_an_endpoint_that_is_not_there_and_that_halts_nothing() {
    let mut world = World::on_west();
    let why = world.sends("south", 1).unwrap_err();
    assert_eq!(why, "no endpoint of that name in group \"main\"; there is: east, west, north; nothing was changed");
    assert!(!world.two_live());
}

#[test]
fn a_path_that_a_reload_removed_may_be_sent_on_as_little_as_before() {
    let mut world = World::on_west();
    // Who is primary cannot change by a reload: it is north that flow was on, and that goes.
    assert!(world.command(Command::Switchover { target: "north".to_owned() }).is_ok());
    world.end_hook(Stage::Fence, HookResult::Ok);
    world.end_hook(Stage::Switch, HookResult::Ok);
    world.end_hook(Stage::Reconcile, HookResult::Ok);
    assert!(world.command(Command::Switchover { target: "west".to_owned() }).is_ok());
    world.end_hook(Stage::Fence, HookResult::Ok);
    world.end_hook(Stage::Switch, HookResult::Ok);
    let mut new = world.core.config().clone();
    new.endpoints.retain(|one| one.endpoint.name != "north");
    let change = crate::supervisor::reload::of_group(world.core.config(), &new).unwrap();
    let reloaded = world.core.reloaded(Timestamp::from_nanos(world.now), &change, "hash").unwrap();
    world.event(Event::Reloaded(reloaded.core));
    assert!(world.sends("north", 3).is_ok());
    assert!(world.sends("north", 2).unwrap_err().starts_with("no endpoint of that name"), "that was west's");
    world.now += GRACE;
    let why = world.sends("north", 3).unwrap_err();
    assert!(why.contains("on north in epoch 3: that path was left 2.0s before; flow is on west in epoch 4"), "{why}");
    assert!(world.two_live());
}

#[test]
fn while_the_switch_hook_runs_the_change_is_in_flight() {
    let mut world = World::new(config(|_| {}));
    world.rounds(&["+++", "x++", "x++"]);
    world.end_hook(Stage::Fence, HookResult::Ok);
    world.wait(60);
    assert_eq!((world.stage(), world.published.as_str()), (Some(Stage::Switch), "HOLD RECONCILING"));
    assert!(world.sends("east", 1).is_ok(), "the hook that tells it may hang; west carries nothing yet");
    world.end_hook(Stage::Switch, HookResult::Ok);
    world.now += GRACE - 1;
    assert!(world.sends("east", 1).is_ok());
    world.now += 1;
    assert!(world.sends("east", 1).is_err());
    assert!(world.two_live());
}

#[test]
fn a_path_that_was_left_twice_over_was_left_the_first_time() {
    let mut world = World::on_west();
    world.now += GRACE - MS;
    assert!(world.command(Command::Switchover { target: "north".to_owned() }).is_ok());
    world.end_hook(Stage::Fence, HookResult::Ok);
    world.end_hook(Stage::Switch, HookResult::Ok);
    assert!(world.sends("west", 2).is_ok());
    world.now += MS;
    assert!(world.sends("west", 2).is_ok(), "that was left just now");
    assert!(world.sends("east", 1).is_err(), "switches one after the other give it no more time");
}

#[test]
fn after_a_restart_the_grace_begins_anew() {
    let world = World::on_west();
    let (engine, state) = (world.core.engine().clone(), world.core.state().clone());
    let mut world = World::of(world.core.config().clone(), engine, state);
    assert!(world.sends("east", 1).is_ok());
    world.now = GRACE;
    assert!(world.sends("east", 1).is_err());
    assert!(world.two_live());
}

#[test]
fn a_dry_run_says_so_and_halts_nothing() {
    let mut world = World::on_west();
    world.core = world.core.clone().dry();
    world.wait(3);
    assert!(world.sends("east", 1).unwrap_err().ends_with("a dry run: nothing is changed"));
    assert!(world.sends("east", 1).is_err());
    assert_eq!((world.two_live(), world.evidence().len()), (false, 1));
}

#[test]
fn however_much_is_made_up_few_notes_are_written() {
    let mut world = World::on_west();
    world.core = world.core.clone().dry();
    for epoch in 3..1000 {
        assert!(world.sends("west", epoch).is_err());
    }
    assert_eq!(world.evidence().len(), 16);
}

/// What may happen.
#[derive(Clone, Debug)]
enum Step {
    Round(u8),
    Wait(u64),
    EndHook(bool),
    Switchover(usize),
    Rearm,
    Resume,
    Halt,
    /// A gateway that follows what is published with this delay, below the grace; whether it minds holds.
    Follows(u64, bool),
    /// A gateway that stays with one of the paths that were in force.
    Stuck(usize),
    /// A path that never was in force.
    Invented(usize, u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        3 => (0_u8..8).prop_map(Step::Round),
        4 => prop_oneof![Just(1_u64), Just(GRACE - 1), Just(GRACE), 0..3 * GRACE].prop_map(Step::Wait),
        6 => prop::bool::weighted(0.85).prop_map(Step::EndHook),
        3 => (0_usize..3).prop_map(Step::Switchover),
        1 => Just(Step::Rearm),
        3 => Just(Step::Resume),
        1 => Just(Step::Halt),
        8 => (prop_oneof![Just(0), Just(GRACE - 1), 0..GRACE], any::<bool>()).prop_map(|(delay, minds)| Step::Follows(delay, minds)),
        4 => (0_usize..8).prop_map(Step::Stuck),
        1 => (0_usize..3, 0_u64..3).prop_map(|(endpoint, ahead)| Step::Invented(endpoint, ahead)),
    ];
    prop::collection::vec(step, 1..60)
}

/// What was published, and when each epoch was carried out, as a bystander sees it.
struct Bystander {
    seen: Vec<(u64, String, u64, bool)>,
    carried: BTreeMap<u64, u64>,
}

impl Bystander {
    fn look(&mut self, world: &World) {
        let engine = world.core.engine();
        let name = engine.endpoint(engine.active().unwrap()).unwrap().name.clone();
        let epoch = engine.epoch().unwrap().get();
        let now = (name, epoch, world.published.starts_with("OPEN"));
        if self.seen.last().is_none_or(|(_, name, epoch, open)| (name, *epoch, *open) != (&now.0, now.1, now.2)) {
            self.seen.push((world.now, now.0, now.1, now.2));
        }
    }

    /// What was published `delay` ago.
    fn view(&self, now: u64, delay: u64) -> &(u64, String, u64, bool) {
        let last = self.seen.iter().rfind(|(at, ..)| at.saturating_add(delay) <= now);
        last.unwrap_or(&self.seen[0])
    }

    fn must_alarm(&self, now: u64, epoch: u64) -> bool {
        self.carried.range(epoch + 1..).any(|(_, at)| at + GRACE <= now)
    }
}

fn play(steps: &[Step], alarms: &mut u64, followed: &mut u64) -> Result<(), TestCaseError> {
    let mut world = World::new(config(|config| config.max_hold = Duration::from_secs(3600)));
    let mut bystander = Bystander { seen: Vec::new(), carried: BTreeMap::from([(1, 0)]) };
    world.rounds(&["+++"]);
    bystander.look(&world);
    for step in steps {
        let (now, halted) = (world.now, world.two_live());
        match step {
            Step::Round(results) => {
                let results: String = (0..3).map(|bit| if results >> bit & 1 == 0 { '+' } else { 'x' }).collect();
                world.round(&results);
            }
            Step::Wait(nanos) => {
                world.now += nanos;
                world.event(Event::Deadline);
            }
            Step::EndHook(ok) => {
                let Some((_, request)) = world.running.clone() else { continue };
                let result = if *ok { HookResult::Ok } else { HookResult::Exit(1) };
                if *ok && request.stage == Stage::Switch {
                    bystander.carried.insert(request.epoch, now);
                }
                world.end_hook(request.stage, result);
            }
            Step::Switchover(target) => {
                let target = ["east", "west", "north"][*target].to_owned();
                let _ = world.command(Command::Switchover { target });
            }
            Step::Rearm => drop(world.command(Command::Rearm)),
            Step::Resume => drop(world.command(Command::Resume)),
            Step::Halt => drop(world.command(Command::Halt { text: "desk".to_owned() })),
            Step::Follows(delay, minds) => {
                let (_, endpoint, epoch, open) = bystander.view(now, *delay).clone();
                if open || !minds {
                    let answer = world.sends(&endpoint, epoch);
                    prop_assert!(answer.is_ok(), "a false alarm: {answer:?}");
                    prop_assert_eq!(world.two_live(), halted);
                    *followed += 1;
                }
            }
            Step::Stuck(which) => {
                let (_, endpoint, epoch, _) = bystander.seen[which % bystander.seen.len()].clone();
                let answer = world.sends(&endpoint, epoch);
                let wanted = bystander.must_alarm(now, epoch);
                prop_assert_eq!(answer.is_err(), wanted, "{:?} at {}", answer, now);
                prop_assert!(!wanted || world.two_live(), "an alarm that halts nothing");
                *alarms += u64::from(wanted);
            }
            Step::Invented(endpoint, ahead) => {
                let (_, active, epoch, _) = bystander.view(now, 0).clone();
                let endpoint = ["east", "west", "north"][*endpoint];
                if endpoint != active || *ahead > 0 {
                    prop_assert!(world.sends(endpoint, epoch + ahead).is_err());
                    prop_assert!(world.two_live());
                }
            }
        }
        bystander.look(&world);
        let halts = world.core.engine().halt_order().map(HaltOrder::code) == Some("TWO_LIVE_PATHS");
        prop_assert!(!halts || world.published.starts_with("HALT"));
    }
    Ok(())
}

#[test]
fn whoever_follows_within_the_grace_alarms_nobody_and_whoever_does_not_always_does() {
    let number =
        |name: &str, default: u64| std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default);
    let (cases, seed) = (number("BROKER_FAILOVER_CASES", 400), number("BROKER_FAILOVER_SEED", 0));
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let cases = u32::try_from(cases).unwrap_or(u32::MAX);
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let mut runner = TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &bytes));
    let counts = std::cell::Cell::new((0, 0));
    let verdict = runner.run(&steps(), |steps| {
        let (mut alarms, mut followed) = counts.get();
        let played = play(&steps, &mut alarms, &mut followed);
        counts.set((alarms, followed));
        played
    });
    assert!(verdict.is_ok(), "BROKER_FAILOVER_SEED={seed}: {}", verdict.unwrap_err());
    let (alarms, followed) = counts.get();
    assert!(alarms > 50 && followed > 500, "it has little to say: {alarms} alarms, {followed} reports that followed");
}
