//! What of a group's loop outlives a restart beside its engine.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::engine::{
    BarCause, Bars, Endpoint, Engine, Epoch, RestartKind, RestoreError, Snapshot, SnapshotActive, SnapshotEndpoint,
    SnapshotFlow, Timestamp,
};

use super::super::config::{EndpointConfig, GroupConfig, redacted};
use super::super::hooks::Stage;
use super::core::{Core, Plan, Proof};
use super::stages::Reached;

/// What the records say of a group beside its engine, and the only memory of its loop that outlives it: the loop changes
/// it by nothing but [`Follow::fold`](super::super::journal::Follow::fold) of what it writes down, so that what is read
/// back after a crash is what was known before it. At the head of each segment of the journal it is saved.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DriverState {
    /// Why the active path is being left, if it is.
    pub plan: Option<Plan>,
    /// Whether the present epoch is spent.
    pub spent: bool,
    /// How the path that was last fenced was fenced.
    pub proof: Option<Proof>,
    /// Whether the transport was moved for the present epoch.
    pub carried: bool,
    /// The first switch hook in the list that did not fail for the present epoch.
    pub switch_level: usize,
    /// Switches in a row that could not be carried out, since a person last lifted a halt.
    pub failed_switches: u32,
    /// Whether a person paused the group.
    pub paused: bool,
    /// Whether a halt hook confirmed the present halt.
    pub halt_confirmed: bool,
    /// Whether the halt hook that runs, or ran last, was started for the present halt.
    pub halt_told: bool,
    /// The hook that has started and not ended, with its epoch.
    pub running: Option<(Stage, u64)>,
    /// The stage of a switch that was written down last.
    pub stage: Reached,
    /// Hooks of an earlier run that had started and whose ends are not known: a person decides.
    pub unknown_hooks: Vec<(Stage, u64)>,
    /// Logons that were refused, by credential, since one was accepted or a person cleared them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub refused_logons: BTreeMap<String, u32>,
}

impl DriverState {
    /// Of a group at its first start: nothing is under way, and the path that carries flow is where it is.
    #[must_use]
    pub fn new() -> Self {
        Self { carried: true, ..Self::default() }
    }

    /// As found after a restart: a hook that was running has an unknown end, unless it may just be run once more.
    #[must_use]
    pub fn restarted(mut self, may_repeat: impl Fn(Stage) -> bool) -> Self {
        self.unknown_hooks.extend(self.running.take());
        self.unknown_hooks.retain(|(stage, _)| !may_repeat(*stage));
        self
    }

    /// Whether a person must say what became of a hook of `stage`.
    pub(super) fn is_unknown(&self, stage: Stage) -> bool {
        self.unknown_hooks.iter().any(|(unknown, _)| *unknown == stage)
    }
}

impl Core {
    /// What to keep of this loop.
    #[must_use]
    pub fn state(&self) -> &DriverState {
        &self.memory
    }
}

/// The endpoint as the engine knows it, and with it the journal: without the secrets in its url.
pub(in crate::supervisor) fn plain(one: &EndpointConfig) -> Endpoint {
    Endpoint { url: redacted(&one.endpoint.url), ..one.endpoint.clone() }
}

/// The snapshot with the endpoints that are configured now. Maintenance and bars stay with the name, but for an
/// ACCOUNT_MISMATCH found at another address or against another stated account; switches between endpoints that are gone
/// are dropped from the history. An active endpoint that is gone makes the restore fail.
pub(in crate::supervisor) fn adapted(group: &GroupConfig, snapshot: Snapshot) -> Snapshot {
    let kept = |now: Endpoint| {
        let before = snapshot.endpoints.iter().find(|one| one.endpoint.name == now.name);
        let (maintenance, bars) = before.map_or((false, Bars::NONE), |one| {
            let same = one.endpoint.same_address(&now);
            let mismatched = same && one.bars.contains(BarCause::AccountMismatch);
            (one.maintenance, one.bars.with(BarCause::AccountMismatch, mismatched))
        });
        SnapshotEndpoint { endpoint: now, maintenance, bars }
    };
    let configured = |name: &str| group.endpoints.iter().any(|one| one.endpoint.name == name);
    let endpoints = group.endpoints.iter().map(|one| kept(plain(one))).collect();
    let (history, gone): (Vec<_>, Vec<_>) =
        snapshot.history.into_iter().partition(|switch| configured(&switch.from) && configured(&switch.to));
    let dropped = u64::try_from(gone.len()).unwrap_or(u64::MAX);
    Snapshot { endpoints, history, history_dropped: snapshot.history_dropped.saturating_add(dropped), ..snapshot }
}

/// The engine of a group that has no journal yet: `endpoint` carries flow, and orders in flight must be reconciled
/// before anything else, since a lost state folder must not open a second path.
///
/// # Errors
/// The configuration's endpoints cannot be registered, or `endpoint` is not among them.
pub fn first_start(config: &GroupConfig, endpoint: &str, now: Timestamp) -> Result<Engine, RestoreError> {
    let fresh = |one| SnapshotEndpoint { endpoint: plain(one), maintenance: false, bars: Bars::NONE };
    let snapshot = Snapshot {
        version: Snapshot::VERSION,
        endpoints: config.endpoints.iter().map(fresh).collect(),
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
