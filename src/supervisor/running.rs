//! A running supervisor: journal, groups, scheduler, and what carries events between them.

mod held;
mod reloader;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;
use tokio::sync::mpsc;
use tracing::{info, warn};

use crate::engine::{Engine, RestartKind, RestoreError, Timestamp};
use crate::feed::FeedError;
use crate::manager::Clock;
use crate::scenario::config_line;

use super::clock::BootClock;
use super::config::{Config, GroupConfig, Hooks};
use super::group::task::{self, GroupHandle, Message, Results};
use super::group::{Core, DriverState, Event, GroupFeed, adapted, first_start};
use super::hooks::Stage;
use super::journal::{
    Body, Checkpoint, ConfigRecord, Entry, Follow, Journal, JournalFailed, JournalHandle, Keep, OpenError, Options,
    Recovered, RecoveredGroup, flow_text,
};
use super::probes::{Limits, ProberError, Resolver, farewell};
use super::report::Desk;
use super::scheduler::{self, Scheduler};
use reloader::{Askers, Reloader, Watching, askers};

pub(super) use held::most_openings;
pub use reloader::ReloadHandle;

/// Events of the scheduler that may wait for a group.
const BACKLOG: usize = 1024;
/// How long the sessions that probes hold may take to say goodbye, at a stop.
const FAREWELL: Duration = Duration::from_secs(4);

/// How a supervisor starts.
#[derive(Clone, Debug, Default)]
pub struct StartOptions {
    /// For groups without state: which endpoint carries flow now. `ENDPOINT`, or `GROUP=ENDPOINT`.
    pub first_start: Vec<String>,
    /// Run no hook and move nothing; only probe and assess.
    pub dry_run: bool,
    /// Seed of the probes' jitter.
    pub seed: u64,
    /// Where the configuration was read from: a reload reads it again. Without it there are none.
    pub file: Option<PathBuf>,
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
    /// `--first-start` names what is not there.
    #[error("--first-start {stated}: {found}; expected {expected}")]
    FirstStart {
        /// As it was stated.
        stated: String,
        /// What is wrong with it.
        found: String,
        /// What would be right.
        expected: String,
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
    /// A feed cannot be written.
    #[error("group {group:?}: {error}")]
    Feed {
        /// The group.
        group: String,
        /// Why.
        error: FeedError,
    },
    /// The system gives no thread, socket or queue.
    #[error(transparent)]
    System(#[from] std::io::Error),
}

/// A running supervisor.
pub struct Supervisor {
    /// The groups, in the order of the configuration.
    pub groups: Arc<[GroupHandle]>,
    /// Has it read its configuration again.
    pub reloads: ReloadHandle,
    /// Where gateways report.
    pub reports: Desk,
    clock: BootClock,
    journal: Journal,
    // Dropped in this order: first nobody asks any more, then the scheduler ends.
    reloader: reloader::Running,
    scheduler: Scheduler,
}

impl Supervisor {
    /// Opens the journal, restores every group and starts to probe. Must be called on a tokio runtime.
    ///
    /// # Errors
    /// [`StartError`].
    pub async fn start(config: &Config, options: &StartOptions) -> Result<Self, StartError> {
        stated_well(config, &options.first_start)?;
        let clock = BootClock::default();
        let (journal, recovered) = Journal::open(journal_options(config), clock.now())?;
        let scheduler = Scheduler::start(scheduler::Options { clock, seed: options.seed })?;
        let (resolver, limits) = (Resolver::default(), Limits::default());
        limits.set_budgets(&config.budgets);
        // What may be refused comes first, for every group: a supervisor that does not start ran no hook of any.
        let mut ready = Vec::new();
        for group in &config.groups {
            let refused = |error| StartError::Probe { group: group.name.clone(), error };
            let askers = askers(group, |_| true, &resolver, &limits).map_err(refused)?;
            // A rehearsal tells no gateway anything.
            let feed = group.feed.as_ref().filter(|_| !options.dry_run).map(GroupFeed::open).transpose();
            let feed = feed.map_err(|error| StartError::Feed { group: group.name.clone(), error })?;
            let core = restored(group, &recovered, options, clock)?;
            limits.recall(&group.name, &core.state().refused_logons);
            ready.push((core, askers, feed));
        }
        for (core, ..) in &ready {
            record_start(&journal.handle(), core, &config.hash, clock).await?;
        }
        let reports = Desk::new(clock);
        let (mut groups, mut watching) = (Vec::new(), BTreeMap::new());
        for (group, (core, askers, feed)) in config.groups.iter().zip(ready) {
            say_usable(&core, clock);
            let (mut asked, results) = watch(group, &scheduler, askers, &reports, &limits);
            let handle = task::start(core, journal.handle(), clock, results, feed);
            asked.hold(group, handle.inbox.clone());
            watching.insert(group.name.clone(), asked);
            groups.push(handle);
        }
        tell_of_failure(journal.handle(), &groups);
        let (groups, file) = (Arc::from(groups), options.file.clone());
        let (config, journal_handle) = (config.clone(), journal.handle());
        let reloader = Reloader {
            file,
            config,
            groups: Arc::clone(&groups),
            watching,
            journal: journal_handle,
            clock,
            resolver,
            limits,
        };
        let (reloads, reloader) = reloader.start();
        Ok(Self { groups, reloads, reports, clock, journal, reloader, scheduler })
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
        self.reloader.stop().await;
        for group in self.groups.iter() {
            group.stop().await;
        }
        let (journal, clock, reason) = (self.journal, self.clock, reason.to_owned());
        let closing = tokio::task::spawn_blocking(move || journal.close(clock.now(), reason)).await;
        self.scheduler.stop();
        // Sessions that probes held say goodbye.
        let _ = tokio::task::spawn_blocking(|| farewell(FAREWELL)).await;
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
            if let Some(endpoint) = stated(name, &options.first_start) {
                let active = left.snapshot.active.as_ref().map_or("none", |active| &*active.endpoint);
                warn!(
                    group = name,
                    endpoint, active, "--first-start changes nothing: the journal has the group's state"
                );
            }
            has_active(group, left).map_err(state)?;
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

/// Whether each `--first-start` names a group and one of its endpoints.
fn stated_well(config: &Config, first_start: &[String]) -> Result<(), StartError> {
    let names = |list: &mut dyn Iterator<Item = &str>| list.collect::<Vec<_>>().join(", ");
    for stated in first_start {
        let wrong =
            |found: String, expected: String| StartError::FirstStart { stated: stated.clone(), found, expected };
        let (group, endpoint) = match (stated.split_once('='), &*config.groups) {
            (Some((group, endpoint)), groups) => (groups.iter().find(|one| one.name == group), endpoint),
            (None, [only]) => (Some(only), &**stated),
            (None, groups) => {
                return Err(wrong(format!("there are {} groups", groups.len()), "GROUP=ENDPOINT, for each".to_owned()));
            }
        };
        let Some(group) = group else {
            let groups = names(&mut config.groups.iter().map(|one| &*one.name));
            return Err(wrong("no such group".to_owned(), format!("one of {groups}")));
        };
        if group.endpoints.iter().all(|one| one.endpoint.name != endpoint) {
            let endpoints = names(&mut group.endpoints.iter().map(|one| &*one.endpoint.name));
            return Err(wrong(format!("group {} has no such endpoint", group.name), format!("one of {endpoints}")));
        }
    }
    Ok(())
}

/// `ENDPOINT` of `GROUP=ENDPOINT`, or of a plain `ENDPOINT`.
fn stated<'a>(group: &str, first_start: &'a [String]) -> Option<&'a str> {
    let of_group = first_start.iter().find_map(|one| one.split_once('=').filter(|(name, _)| *name == group));
    let plain = || first_start.iter().find(|one| !one.contains('=')).map(String::as_str);
    of_group.map(|(_, endpoint)| endpoint).or_else(plain)
}

/// Whether the path that carries flow is in the file still: which other path does, nobody but a person can know.
fn has_active(group: &GroupConfig, left: &RecoveredGroup) -> Result<(), String> {
    let Some(active) = &left.snapshot.active else { return Ok(()) };
    let name = &active.endpoint;
    if group.endpoints.iter().any(|one| one.endpoint.name == *name) {
        return Ok(());
    }
    Err(format!(
        "the active endpoint {name:?} is not in the file any more; expected it to be there until flow was moved to \
         another one"
    ))
}

/// The engine as it was left, with the configuration as it is now: the gateway lived on, so order flow stays as it is.
fn restart(group: &GroupConfig, left: &RecoveredGroup, clock: BootClock) -> Result<Engine, RestoreError> {
    let snapshot = adapted(group, left.snapshot.clone());
    Engine::restore(group.policy.clone(), snapshot, clock.now(), RestartKind::Monitor)
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

/// Asks the group's endpoints, and where their results come out.
fn watch(
    group: &GroupConfig,
    scheduler: &Scheduler,
    askers: Askers,
    reports: &Desk,
    limits: &Limits,
) -> (Watching, Results) {
    let (sender, events) = mpsc::channel(BACKLOG);
    let mut watching = Watching::new(scheduler.group(sender), reports.clone());
    for (name, asker) in askers {
        watching.watch(group, &name, asker);
    }
    let results = Results { events, watched: watching.endpoints.clone(), limits: limits.clone() };
    (watching, results)
}
