//! Order flow: what the order path reads, and what moves it.

use super::*;

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Flow {
    Starting,
    Open { endpoint: String, epoch: u64 },
    Switching,
    Reconciling,
    Halt { code: String },
}

/// What can move order flow; the table of [`Model::order_flow_after`] says where to.
pub(super) enum Happening {
    ActiveSucceeded,
    GatewayRestarted,
    MonitorRestarted,
    FailoverSaidNoAction,
    FailoverNeedsFence,
    /// A failback or a switchover was refused for want of a fence: the active path goes on trading meanwhile.
    PlannedMoveNeedsFence,
    NoTarget,
    Switched,
    FenceStarted,
    SwitchFailed,
    Reconciled,
    Halted(String),
    Resumed,
}

impl Model {
    pub(super) fn happened(&mut self, now: Nanos, what: Happening) {
        self.flow = self.order_flow_after(now, what);
    }

    /// The table, row by row; what isn't in a row leaves the state as it is.
    fn order_flow_after(&self, now: Nanos, what: Happening) -> Flow {
        let stays = self.flow.clone();
        let active = self.active_endpoint();
        let usable = !self.spent && active.is_some_and(|endpoint| self.is_healthy_and_fresh(endpoint, now));

        // `halt` from any state; a second one replaces the first.
        if let Happening::Halted(code) = what {
            return Flow::Halt { code };
        }
        match &self.flow {
            Flow::Halt { code } => match what {
                // `resume` got here only if the halt is an operator's to end.
                Happening::Resumed if active.is_none() => Flow::Starting,
                Happening::Resumed if self.spent => Flow::Switching,
                Happening::Resumed => Flow::Reconciling,
                // The engine's own halt ends by itself, unless the policy leaves its end to the operator.
                _ if code != "NO_TARGET_AVAILABLE" || self.policy.operator_ends_halt => stays,
                Happening::FailoverSaidNoAction if usable => Flow::Reconciling,
                Happening::Switched => Flow::Reconciling,
                _ => stays,
            },

            // From every state but HALT:
            _ if matches!(what, Happening::NoTarget) => Flow::Halt { code: "NO_TARGET_AVAILABLE".to_owned() },
            _ if matches!(what, Happening::Switched) => {
                if self.policy.require_reconciliation {
                    Flow::Reconciling
                } else {
                    self.open()
                }
            }
            _ if matches!(what, Happening::FailoverNeedsFence | Happening::FenceStarted | Happening::SwitchFailed) => {
                Flow::Switching
            }

            Flow::Starting => match what {
                Happening::ActiveSucceeded if !self.spent => self.open(),
                Happening::GatewayRestarted if active.is_some() => Flow::Reconciling,
                _ => stays,
            },
            // Never left by probes or NO_ACTION: a path that looks DOWN goes on until that is evaluated.
            Flow::Open { .. } => match what {
                Happening::GatewayRestarted => Flow::Reconciling,
                _ => stays,
            },
            Flow::Switching => match what {
                Happening::FailoverSaidNoAction if usable => Flow::Reconciling,
                _ => stays,
            },
            Flow::Reconciling => match what {
                Happening::Reconciled if usable => self.open(),
                Happening::Reconciled => Flow::Starting,
                _ => stays,
            },
        }
    }

    fn open(&self) -> Flow {
        let endpoint = self.active.clone().expect("order flow opens on an active endpoint");
        Flow::Open { endpoint, epoch: self.epoch }
    }

    pub(super) fn halted_for_want_of_target(&self) -> bool {
        self.flow == Flow::Halt { code: "NO_TARGET_AVAILABLE".to_owned() }
    }
}
