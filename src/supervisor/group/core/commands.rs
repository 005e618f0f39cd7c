//! What a person may ask of a group, and why it may be refused.

use crate::engine::{BarCause, Epoch, Evaluation, FailoverOutcome, HaltOrder, Input, Output, Timestamp};
use crate::supervisor::hooks::Stage;
use crate::supervisor::journal::{Follow, Peer, flow_text};

use super::{Command, Core, Effect, Entry};

impl Core {
    pub(super) fn command(
        &mut self,
        now: Timestamp,
        command: Command,
        caller: Option<Peer>,
        effects: &mut Vec<Effect>,
    ) {
        let place = effects.len();
        let reply = self.obey(now, &command, effects);
        let refused = reply.as_ref().err().cloned();
        let entry = Entry::Command { command, caller, refused };
        self.memory.fold(&entry.to_body());
        // The command stands in the journal before what follows from it.
        effects.insert(place, Effect::Record { entry, durable: true });
        effects.push(Effect::Reply(reply));
    }

    fn obey(&mut self, now: Timestamp, command: &Command, effects: &mut Vec<Effect>) -> Result<String, String> {
        if self.journal_failed {
            return Err(
                "the journal failed: nothing can be recorded, so nothing is decided; repair it and restart".to_owned()
            );
        }
        if self.dry_run {
            return Err("a dry run: nothing is changed".to_owned());
        }
        match command {
            Command::ConfirmFence { epoch } => self.confirm_fence(*epoch),
            Command::ConfirmReconciled { .. } if self.lane.decides() => {
                Err("a switch is under way: wait for its hook; nothing was confirmed".to_owned())
            }
            Command::ConfirmReconciled { .. } if self.switch_is_due() => {
                Err("the switch hook has not run yet; nothing was confirmed".to_owned())
            }
            Command::ConfirmReconciled { epoch } => self.said(now, Input::Reconciled(*epoch), effects),
            Command::RepeatHook => match self.memory.unknown_hooks.as_slice() {
                [] => Err("no hook waits for a person".to_owned()),
                hooks => Ok(hooks
                    .iter()
                    .map(|(stage, epoch)| format!("the {stage} hook of epoch {epoch} will be repeated"))
                    .collect::<Vec<_>>()
                    .join(", ")),
            },
            Command::Halt { text } => {
                let said = self.said(now, Input::Halt(HaltOrder::operator(text)), effects)?;
                let held_back = self.memory.paused && !self.config.hooks.halt.is_empty();
                Ok(if held_back { format!("{said}; paused: the halt hook runs only after unpause") } else { said })
            }
            Command::Resume => self.said(now, Input::Resume, effects),
            Command::Maintenance { endpoint, on } => {
                self.said(now, Input::Maintenance { endpoint: endpoint.clone(), on: *on }, effects)
            }
            Command::Unbar { endpoint } => self.unbar(now, endpoint, effects),
            Command::ClearLogons if self.memory.refused_logons.is_empty() => Err("no logon was refused".to_owned()),
            Command::ClearLogons => {
                effects.push(Effect::ClearLogons);
                let names: Vec<_> = self.memory.refused_logons.keys().map(String::as_str).collect();
                Ok(format!("credential {}: probes log on again", names.join(", ")))
            }
            Command::Pause => Ok("paused: probing and assessing, running no hook".to_owned()),
            Command::Unpause => Ok("deciding again".to_owned()),
            Command::Rearm | Command::Switchover { .. } | Command::Failback => self.move_by_hand(now, command, effects),
        }
    }

    fn unbar(&mut self, now: Timestamp, endpoint: &str, effects: &mut Vec<Effect>) -> Result<String, String> {
        let barred = self.engine.id(endpoint).map(|id| self.engine.bars(id));
        let cause = BarCause::AccountMismatch;
        if barred.is_ok_and(|bars| !bars.contains(cause)) {
            return Err(format!("{endpoint} is not barred for {}: the other bars are lifted by proof", cause.code()));
        }
        self.said(now, Input::Bar { endpoint: endpoint.to_owned(), cause, on: false }, effects)
    }

    /// Whether the transport must still be moved, and nobody is asked whether it was.
    fn switch_is_due(&self) -> bool {
        !self.memory.carried && !self.config.hooks.switch.is_empty() && !self.memory.is_unknown(Stage::Switch)
    }

    fn confirm_fence(&mut self, epoch: u64) -> Result<String, String> {
        let present = self.engine.epoch().map_or(0, Epoch::get);
        if epoch != present {
            return Err(format!("epoch {epoch} is not the present epoch {present}: nothing was confirmed"));
        }
        if self.memory.plan.is_none() && !self.engine.is_spent() {
            return Err("no fence is wanted: nothing was confirmed".to_owned());
        }
        self.proof_until = None;
        let waits =
            self.lane.decides().then_some("; the hook that runs has to end first, at the latest at its deadline");
        Ok(format!("epoch {epoch} is fenced{}", waits.unwrap_or_default()))
    }

    fn move_by_hand(&mut self, now: Timestamp, command: &Command, effects: &mut Vec<Effect>) -> Result<String, String> {
        if self.memory.paused {
            return Err("paused: unpause first".to_owned());
        }
        if self.lane.decides() || !self.memory.unknown_hooks.is_empty() {
            return Err("a switch is under way: wait for its hook, or answer for it".to_owned());
        }
        if !self.awaited.is_empty() {
            let names: Vec<_> = self.awaited.iter().map(|id| self.name(*id)).collect();
            return Err(format!("nothing is known yet of {}: nothing moves before", names.join(", ")));
        }
        let evaluation = match command {
            Command::Rearm => {
                return match self
                    .take(now, Input::Rearm, effects)
                    .map_err(|error| format!("{}: {error}", error.code()))?
                {
                    Output::Decision(decision) => {
                        decision.event().into_iter().for_each(|event| self.switched(event));
                        Ok(format!("epoch {}", decision.epoch))
                    }
                    _ => Err("no decision".to_owned()),
                };
            }
            Command::Switchover { target } => Evaluation::Switchover(target.clone()),
            _ if self.engine.is_operator_placed() => {
                let primary = self.engine.endpoints().find(|(_, endpoint)| endpoint.primary);
                Evaluation::Switchover(primary.map(|(_, endpoint)| endpoint.name.clone()).unwrap_or_default())
            }
            _ => Evaluation::Failback,
        };
        let decision = match self.take(now, Input::Evaluate(evaluation, self.claim(now)), effects) {
            Ok(Output::Decision(decision)) => decision,
            Ok(_) => return Err("no decision".to_owned()),
            Err(error) => return Err(format!("{}: {error}", error.code())),
        };
        if let Some(event) = decision.event() {
            self.switched(event);
        }
        if decision.fence().is_some() {
            self.leave(now, effects);
        }
        match decision.outcome {
            FailoverOutcome::Switched(_) => Ok(decision.outcome.name().to_owned()),
            FailoverOutcome::FenceRequired(fence) => {
                let (name, epoch) = (self.name(fence.endpoint), fence.epoch);
                let how = if self.config.hooks.fence.is_empty() {
                    format!("waits for a person's confirm-fence --epoch {epoch}")
                } else {
                    "is fenced first".to_owned()
                };
                Ok(format!("{}: accepted; {name} in epoch {epoch} {how}", decision.outcome.name()))
            }
            outcome => Err(format!("{}: {}", outcome.name(), decision.reason)),
        }
    }

    fn said(&mut self, now: Timestamp, input: Input, effects: &mut Vec<Effect>) -> Result<String, String> {
        match self.take(now, input, effects) {
            Ok(_) => Ok(flow_text(&self.engine)),
            Err(error) => Err(format!("{}: {error}", error.code())),
        }
    }
}
