//! How often the generated scenarios reach what they were made to reach.
//!
//! A property over scenarios in which nothing happens proves nothing, so what has to happen is counted by the model
//! and demanded.

use super::render::{Scenario, question};
use crate::model::json::Json;
use crate::model::{Flow, Model, Trigger};
use std::collections::BTreeMap;
use std::fmt;

#[derive(Default)]
pub(crate) struct Coverage {
    /// (question, outcome, order flow after it)
    outcomes: BTreeMap<[String; 3], u64>,
    /// (question, code)
    refusals: BTreeMap<[String; 2], u64>,
    /// (order flow, what happened, order flow after it)
    edges: BTreeMap<[String; 3], u64>,
    /// Switch kinds, notes, endpoint states, and whether a gate named its end.
    words: BTreeMap<[String; 1], u64>,
}

impl Coverage {
    pub(crate) fn record(&mut self, scenario: &Scenario) {
        let mut model = Model::new(&Json::parse(&scenario.lines[0]));
        for input in &scenario.inputs {
            let before = state(&model);
            let output = model.apply(0, &input.input);
            let after = state(&model);
            let question = question(&input.input);

            if let Some(error) = output.get("error") {
                bump(&mut self.refusals, [question, error.str("code").unwrap_or_default().to_owned()]);
                continue;
            }
            bump(&mut self.edges, [before, happening(&model, &input.input, &output), after.clone()]);
            if let Some(outcome) = output.str("outcome") {
                bump(&mut self.outcomes, [question.clone(), outcome.to_owned(), after]);
                if matches!(outcome, "COOLDOWN_ACTIVE" | "FLAP_SUPPRESSED") {
                    let known = if output.get("earliest_at").is_some() { "with" } else { "without" };
                    bump(&mut self.words, [format!("{outcome} {known} earliest_at")]);
                }
            }
            if let Some(missing) = output.get("missing") {
                let how = if model.policy.silence_is_failure { "a failure" } else { "noted" };
                if *missing != Json::List(Vec::new()) {
                    bump(&mut self.words, [format!("missing is {how}")]);
                }
            }
            if output.get("monitor_stopped").is_some() {
                bump(&mut self.words, [format!("{question} after a stop")]);
            }
            let kind = output.get("event").and_then(|event| event.str("kind"));
            let notes = output.list("notes").iter().filter_map(Json::as_str);
            if let Some(state) = output.str("state").filter(|_| input.input.get("probe").is_some()) {
                bump(&mut self.words, [self::result(&model, &input.input, state)]);
            }
            for word in notes.chain(kind).chain(output.str("state")) {
                bump(&mut self.words, [word.to_owned()]);
            }
        }
    }

    /// What was demanded and came up fewer than `few` times.
    pub(crate) fn missing(&self, few: u64) -> Vec<String> {
        let mut missing = Vec::new();
        let mut demand = |what: String, count: u64| {
            if count < few {
                missing.push(format!("{what}: {count}"));
            }
        };
        let sum = |map: &BTreeMap<[String; 3], u64>, wanted: &dyn Fn(&[String; 3]) -> bool| -> u64 {
            map.iter().filter(|(key, _)| wanted(key)).map(|(_, count)| count).sum()
        };
        for (question, outcomes) in OUTCOMES {
            for outcome in outcomes {
                let count = sum(&self.outcomes, &|key| key[0] == question && key[1] == *outcome);
                demand(format!("{question} says {outcome}"), count);
            }
        }
        for (question, codes) in REFUSALS {
            for code in codes {
                let key = [question.to_owned(), (*code).to_owned()];
                demand(format!("{question} is refused with {code}"), self.refusals.get(&key).copied().unwrap_or(0));
            }
        }
        for [before, what, after] in demanded_edges() {
            let key = [before, what, after].map(str::to_owned);
            demand(format!("{before} -- {what} --> {after}"), self.edges.get(&key).copied().unwrap_or(0));
        }
        for word in WORDS {
            demand(word.to_owned(), self.words.get(&[word.to_owned()]).copied().unwrap_or(0));
        }
        missing
    }
}

/// The table, for a person who wants to see whether the walk is a good one.
impl fmt::Display for Coverage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fn table<const N: usize>(f: &mut fmt::Formatter<'_>, rows: &BTreeMap<[String; N], u64>) -> fmt::Result {
            for (key, count) in rows {
                writeln!(f, "{count:>9}  {}", key.join(" | "))?;
            }
            writeln!(f)
        }
        table(f, &self.outcomes)?;
        table(f, &self.refusals)?;
        table(f, &self.edges)?;
        table(f, &self.words)
    }
}

fn bump<const N: usize>(map: &mut BTreeMap<[String; N], u64>, key: [String; N]) {
    *map.entry(key).or_default() += 1;
}

fn state(model: &Model) -> String {
    let flow = match &model.flow {
        Flow::Starting => "STARTING",
        Flow::Open { .. } => "OPEN",
        Flow::Switching => "SWITCHING",
        Flow::Reconciling => "RECONCILING",
        Flow::Halt { code } if code == "NO_TARGET_AVAILABLE" => "HALT NO_TARGET_AVAILABLE",
        Flow::Halt { .. } => "HALT coded",
    };
    if model.active.is_some() { flow.to_owned() } else { format!("{flow}, no active") }
}

/// What a result came to, by the kind of its endpoint's trigger.
fn result(model: &Model, input: &Json, state: &str) -> String {
    let name = input.str("probe");
    let endpoint = model.endpoints.iter().find(|endpoint| Some(endpoint.name.as_str()) == name).expect("it answered");
    let trigger = model.policy.trigger_of(endpoint);
    let kind = match trigger {
        Trigger::InARow(_) => "in a row",
        Trigger::AllOf(_) => "in a window",
        Trigger::Among { .. } => "among the newest",
    };
    let result = if input.bool("ok") == Some(true) { "success" } else { "failure" };
    let results = endpoint.health.results.len();
    let short = results < model.policy.minimum_history(trigger) && results >= trigger.needs();
    format!("{kind}: {result}, {state}{}", if short { ", too short a history" } else { "" })
}

/// What an input was to order flow. A switch is a switch, whoever asked for it.
fn happening(model: &Model, input: &Json, output: &Json) -> String {
    match (question(input).as_str(), output.str("outcome")) {
        (question, _) if question.starts_with("assess") => "no effect".to_owned(),
        ("status" | "validate" | "update" | "maintenance" | "bar" | "wall_step", _) => "no effect".to_owned(),
        (_, Some("SWITCHED")) => "SWITCHED".to_owned(),
        (question, Some(outcome)) => format!("{question} {outcome}"),
        ("probe", _) if input.str("probe") != model.active.as_deref() => "no effect".to_owned(),
        ("probe", _) if output.str("state") == Some("HEALTHY") => "success of the active".to_owned(),
        ("probe", _) => "failure of the active".to_owned(),
        ("restart", _) => format!("restart {}", input.str("restart").unwrap_or("gateway")),
        (question, _) => question.to_owned(),
    }
}

const OUTCOMES: [(&str, &[&str]); 7] = [
    ("evaluate failover", &["NO_ACTION", "SWITCHED", "FENCE_REQUIRED", "NO_TARGET_AVAILABLE"]),
    ("assess failover", &["NO_ACTION", "SWITCHED", "FENCE_REQUIRED", "NO_TARGET_AVAILABLE"]),
    ("evaluate failback", FAILBACK),
    ("assess failback", FAILBACK),
    ("switchover", &["SWITCHED", "FENCE_REQUIRED"]),
    ("assess switchover", &["SWITCHED", "FENCE_REQUIRED"]),
    ("rearm", &["SWITCHED"]),
];
const FAILBACK: &[&str] =
    &["NO_ACTION", "COOLDOWN_ACTIVE", "NOT_STABLE_YET", "FLAP_SUPPRESSED", "FENCE_REQUIRED", "SWITCHED"];

const REFUSALS: [(&str, &[&str]); 16] = [
    ("evaluate failover", &["NO_ACTIVE_ENDPOINT", "STALE_FENCE"]),
    ("evaluate failback", &["NO_ACTIVE_ENDPOINT", "STALE_FENCE"]),
    ("assess failover", &["NO_ACTIVE_ENDPOINT", "STALE_FENCE"]),
    ("assess failback", &["NO_ACTIVE_ENDPOINT", "STALE_FENCE"]),
    ("switchover", SWITCHOVER),
    ("assess switchover", SWITCHOVER),
    ("rearm", &["NO_ACTIVE_ENDPOINT", "NOT_REARMABLE"]),
    ("fence_started", &["NO_ACTIVE_ENDPOINT", "STALE_FENCE"]),
    ("switch_failed", &["NO_ACTIVE_ENDPOINT", "STALE_FENCE"]),
    ("reconciled", &["NOT_RECONCILING", "STALE_RECONCILE"]),
    ("resume", &["NOT_HALTED"]),
    ("register", &["BLANK_FIELD", "DUPLICATE_ENDPOINT", "SECOND_PRIMARY"]),
    ("update", &["UNKNOWN_ENDPOINT", "BLANK_FIELD", "ROLE_CHANGE", "ENDPOINT_IS_ACTIVE"]),
    ("validate", &["NO_PRIMARY", "TOO_FEW_ENDPOINTS", "ACCOUNT_MISMATCH"]),
    ("maintenance", &["UNKNOWN_ENDPOINT"]),
    ("bar", &["UNKNOWN_ENDPOINT"]),
];
const SWITCHOVER: &[&str] =
    &["NO_ACTIVE_ENDPOINT", "STALE_FENCE", "UNKNOWN_ENDPOINT", "ALREADY_ACTIVE", "TARGET_NOT_ELIGIBLE"];

const WORDS: [&str; 32] = [
    "missing is a failure",
    "missing is noted",
    "probe after a stop",
    "tick after a stop",
    "due after a stop",
    "in a row: success, HEALTHY",
    "in a row: failure, DEGRADED",
    "in a row: failure, DEGRADED, too short a history",
    "in a row: failure, DOWN",
    "in a window: success, HEALTHY",
    "in a window: failure, DEGRADED",
    "in a window: failure, DEGRADED, too short a history",
    "in a window: failure, DOWN",
    "among the newest: success, HEALTHY",
    "among the newest: success, DOWN",
    "among the newest: failure, DEGRADED",
    "among the newest: failure, DEGRADED, too short a history",
    "among the newest: failure, DOWN",
    "FAILOVER",
    "FAILBACK",
    "SWITCHOVER",
    "REARM",
    "STALE_ACTIVE",
    "NEVER_PROBED_ACTIVE",
    "FENCE_UNUSED",
    "HEALTHY",
    "DEGRADED",
    "DOWN",
    "COOLDOWN_ACTIVE with earliest_at",
    "COOLDOWN_ACTIVE without earliest_at",
    "FLAP_SUPPRESSED with earliest_at",
    "FLAP_SUPPRESSED without earliest_at",
];

/// Every edge of the order-flow table, with the loops that the table names.
fn demanded_edges() -> Vec<[&'static str; 3]> {
    let mut edges = EDGES.to_vec();
    for state in ["STARTING", "OPEN", "SWITCHING", "RECONCILING"] {
        edges.extend([
            [state, "evaluate failover FENCE_REQUIRED", "SWITCHING"],
            [state, "fence_started", "SWITCHING"],
            [state, "switch_failed", "SWITCHING"],
            [state, "SWITCHED", "RECONCILING"],
            // require_reconciliation = false
            [state, "SWITCHED", "OPEN"],
            [state, "evaluate failover NO_TARGET_AVAILABLE", "HALT NO_TARGET_AVAILABLE"],
            [state, "evaluate failback FENCE_REQUIRED", state],
            [state, "switchover FENCE_REQUIRED", state],
            [state, "evaluate failback NO_ACTION", state],
            [state, "evaluate failover NO_ACTION", state],
            [state, "failure of the active", state],
            [state, "halt", "HALT coded"],
            [state, "restart monitor", state],
        ]);
    }
    for halt in ["HALT NO_TARGET_AVAILABLE", "HALT coded"] {
        edges.extend([
            [halt, "evaluate failover FENCE_REQUIRED", halt],
            [halt, "evaluate failover NO_ACTION", halt],
            [halt, "evaluate failover NO_TARGET_AVAILABLE", halt],
            [halt, "SWITCHED", halt],
            [halt, "fence_started", halt],
            [halt, "switch_failed", halt],
            [halt, "success of the active", halt],
            [halt, "restart gateway", halt],
            [halt, "restart monitor", halt],
            [halt, "halt", "HALT coded"],
            [halt, "resume", "RECONCILING"],
            [halt, "resume", "SWITCHING"],
        ]);
    }
    edges
}

const EDGES: [[&str; 3]; 17] = [
    ["STARTING", "success of the active", "OPEN"],
    ["STARTING", "restart gateway", "RECONCILING"],
    ["OPEN", "success of the active", "OPEN"],
    ["OPEN", "restart gateway", "RECONCILING"],
    ["SWITCHING", "evaluate failover NO_ACTION", "RECONCILING"],
    ["SWITCHING", "success of the active", "SWITCHING"],
    ["SWITCHING", "restart gateway", "SWITCHING"],
    ["RECONCILING", "success of the active", "RECONCILING"],
    ["RECONCILING", "reconciled", "OPEN"],
    ["RECONCILING", "reconciled", "STARTING"],
    ["RECONCILING", "restart gateway", "RECONCILING"],
    ["HALT NO_TARGET_AVAILABLE", "evaluate failover NO_ACTION", "RECONCILING"],
    ["HALT NO_TARGET_AVAILABLE", "SWITCHED", "RECONCILING"],
    ["STARTING, no active", "restart gateway", "STARTING, no active"],
    ["STARTING, no active", "register", "STARTING"],
    ["HALT coded, no active", "register", "HALT coded"],
    ["HALT coded, no active", "resume", "STARTING, no active"],
];
