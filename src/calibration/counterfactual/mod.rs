//! What the engine would have done with a history: the supervisor's own decision loop, fed with its results.
//!
//! [`Counterfactual`] takes a group of the supervisor's configuration and the results of its endpoints, in the order of
//! their times, and hands each to the loop that runs in production ([`Core`](crate::supervisor::group::Core)). The
//! history then says what became of each path that was left. What a history cannot say is assumed, and
//! `references/calibration.md` lists it:
//!
//! - Fence, switch and reconciliation succeed, and each takes the time that [`Assumptions`] states. Halt and flow hooks
//!   take none. A fence that only a person can confirm is confirmed in the same time. A hold never expires.
//! - A halt that only a person lifts is lifted as soon as the active path is HEALTHY and fresh in an unspent epoch.
//! - No result from any endpoint for longer than the policy's `max_health_age` is a monitor that had stopped: the loop
//!   forgets the health that it knew, as it does after a freeze. It never is a failure.
//! - An endpoint without a result for so long after a start or a stop is taken as probed without evidence: the others
//!   are evaluated, and it is UNKNOWN.
//! - A state lasts from the result that showed it to the next one: an endpoint fails from its first failed result until
//!   its next success, and is unknown once its last result is older than `max_health_age`.

mod account;
mod aftermath;
mod outcome;
mod world;

use std::time::Duration;

use thiserror::Error;

use crate::engine::Timestamp;
use crate::supervisor::config::GroupConfig;

use account::Account;
use aftermath::Aftermath;
pub use outcome::{Afterwards, Halt, Outage, Replayed, Stay, Switch, Totals, Why};
use world::World;

/// What a history cannot say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Assumptions {
    /// From the decision until the path that is left is fenced.
    pub fence: Duration,
    /// From the fence until the transport is moved.
    pub switch: Duration,
    /// From then until orders in flight are settled.
    pub reconcile: Duration,
    /// A person fails back as soon as the engine allows it, where the group leaves failbacks to a person.
    pub person_fails_back: bool,
    /// A run of failures of the active path that is longer, from its first failed result to its last, is an outage,
    /// which should be left.
    pub outage: Duration,
    /// Flow must be back within this from the first failed result of an outage. None: that is not judged.
    pub rto: Option<Duration>,
}

impl Assumptions {
    /// Fence, switch and reconciliation: how long flow is held by a switch to a path that works.
    #[must_use]
    pub const fn hold(&self) -> Duration {
        self.fence.saturating_add(self.switch).saturating_add(self.reconcile)
    }
}

/// Why a history cannot be replayed against a configuration.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CounterfactualError {
    /// They are not about the same endpoints.
    #[error(
        "the history has the endpoints {}; group {group:?} of the configuration has {}; expected the same names in both",
        listed(history),
        listed(configured)
    )]
    Endpoints {
        /// The group.
        group: String,
        /// Those of the history, sorted.
        history: Vec<String>,
        /// Those of the group, sorted.
        configured: Vec<String>,
    },
    /// The group cannot be run.
    #[error("group {group:?}: {why}; expected a group that `check` accepts")]
    Group {
        /// The group.
        group: String,
        /// In words.
        why: String,
    },
    /// A result is older than the one before it.
    #[error(
        "a result of {endpoint:?} at {at} ns comes after one at {before} ns; expected all endpoints' results in the order of their times"
    )]
    Order {
        /// Its endpoint.
        endpoint: String,
        /// Its time.
        at: u64,
        /// The time of the one before.
        before: u64,
    },
}

fn listed(names: &[String]) -> String {
    if names.is_empty() {
        return "none".to_owned();
    }
    names.iter().map(|name| format!("{name:?}")).collect::<Vec<_>>().join(", ")
}

/// A replay in progress: results go in one by one, in the order of their times. Memory grows with what is reported
/// (switches, halts, outages), not with the history.
#[derive(Debug)]
pub struct Counterfactual {
    group: String,
    assumptions: Assumptions,
    names: Vec<String>,
    /// Names of the history that the group does not have, sorted.
    strangers: Vec<String>,
    /// A span without any result that is longer is a stop of the monitor, in nanoseconds.
    gap: u64,
    /// Times of the first result and of the newest one, in nanoseconds since 1970.
    span: Option<(u64, u64)>,
    samples: u64,
    world: World,
    account: Account,
    aftermath: Aftermath,
}

impl Counterfactual {
    /// A replay with the group's first start at the time of the first result, on its primary.
    ///
    /// # Errors
    /// The group cannot be run.
    pub fn new(group: &GroupConfig, assumptions: Assumptions) -> Result<Self, CounterfactualError> {
        let names: Vec<_> = group.endpoints.iter().map(|one| one.endpoint.name.trim().to_owned()).collect();
        let refused = |why| CounterfactualError::Group { group: group.name.clone(), why };
        let world = World::new(group, &assumptions).map_err(refused)?;
        let gap = Timestamp::from_elapsed(group.policy.settings().max_health_age).as_nanos();
        let primary = world.active().ok_or_else(|| refused("it has no primary".to_owned()))?;
        Ok(Self {
            group: group.name.clone(),
            assumptions,
            strangers: Vec::new(),
            gap,
            span: None,
            samples: 0,
            world,
            account: Account::new(names.len(), primary, gap),
            aftermath: Aftermath::new(assumptions, gap, names.len()),
            names,
        })
    }

    /// The next result, at `at` nanoseconds since 1970. Of an endpoint that the group does not have, only the name is
    /// kept, for the error at the [end](Self::finish).
    ///
    /// # Errors
    /// It is older than the one before. Nothing is changed.
    pub fn sample(&mut self, at: u64, endpoint: &str, ok: bool) -> Result<(), CounterfactualError> {
        let (first, before) = self.span.unwrap_or((at, at));
        if at < before {
            return Err(CounterfactualError::Order { endpoint: endpoint.to_owned(), at, before });
        }
        let Some(index) = self.names.iter().position(|name| name == endpoint) else {
            if let Err(place) = self.strangers.binary_search_by(|name| name.as_str().cmp(endpoint)) {
                self.strangers.insert(place, endpoint.to_owned());
            }
            return Ok(());
        };
        self.span = Some((first, at));
        self.samples += 1;
        let (now, stopped) = (at - first, at - before > self.gap);
        self.until(now, stopped);
        if stopped {
            self.account.stop();
            self.aftermath.stop();
            self.world.stop(now);
        }
        for silent in self.world.silent(now, self.gap) {
            self.world.no_evidence(now, silent);
        }
        self.account.hear(now, index, ok);
        self.aftermath.hear(now, index, ok);
        self.world.result(now, index, ok);
        self.look(now);
        self.until(now, false);
        Ok(())
    }

    /// What it came to.
    ///
    /// # Errors
    /// The history and the group are not about the same endpoints.
    pub fn finish(mut self) -> Result<Replayed, CounterfactualError> {
        let heard =
            |name: &&String| self.names.iter().position(|one| one == *name).is_some_and(|at| self.account.heard(at));
        let mut history: Vec<_> =
            self.names.iter().filter(heard).cloned().chain(self.strangers.iter().cloned()).collect();
        history.sort_unstable();
        let mut configured = self.names.clone();
        configured.sort_unstable();
        if history != configured {
            return Err(CounterfactualError::Endpoints { group: self.group, history, configured });
        }
        let (first, last) = self.span.unwrap_or_default();
        let found = self.aftermath.finish(self.account.totals());
        let mut replayed = Replayed {
            group: self.group,
            endpoints: self.names,
            primary: self.account.primary(),
            assumptions: self.assumptions,
            gap: Duration::from_nanos(self.gap),
            first,
            last,
            samples: self.samples,
            switches: found.switches,
            outages: found.outages,
            halts: found.halts,
            failback_possible: std::mem::take(&mut self.world.failback_possible),
            totals: self.account.totals(),
        };
        replayed.move_to_wall_time(first);
        Ok(replayed)
    }

    /// Everything that time alone brings about, up to `now`.
    fn until(&mut self, now: u64, stopped: bool) {
        while let Some(at) = self.world.next_end().filter(|at| *at <= now) {
            self.account.pass(at, &self.world, stopped);
            self.world.end_hook(at);
            self.look(at);
        }
        self.account.pass(now, &self.world, stopped);
    }

    /// What the last event changed.
    fn look(&mut self, now: u64) {
        while self.world.person_acts(now) {}
        self.aftermath.look(now, &self.world, self.account.totals());
    }
}
