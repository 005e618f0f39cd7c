//! Lines of a scenario file -> configuration and steps.

use std::borrow::Cow;

use crate::engine::{
    BarCause, DEFAULT_BACKUP_PRIORITY, DEFAULT_PRIMARY_PRIORITY, Endpoint, EndpointUpdate, Engine, EngineError,
    Evaluation, FenceClaim, HaltOrder, Input, Policy, PolicyError, PolicySettings, ProbeResult, RestartKind,
    RestoreError, ResumeAfterHalt, Silence, Snapshot, Timestamp, Trigger, TriggerRule,
};

use super::json::{self, Object, Value};
use super::{Fault, Step, Verb, decimal};

/// The verbs, in the order of the format's table.
const VERBS: [&str; 20] = [
    "probe",
    "due",
    "tick",
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

/// The first line: a policy and endpoints, as an engine.
pub(super) fn config(line: &str) -> Result<Engine, Fault> {
    let whole = Value::line(line);
    let mut outer = whole.object()?;
    let Some(config) = outer.take("config") else {
        return Err(whole.fault("no key \"config\" in this object", "{\"config\":{...}} as the first line"));
    };
    let mut config = config.object()?;
    outer.finish()?;
    let policy = match config.take("policy") {
        Some(value) => policy(value)?,
        None => Policy::default(),
    };
    let mut engine = Engine::new(policy);
    for value in config.require("endpoints")?.list()? {
        engine.register(endpoint(value)?).map_err(|error| not_registrable(value, &error))?;
    }
    config.finish()?;
    Ok(engine)
}

/// An endpoint of the configuration that the engine refuses, as a fault of the file.
fn not_registrable(value: Value<'_>, error: &EngineError) -> Fault {
    match error {
        EngineError::BlankField { field, .. } => value.at(&field.to_string()).unlike("text that is not blank"),
        EngineError::DuplicateEndpoint { endpoint } => {
            value.at("name").fault(format!("a second endpoint called {endpoint:?}"), "each name once")
        }
        EngineError::SecondPrimary { endpoint, primary } => {
            value.at("primary").fault(format!("{endpoint:?} as a second primary beside {primary:?}"), "one primary")
        }
        other => value.fault(other.to_string(), "an endpoint that can be registered"),
    }
}

/// Whether the line is a `restore` line.
pub(super) fn is_restore(line: &str) -> bool {
    Value::line(line).object().is_ok_and(|mut object| object.take("restore").is_some())
}

/// The optional second line: the state at 0 of an engine whose older inputs are gone.
pub(super) fn restore(line: &str, config: &Engine) -> Result<Engine, Fault> {
    let mut outer = Value::line(line).object()?;
    let value = outer.require("restore")?;
    outer.finish()?;
    if config.endpoints().len() > 0 {
        return Err(
            value.fault_at_key("\"restore\" after configured endpoints", "\"endpoints\":[] in the configuration")
        );
    }
    value.object()?;
    let snapshot: Snapshot = value.read("a snapshot")?;
    // Nothing restarted: only the inputs before it are gone. So order flow stays as it was.
    Engine::restore(config.policy().clone(), snapshot, Timestamp::ZERO, RestartKind::Monitor)
        .map_err(|error| not_restorable(value, error))
}

/// A snapshot that the engine refuses, as a fault of the file.
fn not_restorable(value: Value<'_>, error: RestoreError) -> Fault {
    match error {
        RestoreError::Version { expected, .. } => value.at("version").unlike(expected.to_string()),
        RestoreError::Contradiction { key, found, expected } => {
            value.at(key).fault(format!("{key:?}: {found}"), expected)
        }
        other => {
            let found = other.to_string();
            let found = found.strip_suffix("; nothing was changed").unwrap_or(&found);
            value.at("endpoints").fault(found, "endpoints that can be registered")
        }
    }
}

fn policy(value: Value<'_>) -> Result<Policy, Fault> {
    let mut object = value.object()?;
    let mut settings = PolicySettings::default();
    let mut places = Vec::new();
    let mut take = |key| {
        let value = object.take(key)?;
        places.push((key, value));
        Some(value)
    };
    macro_rules! set {
        ($($field:ident: $read:expr),* $(,)?) => {
            $(if let Some(value) = take(stringify!($field)) { settings.$field = $read(value)?; })*
        };
    }
    set! {
        failure_threshold: Value::u32,
        trigger: |value| trigger(value).map(Some),
        minimum_history: |value: Value<'_>| value.u32().map(Some),
        silence: silence,
        cooldown: duration,
        cooldown_max: |value| duration(value).map(Some),
        max_health_age: duration,
        failback_success_threshold: Value::u32,
        require_fence: Value::bool,
        max_failbacks_per_window: Value::u32,
        failback_window: duration,
        require_reconciliation: Value::bool,
        resume_after_halt: resume_after_halt,
        history_limit: Value::u32,
    }
    object.finish()?;
    if let Some(TriggerRule::Consecutive(failures)) = settings.trigger.map(Trigger::rule) {
        // Stated there, it need not be stated twice.
        if places.iter().all(|(key, _)| *key != "failure_threshold") {
            settings.failure_threshold = failures;
        }
    }
    Policy::new(settings).map_err(|error| {
        let place = |key: &str| places.iter().find(|(name, _)| *name == key).map(|(_, place)| *place);
        let key = error.key();
        let inside = || place("trigger").map(|trigger| trigger.at(key));
        place(key).or_else(inside).unwrap_or(value).unlike(expected(&error))
    })
}

/// What a refused value of the policy should have been.
fn expected(error: &PolicyError) -> String {
    match error {
        PolicyError::Count { .. } => "1 to 4294967295".to_owned(),
        PolicyError::Span { least, .. } => format!("{least} to 18446744073709551615ns"),
        PolicyError::Range { most, .. } => format!("1 to {most}"),
        PolicyError::Mismatch { expected, .. } => expected.clone(),
    }
}

fn trigger(value: Value<'_>) -> Result<Trigger, Fault> {
    let mut object = value.object()?;
    let mut number = |key| object.take(key).map(Value::u32).transpose();
    let (consecutive, failures, of) = (number("consecutive")?, number("failures")?, number("of")?);
    let window = object.take("window").map(duration).transpose()?;
    object.finish()?;
    let rule = TriggerRule::from_keys(consecutive, window, failures, of);
    let rule = rule.ok_or_else(|| value.unlike(TriggerRule::KEYS))?;
    Trigger::new(rule).map_err(|error| value.at(error.key()).unlike(expected(&error)))
}

fn duration(value: Value<'_>) -> Result<std::time::Duration, Fault> {
    let refuse = || value.unlike(decimal::DURATION);
    if !value.is_string() {
        return Err(refuse());
    }
    decimal::parse_duration(&value.string()?).ok_or_else(refuse)
}

fn span(value: Value<'_>) -> Result<std::time::Duration, Fault> {
    match duration(value)? {
        std::time::Duration::ZERO => Err(value.unlike("a duration above zero")),
        span => Ok(span),
    }
}

fn silence(value: Value<'_>) -> Result<Silence, Fault> {
    match value.raw() {
        "\"note\"" => Ok(Silence::Note),
        "\"failure\"" => Ok(Silence::Failure),
        _ => Err(value.unlike("\"note\" or \"failure\"")),
    }
}

fn resume_after_halt(value: Value<'_>) -> Result<ResumeAfterHalt, Fault> {
    match value.raw() {
        "\"reconcile\"" => Ok(ResumeAfterHalt::Reconcile),
        "\"operator\"" => Ok(ResumeAfterHalt::Operator),
        _ => Err(value.unlike("\"reconcile\" or \"operator\"")),
    }
}

fn endpoint(value: Value<'_>) -> Result<Endpoint, Fault> {
    let mut object = value.object()?;
    let name = object.require("name")?.string()?;
    let region = object.require("region")?.string()?;
    let url = object.require("url")?.string()?;
    let account = object.take("account").map(Value::string).transpose()?;
    let primary = object.take("primary").map(Value::bool).transpose()?.unwrap_or(false);
    let priority = object.take("priority").map(Value::u32).transpose()?;
    let trigger = object.take("trigger").map(trigger).transpose()?;
    object.finish()?;
    let default = if primary { DEFAULT_PRIMARY_PRIORITY } else { DEFAULT_BACKUP_PRIORITY };
    Ok(Endpoint { name, region, url, account, primary, priority: priority.unwrap_or(default), trigger })
}

/// Any further line: one input and its time, which is not before `earliest`.
pub(super) fn step(line: &str, earliest: u64) -> Result<Step, Fault> {
    let mut object = Value::line(line).object()?;
    for (key, expected) in
        [("config", "the configuration as the first line only"), ("restore", "it right after the configuration only")]
    {
        if let Some(value) = object.remove(key) {
            return Err(value.fault_at_key(format!("the key {key:?}"), expected));
        }
    }
    let time = object.require("at")?;
    let at = time.seconds()?;
    if at < earliest {
        return Err(time.unlike(format!("{} or later, the time of the line before", decimal::seconds(earliest))));
    }
    let (verb, value) = object.take_one_of(&VERBS)?;
    let verb = parse_verb(verb, value, &mut object)?;
    object.finish()?;
    let value = repeated(&verb, value)?;
    Ok(Step { at, verb, value })
}

/// The verb's own value as the output repeats it: as written, but for names that were trimmed, escapes that are not
/// needed and white space.
fn repeated(verb: &Verb, value: Value<'_>) -> Result<String, Fault> {
    Ok(match verb {
        Verb::Input(Input::Register(endpoint)) => json::string(endpoint.name.trim()),
        Verb::Input(Input::Update { name, .. }) => json::string(name.trim()),
        _ if value.is_string() => json::string(&value.string()?),
        Verb::Input(Input::Halt(order)) => {
            json::Writer::new().string("code", order.code()).string("text", order.text()).end()
        }
        _ => value.raw().to_owned(),
    })
}

fn parse_verb(verb: &str, value: Value<'_>, rest: &mut Object<'_>) -> Result<Verb, Fault> {
    Ok(Verb::Input(match verb {
        "probe" => Input::Probe { endpoint: value.string()?, result: probe_result(rest)? },
        "tick" => value.flag().map(|()| Input::Tick)?,
        "due" => Input::Due { endpoint: value.string()?, within: span(rest.require("within")?)? },
        "evaluate" => Input::Evaluate(evaluation(value, "\"failover\" or \"failback\"")?, fence(rest)?),
        "assess" if value.raw() == "\"switchover\"" => {
            Input::Assess(Evaluation::Switchover(rest.require("target")?.string()?), fence(rest)?)
        }
        "assess" => Input::Assess(evaluation(value, "\"failover\", \"failback\" or \"switchover\"")?, fence(rest)?),
        "switchover" => Input::Evaluate(Evaluation::Switchover(value.string()?), fence(rest)?),
        "fence_started" => Input::FenceStarted(value.u64()?),
        "switch_failed" => Input::SwitchFailed(value.u64()?),
        "reconciled" => Input::Reconciled(value.u64()?),
        "rearm" => value.flag().map(|()| Input::Rearm)?,
        "validate" => value.flag().map(|()| Input::Validate)?,
        "resume" => value.flag().map(|()| Input::Resume)?,
        "register" => Input::Register(Box::new(endpoint(value)?)),
        "update" => update(value)?,
        "maintenance" => Input::Maintenance { endpoint: value.string()?, on: rest.require("on")?.bool()? },
        "bar" => {
            let (endpoint, cause) = (value.string()?, bar_cause(rest.require("cause")?)?);
            Input::Bar { endpoint, cause, on: rest.require("on")?.bool()? }
        }
        "halt" => Input::Halt(halt(value)?),
        "status" => return value.flag().map(|()| Verb::Status),
        "wall_step" => return Ok(Verb::WallStep(value.signed_seconds()?.to_owned())),
        _ => return restart(value),
    }))
}

fn bar_cause(value: Value<'_>) -> Result<BarCause, Fault> {
    let refuse = || value.unlike(format!("one of {}", BarCause::ALL.map(BarCause::code).join(", ")));
    if !value.is_string() {
        return Err(refuse());
    }
    BarCause::from_code(&value.string()?).ok_or_else(refuse)
}

fn restart(value: Value<'_>) -> Result<Verb, Fault> {
    match value.raw() {
        "true" => Ok(Verb::Restart(RestartKind::Gateway)),
        "\"monitor\"" => Ok(Verb::Restart(RestartKind::Monitor)),
        _ => Err(value.unlike("true or \"monitor\"")),
    }
}

fn evaluation(value: Value<'_>, expected: &str) -> Result<Evaluation, Fault> {
    match value.raw() {
        "\"failover\"" => Ok(Evaluation::Failover),
        "\"failback\"" => Ok(Evaluation::Failback),
        _ => Err(value.unlike(expected)),
    }
}

fn fence(rest: &mut Object<'_>) -> Result<FenceClaim, Fault> {
    match (rest.take("fence_confirmed"), rest.take("fence_epoch")) {
        (Some(_), Some(epoch)) => {
            Err(epoch.fault_at_key("\"fence_epoch\" beside \"fence_confirmed\"", "at most one of the two"))
        }
        (Some(confirmed), None) => Ok(if confirmed.bool()? { FenceClaim::Present } else { FenceClaim::None }),
        (None, Some(epoch)) => Ok(FenceClaim::Epoch(epoch.u64()?)),
        (None, None) => Ok(FenceClaim::None),
    }
}

fn probe_result(rest: &mut Object<'_>) -> Result<ProbeResult, Fault> {
    let error = rest.take("error");
    if let Some(panic) = rest.take("panic") {
        let message = panic.string()?;
        return match rest.take("ok").or(error) {
            Some(other) => Err(other.fault_at_key("\"panic\" beside \"ok\" or \"error\"", "\"panic\" in their place")),
            None => Ok(ProbeResult::panicked(&message)),
        };
    }
    match (rest.require("ok")?.bool()?, error) {
        (true, None) => Ok(ProbeResult::Success),
        (true, Some(error)) => {
            Err(error.fault_at_key("\"error\" beside \"ok\":true", "\"error\" only beside \"ok\":false"))
        }
        (false, None) => Ok(ProbeResult::FAILED),
        (false, Some(error)) => Ok(ProbeResult::Failure(Cow::Owned(error.string()?))),
    }
}

fn update(value: Value<'_>) -> Result<Input, Fault> {
    let mut object = value.object()?;
    let name = object.require("name")?.string()?;
    let update = EndpointUpdate {
        region: object.take("region").map(Value::string).transpose()?,
        url: object.take("url").map(Value::string).transpose()?,
        account: object.take("account").map(Value::string).transpose()?,
        primary: object.take("primary").map(Value::bool).transpose()?,
        priority: object.take("priority").map(Value::u32).transpose()?,
        trigger: object.take("trigger").map(trigger).transpose()?,
    };
    object.finish()?;
    Ok(Input::Update { name, update: Box::new(update) })
}

fn halt(value: Value<'_>) -> Result<HaltOrder, Fault> {
    if value.is_string() {
        return Ok(HaltOrder::operator(value.string()?));
    }
    if !value.raw().starts_with('{') {
        return Err(value.unlike("a reason in words, or {\"code\":...,\"text\":...}"));
    }
    let mut object = value.object()?;
    let code = object.require("code")?;
    let text = object.require("text")?.string()?;
    object.finish()?;
    HaltOrder::new(code.string()?, text)
        .map_err(|_| code.unlike("a code that is not blank and not NO_TARGET_AVAILABLE"))
}
