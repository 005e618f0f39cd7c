//! What of a group's loop outlives a restart beside its engine.

use serde::{Deserialize, Serialize};

use crate::engine::{
    Engine, Epoch, RestartKind, RestoreError, Snapshot, SnapshotActive, SnapshotEndpoint, SnapshotFlow, Timestamp,
};

use super::super::config::GroupConfig;
use super::super::hooks::Stage;
use super::core::{Core, Plan, Proof};

/// Kept in the journal at the head of each segment; between heads it follows the records
/// ([`Follow`](super::super::journal::Follow)).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DriverState {
    /// Why the active path is being left, if it is.
    pub plan: Option<Plan>,
    /// How it was fenced.
    pub proof: Option<Proof>,
    /// Whether the transport was moved for the present epoch.
    pub carried: bool,
    /// Switches in a row that could not be carried out.
    pub failed_switches: u32,
    /// Name of the path that was last left.
    pub left: Option<String>,
    /// Whether a person paused the group.
    pub paused: bool,
    /// Whether the halt hook confirmed the present halt.
    pub halt_confirmed: bool,
    /// A hook that had started and whose end is not known.
    pub unknown_hook: Option<(Stage, u64)>,
}

impl DriverState {
    /// Of a group at its first start: nothing is under way, and the path that carries flow is where it is.
    #[must_use]
    pub fn new() -> Self {
        Self { carried: true, ..Self::default() }
    }
}

impl Core {
    /// What to keep of this loop.
    #[must_use]
    pub fn state(&self) -> DriverState {
        DriverState {
            plan: self.plan.clone(),
            proof: self.proof.clone(),
            carried: self.carried,
            failed_switches: self.failed_switches,
            left: self.left.map(|id| self.name(id)),
            paused: self.paused,
            halt_confirmed: self.lane.halt_confirmed,
            unknown_hook: self.unknown_hook,
        }
    }
}

/// The engine of a group that has no journal yet: `endpoint` carries flow, and orders in flight must be reconciled
/// before anything else, since a lost state folder must not open a second path.
///
/// # Errors
/// The configuration's endpoints cannot be registered, or `endpoint` is not among them.
pub fn first_start(config: &GroupConfig, endpoint: &str, now: Timestamp) -> Result<Engine, RestoreError> {
    let endpoints =
        config.endpoints.iter().map(|one| SnapshotEndpoint { endpoint: one.endpoint.clone(), maintenance: false });
    let snapshot = Snapshot {
        version: Snapshot::VERSION,
        endpoints: endpoints.collect(),
        active: Some(SnapshotActive {
            endpoint: endpoint.to_owned(),
            epoch: Epoch::FIRST,
            spent: false,
            operator_placed: false,
        }),
        order_flow: SnapshotFlow::Reconciling,
        history: Vec::new(),
        history_dropped: 0,
        last_switch_age: None,
        failback_ages: Vec::new(),
    };
    Engine::restore(config.policy.clone(), snapshot, now, RestartKind::Monitor)
}
