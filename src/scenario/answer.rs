//! What a step answers, as one line of JSON.

use crate::engine::{
    EndpointId, Engine, FailoverDecision, FenceOrder, HaltCode, HaltOrder, HistoryEntry, Input, InputError, OrderFlow,
    Output, SwitchEvent, Timestamp,
};

use super::json::{self, Writer};
use super::{Step, Verb, decimal, write};

/// A step that was taken or refused, with the engine as it is now.
pub struct Answer<'a> {
    /// 1-based line of the file.
    pub line: u64,
    /// The step.
    pub step: &'a Step,
    /// What the engine answered.
    pub result: &'a Result<Output, InputError>,
    /// The engine after the step.
    pub engine: &'a Engine,
    /// File time at which the engine's own time is zero: 0, or the last restart.
    pub(super) origin: u64,
}

/// Told only if it is so.
fn stopped(out: &mut Writer, monitor_stopped: bool) {
    if monitor_stopped {
        out.bool("monitor_stopped", true);
    }
}

impl Answer<'_> {
    /// The line of output that the scenario format defines.
    #[must_use]
    pub fn to_json(&self) -> String {
        let mut out = Writer::new();
        out.number("line", self.line).raw("at", &decimal::seconds(self.step.at));
        out.raw(self.step.verb.name(), &self.step.value);
        match self.result {
            Err(error) => {
                let body = Writer::new().string("code", error.code()).string("message", &error.to_string()).end();
                out.raw("error", &body);
            }
            Ok(Output::Decision(decision)) => self.decision(&mut out, decision),
            Ok(Output::Flow(flow)) => self.flow(&mut out, *flow),
            Ok(Output::Health(change)) => self.health(&mut out, change.monitor_stopped),
            Ok(Output::Heard(heard)) => {
                stopped(&mut out, heard.monitor_stopped);
                out.list("missing", self.engine.missing().map(|id| json::string(self.name(id))));
            }
            Ok(Output::Done) if self.step.verb == Verb::Status => self.status(&mut out),
            Ok(Output::Done) => {}
        }
        out.end()
    }

    /// The name of an endpoint of this engine.
    #[must_use]
    pub fn name(&self, id: EndpointId) -> &str {
        self.engine.endpoint(id).map_or("?", |endpoint| &endpoint.name)
    }

    /// A moment of the engine's in file time, in nanoseconds; `None` if that lies beyond the end of time.
    #[must_use]
    pub fn file_time(&self, at: Timestamp) -> Option<u64> {
        self.origin.checked_add(at.as_nanos())
    }

    /// The moment of the step on the engine's own clock, which starts from zero again at a restart.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        Timestamp::from_nanos(self.step.at.saturating_sub(self.origin))
    }

    fn health(&self, out: &mut Writer, monitor_stopped: bool) {
        let Verb::Input(Input::Probe { endpoint, .. }) = &self.step.verb else { return };
        let Some(health) = self.engine.id(endpoint).ok().and_then(|id| self.engine.health(id)) else { return };
        out.string("state", health.state().name())
            .number("consecutive_failures", health.consecutive_failures())
            .number("consecutive_successes", health.consecutive_successes())
            .optional_string("last_probe_error", health.last_probe_error());
        stopped(out, monitor_stopped);
    }

    fn decision(&self, out: &mut Writer, decision: &FailoverDecision) {
        out.string("outcome", decision.outcome.name())
            .string("active", self.name(decision.active))
            .number("epoch", decision.epoch)
            .bool("requires_trading_halt", decision.requires_trading_halt())
            .string("reason_code", decision.reason.code())
            .string("reason", &decision.reason.to_string())
            .list("notes", decision.notes.iter().map(|note| json::string(note.code())));
        if let Some(earliest) = decision.earliest().and_then(|at| self.file_time(at)) {
            out.raw("earliest_at", &decimal::seconds(earliest));
        }
        self.flow(out, decision.order_flow());
        if let Some(event) = decision.event() {
            out.raw("event", &self.event(event).end());
        }
        if let Some(FenceOrder { endpoint, epoch, target }) = decision.fence() {
            let fence = Writer::new()
                .string("endpoint", self.name(endpoint))
                .number("epoch", epoch)
                .string("target", self.name(target))
                .end();
            out.raw("fence", &fence);
        }
    }

    fn event(&self, event: &SwitchEvent) -> Writer {
        let mut out = Writer::new();
        out.string("kind", event.kind.name())
            .string("from", self.name(event.from))
            .string("to", self.name(event.to))
            .string("from_state", event.from_state.name())
            .number("epoch", event.epoch);
        out
    }

    fn flow(&self, out: &mut Writer, flow: OrderFlow) {
        let mut body = Writer::new();
        match flow {
            OrderFlow::Open { endpoint, epoch } => {
                body.string("state", "OPEN").string("endpoint", self.name(endpoint)).number("epoch", epoch)
            }
            OrderFlow::Hold { reason } => body.string("state", "HOLD").string("reason", reason.name()),
            OrderFlow::Halt { code } => body.string("state", "HALT").string("code", self.halt_code(code)),
        };
        out.raw("order_flow", &body.end());
    }

    /// The code of a halt in full.
    #[must_use]
    pub fn halt_code(&self, code: HaltCode) -> &str {
        match (code, self.engine.halt_order()) {
            (HaltCode::Operator | HaltCode::Caller, Some(order)) => order.code(),
            _ => HaltOrder::NO_TARGET_AVAILABLE,
        }
    }

    fn status(&self, out: &mut Writer) {
        let engine = self.engine;
        let now = self.now();
        let null = || "null".to_owned();
        let age = |age: Option<u64>| age.map_or_else(null, decimal::seconds);
        out.raw("active", &engine.active().map_or_else(null, |id| json::string(self.name(id))))
            .raw("epoch", &engine.epoch().map_or_else(null, |epoch| epoch.to_string()))
            .bool("spent", engine.is_spent());
        self.flow(out, engine.order_flow());
        out.list("eligible_targets", engine.eligible_targets(now).map(|id| json::string(self.name(id))))
            .list(
                "history",
                engine
                    .history()
                    .map(|HistoryEntry { event, applied }| self.event(&event).bool("applied", applied).end()),
            )
            .number("history_dropped", engine.history_dropped())
            .bool("operator_placed", engine.is_operator_placed())
            .raw("last_switch_age", &age(engine.last_switch_age(now)))
            .list("failback_ages", engine.failback_ages(now).map(decimal::seconds))
            .list("endpoints", engine.endpoints().map(|(id, _)| self.endpoint(id, now)));
    }

    fn endpoint(&self, id: EndpointId, now: Timestamp) -> String {
        let mut out = Writer::new();
        if let (Some(endpoint), Some(health)) = (self.engine.endpoint(id), self.engine.health(id)) {
            out.string("name", &endpoint.name)
                .string("region", &endpoint.region)
                .string("url", &endpoint.url)
                .optional_string("account", endpoint.account.as_deref())
                .bool("primary", endpoint.primary)
                .number("priority", endpoint.priority);
            if let Some(own) = endpoint.trigger {
                out.raw("trigger", &write::trigger(own));
            }
            out.bool("maintenance", self.engine.in_maintenance(id));
            let bars = self.engine.bars(id);
            if !bars.is_empty() {
                out.list("bars", bars.iter().map(|cause| json::string(cause.code())));
            }
            out.string("state", health.state().name())
                .number("consecutive_failures", health.consecutive_failures())
                .number("consecutive_successes", health.consecutive_successes())
                .raw("health_age", &health.age(now).map_or_else(|| "null".to_owned(), decimal::seconds))
                .bool("fresh", self.engine.is_fresh(now, health))
                .optional_string("last_probe_error", health.last_probe_error());
        }
        out.end()
    }
}
