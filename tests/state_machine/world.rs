//! An engine in each state of the tables, and the inputs that it is given.

use std::time::Duration;

use broker_failover::engine::*;

pub(crate) const SECOND: u64 = 1_000_000_000;
/// The epoch of a [`World`], and its endpoints: the primary and two backups.
const EPOCH: u64 = 4;
pub(crate) const EAST: EndpointId = EndpointId::from_index(0);
pub(crate) const WEST: EndpointId = EndpointId::from_index(1);
pub(crate) const LINE: EndpointId = EndpointId::from_index(2);

/// A row: how the evidence comes about that its label speaks of, and the input.
pub(crate) struct Input {
    pub(crate) name: &'static str,
    pub(crate) prepare: fn(&mut World),
    pub(crate) apply: fn(&mut World) -> Vec<Answer>,
}

/// What an engine answered.
#[derive(Clone, Debug)]
pub(crate) enum Answer {
    Refused(&'static str),
    Taken { outcome: String, flow: Option<OrderFlow> },
}

impl Answer {
    pub(crate) fn flow(result: Result<OrderFlow, EngineError>) -> Self {
        Self::of(result, |flow| (String::new(), Some(flow)))
    }

    pub(crate) fn decision(result: Result<FailoverDecision, EngineError>) -> Self {
        Self::of(result, |decision| {
            let kind = decision.event().map_or(String::new(), |event| format!(", kind {}", event.kind.name()));
            (format!("{}{kind}", decision.outcome.name()), Some(decision.order_flow()))
        })
    }

    pub(crate) fn done<T>(result: Result<T, EngineError>) -> Self {
        Self::of(result, |_| (String::new(), None))
    }

    pub(crate) fn of<T>(result: Result<T, EngineError>, taken: impl FnOnce(T) -> (String, Option<OrderFlow>)) -> Self {
        match result {
            Err(error) => Self::Refused(error.code()),
            Ok(value) => {
                let (outcome, flow) = taken(value);
                Self::Taken { outcome, flow }
            }
        }
    }

    /// Whether the outcome is the one that the label of a row names, if it names one.
    pub(crate) fn shows(&self, label: &str) -> bool {
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

pub(crate) const INPUTS: &[Input] = &[
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

pub(crate) fn nothing(_: &mut World) {}

/// Three endpoints, west active in epoch 4 after a failover, a failback and another failover.
#[derive(Clone)]
pub(crate) struct World {
    pub(crate) engine: Engine,
    pub(crate) now: Timestamp,
}

impl World {
    pub(crate) fn new(require_reconciliation: bool, operator_resumes: bool) -> Self {
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
    pub(crate) fn in_state(column: &str, require_reconciliation: bool, operator_resumes: bool) -> Self {
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
    pub(crate) fn state(&self) -> String {
        let flow = match self.engine.order_flow() {
            OrderFlow::Open { .. } => "OPEN",
            OrderFlow::Hold { reason } => reason.name(),
            OrderFlow::Halt { code: HaltCode::NoTargetAvailable } => "NO_TARGET",
            OrderFlow::Halt { code: HaltCode::Operator | HaltCode::Caller } => "ORDERED",
        };
        if self.engine.is_spent() { format!("{flow}, spent") } else { flow.to_owned() }
    }

    pub(crate) fn after(&mut self, seconds: u64) -> &mut Self {
        self.now = Timestamp::from_nanos(self.now.as_nanos() + seconds * SECOND);
        self
    }

    /// Only these results count: what was known of health is forgotten first, as a restart of the monitor does.
    pub(crate) fn evidence(&mut self, results: &[(EndpointId, &str)]) {
        self.restart(RestartKind::Monitor);
        self.results(results);
    }

    pub(crate) fn results(&mut self, results: &[(EndpointId, &str)]) {
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

    pub(crate) fn failover(&mut self, fenced: bool) -> Answer {
        Answer::decision(self.engine.evaluate_failover(self.now, self.fence(fenced)))
    }

    pub(crate) fn failback(&mut self, fenced: bool) -> Answer {
        Answer::decision(self.engine.evaluate_failback(self.now, self.fence(fenced)))
    }

    pub(crate) fn switchover(&mut self, target: &str, fenced: bool) -> Answer {
        Answer::decision(self.engine.switchover(self.now, target, self.fence(fenced)))
    }

    pub(crate) fn rearm(&mut self) -> Answer {
        Answer::decision(self.engine.rearm(self.now))
    }

    fn reconciled(&mut self, epoch: u64) -> Answer {
        Answer::flow(self.engine.confirm_reconciled(self.now, epoch))
    }

    pub(crate) fn halt(&mut self, code: &str) -> Answer {
        Answer::flow(HaltOrder::new(code, "the test asked").map(|order| self.engine.halt(order)))
    }

    pub(crate) fn restart(&mut self, kind: RestartKind) -> Answer {
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

    pub(crate) fn expect_switch(&mut self, ask: impl FnOnce(&mut Self) -> Answer) {
        let answer = ask(self);
        assert!(matches!(&answer, Answer::Taken { outcome, .. } if outcome.starts_with("SWITCHED")), "{answer:?}");
    }
}

pub(crate) const fn hold(reason: HoldReason) -> OrderFlow {
    OrderFlow::Hold { reason }
}
