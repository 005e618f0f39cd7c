//! What holds for the engine in every scenario.
//!
//! Random scenarios (see `generate`) are replayed by the engine; each property looks at what it printed. One of them
//! compares it line by line with a second engine, written from the prose alone (see `model`). The others take nothing
//! from that one but its reading of the policy, and would stand against both if both had the same fault.
//!
//! All properties look at the same replays, which are made once, by whichever test comes first. How many there are is
//! `BROKER_FAILOVER_CASES` (10,000 unless it is set), and which ones is `BROKER_FAILOVER_SEED` (0 unless it is set:
//! the same tree gives the same verdict twice). A failure shows the shortest scenario that it could be shrunk to,
//! ready to be kept as a scenario file.
#![cfg(feature = "scenario")]
#![allow(clippy::disallowed_macros, reason = "a test may print")]

mod generate;
mod model;

use std::collections::BTreeMap;
use std::num::NonZero;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::LazyLock;
use std::thread;

use generate::coverage::Coverage;
use generate::render::{Input, Scenario};
use generate::{Draft, drafts};
use model::json::Json;
use model::{Nanos, decimal, seconds, verb};
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

/// Names the properties, makes a test of each, and a list of all.
macro_rules! properties {
    ($($name:ident,)*) => {
        const PROPERTIES: &[(&str, Property)] = &[$((stringify!($name), $name)),*];

        mod in_every_scenario {
            $(#[test] fn $name() { super::report(stringify!($name)); })*
        }
    };
}

properties! {
    the_engine_answers_as_the_model_does,
    a_failover_is_never_gated,
    nothing_is_switched_without_its_fence,
    only_a_proven_path_is_switched_to,
    the_epoch_rises_by_one_with_each_switch_and_never_otherwise,
    a_trading_halt_is_required_exactly_when_there_is_no_target,
    a_refused_input_changes_nothing,
    an_assessment_changes_nothing_and_foretells_the_evaluation,
    asking_again_gives_the_same_answer_and_no_switch,
    a_restart_forgets_health_and_nothing_else,
    the_same_file_gives_the_same_output,
    order_flow_is_open_only_on_the_active_path_in_its_unspent_epoch,
    only_a_switch_moves_the_active_path,
    looking_leaves_no_trace,
    a_failback_has_passed_every_gate,
    a_gate_opens_at_the_moment_it_named_and_not_before,
    order_flow_moves_only_along_its_table,
    an_input_about_one_endpoint_changes_no_other,
    a_failover_takes_the_best_eligible_target,
    the_history_has_an_entry_for_every_epoch_after_the_first,
    down_is_what_the_trigger_says,
    silence_counts_only_while_the_monitor_lives,
}

type Property = fn(&Trial) -> Result<(), String>;

/// Leaves the property with a message unless the condition holds.
macro_rules! ensure {
    ($condition:expr, $($message:tt)+) => {
        if !$condition {
            return Err(format!($($message)+));
        }
    };
}

// ---- The properties -------------------------------------------------------------------------------------------------

/// INV-01. The engine and the naive model print the same line for every input (but for the engine's own words), and
/// agree on whether anything was refused.
fn the_engine_answers_as_the_model_does(trial: &Trial) -> Result<(), String> {
    let differ = |expected, line| Err(format!("the model says {expected}\nthe engine says {line}"));
    let Replay { scenario, lines, outputs, .. } = &trial.watched;
    for ((Input { expected, .. }, output), line) in scenario.inputs.iter().zip(outputs).zip(lines) {
        // Most lines have no words in them, and needn't be taken apart.
        if output != expected && without_words(output) != *expected {
            return differ(expected, line);
        }
    }
    // The bare replay is compared as text: the format is compact, too.
    for (Input { expected, .. }, line) in trial.bare.scenario.inputs.iter().zip(&trial.bare.lines) {
        if *line != expected.to_string() {
            let output = Json::parse(line);
            if *line != output.to_string() || without_words(&output) != *expected {
                return differ(expected, line);
            }
        }
    }
    for replay in [&trial.bare, &trial.watched] {
        let refused = replay.scenario.inputs.iter().filter(|input| input.expected.get("error").is_some()).count();
        ensure!(replay.refused == refused as u64, "{} inputs were counted as refused, not {refused}", replay.refused);
    }
    Ok(())
}

/// INV-02. With the active path DOWN or its epoch spent and an eligible target there, a failover is answered with
/// SWITCHED, or with FENCE_REQUIRED where the fence is not confirmed: whatever the cooldown, the flap budget and the
/// history say.
fn a_failover_is_never_gated(trial: &Trial) -> Result<(), String> {
    for moment in trial.moments().filter(|moment| moment.asked("failover")) {
        let before = moment.before;
        let needed = state_of(before, before.str("active")) == Some("DOWN") || before.bool("spent") == Some(true);
        if needed && !eligible(before).is_empty() {
            let expected = if trial.needs_fence() && !moment.fence_confirmed() { "FENCE_REQUIRED" } else { "SWITCHED" };
            ensure!(moment.outcome() == Some(expected), "{expected} was due: {moment}");
        }
    }
    Ok(())
}

/// INV-03. Where the policy requires a fence, nothing is SWITCHED without a confirmation for the epoch that is left;
/// only a REARM, which leaves no path, needs none.
fn nothing_is_switched_without_its_fence(trial: &Trial) -> Result<(), String> {
    for (moment, event) in trial.switches() {
        let fenced = moment.fence_confirmed() || !trial.needs_fence() || event.str("kind") == Some("REARM");
        ensure!(fenced, "switched without a fence: {moment}");
    }
    Ok(())
}

/// INV-04. What is switched to was HEALTHY, fresh, not barred and not in maintenance; a REARM's own path was HEALTHY,
/// fresh and not barred.
fn only_a_proven_path_is_switched_to(trial: &Trial) -> Result<(), String> {
    for (moment, event) in trial.switches() {
        let rearm = event.str("kind") == Some("REARM");
        let to = endpoint(moment.before, event.str("to"));
        let proven = to.is_some_and(|to| {
            to.str("state") == Some("HEALTHY")
                && to.bool("fresh") == Some(true)
                && to.get("bars").is_none()
                && (rearm || to.bool("maintenance") == Some(false))
        });
        ensure!(proven, "not proven: {moment}");
        ensure!(rearm == (event.str("from") == event.str("to")), "a REARM stays, anything else moves: {moment}");
    }
    Ok(())
}

/// INV-05. SWITCHED raises the epoch by exactly one, to the epoch that its event names; the primary's registration
/// makes it 1; nothing else changes it, a restart included.
fn the_epoch_rises_by_one_with_each_switch_and_never_otherwise(trial: &Trial) -> Result<(), String> {
    for moment in trial.moments() {
        let (before, after) = (moment.before.u64("epoch"), moment.after.u64("epoch"));
        let expected = match (before, moment.event()) {
            (Some(epoch), Some(_)) => Some(epoch + 1),
            (None, None) if moment.registered_the_primary() => Some(1),
            (epoch, _) => epoch,
        };
        ensure!(after == expected, "epoch {before:?} became {after:?}: {moment}");
        if let Some(event) = moment.event() {
            ensure!(event.u64("epoch") == after, "the event names another epoch: {moment}");
        }
    }
    Ok(())
}

/// INV-06. `requires_trading_halt` is true exactly for NO_TARGET_AVAILABLE.
fn a_trading_halt_is_required_exactly_when_there_is_no_target(trial: &Trial) -> Result<(), String> {
    for output in trial.watched.outputs.iter().filter(|output| output.get("outcome").is_some()) {
        let nowhere = output.str("outcome") == Some("NO_TARGET_AVAILABLE");
        ensure!(output.bool("requires_trading_halt") == Some(nowhere), "{output}");
    }
    Ok(())
}

/// INV-07. After an input that was refused the whole state is what it was before.
fn a_refused_input_changes_nothing(trial: &Trial) -> Result<(), String> {
    for moment in trial.moments().filter(|moment| moment.output.get("error").is_some()) {
        ensure!(moment.before.same_without(&["line"], moment.after), "changed: {moment}");
    }
    Ok(())
}

/// INV-08. An assessment prints the very line that the evaluation after it prints, words included, and changes nothing.
fn an_assessment_changes_nothing_and_foretells_the_evaluation(trial: &Trial) -> Result<(), String> {
    const ITS_OWN: [&str; 4] = ["line", "assess", "evaluate", "switchover"];
    for moment in trial.moments() {
        if let Some((assessment, status)) = moment.assessed {
            ensure!(assessment.same_without(&ITS_OWN, moment.output), "foretold {assessment}: {moment}");
            ensure!(moment.before.same_without(&["line"], status), "the assessment changed the state: {moment}");
        }
        if verb(moment.input) == "assess" {
            ensure!(moment.before.same_without(&["line"], moment.after), "the assessment changed the state: {moment}");
        }
    }
    Ok(())
}

/// INV-09. A decision that switched nothing is the same when asked for again at once, and leaves the same state.
fn asking_again_gives_the_same_answer_and_no_switch(trial: &Trial) -> Result<(), String> {
    for moment in trial.moments() {
        if let Some((answer, status)) = moment.again {
            ensure!(answer.same_without(&["line"], moment.output), "the second time {answer}: {moment}");
            ensure!(status.same_without(&["line"], moment.after), "the second time changed the state: {moment}");
        }
    }
    Ok(())
}

/// INV-10. A restart keeps everything but health, which is UNKNOWN again; a gateway's takes STARTING and OPEN to
/// RECONCILING (if a path is active), and every other order flow stays, as all of it does when only the monitor
/// restarted.
fn a_restart_forgets_health_and_nothing_else(trial: &Trial) -> Result<(), String> {
    for moment in trial.moments().filter(|moment| verb(moment.input) == "restart") {
        let (before, after) = (moment.before, moment.after);
        let kept = before.same_without(&["line", "order_flow", "eligible_targets", "endpoints"], after);
        ensure!(kept, "lost: {moment}");
        ensure!(after.list("eligible_targets").is_empty(), "eligible without a probe: {moment}");

        let gateway = moment.input.bool("restart") == Some(true);
        let reconcile = gateway && before.str("active").is_some() && matches!(flow(before), "STARTING" | "OPEN");
        if reconcile {
            ensure!(flow(after) == "RECONCILING", "{} became {}: {moment}", flow(before), flow(after));
        } else {
            ensure!(before.get("order_flow") == after.get("order_flow"), "order flow changed: {moment}");
        }

        const HEALTH: [&str; 6] =
            ["state", "consecutive_failures", "consecutive_successes", "health_age", "fresh", "last_probe_error"];
        let unknown = Json::object([
            ("state", Json::text("UNKNOWN")),
            ("consecutive_failures", Json::number(0)),
            ("consecutive_successes", Json::number(0)),
            ("health_age", Json::Null),
            ("fresh", Json::Bool(false)),
        ]);
        let forgotten = before.list("endpoints").iter().map(|it| it.without(&HEALTH).and(unknown.clone()));
        ensure!(forgotten.eq(after.list("endpoints").iter().cloned()), "endpoints: {moment}");
    }
    Ok(())
}

/// INV-11. Replaying a file again gives the same output, byte for byte.
fn the_same_file_gives_the_same_output(trial: &Trial) -> Result<(), String> {
    let (again, refused) = engine_lines(&trial.bare.scenario.text());
    ensure!(again == trial.bare.lines && refused == trial.bare.refused, "the second replay differs");
    Ok(())
}

/// INV-12. OPEN names the active endpoint and its epoch, which is not spent; a spent epoch leaves only SWITCHING and
/// HALT.
fn order_flow_is_open_only_on_the_active_path_in_its_unspent_epoch(trial: &Trial) -> Result<(), String> {
    for status in trial.watched.outputs.iter().filter(|output| output.get("status").is_some()) {
        let spent = status.bool("spent") == Some(true);
        let open = status.get("order_flow").filter(|_| flow(status) == "OPEN");
        if let Some(open) = open {
            ensure!(open.str("endpoint") == status.str("active"), "open on another path: {status}");
            ensure!(open.u64("epoch") == status.u64("epoch"), "open in another epoch: {status}");
        }
        let closed = flow(status) == "SWITCHING" || flow(status).starts_with("HALT");
        ensure!(!spent || closed, "spent, and not closed: {status}");
    }
    Ok(())
}

/// INV-13. The active path changes with an event that says so, or with the registration of the primary; and it never
/// ceases to be.
fn only_a_switch_moves_the_active_path(trial: &Trial) -> Result<(), String> {
    for moment in trial.moments() {
        let (before, after) = (moment.before.str("active"), moment.after.str("active"));
        let expected = match moment.event() {
            Some(event) => {
                ensure!(event.str("from") == before, "the event starts from another path: {moment}");
                event.str("to")
            }
            None if moment.registered_the_primary() => after.filter(|_| before.is_none()),
            None => before,
        };
        ensure!(after == expected, "{before:?} became {after:?}: {moment}");
    }
    Ok(())
}

/// INV-14. A scenario whose every input is surrounded by `status`, `assess` and repeated questions gives the same
/// answers as one without them, byte for byte but for the numbers of the lines.
fn looking_leaves_no_trace(trial: &Trial) -> Result<(), String> {
    let without_number = |line: &'_ str| line.split_once(',').map(|(_, rest)| rest.to_owned());
    let watched = trial.watched.scenario.inputs.iter().zip(&trial.watched.lines);
    let watched = watched.filter(|(input, _)| input.watch.is_some()).map(|(_, line)| line);
    for (watched, bare) in watched.zip(&trial.bare.lines) {
        ensure!(without_number(watched) == without_number(bare), "watched: {watched}\nbare: {bare}");
    }
    Ok(())
}

/// INV-15. A failback leaves a backup that no operator chose, for a primary that proved itself, after the cooldown
/// and within the flap budget.
fn a_failback_has_passed_every_gate(trial: &Trial) -> Result<(), String> {
    let policy = &trial.policy;
    for (moment, event) in trial.switches().filter(|(_, event)| event.str("kind") == Some("FAILBACK")) {
        let before = moment.before;
        let primary = endpoint(before, event.str("to"));
        let successes = primary.and_then(|primary| primary.u64("consecutive_successes")).unwrap_or(0);
        let doubled = before.list("failback_ages").iter().filter(|_| policy.cooldown_max.is_some());
        let most = policy.cooldown_max.unwrap_or(policy.cooldown);
        let cooldown = doubled.fold(policy.cooldown, |cooldown, _| (2 * cooldown).min(most));
        let cooled = before.str("last_switch_age").is_none_or(|age| seconds(age) >= cooldown);
        ensure!(primary.and_then(|it| it.bool("primary")) == Some(true), "not the primary: {moment}");
        ensure!(before.bool("operator_placed") == Some(false), "an operator placed it: {moment}");
        ensure!(cooled, "within the cooldown: {moment}");
        ensure!(successes >= policy.failback_success_threshold, "not stable yet: {moment}");
        let spent = before.list("failback_ages").len();
        ensure!(spent < policy.max_failbacks_per_window, "over the flap budget: {moment}");
    }
    Ok(())
}

/// INV-16. One nanosecond before `earliest_at` the gate still holds, and at `earliest_at` it doesn't.
fn a_gate_opens_at_the_moment_it_named_and_not_before(trial: &Trial) -> Result<(), String> {
    let Some(gated) = trial.bare.lines.iter().rfind(|line| line.contains("\"earliest_at\"")) else {
        return Ok(());
    };
    let gated = &Json::parse(gated);
    let moment = seconds(gated.str("earliest_at").unwrap_or_default());
    // The file up to that answer; then the primary is well once more, so that nothing but the gate can hold it.
    let upto = gated.u64("line").unwrap_or_default() as usize;
    let mut file = trial.bare.scenario.lines[..upto].join("\n");
    let status = trial.watched.outputs.iter().rfind(|output| output.get("status").is_some()).unwrap_or(&Json::Null);
    let primary = status.list("endpoints").iter().find(|it| it.bool("primary") == Some(true));
    let primary = primary.and_then(|primary| primary.get("name")).cloned().unwrap_or(Json::Null);
    let mut add = |at: Nanos, input: Json| {
        file += &format!("\n{}", Json::object([("at", decimal(at))]).and(input));
    };
    add(moment - 1, Json::object([("probe", primary), ("ok", Json::Bool(true))]));
    for at in [moment - 1, moment] {
        add(at, Json::object([("assess", Json::text("failback"))]));
    }
    let (lines, _) = engine_lines(&file);
    let [.., before, then] = &lines[..] else { return Err(format!("no answers to {file}")) };
    let (before, then) = (Json::parse(before), Json::parse(then));
    ensure!(
        before.same_without(&["line", "at", "assess", "evaluate", "notes", "reason"], gated),
        "opened early\n{gated}\n{before}"
    );
    ensure!(then.str("outcome") != gated.str("outcome"), "opened late\n{gated}\n{then}");
    Ok(())
}

/// INV-17. Order flow moves only along the edges of its table.
fn order_flow_moves_only_along_its_table(trial: &Trial) -> Result<(), String> {
    let policy = &trial.policy;
    for moment in trial.moments() {
        let (from, to) = (flow(moment.before), flow(moment.after));
        let did = verb(moment.input);
        let switched = moment.event().is_some();
        let failover_said = |outcome| moment.asked("failover") && moment.outcome() == Some(outcome);
        let permitted = match (from, to) {
            (from, to) if from == to => true,
            // An operator's halt outranks everything, and ends with `resume` alone.
            (_, "HALT coded") => did == "halt",
            ("HALT coded", "STARTING") => did == "resume" && moment.before.str("active").is_none(),
            ("HALT coded", "SWITCHING" | "RECONCILING") => did == "resume",
            // The engine's halt ends by itself, or by `resume`; which of the two is policy.
            ("HALT NO_TARGET_AVAILABLE", "RECONCILING") if !policy.operator_ends_halt => {
                switched || failover_said("NO_ACTION")
            }
            ("HALT NO_TARGET_AVAILABLE", "SWITCHING" | "RECONCILING") => did == "resume" && policy.operator_ends_halt,
            (_, "HALT NO_TARGET_AVAILABLE") => failover_said("NO_TARGET_AVAILABLE"),
            (from, "OPEN") => {
                let unreconciled = switched && !policy.require_reconciliation && !from.starts_with("HALT");
                let succeeded = did == "probe"
                    && moment.output.str("state") == Some("HEALTHY")
                    && moment.input.str("probe") == moment.before.str("active");
                unreconciled || (from == "STARTING" && succeeded) || (from == "RECONCILING" && did == "reconciled")
            }
            ("RECONCILING", "STARTING") => did == "reconciled",
            (_, "SWITCHING") => failover_said("FENCE_REQUIRED") || matches!(did, "fence_started" | "switch_failed"),
            ("STARTING" | "OPEN", "RECONCILING") => switched || moment.input.bool("restart") == Some(true),
            ("SWITCHING", "RECONCILING") => switched || failover_said("NO_ACTION"),
            _ => false,
        };
        ensure!(permitted, "{from} became {to}: {moment}");
    }
    Ok(())
}

/// INV-18. A probe, an update, a maintenance order, a bar and a registration change their own endpoint and what follows from
/// it; a jump of the wall clock and the start-up gate change nothing.
fn an_input_about_one_endpoint_changes_no_other(trial: &Trial) -> Result<(), String> {
    for moment in trial.moments() {
        let (before, after) = (moment.before, moment.after);
        let own = match verb(moment.input) {
            verb @ ("probe" | "maintenance" | "bar") => moment.input.str(verb),
            verb @ ("update" | "register") => moment.output.str(verb),
            "wall_step" | "validate" | "status" => None,
            _ => continue,
        };
        let other = |endpoint: &&Json| endpoint.str("name") != own;
        let [others_before, others_after] = [before, after].map(|it| it.list("endpoints").iter().filter(other));
        ensure!(others_before.eq(others_after), "another endpoint changed: {moment}");
        let follows: &[&str] = match verb(moment.input) {
            "probe" => &["line", "endpoints", "eligible_targets", "order_flow"],
            "register" => &["line", "endpoints", "eligible_targets", "active", "epoch"],
            _ => &["line", "endpoints", "eligible_targets"],
        };
        ensure!(before.same_without(follows, after), "more than the endpoint changed: {moment}");
    }
    Ok(())
}

/// INV-19. The eligible targets are the other endpoints that are HEALTHY, fresh, not in maintenance and not barred, by
/// priority, then by name; a failover goes to the first of them, or asks for the fence that would let it.
fn a_failover_takes_the_best_eligible_target(trial: &Trial) -> Result<(), String> {
    for moment in trial.moments() {
        let before = moment.before;
        let best = eligible(before);
        let printed: Vec<&str> = before.list("eligible_targets").iter().filter_map(Json::as_str).collect();
        ensure!(printed == best, "{printed:?} was printed, {best:?} is eligible: {moment}");
        let failover = moment.event().filter(|event| event.str("kind") == Some("FAILOVER"));
        let taken = failover.and_then(|event| event.str("to"));
        let fence = moment.output.get("fence").filter(|_| moment.asked("failover"));
        for target in taken.into_iter().chain(fence.and_then(|fence| fence.str("target"))) {
            ensure!(best.first() == Some(&target), "{target} is not the best of {best:?}: {moment}");
        }
    }
    Ok(())
}

/// INV-20. Every epoch after the first is a switch in the history: kept up to the policy's limit, oldest first, and
/// counted beyond it.
fn the_history_has_an_entry_for_every_epoch_after_the_first(trial: &Trial) -> Result<(), String> {
    for status in trial.watched.outputs.iter().filter(|output| output.get("status").is_some()) {
        let kept: Vec<u64> = status.list("history").iter().filter_map(|entry| entry.u64("epoch")).collect();
        let dropped = status.u64("history_dropped").unwrap_or_default();
        let newest = status.u64("epoch").unwrap_or(1);
        ensure!(kept.iter().copied().eq(dropped + 2..=newest), "epochs missing: {status}");
        ensure!(kept.len() <= trial.policy.history_limit, "more than the limit: {status}");
    }
    Ok(())
}

/// INV-30. An endpoint becomes DOWN with a failure that makes what its trigger is waiting for so, with enough of a
/// history; DOWN ends with a success, unless that leaves too many failures among the newest results.
fn down_is_what_the_trigger_says(trial: &Trial) -> Result<(), String> {
    // Of each endpoint: when its results came, and whether they were failures.
    let mut results: BTreeMap<String, Vec<(Nanos, bool)>> = BTreeMap::new();
    for moment in trial.moments() {
        // What was seen before a stop of the monitor proves nothing any more.
        if moment.output.get("monitor_stopped").is_some() {
            results.clear();
        }
        let trigger = |endpoint: &Json| endpoint.get("trigger").map_or(trial.policy.trigger, model::Trigger::new);
        for after in moment.after.list("endpoints") {
            let name = after.str("name");
            let Some(before) = endpoint(moment.before, name) else { continue };
            let heard = results.entry(name.unwrap_or_default().to_owned()).or_default();
            let states = (before.str("state").unwrap_or_default(), after.str("state").unwrap_or_default());
            if states.1 == "UNKNOWN" || trigger(before) != trigger(after) {
                heard.clear();
            }
            let probed = moment.input.str("probe") == name && moment.output.get("error").is_none();
            let missing = moment.output.list("missing").iter().any(|it| it.as_str() == name);
            let counted = missing && trial.policy.silence_is_failure;
            if !(probed || counted) {
                ensure!(states.0 == states.1 || states.1 == "UNKNOWN", "another state without a result: {moment}");
                continue;
            }
            let failed = moment.input.bool("ok") != Some(true);
            heard.push((seconds(moment.input.str("at").unwrap_or_default()), failed));
            let newest = |count: usize| heard[heard.len().saturating_sub(count)..].iter().filter(|it| it.1).count();
            let is_so = match trigger(after) {
                model::Trigger::InARow(count) => newest(count) == count,
                model::Trigger::Among { failures, of } => newest(of) >= failures,
                model::Trigger::AllOf(window) => {
                    let failures = heard.iter().rev().take_while(|it| it.1);
                    let times: Vec<Nanos> = failures.map(|it| it.0).collect();
                    let whole = times.windows(2).take_while(|pair| pair[0] - pair[1] <= trial.policy.max_health_age);
                    let reach = whole.count();
                    times.first().is_some_and(|last| last - times[reach] >= window)
                }
            };
            let enough = heard.len() >= trial.policy.minimum_history(trigger(after));
            let due = match (states.0, failed) {
                ("DOWN", true) => "DOWN",
                ("DOWN", false) if is_so => "DOWN",
                (_, true) if is_so && enough => "DOWN",
                (_, true) => "DEGRADED",
                (_, false) => "HEALTHY",
            };
            ensure!(states.1 == due, "{due} was due: {moment}");
        }
    }
    Ok(())
}

/// INV-33. A tick, and a result that becomes due, change nothing but the endpoints that they name as missing, and those
/// only where silence is a failure. What finds that the monitor had stopped names none, and makes no endpoint DOWN for
/// which one result is not enough.
fn silence_counts_only_while_the_monitor_lives(trial: &Trial) -> Result<(), String> {
    for moment in trial.moments().filter(|moment| moment.output.get("error").is_none()) {
        let (before, after) = (moment.before, moment.after);
        let stopped = moment.output.get("monitor_stopped").is_some();
        let missing = moment.output.list("missing");
        ensure!(!stopped || missing.is_empty(), "missing, and nobody looked: {moment}");
        if matches!(verb(moment.input), "tick" | "due") {
            if missing.is_empty() || !trial.policy.silence_is_failure {
                ensure!(before.same_without(&["line"], after), "changed by silence: {moment}");
            }
            let not_missing = |endpoint: &&Json| missing.iter().all(|name| name.as_str() != endpoint.str("name"));
            let [others_before, others_after] =
                [before, after].map(|it| it.list("endpoints").iter().filter(not_missing));
            ensure!(others_before.eq(others_after), "another endpoint changed: {moment}");
            ensure!(before.same_without(&["line", "endpoints", "eligible_targets"], after), "more changed: {moment}");
        }
        for endpoint_after in after.list("endpoints").iter().filter(|_| stopped) {
            let own = endpoint_after.get("trigger").map_or(trial.policy.trigger, model::Trigger::new);
            let became_down = endpoint_after.str("state") == Some("DOWN")
                && state_of(before, endpoint_after.str("name")) != Some("DOWN");
            let one_is_enough = trial.policy.minimum_history(own) <= 1;
            ensure!(!became_down || one_is_enough, "DOWN by a stop of the monitor: {moment}");
        }
    }
    Ok(())
}

// ---- What the properties look at ------------------------------------------------------------------------------------

/// A scenario as it was drawn, and with every input watched, both replayed by the engine.
struct Trial {
    policy: model::Policy,
    bare: Replay,
    watched: Replay,
}

struct Replay {
    scenario: Scenario,
    lines: Vec<String>,
    /// The lines, taken apart; only of the watched replay.
    outputs: Vec<Json>,
    refused: u64,
}

/// The one door to the engine: a scenario's text in; the lines that it prints out, and how many inputs it refused.
fn engine_lines(scenario: &str) -> (Vec<String>, u64) {
    let mut lines = Vec::new();
    let tally = broker_failover::scenario::replay(scenario.as_bytes(), |answer| {
        lines.push(answer.to_json());
        Ok(())
    })
    .unwrap_or_else(|error| panic!("not a scenario: {error}"));
    (lines, tally.refused)
}

impl Trial {
    fn new(draft: &Draft) -> Self {
        let (bare, watched) = (draft.scenario(), draft.watched());
        let policy = model::Model::new(&Json::parse(&bare.lines[0])).policy;
        let mut watched = Replay::new(watched);
        watched.outputs = watched.lines.iter().map(|line| Json::parse(line)).collect();
        Self { policy, bare: Replay::new(bare), watched }
    }

    fn needs_fence(&self) -> bool {
        self.policy.require_fence
    }

    /// Every input of the watched replay with what was seen around it.
    fn moments(&self) -> impl Iterator<Item = Moment<'_>> {
        let Replay { scenario, outputs, .. } = &self.watched;
        scenario.inputs.iter().zip(outputs).filter_map(|(input, output)| {
            let watch = input.watch?;
            Some(Moment {
                input: &input.input,
                output,
                before: &outputs[watch.before],
                assessed: watch.assessed.map(|it| (&outputs[it.assessment], &outputs[it.status])),
                after: &outputs[watch.after],
                again: watch.again.map(|(answer, status)| (&outputs[answer], &outputs[status])),
            })
        })
    }

    /// The moments in which something was SWITCHED. What an assessment only would do is none.
    fn switches(&self) -> impl Iterator<Item = (Moment<'_>, &Json)> {
        self.moments().filter_map(|moment| moment.event().map(|event| (moment, event)))
    }
}

impl Replay {
    fn new(scenario: Scenario) -> Self {
        let (lines, refused) = engine_lines(&scenario.text());
        assert_eq!(lines.len(), scenario.inputs.len(), "one line of output for each input");
        Self { scenario, lines, outputs: Vec::new(), refused }
    }
}

#[derive(Clone, Copy)]
struct Moment<'a> {
    input: &'a Json,
    output: &'a Json,
    /// The status at the same time, just before.
    before: &'a Json,
    /// The assessment, just before, and the status after it.
    assessed: Option<(&'a Json, &'a Json)>,
    /// The status just after.
    after: &'a Json,
    /// The same question again, and the status after it.
    again: Option<(&'a Json, &'a Json)>,
}

impl<'a> Moment<'a> {
    fn asked(&self, question: &str) -> bool {
        self.input.str("evaluate") == Some(question) && self.output.get("error").is_none()
    }

    fn outcome(&self) -> Option<&'a str> {
        self.output.str("outcome")
    }

    fn event(&self) -> Option<&'a Json> {
        self.output.get("event").filter(|_| verb(self.input) != "assess")
    }

    /// A confirmation for the epoch that was the present one.
    fn fence_confirmed(&self) -> bool {
        let epoch = self.input.u64("fence_epoch");
        self.input.bool("fence_confirmed") == Some(true) || (epoch.is_some() && epoch == self.before.u64("epoch"))
    }

    fn registered_the_primary(&self) -> bool {
        let endpoint = self.input.get("register");
        endpoint.and_then(|it| it.bool("primary")) == Some(true) && self.output.get("error").is_none()
    }
}

impl std::fmt::Display for Moment<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "\n  before: {}\n  input: {}\n  output: {}\n  after: {}",
            self.before, self.input, self.output, self.after
        )
    }
}

/// Without what the engine may word as it likes.
fn without_words(output: &Json) -> Json {
    let error = output.get("error").map(|error| error.without(&["message"]));
    match error {
        Some(error) => output.without(&["error"]).with("error", error),
        None => output.without(&["reason", "reason_code"]),
    }
}

fn flow(status: &Json) -> &str {
    let flow = status.get("order_flow");
    match flow.and_then(|flow| flow.str("state")) {
        Some("HOLD") => flow.and_then(|flow| flow.str("reason")).unwrap_or_default(),
        Some("HALT") if flow.and_then(|flow| flow.str("code")) == Some("NO_TARGET_AVAILABLE") => {
            "HALT NO_TARGET_AVAILABLE"
        }
        Some("HALT") => "HALT coded",
        other => other.unwrap_or_default(),
    }
}

fn endpoint<'a>(status: &'a Json, name: Option<&str>) -> Option<&'a Json> {
    status.list("endpoints").iter().find(|endpoint| endpoint.str("name") == name)
}

fn state_of<'a>(status: &'a Json, name: Option<&str>) -> Option<&'a str> {
    endpoint(status, name)?.str("state")
}

/// The eligible targets as the list of endpoints has them, best first.
fn eligible(status: &Json) -> Vec<&str> {
    let mut targets: Vec<(Option<u64>, &str)> = status
        .list("endpoints")
        .iter()
        .filter(|it| it.str("name") != status.str("active") && it.str("state") == Some("HEALTHY"))
        .filter(|it| it.bool("fresh") == Some(true) && it.bool("maintenance") == Some(false))
        .filter(|it| it.get("bars").is_none())
        .filter_map(|it| Some((it.u64("priority"), it.str("name")?)))
        .collect();
    targets.sort_unstable();
    targets.into_iter().map(|(_, name)| name).collect()
}

// ---- Running them ---------------------------------------------------------------------------------------------------

/// A property that failed, or the replay itself, and the shortest scenario found that shows it.
#[derive(Debug)]
struct Failure {
    name: &'static str,
    case: u64,
    why: String,
    scenario: String,
}

/// What is named as failed when no property could be looked at, because a replay did not come to its end.
const REPLAY: &str = "every replay comes to its end";

static FAILURES: LazyLock<Vec<Failure>> = LazyLock::new(|| {
    let workers = thread::available_parallelism().map_or(1, NonZero::get) as u64;
    let mut failures: Vec<Failure> = thread::scope(|scope| {
        let threads: Vec<_> = (0..workers).map(|n| scope.spawn(move || work(n, workers))).collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("a worker returns")).collect()
    });
    failures.sort_by_key(|failure| failure.case);
    failures
});

/// Fails the test of a property if any scenario failed it.
fn report(name: &str) {
    if let Some(Failure { name, case, why, scenario }) =
        FAILURES.iter().find(|failure| failure.name == name || failure.name == REPLAY)
    {
        panic!("{name}: {why}\n\ncase {case} of BROKER_FAILOVER_SEED={}, in short:\n{scenario}", seed());
    }
}

/// Every `step`th case from `first` on: one worker's share.
fn work(first: u64, step: u64) -> Vec<Failure> {
    let mut holding = PROPERTIES.to_vec();
    let mut failures = Vec::new();
    for case in (first..number("BROKER_FAILOVER_CASES", 10_000)).step_by(step as usize) {
        let draft = draw(seed(), case).current();
        let trial = match catch(|| Trial::new(&draft)) {
            Ok(trial) => trial,
            Err(_) => {
                failures.push(shortest(REPLAY, case, |draft| catch(|| Trial::new(draft)).err()));
                return failures;
            }
        };
        holding.retain(|(name, property)| {
            let broken = |trial: &Trial| catch(|| property(trial)).and_then(|verdict| verdict).err();
            let holds = broken(&trial).is_none();
            if !holds {
                let again = |draft: &Draft| catch(|| Trial::new(draft)).ok().and_then(|trial| broken(&trial));
                failures.push(shortest(name, case, again));
            }
            holds
        });
    }
    failures
}

/// Shrinks the case as far as `broken` goes on saying why.
fn shortest(name: &'static str, case: u64, broken: impl Fn(&Draft) -> Option<String>) -> Failure {
    let mut tree = draw(seed(), case);
    let mut found = Failure { name, case, why: "it did not fail again".to_owned(), scenario: String::new() };
    for _ in 0..1_000 {
        let draft = tree.current();
        let shrinks = if let Some(why) = broken(&draft) {
            found = Failure { why, scenario: draft.scenario().text(), ..found };
            tree.simplify()
        } else {
            tree.complicate()
        };
        if !shrinks {
            break;
        }
    }
    found
}

/// A panic is a failure like any other, and has a scenario like any other.
fn catch<T>(f: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(f)).map_err(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        text.or(panic.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap_or_else(|| "panicked".to_owned())
    })
}

/// Each case has a generator of its own, so that it is the same whoever draws it and whatever was drawn before.
fn draw(seed: u64, case: u64) -> impl ValueTree<Value = Draft> {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    bytes[8..16].copy_from_slice(&case.to_le_bytes());
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    drafts().new_tree(&mut TestRunner::new_with_rng(Config::default(), rng)).expect("drafts are never rejected")
}

fn seed() -> u64 {
    number("BROKER_FAILOVER_SEED", 0)
}

fn number(variable: &str, default: u64) -> u64 {
    match std::env::var(variable) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{variable}={text} is no number")),
        Err(_) => default,
    }
}

/// The properties are worth as much as the scenarios: each outcome, refusal, switch kind, note and edge of the
/// order-flow table has to come up. (`--nocapture` shows how often each does.)
#[test]
fn the_scenarios_reach_every_outcome_refusal_and_edge() {
    let mut coverage = Coverage::default();
    for case in 0..5_000 {
        coverage.record(&draw(0, case).current().scenario());
    }
    println!("{coverage}");
    let missing = coverage.missing(3);
    assert!(missing.is_empty(), "too rare in 5,000 scenarios: {missing:#?}");
}
