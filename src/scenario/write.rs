//! The inverse of parsing: configuration, snapshot and steps -> the lines that replay reads.

use std::time::Duration;

use crate::engine::{
    Endpoint, EndpointUpdate, Engine, Evaluation, FenceClaim, HaltOrder, Input, Policy, ProbeResult, RestartKind,
    ResumeAfterHalt, Silence, Snapshot, Trigger, TriggerRule,
};

use super::json::{self, Writer};
use super::{Fault, Step, Verb, decimal, parse};

impl Step {
    /// A step whose line is the canonical one for `verb`.
    #[must_use]
    pub fn new(at: u64, verb: Verb) -> Self {
        let value = value(&verb);
        Self { at, verb, value }
    }

    /// The step that `line`, without its end, stands for.
    ///
    /// # Errors
    /// The line is not a step. Its number in the fault is 0: a line alone has none.
    pub fn parse(line: &str) -> Result<Self, Fault> {
        parse::step(line, 0)
    }

    /// The line of a scenario file that stands for this step, without its end; parsing it gives this step again.
    ///
    /// ```
    /// use broker_failover::engine::Input;
    /// use broker_failover::scenario::{Step, Verb};
    ///
    /// let step = Step::new(1_500_000_000, Verb::Input(Input::Reconciled(2)));
    /// assert_eq!(step.to_line(), r#"{"at":1.5,"reconciled":2}"#);
    /// assert_eq!(Step::parse(&step.to_line()).unwrap(), step);
    /// ```
    #[must_use]
    pub fn to_line(&self) -> String {
        line(&decimal::seconds(self.at), &self.verb, &self.value)
    }
}

impl Verb {
    /// The line of [`Step::new`] at `at`.
    #[must_use]
    pub fn to_line(&self, at: u64) -> String {
        line(&decimal::seconds(at), self, &value(self))
    }

    /// The same, of a time in words.
    #[cfg(feature = "supervisor")]
    pub(crate) fn to_line_at(&self, seconds: &str) -> String {
        line(seconds, self, &value(self))
    }
}

fn line(at: &str, verb: &Verb, value: &str) -> String {
    let mut out = Writer::new();
    out.raw("at", at);
    let key = verb.name();
    let Verb::Input(input) = verb else {
        return out.raw(key, value).end();
    };
    match input {
        Input::Register(new) => out.raw(key, &endpoint(new)),
        Input::Update { name, update: change } => out.raw(key, &update(name, change)),
        Input::Probe { result, .. } => probe_result(out.raw(key, value), result),
        Input::Due { within, .. } => out.raw(key, value).string("within", &duration(*within)),
        Input::Maintenance { on, .. } => out.raw(key, value).bool("on", *on),
        Input::Bar { cause, on, .. } => out.raw(key, value).string("cause", cause.code()).bool("on", *on),
        Input::Assess(Evaluation::Switchover(target), claim) => {
            fence(out.raw(key, value).string("target", target), *claim)
        }
        Input::Evaluate(_, claim) | Input::Assess(_, claim) => fence(out.raw(key, value), *claim),
        Input::FenceStarted(_)
        | Input::SwitchFailed(_)
        | Input::Reconciled(_)
        | Input::Tick
        | Input::Rearm
        | Input::Validate
        | Input::Halt(_)
        | Input::Resume => out.raw(key, value),
    };
    out.end()
}

/// The verb's own value as the output repeats it.
fn value(verb: &Verb) -> String {
    match verb {
        Verb::Status | Verb::Restart(RestartKind::Gateway) => "true".to_owned(),
        Verb::Restart(RestartKind::Monitor) => json::string("monitor"),
        Verb::WallStep(seconds) => seconds.clone(),
        Verb::Input(input) => match input {
            Input::Probe { endpoint, .. }
            | Input::Due { endpoint, .. }
            | Input::Maintenance { endpoint, .. }
            | Input::Bar { endpoint, .. } => json::string(endpoint),
            Input::Evaluate(Evaluation::Switchover(target), _) => json::string(target),
            Input::Assess(Evaluation::Switchover(_), _) => json::string("switchover"),
            Input::Evaluate(Evaluation::Failover, _) | Input::Assess(Evaluation::Failover, _) => {
                json::string("failover")
            }
            Input::Evaluate(Evaluation::Failback, _) | Input::Assess(Evaluation::Failback, _) => {
                json::string("failback")
            }
            Input::FenceStarted(epoch) | Input::SwitchFailed(epoch) | Input::Reconciled(epoch) => epoch.to_string(),
            Input::Register(endpoint) => json::string(endpoint.name.trim()),
            Input::Update { name, .. } => json::string(name.trim()),
            Input::Halt(order) if order.code() == HaltOrder::OPERATOR => json::string(order.text()),
            Input::Halt(order) => Writer::new().string("code", order.code()).string("text", order.text()).end(),
            Input::Tick | Input::Rearm | Input::Validate | Input::Resume => "true".to_owned(),
        },
    }
}

fn probe_result<'w>(out: &'w mut Writer, result: &ProbeResult) -> &'w mut Writer {
    match result {
        ProbeResult::Success => out.bool("ok", true),
        result if *result == ProbeResult::FAILED => out.bool("ok", false),
        ProbeResult::Failure(text) => out.bool("ok", false).string("error", text),
    }
}

fn fence(out: &mut Writer, claim: FenceClaim) -> &mut Writer {
    match claim {
        FenceClaim::None => out,
        FenceClaim::Present => out.bool("fence_confirmed", true),
        FenceClaim::Epoch(epoch) => out.number("fence_epoch", epoch),
    }
}

fn endpoint(endpoint: &Endpoint) -> String {
    let mut out = Writer::new();
    out.string("name", &endpoint.name)
        .string("region", &endpoint.region)
        .string("url", &endpoint.url)
        .optional_string("account", endpoint.account.as_deref());
    if endpoint.primary {
        out.bool("primary", true);
    }
    optional_trigger(out.number("priority", endpoint.priority), endpoint.trigger).end()
}

fn optional_trigger(out: &mut Writer, own: Option<Trigger>) -> &mut Writer {
    match own {
        Some(own) => out.raw("trigger", &trigger(own)),
        None => out,
    }
}

/// A trigger as the format writes it.
pub(super) fn trigger(trigger: Trigger) -> String {
    let mut out = Writer::new();
    match trigger.rule() {
        TriggerRule::Consecutive(failures) => out.number("consecutive", failures),
        TriggerRule::Window(span) => out.string("window", &duration(span)),
        TriggerRule::Failures { failures, of } => out.number("failures", failures).number("of", of),
    }
    .end()
}

fn update(name: &str, update: &EndpointUpdate) -> String {
    let mut out = Writer::new();
    out.string("name", name)
        .optional_string("region", update.region.as_deref())
        .optional_string("url", update.url.as_deref())
        .optional_string("account", update.account.as_deref());
    if let Some(primary) = update.primary {
        out.bool("primary", primary);
    }
    if let Some(priority) = update.priority {
        out.number("priority", priority);
    }
    optional_trigger(&mut out, update.trigger).end()
}

/// The first line of a scenario file, without its end: the policy (every key of the first version; of later ones those
/// that are not as they are by default) and the endpoints.
#[must_use]
pub fn config_line<'e>(policy: &Policy, endpoints: impl IntoIterator<Item = &'e Endpoint>) -> String {
    let settings = policy.settings();
    let resume = match settings.resume_after_halt {
        ResumeAfterHalt::Reconcile => "reconcile",
        ResumeAfterHalt::Operator => "operator",
    };
    let mut policy = Writer::new();
    optional_trigger(policy.number("failure_threshold", settings.failure_threshold), settings.trigger);
    if let Some(results) = settings.minimum_history {
        policy.number("minimum_history", results);
    }
    if settings.silence == Silence::Failure {
        policy.string("silence", "failure");
    }
    policy.string("cooldown", &duration(settings.cooldown));
    if let Some(most) = settings.cooldown_max {
        policy.string("cooldown_max", &duration(most));
    }
    let policy = policy
        .string("max_health_age", &duration(settings.max_health_age))
        .number("failback_success_threshold", settings.failback_success_threshold)
        .bool("require_fence", settings.require_fence)
        .number("max_failbacks_per_window", settings.max_failbacks_per_window)
        .string("failback_window", &duration(settings.failback_window))
        .bool("require_reconciliation", settings.require_reconciliation)
        .string("resume_after_halt", resume)
        .number("history_limit", settings.history_limit)
        .end();
    let config = Writer::new().raw("policy", &policy).list("endpoints", endpoints.into_iter().map(endpoint)).end();
    Writer::new().raw("config", &config).end()
}

/// A duration in the largest unit that states it as an integer.
fn duration(duration: Duration) -> String {
    let nanos = duration.as_nanos();
    let units = [
        (86_400_000_000_000, "d"),
        (3_600_000_000_000, "h"),
        (60_000_000_000, "m"),
        (1_000_000_000, "s"),
        (1_000_000, "ms"),
        (1_000, "us"),
    ];
    match units.into_iter().find(|(scale, _)| nanos >= *scale && nanos % scale == 0) {
        Some((scale, unit)) => format!("{}{unit}", nanos / scale),
        None => format!("{nanos}ns"),
    }
}

/// The engine that a configuration line stands for: a policy and registered endpoints.
///
/// # Errors
/// The line is not a configuration. Its number in the fault is 0: a line alone has none.
pub fn parse_config(line: &str) -> Result<Engine, Fault> {
    parse::config(line)
}

/// The optional second line of a scenario file, without its end: the state at 0.
///
/// # Errors
/// Never, for a snapshot that an engine gave.
pub fn restore_line(snapshot: &Snapshot) -> Result<String, serde_json::Error> {
    Ok(Writer::new().raw("restore", &serde_json::to_string(snapshot)?).end())
}

/// Nanoseconds as the format writes seconds: the shortest decimal with at least one fraction digit.
#[cfg(feature = "supervisor")]
pub(crate) fn seconds(nanos: u64) -> String {
    decimal::seconds(nanos)
}

/// The inverse of [`seconds`]; `None` for what the format does not take.
#[cfg(feature = "supervisor")]
pub(crate) fn parse_seconds(text: &str) -> Option<u64> {
    decimal::parse_seconds(text)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::engine::{BarCause, PolicySettings};

    fn text() -> impl Strategy<Value = String> {
        prop_oneof!["[a-z]{1,8}", "\\PC{0,12}", any::<String>(), Just("\u{2028}\"\\\u{0}\r\n".to_owned())]
    }

    fn any_endpoint() -> impl Strategy<Value = Endpoint> {
        let roles = (any::<bool>(), any::<u32>(), proptest::option::of(any_trigger()));
        (text(), text(), text(), proptest::option::of(text()), roles).prop_map(
            |(name, region, url, account, (primary, priority, trigger))| Endpoint {
                name,
                region,
                url,
                account,
                primary,
                priority,
                trigger,
            },
        )
    }

    fn any_trigger() -> impl Strategy<Value = Trigger> {
        prop_oneof![
            (1..=u32::MAX).prop_map(TriggerRule::Consecutive),
            (1..=u64::MAX).prop_map(|nanos| TriggerRule::Window(Duration::from_nanos(nanos))),
            (1..=64_u32, 1..=64_u32)
                .prop_map(|(one, other)| TriggerRule::Failures { failures: one.min(other), of: one.max(other) }),
        ]
        .prop_map(|rule| Trigger::new(rule).unwrap())
    }

    fn any_update() -> impl Strategy<Value = EndpointUpdate> {
        use proptest::option::of;
        (of(text()), of(text()), of(text()), of(any::<bool>()), of(any::<u32>()), of(any_trigger())).prop_map(
            |(region, url, account, primary, priority, trigger)| EndpointUpdate {
                region,
                url,
                account,
                primary,
                priority,
                trigger,
            },
        )
    }

    fn evaluation() -> impl Strategy<Value = Evaluation> {
        prop_oneof![Just(Evaluation::Failover), Just(Evaluation::Failback), text().prop_map(Evaluation::Switchover)]
    }

    fn claim() -> impl Strategy<Value = FenceClaim> {
        prop_oneof![Just(FenceClaim::None), Just(FenceClaim::Present), any::<u64>().prop_map(FenceClaim::Epoch)]
    }

    fn result() -> impl Strategy<Value = ProbeResult> {
        prop_oneof![
            Just(ProbeResult::Success),
            Just(ProbeResult::FAILED),
            text().prop_map(|text| ProbeResult::Failure(text.into())),
            text().prop_map(|text| ProbeResult::panicked(&text)),
        ]
    }

    fn halt() -> impl Strategy<Value = HaltOrder> {
        let coded = |(code, text): (String, String)| HaltOrder::new(code, text).ok();
        prop_oneof![text().prop_map(HaltOrder::operator), (text(), text()).prop_filter_map("a legal code", coded)]
    }

    fn input() -> impl Strategy<Value = Input> {
        prop_oneof![
            (text(), result()).prop_map(|(endpoint, result)| Input::Probe { endpoint, result }),
            Just(Input::Tick),
            (text(), 1..=u64::MAX).prop_map(|(endpoint, nanos)| {
                let within = Duration::from_nanos(nanos);
                Input::Due { endpoint, within }
            }),
            (evaluation(), claim()).prop_map(|(evaluation, claim)| Input::Evaluate(evaluation, claim)),
            (evaluation(), claim()).prop_map(|(evaluation, claim)| Input::Assess(evaluation, claim)),
            any::<u64>().prop_map(Input::FenceStarted),
            any::<u64>().prop_map(Input::SwitchFailed),
            any::<u64>().prop_map(Input::Reconciled),
            any_endpoint().prop_map(|endpoint| Input::Register(Box::new(endpoint))),
            (text(), any_update()).prop_map(|(name, update)| Input::Update { name, update: Box::new(update) }),
            (text(), any::<bool>()).prop_map(|(endpoint, on)| Input::Maintenance { endpoint, on }),
            (text(), proptest::sample::select(&BarCause::ALL[..]), any::<bool>())
                .prop_map(|(endpoint, cause, on)| Input::Bar { endpoint, cause, on }),
            halt().prop_map(Input::Halt),
            Just(Input::Rearm),
            Just(Input::Validate),
            Just(Input::Resume),
        ]
    }

    fn verb() -> impl Strategy<Value = Verb> {
        prop_oneof![
            20 => input().prop_map(Verb::Input),
            1 => Just(Verb::Status),
            1 => Just(Verb::Restart(RestartKind::Gateway)),
            1 => Just(Verb::Restart(RestartKind::Monitor)),
            1 => "-?[0-9]{1,9}(\\.[0-9]{1,9})?".prop_filter_map("JSON's numbers", |text| {
                serde_json::from_str::<f64>(&text).ok().map(|_| Verb::WallStep(text))
            }),
        ]
    }

    fn settings() -> impl Strategy<Value = PolicySettings> {
        let span = || prop_oneof![any::<u64>(), (0..5_000_u64).prop_map(|ms| ms * 1_000_000), 0..100_u64];
        let counts = (1..u32::MAX, 1..u32::MAX, 1..u32::MAX, any::<u32>());
        let patience = (proptest::option::of(any_trigger()), proptest::option::of(0..9_u32));
        let all = (counts, (span(), span(), span()), any::<[bool; 5]>(), patience);
        all.prop_map(|(counts, spans, flags, (trigger, more))| PolicySettings {
            failure_threshold: match trigger.map(Trigger::rule) {
                Some(TriggerRule::Consecutive(failures)) => failures,
                _ => counts.0,
            },
            trigger,
            silence: if flags[3] { Silence::Failure } else { Silence::Note },
            minimum_history: more.map(|more| trigger.map_or(counts.0, Trigger::needs).saturating_add(more)),
            failback_success_threshold: counts.1,
            max_failbacks_per_window: counts.2,
            history_limit: counts.3,
            cooldown: Duration::from_nanos(spans.0),
            cooldown_max: (spans.0 > 0 && flags[4]).then(|| Duration::from_nanos(spans.0.saturating_add(spans.1))),
            max_health_age: Duration::from_nanos(spans.1.max(1)),
            failback_window: Duration::from_nanos(spans.2.max(1)),
            require_fence: flags[0],
            require_reconciliation: flags[1],
            resume_after_halt: if flags[2] { ResumeAfterHalt::Operator } else { ResumeAfterHalt::Reconcile },
        })
    }

    proptest! {
        #[test]
        fn parsing_what_was_written_gives_the_step_again(at in any::<u64>(), verb in verb()) {
            let step = Step::new(at, verb);
            let line = step.to_line();
            prop_assert!(!line.contains(['\n', '\r']), "{line:?}");
            prop_assert_eq!(Step::parse(&line).map_err(|fault| fault.to_string()), Ok(step));
        }

        #[test]
        fn parsing_a_written_configuration_gives_the_policy_again(settings in settings()) {
            let policy = Policy::new(settings).unwrap();
            let parsed = parse_config(&config_line(&policy, [])).map_err(|fault| fault.to_string()).unwrap();
            prop_assert_eq!(parsed.policy(), &policy);
        }
    }

    #[test]
    fn lines_are_compact_and_read_like_the_format() {
        let line = |verb| Step::new(12_345_678_900, verb).to_line();
        let probe = |result| line(Verb::Input(Input::Probe { endpoint: "east".to_owned(), result }));
        assert_eq!(probe(ProbeResult::Success), r#"{"at":12.3456789,"probe":"east","ok":true}"#);
        assert_eq!(
            probe(ProbeResult::panicked("no \"memory\"")),
            r#"{"at":12.3456789,"probe":"east","ok":false,"error":"panic: no \"memory\""}"#
        );
        let halt = HaltOrder::new("COMPETING_SESSION", "Übernahme").unwrap();
        assert_eq!(
            line(Verb::Input(Input::Halt(halt))),
            r#"{"at":12.3456789,"halt":{"code":"COMPETING_SESSION","text":"Übernahme"}}"#
        );
    }

    #[test]
    fn a_line_as_written_by_hand_keeps_its_own_value() {
        // The operator's code in the long form is repeated in the long form.
        let line = r#"{"at":1.0,"halt":{"code":"OPERATOR","text":"x"}}"#;
        assert_eq!(Step::parse(line).unwrap().to_line(), line);
    }

    #[test]
    fn a_written_configuration_registers_the_same_endpoints() {
        let mut engine = Engine::new(Policy::default());
        engine.register(Endpoint::primary("east", "us-east-1", "https://east.example").with_account("U1")).unwrap();
        engine.register(Endpoint::backup("west", "us-west-2", "tcp://west.example:1", 10)).unwrap();
        let line = config_line(engine.policy(), engine.endpoints().map(|(_, endpoint)| endpoint));
        assert_eq!(parse_config(&line).unwrap(), engine);
    }
}
