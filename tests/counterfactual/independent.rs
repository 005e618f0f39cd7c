//! The same switches by another way: a scenario file written from the same results, one line at a time, by a host that
//! does what `references/supervisor.md` says of the supervisor, and then read by `scenario::replay`.
//!
//! How many histories there are is `BROKER_FAILOVER_CASES` (200 unless it is set), and which ones is
//! `BROKER_FAILOVER_SEED` (0 unless it is set).

use std::collections::BTreeSet;
use std::time::Duration;

use broker_failover::calibration::counterfactual::{Assumptions, Counterfactual};
use broker_failover::engine::{
    EndpointState, Evaluation, FailoverOutcome, FenceClaim, HoldReason, Input, OrderFlow, Output, ProbeResult,
    RestartKind, ResumeAfterHalt,
};
use broker_failover::scenario::{self, Replay, Step, Verb};
use broker_failover::supervisor::config::{FailbackMode, GroupConfig};

use super::{HOOKS, SECOND, START, group};

const NAMES: [&str; 3] = ["east", "west", "north"];

/// Vigna's splitmix64.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    fn one_in(&mut self, of: u64) -> bool {
        self.below(of) == 0
    }
}

fn policy(dice: &mut Dice) -> String {
    let trigger = match dice.below(4) {
        0 => "trigger = { failures = 2, of = 4 }".to_owned(),
        1 => format!("trigger = {{ window = \"{}s\" }}", 2 + dice.below(8)),
        _ => format!("failure_threshold = {}", 1 + dice.below(4)),
    };
    let flags = ["true", "true", "true", "false"];
    format!(
        "{trigger}\ncooldown = \"{}s\"\nmax_health_age = \"{}s\"\nfailback_success_threshold = {}\n\
         max_failbacks_per_window = {}\nfailback_window = \"{}s\"\nrequire_fence = {}\nrequire_reconciliation = {}\n\
         resume_after_halt = \"{}\"\nhistory_limit = {}",
        dice.below(20),
        4 + dice.below(10),
        1 + dice.below(3),
        1 + dice.below(3),
        30 + dice.below(200),
        flags[dice.below(4) as usize],
        flags[dice.below(4) as usize],
        if dice.one_in(3) { "operator" } else { "reconcile" },
        dice.below(3),
    )
}

fn assumptions(dice: &mut Dice) -> Assumptions {
    let mut time = || if dice.one_in(3) { 0 } else { dice.below(4_000) };
    let [fence, switch, reconcile] = [time(), time(), time()].map(Duration::from_millis);
    Assumptions {
        fence,
        switch,
        reconcile,
        person_fails_back: dice.one_in(2),
        outage: Duration::from_secs(30),
        rto: None,
    }
}

/// Results in the order of their times: paths that fail for a while, paths that nobody looks at, a monitor that stops.
fn history(dice: &mut Dice, endpoints: usize) -> Vec<(u64, usize, bool)> {
    let mut results = Vec::new();
    let mut until = vec![(0_u64, true, true); endpoints];
    let mut at = 0;
    for _ in 0..60 + dice.below(240) {
        at += if dice.one_in(60) { 5 * SECOND + dice.below(40 * SECOND) } else { SECOND / 2 + dice.below(SECOND) };
        for (endpoint, (end, ok, seen)) in until.iter_mut().enumerate() {
            if at >= *end {
                (*ok, *seen) = (!dice.one_in(3), !dice.one_in(12));
                *end = at + dice.below(if *ok { 40 } else { 15 }) * SECOND;
            }
            if *seen || results.is_empty() {
                results.push((at + endpoint as u64 * dice.below(2) * 1_000_000, endpoint, *ok != dice.one_in(25)));
            }
        }
    }
    // Each endpoint is heard of at least once.
    results.extend((0..endpoints).map(|endpoint| (at + SECOND, endpoint, true)));
    results.sort_by_key(|(at, endpoint, _)| (*at, *endpoint));
    let first = results[0].0;
    results.iter_mut().for_each(|(at, ..)| *at -= first);
    results
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Hook {
    Fence,
    Switch,
    Reconcile,
}

/// Writes the scenario, and reads each answer before the next line.
struct Author<'a> {
    group: &'a GroupConfig,
    assumptions: Assumptions,
    lines: Vec<String>,
    replay: Replay,
    at: u64,
    /// Time of the newest result.
    newest: u64,
    flow: OrderFlow,
    epoch: u64,
    active: String,
    spent: bool,
    proven: bool,
    unheard: BTreeSet<usize>,
    since: u64,
    running: Option<(Hook, u64, u64)>,
    fenced: Option<u64>,
    moved: bool,
    returning: bool,
}

impl<'a> Author<'a> {
    fn new(group: &'a GroupConfig, assumptions: Assumptions) -> Self {
        let config = scenario::config_line(&group.policy, group.endpoints.iter().map(|one| &one.endpoint));
        let mut replay = Replay::new();
        replay.line(config.as_bytes(), |_| ()).unwrap();
        Self {
            group,
            assumptions,
            lines: vec![config],
            replay,
            at: 0,
            newest: 0,
            flow: OrderFlow::Hold { reason: HoldReason::Starting },
            epoch: 1,
            active: NAMES[0].to_owned(),
            spent: false,
            proven: false,
            unheard: (0..group.endpoints.len()).collect(),
            since: 0,
            running: None,
            fenced: None,
            moved: true,
            returning: false,
        }
    }

    fn write(&mut self, verb: Verb) -> Option<FailoverOutcome> {
        let line = Step::new(self.at, verb).to_line();
        let mut outcome = None;
        let answered = self.replay.line(line.as_bytes(), |answer| {
            let engine = answer.engine;
            let active = engine.active().unwrap();
            let health = engine.health(active).unwrap();
            self.flow = engine.order_flow();
            self.epoch = engine.epoch().unwrap().get();
            self.spent = engine.is_spent();
            self.active = answer.name(active).to_owned();
            self.proven = health.state() == EndpointState::Healthy && engine.is_fresh(answer.now(), health);
            if let Ok(Output::Decision(decision)) = answer.result {
                outcome = Some(decision.outcome);
            }
        });
        answered.unwrap();
        self.lines.push(line);
        if matches!(outcome, Some(FailoverOutcome::Switched(_))) {
            (self.moved, self.returning) = (false, false);
        }
        outcome
    }

    fn ask(&mut self, evaluation: Evaluation) -> FailoverOutcome {
        let claim = if self.fenced == Some(self.epoch) { FenceClaim::Epoch(self.epoch) } else { FenceClaim::None };
        self.write(Verb::Input(Input::Evaluate(evaluation, claim))).unwrap()
    }

    fn result(&mut self, at: u64, endpoint: usize, ok: bool) {
        while let Some((hook, ends, epoch)) = self.running.filter(|(_, ends, _)| *ends <= at) {
            self.at = ends;
            self.ended(hook, epoch);
        }
        let age = self.group.policy.settings().max_health_age.as_nanos() as u64;
        let stopped = self.lines.len() > 1 && at - self.newest > age;
        self.at = at;
        if stopped {
            self.write(Verb::Restart(RestartKind::Monitor));
            (self.unheard, self.since) = ((0..self.group.endpoints.len()).collect(), at);
            self.go_on();
        }
        if at - self.since > age && !self.unheard.is_empty() {
            self.unheard.clear();
            self.go_on();
        }
        self.unheard.remove(&endpoint);
        let result = if ok { ProbeResult::Success } else { ProbeResult::Failure("timeout".into()) };
        self.write(Verb::Input(Input::Probe { endpoint: NAMES[endpoint].to_owned(), result }));
        self.newest = at;
        self.go_on();
    }

    fn ended(&mut self, hook: Hook, epoch: u64) {
        self.running = None;
        match hook {
            _ if epoch != self.epoch => {}
            Hook::Fence => self.fenced = Some(epoch),
            Hook::Switch => self.moved = true,
            Hook::Reconcile if self.flow == RECONCILING => {
                self.write(Verb::Input(Input::Reconciled(epoch)));
            }
            Hook::Reconcile => {}
        }
        self.go_on();
    }

    fn go_on(&mut self) {
        self.evaluate();
        self.start_hook();
        let latched = match self.flow {
            OrderFlow::Halt { .. } => self.group.policy.settings().resume_after_halt == ResumeAfterHalt::Operator,
            _ => false,
        };
        if latched && self.proven && !self.spent {
            self.write(Verb::Input(Input::Resume));
            self.go_on();
        }
    }

    fn evaluate(&mut self) {
        let moving = matches!(self.running, Some((Hook::Fence | Hook::Switch, ..)));
        if moving || !self.unheard.is_empty() {
            return;
        }
        if self.returning && self.fenced == Some(self.epoch) {
            if matches!(self.ask(Evaluation::Failback), FailoverOutcome::Switched(_)) {
                return;
            }
            self.returning = false;
        }
        match self.ask(Evaluation::Failover) {
            FailoverOutcome::FenceRequired(_) => self.leave(),
            FailoverOutcome::NoAction if matches!(self.flow, OrderFlow::Open { .. }) => {
                let manual = self.group.failback == FailbackMode::Manual && !self.assumptions.person_fails_back;
                if !manual && matches!(self.ask(Evaluation::Failback), FailoverOutcome::FenceRequired(_)) {
                    self.returning = true;
                    self.leave();
                }
            }
            _ => {}
        }
    }

    fn leave(&mut self) {
        if !self.spent {
            self.write(Verb::Input(Input::FenceStarted(self.epoch)));
        }
    }

    fn start_hook(&mut self) {
        if let Some((Hook::Reconcile, _, epoch)) = self.running {
            if epoch != self.epoch || self.flow != RECONCILING {
                // It is not wanted any more.
                self.running = None;
                return self.go_on();
            }
        }
        if self.running.is_some() {
            return;
        }
        let fence = self.group.policy.settings().require_fence && self.spent && self.fenced != Some(self.epoch);
        let Assumptions { fence: fencing, switch, reconcile, .. } = self.assumptions;
        let (hook, time) = if fence {
            (Hook::Fence, fencing)
        } else if !self.moved && !self.spent && self.unheard.is_empty() {
            (Hook::Switch, switch)
        } else if self.moved && self.flow == RECONCILING {
            (Hook::Reconcile, reconcile)
        } else {
            return;
        };
        self.running = Some((hook, self.at + time.as_nanos() as u64, self.epoch));
        if time.is_zero() {
            let epoch = self.epoch;
            self.ended(hook, epoch);
        }
    }
}

const RECONCILING: OrderFlow = OrderFlow::Hold { reason: HoldReason::Reconciling };

/// Time, kind, from, to and epoch of each switch.
type Switches = Vec<(u64, &'static str, String, String, u64)>;

fn by_scenario(text: &str) -> Switches {
    let mut switches = Vec::new();
    scenario::replay(text.as_bytes(), |answer| {
        if let Ok(Output::Decision(decision)) = answer.result {
            if let Some(event) = decision.event() {
                let names = [event.from, event.to].map(|id| answer.name(id).to_owned());
                let [from, to] = names;
                switches.push((answer.step.at, event.kind.name(), from, to, event.epoch.get()));
            }
        }
        Ok(())
    })
    .unwrap();
    switches
}

fn by_counterfactual(group: &GroupConfig, assumptions: Assumptions, results: &[(u64, usize, bool)]) -> Switches {
    let mut counterfactual = Counterfactual::new(group, assumptions).unwrap();
    for (at, endpoint, ok) in results {
        counterfactual.sample(START + at, NAMES[*endpoint], *ok).unwrap();
    }
    let replayed = counterfactual.finish().unwrap();
    let name = |place: usize| replayed.endpoints[place].clone();
    let switches = replayed.switches.iter();
    switches.map(|one| (one.switched - START, one.kind.name(), name(one.from), name(one.to), one.epoch)).collect()
}

fn number(variable: &str, default: u64) -> u64 {
    match std::env::var(variable) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{variable}={text} is no number")),
        Err(_) => default,
    }
}

#[test]
fn the_switches_are_those_of_a_scenario_written_from_the_same_results() {
    let (seed, cases) = (number("BROKER_FAILOVER_SEED", 0), number("BROKER_FAILOVER_CASES", 200));
    println!("{cases} histories of BROKER_FAILOVER_SEED={seed}");
    let mut seen = std::collections::BTreeMap::<&str, u64>::new();
    for case in 0..cases {
        let mut dice = Dice(seed.wrapping_mul(0x0100_0000_01b3) ^ case);
        let endpoints = 2 + dice.below(2) as usize;
        let hooks = if dice.one_in(3) { HOOKS.replace("automatic", "manual") } else { HOOKS.to_owned() };
        let group = group(&NAMES[..endpoints], &policy(&mut dice), &hooks);
        let assumptions = assumptions(&mut dice);
        let results = history(&mut dice, endpoints);

        let mut author = Author::new(&group, assumptions);
        results.iter().for_each(|(at, endpoint, ok)| author.result(*at, *endpoint, *ok));
        let text = author.lines.join("\n");
        let (expected, found) = (by_scenario(&text), by_counterfactual(&group, assumptions, &results));
        assert_eq!(found, expected, "case {case} of BROKER_FAILOVER_SEED={seed}; {assumptions:?}\n{text}");
        expected.iter().for_each(|(_, kind, ..)| *seen.entry(kind).or_default() += 1);
    }
    println!("{seen:?}");
    // Histories in which nothing happens would prove nothing.
    let enough = |kind, each| seen.get(kind).copied().unwrap_or_default() * each >= cases;
    assert!(cases < 100 || enough("FAILOVER", 1) && enough("FAILBACK", 2) && enough("REARM", 100), "{seen:?}");
}
