//! A group's records -> a scenario that replay accepts and that decides alike.

use std::path::Path;

use super::mirror::{self, Mirror, State, follow_nothing};
use super::read::{From, ReadError, scan};
use super::record::{Answer, Body, HealthRecord, Record, Seq};
use crate::engine::{Engine, Input, Policy, ProbeResult, RestartKind, Snapshot, Timestamp};
use crate::scenario::{Step, Verb, config_line, restore_line, seconds};

/// A line of an exported scenario.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exported {
    /// The line, without its end.
    pub line: String,
    /// What the engine answered when it happened. `None` for what is no recorded input: configuration, comments,
    /// restarts of the supervisor, and the probes that bring health back where older records are gone.
    pub answer: Option<Answer>,
}

/// Hands out the scenario that `group` went through up to record `to` (or the last one), line by line. Times begin at
/// 0 and stand still while no supervisor ran.
///
/// It begins with the oldest record from which one configuration leads to the end: a scenario can't change its policy
/// or drop an endpoint. Where older records are gone it begins with a `restore` line, and with the probes that bring
/// the endpoints' health back.
///
/// # Errors
/// The journal is damaged or cannot be read. `Ok(false)`: it says nothing of that group, or too little to begin with.
pub fn export(folder: &Path, group: &str, to: Option<Seq>, mut take: impl FnMut(&Exported)) -> Result<bool, ReadError> {
    let to = to.unwrap_or(Seq::MAX);
    // Twice: where to begin is known at the end only, and a journal need not fit into memory.
    let mut beginnings = 0_u64;
    walk(folder, group, to, |event| beginnings += u64::from(matches!(event, Event::Begin { .. })))?;
    let mut seen = 0_u64;
    walk(folder, group, to, |event| {
        seen += u64::from(matches!(event, Event::Begin { .. }));
        if beginnings > 0 && seen == beginnings {
            event.lines(&mut take);
        }
    })?;
    Ok(beginnings > 0)
}

/// A piece of a scenario.
enum Event<'a> {
    /// A scenario begins here; what came before cannot lead to it.
    Begin { record: &'a Record, config: &'a str, from: Option<&'a Beginning> },
    /// An input, at this file time.
    Step { at: u64, verb: &'a Verb, answer: Option<&'a Answer> },
    /// Something else that an operator wants to see.
    Comment { at: u64, body: &'a Body },
}

/// A state that a scenario can begin with.
struct Beginning {
    policy: Policy,
    /// At file time 0.
    snapshot: Snapshot,
    /// The probes that bring health back, by file time.
    probes: Vec<HealthRecord>,
    /// File time of the moment that this is the state of.
    now: u64,
}

impl Event<'_> {
    fn lines(&self, take: &mut impl FnMut(&Exported)) {
        let mut give = |line: String, answer: Option<&Answer>| take(&Exported { line, answer: answer.cloned() });
        match self {
            Self::Begin { record, config, from } => {
                let group = serde_json::to_string(&record.group).unwrap_or_default();
                give(format!("# group {group}, from record {} of {}", record.seq, record.wall_text()), None);
                let Some(from) = from else { return give((*config).to_owned(), None) };
                give(config_line(&from.policy, []), None);
                if let Ok(restore) = restore_line(&from.snapshot) {
                    give(restore, None);
                }
                for probe in &from.probes {
                    let (count, result) = probe_of(probe);
                    let input = Input::Probe { endpoint: probe.endpoint.clone(), result };
                    let line = Step::new(probe.probed_at.0, Verb::Input(input)).to_line();
                    (0..count).for_each(|_| give(line.clone(), None));
                }
            }
            Self::Step { at, verb, answer } => give(Step::new(*at, (*verb).clone()).to_line(), *answer),
            Self::Comment { at, body } => {
                give(format!("# {} {} {}", seconds(*at), body.kind(), body.to_json()), None);
            }
        }
    }
}

fn failback_window(policy: &Policy) -> u64 {
    Timestamp::from_elapsed(policy.settings().failback_window).as_nanos()
}

/// By how much everything in `left` must have aged to become `snapshot`; `None` if that is not all that differs.
fn aged_by(left: &Snapshot, snapshot: &Snapshot, window: u64) -> Option<u64> {
    let age = match (left.last_switch_age, snapshot.last_switch_age) {
        (Some(before), Some(after)) => after.checked_sub(before)?,
        _ => 0,
    };
    let mut aged = left.clone();
    aged.last_switch_age = left.last_switch_age.map(|before| before.saturating_add(age));
    let failbacks = left.failback_ages.iter().map(|before| before.saturating_add(age));
    aged.failback_ages = failbacks.filter(|age| *age <= window).collect();
    (aged == *snapshot).then_some(age)
}

fn max_health_age(policy: &Policy) -> u64 {
    Timestamp::from_elapsed(policy.settings().max_health_age).as_nanos()
}

fn probe_of(health: &HealthRecord) -> (u32, ProbeResult) {
    match &health.error {
        None => (health.successes, ProbeResult::Success),
        Some(error) => (health.failures, ProbeResult::Failure(error.clone().into())),
    }
}

/// Follows the journal and hands out what concerns one group.
struct Walk<'g> {
    group: &'g str,
    mirror: Mirror,
    clock: Option<FileClock>,
    /// The configuration line of the scenario.
    config: String,
}

/// Engine time -> file time.
#[derive(Clone, Copy)]
struct FileClock {
    /// The file time at which the engine's time was `origin`.
    base: u64,
    origin: Timestamp,
    /// File time of the group's last record.
    now: u64,
}

impl FileClock {
    const fn starting(origin: Timestamp, base: u64) -> Self {
        Self { base, origin, now: base }
    }

    /// File time never goes back, not even where the engine's did.
    fn advance(&mut self, at: Timestamp) -> u64 {
        self.now = self.now.max(self.base.saturating_add(at.nanos_since(self.origin)));
        self.now
    }
}

fn walk(folder: &Path, group: &str, to: Seq, mut take: impl FnMut(&Event<'_>)) -> Result<(), ReadError> {
    let mut walk = Walk { group, mirror: Mirror::new(follow_nothing), clock: None, config: String::new() };
    scan(folder, From::Oldest, |record, in_head| {
        if record.seq > to {
            return Ok(());
        }
        walk.take(record, in_head, &mut take)
    })?;
    Ok(())
}

impl Walk<'_> {
    fn take(&mut self, record: &Record, in_head: bool, take: &mut impl FnMut(&Event<'_>)) -> Result<(), String> {
        let ours = record.group.as_deref() == Some(self.group);
        let before = self.mirror.group(self.group);
        let known = before.is_some();
        // How the group is left where a supervisor goes on with it, and whether time went on until then.
        let left = match (&record.body, before.map(|group| &group.state)) {
            (Body::Snapshot(_), Some(State::Live(engine))) if ours => Some((engine.snapshot(record.at), true)),
            (Body::Snapshot(_), Some(State::Dormant(snapshot))) if ours => Some(((**snapshot).clone(), false)),
            _ => None,
        };
        self.mirror.follow(record)?;
        let (Some(group), true) = (self.mirror.group(self.group), ours) else { return Ok(()) };
        if in_head && self.clock.is_some() {
            return Ok(());
        }
        // The same configuration and the same state: a scenario says so by a restart of the monitor. It cannot say that
        // a reload leaves some health as it was.
        let keeps_health = matches!(&record.body, Body::Snapshot(checkpoint) if !checkpoint.health.is_empty());
        let goes_on = left.filter(|_| self.config == group.config.line && !keeps_health).and_then(|(left, ran_on)| {
            let age = aged_by(&left, &group.snapshot(), failback_window(group.policy()))?;
            Some((age, ran_on))
        });
        match (&record.body, self.clock.as_mut()) {
            (Body::Config(config), _) if !known && !in_head => {
                self.clock = Some(FileClock::starting(record.at, 0));
                self.config.clone_from(&config.line);
                take(&Event::Begin { record, config: &config.line, from: None });
            }
            // What it leads to is said by the snapshot that follows.
            (Body::Config(_), _) => {}
            (Body::Snapshot(_), Some(clock)) if goes_on.is_some() => {
                let (age, ran_on) = goes_on.unwrap_or_default();
                // The engine was restored so long before its snapshot was written down.
                let restored = Timestamp::from_nanos(record.at.as_nanos().saturating_sub(age));
                let at = if ran_on { clock.advance(restored) } else { clock.now };
                *clock = FileClock::starting(restored, at);
                clock.advance(record.at);
                take(&Event::Step { at, verb: &Verb::Restart(RestartKind::Monitor), answer: None });
            }
            (Body::Snapshot(_), _) if !in_head => self.begin(record, take),
            (Body::Input { verb, answer }, Some(clock)) => {
                take(&Event::Step { at: clock.advance(record.at), verb, answer: Some(answer) });
            }
            (body, Some(clock)) => take(&Event::Comment { at: clock.advance(record.at), body }),
            // Older records are gone: begin as soon as a scenario can say what the state is.
            (_, None) => self.begin(record, take),
        }
        Ok(())
    }

    fn begin(&mut self, record: &Record, take: &mut impl FnMut(&Event<'_>)) {
        self.clock = None;
        let Some(group) = self.mirror.group(self.group) else { return };
        let State::Live(engine) = &group.state else { return };
        let Some(from) = Beginning::of(engine, group.at) else { return };
        self.clock = Some(FileClock::starting(group.at, from.now));
        self.config.clone_from(&group.config.line);
        take(&Event::Begin { record, config: &group.config.line, from: Some(&from) });
    }
}

impl Beginning {
    /// The state of `engine` at `at` as the beginning of a scenario; `None` if none can lead to it. Health has no
    /// place in a snapshot, so the snapshot is that of a little earlier, and the last probes follow it: no switch may
    /// lie between.
    fn of(engine: &Engine, at: Timestamp) -> Option<Self> {
        let mut probes = mirror::health(engine);
        // A result that is too old to count may be any age above that.
        let oldest = at.as_nanos().saturating_sub(max_health_age(engine.policy()).saturating_add(1));
        for probe in &mut probes {
            probe.probed_at.0 = probe.probed_at.0.clamp(oldest, at.as_nanos());
        }
        probes.sort_by_key(|probe| probe.probed_at);
        let zero = probes.first().map_or(at.as_nanos(), |probe| probe.probed_at.0);
        let now = at.as_nanos().saturating_sub(zero);
        for probe in &mut probes {
            probe.probed_at.0 = probe.probed_at.0.saturating_sub(zero);
        }
        let mut snapshot = engine.snapshot(at);
        let then = snapshot.clone();
        snapshot.last_switch_age = match snapshot.last_switch_age {
            None => None,
            Some(age) => Some(age.checked_sub(now)?),
        };
        snapshot.failback_ages =
            snapshot.failback_ages.iter().map(|age| age.checked_sub(now)).collect::<Option<Vec<_>>>()?;
        let this = Self { policy: engine.policy().clone(), snapshot, probes, now };
        // The proof: what the lines say leads to this state. What a patient trigger remembers may take more lines than
        // these; a scenario then begins when it remembers nothing.
        let replayed = this.replayed()?;
        let remembered =
            |engine: &Engine| mirror::health(engine).into_iter().map(|one| one.trigger).collect::<Vec<_>>();
        if remembered(&replayed) != remembered(engine) {
            return None;
        }
        let alike = replayed.snapshot(Timestamp::from_nanos(now)) == then;
        alike.then_some(this)
    }

    fn replayed(&self) -> Option<Engine> {
        let restored =
            Engine::restore(self.policy.clone(), self.snapshot.clone(), Timestamp::ZERO, RestartKind::Monitor);
        let mut engine = restored.ok()?;
        for probe in &self.probes {
            let id = engine.id(&probe.endpoint).ok()?;
            let (count, result) = probe_of(probe);
            for _ in 0..count {
                engine.record_probe(Timestamp::from_nanos(probe.probed_at.0), id, result.clone()).ok()?;
            }
        }
        Some(engine)
    }
}
