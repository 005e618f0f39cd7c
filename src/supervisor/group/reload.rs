//! A group's loop under another configuration: what the state refuses, and what becomes of what is under way.

use std::time::Duration;

use crate::engine::{EndpointId, Epoch, Timestamp};
use crate::scenario::config_line;

use super::super::config::{EndpointConfig, GroupConfig, redacted};
use super::super::journal::{Body, Checkpoint, ConfigRecord, Follow, awake, counted_health};
use super::super::reload::GroupChange;
use super::core::{Core, Plan};
use super::{DriverState, adapted, plain};

/// Results in a row beyond this are not counted any more after a reload: they decide nothing.
const MOST_COUNTED: u32 = 100_000;

/// A group's loop as a reload makes it. Nothing has changed yet: the records come first, durably, and then
/// [`Event::Reloaded`](super::Event::Reloaded).
#[derive(Debug)]
pub struct Reloaded {
    /// The loop as it goes on.
    pub core: Box<Core>,
    /// What the journal must say before that.
    pub records: Vec<Body>,
    /// What becomes of what is under way, in words; may be empty.
    pub words: Vec<String>,
}

impl Core {
    /// What `change` makes of this loop at `now`; `hash` is that of the new file. This one is not changed.
    ///
    /// An endpoint that did not change keeps its health. One that did is UNKNOWN, and is waited for only while there is
    /// no other target: a failover to another one must not be delayed because a backup is asked otherwise now. Another
    /// policy is a restart of the monitor, after which every endpoint is waited for.
    ///
    /// # Errors
    /// Why the state and the new configuration do not go together, in words.
    pub fn reloaded(&self, now: Timestamp, change: &GroupChange, hash: &str) -> Result<Reloaded, String> {
        let config = &change.config;
        if self.journal_failed {
            return Err("the journal failed: nothing can be recorded; repair it and restart".to_owned());
        }
        self.keeps_active(config)?;
        self.keeps_stage(config)?;
        let mut words = Vec::new();
        let memory = self.reloaded_memory(config, &mut words);
        let line = |policy, endpoints: &GroupConfig| {
            let plain: Vec<_> = endpoints.endpoints.iter().map(plain).collect();
            config_line(policy, &plain)
        };
        let (before, after) = (line(&self.config.policy, &self.config), line(&config.policy, config));
        let mut records = vec![Body::Config(ConfigRecord { line: after.clone(), hash: hash.to_owned() })];
        let mut core = self.clone();
        core.config.clone_from(config);
        if config.hooks != self.config.hooks {
            core.lane.hooks_changed();
        }
        if before != after || !change.unknown.is_empty() || memory != self.memory {
            let mut health = counted_health(&self.engine, MOST_COUNTED);
            health.retain(|one| configured(config, &one.endpoint).is_some() && !change.unknown.contains(&one.endpoint));
            let snapshot = adapted(config, self.engine.snapshot(now));
            // The very engine that whoever reads the record makes of it.
            core.engine = awake(&config.policy, &snapshot, &health, now)
                .map_err(|error| format!("the state contradicts the new configuration: {error}"))?;
            let checkpoint = Checkpoint { driver: Some(memory.save()), health, ..Checkpoint::of(snapshot) };
            records.push(Body::Snapshot(Box::new(checkpoint)));
            self.renumber(&mut core, now, change);
            let old = |name: &str| self.engine.id(name).ok().filter(|_| !change.others.contains(name));
            let kept: Vec<_> = core.engine.endpoints().map(|(_, one)| (&*one.name, old(&one.name))).collect();
            core.measured.renumber(&kept);
            core.forget_certificates(|name| change.others.contains(name) || configured(config, name).is_none());
        }
        if memory.proof.is_none() {
            core.proof_until = None;
        }
        core.memory = memory;
        if core.engine != self.engine || config.shadow != self.config.shadow {
            core.begin_shadow_anew(now);
        }
        Ok(Reloaded { core: Box::new(core), records, words })
    }

    /// Whether the only thing to evaluate now would be that there is nowhere to go, while an endpoint that a reload
    /// changed has not answered yet. Its first slot is due at once.
    pub(super) fn waits_for_reloaded(&self, now: Timestamp) -> bool {
        !self.unheard.is_empty() && self.engine.eligible_targets(now).next().is_none()
    }

    /// The fence, and whoever made sure of it, named the address of the path that trades.
    fn keeps_active(&self, config: &GroupConfig) -> Result<(), String> {
        let Some(active) = self.engine.active().map(|id| self.name(id)) else { return Ok(()) };
        let Some(new) = configured(config, &active) else {
            return Err(format!("the active endpoint {active:?} is not in the file any more; expected it to be there"));
        };
        let old = configured(&self.config, &active).ok_or_else(|| format!("the active endpoint {active:?} is lost"))?;
        if old.endpoint.same_address(&new.endpoint) {
            return Ok(());
        }
        let address = |one: &EndpointConfig| {
            let account = one.endpoint.account.as_deref().unwrap_or("not stated");
            format!("url {}, region {}, account {account}", redacted(&one.endpoint.url), one.endpoint.region)
        };
        let (found, expected) = (address(new), address(old));
        let same = if found == expected { " (its user or password differs)" } else { "" };
        Err(format!("the active endpoint {active:?} has {found}{same}; expected {expected}, as long as flow is there"))
    }

    /// A switch that is under way must not be taken for further than it is.
    fn keeps_stage(&self, config: &GroupConfig) -> Result<(), String> {
        let epoch = self.engine.epoch().map_or(0, Epoch::get);
        let requires = |config: &GroupConfig| config.policy.settings().require_fence;
        let leaves = self.memory.plan.is_some() || self.engine.is_spent();
        if leaves && requires(&self.config) && !requires(config) {
            return Err(format!(
                "require_fence is false while epoch {epoch} is being left; expected true until it is fenced"
            ));
        }
        let due = !self.memory.carried && !self.engine.is_spent() && !self.config.hooks.switch.is_empty();
        if due && config.hooks.switch.is_empty() {
            return Err(format!(
                "there is no switch hook any more while the switch of epoch {epoch} is not carried out; expected one \
                 until it is"
            ));
        }
        // A fence hook that runs proves what the file said when it started.
        match self.lane.running_fence() {
            Some(level) if proof_of(&self.config, level) != proof_of(config, level) => Err(format!(
                "fence hook {level} runs, and its `proves` or `holds` differ; expected them unchanged until it ends"
            )),
            _ => Ok(()),
        }
    }

    fn reloaded_memory(&self, config: &GroupConfig, words: &mut Vec<String>) -> DriverState {
        let mut memory = self.memory.clone();
        if let Some(Plan::Switchover(target)) = memory.plan.take_if(|plan| is_gone(plan, config)) {
            // Why a path is left is settled once its epoch is spent; it must be left all the same.
            memory.plan = self.engine.is_spent().then_some(Plan::Failover);
            let then = if self.engine.is_spent() { "its path is left for another target" } else { "it is dropped" };
            words.push(format!("the switchover to {target} has no target any more: {then}"));
        }
        let (old, new) = (&self.config.hooks, &config.hooks);
        let by_hand = |plan: &mut Plan| *plan != Plan::Failover && !self.engine.is_spent();
        if old.fence.is_empty() && !new.fence.is_empty() && memory.plan.take_if(by_hand).is_some() {
            // A file that is read again must not be what closes order flow.
            words.push("the move that waited for a person to confirm a fence is dropped: ask for it again".to_owned());
        }
        if let Some(level) = memory.proof.as_ref().and_then(|proof| proof.level) {
            if proof_of(&self.config, level) != proof_of(config, level) {
                // What it proved is not what the file says now, and a restart would go by the file.
                let is_present = memory.proof.as_ref().map(|proof| proof.epoch) == self.engine.epoch().map(Epoch::get);
                match &mut memory.proof {
                    Some(proof) if !is_present => proof.level = None,
                    proof => {
                        *proof = None;
                        words.push("the proof of the fence is dropped: its hook differs".to_owned());
                    }
                }
            }
        }
        if old.switch != new.switch && !memory.carried {
            memory.switch_level = 0;
        }
        // Nobody was to move the transport for this epoch.
        memory.carried |= old.switch.is_empty() && !new.switch.is_empty();
        memory
    }

    /// Endpoints are known by their place, which may be another one now.
    fn renumber(&self, core: &mut Self, now: Timestamp, change: &GroupChange) {
        let moved = |id: EndpointId| core.engine.id(&self.name(id)).ok();
        let all = || core.engine.endpoints().map(|(id, _)| id);
        let left = self.left.and_then(moved);
        let awaited: Vec<_> =
            if change.policy { all().collect() } else { self.awaited.iter().copied().filter_map(moved).collect() };
        let is_unknown = |id: &EndpointId| change.unknown.contains(&core.name(*id));
        let unheard = self.unheard.iter().copied().filter_map(moved);
        let unheard: Vec<_> = all().filter(is_unknown).chain(unheard).filter(|id| !awaited.contains(id)).collect();
        let lost = core.engine.active().is_some_and(|id| is_unknown(&id));
        (core.left, core.awaited, core.unheard, core.last_answer) = (left, awaited, unheard, [None, None]);
        if lost {
            (core.last_evidence, core.silent) = (Some(now), false);
        }
    }
}

fn configured<'a>(config: &'a GroupConfig, name: &str) -> Option<&'a EndpointConfig> {
    config.endpoints.iter().find(|one| one.endpoint.name == name)
}

fn is_gone(plan: &Plan, config: &GroupConfig) -> bool {
    matches!(plan, Plan::Switchover(target) if configured(config, target).is_none())
}

/// What the success of a fence hook means.
fn proof_of(config: &GroupConfig, level: usize) -> Option<(Option<&str>, Option<Duration>)> {
    config.hooks.fence.get(level).map(|hook| (hook.proves.as_deref(), hook.holds))
}
