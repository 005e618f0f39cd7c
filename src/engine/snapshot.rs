//! The engine's memory across a restart: ages, never absolute times, and names, never positions.

use serde::{Deserialize, Serialize};

use super::bar::Bars;
use super::decision::{SwitchEvent, SwitchKind};
use super::endpoint::{Endpoint, Roster};
use super::error::RestoreError;
use super::fence::Epoch;
use super::flap::FlapLimiter;
use super::flow::{Flow, HaltOrder};
use super::health::EndpointState;
use super::history::{History, HistoryEntry};
use super::policy::Policy;
use super::time::{Since, Timestamp};
use super::trigger::Patience;
use super::{Active, Engine, Standing};

/// What restarted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RestartKind {
    /// The process that sends orders: what it had in flight is unknown to it, so open flow must reconcile first.
    Gateway,
    /// Only the watcher; the gateway lived on and order flow stays as it is.
    Monitor,
}

/// Everything that outlives a restart. Health is left out: it returns as UNKNOWN.
///
/// Time while the process was down counts as zero for every gate, since no clock can be trusted across it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Snapshot {
    /// [`Snapshot::VERSION`].
    pub version: u32,
    /// In order of registration.
    pub endpoints: Vec<SnapshotEndpoint>,
    /// `null` before a primary was registered.
    pub active: Option<SnapshotActive>,
    /// Order flow.
    pub order_flow: SnapshotFlow,
    /// The switches still remembered, oldest first.
    pub history: Vec<SnapshotSwitch>,
    /// How many older ones were dropped.
    pub history_dropped: u64,
    /// Nanoseconds since the last switch of any kind.
    pub last_switch_age: Option<u64>,
    /// Nanoseconds since each failback inside the window, oldest first.
    pub failback_ages: Vec<u64>,
}

/// An endpoint and its administrative state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SnapshotEndpoint {
    /// As registered and updated.
    pub endpoint: Endpoint,
    /// Whether it is in maintenance.
    pub maintenance: bool,
    /// For which causes it is barred; left out when for none.
    #[serde(default, skip_serializing_if = "is_empty")]
    pub bars: Bars,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks by reference")]
fn is_empty(bars: &Bars) -> bool {
    bars.is_empty()
}

/// The active path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SnapshotActive {
    /// Its name.
    pub endpoint: String,
    /// Its epoch.
    pub epoch: Epoch,
    /// Whether that epoch is spent.
    pub spent: bool,
    /// Whether an operator's switchover placed it.
    pub operator_placed: bool,
}

/// Order flow, with an ordered halt's words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE", deny_unknown_fields)]
pub enum SnapshotFlow {
    /// OPEN
    Open,
    /// HOLD STARTING
    Starting,
    /// HOLD SWITCHING
    Switching,
    /// HOLD RECONCILING
    Reconciling,
    /// HALT NO_TARGET_AVAILABLE
    NoTargetAvailable,
    /// HALT with a code from outside
    Halted {
        /// Its code.
        code: String,
        /// Its reason in words.
        text: String,
    },
}

/// A remembered switch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SnapshotSwitch {
    /// Its kind.
    pub kind: SwitchKind,
    /// Name of the path that was left.
    pub from: String,
    /// Name of the path that became active.
    pub to: String,
    /// State of the path that was left.
    pub from_state: EndpointState,
    /// The new epoch.
    pub epoch: Epoch,
    /// False once the switch was reported to have failed.
    pub applied: bool,
}

impl Snapshot {
    /// The version of the format that this crate writes, and the only one that it reads.
    pub const VERSION: u32 = 1;

    pub(super) fn of(engine: &Engine, now: Timestamp) -> Self {
        let name = |id| engine.endpoint(id).map_or_else(String::new, |endpoint| endpoint.name.clone());
        let window = engine.policy.failback_window;
        Self {
            version: Self::VERSION,
            endpoints: engine
                .endpoints()
                .map(|(id, endpoint)| SnapshotEndpoint {
                    endpoint: endpoint.clone(),
                    maintenance: engine.in_maintenance(id),
                    bars: engine.bars(id),
                })
                .collect(),
            active: engine.active.map(|active| SnapshotActive {
                endpoint: name(active.id),
                epoch: active.epoch,
                spent: active.spent,
                operator_placed: active.operator_placed,
            }),
            order_flow: SnapshotFlow::of(engine),
            history: engine
                .history()
                .map(|HistoryEntry { event, applied }| SnapshotSwitch {
                    kind: event.kind,
                    from: name(event.from),
                    to: name(event.to),
                    from_state: event.from_state,
                    epoch: event.epoch,
                    applied,
                })
                .collect(),
            history_dropped: engine.history.dropped(),
            last_switch_age: engine.last_switch.map(|since| since.age(now)),
            failback_ages: engine.failbacks.ages(now, window).collect(),
        }
    }

    pub(super) fn restore(self, policy: Policy, now: Timestamp, kind: RestartKind) -> Result<Engine, RestoreError> {
        if self.version != Self::VERSION {
            return Err(RestoreError::Version { found: self.version, expected: Self::VERSION });
        }
        let mut roster = Roster::default();
        let mut standings = Vec::with_capacity(self.endpoints.len());
        let mut patiences = Vec::with_capacity(self.endpoints.len());
        for SnapshotEndpoint { endpoint, maintenance, bars } in self.endpoints {
            let trigger = endpoint.trigger;
            roster.register(endpoint)?;
            let patience = Patience::new(&policy, trigger);
            standings.push(Standing::new(&patience, maintenance, bars));
            patiences.push(patience);
        }
        let active = restore_active(&roster, self.active)?;
        let (flow, halt) = self.order_flow.restore(active.as_ref())?;
        let history = restore_history(&roster, active.as_ref(), self.history)?;
        if self.failback_ages.windows(2).any(|pair| matches!(pair, [older, newer] if older < newer)) {
            return Err(contradiction("failback_ages", format!("{:?}", self.failback_ages), "the oldest first"));
        }
        let last_switch = restore_last_switch(self.last_switch_age, active.as_ref(), now)?;
        let mut engine = Engine {
            flow: match kind {
                RestartKind::Gateway => flow.after_gateway_restart(active.is_some()),
                RestartKind::Monitor => flow,
            },
            halt,
            last_switch,
            failbacks: FlapLimiter::restored(now, &self.failback_ages),
            history: History::restored(history, self.history_dropped, policy.settings().history_limit),
            latest: now,
            roster,
            standings,
            patiences,
            active,
            ..Engine::new(policy)
        };
        engine.rebuild_targets();
        Ok(engine)
    }
}

impl SnapshotFlow {
    fn of(engine: &Engine) -> Self {
        match (engine.flow, &engine.halt) {
            (Flow::Open, _) => Self::Open,
            (Flow::Starting, _) => Self::Starting,
            (Flow::Switching, _) => Self::Switching,
            (Flow::Reconciling, _) => Self::Reconciling,
            (Flow::HaltOperator | Flow::HaltCaller, Some(order)) => {
                Self::Halted { code: order.code().to_owned(), text: order.text().to_owned() }
            }
            (Flow::HaltNoTarget | Flow::HaltOperator | Flow::HaltCaller, _) => Self::NoTargetAvailable,
        }
    }

    /// As it is written in a snapshot.
    const fn name(&self) -> &'static str {
        match self {
            Self::Open => "OPEN",
            Self::Starting => "STARTING",
            Self::Switching => "SWITCHING",
            Self::Reconciling => "RECONCILING",
            Self::NoTargetAvailable => "NO_TARGET_AVAILABLE",
            Self::Halted { .. } => "HALTED",
        }
    }

    fn restore(self, active: Option<&Active>) -> Result<(Flow, Option<HaltOrder>), RestoreError> {
        let refuse = |found, expected| Err(contradiction("order_flow", found, expected));
        Ok(match (self, active) {
            (Self::Halted { code, text }, _) => {
                let order = HaltOrder::new(code, text).map_err(|_| {
                    contradiction(
                        "order_flow",
                        "HALTED with a blank or reserved code".to_owned(),
                        "a code of the caller's",
                    )
                })?;
                (Flow::halted(&order), Some(order))
            }
            (Self::Starting, None) => (Flow::Starting, None),
            (flow, None) => return refuse(format!("{} without an active endpoint", flow.name()), "STARTING or HALTED"),
            // No way leads there: an epoch is spent into SWITCHING or within a halt, and stays there until the next one.
            (flow @ (Self::Open | Self::Starting | Self::Reconciling), Some(Active { spent: true, .. })) => {
                return refuse(format!("{} in a spent epoch", flow.name()), "SWITCHING or a halt");
            }
            (Self::Starting, _) => (Flow::Starting, None),
            (Self::Open, _) => (Flow::Open, None),
            (Self::Switching, _) => (Flow::Switching, None),
            (Self::Reconciling, _) => (Flow::Reconciling, None),
            (Self::NoTargetAvailable, _) => (Flow::HaltNoTarget, None),
        })
    }
}

fn contradiction(key: &'static str, found: String, expected: &'static str) -> RestoreError {
    RestoreError::Contradiction { key, found, expected }
}

fn restore_active(roster: &Roster, active: Option<SnapshotActive>) -> Result<Option<Active>, RestoreError> {
    match (active, roster.primary()) {
        (None, None) => Ok(None),
        (None, Some(_)) => Err(contradiction("active", "null with a primary".to_owned(), "the active endpoint")),
        (Some(active), None) => Err(contradiction(
            "active",
            format!("{:?} without a primary", active.endpoint),
            "a primary among endpoints",
        )),
        (Some(active), Some(_)) => match roster.find(&active.endpoint) {
            None => Err(contradiction("active", format!("{:?}", active.endpoint), "the name of one of endpoints")),
            Some(id) if active.operator_placed && roster.primary() == Some(id) => {
                Err(contradiction("active", "operator_placed on the primary".to_owned(), "false there"))
            }
            Some(id) => {
                let SnapshotActive { epoch, spent, operator_placed, .. } = active;
                Ok(Some(Active { id, epoch, spent, operator_placed }))
            }
        },
    }
}

/// Every epoch after the first began with a switch; without its age a failback would not wait for the cooldown.
fn restore_last_switch(
    age: Option<u64>,
    active: Option<&Active>,
    now: Timestamp,
) -> Result<Option<Since>, RestoreError> {
    match (age, active.map_or(Epoch::FIRST, |active| active.epoch)) {
        (Some(age), Epoch::FIRST) => {
            Err(contradiction("last_switch_age", format!("{age} in epoch 1"), "null before the first switch"))
        }
        (None, epoch) if epoch > Epoch::FIRST => {
            Err(contradiction("last_switch_age", format!("null in epoch {epoch}"), "the age of the last switch"))
        }
        (age, _) => Ok(age.map(|age| Since::aged(now, age))),
    }
}

fn restore_history(
    roster: &Roster,
    active: Option<&Active>,
    history: Vec<SnapshotSwitch>,
) -> Result<Vec<HistoryEntry>, RestoreError> {
    let mut latest = None;
    let mut entries = Vec::with_capacity(history.len());
    for switch in history {
        let id = |name: &str| {
            roster.find(name).ok_or_else(|| contradiction("history", format!("{name:?}"), "the names of endpoints"))
        };
        if latest >= Some(switch.epoch) || active.is_none_or(|active| switch.epoch > active.epoch) {
            let found = match latest {
                Some(latest) if latest >= switch.epoch => format!("epoch {} after epoch {latest}", switch.epoch),
                _ => format!("epoch {}, which is still to come", switch.epoch),
            };
            return Err(contradiction("history", found, "rising epochs up to the present one"));
        }
        latest = Some(switch.epoch);
        let event = SwitchEvent {
            kind: switch.kind,
            from: id(&switch.from)?,
            to: id(&switch.to)?,
            from_state: switch.from_state,
            epoch: switch.epoch,
        };
        entries.push(HistoryEntry { event, applied: switch.applied });
    }
    Ok(entries)
}
