//! A group's entries as records of the journal, and its loop's memory as something that follows them.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use crate::engine::{Evaluation, FenceClaim, Input, Timestamp};
use crate::scenario::Verb;

use super::super::hooks::{HookResult, Stage};
use super::super::journal::{
    Answer, Body, CommandRecord, Entry as Record, Follow, HookEndRecord, HookStartRecord, JournalHandle, NoteRecord,
};
use super::DriverState;
use super::bars::{LOGON_ACCEPTED, LOGON_REFUSED};
use super::core::{Command, Entry, HALT_BEGINS, Outcome, Plan, Proof};
use super::stages::Reached;
use super::task::Ledger;

/// How long a decision may take to be on disk. A disk that hangs is one that failed: nothing is decided meanwhile, and
/// nobody would be told.
const LONGEST_SYNC: Duration = Duration::from_secs(10);

impl Ledger for JournalHandle {
    fn append(&self, group: &Arc<str>, at: Timestamp, entry: Entry) {
        // A journal that failed says so to the next durable append, and to whoever waits for `until_failed`.
        let _ = Self::append(self, Record::of(group, at, entry.into_body()));
    }

    async fn append_durable(&self, group: &Arc<str>, at: Timestamp, entry: &Entry) -> Result<(), String> {
        let record = Record::of(group, at, entry.to_body());
        let appended = timeout(LONGEST_SYNC, Self::append_durable(self, record)).await;
        appended.unwrap_or_else(|_| Err(self.stalled(LONGEST_SYNC))).map(|_| ()).map_err(|error| error.to_string())
    }
}

impl Entry {
    /// The record of the journal that says it.
    #[must_use]
    pub fn to_body(&self) -> Body {
        self.clone().into_body()
    }

    /// The same, of what is not needed any more.
    #[must_use]
    pub fn into_body(self) -> Body {
        match self {
            Self::Input { verb, answer } => Body::Input { verb, answer: answer.to_answer() },
            Self::HookStart { ticket, level, request } => {
                Body::HookStart(Box::new(HookStartRecord { ticket, level: small(level), request: *request }))
            }
            Self::HookEnd { ticket, stage, level, endpoint, epoch, report } => Body::HookEnd(Box::new(HookEndRecord {
                ticket,
                stage,
                level: small(level),
                endpoint,
                epoch,
                report: *report,
            })),
            Self::Stage(stage) => Body::Stage(stage),
            Self::Command { command, caller, refused } => {
                let command = serde_json::to_value(command).unwrap_or_default();
                Body::Command(CommandRecord { peer: caller, command, refused })
            }
            Self::Note { code, text } => Body::Note(NoteRecord::new(code, text)),
            Self::Shadow(shadow) => {
                let note = NoteRecord::new(shadow.code(), shadow.to_string());
                Body::Note(NoteRecord { shadow: Some(shadow), ..note })
            }
        }
    }
}

fn small(level: usize) -> u32 {
    u32::try_from(level).unwrap_or(u32::MAX)
}

impl Outcome {
    fn to_answer(&self) -> Answer {
        match self {
            Self::Decided(outcome, reason) => Answer::short(outcome, Some(reason)),
            Self::Taken => Answer::short(Answer::TAKEN, None),
            Self::Probed { to, .. } => Answer::short(to, None),
            Self::Refused(code) => Answer::short(Answer::REFUSED, Some(code)),
        }
    }
}

impl Follow for DriverState {
    fn fold(&mut self, body: &Body) {
        match body {
            Body::HookStart(start) => {
                self.running = Some((start.request.stage, start.request.epoch));
                self.halt_told |= start.request.stage == Stage::Halt;
            }
            Body::HookEnd(end) => self.fold_hook_end(end),
            Body::Note(note) if note.code == HALT_BEGINS => {
                self.halt_confirmed = false;
                self.halt_told = false;
            }
            Body::Note(note) if note.code == LOGON_REFUSED => {
                let refused = self.refused_logons.entry(note.text.clone()).or_default();
                *refused = refused.saturating_add(1);
            }
            Body::Note(note) if note.code == LOGON_ACCEPTED => drop(self.refused_logons.remove(&note.text)),
            Body::Command(CommandRecord { peer, command, refused: None }) => {
                if let Ok(command) = serde_json::from_value(command.clone()) {
                    let by = peer.map_or_else(|| "a person".to_owned(), |peer| peer.to_string());
                    self.fold_command(&command, &by);
                }
            }
            Body::Input { verb: Verb::Input(input), answer } => self.fold_input(input, &answer.outcome),
            Body::Stage(stage) => self.stage = Reached { stage: stage.stage, epoch: stage.epoch },
            _ => {}
        }
    }

    fn save(&self) -> serde_json::Value {
        serde_json::to_value(self).unwrap_or_default()
    }

    fn load(&mut self, saved: &serde_json::Value) -> Result<(), String> {
        *self = serde_json::from_value(saved.clone()).map_err(|error| error.to_string())?;
        Ok(())
    }
}

impl DriverState {
    fn fold_hook_end(&mut self, end: &HookEndRecord) {
        self.running = None;
        match (end.stage, end.report.result == HookResult::Ok) {
            (Stage::Fence, true) => {
                let by = format!("fence hook {}", end.level);
                let level = usize::try_from(end.level).ok();
                self.proof = Some(Proof { epoch: end.epoch, by, level, until: None });
            }
            (Stage::Switch, true) => {
                self.carried = true;
                self.failed_switches = 0;
            }
            (Stage::Switch, false) => {
                self.switch_level = usize::try_from(end.level).unwrap_or(usize::MAX).saturating_add(1);
            }
            (Stage::Halt, ok) => self.halt_confirmed = ok && self.halt_told,
            _ => {}
        }
    }

    fn fold_command(&mut self, command: &Command, by: &str) {
        match command {
            Command::Pause => self.paused = true,
            Command::Unpause => self.paused = false,
            Command::ClearLogons => self.refused_logons.clear(),
            Command::RepeatHook => self.unknown_hooks.clear(),
            Command::ConfirmFence { epoch } => {
                self.proof = Some(Proof { epoch: *epoch, by: by.to_owned(), level: None, until: None });
                self.unknown_hooks.retain(|(stage, _)| *stage != Stage::Fence);
            }
            Command::ConfirmReconciled { .. } => {
                self.carried = true;
                self.failed_switches = 0;
                self.unknown_hooks.retain(|(stage, _)| !matches!(stage, Stage::Switch | Stage::Reconcile));
            }
            _ => {}
        }
    }

    fn fold_input(&mut self, input: &Input, outcome: &str) {
        match input {
            Input::Evaluate(..) | Input::Rearm if outcome == "SWITCHED" => {
                self.plan = None;
                self.spent = false;
                self.carried = false;
                self.switch_level = 0;
            }
            // A path that is lost while it is being left is left for what it was to be left for, if that can be done.
            Input::Evaluate(Evaluation::Failover, _) if outcome == "FENCE_REQUIRED" => {
                self.plan = self.plan.take().or(Some(Plan::Failover));
            }
            // Why a path is left is settled once its epoch is spent.
            Input::Evaluate(evaluation, _) if outcome == "FENCE_REQUIRED" && !(self.spent && self.plan.is_some()) => {
                self.plan = Some(Plan::of(evaluation));
            }
            // What was decided has become impossible before anything was begun.
            Input::Evaluate(evaluation @ (Evaluation::Failback | Evaluation::Switchover(_)), FenceClaim::None)
                if !self.spent && outcome != "FENCE_REQUIRED" =>
            {
                self.plan = self.plan.take().filter(|plan| *plan != Plan::of(evaluation));
            }
            // The path is well again, and nothing was begun: nobody needs to leave it.
            Input::Evaluate(Evaluation::Failover, _) if outcome == "NO_ACTION" && !self.spent => {
                self.plan = self.plan.take().filter(|plan| *plan != Plan::Failover);
            }
            // What the path was fenced for has become impossible; it must be left all the same.
            Input::Evaluate(Evaluation::Failback | Evaluation::Switchover(_), FenceClaim::Epoch(_)) if self.spent => {
                self.plan = Some(Plan::Failover);
            }
            Input::FenceStarted(_) if outcome == Answer::TAKEN => {
                self.spent = true;
                self.plan = self.plan.take().or(Some(Plan::Failover));
            }
            Input::SwitchFailed(_) if outcome == Answer::TAKEN => {
                self.spent = true;
                self.plan = Some(Plan::Failover);
                self.failed_switches = self.failed_switches.saturating_add(1);
            }
            Input::Resume if outcome == Answer::TAKEN => self.failed_switches = 0,
            _ => {}
        }
    }
}
