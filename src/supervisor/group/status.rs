//! A group's state, for status, metrics and screens.

use serde::Serialize;

use crate::engine::{BarCause, HistoryEntry, OrderAction, Timestamp};
use crate::planning::counted;

use super::super::config::{Depth, GroupConfig, redacted};
use super::super::journal::flow_text;
use super::super::probes::MOST_REFUSED_LOGONS;
use super::core::{Plan, Proof};
use super::live::TWO_LIVE_PATHS;
use super::shadow::ShadowStatus;
use super::{Core, DriverState};

/// A group's state at one moment.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct GroupStatus {
    /// Its name.
    pub name: String,
    /// Name of the active endpoint.
    pub active: Option<String>,
    /// Its epoch.
    pub epoch: Option<u64>,
    /// Whether that epoch is spent.
    pub spent: bool,
    /// `OPEN east #1`, `HOLD SWITCHING`, `HALT OPERATOR`.
    pub order_flow: String,
    /// Whether new orders may be sent.
    pub may_submit: bool,
    /// An ordered halt's words.
    pub halt_text: Option<String>,
    /// Whether the halt hook confirmed the present halt; null while there is none, or no hook.
    pub halt_confirmed: Option<bool>,
    /// Whether trading is halted because a gateway sends on another path than the active one.
    pub two_live_paths: bool,
    /// Whether a person paused the group.
    pub paused: bool,
    /// Why the active path is being left, if it is.
    pub plan: Option<Plan>,
    /// How the path that was last left was fenced.
    pub proof: Option<Proof>,
    /// Whether the transport was moved for the present epoch.
    pub carried: bool,
    /// What the last failback evaluation answered, such as `COOLDOWN_ACTIVE`.
    pub failback_answer: Option<String>,
    /// Whether there has been no evidence on the active path for longer than `no_evidence_alarm`.
    pub active_silent: bool,
    /// Of the shadow policy, if there is one: where it would have done otherwise.
    pub shadow: Option<ShadowStatus>,
    /// Of a paused group: what it would do, such as `FENCE_REQUIRED: the active path is DOWN`; null if nothing.
    pub would_answer: Option<String>,
    /// A hook that keeps failing: how often, with what, when it is tried again, and what a person can do instead.
    pub hook_trouble: Option<String>,
    /// Why the feed cannot be written; null while it can, or there is none.
    pub feed_trouble: Option<String>,
    /// What waits for a person.
    pub waits_for: Option<String>,
    /// Where flow could go, best first.
    pub eligible_targets: Vec<String>,
    /// Whether an operator's switchover placed flow where it is.
    pub operator_placed: bool,
    /// The switches still remembered, oldest first.
    pub history: Vec<SwitchStatus>,
    /// The endpoints, in order of registration.
    pub endpoints: Vec<EndpointStatus>,
}

/// One remembered switch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SwitchStatus {
    /// Its kind.
    pub kind: &'static str,
    /// The path that was left.
    pub from: String,
    /// The path that became active.
    pub to: String,
    /// State of the path that was left.
    pub from_state: &'static str,
    /// The new epoch.
    pub epoch: u64,
    /// False once it was reported to have failed.
    pub applied: bool,
}

/// One endpoint.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct EndpointStatus {
    /// Its name.
    pub name: String,
    /// Its address, without secrets.
    pub url: String,
    /// Whether it is the primary.
    pub primary: bool,
    /// Lower is preferred.
    pub priority: u32,
    /// UNKNOWN, HEALTHY, DEGRADED or DOWN.
    pub state: &'static str,
    /// Failures since the last success.
    pub consecutive_failures: u32,
    /// Successes since the last failure.
    pub consecutive_successes: u32,
    /// Seconds since the last result.
    pub health_age: Option<f64>,
    /// Whether that is within `max_health_age`.
    pub fresh: bool,
    /// Seconds until the certificate that its latest success saw expires; null if it saw none.
    pub certificate_expires_in: Option<f64>,
    /// Whether it is in maintenance.
    pub maintenance: bool,
    /// For which causes it is barred as a target.
    pub bars: Vec<&'static str>,
    /// Seconds since each depth was last proved, null if it was not since the start.
    pub depth_ages: DepthAges,
    /// Why the last result was a failure.
    pub last_probe_error: Option<String>,
    /// The session that is held open to it: `opening`, `open`, `lost`, `refused`, `died`; null without `watch`.
    pub session: Option<&'static str>,
    /// How often such a session ended since this supervisor started; null without `watch`.
    pub sessions_lost: Option<u64>,
    /// Why flow could not go there now; null if it could, or is there.
    pub unusable: Option<&'static str>,
}

/// Seconds since each depth, or a deeper one, was last proved.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct DepthAges {
    /// Something answered.
    pub reachable: Option<f64>,
    /// A credential was accepted.
    pub authenticated: Option<f64>,
    /// What orders pass was passed.
    pub order_path: Option<f64>,
}

impl GroupStatus {
    pub(super) fn of(core: &Core, now: Timestamp) -> Self {
        let engine = core.engine();
        let DriverState { plan, proof, carried, halt_confirmed, .. } = core.state().clone();
        let GroupConfig { name, hooks, .. } = core.config();
        let carried = carried || hooks.switch.is_empty();
        let halted = engine.order_flow().is_halt() && !hooks.halt.is_empty();
        let mut status = Self {
            name: name.clone(),
            active: engine.active().map(|id| core.name(id)),
            epoch: engine.epoch().map(crate::engine::Epoch::get),
            spent: engine.is_spent(),
            order_flow: flow_text(engine),
            may_submit: engine.permits(OrderAction::Submit),
            halt_text: engine.halt_order().map(|order| order.text().to_owned()),
            halt_confirmed: halted.then_some(halt_confirmed),
            two_live_paths: core.halt_code().as_deref() == Some(TWO_LIVE_PATHS),
            paused: core.is_paused(),
            plan,
            proof,
            carried,
            failback_answer: core.failback_answer().map(str::to_owned),
            active_silent: core.is_silent(),
            shadow: core.shadow_status(now),
            would_answer: core.would_answer(now),
            hook_trouble: core.hook_trouble(now),
            feed_trouble: None,
            waits_for: None,
            eligible_targets: engine.eligible_targets(now).map(|id| core.name(id)).collect(),
            operator_placed: engine.is_operator_placed(),
            history: engine.history().map(|entry| switch(core, entry)).collect(),
            endpoints: endpoints(core, now),
        };
        status.waits_for = waits_for(core, &status, now);
        status
    }
}

/// What only a person can do now.
fn waits_for(core: &Core, status: &GroupStatus, now: Timestamp) -> Option<String> {
    if core.journal_failed {
        return Some("repair the journal and restart".to_owned());
    }
    let hooks = &core.config().hooks;
    if let Some((stage, epoch)) = core.state().unknown_hooks.first() {
        return Some(format!(
            "it is not known whether the {stage} hook of epoch {epoch} ran: confirm it by hand, or repeat-hook"
        ));
    }
    if status.order_flow == "HOLD RECONCILING" && hooks.reconcile.is_empty() {
        return Some(format!("confirm-reconciled --epoch {}", status.epoch?));
    }
    let leaves = status.plan.is_some() || status.order_flow == "HOLD SWITCHING";
    if leaves && hooks.fence.is_empty() && !core.is_fenced(now) && core.engine().policy().settings().require_fence {
        return Some(format!("confirm-fence --epoch {}", status.epoch?));
    }
    let by_hand = [
        core.engine().halt_order().map(|_| "resume".to_owned()),
        core.logons_stopped().then(|| "clear-logons".to_owned()),
        status.endpoints.iter().find_map(|one| {
            one.bars.contains(&BarCause::AccountMismatch.code()).then(|| format!("unbar {}", one.name))
        }),
    ];
    by_hand.into_iter().flatten().next()
}

fn switch(core: &Core, HistoryEntry { event, applied }: HistoryEntry) -> SwitchStatus {
    SwitchStatus {
        kind: event.kind.name(),
        from: core.name(event.from),
        to: core.name(event.to),
        from_state: event.from_state.name(),
        epoch: event.epoch.get(),
        applied,
    }
}

impl Core {
    /// Whether probes do not log on any more, until a person says so.
    pub(super) fn logons_stopped(&self) -> bool {
        self.memory.refused_logons.values().any(|refused| *refused >= MOST_REFUSED_LOGONS)
    }

    /// The usable targets, and why the others are not.
    #[must_use]
    pub fn targets_text(&self, now: Timestamp) -> String {
        let active = self.engine().active().map(|id| self.name(id));
        let endpoints = endpoints(self, now);
        let others = || endpoints.iter().filter(|one| Some(&one.name) != active.as_ref());
        let usable: Vec<_> = others().filter(|one| one.unusable.is_none()).map(|one| &*one.name).collect();
        let mut text = format!("{} now", counted(usable.len(), "usable target"));
        if !usable.is_empty() {
            text = format!("{text}: {}", usable.join(", "));
        }
        for one in others() {
            if let Some(why) = one.unusable {
                text = format!("{text}; not {}: {why}", one.name);
            }
        }
        text
    }
}

/// A bar in words.
fn barred(cause: BarCause) -> &'static str {
    match cause {
        BarCause::AccountMismatch => "it fronts another account (ACCOUNT_MISMATCH)",
        BarCause::SharedFate => "it shares the fate of a path that is shut out (SHARED_FATE)",
        _ => "the required depth is not proved (DEPTH)",
    }
}

fn endpoints(core: &Core, now: Timestamp) -> Vec<EndpointStatus> {
    let engine = core.engine();
    let one = |(id, endpoint): (_, &crate::engine::Endpoint)| {
        let health = engine.health(id)?;
        let fresh = engine.is_fresh(now, health);
        let (maintenance, bars) = (engine.in_maintenance(id), engine.bars(id));
        let depth_age = |depth| {
            let age = core.depth_age(now, id, depth);
            age.map(|nanos| std::time::Duration::from_nanos(nanos).as_secs_f64())
        };
        let unusable = match health.state() {
            _ if engine.active() == Some(id) => None,
            crate::engine::EndpointState::Unknown => Some("not probed yet"),
            crate::engine::EndpointState::Degraded | crate::engine::EndpointState::Down => Some("its probes fail"),
            crate::engine::EndpointState::Healthy if !fresh => Some("its last result is too old"),
            crate::engine::EndpointState::Healthy if maintenance => Some("in maintenance"),
            crate::engine::EndpointState::Healthy if !bars.is_empty() => bars.iter().next().map(barred),
            crate::engine::EndpointState::Healthy => None,
        };
        let session = core.session(&endpoint.name);
        Some(EndpointStatus {
            name: endpoint.name.clone(),
            url: redacted(&endpoint.url),
            primary: endpoint.primary,
            priority: endpoint.priority,
            state: health.state().name(),
            consecutive_failures: health.consecutive_failures(),
            consecutive_successes: health.consecutive_successes(),
            health_age: health.age(now).map(|nanos| std::time::Duration::from_nanos(nanos).as_secs_f64()),
            fresh,
            certificate_expires_in: core.certificate_left(now, &endpoint.name).map(|left| left.as_secs_f64()),
            maintenance,
            bars: bars.iter().map(BarCause::code).collect(),
            depth_ages: DepthAges {
                reachable: depth_age(Depth::Reachable),
                authenticated: depth_age(Depth::Authenticated),
                order_path: depth_age(Depth::OrderPath),
            },
            last_probe_error: health.last_probe_error().map(str::to_owned),
            session: session.as_ref().map(|session| session.now),
            sessions_lost: session.map(|session| session.lost),
            unusable,
        })
    };
    engine.endpoints().filter_map(one).collect()
}
