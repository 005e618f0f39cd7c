//! Every input as a value, so that scenarios, journals, simulations and fuzzing speak one language.

use std::time::Duration;

use thiserror::Error;

use super::Engine;
use super::bar::BarCause;
use super::decision::FailoverDecision;
use super::endpoint::{Endpoint, EndpointUpdate};
use super::error::{ConfigurationError, EngineError};
use super::fence::FenceStatus;
use super::flow::{HaltOrder, OrderFlow};
use super::health::{HealthChange, ProbeResult};
use super::silence::Heard;
use super::time::Timestamp;

/// A question to the engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Evaluation {
    /// Must flow leave the active path?
    Failover,
    /// May flow go back to the primary?
    Failback,
    /// An operator wants flow on this endpoint.
    Switchover(String),
}

/// What is claimed of the fence, before the engine's state is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FenceClaim {
    /// Nothing.
    #[default]
    None,
    /// The path that is active when this is applied is fenced, in its present epoch. For hand-written scenarios: code
    /// that fences something knows the epoch.
    Present,
    /// The active path is fenced, in this epoch.
    Epoch(u64),
}

/// One input; one variant for each method that changes or asks something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// [`Engine::record_probe`]
    Probe {
        /// The probed endpoint.
        endpoint: String,
        /// The result.
        result: ProbeResult,
    },
    /// [`Engine::tick`]
    Tick,
    /// [`Engine::due`]
    Due {
        /// The endpoint of which a result is due.
        endpoint: String,
        /// Within so long.
        within: Duration,
    },
    /// [`Engine::evaluate_failover`], [`Engine::evaluate_failback`], [`Engine::switchover`]
    Evaluate(Evaluation, FenceClaim),
    /// [`Engine::assess_failover`], [`Engine::assess_failback`], [`Engine::assess_switchover`]
    Assess(Evaluation, FenceClaim),
    /// [`Engine::fence_started`]
    FenceStarted(u64),
    /// [`Engine::switch_failed`]
    SwitchFailed(u64),
    /// [`Engine::rearm`]
    Rearm,
    /// [`Engine::confirm_reconciled`]
    Reconciled(u64),
    /// [`Engine::register`]
    Register(Box<Endpoint>),
    /// [`Engine::update_endpoint`]
    Update {
        /// The endpoint.
        name: String,
        /// What changes.
        update: Box<EndpointUpdate>,
    },
    /// [`Engine::validate_configuration`]
    Validate,
    /// [`Engine::set_maintenance`]
    Maintenance {
        /// The endpoint.
        endpoint: String,
        /// Into maintenance, or out of it.
        on: bool,
    },
    /// [`Engine::set_bar`]
    Bar {
        /// The endpoint.
        endpoint: String,
        /// Why it is no target, however green.
        cause: BarCause,
        /// Barred, or no longer barred for this cause.
        on: bool,
    },
    /// [`Engine::halt`]
    Halt(HaltOrder),
    /// [`Engine::resume`]
    Resume,
}

/// What an input answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a decision that is dropped leaves flow on a dead path, or trading unhalted"]
pub enum Output {
    /// Of a probe.
    Health(HealthChange),
    /// Of a tick, or a result that became due.
    Heard(Heard),
    /// Of an evaluation, an assessment, a switchover or a re-arm.
    Decision(FailoverDecision),
    /// Of an input that may change order flow: order flow after it.
    Flow(OrderFlow),
    /// Taken; there is nothing more to say.
    Done,
}

/// Why an input was refused. **The state is unchanged.**
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum InputError {
    /// By the engine.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// By the start-up gate.
    #[error(transparent)]
    Configuration(#[from] ConfigurationError),
}

impl InputError {
    /// The stable code that scenario files and journals use.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Engine(error) => error.code(),
            Self::Configuration(error) => error.code(),
        }
    }
}

impl Engine {
    /// Calls the method that `input` stands for.
    ///
    /// # Errors
    /// Those of that method.
    pub fn apply(&mut self, now: Timestamp, input: Input) -> Result<Output, InputError> {
        Ok(match input {
            Input::Probe { endpoint, result } => {
                let id = self.id(&endpoint)?;
                Output::Health(self.record_probe(now, id, result)?)
            }
            Input::Tick => Output::Heard(self.tick(now)),
            Input::Due { endpoint, within } => {
                let id = self.id(&endpoint)?;
                Output::Heard(self.due(now, id, within)?)
            }
            Input::Evaluate(Evaluation::Failover, claim) => {
                Output::Decision(self.evaluate_failover(now, self.fence_status(claim)?)?)
            }
            Input::Evaluate(Evaluation::Failback, claim) => {
                Output::Decision(self.evaluate_failback(now, self.fence_status(claim)?)?)
            }
            Input::Evaluate(Evaluation::Switchover(target), claim) => {
                Output::Decision(self.switchover(now, &target, self.fence_status(claim)?)?)
            }
            Input::Assess(evaluation, claim) => Output::Decision(self.assess(now, &evaluation, claim)?),
            Input::FenceStarted(epoch) => Output::Flow(self.fence_started(epoch)?),
            Input::SwitchFailed(epoch) => Output::Flow(self.switch_failed(epoch)?),
            Input::Rearm => Output::Decision(self.rearm(now)?),
            Input::Reconciled(epoch) => Output::Flow(self.confirm_reconciled(now, epoch)?),
            Input::Register(endpoint) => self.register(*endpoint).map(|_| Output::Done)?,
            Input::Update { name, update } => self.update_endpoint(&name, *update).map(|()| Output::Done)?,
            Input::Validate => self.validate_configuration().map(|()| Output::Done)?,
            Input::Maintenance { endpoint, on } => self.set_maintenance(&endpoint, on).map(|()| Output::Done)?,
            Input::Bar { endpoint, cause, on } => self.set_bar(&endpoint, cause, on).map(|()| Output::Done)?,
            Input::Halt(order) => Output::Flow(self.halt(order)),
            Input::Resume => Output::Flow(self.resume()?),
        })
    }

    /// The assessment that `evaluation` stands for: the answer that it would get, and nothing changes.
    ///
    /// # Errors
    /// Those of the assessment.
    pub fn assess(
        &self,
        now: Timestamp,
        evaluation: &Evaluation,
        claim: FenceClaim,
    ) -> Result<FailoverDecision, EngineError> {
        let fence = self.fence_status(claim)?;
        match evaluation {
            Evaluation::Failover => self.assess_failover(now, fence),
            Evaluation::Failback => self.assess_failback(now, fence),
            Evaluation::Switchover(target) => self.assess_switchover(now, target, fence),
        }
    }

    fn fence_status(&self, claim: FenceClaim) -> Result<FenceStatus, EngineError> {
        let active = self.active.ok_or(EngineError::NoActiveEndpoint)?;
        Ok(match claim {
            FenceClaim::None => FenceStatus::Unconfirmed,
            FenceClaim::Present => FenceStatus::Confirmed { endpoint: active.id, epoch: active.epoch.get() },
            FenceClaim::Epoch(epoch) => FenceStatus::Confirmed { endpoint: active.id, epoch },
        })
    }
}
