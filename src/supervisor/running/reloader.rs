//! The reload of a running supervisor: all groups are asked, it is written down, and then all of them change, or none.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tracing::{error, info, warn};

use crate::engine::{EndpointId, Timestamp};
use crate::manager::Clock;

use super::super::clock::BootClock;
use super::super::config::{Config, Finding, GroupConfig, Severity, load};
use super::super::group::task::{Found, GroupHandle, Message, Offer, Watched};
use super::super::journal::{Body, CommandRecord, Entry, JournalFailed, JournalHandle, NoteRecord, Peer};
use super::super::probes::{Holder, Limits, Prober, ProberError, Resolver, holder_within, within};
use super::super::reload::{GroupChange, compare};
use super::super::report::Desk;
use super::super::scheduler::{self, Watch};
use super::held::{Held, Hold};

/// Reloads that may wait; whoever asks for one more waits in turn.
const BACKLOG: usize = 16;
/// How long a group may take to say what it finds; the others wait for it meanwhile.
const PATIENCE: Duration = Duration::from_secs(5);
/// Findings of an invalid file that are told; there may be one for each line.
const MOST_FINDINGS: usize = 20;

/// Asks a running supervisor to read its configuration again.
#[derive(Clone, Debug)]
pub struct ReloadHandle {
    requests: mpsc::Sender<Request>,
}

struct Request {
    caller: Option<Peer>,
    answer: oneshot::Sender<Result<String, String>>,
}

impl ReloadHandle {
    /// Reads the file again and takes it over as a whole, or changes nothing; says what was changed. `caller` is who
    /// asks, if it is a person; the journal names them.
    ///
    /// # Errors
    /// What was found, what was expected, and that nothing was changed.
    pub async fn reload(&self, caller: Option<Peer>) -> Result<String, String> {
        let (answer, answered) = oneshot::channel();
        let gone = || "the supervisor is stopping; nothing was changed".to_owned();
        self.requests.send(Request { caller, answer }).await.map_err(|_| gone())?;
        answered.await.map_err(|_| gone())?
    }
}

/// Who asks an endpoint, and who holds a session to it.
#[derive(Clone)]
pub(super) struct Asker {
    prober: Arc<dyn Prober>,
    holder: Option<Arc<dyn Holder>>,
}

/// Who asks which endpoint.
pub(super) type Askers = Vec<(String, Asker)>;

/// What is asked of one group's endpoints.
pub(super) struct Watching {
    pub(super) endpoints: Vec<Watched>,
    scheduled: scheduler::Group,
    /// Where gateways report.
    reports: Desk,
    /// Who asks each of them.
    askers: BTreeMap<String, Asker>,
    /// The sessions that are held to them, and where the group hears of these.
    held: BTreeMap<String, Held>,
    inbox: Option<mpsc::Sender<Message>>,
}

impl Watching {
    pub(super) fn new(scheduled: scheduler::Group, reports: Desk) -> Self {
        Self { endpoints: Vec::new(), scheduled, reports, askers: BTreeMap::new(), held: BTreeMap::new(), inbox: None }
    }

    /// Asks an endpoint from now on, known by a key that no other has.
    pub(super) fn watch(&mut self, config: &GroupConfig, name: &str, asker: Asker) {
        let known = self.endpoints.iter().find(|one| one.name == name).map(|one| one.key);
        let free = || {
            let taken = |key: &EndpointId| self.endpoints.iter().any(|one| one.key == *key);
            (0..u16::MAX).map(EndpointId::from_index).find(|key| !taken(key))
        };
        let Some(key) = known.or_else(free) else { return };
        let shared_fate = shared_fate(config, name).to_vec();
        let prober = Arc::clone(&asker.prober);
        if let Some(inbox) = prober.inbox() {
            self.reports.deliver(&config.name, name, &inbox);
        }
        self.askers.insert(name.to_owned(), asker);
        let run = self.scheduled.watch(Watch { endpoint: key, probing: config.probing.clone(), prober, shared_fate });
        self.endpoints.retain(|one| one.name != name);
        self.endpoints.push(Watched { name: name.to_owned(), key, run });
    }

    /// Holds the sessions that are to be held; the group hears of them at `inbox`.
    pub(super) fn hold(&mut self, config: &GroupConfig, inbox: mpsc::Sender<Message>) {
        self.inbox = Some(inbox);
        for endpoint in &config.endpoints {
            self.hold_one(config, &endpoint.endpoint.name);
        }
    }

    /// Holds an endpoint's session, if one is to be held. It goes on to stand if nothing about it has changed.
    fn hold_one(&mut self, config: &GroupConfig, name: &str) {
        let endpoint = config.endpoints.iter().find(|one| one.endpoint.name == name);
        let asked = self.endpoints.iter().find(|one| one.name == name);
        let holder = self.askers.get(name).and_then(|asker| asker.holder.clone());
        let (Some(endpoint), Some(asked), Some(holder), Some(inbox)) = (endpoint, asked, holder, &self.inbox) else {
            // Dropped, it hangs up.
            self.held.remove(name);
            return;
        };
        let how = endpoint.confirming(config);
        let same = |held: &&Held| Arc::ptr_eq(&held.holder, &holder) && held.how == how && held.key == asked.key;
        if self.held.get(name).filter(same).is_some() {
            return;
        }
        let hold = Hold {
            endpoint: name.to_owned(),
            holder: Arc::clone(&holder),
            confirmer: self.scheduled.confirmer(asked.key, how),
            timeout: config.probing.timeout,
            inbox: inbox.clone(),
        };
        let before = self.held.remove(name);
        self.held.insert(name.to_owned(), Held::start(hold, how, asked.key, before));
    }

    fn change(&mut self, old: &GroupConfig, change: &GroupChange, askers: Askers) {
        let config = &change.config;
        let is_gone = |name: &str| config.endpoints.iter().all(|one| one.endpoint.name != name);
        for gone in self.endpoints.iter().filter(|one| is_gone(&one.name)) {
            self.scheduled.unwatch(gone.key);
        }
        self.endpoints.retain(|one| !is_gone(&one.name));
        self.askers.retain(|name, _| !is_gone(name));
        self.held.retain(|name, _| !is_gone(name));
        for one in &self.endpoints {
            let keys = shared_fate(config, &one.name);
            if keys != shared_fate(old, &one.name) {
                self.scheduled.share(one.key, keys.to_vec());
            }
        }
        self.askers.extend(askers);
        for name in &change.rewatched {
            if let Some(asker) = self.askers.get(name).cloned() {
                self.watch(config, name, asker);
                self.hold_one(config, name);
            }
        }
    }
}

fn shared_fate<'a>(config: &'a GroupConfig, name: &str) -> &'a [String] {
    config.endpoints.iter().find(|one| one.endpoint.name == name).map_or(&[], |one| &one.shared_fate)
}

/// Who asks those of a group's endpoints that `wanted` names.
pub(super) fn askers(
    group: &GroupConfig,
    wanted: impl Fn(&str) -> bool,
    resolver: &Resolver,
    limits: &Limits,
) -> Result<Askers, ProberError> {
    let endpoints = group.endpoints.iter().filter(|one| wanted(&one.endpoint.name));
    let asker = |one| {
        let prober = within(limits, &group.name, one, resolver)?;
        let holder = holder_within(limits, &group.name, one, resolver)?;
        Ok::<_, ProberError>(Asker { prober, holder })
    };
    endpoints.map(|one| Ok((one.endpoint.name.clone(), asker(one)?))).collect()
}

/// The one place where the configuration of a running supervisor changes.
pub(super) struct Reloader {
    /// Where the configuration was read from.
    pub(super) file: Option<PathBuf>,
    /// In force.
    pub(super) config: Config,
    pub(super) groups: Arc<[GroupHandle]>,
    pub(super) watching: BTreeMap<String, Watching>,
    pub(super) journal: JournalHandle,
    pub(super) clock: BootClock,
    pub(super) resolver: Resolver,
    /// Outlive every reload: what was spent is spent.
    pub(super) limits: Limits,
}

/// A running [`Reloader`]. Dropped, nobody is asked any more.
pub(super) struct Running {
    task: JoinHandle<()>,
    stop: Option<oneshot::Sender<()>>,
}

impl Running {
    /// Ends a reload that is under way, whichever way it goes, and probes nobody any more.
    pub(super) async fn stop(mut self) {
        drop(self.stop.take());
        // It panics only if we have a bug; there is nothing left to do about it here.
        let _ = (&mut self.task).await;
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// A group that waits to be told whether it changes.
struct Waiting {
    change: GroupChange,
    found: Found,
    askers: Askers,
    go: oneshot::Sender<Vec<Watched>>,
}

impl Reloader {
    pub(super) fn start(mut self) -> (ReloadHandle, Running) {
        let (requests, mut asked) = mpsc::channel::<Request>(BACKLOG);
        let (stop, mut stopped) = oneshot::channel::<()>();
        // Not given up halfway: between its records and its changes nothing may come.
        let task = tokio::spawn(async move {
            loop {
                let Request { caller, answer } = tokio::select! {
                    biased;
                    _ = &mut stopped => return,
                    request = asked.recv() => match request {
                        Some(request) => request,
                        // Nobody can ask any more; what is watched goes with this task.
                        None => return drop(stopped.await),
                    },
                };
                let result = self.reload().await;
                self.tell(caller, &result).await;
                // Whoever asked may be gone.
                let _ = answer.send(result);
            }
        });
        (ReloadHandle { requests }, Running { task, stop: Some(stop) })
    }

    async fn reload(&mut self) -> Result<String, String> {
        let Some(file) = self.file.clone() else {
            return Err("this supervisor was not started from a file; nothing was changed".to_owned());
        };
        let shown = file.display().to_string();
        let refused = |why: &[String]| format!("{shown} is refused: {}; nothing was changed", why.join("; "));
        let new = match read(file).await {
            Ok(new) => new,
            Err(why) => return self.refuse(refused(&why)).await,
        };
        let changes = match compare(&self.config, &new) {
            Ok(changes) => changes,
            Err(why) => return self.refuse(refused(&why)).await,
        };
        if changes.is_empty() && new.budgets != self.config.budgets {
            self.limits.set_budgets(&new.budgets);
            self.config = new;
            return Ok("reloaded: the budgets".to_owned());
        }
        if changes.is_empty() {
            self.config.hash = new.hash;
            return Ok(format!("{shown} says the same as before; there was nothing to change"));
        }
        let words: Vec<_> =
            changes.iter().map(|change| format!("{}: {}", change.config.name, change.words.join(", "))).collect();
        let waiting = match self.ask_all(changes, &new.hash).await {
            Ok(waiting) => waiting,
            Err(why) => return self.refuse(refused(&why)).await,
        };
        if let Err(failed) = self.record(&waiting).await {
            // The groups are let go unchanged, and halt.
            return Err(refused(&[failed.to_string()]));
        }
        // First: a probe that is new asks at once, and is charged to what the file says now.
        self.limits.set_budgets(&new.budgets);
        for Waiting { change, askers, go, .. } in waiting {
            let name = &change.config.name;
            let old = self.config.groups.iter().find(|group| group.name == *name);
            let (Some(watching), Some(old)) = (self.watching.get_mut(name), old) else { continue };
            watching.change(old, &change, askers);
            // A group that has stopped needs not know.
            let _ = go.send(watching.endpoints.clone());
        }
        self.config = new;
        Ok(format!("reloaded: {}", words.join("; ")))
    }

    /// Asks every group that changes, and has it wait.
    async fn ask_all(&self, changes: Vec<GroupChange>, hash: &str) -> Result<Vec<Waiting>, Vec<String>> {
        let (mut offered, mut refused) = (Vec::new(), Vec::new());
        for change in changes {
            let name = change.config.name.clone();
            match askers(&change.config, |one| change.others.contains(one), &self.resolver, &self.limits) {
                Ok(askers) => offered.push((change, askers)),
                Err(error) => refused.push(format!("group {name:?}: {error}")),
            }
        }
        if !refused.is_empty() {
            return Err(refused);
        }
        let mut asked = Vec::new();
        for (change, askers) in offered {
            let ((found, answer), (go, gone)) = (oneshot::channel(), oneshot::channel());
            let offer = Offer { change: change.clone(), hash: hash.to_owned(), found, go: gone };
            let Some(group) = self.groups.iter().find(|group| group.name == change.config.name) else { continue };
            let sent = timeout(PATIENCE, group.inbox.send(Message::Reload(Box::new(offer)))).await;
            if !matches!(sent, Ok(Ok(()))) {
                return Err(vec![format!("group {:?} does not answer", group.name)]);
            }
            asked.push((change, askers, answer, go));
        }
        let mut waiting = Vec::new();
        for (change, askers, answer, go) in asked {
            let name = &change.config.name;
            match timeout(PATIENCE, answer).await {
                Ok(Ok(Ok(found))) => waiting.push(Waiting { change, found, askers, go }),
                Ok(Ok(Err(why))) => refused.push(format!("group {name:?}: {why}")),
                Ok(Err(_)) => refused.push(format!("group {name:?} has stopped")),
                Err(_) => refused.push(format!("group {name:?} did not answer within {PATIENCE:?}")),
            }
        }
        if refused.is_empty() { Ok(waiting) } else { Err(refused) }
    }

    /// Everything that the groups become, on disk.
    async fn record(&self, waiting: &[Waiting]) -> Result<(), JournalFailed> {
        let mut last = None;
        for Waiting { change, found, .. } in waiting {
            let group = Arc::from(&*change.config.name);
            for record in &found.records {
                self.journal.append(Entry::of(&group, found.at, record.clone()))?;
            }
            let words: Vec<_> = change.words.iter().chain(&found.words).map(String::as_str).collect();
            let note = note(&change.config.name, found.at, "RELOADED", words.join("; "));
            if let Some(before) = last.replace(note) {
                self.journal.append(before)?;
            }
        }
        match last {
            Some(last) => self.journal.append_durable(last).await.map(|_| ()),
            None => Ok(()),
        }
    }

    /// Writes down, in every group, that nothing was changed.
    async fn refuse(&self, why: String) -> Result<String, String> {
        let now = self.clock.now();
        for group in self.groups.iter() {
            // A journal that failed says so to every group.
            let _ = self.journal.append(note(&group.name, now, "RELOAD_REFUSED", why.clone()));
        }
        Err(why)
    }

    /// Logs what it came to. What a person asked for is in the journal before they have the answer.
    async fn tell(&self, caller: Option<Peer>, result: &Result<String, String>) {
        let by = caller.map_or_else(|| "SIGHUP".to_owned(), |peer| peer.to_string());
        match result {
            Ok(text) => info!(by, "{text}"),
            Err(why) => error!(by, "reload: {why}"),
        }
        let refused = result.as_ref().err().cloned();
        let body = match caller {
            Some(peer) => Body::Command(CommandRecord { peer: Some(peer), command: "reload".into(), refused }),
            None if result.is_ok() => return,
            None => Body::Command(CommandRecord { peer: None, command: "reload".into(), refused }),
        };
        // On disk with everything before it. A journal that failed says so to every group.
        let _ = self.journal.append_durable(Entry { at: self.clock.now(), group: None, body }).await;
    }
}

fn note(group: &str, at: Timestamp, code: &'static str, text: String) -> Entry {
    Entry::of(&Arc::from(group), at, Body::Note(NoteRecord::new(code, text)))
}

/// The file as it is now.
async fn read(file: PathBuf) -> Result<Config, Vec<String>> {
    let checked = tokio::task::spawn_blocking(move || load(&file)).await.map_err(|error| vec![error.to_string()])?;
    let checked = checked.map_err(|error| vec![format!("it cannot be read: {error}")])?;
    let Some(config) = checked.config else {
        let errors: Vec<_> = checked.findings.iter().filter(|one| one.severity == Severity::Error).collect();
        let mut why: Vec<_> = errors.iter().take(MOST_FINDINGS).map(ToString::to_string).collect();
        if let Some(more @ 1..) = errors.len().checked_sub(MOST_FINDINGS) {
            why.push(format!("and {more} more"));
        }
        return Err(why);
    };
    for finding in checked.findings.iter().filter(|one: &&Finding| one.severity == Severity::Warning) {
        warn!("{finding}");
    }
    Ok(config)
}
