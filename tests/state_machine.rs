//! The tables of `references/state-machine.md`, read from the document and driven through the engine: every state, every
//! input, every cell. What the document says is what is compared, so neither can change without the other.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;
use std::{fmt, fs};

use broker_failover::engine::*;

const SECOND: u64 = 1_000_000_000;
/// The epoch of a [`World`], and its endpoints: the primary and two backups.
const EPOCH: u64 = 4;
const EAST: EndpointId = EndpointId::from_index(0);
const WEST: EndpointId = EndpointId::from_index(1);
const LINE: EndpointId = EndpointId::from_index(2);

// ---- Order flow -----------------------------------------------------------------------------------------------------

#[test]
fn every_cell_of_the_tables_is_what_the_engine_does() {
    let document = Document::read();
    let table = document.table("The table");
    let open_at_once = document.table("Without reconciliation");
    let latched = document.table("When only an operator resumes");
    let driven: BTreeSet<_> = INPUTS.iter().map(|input| input.name).collect();
    assert_eq!(table.names(), driven, "the rows of the table, and the inputs that this test knows");
    for other in [&open_at_once, &latched] {
        assert_eq!(other.columns, table.columns);
        assert!(other.names().is_subset(&driven));
    }

    let mut cells = 0;
    for (reconcile, operator_resumes) in [(true, false), (false, false), (true, true), (false, true)] {
        for column in &table.columns {
            for input in INPUTS {
                let in_engines_halt = column.starts_with("NO_TARGET");
                let differing = [(&latched, operator_resumes && in_engines_halt), (&open_at_once, !reconcile)];
                let differing = differing.into_iter().filter(|(_, holds)| *holds);
                let cell = differing.filter_map(|(table, _)| table.cell(input.name, column)).next();
                let cell = cell.or_else(|| table.cell(input.name, column)).expect("the table has every row");
                let world = World::in_state(column, reconcile, operator_resumes);
                drive(&world, column, input, cell).unwrap_or_else(|wrong| {
                    panic!("{column}, {}: {wrong} ({reconcile}, {operator_resumes})", input.name)
                });
                cells += 1;
            }
        }
        // A row of a smaller table must say the same as the large one where its policy makes no difference.
        if reconcile && operator_resumes {
            for (row, cells) in &latched.rows {
                for (column, cell) in latched.columns.iter().zip(cells) {
                    let same = column.starts_with("NO_TARGET") || table.cell(row, column) == Some(cell.as_str());
                    assert!(same, "{row}, {column}: {cell} differs without a reason");
                }
            }
        }
    }
    assert_eq!(cells, 4 * 9 * INPUTS.len());
}

/// Gives the input to an engine in the state of the column and compares with the cell.
fn drive(world: &World, column: &str, input: &Input, cell: &str) -> Result<(), String> {
    let mut world = world.clone();
    assert_eq!(world.state(), column, "the way into the state");
    (input.prepare)(&mut world);
    let (prepared, before) = (world.state(), world.clone());
    let answers = (input.apply)(&mut world);
    let arises = prepared == column && answers.iter().all(|answer| answer.shows(input.name));
    if cell == "–" {
        return if arises { Err(format!("it arises, with {answers:?}")) } else { Ok(()) };
    }
    if !arises {
        return Err(format!("it does not arise: {prepared} before, {answers:?}"));
    }
    let flow = |state: &str| state.strip_suffix(", spent").unwrap_or(state).to_owned();
    let found = flow(&world.state());
    for answer in &answers {
        match answer {
            Answer::Refused(code) if *code == cell => {
                assert_eq!(world.engine, before.engine, "a refused input changes nothing");
            }
            Answer::Refused(code) => return Err(format!("refused with {code}; the table says {cell}")),
            Answer::Taken { .. } => {
                let expected = if cell == "=" { flow(column) } else { cell.to_owned() };
                if found != expected {
                    return Err(format!("it became {found}; the table says {cell}"));
                }
            }
        }
    }
    let (flow_before, flow_after) = (before.engine.order_flow(), world.engine.order_flow());
    // An ordered halt takes the code of the latest order.
    if cell == "=" && flow_after != flow_before && found != "ORDERED" {
        return Err(format!("{flow_before:?} became {flow_after:?}; the table says that it stays"));
    }
    if let Some(Answer::Taken { flow: Some(told), .. }) = answers.last() {
        assert_eq!(*told, flow_after, "the answer tells order flow as it is");
    }
    if let OrderFlow::Open { endpoint, epoch } = flow_after {
        assert_eq!((Some(endpoint), Some(epoch)), (world.engine.active(), world.engine.epoch()));
        assert!(!world.engine.is_spent());
    }
    Ok(())
}

/// A row: how the evidence comes about that its label speaks of, and the input.
struct Input {
    name: &'static str,
    prepare: fn(&mut World),
    apply: fn(&mut World) -> Vec<Answer>,
}

/// What an engine answered.
#[derive(Clone, Debug)]
enum Answer {
    Refused(&'static str),
    Taken { outcome: String, flow: Option<OrderFlow> },
}

impl Answer {
    fn flow(result: Result<OrderFlow, EngineError>) -> Self {
        Self::of(result, |flow| (String::new(), Some(flow)))
    }

    fn decision(result: Result<FailoverDecision, EngineError>) -> Self {
        Self::of(result, |decision| {
            let kind = decision.event().map_or(String::new(), |event| format!(", kind {}", event.kind.name()));
            (format!("{}{kind}", decision.outcome.name()), Some(decision.order_flow()))
        })
    }

    fn done<T>(result: Result<T, EngineError>) -> Self {
        Self::of(result, |_| (String::new(), None))
    }

    fn of<T>(result: Result<T, EngineError>, taken: impl FnOnce(T) -> (String, Option<OrderFlow>)) -> Self {
        match result {
            Err(error) => Self::Refused(error.code()),
            Ok(value) => {
                let (outcome, flow) = taken(value);
                Self::Taken { outcome, flow }
            }
        }
    }

    /// Whether the outcome is the one that the label of a row names, if it names one.
    fn shows(&self, label: &str) -> bool {
        match (label.split_once(": "), self) {
            (Some((question, named)), Self::Taken { outcome, .. })
                if question.starts_with("evaluate") || question == "switchover" =>
            {
                let named = named.strip_suffix(", proven").or(named.strip_suffix(", not proven")).unwrap_or(named);
                outcome == named || outcome.starts_with(&format!("{named}, kind "))
            }
            _ => true,
        }
    }
}

const INPUTS: &[Input] = &[
    Input { name: "probe of the active path: success", prepare: nothing, apply: |w| vec![w.probe(WEST, true)] },
    Input {
        name: "probe of the active path: failure, DOWN too",
        prepare: nothing,
        apply: |w| vec![w.probe(WEST, false), w.probe(WEST, false), w.probe(WEST, false)],
    },
    Input {
        name: "probe of another endpoint",
        prepare: nothing,
        apply: |w| vec![w.probe(LINE, true), w.probe(EAST, false), w.probe(LINE, false), w.probe(EAST, true)],
    },
    Input {
        name: "evaluate failover: NO_ACTION, proven",
        prepare: |w| w.evidence(&[(WEST, "+")]),
        apply: |w| vec![w.failover(false)],
    },
    Input {
        name: "evaluate failover: NO_ACTION, not proven",
        prepare: |w| w.evidence(&[(WEST, "x")]),
        apply: |w| vec![w.failover(false)],
    },
    Input {
        name: "evaluate failover: FENCE_REQUIRED",
        prepare: |w| w.evidence(&[(WEST, "xx"), (LINE, "+")]),
        apply: |w| vec![w.failover(false)],
    },
    Input {
        name: "evaluate failover: SWITCHED, kind FAILOVER",
        prepare: |w| w.evidence(&[(WEST, "xx"), (LINE, "+")]),
        apply: |w| vec![w.failover(true)],
    },
    Input {
        name: "evaluate failover: SWITCHED, kind REARM",
        prepare: |w| w.evidence(&[(WEST, "++")]),
        apply: |w| vec![w.failover(false)],
    },
    Input {
        name: "evaluate failover: NO_TARGET_AVAILABLE",
        prepare: |w| w.evidence(&[(WEST, "xx"), (EAST, "x"), (LINE, "xx")]),
        apply: |w| vec![w.failover(true), w.failover(false)],
    },
    Input {
        name: "evaluate failback: NO_ACTION",
        prepare: |w| w.evidence(&[]),
        apply: |w| vec![w.failback(false), w.failback(true)],
    },
    Input {
        name: "evaluate failback: COOLDOWN_ACTIVE",
        prepare: |w| w.evidence(&[(EAST, "++")]),
        apply: |w| vec![w.failback(false), w.failback(true)],
    },
    Input {
        name: "evaluate failback: NOT_STABLE_YET",
        prepare: |w| w.after(50).evidence(&[(EAST, "+")]),
        apply: |w| vec![w.failback(false), w.failback(true)],
    },
    Input {
        name: "evaluate failback: FLAP_SUPPRESSED",
        prepare: |w| w.after(50).evidence(&[(EAST, "++")]),
        apply: |w| vec![w.failback(false), w.failback(true)],
    },
    Input {
        name: "evaluate failback: FENCE_REQUIRED",
        prepare: |w| w.after(2_000).evidence(&[(EAST, "++")]),
        apply: |w| vec![w.failback(false)],
    },
    Input {
        name: "evaluate failback: SWITCHED",
        prepare: |w| w.after(2_000).evidence(&[(EAST, "++")]),
        apply: |w| vec![w.failback(true)],
    },
    Input {
        name: "switchover: FENCE_REQUIRED",
        prepare: |w| w.evidence(&[(LINE, "+")]),
        apply: |w| vec![w.switchover("line", false)],
    },
    Input {
        name: "switchover: SWITCHED",
        prepare: |w| w.evidence(&[(LINE, "+")]),
        apply: |w| vec![w.switchover("line", true)],
    },
    Input { name: "rearm, proven", prepare: |w| w.evidence(&[(WEST, "+")]), apply: |w| vec![w.rearm()] },
    Input { name: "rearm, not proven", prepare: |w| w.evidence(&[(WEST, "x")]), apply: |w| vec![w.rearm()] },
    Input {
        name: "fence_started, this epoch",
        prepare: nothing,
        apply: |w| vec![Answer::flow(w.engine.fence_started(EPOCH)), Answer::flow(w.engine.fence_started(EPOCH))],
    },
    Input {
        name: "fence_started, another epoch",
        prepare: nothing,
        apply: |w| [0, EPOCH - 1, EPOCH + 1, u64::MAX].map(|epoch| Answer::flow(w.engine.fence_started(epoch))).into(),
    },
    Input {
        name: "switch_failed, this epoch",
        prepare: nothing,
        apply: |w| vec![Answer::flow(w.engine.switch_failed(EPOCH)), Answer::flow(w.engine.switch_failed(EPOCH))],
    },
    Input {
        name: "switch_failed, another epoch",
        prepare: nothing,
        apply: |w| [0, EPOCH - 1, EPOCH + 1, u64::MAX].map(|epoch| Answer::flow(w.engine.switch_failed(epoch))).into(),
    },
    Input {
        name: "reconciled, this epoch, proven",
        prepare: |w| w.evidence(&[(WEST, "+")]),
        apply: |w| vec![w.reconciled(EPOCH)],
    },
    Input {
        name: "reconciled, this epoch, not proven",
        prepare: |w| w.evidence(&[(WEST, "x")]),
        apply: |w| vec![w.reconciled(EPOCH)],
    },
    Input {
        name: "reconciled, another epoch",
        prepare: nothing,
        apply: |w| [0, EPOCH - 1, EPOCH + 1, u64::MAX].map(|epoch| w.reconciled(epoch)).into(),
    },
    Input { name: "halt", prepare: nothing, apply: |w| vec![w.halt("COMPETING_SESSION"), w.halt(HaltOrder::OPERATOR)] },
    Input { name: "resume", prepare: nothing, apply: |w| vec![Answer::flow(w.engine.resume())] },
    Input { name: "restart of the gateway", prepare: nothing, apply: |w| vec![w.restart(RestartKind::Gateway)] },
    Input { name: "restart of the monitor", prepare: nothing, apply: |w| vec![w.restart(RestartKind::Monitor)] },
    Input { name: "any question with a stale confirmation", prepare: nothing, apply: World::with_stale_confirmations },
    Input { name: "any assessment", prepare: |w| w.evidence(&[(LINE, "+")]), apply: World::assessments },
    Input {
        name: "register, update, maintenance, bar, validate, tick, due",
        prepare: nothing,
        apply: |w| {
            let update =
                EndpointUpdate { url: Some("elsewhere".into()), priority: Some(1), ..EndpointUpdate::default() };
            let priority = EndpointUpdate { priority: Some(9), ..EndpointUpdate::default() };
            assert_eq!(w.engine.validate_configuration(), Ok(()));
            vec![
                Answer::done(w.engine.register(Endpoint::backup("radio", "r", "u", 30))),
                Answer::done(w.engine.update_endpoint("line", update)),
                Answer::done(w.engine.update_endpoint("west", priority)),
                Answer::done(w.engine.set_maintenance("line", true)),
                Answer::done(w.engine.set_maintenance("west", true)),
                Answer::done(w.engine.set_maintenance("east", true)),
                Answer::done(w.engine.set_bar("line", BarCause::Depth, true)),
                Answer::done(w.engine.set_bar("west", BarCause::AccountMismatch, true)),
                Answer::done(w.engine.set_bar("west", BarCause::AccountMismatch, false)),
                Answer::done(w.engine.due(w.now, WEST, Duration::from_secs(1))),
                Answer::done(Ok::<_, EngineError>(w.engine.tick(w.now))),
            ]
        },
    },
];

fn nothing(_: &mut World) {}

/// Three endpoints, west active in epoch 4 after a failover, a failback and another failover.
#[derive(Clone)]
struct World {
    engine: Engine,
    now: Timestamp,
}

impl World {
    fn new(require_reconciliation: bool, operator_resumes: bool) -> Self {
        let settings = PolicySettings {
            failure_threshold: 2,
            cooldown: Duration::from_secs(10),
            failback_success_threshold: 2,
            max_failbacks_per_window: 1,
            failback_window: Duration::from_secs(1_000),
            require_reconciliation,
            resume_after_halt: if operator_resumes { ResumeAfterHalt::Operator } else { ResumeAfterHalt::Reconcile },
            ..PolicySettings::default()
        };
        let mut engine = Engine::new(Policy::new(settings).expect("the policy is within its bounds"));
        let endpoints = [
            Endpoint::primary("east", "r", "e"),
            Endpoint::backup("west", "r", "w", 10),
            Endpoint::backup("line", "r", "l", 20),
        ];
        let ids = endpoints.map(|endpoint| engine.register(endpoint).expect("it can be registered"));
        assert_eq!(ids, [EAST, WEST, LINE]);
        let mut world = Self { engine, now: Timestamp::ZERO };
        world.results(&[(EAST, "+"), (WEST, "+"), (LINE, "+"), (EAST, "xx")]);
        world.expect_switch(|w| w.failover(true));
        world.after(20).results(&[(EAST, "++"), (WEST, "+")]);
        world.expect_switch(|w| w.failback(true));
        world.after(20).results(&[(EAST, "xx"), (WEST, "+")]);
        world.expect_switch(|w| w.failover(true));
        if world.engine.order_flow() == hold(HoldReason::Reconciling) {
            world.reconciled(EPOCH);
        }
        assert_eq!((world.engine.active(), world.engine.epoch()), (Some(WEST), Epoch::new(EPOCH)));
        world
    }

    /// The canonical way into each state of the table.
    fn in_state(column: &str, require_reconciliation: bool, operator_resumes: bool) -> Self {
        let mut world = Self::new(require_reconciliation, operator_resumes);
        let (state, spent) = match column.strip_suffix(", spent") {
            Some(state) => (state, true),
            None => (column, false),
        };
        match state {
            "OPEN" => {}
            "RECONCILING" => drop(world.restart(RestartKind::Gateway)),
            "STARTING" => {
                world.restart(RestartKind::Gateway);
                world.reconciled(EPOCH);
            }
            "SWITCHING" => {
                world.results(&[(LINE, "+"), (WEST, "xx")]);
                world.failover(false);
            }
            "NO_TARGET" => {
                world.results(&[(LINE, "xx"), (WEST, "xx")]);
                world.failover(false);
            }
            "ORDERED" => drop(world.halt(if spent { "RISK_LIMIT" } else { HaltOrder::OPERATOR })),
            _ => panic!("no way into {column}"),
        }
        if spent {
            Answer::flow(world.engine.fence_started(EPOCH));
        }
        world
    }

    /// The column that the engine is in.
    fn state(&self) -> String {
        let flow = match self.engine.order_flow() {
            OrderFlow::Open { .. } => "OPEN",
            OrderFlow::Hold { reason } => reason.name(),
            OrderFlow::Halt { code: HaltCode::NoTargetAvailable } => "NO_TARGET",
            OrderFlow::Halt { code: HaltCode::Operator | HaltCode::Caller } => "ORDERED",
        };
        if self.engine.is_spent() { format!("{flow}, spent") } else { flow.to_owned() }
    }

    fn after(&mut self, seconds: u64) -> &mut Self {
        self.now = Timestamp::from_nanos(self.now.as_nanos() + seconds * SECOND);
        self
    }

    /// Only these results count: what was known of health is forgotten first, as a restart of the monitor does.
    fn evidence(&mut self, results: &[(EndpointId, &str)]) {
        self.restart(RestartKind::Monitor);
        self.results(results);
    }

    fn results(&mut self, results: &[(EndpointId, &str)]) {
        for (id, marks) in results {
            for mark in marks.chars() {
                self.probe(*id, mark == '+');
            }
        }
    }

    fn probe(&mut self, id: EndpointId, ok: bool) -> Answer {
        let result = if ok { ProbeResult::Success } else { ProbeResult::FAILED };
        Answer::done(self.engine.record_probe(self.now, id, result))
    }

    fn fence(&self, confirmed: bool) -> FenceStatus {
        match (confirmed, self.engine.active(), self.engine.epoch()) {
            (true, Some(endpoint), Some(epoch)) => FenceStatus::Confirmed { endpoint, epoch: epoch.get() },
            _ => FenceStatus::Unconfirmed,
        }
    }

    fn failover(&mut self, fenced: bool) -> Answer {
        Answer::decision(self.engine.evaluate_failover(self.now, self.fence(fenced)))
    }

    fn failback(&mut self, fenced: bool) -> Answer {
        Answer::decision(self.engine.evaluate_failback(self.now, self.fence(fenced)))
    }

    fn switchover(&mut self, target: &str, fenced: bool) -> Answer {
        Answer::decision(self.engine.switchover(self.now, target, self.fence(fenced)))
    }

    fn rearm(&mut self) -> Answer {
        Answer::decision(self.engine.rearm(self.now))
    }

    fn reconciled(&mut self, epoch: u64) -> Answer {
        Answer::flow(self.engine.confirm_reconciled(self.now, epoch))
    }

    fn halt(&mut self, code: &str) -> Answer {
        Answer::flow(HaltOrder::new(code, "the test asked").map(|order| self.engine.halt(order)))
    }

    fn restart(&mut self, kind: RestartKind) -> Answer {
        let snapshot = self.engine.snapshot(self.now);
        let policy = self.engine.policy().clone();
        self.engine = Engine::restore(policy, snapshot, self.now, kind).expect("its own snapshot restores");
        Answer::flow(Ok(self.engine.order_flow()))
    }

    fn with_stale_confirmations(&mut self) -> Vec<Answer> {
        let now = self.now;
        let stale = [(WEST, 0), (WEST, EPOCH - 1), (WEST, EPOCH + 1), (LINE, EPOCH)];
        let mut answers = Vec::new();
        for fence in stale.map(|(endpoint, epoch)| FenceStatus::Confirmed { endpoint, epoch }) {
            answers.push(self.engine.evaluate_failover(now, fence));
            answers.push(self.engine.evaluate_failback(now, fence));
            answers.push(self.engine.switchover(now, "nowhere", fence));
            answers.push(self.engine.assess_failover(now, fence));
            answers.push(self.engine.assess_failback(now, fence));
            answers.push(self.engine.assess_switchover(now, "west", fence));
        }
        answers.into_iter().map(Answer::decision).collect()
    }

    fn assessments(&mut self) -> Vec<Answer> {
        let before = self.engine.clone();
        let mut answers = Vec::new();
        for fence in [self.fence(false), self.fence(true)] {
            answers.push(self.engine.assess_failover(self.now, fence));
            answers.push(self.engine.assess_failback(self.now, fence));
            answers.push(self.engine.assess_switchover(self.now, "line", fence));
        }
        assert_eq!(self.engine, before, "an assessment changes nothing");
        // What they tell of order flow is what would be.
        answers.into_iter().map(Answer::done).collect()
    }

    fn expect_switch(&mut self, ask: impl FnOnce(&mut Self) -> Answer) {
        let answer = ask(self);
        assert!(matches!(&answer, Answer::Taken { outcome, .. } if outcome.starts_with("SWITCHED")), "{answer:?}");
    }
}

const fn hold(reason: HoldReason) -> OrderFlow {
    OrderFlow::Hold { reason }
}

#[test]
fn nothing_is_active_before_a_primary_is_registered() {
    let table = Document::read().table("Nothing is active");
    let mut driven = BTreeSet::new();
    for column in &table.columns {
        for (row, _) in &table.rows {
            let cell = table.cell(row, column).expect("the table has this cell");
            let mut engine = Engine::new(Policy::default());
            let backup = engine.register(Endpoint::backup("west", "r", "w", 10)).expect("it can be registered");
            if column == "ORDERED" {
                assert!(engine.halt(HaltOrder::operator("the test asked")).is_halt());
            }
            let before = engine.clone();
            let answers = without_active(&mut engine, backup, row).unwrap_or_else(|| panic!("{row}: not known here"));
            driven.insert(row.clone());
            let flow = match engine.order_flow() {
                OrderFlow::Hold { reason } => reason.name(),
                OrderFlow::Halt { code: HaltCode::Operator } => "ORDERED",
                other => panic!("{row}, {column}: {other:?}"),
            };
            for answer in answers {
                match answer {
                    Answer::Refused(code) => {
                        assert_eq!(code, cell, "{row}, {column}");
                        assert_eq!(engine, before, "{row}, {column}");
                    }
                    Answer::Taken { .. } => {
                        assert_eq!(flow, if cell == "=" { column.as_str() } else { cell }, "{row}, {column}");
                    }
                }
            }
            assert_eq!(engine.epoch().map(Epoch::get), (row == "register of the primary").then_some(1), "{row}");
            assert!(!engine.is_spent() && !engine.permits(OrderAction::Submit), "{row}");
        }
    }
    assert_eq!(driven.len(), 16);
}

fn without_active(engine: &mut Engine, backup: EndpointId, row: &str) -> Option<Vec<Answer>> {
    let now = Timestamp::from_nanos(SECOND);
    let claims = [FenceStatus::Unconfirmed, FenceStatus::Confirmed { endpoint: backup, epoch: 1 }];
    let mut ask = |ask: &dyn Fn(&mut Engine, FenceStatus) -> Result<FailoverDecision, EngineError>| {
        claims.map(|claim| Answer::decision(ask(engine, claim))).to_vec()
    };
    let restart = |engine: &mut Engine, kind| {
        let restored = Engine::restore(engine.policy().clone(), engine.snapshot(now), now, kind);
        *engine = restored.expect("its own snapshot restores");
        vec![Answer::flow(Ok(engine.order_flow()))]
    };
    Some(match row {
        "probe of a backup" => vec![Answer::done(engine.record_probe(now, backup, ProbeResult::Success))],
        "evaluate failover" => ask(&|engine, claim| engine.evaluate_failover(now, claim)),
        "evaluate failback" => ask(&|engine, claim| engine.evaluate_failback(now, claim)),
        "switchover" => ask(&|engine, claim| engine.switchover(now, "nowhere", claim)),
        "any assessment" => [
            ask(&|engine, claim| engine.assess_failover(now, claim)),
            ask(&|engine, claim| engine.assess_failback(now, claim)),
            ask(&|engine, claim| engine.assess_switchover(now, "west", claim)),
        ]
        .concat(),
        "rearm" => vec![Answer::decision(engine.rearm(now))],
        "fence_started" => vec![Answer::flow(engine.fence_started(1))],
        "switch_failed" => vec![Answer::flow(engine.switch_failed(1))],
        "reconciled" => vec![Answer::flow(engine.confirm_reconciled(now, 1))],
        "halt" => vec![Answer::flow(Ok(engine.halt(HaltOrder::operator("again"))))],
        "resume" => vec![Answer::flow(engine.resume())],
        "restart of the gateway" => restart(engine, RestartKind::Gateway),
        "restart of the monitor" => restart(engine, RestartKind::Monitor),
        "validate" => vec![match engine.validate_configuration() {
            Err(error) => Answer::Refused(error.code()),
            Ok(()) => Answer::done(Ok(())),
        }],
        "register, update, maintenance, bar of a backup" => {
            let update = EndpointUpdate { url: Some("elsewhere".into()), ..EndpointUpdate::default() };
            vec![
                Answer::done(engine.register(Endpoint::backup("line", "r", "l", 20))),
                Answer::done(engine.update_endpoint("west", update)),
                Answer::done(engine.set_maintenance("west", true)),
                Answer::done(engine.set_bar("west", BarCause::SharedFate, true)),
            ]
        }
        "register of the primary" => vec![Answer::done(engine.register(Endpoint::primary("east", "r", "e")))],
        _ => return None,
    })
}

#[test]
fn each_state_permits_what_its_row_says() {
    let document = Document::read();
    let table = document.table("What each state permits");
    assert_eq!(table.columns, ["submit", "cancel", "query"]);
    let mut states = BTreeSet::new();
    for column in document.table("The table").columns {
        let state = column.strip_suffix(", spent").unwrap_or(&column).to_owned();
        for (marks, healthy) in [("", false), ("x", false), ("xx", false), ("+", true)] {
            let mut world = World::in_state(&column, true, false);
            world.restart(RestartKind::Monitor);
            world.results(&[(WEST, marks)]);
            if world.state() != column {
                continue; // A success opened STARTING.
            }
            let able = healthy && !world.engine.is_spent();
            for (action, name) in
                [(OrderAction::Submit, "submit"), (OrderAction::Cancel, "cancel"), (OrderAction::Query, "query")]
            {
                let permitted = match table.cell(&state, name) {
                    Some("yes") => true,
                    Some("no") => false,
                    Some("if able") => able,
                    other => panic!("{state}, {name}: {other:?}"),
                };
                assert_eq!(world.engine.permits(action), permitted, "{column}, {name}, west {marks:?}");
            }
        }
        states.insert(state);
    }
    assert_eq!(states, table.names().into_iter().map(str::to_owned).collect());
}

// ---- Health -----------------------------------------------------------------------------------------------------------

#[test]
fn health_follows_its_table() {
    let table = Document::read().table("Health of an endpoint");
    assert_eq!(table.names(), BTreeSet::from(["UNKNOWN", "HEALTHY", "DEGRADED", "DOWN"]));
    let mut cells = 0;
    for (state, _) in &table.rows {
        for column in &table.columns {
            // The threshold decides which failure is the first that makes DOWN: a failure from each state must be able to be
            // either, so it is set for the number of failures that the state has behind it.
            let behind = match state.as_str() {
                "DEGRADED" => 1,
                "DOWN" => 3,
                _ => 0,
            };
            let threshold = match (column.as_str(), state.as_str()) {
                ("failure, fewer than K in a row", "DOWN") => {
                    assert_eq!(table.cell(state, column), Some("–"), "a DOWN endpoint has K failures behind it");
                    continue;
                }
                ("failure, fewer than K in a row", _) => behind + 2,
                (_, "DEGRADED") => 2,
                (_, "DOWN") => 3,
                _ => 1,
            };
            let settings = PolicySettings { failure_threshold: threshold, ..PolicySettings::default() };
            let mut engine = Engine::new(Policy::new(settings).expect("the policy is within its bounds"));
            let id = engine.register(Endpoint::backup("west", "r", "w", 10)).expect("it can be registered");
            let now = Timestamp::from_nanos(SECOND);
            if state == "HEALTHY" {
                engine.record_probe(now, id, ProbeResult::Success).expect("it is registered");
            }
            for _ in 0..behind {
                engine.record_probe(now, id, ProbeResult::FAILED).expect("it is registered");
            }
            assert_eq!(engine.health(id).map(|health| health.state().name()), Some(state.as_str()), "{column}");
            let mut probe = |result| assert!(engine.record_probe(now, id, result).is_ok());
            match column.as_str() {
                "success" => probe(ProbeResult::Success),
                "failure, fewer than K in a row" | "failure, K or more in a row" => probe(ProbeResult::FAILED),
                "restart" => {
                    let restored =
                        Engine::restore(engine.policy().clone(), engine.snapshot(now), now, RestartKind::Monitor);
                    engine = restored.expect("its own snapshot restores");
                }
                "changed address" => {
                    let update = EndpointUpdate { url: Some("elsewhere".into()), ..EndpointUpdate::default() };
                    engine.update_endpoint("west", update).expect("it is not active");
                }
                _ => panic!("{column}: not known here"),
            }
            let found = engine.health(id).map(|health| health.state().name());
            assert_eq!(found, table.cell(state, column), "{state}, {column}");
            cells += 1;
        }
    }
    assert_eq!(cells, 4 * 5 - 1);
}

/// Results of one endpoint, by mark, under a trigger of 2 of 3 and a history of so many, before the result in question.
fn marks_before(state: &str, column: &str) -> Option<(u32, &'static str)> {
    let (holds, least) = match column {
        "success, its condition holds" => (true, 5),
        "success, it does not hold" => (false, 2),
        "failure, armed and it holds" => (true, 2),
        "failure, otherwise" => (false, 2),
        _ => panic!("{column}: not known here"),
    };
    Some(match (state, holds) {
        ("UNKNOWN", false) => (2, ""),
        // Of 2 of 3, no single result makes it.
        ("UNKNOWN", true) => return None,
        ("HEALTHY", true) if least == 5 => (4, "xx+"),
        ("HEALTHY", true) => (2, "x+"),
        ("HEALTHY", false) => (2, "+"),
        ("DEGRADED", true) if least == 5 => (5, "xx"),
        ("DEGRADED", true) => (2, "x"),
        ("DEGRADED", false) if column.starts_with("failure") => (3, "x"),
        ("DEGRADED", false) => (2, "x"),
        ("DOWN", true) => (2, "xx"),
        ("DOWN", false) if column.starts_with("success") => (2, "xx+"),
        // A trigger that is changed holds no more, and has to be armed anew.
        ("DOWN", false) => (2, "xx!"),
        _ => panic!("{state}: not known here"),
    })
}

#[test]
fn a_trigger_follows_its_table() {
    let table = Document::read().table("What a trigger makes of a result");
    assert_eq!(table.names(), BTreeSet::from(["UNKNOWN", "HEALTHY", "DEGRADED", "DOWN"]));
    assert_eq!(table.columns.len(), 4);
    let trigger = |failures, of| Trigger::new(TriggerRule::Failures { failures, of }).expect("a legal trigger");
    for (state, _) in &table.rows {
        for column in &table.columns {
            let success = column.starts_with("success");
            let (failures, of, minimum, marks) = match (state.as_str(), marks_before(state, column)) {
                ("UNKNOWN", None) if success => {
                    assert_eq!(table.cell(state, column), Some("–"), "{state}, {column}");
                    continue;
                }
                ("UNKNOWN", None) => (1, 1, 1, ""),
                // With 2 of 3 it would hold again with the next failure but for the history.
                ("HEALTHY", Some((minimum, "xx+"))) => (1, 4, minimum.max(4), "xx+"),
                (_, Some((minimum, marks))) => (2, 3, minimum, marks),
                (state, None) => panic!("{state}, {column}"),
            };
            let settings = PolicySettings {
                trigger: Some(trigger(failures, of)),
                minimum_history: Some(minimum.max(failures)),
                ..PolicySettings::default()
            };
            let mut engine = Engine::new(Policy::new(settings).expect("the policy is within its bounds"));
            let id = engine.register(Endpoint::backup("west", "r", "w", 10)).expect("it can be registered");
            let mut probe = |result| {
                engine.record_probe(Timestamp::ZERO, id, result).map(|change| change.to.name()).expect("it is there")
            };
            let mut found = "UNKNOWN";
            let (marks, changed) = (marks.trim_end_matches('!'), marks.ends_with('!'));
            for mark in marks.chars() {
                found = probe(if mark == '+' { ProbeResult::Success } else { ProbeResult::FAILED });
            }
            assert_eq!(found, state.as_str(), "before {column}");
            if changed {
                let update = EndpointUpdate { trigger: Some(trigger(3, 3)), ..EndpointUpdate::default() };
                engine.update_endpoint("west", update).expect("a legal change");
            }
            let result = if success { ProbeResult::Success } else { ProbeResult::FAILED };
            let found = engine.record_probe(Timestamp::ZERO, id, result).map(|change| change.to.name());
            assert_eq!(found.ok(), table.cell(state, column), "{state}, {column}");
        }
    }
}

// ---- Active path, epoch, memory -----------------------------------------------------------------------------------------

/// What is remembered beside health and order flow.
#[derive(Clone, Debug, PartialEq)]
struct Memory {
    active: Option<EndpointId>,
    epoch: Option<Epoch>,
    spent: bool,
    placed: bool,
    last_switch: Option<u64>,
    failbacks: usize,
    history: Vec<HistoryEntry>,
}

impl Memory {
    fn of(world: &World) -> Self {
        let engine = &world.engine;
        Self {
            active: engine.active(),
            epoch: engine.epoch(),
            spent: engine.is_spent(),
            placed: engine.is_operator_placed(),
            last_switch: engine.last_switch_age(world.now),
            failbacks: engine.failback_ages(world.now).count(),
            history: engine.history().collect(),
        }
    }
}

#[test]
fn what_each_switch_changes_beside_order_flow() {
    let table = Document::read().table("Active path, epoch, and what else is remembered");
    for (row, _) in &table.rows {
        for placed in [false, true] {
            let mut world = World::new(true, false);
            world.after(2_000).evidence(&[(EAST, "++"), (LINE, "++")]);
            if placed {
                // From west, where no operator put it, to line.
                world.expect_switch(|w| w.switchover("line", true));
                world.after(2_000).evidence(&[(EAST, "++"), (WEST, "+"), (LINE, "++")]);
            }
            let epoch = world.engine.epoch().map_or(0, Epoch::get);
            let backup = if placed { "west" } else { "line" };
            let active = world.engine.active().expect("a path is active");
            let mut before = Memory::of(&world);
            match row.as_str() {
                "register of the primary" => {
                    world.engine = Engine::new(Policy::default());
                    before = Memory::of(&world);
                    world.engine.register(Endpoint::primary("east", "r", "e")).expect("it is the first");
                }
                "SWITCHED, kind FAILOVER" => {
                    world.results(&[(active, "xx"), (EAST, "xx")]);
                    world.expect_switch(|w| w.failover(true));
                }
                "SWITCHED, kind FAILBACK" if placed => {
                    world.failback(true);
                    assert_eq!(Memory::of(&world), before, "an operator placed it");
                    continue;
                }
                "SWITCHED, kind FAILBACK" => world.expect_switch(|w| w.failback(true)),
                "SWITCHED, kind SWITCHOVER, to a backup" => world.expect_switch(|w| w.switchover(backup, true)),
                "SWITCHED, kind SWITCHOVER, to the primary" => world.expect_switch(|w| w.switchover("east", true)),
                "SWITCHED, kind REARM" => {
                    world.results(&[(active, "++")]);
                    Answer::flow(world.engine.fence_started(epoch));
                    before = Memory::of(&world);
                    world.expect_switch(World::rearm);
                }
                "fence_started" => drop(Answer::flow(world.engine.fence_started(epoch))),
                "switch_failed" => drop(Answer::flow(world.engine.switch_failed(epoch))),
                _ => panic!("{row}: not known here"),
            }
            let after = Memory::of(&world);
            let target = world.engine.id(backup).ok();
            for column in &table.columns {
                let cell = table.cell(row, column).expect("the table has this cell");
                let holds = match (column.as_str(), cell) {
                    ("active", "=") => after.active == before.active,
                    ("active", "target") => after.active == target,
                    ("active", "primary") => after.active == Some(EAST),
                    ("epoch", "=") => after.epoch == before.epoch,
                    ("epoch", "+1") => after.epoch.map(Epoch::get) == before.epoch.map(|epoch| epoch.get() + 1),
                    ("epoch", "1") => after.epoch == Some(Epoch::FIRST),
                    ("spent", "no") => !after.spent,
                    ("spent", "yes") => after.spent,
                    ("placed by an operator", "=") => after.placed == before.placed,
                    ("placed by an operator", yes_or_no) => after.placed == (yes_or_no == "yes"),
                    ("last switch", "=") => after.last_switch == before.last_switch,
                    ("last switch", "now") => after.last_switch == Some(0),
                    ("failbacks inside the window", "=") => after.failbacks == before.failbacks,
                    ("failbacks inside the window", "one more") => after.failbacks == before.failbacks + 1,
                    ("history", "=") => after.history == before.history,
                    ("history", "one more") => {
                        let newest = after.history.last().map(|entry| (entry.applied, Some(entry.event.epoch)));
                        after.history.len() == before.history.len() + 1 && newest == Some((true, after.epoch))
                    }
                    ("history", "not applied") => {
                        let mut marked = before.history.clone();
                        marked.last_mut().expect("there was a switch").applied = false;
                        after.history == marked
                    }
                    _ => panic!("{row}, {column}: {cell:?} is not known here"),
                };
                assert!(holds, "{row}, {column}: not {cell:?}\n{before:?}\n{after:?}");
            }
        }
    }

    // Everything else changes none of it.
    for input in INPUTS.iter().filter(|input| !input.name.contains("SWITCHED") && !input.name.contains("this epoch")) {
        for column in Document::read().table("The table").columns {
            let mut world = World::in_state(&column, true, false);
            (input.prepare)(&mut world);
            let before = Memory::of(&world);
            (input.apply)(&mut world);
            let rearmed = input.name == "rearm, proven" && before.spent;
            assert!(rearmed || Memory::of(&world) == before, "{column}, {}", input.name);
        }
    }
}

// ---- Errors -----------------------------------------------------------------------------------------------------------

#[test]
fn errors_come_in_their_order_and_change_nothing() {
    let table = Document::read().table("Errors and their order");
    let mut told = BTreeSet::new();
    for (input, cells) in &table.rows {
        let codes: Vec<&str> = cells[0].split(", ").collect();
        for (place, code) in codes.iter().enumerate() {
            told.insert((*code).to_owned());
            // 65,536 registrations are too many for a test of every run.
            if *code == "TOO_MANY_ENDPOINTS" {
                continue;
            }
            let found = provoke(input, &codes[place..]);
            assert_eq!(found, *code, "{input}");
        }
    }
    assert_eq!(told, error_codes(), "the codes of the table, and those of the engine");
    let inputs: BTreeSet<_> = table.names();
    for input in [
        "register",
        "update",
        "validate",
        "probe",
        "due",
        "maintenance",
        "bar",
        "evaluate failover",
        "evaluate failback",
    ] {
        assert!(inputs.contains(input), "{input}");
    }
}

/// The error that this input meets in a world in which all of `faults` apply, as far as they can apply at once.
fn provoke(input: &str, faults: &[&str]) -> &'static str {
    let has = |fault: &str| faults.contains(&fault);
    let now = Timestamp::from_nanos(SECOND);
    let mut engine =
        Engine::new(Policy::new(PolicySettings { failure_threshold: 1, ..PolicySettings::default() }).expect("ok"));
    if !has("NO_ACTIVE_ENDPOINT") {
        engine.register(Endpoint::primary("east", "r", "e")).expect("ok");
        engine.register(Endpoint::backup("west", "r", "w", 10)).expect("ok");
    }
    if has("EPOCHS_EXHAUSTED") && !has("NO_ACTIVE_ENDPOINT") {
        let mut snapshot = engine.snapshot(now);
        let active = snapshot.active.as_mut().expect("the primary is active");
        active.epoch = Epoch::LAST;
        if input == "evaluate failback" {
            active.endpoint = "west".to_owned();
        }
        if input == "rearm" {
            (active.spent, snapshot.order_flow) = (true, SnapshotFlow::Switching);
        }
        snapshot.last_switch_age = Some(u64::MAX);
        engine = Engine::restore(engine.policy().clone(), snapshot, now, RestartKind::Monitor).expect("it restores");
        for id in [0, 1].map(EndpointId::from_index) {
            // Whatever would switch, would do so here.
            let down = input == "evaluate failover" && engine.active() == Some(id);
            for _ in 0..3 {
                let result = if down { ProbeResult::FAILED } else { ProbeResult::Success };
                engine.record_probe(now, id, result).expect("it is registered");
            }
        }
    }
    let (active, epoch) = (engine.active(), engine.epoch().map_or(1, Epoch::get));
    let fence = match active {
        _ if has("STALE_FENCE") => FenceStatus::Confirmed { endpoint: EndpointId::from_index(0), epoch: 77 },
        Some(endpoint) => FenceStatus::Confirmed { endpoint, epoch },
        None => FenceStatus::Unconfirmed,
    };
    let text = |fault: &str| if has(fault) { " " } else { "text" }.to_owned();
    if has("NOT_REARMABLE") && active.is_some() {
        // At the last epoch, but DOWN.
        engine.record_probe(now, EndpointId::from_index(0), ProbeResult::FAILED).expect("it is registered");
    }
    let before = engine.clone();
    let answer = match input {
        "register" => {
            let name = if has("DUPLICATE_ENDPOINT") { "west" } else { "line" };
            let endpoint = Endpoint::backup(name, text("BLANK_FIELD"), "l", 20);
            Answer::done(engine.register(Endpoint { primary: has("SECOND_PRIMARY"), ..endpoint }))
        }
        "update" => {
            let name = if has("UNKNOWN_ENDPOINT") { "nowhere" } else { "east" };
            let update = EndpointUpdate {
                region: has("BLANK_FIELD").then(|| text("BLANK_FIELD")),
                url: Some("elsewhere".to_owned()),
                primary: has("ROLE_CHANGE").then_some(false),
                ..EndpointUpdate::default()
            };
            Answer::done(engine.update_endpoint(name, update))
        }
        "validate" => {
            let mut wrong = Engine::new(Policy::default());
            let mut register = |endpoint| assert!(wrong.register(endpoint).is_ok());
            if !has("NO_PRIMARY") {
                register(Endpoint::primary("east", "r", "e").with_account("U1"));
            }
            if !has("TOO_FEW_ENDPOINTS") {
                register(Endpoint::backup("west", "r", "w", 10).with_account("U2"));
            }
            return wrong.validate_configuration().expect_err("it is refused").code();
        }
        "probe" => Answer::done(engine.record_probe(now, EndpointId::from_index(9), ProbeResult::Success)),
        "due" => Answer::done(engine.due(now, EndpointId::from_index(9), Duration::from_secs(1))),
        "maintenance" => Answer::done(engine.set_maintenance("nowhere", true)),
        "bar" => Answer::done(engine.set_bar("nowhere", BarCause::Depth, true)),
        "evaluate failover" => Answer::decision(engine.evaluate_failover(now, fence)),
        "evaluate failback" => {
            // The cooldown of a switch that lies further back than it is known.
            Answer::decision(engine.evaluate_failback(now, fence))
        }
        "switchover" => {
            let target = match () {
                () if has("UNKNOWN_ENDPOINT") => "nowhere",
                () if has("ALREADY_ACTIVE") => "east",
                () => "west",
            };
            if has("TARGET_NOT_ELIGIBLE") && active.is_some() {
                engine.set_maintenance("east", true).expect("it is registered");
                engine.set_maintenance("west", true).expect("it is registered");
            }
            let before = engine.clone();
            let answer = Answer::decision(engine.switchover(now, target, fence));
            assert_eq!(engine, before, "{faults:?}");
            answer
        }
        "rearm" => Answer::decision(engine.rearm(now)),
        "fence_started" => Answer::flow(engine.fence_started(if has("STALE_FENCE") { 77 } else { epoch })),
        "switch_failed" => Answer::flow(engine.switch_failed(if has("STALE_FENCE") { 77 } else { epoch })),
        "reconciled" => {
            if !has("NOT_RECONCILING") {
                let snapshot = engine.snapshot(now);
                engine =
                    Engine::restore(engine.policy().clone(), snapshot, now, RestartKind::Gateway).expect("it restores");
            }
            Answer::flow(engine.confirm_reconciled(now, 77))
        }
        "resume" => Answer::flow(engine.resume()),
        "halt" => Answer::done(HaltOrder::new("NO_TARGET_AVAILABLE", "text")),
        _ => panic!("{input}: not known here"),
    };
    if !matches!(input, "switchover" | "reconciled") {
        assert_eq!(engine, before, "{input} {faults:?}");
    }
    match answer {
        Answer::Refused(code) => code,
        taken @ Answer::Taken { .. } => panic!("{input} {faults:?}: {taken:?}"),
    }
}

/// The codes of the errors, from the library's source: it has no list of them.
fn error_codes() -> BTreeSet<String> {
    let source = fs::read_to_string(root().join("src/engine/error.rs")).expect("the source is there");
    let arms = source.lines().filter_map(|line| line.trim().strip_prefix("Self::")?.split_once("=> \""));
    let codes = arms.filter_map(|(_, code)| Some(code.strip_suffix("\",")?.to_owned()));
    codes.filter(|code| code.chars().all(|c| c.is_ascii_uppercase() || c == '_')).collect()
}

// ---- Invariants ---------------------------------------------------------------------------------------------------------

#[test]
fn every_invariant_names_tests_that_exist_and_every_check_is_an_invariant() {
    let table = Document::read().table("Invariants");
    assert_eq!(table.columns, ["Invariant", "Random", "Exhaustive", "Elsewhere"]);
    let ids: Vec<_> = (1..=table.rows.len()).map(|number| format!("INV-{number:02}")).collect();
    assert_eq!(table.rows.iter().map(|(id, _)| id.clone()).collect::<Vec<_>>(), ids);

    let source = |name: &str| {
        let path = root().join("tests").join(name);
        fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    };
    let (random, exhaustive) = (source("properties.rs"), source("exhaustive.rs"));
    let elsewhere = ["boundaries.rs", "state_machine.rs", "scenarios.rs", "cli.rs", "patience.rs"].map(source).concat();
    let mut named: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for (id, cells) in &table.rows {
        let mut shown = 0;
        for (column, place) in [("Random", &random), ("Exhaustive", &exhaustive), ("Elsewhere", &elsewhere)] {
            let cell = table.cell(id, column).unwrap_or_default();
            for name in cell.split('`').skip(1).step_by(2) {
                assert!(place.contains(&format!("fn {name}(")), "{id}: there is no {name} ({column})");
                named.entry(column).or_default().insert(name.to_owned());
                shown += 1;
            }
        }
        assert!(shown > 0, "{id} is shown by nothing: {cells:?}");
    }

    // And the other way round: what is checked there is listed here.
    let list =
        random.split_once("\nproperties! {").and_then(|(_, rest)| rest.split_once('}')).expect("there is a list").0;
    let properties: BTreeSet<_> =
        list.split(',').map(|name| name.trim().to_owned()).filter(|name| !name.is_empty()).collect();
    assert_eq!(named["Random"], properties);
    let checks = exhaustive.lines().filter_map(|line| line.trim().strip_prefix("(\"INV-")?.split_once("\", "));
    let checks: BTreeSet<_> = checks.filter_map(|(_, name)| Some(name.strip_suffix("),")?.to_owned())).collect();
    assert!(checks.len() > 30, "{checks:?}");
    assert_eq!(named["Exhaustive"], checks);
}

// ---- The document -------------------------------------------------------------------------------------------------------

struct Document(String);

/// A table: the first cell of each row is its name.
struct Table {
    columns: Vec<String>,
    rows: Vec<(String, Vec<String>)>,
}

impl Document {
    fn read() -> Self {
        let path = root().join("references/state-machine.md");
        Self(fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display())))
    }

    /// The first table under a heading.
    fn table(&self, heading: &str) -> Table {
        let lines =
            self.0.lines().skip_while(|line| line.trim_start_matches('#').trim() != heading || !line.starts_with('#'));
        let mut rows =
            lines.skip_while(|line| !line.starts_with('|')).take_while(|line| line.starts_with('|')).map(|line| {
                let cells = line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned());
                cells.collect::<Vec<_>>()
            });
        let columns = rows.next().unwrap_or_else(|| panic!("no table under {heading:?}")).split_off(1);
        let rows = rows.skip(1).map(|mut cells| {
            let rest = cells.split_off(1);
            assert_eq!(rest.len(), columns.len(), "{heading}: {cells:?}");
            (cells.remove(0), rest)
        });
        Table { rows: rows.collect(), columns: columns.clone() }
    }
}

impl Table {
    fn names(&self) -> BTreeSet<&str> {
        let names: BTreeSet<_> = self.rows.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names.len(), self.rows.len(), "a row stands twice");
        names
    }

    fn cell(&self, row: &str, column: &str) -> Option<&str> {
        let column = self.columns.iter().position(|name| name == column)?;
        let (_, cells) = self.rows.iter().find(|(name, _)| name == row)?;
        cells.get(column).map(String::as_str)
    }
}

impl fmt::Debug for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.rows).finish()
    }
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}
