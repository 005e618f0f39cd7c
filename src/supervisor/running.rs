//! A running supervisor: journal, groups, scheduler, and what carries events between them.

use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;
use tokio::sync::mpsc;
use tracing::{info, warn};

use crate::engine::{Engine, RestartKind, RestoreError, Snapshot, SnapshotEndpoint, Timestamp};
use crate::manager::Clock;
use crate::scenario::config_line;

use super::clock::BootClock;
use super::config::{Config, GroupConfig, Hooks};
use super::group::task::{self, GroupHandle, Message};
use super::group::{Core, DriverState, Event, Observed, first_start, plain};
use super::hooks::Stage;
use super::journal::{
    Body, Checkpoint, ConfigRecord, Entry, Follow, Journal, JournalFailed, JournalHandle, Keep, OpenError, Options,
    Recovered, RecoveredGroup, flow_text,
};
use super::probes::{ProberError, Resolver, of_endpoint};
use super::scheduler::{self, Scheduler, Watch};

/// Events of the scheduler that may wait for a group.
const BACKLOG: usize = 1024;

/// How a supervisor starts.
#[derive(Clone, Debug, Default)]
pub struct StartOptions {
    /// For groups without state: which endpoint carries flow now. `ENDPOINT`, or `GROUP=ENDPOINT`.
    pub first_start: Vec<String>,
    /// Run no hook and move nothing; only probe and assess.
    pub dry_run: bool,
    /// Seed of the probes' jitter.
    pub seed: u64,
}

/// Why a supervisor does not start. Nothing was switched, fenced or opened.
#[derive(Debug, Error)]
pub enum StartError {
    /// The journal cannot be opened or trusted.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The journal cannot be written.
    #[error(transparent)]
    Journal(#[from] JournalFailed),
    /// A group has no state, and nobody said which of its paths carries flow.
    #[error(
        "group {group:?} has no state in the journal: say which endpoint carries its flow now with --first-start \
         {group}=ENDPOINT (it begins held until orders in flight are reconciled; a lost state folder must not open a \
         second path)"
    )]
    NoState {
        /// The group.
        group: String,
    },
    /// The state and the configuration do not go together.
    #[error("group {group:?}: {why}")]
    State {
        /// The group.
        group: String,
        /// What does not fit.
        why: String,
    },
    /// A probe cannot be made.
    #[error("group {group:?}: {error}")]
    Probe {
        /// The group.
        group: String,
        /// Why.
        error: ProberError,
    },
    /// The system gives no thread, socket or queue.
    #[error(transparent)]
    System(#[from] std::io::Error),
}

/// A running supervisor.
pub struct Supervisor {
    /// The groups, in the order of the configuration.
    pub groups: Arc<[GroupHandle]>,
    clock: BootClock,
    journal: Journal,
    // Dropped in this order: first nobody asks any more, then the scheduler ends.
    watched: Vec<scheduler::Group>,
    scheduler: Scheduler,
}

impl Supervisor {
    /// Opens the journal, restores every group and starts to probe. Must be called on a tokio runtime.
    ///
    /// # Errors
    /// [`StartError`].
    pub async fn start(config: &Config, options: &StartOptions) -> Result<Self, StartError> {
        let clock = BootClock::default();
        let (journal, recovered) = Journal::open(journal_options(config), clock.now())?;
        let scheduler = Scheduler::start(scheduler::Options { clock, seed: options.seed })?;
        let resolver = Resolver::default();
        let (mut groups, mut watched) = (Vec::new(), Vec::new());
        for group in &config.groups {
            let core = restored(group, &recovered, options, clock)?;
            record_start(&journal.handle(), &core, &config.hash, clock).await?;
            say_usable(&core, clock);
            let handle = task::start(core, journal.handle(), clock);
            watched.push(watch(group, &handle, &scheduler, &resolver)?);
            groups.push(handle);
        }
        tell_of_failure(journal.handle(), &groups);
        Ok(Self { groups: groups.into(), clock, journal, watched, scheduler })
    }

    /// Now, on the clock of the journal's records.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Stops probing, abandons running hooks, writes down the stop, and lets go of everything.
    ///
    /// # Errors
    /// The journal failed, now or before.
    pub async fn stop(self, reason: &str) -> Result<(), JournalFailed> {
        drop(self.watched);
        for group in self.groups.iter() {
            group.stop().await;
        }
        let (journal, clock, reason) = (self.journal, self.clock, reason.to_owned());
        let closing = tokio::task::spawn_blocking(move || journal.close(clock.now(), reason)).await;
        self.scheduler.stop();
        closing.unwrap_or(Err(JournalFailed::Closed))
    }
}

fn journal_options(config: &Config) -> Options {
    let supervisor = &config.supervisor;
    Options {
        segment_size: supervisor.segment_size,
        keep: Keep { age: supervisor.keep_for, size: supervisor.keep_size },
        follow: || Box::new(DriverState::new()),
        ..Options::new(&supervisor.journal, &config.hash)
    }
}

/// The loop of a group as it was left, or at its first start.
fn restored(
    group: &GroupConfig,
    recovered: &Recovered,
    options: &StartOptions,
    clock: BootClock,
) -> Result<Core, StartError> {
    let name = &group.name;
    let state = |why: String| StartError::State { group: name.clone(), why };
    let left = recovered.groups.get(name);
    let (engine, driver) = match left {
        Some(left) => {
            let engine = restart(group, left, clock).map_err(|error| state(error.to_string()))?;
            let mut driver = DriverState::new();
            if !left.driver.is_null() {
                driver.load(&left.driver).map_err(state)?;
            }
            (engine, driver)
        }
        None => {
            let endpoint = stated(name, &options.first_start).ok_or(StartError::NoState { group: name.clone() })?;
            let engine = first_start(group, endpoint, clock.now()).map_err(|error| state(error.to_string()))?;
            (engine, DriverState::new())
        }
    };
    let driver = driver.restarted(|stage| may_repeat(&group.hooks, stage));
    let held_for = left.map_or(Duration::ZERO, |left| left.held_for);
    let core = Core::new(group.clone(), engine, driver, clock.now()).held_for(held_for);
    Ok(if options.dry_run { core.dry() } else { core })
}

/// Whether a hook of which it is not known whether it ran may run once more without asking anybody.
fn may_repeat(hooks: &Hooks, stage: Stage) -> bool {
    let list = match stage {
        // Telling flow once more does nothing.
        Stage::Flow => return true,
        Stage::Fence => &hooks.fence,
        Stage::Switch => &hooks.switch,
        Stage::Reconcile => &hooks.reconcile,
        Stage::Halt => &hooks.halt,
    };
    list.iter().all(|hook| hook.idempotent)
}

/// `ENDPOINT` of `GROUP=ENDPOINT`, or of a plain `ENDPOINT`.
fn stated<'a>(group: &str, first_start: &'a [String]) -> Option<&'a str> {
    let of_group = first_start.iter().find_map(|one| one.split_once('=').filter(|(name, _)| *name == group));
    let plain = || first_start.iter().find(|one| !one.contains('=')).map(String::as_str);
    of_group.map(|(_, endpoint)| endpoint).or_else(plain)
}

/// The engine as it was left, with the configuration as it is now: the gateway lived on, so order flow stays as it is.
fn restart(group: &GroupConfig, left: &RecoveredGroup, clock: BootClock) -> Result<Engine, RestoreError> {
    let snapshot = adapted(group, left.snapshot.clone());
    Engine::restore(group.policy.clone(), snapshot, clock.now(), RestartKind::Monitor)
}

/// The snapshot with the endpoints that are configured now. Maintenance stays with the name; switches between endpoints
/// that are gone are dropped from the history. An active endpoint that is gone makes the restore fail.
fn adapted(group: &GroupConfig, snapshot: Snapshot) -> Snapshot {
    let maintenance = |name: &str| snapshot.endpoints.iter().any(|one| one.endpoint.name == name && one.maintenance);
    let configured = |name: &str| group.endpoints.iter().any(|one| one.endpoint.name == name);
    let endpoints = group
        .endpoints
        .iter()
        .map(|one| SnapshotEndpoint { endpoint: plain(one), maintenance: maintenance(&one.endpoint.name) })
        .collect();
    let (history, gone): (Vec<_>, Vec<_>) =
        snapshot.history.into_iter().partition(|switch| configured(&switch.from) && configured(&switch.to));
    let dropped = u64::try_from(gone.len()).unwrap_or(u64::MAX);
    Snapshot { endpoints, history, history_dropped: snapshot.history_dropped.saturating_add(dropped), ..snapshot }
}

/// What the group's engine is from now on, durably, before anything is decided by it.
async fn record_start(journal: &JournalHandle, core: &Core, hash: &str, clock: BootClock) -> Result<(), JournalFailed> {
    let engine = core.engine();
    let line = config_line(engine.policy(), engine.endpoints().map(|(_, endpoint)| endpoint));
    let group = Arc::from(&*core.config().name);
    let now = clock.now();
    journal.append(Entry::of(&group, now, Body::Config(ConfigRecord { line, hash: hash.to_owned() })))?;
    let checkpoint = Checkpoint { driver: Some(core.state().save()), ..Checkpoint::of(engine.snapshot(now)) };
    journal.append_durable(Entry::of(&group, now, Body::Snapshot(Box::new(checkpoint)))).await?;
    Ok(())
}

/// Tells the usable targets, and why the others are not: before the first results there are none. Told again, as the
/// note TARGETS, once every endpoint has had its first result.
fn say_usable(core: &Core, clock: BootClock) {
    info!(group = core.config().name, order_flow = flow_text(core.engine()), "{}", core.targets_text(clock.now()));
}

/// Tells every group when the journal fails, also those that have nothing to decide just then.
fn tell_of_failure(journal: JournalHandle, groups: &[GroupHandle]) {
    let inboxes: Vec<_> = groups.iter().map(|group| group.inbox.clone()).collect();
    tokio::spawn(async move {
        let failed = journal.until_failed().await;
        if matches!(failed, JournalFailed::Closed) {
            return;
        }
        for inbox in inboxes {
            let event = Event::JournalFailed { text: failed.to_string(), undone: Vec::new() };
            // A group that has stopped needs not know.
            let _ = inbox.send(Message::Event(event)).await;
        }
    });
}

/// Probes the group's endpoints and hands the results to its loop.
fn watch(
    group: &GroupConfig,
    handle: &GroupHandle,
    scheduler: &Scheduler,
    resolver: &Resolver,
) -> Result<scheduler::Group, StartError> {
    let (events, mut told) = mpsc::channel(BACKLOG);
    let watched = scheduler.group(events);
    for (endpoint, id) in group.endpoints.iter().zip((0..u16::MAX).map(crate::engine::EndpointId::from_index)) {
        let prober =
            of_endpoint(endpoint, resolver).map_err(|error| StartError::Probe { group: group.name.clone(), error })?;
        let shared_fate = endpoint.shared_fate.clone();
        watched.watch(Watch { endpoint: id, probing: group.probing.clone(), prober, shared_fate });
    }
    let (inbox, name) = (handle.inbox.clone(), handle.name.clone());
    tokio::spawn(async move {
        while let Some(event) = told.recv().await {
            let event = match event {
                scheduler::Event::Slot(slot) => {
                    Event::Slot(Observed { endpoint: slot.endpoint, verdict: slot.verdict })
                }
                scheduler::Event::Stall(stall) => Event::Stall { text: format!("{:?}: {stall:?}", stall.cause) },
                scheduler::Event::Late(late) => {
                    warn!(group = name, slot = late.slot, "late answer dropped");
                    continue;
                }
            };
            if inbox.send(Message::Event(event)).await.is_err() {
                return;
            }
        }
    });
    Ok(watched)
}
