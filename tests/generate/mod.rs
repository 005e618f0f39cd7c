//! Random scenarios that lead somewhere.
//!
//! A [`Draft`] is a list of abstract steps ("the active path breaks", "fail over, with a fence for the present
//! epoch", "one nanosecond before the cooldown is over"). Rendering turns it into a scenario file, and asks the model
//! at each step what "active", "present epoch" and "the cooldown's end" mean by then: so that most confirmations are
//! the right ones, most times sit on a boundary, and a draft still means something when steps of it are taken out.
//! Shrinking therefore works on the steps, and the shortest failing list of steps is what a failure shows, as a
//! scenario file.

pub(crate) mod coverage;
mod dice;
pub(crate) mod render;

use crate::model::json::Json;
use dice::Dice;
use proptest::collection::vec;
use proptest::prelude::*;

#[derive(Clone, Debug)]
pub(crate) struct Draft {
    policy: Json,
    endpoints: Vec<Newcomer>,
    /// Which of `endpoints` is the primary, if any.
    primary: Option<usize>,
    start: Start,
    steps: Vec<(Gap, Op)>,
    crlf: bool,
}

/// Where the file's clock begins: what overflows near the end of 64-bit nanoseconds must not matter to a decision.
#[derive(Clone, Copy, Debug)]
enum Start {
    Zero,
    JustBeforeTheEndOfTime,
}

/// The time between one step and the next.
#[derive(Clone, Copy, Debug)]
enum Gap {
    None,
    Nanos(u64),
    Seconds(u64),
    /// To a boundary, or some nanoseconds to either side of it; no time passes if that lies in the past.
    Edge(Edge, i64),
}

#[derive(Clone, Copy, Debug)]
enum Edge {
    CooldownOver,
    OldestFailbackLeavesWindow,
    ActiveGoesStale,
    PrimaryGoesStale,
    AnotherGoesStale(usize),
    /// The window of the active path's trigger is filled, if it goes on failing.
    WindowIsFilled,
    /// The first of the results that are awaited is overdue.
    ResultIsOverdue,
    /// Nothing arrived for as long as the shortest span that is awaited.
    MonitorStopped,
}

#[derive(Clone, Copy, Debug)]
enum Who {
    Active,
    Primary,
    /// The one that a failover would take, or would take if it were healthy.
    Backup,
    Nth(usize),
    Unknown,
    /// A known name with a space to it: names are matched exactly.
    Padded,
}

#[derive(Clone, Copy, Debug)]
enum Epoch {
    Present,
    Before,
    After,
}

#[derive(Clone, Copy, Debug)]
enum Fence {
    Absent,
    /// `fence_confirmed`; false is the same as absent.
    Confirmed(bool),
    Of(Epoch),
}

#[derive(Clone, Copy, Debug)]
enum Probe {
    Ok,
    Failed,
    Error,
    Panic,
}

#[derive(Clone, Copy, Debug)]
enum Question {
    Failover,
    Failback,
    Switchover(Who),
}

/// An endpoint to be registered. Names come from a fixed list, so that they clash now and then.
#[derive(Clone, Debug)]
struct Newcomer {
    name: usize,
    padded: bool,
    primary: Option<bool>,
    priority: Option<u64>,
    account: Option<&'static str>,
    trigger: Option<&'static str>,
    blank: Option<&'static str>,
}

#[derive(Clone, Debug)]
struct Change {
    who: Who,
    padded: bool,
    /// Version 0 is what was registered, and therefore often no change.
    region: Option<u64>,
    url: Option<u64>,
    account: Option<&'static str>,
    priority: Option<u64>,
    primary: Option<bool>,
    trigger: Option<&'static str>,
    blank: Option<&'static str>,
}

#[derive(Clone, Debug)]
enum Op {
    Probe(Who, Probe),
    Tick,
    Due(Who, &'static str),
    /// Results are due, ticks go on, and none of an endpoint comes.
    Silence(Who),
    Evaluate(Question, Fence),
    Assess(Question, Fence),
    FenceStarted(Epoch),
    SwitchFailed(Epoch),
    Rearm,
    Reconciled(Epoch),
    Status,
    WallStep(&'static str),
    Restart {
        monitor: bool,
    },
    Register(Newcomer),
    Update(Change),
    Validate,
    Maintenance(Who, bool),
    Bar(Who, &'static str, bool),
    Halt(&'static str),
    Resume,
    /// A comment or a blank line: no input, but it counts as a line.
    Remark(&'static str),

    // What follows renders as several inputs: the courses that a random walk is too slow to find.
    /// As many failures as make it DOWN.
    Break(Who),
    /// A single failure as late as a window allows, and another one.
    Hole(Who),
    /// As many successes as make it stable.
    Mend(Who),
    /// One success of everything.
    Round,
    /// The active path is well, and what it owes is settled.
    Settle,
    /// The same while the active path doesn't answer.
    SettleBroken,
    /// A backup is well, the active path breaks, failover.
    Leave(Fence),
    /// Failback with the primary well for long enough, and, for the patient, as soon as the cooldown is over.
    Return {
        patient: bool,
        fence: Fence,
    },
    /// There and back, which spends the flap budget.
    Cycle,
    /// The primary had a single success, failback.
    ReturnEarly,
    /// A backup is well, switchover to it.
    Planned(Fence),
    /// The active path breaks, a failover asks for the fence, and before it is confirmed the path is back, or half
    /// back.
    Waver(Probe),
    /// A fence is begun, and the active path comes back before it is confirmed.
    FenceInVain,
}

/// Drafts from plain numbers: proptest draws and shrinks the numbers, and [`Dice`] reads choices off them. (Strategies
/// for each choice would say the same, and take longer to draw than the engine takes to run the scenario.)
pub(crate) fn drafts() -> impl Strategy<Value = Draft> {
    let endpoints = prop_oneof![1 => vec(any::<u64>(), 0..=1), 9 => vec(any::<u64>(), 2..=5)];
    // Shrinking goes from left to right: steps are taken out first, and what comes after that is quick to try.
    (vec(any::<u64>(), 0..60), endpoints, any::<u64>(), any::<u64>()).prop_map(|(steps, endpoints, shape, policy)| {
        let mut shape = Dice(shape);
        let primary = shape.roll(5) as usize;
        Draft {
            policy: policy_from(&mut Dice(policy)),
            primary: shape.weighted(&[(9, primary.checked_rem(endpoints.len())), (1, None)]),
            endpoints: endpoints.into_iter().enumerate().map(|(i, n)| configured(i, n)).collect(),
            start: shape.weighted(&[(14, Start::Zero), (1, Start::JustBeforeTheEndOfTime)]),
            crlf: shape.weighted(&[(14, false), (1, true)]),
            steps: steps.into_iter().map(|n| step(&mut Dice(n))).collect(),
        }
    })
}

/// A valid one for the configuration: a name of its own, no blanks, no second primary.
fn configured(i: usize, n: u64) -> Newcomer {
    let newcomer = newcomer(&mut Dice(n));
    Newcomer { name: i, blank: None, primary: newcomer.primary.filter(|primary| !primary), ..newcomer }
}

/// Small thresholds; spans that lie on, between and far beyond the gaps that the steps take. Keys are left out now
/// and then.
fn policy_from(dice: &mut Dice) -> Json {
    let failures = dice.weighted(&[(3, Some(1)), (3, Some(2)), (1, Some(3)), (1, Some(4)), (1, None)]);
    let cooldown = [(4, Some("0s")), (1, Some("1ns")), (2, Some("1s")), (2, Some("5s")), (1, Some("1m")), (1, None)];
    let cooldown = dice.weighted(&[&cooldown[..], &[(1, Some("200000d"))]].concat());
    let ages = [(1, Some("1ns")), (1, Some("1s")), (2, Some("5s")), (1, Some("30s")), (2, Some("1h 1ms")), (1, None)];
    let age = dice.weighted(&ages);
    let successes = dice.weighted(&[(3, Some(1)), (3, Some(2)), (1, Some(4)), (1, None)]);
    let fence = dice.weighted(&[(2, Some(true)), (2, Some(false)), (1, None)]);
    let failbacks = dice.weighted(&[(4, Some(1)), (2, Some(2)), (1, None)]);
    let windows = [(1, Some("1ns")), (2, Some("5s")), (2, Some("1m 30s")), (1, Some("200000d")), (1, None)];
    let window = dice.weighted(&windows);
    let reconcile = dice.weighted(&[(2, None), (1, Some(true)), (2, Some(false))]);
    let halt = dice.weighted(&[(2, None), (1, Some("reconcile")), (2, Some("operator"))]);
    let history = dice.weighted(&[(2, None), (1, Some(0)), (2, Some(1)), (1, Some(2)), (1, Some(256))]);
    let trigger = dice.weighted(&[(3, false), (2, true)]).then(|| Json::parse(trigger(dice)));
    let in_a_row = trigger.as_ref().is_some_and(|trigger| trigger.get("consecutive").is_some());
    let needs = trigger.as_ref().map_or(failures.unwrap_or(3), crate::model::Trigger::needs_of);
    let more = dice.weighted(&[(4, None), (1, Some(0)), (2, Some(1)), (1, Some(3))]);
    Json::object([])
        .with("failure_threshold", failures.filter(|_| !in_a_row).map(Json::number))
        .with("trigger", trigger)
        .with("minimum_history", more.map(|more| Json::number(needs + more)))
        .with("cooldown_max", cooldown_max(dice, cooldown.unwrap_or("1m")))
        .with("silence", dice.weighted(&[(2, None), (1, Some("note")), (3, Some("failure"))]).map(Json::text))
        .with("cooldown", cooldown.map(Json::text))
        .with("max_health_age", age.map(Json::text))
        .with("failback_success_threshold", successes.map(Json::number))
        .with("require_fence", fence.map(Json::Bool))
        .with("max_failbacks_per_window", failbacks.map(Json::number))
        .with("failback_window", window.map(Json::text))
        .with("require_reconciliation", reconcile.map(Json::Bool))
        .with("resume_after_halt", halt.map(Json::text))
        .with("history_limit", history.map(Json::number))
}

/// At least the cooldown, which is not nothing then.
fn cooldown_max(dice: &mut Dice, cooldown: &str) -> Option<Json> {
    let longer: &[&str] = match cooldown {
        "1ns" => &["1ns", "3ns", "8s"],
        "1s" => &["1s", "2s", "3s", "1m"],
        "5s" => &["7s", "20s"],
        "1m" => &["2m"],
        "200000d" => &["200001d"],
        _ => return None,
    };
    let most = dice.one_of(longer);
    dice.weighted(&[(1, false), (2, true)]).then(|| Json::text(most))
}

/// As the engine writes them.
fn trigger(dice: &mut Dice) -> &'static str {
    dice.weighted(&[
        (1, r#"{"consecutive":1}"#),
        (1, r#"{"consecutive":2}"#),
        (1, r#"{"window":"1ns"}"#),
        (3, r#"{"window":"2s"}"#),
        (2, r#"{"window":"5s"}"#),
        (1, r#"{"failures":1,"of":1}"#),
        (2, r#"{"failures":1,"of":2}"#),
        (3, r#"{"failures":2,"of":3}"#),
        (1, r#"{"failures":3,"of":4}"#),
    ])
}

fn step(dice: &mut Dice) -> (Gap, Op) {
    let gap = dice.call(&[
        (12, |_| Gap::None),
        (1, |dice| Gap::Nanos(1 + dice.roll(2))),
        (3, |dice| Gap::Seconds(1 + dice.roll(5))),
        (4, |dice| Gap::Edge(edge(dice), dice.weighted(&[(1, 0), (1, -1), (1, 1)]))),
    ]);
    let op = dice.call(&[
        (12, |dice| Op::Probe(who(dice), probe(dice))),
        (12, |dice| Op::Evaluate(question(dice), fence(dice))),
        (5, |dice| Op::Assess(question(dice), fence(dice))),
        (3, |dice| Op::FenceStarted(epoch(dice))),
        (3, |dice| Op::SwitchFailed(epoch(dice))),
        (3, |_| Op::Rearm),
        (4, |dice| Op::Reconciled(epoch(dice))),
        (1, |_| Op::Status),
        (1, |dice| Op::WallStep(dice.one_of(&["86400", "-86400", "0.5", "-0.000000001"]))),
        (3, |dice| Op::Restart { monitor: dice.one_of(&[false, true]) }),
        (3, |dice| Op::Register(newcomer(dice))),
        (4, |dice| Op::Update(change(dice))),
        (1, |_| Op::Validate),
        (4, |dice| Op::Maintenance(who(dice), dice.one_of(&[false, true]))),
        (4, |dice| {
            // Lifted as often as put, and the same cause again, so that most files have eligible targets.
            let cause = dice.weighted(&[(4, "DEPTH"), (1, "ACCOUNT_MISMATCH"), (1, "SHARED_FATE")]);
            Op::Bar(who(dice), cause, dice.one_of(&[false, true]))
        }),
        (2, |dice| Op::Halt(dice.one_of(&render::HALTS))),
        (5, |_| Op::Resume),
        (1, |dice| Op::Remark(dice.one_of(&["", "# a remark", "  "]))),
        (5, |dice| Op::Break(who(dice))),
        (5, |dice| Op::Mend(who(dice))),
        (6, |_| Op::Round),
        (8, |_| Op::Settle),
        (6, |_| Op::SettleBroken),
        (5, |dice| Op::Leave(fence(dice))),
        (9, |dice| Op::Return { patient: dice.one_of(&[false, true]), fence: fence(dice) }),
        (5, |_| Op::Cycle),
        (2, |_| Op::ReturnEarly),
        (3, |dice| Op::Planned(fence(dice))),
        (3, |dice| Op::Waver(probe(dice))),
        (2, |_| Op::FenceInVain),
        (3, |dice| Op::Hole(who(dice))),
        (5, |_| Op::Tick),
        (5, |dice| Op::Due(who(dice), dice.one_of(&["1s", "2s", "1ns", "5s"]))),
        (5, |dice| Op::Silence(who(dice))),
    ]);
    (gap, op)
}

fn edge(dice: &mut Dice) -> Edge {
    dice.call(&[
        (4, |_| Edge::CooldownOver),
        (2, |_| Edge::OldestFailbackLeavesWindow),
        (2, |_| Edge::ActiveGoesStale),
        (2, |_| Edge::PrimaryGoesStale),
        (2, |dice| Edge::AnotherGoesStale(dice.roll(5) as usize)),
        (4, |_| Edge::WindowIsFilled),
        (3, |_| Edge::ResultIsOverdue),
        (3, |_| Edge::MonitorStopped),
    ])
}

fn newcomer(dice: &mut Dice) -> Newcomer {
    Newcomer {
        name: dice.roll(render::NAMES.len() as u64) as usize,
        padded: dice.weighted(&[(9, false), (1, true)]),
        primary: dice.weighted(&[(6, None), (1, Some(false)), (3, Some(true))]),
        priority: priority(dice),
        account: account(dice),
        blank: blank(dice),
        trigger: own_trigger(dice),
    }
}

/// Most endpoints do as the policy says.
fn own_trigger(dice: &mut Dice) -> Option<&'static str> {
    dice.weighted(&[(7, false), (1, true)]).then(|| trigger(dice))
}

fn change(dice: &mut Dice) -> Change {
    let version = [(3, None), (1, Some(0)), (1, Some(1))];
    Change {
        who: who(dice),
        padded: dice.weighted(&[(9, false), (1, true)]),
        region: dice.weighted(&version),
        url: dice.weighted(&version),
        account: account(dice),
        priority: priority(dice),
        primary: dice.weighted(&[(8, None), (1, Some(false)), (1, Some(true))]),
        blank: blank(dice),
        trigger: dice.weighted(&[(5, false), (1, true)]).then(|| trigger(dice)),
    }
}

/// Few values, so that names have to break ties.
fn priority(dice: &mut Dice) -> Option<u64> {
    dice.weighted(&[(6, None), (1, Some(0)), (1, Some(10)), (1, Some(100))])
}

fn account(dice: &mut Dice) -> Option<&'static str> {
    dice.weighted(&[(9, None), (1, Some("U1")), (1, Some(" U1 ")), (1, Some("U2"))])
}

fn blank(dice: &mut Dice) -> Option<&'static str> {
    dice.weighted(&[(44, None), (1, Some("name")), (1, Some("region")), (1, Some("url")), (1, Some("account"))])
}

fn who(dice: &mut Dice) -> Who {
    dice.call(&[
        (8, |_| Who::Active),
        (4, |_| Who::Primary),
        (8, |_| Who::Backup),
        (4, |dice| Who::Nth(dice.roll(5) as usize)),
        (1, |_| Who::Unknown),
        (1, |_| Who::Padded),
    ])
}

fn epoch(dice: &mut Dice) -> Epoch {
    dice.weighted(&[(8, Epoch::Present), (1, Epoch::Before), (1, Epoch::After)])
}

fn fence(dice: &mut Dice) -> Fence {
    dice.call(&[
        (4, |_| Fence::Absent),
        (4, |_| Fence::Confirmed(true)),
        (1, |_| Fence::Confirmed(false)),
        (4, |dice| Fence::Of(epoch(dice))),
    ])
}

fn probe(dice: &mut Dice) -> Probe {
    dice.weighted(&[(6, Probe::Ok), (2, Probe::Failed), (2, Probe::Error), (1, Probe::Panic)])
}

fn question(dice: &mut Dice) -> Question {
    dice.call(&[(4, |_| Question::Failover), (3, |_| Question::Failback), (2, |dice| Question::Switchover(who(dice)))])
}
