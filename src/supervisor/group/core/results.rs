//! What probes came to, as the engine is told of it.

use std::time::Duration;

use crate::engine::{Engine, Input, Output, ProbeResult, RestartKind, Timestamp};
use crate::scenario::Verb;

use super::super::super::probes::Verdict;
use super::{Core, Effect, Entry, Observed, Outcome, note};

impl Core {
    pub(super) fn observe(&mut self, now: Timestamp, observed: Observed, effects: &mut Vec<Effect>) {
        let Observed { endpoint, verdict } = observed;
        let first = !(self.awaited.is_empty() && self.unheard.is_empty());
        self.awaited.retain(|id| *id != endpoint);
        self.unheard.retain(|id| *id != endpoint);
        let result = match verdict {
            Verdict::Success(evidence) => {
                self.see_certificate(now, endpoint, evidence.certificate_expires_in, effects);
                self.succeeded(now, endpoint, &evidence, effects);
                ProbeResult::Success
            }
            Verdict::PathFault { fault, text } => {
                self.faulted(now, endpoint, fault, &text, effects);
                ProbeResult::Failure(format!("{fault:?}: {text}").into())
            }
            Verdict::NoEvidence { cause, text, retry_after } => {
                self.withheld(now, endpoint, cause, retry_after, effects);
                let name = self.name(endpoint);
                note(effects, "NO_EVIDENCE", format!("{name}: {cause:?}: {text}"));
                return self.say_targets(now, first, effects);
            }
        };
        if self.engine.active() == Some(endpoint) {
            self.last_evidence = Some(now);
            self.silent = false;
        }
        let input = Input::Probe { endpoint: self.name(endpoint), result: result.clone() };
        let apply = |engine: &mut Engine, _: &Input| Ok(Output::Health(engine.record_probe(now, endpoint, result)?));
        let _ = self.take_as(now, input, apply, effects);
        self.say_targets(now, first, effects);
    }

    /// Once every endpoint has been heard of: a backup that cannot be used is better known before it is needed.
    fn say_targets(&self, now: Timestamp, first: bool, effects: &mut Vec<Effect>) {
        if first && self.awaited.is_empty() && self.unheard.is_empty() {
            note(effects, "TARGETS", self.targets_text(now));
        }
    }

    /// What was seen before a freeze proves nothing: the same as a restart of the monitor.
    pub(super) fn forget(&mut self, now: Timestamp, text: String, effects: &mut Vec<Effect>) {
        self.measured.stalled();
        // A freeze is told once for each endpoint. Where nothing was heard since, all is forgotten already: to do it again,
        // and to wait for the disk again, would keep a machine that is late from ever being in time.
        if self.awaited.len() < self.engine.endpoints().len() {
            self.restart(now, effects);
        }
        note(effects, "STALLED", text);
    }

    fn restart(&mut self, now: Timestamp, effects: &mut Vec<Effect>) {
        let (policy, snapshot) = (self.engine.policy().clone(), self.engine.snapshot(now));
        if let Ok(engine) = Engine::restore(policy, snapshot, now, RestartKind::Monitor) {
            self.engine = engine;
            self.begin_shadow_anew(now);
            self.awaited = self.engine.endpoints().map(|(id, _)| id).collect();
            let entry = Entry::Input { verb: Verb::Restart(RestartKind::Monitor), answer: Outcome::Taken };
            self.record(entry, true, effects);
        }
    }

    pub(super) fn watch_silence(&mut self, now: Timestamp, effects: &mut Vec<Effect>) {
        let Some(last) = self.last_evidence.filter(|_| !self.silent) else { return };
        let silent_for = now.nanos_since(last);
        if silent_for >= Timestamp::from_elapsed(self.config.no_evidence_alarm).as_nanos() {
            self.silent = true;
            let active = self.engine.active().map(|id| self.name(id)).unwrap_or_default();
            let long = Duration::from_nanos(silent_for).as_secs_f64();
            note(effects, "ACTIVE_SILENT", format!("no evidence on the active path {active} for {long:.1} s"));
        }
    }
}
