//! What a sequence is made of: a group, what happens to it, and what goes wrong meanwhile.

use std::time::Duration;

use proptest::prelude::*;

use crate::engine::{Policy, PolicySettings, ResumeAfterHalt};
use crate::supervisor::config::{FailbackMode, GroupConfig};

use super::super::tests::{config, hook};
use super::NAMES;

/// What a group is configured with.
#[derive(Clone, Debug)]
pub(super) struct Setting {
    fences: usize,
    switches: usize,
    reconcile: bool,
    halts: usize,
    flow: bool,
    idempotent: bool,
    holds: bool,
    require_fence: bool,
    require_reconciliation: bool,
    operator_resumes: bool,
    manual: bool,
}

impl Setting {
    pub(super) fn config(&self) -> GroupConfig {
        let hooks = |levels: usize| hook(self.idempotent).into_iter().cycle().take(levels).collect::<Vec<_>>();
        config(|config| {
            config.policy = Policy::new(PolicySettings {
                failure_threshold: 2,
                failback_success_threshold: 2,
                cooldown: Duration::from_secs(5),
                max_failbacks_per_window: 2,
                failback_window: Duration::from_secs(60),
                require_fence: self.require_fence,
                require_reconciliation: self.require_reconciliation,
                resume_after_halt: if self.operator_resumes {
                    ResumeAfterHalt::Operator
                } else {
                    ResumeAfterHalt::Reconcile
                },
                ..PolicySettings::default()
            })
            .unwrap();
            config.hooks.fence = hooks(self.fences);
            if self.holds {
                config.hooks.fence.iter_mut().for_each(|hook| hook.holds = Some(Duration::from_secs(3)));
            }
            config.hooks.switch = hooks(self.switches);
            config.hooks.reconcile = hooks(usize::from(self.reconcile));
            config.hooks.halt = hooks(self.halts);
            config.hooks.flow = hooks(usize::from(self.flow));
            config.failback = if self.manual { FailbackMode::Manual } else { FailbackMode::Automatic };
            config.max_hold = Duration::from_secs(40);
        })
    }
}

pub(super) fn settings() -> impl Strategy<Value = Setting> {
    let mostly = || prop::bool::weighted(0.85);
    let rarely = || prop::bool::weighted(0.15);
    let levels = || prop_oneof![1 => Just(0_usize), 5 => Just(1), 2 => Just(2)];
    let hooks = (levels(), levels(), mostly(), levels(), any::<bool>(), any::<bool>(), rarely());
    let policy = (mostly(), mostly(), rarely(), rarely());
    (hooks, policy).prop_map(
        |((fences, switches, reconcile, halts, flow, idempotent, holds), (fence, reconciliation, resumes, manual))| {
            Setting {
                fences,
                switches,
                reconcile,
                halts,
                flow,
                idempotent,
                holds,
                require_fence: fence,
                require_reconciliation: reconciliation,
                operator_resumes: resumes,
                manual,
            }
        },
    )
}

/// Whose epoch a person or a late answer names.
#[derive(Clone, Copy, Debug)]
pub(super) enum Which {
    Present,
    Before,
}

#[derive(Clone, Debug)]
pub(super) enum Step {
    /// A second passes, and each endpoint has a slot.
    Round([u8; 3]),
    Wait(u64),
    EndHook(u8),
    /// The end of a run that nobody waits for.
    LateHook(u64),
    Stall,
    Pause(bool),
    Halt,
    Resume,
    Rearm,
    Failback,
    RepeatHook,
    Switchover(usize),
    Maintenance(usize, bool),
    ConfirmFence(Which),
    ConfirmReconciled(Which),
    Reload(Edit),
}

/// What differs in the file that is read again.
#[derive(Clone, Copy, Debug)]
pub(super) enum Edit {
    /// An endpoint is asked otherwise.
    Probes(usize),
    /// An endpoint has another address.
    Address(usize),
    /// An endpoint goes, or comes back.
    Presence(usize),
    Priority(usize),
    Order,
    Pace,
    Threshold,
    RequireFence,
    /// So many fence hooks, and whether what they prove holds for a time only.
    Fences(usize, bool),
    Switches(usize),
    Reconcile(usize),
    Halts(usize),
    Failback,
}

fn edits() -> impl Strategy<Value = Edit> {
    let levels = || 0..3_usize;
    prop_oneof![
        levels().prop_map(Edit::Probes),
        levels().prop_map(Edit::Address),
        levels().prop_map(Edit::Presence),
        levels().prop_map(Edit::Priority),
        Just(Edit::Order),
        Just(Edit::Pace),
        Just(Edit::Threshold),
        Just(Edit::RequireFence),
        (levels(), any::<bool>()).prop_map(|(levels, holds)| Edit::Fences(levels, holds)),
        levels().prop_map(Edit::Switches),
        (0..2_usize).prop_map(Edit::Reconcile),
        levels().prop_map(Edit::Halts),
        Just(Edit::Failback),
    ]
}

impl Edit {
    /// The file after the edit; `all` has every endpoint.
    pub(super) fn applied(self, config: &GroupConfig, all: &GroupConfig) -> GroupConfig {
        let mut config = config.clone();
        let settings = config.policy.settings().clone();
        let place =
            |name: &str, config: &GroupConfig| config.endpoints.iter().position(|one| one.endpoint.name == name);
        let hooks = |levels: usize| hook(true).into_iter().cycle().take(levels).collect::<Vec<_>>();
        match self {
            Self::Probes(index) | Self::Address(index) | Self::Priority(index) => {
                let Some(place) = place(NAMES[index], &config) else { return config };
                let one = &mut config.endpoints[place];
                match self {
                    Self::Probes(_) => {
                        let slow = &mut one.probes[0].slow_after;
                        *slow = if slow.is_some() { None } else { Some(Duration::from_millis(100)) };
                    }
                    Self::Address(_) => one.endpoint.url.push('0'),
                    _ => one.endpoint.priority = 30 - one.endpoint.priority,
                }
            }
            Self::Presence(index) => match place(NAMES[index], &config) {
                Some(place) => drop(config.endpoints.remove(place)),
                None => config.endpoints.push(all.endpoints[index].clone()),
            },
            Self::Order => config.endpoints.reverse(),
            Self::Pace => config.probing.interval += Duration::from_secs(1),
            Self::Threshold => {
                let failure_threshold = 5 - settings.failure_threshold;
                config.policy = Policy::new(PolicySettings { failure_threshold, ..settings }).unwrap();
            }
            Self::RequireFence => {
                let require_fence = !settings.require_fence;
                config.policy = Policy::new(PolicySettings { require_fence, ..settings }).unwrap();
            }
            Self::Fences(levels, holds) => {
                config.hooks.fence = hooks(levels);
                if holds {
                    config.hooks.fence.iter_mut().for_each(|hook| hook.holds = Some(Duration::from_secs(3)));
                }
            }
            Self::Switches(levels) => config.hooks.switch = hooks(levels),
            Self::Reconcile(levels) => config.hooks.reconcile = hooks(levels),
            Self::Halts(levels) => config.hooks.halt = hooks(levels),
            Self::Failback => {
                config.failback = match config.failback {
                    FailbackMode::Automatic => FailbackMode::Manual,
                    FailbackMode::Manual => FailbackMode::Automatic,
                };
            }
        }
        config
    }
}

/// What goes wrong while the effects of a step are carried out.
#[derive(Clone, Copy, Debug)]
pub(super) enum Trouble {
    None,
    /// The process dies before this effect; what is not durable is lost, or not.
    Crash {
        before: usize,
        loses: bool,
    },
    /// The first durable record from this effect on cannot be written.
    Journal {
        from: usize,
    },
}

pub(super) fn steps() -> impl Strategy<Value = Vec<(Step, Trouble)>> {
    let verdict = || prop_oneof![6 => Just(0_u8), 5 => Just(1), 1 => Just(2)];
    let which = || prop_oneof![4 => Just(Which::Present), 1 => Just(Which::Before)];
    let step = prop_oneof![
        24 => [verdict(), verdict(), verdict()].prop_map(Step::Round),
        // A path stays as it is more often than not.
        12 => prop_oneof![Just([1, 0, 0]), Just([0, 1, 0]), Just([1, 1, 0]), Just([1, 1, 1]), Just([0, 0, 0])]
            .prop_map(Step::Round),
        24 => (0..10_u8).prop_map(Step::EndHook),
        4 => (0..90_u64).prop_map(Step::Wait),
        1 => (0..4_u64).prop_map(Step::LateHook),
        1 => Just(Step::Stall),
        1 => any::<bool>().prop_map(Step::Pause),
        1 => Just(Step::Halt),
        2 => Just(Step::Resume),
        1 => Just(Step::Rearm),
        1 => Just(Step::Failback),
        2 => Just(Step::RepeatHook),
        2 => (0..4_usize).prop_map(Step::Switchover),
        1 => (0..3_usize, any::<bool>()).prop_map(|(endpoint, on)| Step::Maintenance(endpoint, on)),
        3 => which().prop_map(Step::ConfirmFence),
        3 => which().prop_map(Step::ConfirmReconciled),
        6 => edits().prop_map(Step::Reload),
    ];
    let trouble = prop_oneof![
        60 => Just(Trouble::None),
        6 => (0..8_usize, any::<bool>()).prop_map(|(before, loses)| Trouble::Crash { before, loses }),
        1 => (0..8_usize).prop_map(|from| Trouble::Journal { from }),
    ];
    prop::collection::vec((step, trouble), 1..150)
}
