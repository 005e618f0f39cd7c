//! The failover engine written a second time, from the prose alone, as plainly as it can be said.
//!
//! Its worth is that it shares nothing with `src/engine`: no type, no helper, no idea. Names are strings, endpoints
//! are scanned, targets are sorted anew at each question, every switch ever made is kept, and all that can be derived
//! from those (the cooldown, the flap budget, the dropped history) is derived each time it is asked for. It's meant
//! to be held beside the description of the rules, paragraph by paragraph; speed, bounds and memory are the real
//! engine's business.
//!
//! It answers in the output format of a scenario, without `reason`, `reason_code` and `error.message`: those are the
//! engine's own words. It trusts its input to be a well-formed scenario.

mod decide;
mod flow;
pub(crate) mod json;
mod output;
mod policy;
mod selfcheck;

pub(crate) use flow::Flow;
use flow::Happening;
use json::Json;
pub(crate) use output::decimal;
use output::last_probe_error;
pub(crate) use policy::{Policy, Trigger, seconds};

/// Nanoseconds of the file's clock. Wide and signed, so that nothing here can overflow or has to saturate.
pub(crate) type Nanos = i128;

/// A refusal is its code; the wording belongs to the engine.
type Refusal = &'static str;

const VERBS: [&str; 20] = [
    "probe",
    "tick",
    "due",
    "evaluate",
    "assess",
    "fence_started",
    "switch_failed",
    "rearm",
    "reconciled",
    "status",
    "wall_step",
    "restart",
    "register",
    "update",
    "validate",
    "switchover",
    "maintenance",
    "bar",
    "halt",
    "resume",
];

#[derive(Clone, Debug)]
pub(crate) struct Endpoint {
    pub(crate) name: String,
    region: String,
    url: String,
    account: Option<String>,
    pub(crate) primary: bool,
    priority: u64,
    /// Its own trigger, as written.
    trigger: Option<Json>,
    maintenance: bool,
    /// Codes of the causes for which it is barred.
    bars: Vec<String>,
    pub(crate) health: Health,
    /// A result that is due: since when, and within which span.
    pub(crate) due: Option<(Nanos, Nanos)>,
}

/// What the probes said since the endpoint was registered, its address changed, or the engine was restarted.
#[derive(Clone, Debug, Default)]
pub(crate) struct Health {
    successes: u64,
    failures: u64,
    pub(crate) last_probe: Option<Nanos>,
    last_error: Option<String>,
    down: bool,
    /// Every result that its trigger may look at, oldest first: when it came, and whether it was a failure.
    pub(crate) results: Vec<(Nanos, bool)>,
}

#[derive(Clone, Debug)]
pub(crate) struct Switch {
    pub(crate) kind: &'static str,
    from: String,
    to: String,
    from_state: &'static str,
    epoch: u64,
    pub(crate) at: Nanos,
    applied: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Model {
    pub(crate) policy: Policy,
    pub(crate) endpoints: Vec<Endpoint>,
    pub(crate) active: Option<String>,
    /// Means something only while there is an active endpoint.
    pub(crate) epoch: u64,
    pub(crate) spent: bool,
    operator_placed: bool,
    pub(crate) flow: Flow,
    /// Every switch there ever was, oldest first.
    pub(crate) switches: Vec<Switch>,
    /// When anything last arrived from the monitor.
    pub(crate) last_sign: Option<Nanos>,
}

impl Model {
    /// From the configuration line `{"config":{"policy":{..},"endpoints":[..]}}`.
    pub(crate) fn new(line: &Json) -> Self {
        let config = line.get("config").expect("a configuration");
        let mut model = Self {
            policy: Policy::new(config.get("policy")),
            endpoints: Vec::new(),
            active: None,
            epoch: 0,
            spent: false,
            operator_placed: false,
            flow: Flow::Starting,
            switches: Vec::new(),
            last_sign: None,
        };
        for endpoint in config.list("endpoints") {
            model.register(endpoint).expect("the configuration's endpoints can be registered");
        }
        model
    }

    /// Takes one input line and gives the line that the replay prints for it.
    pub(crate) fn apply(&mut self, line: u64, input: &Json) -> Json {
        let verb = verb(input);
        let now = seconds(input.str("at").expect("every input has a time"));
        let shown = match (verb, &input.get(verb).expect("verb() found it")) {
            ("register" | "update", endpoint) => Json::text(trimmed(endpoint, "name")),
            (_, value) => (*value).clone(),
        };
        let output = Json::object([("line", Json::number(line)), ("at", decimal(now)), (verb, shown)]);
        match self.take(now, verb, input) {
            Ok(more) => output.and(more),
            Err(code) => output.with("error", Json::object([("code", Json::text(code))])),
        }
    }

    fn take(&mut self, now: Nanos, verb: &str, input: &Json) -> Result<Json, Refusal> {
        let argument = input.get(verb).expect("the verb is a key of the input");
        match verb {
            "probe" => self.probe(now, input),
            "tick" | "due" => self.tick(now, verb, input),
            "evaluate" | "switchover" | "rearm" => self.decide(now, verb, input),
            // An assessment is the evaluation of a copy, which is then thrown away.
            "assess" => self.clone().decide(now, verb, input),
            "status" => Ok(self.status(now)),
            "fence_started" => {
                self.spend(now, argument, Happening::FenceStarted)?;
                Ok(self.only_order_flow())
            }
            "switch_failed" => {
                self.spend(now, argument, Happening::SwitchFailed)?;
                for switch in self.switches.iter_mut().filter(|switch| switch.epoch == self.epoch) {
                    switch.applied = false;
                }
                Ok(self.only_order_flow())
            }
            "reconciled" => {
                if self.flow != Flow::Reconciling {
                    return Err("NOT_RECONCILING");
                }
                if !self.is_present_epoch(argument) {
                    return Err("STALE_RECONCILE");
                }
                self.happened(now, Happening::Reconciled);
                Ok(self.only_order_flow())
            }
            "halt" => {
                let code = argument.str("code").unwrap_or("OPERATOR").to_owned();
                self.happened(now, Happening::Halted(code));
                Ok(self.only_order_flow())
            }
            "resume" => {
                let engine_ends_it = self.halted_for_want_of_target() && !self.policy.operator_ends_halt;
                if !matches!(self.flow, Flow::Halt { .. }) || engine_ends_it {
                    return Err("NOT_HALTED");
                }
                self.happened(now, Happening::Resumed);
                Ok(self.only_order_flow())
            }
            "restart" => {
                self.restart(now, argument.as_str() == Some("monitor"));
                Ok(self.only_order_flow())
            }
            "maintenance" => {
                let on = input.bool("on").expect("maintenance is on or off");
                self.endpoint_mut(argument.as_str())?.maintenance = on;
                Ok(Json::object([]))
            }
            "bar" => {
                let (cause, on) = (input.str("cause").expect("a cause"), input.bool("on").expect("barred or not"));
                let bars = &mut self.endpoint_mut(argument.as_str())?.bars;
                bars.retain(|other| other != cause);
                bars.extend(on.then(|| cause.to_owned()));
                Ok(Json::object([]))
            }
            "register" => self.register(argument),
            "update" => self.update(argument),
            "validate" => self.validate(),
            // The wall clock is for the audit; nothing is computed with it.
            "wall_step" => Ok(Json::object([])),
            other => unreachable!("the verb {other}"),
        }
    }

    // ---- Health -----------------------------------------------------------------------------------------------------

    fn probe(&mut self, now: Nanos, input: &Json) -> Result<Json, Refusal> {
        // An error and a panic are failures alike, kept until the next success.
        let failure = match (input.str("panic"), input.bool("ok")) {
            (Some(message), _) => Some(format!("panic: {message}")),
            (None, Some(true)) => None,
            (None, _) => Some(input.str("error").unwrap_or("failed").to_owned()),
        };

        self.endpoint_mut(input.str("probe"))?;
        let stopped = self.sign_of_life(now);
        self.endpoint_mut(input.str("probe"))?.due = None;
        let endpoint = self.result(now, input.str("probe"), failure)?;
        if self.state(&endpoint) == "HEALTHY" && self.active.as_ref() == Some(&endpoint.name) {
            self.happened(now, Happening::ActiveSucceeded);
        }
        let told = self.counters(&endpoint).with("last_probe_error", last_probe_error(&endpoint));
        Ok(told.with("monitor_stopped", stopped.then_some(Json::Bool(true))))
    }

    /// Something arrived. If nothing did for as long as the shortest span that a result has, the monitor had stopped:
    /// then nothing that was due meanwhile is missing, and what was seen before proves nothing to a trigger.
    fn sign_of_life(&mut self, now: Nanos) -> bool {
        let last = self.last_sign.replace(now).unwrap_or(now);
        let shortest = self.endpoints.iter().filter_map(|endpoint| endpoint.due).map(|(_, span)| span).min();
        let stopped = shortest.is_some_and(|span| now - last >= span);
        if stopped {
            for endpoint in &mut self.endpoints {
                endpoint.due = None;
                endpoint.health.results.clear();
            }
        }
        stopped
    }

    /// A tick, or a result that becomes due, which is a tick too. It finds out what is missing.
    fn tick(&mut self, now: Nanos, verb: &str, input: &Json) -> Result<Json, Refusal> {
        let due = input.str("due").filter(|_| verb == "due");
        if verb == "due" {
            self.endpoint_mut(due)?;
        }
        let stopped = self.sign_of_life(now);
        let mut missing = Vec::new();
        for endpoint in &mut self.endpoints {
            if endpoint.due.is_some_and(|(since, span)| now - since >= span) {
                endpoint.due = None;
                missing.push(endpoint.name.clone());
            }
        }
        if self.policy.silence_is_failure {
            for name in &missing {
                self.result(now, Some(name), Some("no result when it was due".to_owned()))?;
            }
        }
        if let Some(within) = input.str("within") {
            let endpoint = self.endpoint_mut(due)?;
            endpoint.due = endpoint.due.or(Some((now, policy::duration(within))));
        }
        let missing = missing.iter().map(Json::text).collect();
        Ok(Json::object([])
            .with("monitor_stopped", stopped.then_some(Json::Bool(true)))
            .with("missing", Json::List(missing)))
    }

    /// A result of an endpoint, and the endpoint after it.
    fn result(&mut self, now: Nanos, name: Option<&str>, failure: Option<String>) -> Result<Endpoint, Refusal> {
        let policy = self.policy.clone();
        let endpoint = self.endpoint_mut(name)?;
        let trigger = policy.trigger_of(endpoint);
        let failed = failure.is_some();
        let health = &mut endpoint.health;
        health.last_probe = Some(now);
        health.last_error = failure;
        if failed {
            health.failures += 1;
            health.successes = 0;
        } else {
            health.successes += 1;
            health.failures = 0;
        }
        health.results.push((now, failed));
        // Only a failure makes it DOWN, and only with enough of a history; only a success ends that, and only where the
        // trigger does not say that it goes on.
        let is_so = policy.is_so(trigger, &health.results);
        if failed {
            health.down |= is_so && health.results.len() >= policy.minimum_history(trigger);
        } else {
            health.down &= is_so;
        }
        Ok(endpoint.clone())
    }

    /// UNKNOWN is not HEALTHY; one success is, and a failure is DEGRADED, unless the trigger says DOWN.
    pub(crate) fn state(&self, endpoint: &Endpoint) -> &'static str {
        let health = &endpoint.health;
        if health.last_probe.is_none() {
            "UNKNOWN"
        } else if health.down {
            "DOWN"
        } else if health.failures == 0 {
            "HEALTHY"
        } else {
            "DEGRADED"
        }
    }

    /// Probed at most `max_health_age` ago; exactly that long ago still counts.
    fn is_fresh(&self, endpoint: &Endpoint, now: Nanos) -> bool {
        endpoint.health.last_probe.is_some_and(|last| now - last <= self.policy.max_health_age)
    }

    fn is_healthy_and_fresh(&self, endpoint: &Endpoint, now: Nanos) -> bool {
        self.state(endpoint) == "HEALTHY" && self.is_fresh(endpoint, now)
    }

    // ---- Active and spent -------------------------------------------------------------------------------------------

    pub(crate) fn active_endpoint(&self) -> Option<&Endpoint> {
        self.endpoints.iter().find(|endpoint| Some(&endpoint.name) == self.active.as_ref())
    }

    fn endpoint_mut(&mut self, name: Option<&str>) -> Result<&mut Endpoint, Refusal> {
        self.endpoints.iter_mut().find(|endpoint| Some(endpoint.name.as_str()) == name).ok_or("UNKNOWN_ENDPOINT")
    }

    fn is_present_epoch(&self, epoch: &Json) -> bool {
        epoch.as_str() == Some(&self.epoch.to_string())
    }

    /// The active path was fenced, or the switch onto it failed: its epoch can't be presumed able to trade any more.
    fn spend(&mut self, now: Nanos, epoch: &Json, why: Happening) -> Result<(), Refusal> {
        if self.active.is_none() {
            return Err("NO_ACTIVE_ENDPOINT");
        }
        if !self.is_present_epoch(epoch) {
            return Err("STALE_FENCE");
        }
        self.spent = true;
        self.happened(now, why);
        Ok(())
    }

    // ---- Restart, registration, update, the start-up gate -----------------------------------------------------------

    /// Everything comes back but health. No time passes while a scenario's engine is down, so that ages simply go on;
    /// that the engine's own clock starts from zero again must not be visible.
    fn restart(&mut self, now: Nanos, monitor_alone: bool) {
        for endpoint in &mut self.endpoints {
            endpoint.health = Health::default();
            endpoint.due = None;
        }
        self.last_sign = None;
        let what = if monitor_alone { Happening::MonitorRestarted } else { Happening::GatewayRestarted };
        self.happened(now, what);
    }

    fn register(&mut self, input: &Json) -> Result<Json, Refusal> {
        let primary = input.bool("primary") == Some(true);
        let endpoint = Endpoint {
            name: trimmed(input, "name"),
            region: input.str("region").expect("a region").to_owned(),
            url: input.str("url").expect("a url").to_owned(),
            account: input.get("account").map(|_| trimmed(input, "account")),
            primary,
            priority: input.u64("priority").unwrap_or(if primary { 0 } else { 100 }),
            trigger: input.get("trigger").cloned(),
            maintenance: false,
            bars: Vec::new(),
            health: Health::default(),
            due: None,
        };
        if any_blank(input) {
            return Err("BLANK_FIELD");
        }
        if self.endpoints.iter().any(|other| other.name == endpoint.name) {
            return Err("DUPLICATE_ENDPOINT");
        }
        if primary && self.endpoints.iter().any(|other| other.primary) {
            return Err("SECOND_PRIMARY");
        }
        // The primary becomes active at epoch 1 when it is registered, which is not a switch.
        if primary {
            self.active = Some(endpoint.name.clone());
            self.epoch = 1;
        }
        self.endpoints.push(endpoint);
        Ok(Json::object([]))
    }

    fn update(&mut self, input: &Json) -> Result<Json, Refusal> {
        let active = self.active.clone();
        let policy = self.policy.clone();
        let endpoint = self.endpoint_mut(Some(&trimmed(input, "name")))?;
        if any_blank(input) {
            return Err("BLANK_FIELD");
        }
        if input.bool("primary").is_some_and(|primary| primary != endpoint.primary) {
            return Err("ROLE_CHANGE");
        }
        let mut changed = endpoint.clone();
        changed.region = input.str("region").unwrap_or(&endpoint.region).to_owned();
        changed.url = input.str("url").unwrap_or(&endpoint.url).to_owned();
        if input.get("account").is_some() {
            changed.account = Some(trimmed(input, "account"));
        }
        changed.priority = input.u64("priority").unwrap_or(endpoint.priority);
        changed.trigger = input.get("trigger").cloned().or(changed.trigger);
        // Another trigger has seen nothing yet.
        if policy.trigger_of(&changed) != policy.trigger_of(endpoint) {
            changed.health.results.clear();
        }

        // Another address is another endpoint as far as its probes go; a fence must never name another than trades.
        let moved =
            (&changed.region, &changed.url, &changed.account) != (&endpoint.region, &endpoint.url, &endpoint.account);
        if moved && active.as_ref() == Some(&endpoint.name) {
            return Err("ENDPOINT_IS_ACTIVE");
        }
        if moved {
            changed.health = Health::default();
            changed.due = None;
        }
        *endpoint = changed;
        Ok(Json::object([]))
    }

    fn validate(&self) -> Result<Json, Refusal> {
        if !self.endpoints.iter().any(|endpoint| endpoint.primary) {
            return Err("NO_PRIMARY");
        }
        if self.endpoints.len() < 2 {
            return Err("TOO_FEW_ENDPOINTS");
        }
        let mut accounts: Vec<&String> =
            self.endpoints.iter().filter_map(|endpoint| endpoint.account.as_ref()).collect();
        accounts.sort();
        accounts.dedup();
        if accounts.len() > 1 {
            return Err("ACCOUNT_MISMATCH");
        }
        Ok(Json::object([]))
    }
}

/// The verb of an input line.
pub(crate) fn verb(input: &Json) -> &'static str {
    VERBS.into_iter().find(|verb| input.get(verb).is_some()).expect("every input has a verb")
}

fn trimmed(input: &Json, key: &str) -> String {
    input.str(key).unwrap_or_default().trim().to_owned()
}

/// Whether any text that is given is blank.
fn any_blank(input: &Json) -> bool {
    ["name", "region", "url", "account"]
        .into_iter()
        .any(|key| input.get(key).is_some() && trimmed(input, key).is_empty())
}
