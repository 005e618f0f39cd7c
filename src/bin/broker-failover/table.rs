//! A replay as a table that a person reads at three in the morning.

use std::io::{self, Write};

use anstyle::{AnsiColor, Style};
use broker_failover::engine::{
    EndpointState, Evaluation, FailoverDecision, FailoverOutcome, Input, OrderFlow, Output, ProbeResult, RestartKind,
};
use broker_failover::planning::counted;
use broker_failover::scenario::{Answer, Tally, Verb};
use broker_failover::supervisor::visible::visible;

pub(crate) const ALARM: Style = AnsiColor::Red.on_default().bold();
const MOVE: Style = AnsiColor::Cyan.on_default().bold();
pub(crate) const CARE: Style = AnsiColor::Yellow.on_default();
pub(crate) const GOOD: Style = AnsiColor::Green.on_default();
pub(crate) const PLAIN: Style = Style::new();

/// Prints rows as they come; the head before the first one.
#[derive(Default)]
pub(crate) struct Table {
    headed: bool,
}

impl Table {
    pub(crate) fn row(&mut self, out: &mut impl Write, answer: &Answer<'_>) -> io::Result<()> {
        if !self.headed {
            self.headed = true;
            writeln!(out, "{:>5} {:<18}  {:<36} {:<27} {:<24} WHY", "LINE", "TIME", "INPUT", "ANSWER", "ORDER FLOW")?;
        }
        let (style, what, why) = describe(answer);
        let (flow, why) = (visible(&flow(answer)), visible(&why));
        let (line, time, input) = (answer.line, time(answer.step.at), visible(&input(answer)));
        let row = format!("{line:>5} {time:<18}  {input:<36} {style}{what:<27}{style:#} {flow:<24} {why}");
        writeln!(out, "{}", row.trim_end())
    }

    pub(crate) fn end(&self, out: &mut impl Write, tally: Tally) -> io::Result<()> {
        let Tally { taken, refused } = tally;
        writeln!(out, "{}: {taken} taken, {refused} refused", counted(taken + refused, "input"))
    }
}

/// Hours, minutes, seconds and milliseconds; finer digits where there are any, and the column has room for all nine.
fn time(nanos: u64) -> String {
    let (seconds, fraction) = (nanos / 1_000_000_000, nanos % 1_000_000_000);
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    let digits = format!("{fraction:09}");
    let digits = if fraction % 1_000_000 == 0 { &digits[..3] } else { digits.trim_end_matches('0') };
    format!("{hours:02}:{minutes:02}:{seconds:02}.{digits}")
}

fn input(answer: &Answer<'_>) -> String {
    let verb = answer.step.verb.name().replace('_', " ");
    let fenced = |claim: &broker_failover::engine::FenceClaim| match claim {
        broker_failover::engine::FenceClaim::None => String::new(),
        broker_failover::engine::FenceClaim::Present => " (fenced)".to_owned(),
        broker_failover::engine::FenceClaim::Epoch(epoch) => format!(" (fenced epoch {epoch})"),
    };
    match &answer.step.verb {
        Verb::Status => verb,
        Verb::WallStep(seconds) => format!("wall clock {seconds} s"),
        Verb::Restart(RestartKind::Gateway) => "restart of the gateway".to_owned(),
        Verb::Restart(RestartKind::Monitor) => "restart of the monitor".to_owned(),
        Verb::Input(input) => match input {
            Input::Probe { endpoint, result: ProbeResult::Success } => format!("probe {endpoint}: ok"),
            Input::Probe { endpoint, result: ProbeResult::Failure(error) } => format!("probe {endpoint}: {error}"),
            Input::Evaluate(Evaluation::Switchover(target), claim) => {
                format!("switchover to {target}{}", fenced(claim))
            }
            Input::Evaluate(Evaluation::Failover, claim) => format!("evaluate failover{}", fenced(claim)),
            Input::Evaluate(Evaluation::Failback, claim) => format!("evaluate failback{}", fenced(claim)),
            Input::Assess(Evaluation::Switchover(target), claim) => {
                format!("assess switchover to {target}{}", fenced(claim))
            }
            Input::Assess(Evaluation::Failover, claim) => format!("assess failover{}", fenced(claim)),
            Input::Assess(Evaluation::Failback, claim) => format!("assess failback{}", fenced(claim)),
            Input::FenceStarted(epoch) => format!("fence started, epoch {epoch}"),
            Input::SwitchFailed(epoch) => format!("switch failed, epoch {epoch}"),
            Input::Reconciled(epoch) => format!("reconciled, epoch {epoch}"),
            Input::Register(endpoint) => format!("register {}", endpoint.name.trim()),
            Input::Update { name, .. } => format!("update {}", name.trim()),
            Input::Maintenance { endpoint, on } => {
                format!("maintenance {endpoint}: {}", if *on { "on" } else { "off" })
            }
            Input::Halt(order) => format!("halt {}: {}", order.code(), order.text()),
            Input::Due { endpoint, within } => format!("due {endpoint}: within {within:?}"),
            Input::Bar { endpoint, cause, on } => {
                format!("bar {endpoint} {}: {}", cause.code(), if *on { "on" } else { "off" })
            }
            Input::Tick | Input::Rearm | Input::Validate | Input::Resume => verb,
        },
    }
}

/// The answer, how loud it is, and why it is what it is.
fn describe(answer: &Answer<'_>) -> (Style, String, String) {
    match answer.result {
        Err(error) => (ALARM, format!("refused {}", error.code()), error.to_string()),
        Ok(Output::Decision(decision)) => decided(answer, decision),
        Ok(Output::Health(change)) => {
            let style = match change.to {
                EndpointState::Down => ALARM,
                EndpointState::Degraded | EndpointState::Unknown => CARE,
                EndpointState::Healthy => GOOD,
            };
            let why = if change.from == change.to { String::new() } else { format!("was {}", change.from) };
            (style, change.to.to_string(), why)
        }
        Ok(Output::Done) if answer.step.verb == Verb::Status => (PLAIN, "status".to_owned(), status(answer)),
        Ok(Output::Heard(heard)) if heard.monitor_stopped => (CARE, "monitor stopped".to_owned(), String::new()),
        Ok(Output::Heard(_)) => {
            let missing: Vec<_> = answer.engine.missing().map(|id| answer.name(id)).collect();
            match missing.join(", ") {
                none if none.is_empty() => (PLAIN, "taken".to_owned(), String::new()),
                names => (CARE, "missing".to_owned(), names),
            }
        }
        Ok(Output::Flow(_) | Output::Done) => (PLAIN, "taken".to_owned(), String::new()),
    }
}

/// The state in one line: where flow is, and where it could go.
fn status(answer: &Answer<'_>) -> String {
    let engine = answer.engine;
    let (Some(active), Some(epoch)) = (engine.active(), engine.epoch()) else { return "nothing is active".to_owned() };
    let targets: Vec<_> = engine.eligible_targets(answer.now()).map(|id| answer.name(id)).collect();
    let targets = if targets.is_empty() { "none".to_owned() } else { targets.join(", ") };
    let spent = if engine.is_spent() { ", spent" } else { "" };
    let placed = if engine.is_operator_placed() { ", placed by an operator" } else { "" };
    format!("active {}, epoch {epoch}{spent}{placed}; targets: {targets}", answer.name(active))
}

fn decided(answer: &Answer<'_>, decision: &FailoverDecision) -> (Style, String, String) {
    let style = match decision.outcome {
        FailoverOutcome::NoTargetAvailable => ALARM,
        FailoverOutcome::Switched(_) => MOVE,
        FailoverOutcome::FenceRequired(_) | FailoverOutcome::FlapSuppressed { .. } => CARE,
        FailoverOutcome::CooldownActive { .. } | FailoverOutcome::NotStableYet => CARE,
        FailoverOutcome::NoAction => PLAIN,
    };
    let mut why = decision.reason.to_string();
    if let Some(event) = decision.event() {
        let (kind, from, to) = (event.kind.name(), answer.name(event.from), answer.name(event.to));
        why = format!("{kind} {from} -> {to}, epoch {}: {why}", event.epoch);
    }
    if let Some(order) = decision.fence() {
        let (endpoint, target) = (answer.name(order.endpoint), answer.name(order.target));
        why = format!("fence {endpoint} epoch {}, then {target}: {why}", order.epoch);
    }
    if let Some(at) = decision.earliest().and_then(|at| answer.file_time(at)) {
        why = format!("{why}; not before {}", time(at));
    }
    for note in decision.notes.iter() {
        why = format!("{why} [{}]", note.code());
    }
    (style, decision.outcome.name().to_owned(), why)
}

fn flow(answer: &Answer<'_>) -> String {
    match answer.engine.order_flow() {
        OrderFlow::Open { endpoint, epoch } => format!("OPEN {} #{epoch}", answer.name(endpoint)),
        OrderFlow::Hold { reason } => format!("HOLD {}", reason.name()),
        OrderFlow::Halt { code } => format!("HALT {}", answer.halt_code(code)),
    }
}
