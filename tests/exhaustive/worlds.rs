//! Worlds: how many endpoints, which thresholds and spans, and how far they are searched.

use std::time::Duration;

use broker_failover::engine::*;

use crate::inputs::{Claim, DUE_WITHIN, State, Step, Trail};

pub(crate) const MOST: usize = 3;
pub(crate) const EPOCH_OF_NOBODY: u64 = 0;

pub(crate) struct World {
    pub(crate) name: String,
    pub(crate) endpoints: Vec<Endpoint>,
    pub(crate) settings: PolicySettings,
    /// Whether the endpoints are registered from the start, or by inputs of the search.
    pub(crate) registered: bool,
    /// Besides the initial state, the search starts from the state that each of these leads to.
    pub(crate) prologues: Vec<Vec<Step>>,
    pub(crate) depth: u32,
    /// Whether endpoints are barred by inputs of the search.
    pub(crate) bars: bool,
}

/// Nanoseconds of cooldown, max_health_age and failback_window.
type Spans = (u64, u64, u64);

pub(crate) enum Depth {
    ToTheEnd,
    /// In a normal run.
    Steps(u32),
}

pub(crate) fn world(endpoints: usize, thresholds: (u32, u32), spans: Spans, depth: Depth) -> World {
    let all = [
        Endpoint::primary("east", "us-east-1", "https://east.example"),
        // A tie of priorities, which goes by name and against the order of registration.
        Endpoint::backup("west", "us-west-2", "https://west.example", 10),
        Endpoint::backup("north", "ca-central-1", "https://north.example", 10),
    ];
    let (failure_threshold, failback_success_threshold) = thresholds;
    let (cooldown, health, window) = spans;
    World {
        name: format!("{endpoints} endpoints, thresholds {thresholds:?}, spans {spans:?} ns"),
        endpoints: all.into_iter().take(endpoints).collect(),
        settings: PolicySettings {
            failure_threshold,
            cooldown: Duration::from_nanos(cooldown),
            max_health_age: Duration::from_nanos(health),
            failback_success_threshold,
            max_failbacks_per_window: 1,
            failback_window: Duration::from_nanos(window),
            history_limit: 1,
            ..PolicySettings::default()
        },
        registered: true,
        prologues: Vec::new(),
        depth: match (depth, std::env::var("BROKER_FAILOVER_DEPTH")) {
            (Depth::ToTheEnd, _) => u32::MAX,
            (Depth::Steps(_), Ok(text)) => text.parse().expect("BROKER_FAILOVER_DEPTH: a number of steps"),
            (Depth::Steps(steps), Err(_)) => steps,
        },
        bars: false,
    }
}

impl World {
    pub(crate) fn with(mut self, change: impl FnOnce(&mut PolicySettings)) -> Self {
        let before = self.settings.clone();
        change(&mut self.settings);
        let after = &self.settings;
        let mut notes = Vec::new();
        if before.require_fence != after.require_fence {
            notes.push("without fence");
        }
        if before.require_reconciliation != after.require_reconciliation {
            notes.push("without reconciliation");
        }
        if before.resume_after_halt != after.resume_after_halt {
            notes.push("halts latched");
        }
        if before.max_failbacks_per_window != after.max_failbacks_per_window {
            notes.push("two failbacks");
        }
        if before.silence != after.silence {
            notes.push("silence is a failure");
        }
        if before.cooldown_max != after.cooldown_max {
            notes.push("cooldown grows");
        }
        let patience = (after.trigger.map(Trigger::rule), after.minimum_history);
        let patience = (patience != (None, None)).then(|| format!("patience {patience:?}"));
        notes.extend(patience.as_deref());
        for note in notes {
            self.name = format!("{}, {note}", self.name);
        }
        self
    }

    pub(crate) fn with_preferred_backups(mut self) -> Self {
        self.endpoints[0].priority = 20;
        self.name.push_str(", backups preferred");
        self
    }

    /// Starts also where flow has just been on the backup, and where it has come back: far from the initial state.
    pub(crate) fn starting_afar(mut self) -> Self {
        let PolicySettings { failure_threshold, failback_success_threshold, cooldown, .. } = self.settings;
        let mut steps = vec![Step::Probe(1, true)];
        steps.extend((0..failure_threshold).map(|_| Step::Probe(0, false)));
        steps.push(Step::Failover(Claim::Present));
        self.prologues.push(steps.clone());
        steps.extend((0..failback_success_threshold).map(|_| Step::Probe(0, true)));
        steps.extend([Step::Wait(nanos(cooldown)), Step::Probe(0, true), Step::Failback(Claim::Present)]);
        self.prologues.push(steps);
        self
    }

    pub(crate) fn barring(mut self) -> Self {
        self.bars = true;
        self.name.push_str(", bars");
        self
    }

    pub(crate) fn unregistered(mut self) -> Self {
        self.registered = false;
        self.name.push_str(", registered by inputs");
        self
    }

    fn start(&self) -> State {
        let mut engine = Engine::new(Policy::new(self.settings.clone()).expect("the policies here are legal"));
        for endpoint in self.endpoints.iter().filter(|_| self.registered) {
            engine.register(endpoint.clone()).expect("the endpoints here are legal");
        }
        self.state(engine, Timestamp::ZERO, [Trail::default(); MOST])
    }

    pub(crate) fn state(&self, engine: Engine, now: Timestamp, trails: [Trail; MOST]) -> State {
        let sight = self.sight(&engine, now);
        State { engine, now, sight, trails }
    }

    pub(crate) fn after(&self, steps: &[Step]) -> State {
        let State { mut engine, mut now, mut trails, .. } = self.start();
        for step in steps {
            let answer = self.take(&mut engine, &mut now, *step);
            trails = self.follow(trails, *step, &answer);
        }
        self.state(engine, now, trails)
    }

    pub(crate) fn steps(&self) -> Vec<Step> {
        let each = || 0..self.endpoints.len();
        let claims = [Claim::None, Claim::Present, Claim::Older, Claim::Newer, Claim::Elsewhere];
        let epochs = [Claim::Present, Claim::Older, Claim::Newer];
        let mut waits = vec![1];
        for span in [self.settings.cooldown, self.settings.max_health_age, self.settings.failback_window] {
            waits.extend([nanos(span), nanos(span) + 1]);
        }
        if let TriggerRule::Window(span) = self.trigger() {
            waits.extend([nanos(span) - 1, nanos(span)]);
        }
        waits.sort_unstable();
        waits.dedup();
        let mut steps = Vec::new();
        steps.extend(each().flat_map(|i| [Step::Probe(i, true), Step::Probe(i, false)]));
        if self.listens() {
            waits.extend([DUE_WITHIN - 1, DUE_WITHIN]);
            waits.sort_unstable();
            waits.dedup();
            steps.push(Step::Tick);
            steps.extend(each().map(Step::Due));
        }
        steps.extend(claims.map(Step::Failover));
        steps.extend(claims.map(Step::Failback));
        steps.extend(each().flat_map(|i| claims.map(|claim| Step::Switchover(i, claim))));
        steps.extend(
            epochs
                .into_iter()
                .flat_map(|epoch| [Step::FenceStarted(epoch), Step::SwitchFailed(epoch), Step::Reconciled(epoch)]),
        );
        steps.extend([Step::Rearm, Step::HaltOperator, Step::HaltCaller, Step::Resume]);
        steps.extend(each().flat_map(|i| [Step::Maintenance(i, true), Step::Maintenance(i, false)]));
        steps.extend(each().filter(|_| self.bars).flat_map(|i| [Step::Bar(i, true), Step::Bar(i, false)]));
        steps.extend(each().map(Step::Move));
        steps.extend(waits.into_iter().filter(|wait| *wait > 0).map(Step::Wait));
        steps.extend([Step::Restart(RestartKind::Gateway), Step::Restart(RestartKind::Monitor)]);
        steps.extend(each().map(Step::Register));
        steps.extend([Step::Strangers, Step::ChangeRole, Step::Blank, Step::SamePriority, Step::Validate]);
        steps
    }
}

pub(crate) fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).expect("a span of this test")
}
