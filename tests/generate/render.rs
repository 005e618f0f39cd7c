//! From a draft to a scenario file, with the model running along.

use super::*;
use crate::model::{Endpoint, Model, Nanos, Trigger, decimal, verb};

/// In an order that is not the alphabetical one, and not all of it ASCII.
pub(super) const NAMES: [&str; 6] = ["east", "west", "north", "zürich", "b\"quoted\"", "apollo"];

/// The plain form, and the form with a code.
pub(super) const HALTS: [&str; 4] = [
    r#""desk asked""#,
    r#""\"why\" é""#,
    r#"{"code":"COMPETING_SESSION","text":"another logon"}"#,
    r#"{"code":"OPERATOR","text":"again"}"#,
];

/// A scenario file, and what the model says to it.
pub(crate) struct Scenario {
    pub(crate) lines: Vec<String>,
    pub(crate) inputs: Vec<Input>,
    crlf: bool,
}

/// One input line. In a watched scenario it is surrounded by questions that have no effect: `status` on either side,
/// the assessment of what is about to be evaluated, and the same evaluation again when it switched nothing. Numbers
/// are positions among the inputs.
pub(crate) struct Input {
    pub(crate) input: Json,
    /// Without the keys whose values are the engine's own words.
    pub(crate) expected: Json,
    pub(crate) watch: Option<Watch>,
}

#[derive(Clone, Copy)]
pub(crate) struct Watch {
    pub(crate) before: usize,
    pub(crate) assessed: Option<Assessed>,
    pub(crate) after: usize,
    /// The repetition and the status after it.
    pub(crate) again: Option<(usize, usize)>,
}

#[derive(Clone, Copy)]
pub(crate) struct Assessed {
    pub(crate) assessment: usize,
    pub(crate) status: usize,
}

impl Scenario {
    pub(crate) fn text(&self) -> String {
        let end = if self.crlf { "\r\n" } else { "\n" };
        self.lines.iter().flat_map(|line| [line.as_str(), end]).collect()
    }
}

impl Draft {
    /// The bare scenario.
    pub(crate) fn scenario(&self) -> Scenario {
        self.render(false)
    }

    /// The same inputs, each of them watched (see [`Input`]).
    pub(crate) fn watched(&self) -> Scenario {
        self.render(true)
    }

    fn render(&self, watched: bool) -> Scenario {
        let endpoints = self.endpoints.iter().enumerate().map(|(i, newcomer)| {
            let mut newcomer = newcomer.clone();
            if self.primary == Some(i) {
                newcomer.primary = Some(true);
            }
            newcomer.json()
        });
        let config = Json::object([("policy", self.policy.clone()), ("endpoints", Json::List(endpoints.collect()))]);
        let config = Json::object([("config", config)]);
        let mut renderer = Renderer {
            model: Model::new(&config),
            now: match self.start {
                Start::Zero => 0,
                Start::JustBeforeTheEndOfTime => END_OF_TIME - 40_000_000_000,
            },
            watched,
            last_status: None,
            scenario: Scenario { lines: vec![config.to_string()], inputs: Vec::new(), crlf: self.crlf },
        };
        for (gap, op) in &self.steps {
            renderer.wait(*gap);
            renderer.step(op);
        }
        renderer.scenario
    }
}

/// What a 64-bit count of nanoseconds can hold.
const END_OF_TIME: Nanos = u64::MAX as Nanos;

struct Renderer {
    model: Model,
    now: Nanos,
    watched: bool,
    /// When the last watch ended, and with which status: at the same time it is the next one's first.
    last_status: Option<(Nanos, usize)>,
    scenario: Scenario,
}

impl Renderer {
    fn wait(&mut self, gap: Gap) {
        let policy = &self.model.policy;
        let stale = |endpoint: Option<&Endpoint>| {
            endpoint.and_then(|endpoint| endpoint.health.last_probe).map(|last| last + policy.max_health_age)
        };
        let then = match gap {
            Gap::None => None,
            Gap::Nanos(nanos) => Some(self.now + Nanos::from(nanos)),
            Gap::Seconds(seconds) => Some(self.now + Nanos::from(seconds) * 1_000_000_000),
            Gap::Edge(edge, delta) => match edge {
                Edge::CooldownOver => self.model.switches.last().map(|last| last.at + self.model.cooldown(self.now)),
                Edge::OldestFailbackLeavesWindow => {
                    self.model.recent_failbacks(self.now).first().map(|at| at + policy.failback_window)
                }
                Edge::ActiveGoesStale => stale(self.model.active_endpoint()),
                Edge::PrimaryGoesStale => stale(self.model.endpoints.iter().find(|endpoint| endpoint.primary)),
                Edge::AnotherGoesStale(n) => stale(self.model.endpoints.get(n)),
                Edge::ResultIsOverdue => {
                    let due = self.model.endpoints.iter().filter_map(|endpoint| endpoint.due);
                    due.map(|(since, span)| since + span).min()
                }
                Edge::MonitorStopped => {
                    let due = self.model.endpoints.iter().filter_map(|endpoint| endpoint.due);
                    self.model.last_sign.zip(due.map(|(_, span)| span).min()).map(|(last, span)| last + span)
                }
                Edge::WindowIsFilled => self.model.active_endpoint().and_then(|active| {
                    let Trigger::AllOf(window) = policy.trigger_of(active) else { return None };
                    let failures = active.health.results.iter().rev().take_while(|(_, failed)| *failed);
                    failures.last().map(|(began, _)| began + window)
                }),
            }
            .map(|at| at + Nanos::from(delta)),
        };
        self.now = then.unwrap_or(self.now).clamp(self.now, END_OF_TIME.max(self.now));
    }

    fn step(&mut self, op: &Op) {
        match op {
            Op::Probe(who, result) => self.probe(&self.name(*who), *result),
            Op::Evaluate(question, fence) => self.evaluate(*question, *fence),
            Op::Assess(question, fence) => {
                let (kind, target) = match question {
                    Question::Failover => ("failover", None),
                    Question::Failback => ("failback", None),
                    Question::Switchover(who) => ("switchover", Some(Json::text(self.name(*who)))),
                };
                let input = Json::object([("assess", Json::text(kind))]).with("target", target);
                self.put(input.and(self.fence(*fence)));
            }
            Op::Tick => self.put(flag("tick")),
            Op::Due(who, within) => self.due(&self.name(*who), within),
            Op::Silence(who) => {
                for _ in 0..3 {
                    self.due(&self.name(*who), "2s");
                    for _ in 0..2 {
                        self.wait(Gap::Seconds(1));
                        self.put(flag("tick"));
                    }
                }
            }
            Op::FenceStarted(epoch) => self.put(Json::object([("fence_started", self.epoch(*epoch))])),
            Op::SwitchFailed(epoch) => self.put(Json::object([("switch_failed", self.epoch(*epoch))])),
            Op::Rearm => self.put(flag("rearm")),
            Op::Reconciled(epoch) => self.put(Json::object([("reconciled", self.epoch(*epoch))])),
            Op::Status => self.put(flag("status")),
            Op::WallStep(seconds) => self.put(Json::object([("wall_step", Json::number(seconds))])),
            Op::Restart { monitor: false } => self.put(flag("restart")),
            Op::Restart { monitor: true } => self.put(Json::object([("restart", Json::text("monitor"))])),
            Op::Register(newcomer) => self.put(Json::object([("register", newcomer.json())])),
            Op::Update(change) => self.put(Json::object([("update", change.json(self.name(change.who)))])),
            Op::Validate => self.put(flag("validate")),
            Op::Maintenance(who, on) => {
                self.put(Json::object([("maintenance", Json::text(self.name(*who))), ("on", Json::Bool(*on))]));
            }
            Op::Bar(who, cause, on) => {
                let name = Json::text(self.name(*who));
                self.put(Json::object([("bar", name), ("cause", Json::text(*cause)), ("on", Json::Bool(*on))]));
            }
            Op::Halt(value) => self.put(Json::object([("halt", Json::parse(value))])),
            Op::Resume => self.put(flag("resume")),
            Op::Remark(line) => self.scenario.lines.push((*line).to_owned()),

            Op::Break(who) => self.fail_until_down(*who),
            Op::Mend(who) => self.succeed_until_stable(*who),
            Op::Hole(who) => {
                let name = self.name(*who);
                self.probe(&name, Probe::Error);
                self.wait(Gap::Edge(Edge::ActiveGoesStale, 0));
                self.probe(&name, Probe::Error);
            }
            Op::Round => {
                for name in self.model.endpoints.iter().map(|endpoint| endpoint.name.clone()).collect::<Vec<_>>() {
                    self.probe(&name, Probe::Ok);
                }
            }
            Op::Settle => {
                self.probe(&self.name(Who::Active), Probe::Ok);
                self.put(Json::object([("reconciled", self.epoch(Epoch::Present))]));
            }
            Op::SettleBroken => {
                self.probe(&self.name(Who::Active), Probe::Failed);
                self.put(Json::object([("reconciled", self.epoch(Epoch::Present))]));
            }
            Op::Leave(fence) => {
                self.probe(&self.name(Who::Backup), Probe::Ok);
                self.step(&Op::Break(Who::Active));
                self.evaluate(Question::Failover, *fence);
            }
            Op::Return { patient, fence } => {
                if *patient {
                    self.wait(Gap::Edge(Edge::CooldownOver, 0));
                }
                self.step(&Op::Mend(Who::Primary));
                self.evaluate(Question::Failback, *fence);
            }
            Op::Cycle => {
                self.step(&Op::Leave(Fence::Of(Epoch::Present)));
                self.step(&Op::Return { patient: false, fence: Fence::Of(Epoch::Present) });
            }
            Op::ReturnEarly => {
                self.probe(&self.name(Who::Primary), Probe::Error);
                self.probe(&self.name(Who::Primary), Probe::Ok);
                self.evaluate(Question::Failback, Fence::Absent);
            }
            Op::Planned(fence) => {
                self.probe(&self.name(Who::Backup), Probe::Ok);
                self.evaluate(Question::Switchover(Who::Backup), *fence);
            }
            Op::Waver(result) => {
                self.step(&Op::Leave(Fence::Absent));
                self.probe(&self.name(Who::Active), Probe::Ok);
                self.probe(&self.name(Who::Active), *result);
                self.evaluate(Question::Failover, Fence::Absent);
            }
            Op::FenceInVain => {
                self.put(Json::object([("fence_started", self.epoch(Epoch::Present))]));
                self.step(&Op::Break(Who::Backup));
                self.step(&Op::Mend(Who::Active));
            }
        }
    }

    /// At most so many, where the trigger needs more than failures.
    const MOST: usize = 8;

    fn fail_until_down(&mut self, who: Who) {
        let name = self.name(who);
        for _ in 0..Self::MOST {
            self.probe(&name, Probe::Error);
            let policy = &self.model.policy;
            let Some(endpoint) = self.model.endpoints.iter().find(|endpoint| endpoint.name == name) else { break };
            if self.model.state(endpoint) == "DOWN" {
                break;
            }
            if let Trigger::AllOf(window) = policy.trigger_of(endpoint) {
                let pace = window.min(policy.max_health_age);
                self.now = (self.now + pace).clamp(self.now, END_OF_TIME.max(self.now));
            }
        }
    }

    fn succeed_until_stable(&mut self, who: Who) {
        let name = self.name(who);
        for done in 1..=self.model.policy.failback_success_threshold + Self::MOST as u64 {
            self.probe(&name, Probe::Ok);
            let endpoint = self.model.endpoints.iter().find(|endpoint| endpoint.name == name);
            let well = endpoint.is_none_or(|endpoint| self.model.state(endpoint) == "HEALTHY");
            if well && done >= self.model.policy.failback_success_threshold {
                break;
            }
        }
    }

    fn probe(&mut self, name: &str, result: Probe) {
        let input = Json::object([("probe", Json::text(name))]);
        self.put(match result {
            Probe::Ok => input.with("ok", Json::Bool(true)),
            Probe::Failed => input.with("ok", Json::Bool(false)),
            Probe::Error => input.with("ok", Json::Bool(false)).with("error", Json::text("ConnectionReset: pé\"er")),
            Probe::Panic => input.with("panic", Json::text("index out of bounds")),
        });
    }

    fn due(&mut self, name: &str, within: &str) {
        self.put(Json::object([("due", Json::text(name)), ("within", Json::text(within))]));
    }

    fn evaluate(&mut self, question: Question, fence: Fence) {
        let input = match question {
            Question::Failover => Json::object([("evaluate", Json::text("failover"))]),
            Question::Failback => Json::object([("evaluate", Json::text("failback"))]),
            Question::Switchover(who) => Json::object([("switchover", Json::text(self.name(who)))]),
        };
        self.put(input.and(self.fence(fence)));
    }

    fn name(&self, who: Who) -> String {
        let endpoints = &self.model.endpoints;
        let nth = |n: usize| endpoints.get(n % endpoints.len().max(1));
        let found = match who {
            Who::Active => self.model.active_endpoint(),
            Who::Primary => endpoints.iter().find(|endpoint| endpoint.primary),
            Who::Backup => {
                let others = endpoints.iter().filter(|endpoint| self.model.active.as_ref() != Some(&endpoint.name));
                others.min_by_key(|endpoint| endpoint.primary)
            }
            Who::Nth(n) => nth(n),
            Who::Unknown => None,
            Who::Padded => return format!("{} ", nth(0).map_or("nobody", |endpoint| &endpoint.name)),
        };
        found.map_or("nobody", |endpoint| &endpoint.name).to_owned()
    }

    fn epoch(&self, epoch: Epoch) -> Json {
        let present = self.model.epoch;
        Json::number(match epoch {
            Epoch::Present => present,
            Epoch::Before => present.saturating_sub(1),
            Epoch::After => present + 1,
        })
    }

    fn fence(&self, fence: Fence) -> Json {
        match fence {
            Fence::Absent => Json::object([]),
            Fence::Confirmed(yes) => Json::object([("fence_confirmed", Json::Bool(yes))]),
            Fence::Of(epoch) => Json::object([("fence_epoch", self.epoch(epoch))]),
        }
    }

    /// Writes one input, and its watch if the scenario is to be watched.
    fn put(&mut self, input: Json) {
        if !self.watched {
            self.line(input);
            return;
        }
        let before = match self.last_status {
            Some((at, position)) if at == self.now => position,
            _ => self.line(flag("status")),
        };
        let assessed = assessment_of(&input)
            .map(|assess| Assessed { assessment: self.line(assess), status: self.line(flag("status")) });
        let position = self.line(input.clone());
        let after = self.line(flag("status"));
        let switched = self.scenario.inputs[position].expected.get("event").is_some();
        let again = (assessed.is_some() && !switched).then(|| (self.line(input), self.line(flag("status"))));
        self.last_status = Some((self.now, again.map_or(after, |(_, status)| status)));
        self.scenario.inputs[position].watch = Some(Watch { before, assessed, after, again });
    }

    /// Writes one line and says where among the inputs it stands.
    fn line(&mut self, input: Json) -> usize {
        let input = Json::object([("at", decimal(self.now))]).and(input);
        self.scenario.lines.push(input.to_string());
        let expected = self.model.apply(self.scenario.lines.len() as u64, &input);
        self.scenario.inputs.push(Input { input, expected, watch: None });
        self.scenario.inputs.len() - 1
    }
}

fn flag(verb: &'static str) -> Json {
    Json::object([(verb, Json::Bool(true))])
}

/// The assessment that has to foretell this input, if it is a decision that can be assessed.
fn assessment_of(input: &Json) -> Option<Json> {
    let kind = input.str("evaluate");
    let target = input.str("switchover");
    let assess = Json::object([("assess", Json::text(kind.or(target.and(Some("switchover")))?))]);
    Some(assess.with("target", target.map(Json::text)).and(input.without(&["evaluate", "switchover"])))
}

impl Newcomer {
    fn json(&self) -> Json {
        let name = NAMES[self.name];
        let padded = if self.padded { format!("  {name}\t") } else { name.to_owned() };
        let blank = |key: &str, value: String| Json::text(if self.blank == Some(key) { " ".to_owned() } else { value });
        let account = self.account.or(self.blank.filter(|key| *key == "account"));
        Json::object([
            ("name", blank("name", padded)),
            ("region", blank("region", region(name, 0))),
            ("url", blank("url", url(name, 0))),
        ])
        .with("account", account.map(|account| blank("account", account.to_owned())))
        .with("primary", self.primary.map(Json::Bool))
        .with("priority", self.priority.map(Json::number))
        .with("trigger", self.trigger.map(Json::parse))
    }
}

impl Change {
    fn json(&self, name: String) -> Json {
        let blank = |key: &str, value: Option<String>| {
            if self.blank == Some(key) { Some(Json::text(" ")) } else { value.map(Json::text) }
        };
        let known = name.trim();
        Json::object([("name", Json::text(if self.padded { format!(" {name} ") } else { name.clone() }))])
            .with("region", blank("region", self.region.map(|version| region(known, version))))
            .with("url", blank("url", self.url.map(|version| url(known, version))))
            .with("account", blank("account", self.account.map(str::to_owned)))
            .with("primary", self.primary.map(Json::Bool))
            .with("priority", self.priority.map(Json::number))
            .with("trigger", self.trigger.map(Json::parse))
    }
}

fn region(name: &str, version: u64) -> String {
    format!("{name}-{version}")
}

fn url(name: &str, version: u64) -> String {
    format!("https://{name}.example/{version}")
}

/// The verb, with what is asked where it asks something: `evaluate failover`.
pub(crate) fn question(input: &Json) -> String {
    match verb(input) {
        verb @ ("evaluate" | "assess") => format!("{verb} {}", input.str(verb).unwrap_or_default()),
        verb => verb.to_owned(),
    }
}
