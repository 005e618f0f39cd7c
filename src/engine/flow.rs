//! Order flow: what the order path may do now. The table of `references/state-machine.md` in code.

use super::endpoint::EndpointId;
use super::error::EngineError;
use super::fence::Epoch;

/// What the order path reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[must_use = "orders must not be sent against order flow"]
pub enum OrderFlow {
    /// Orders may be sent on this path, in this epoch, and on no other.
    Open {
        /// The active endpoint.
        endpoint: EndpointId,
        /// Its epoch.
        epoch: Epoch,
    },
    /// Nothing new may be sent yet.
    Hold {
        /// Why.
        reason: HoldReason,
    },
    /// Trading is halted until a way out is found or a person lifts it.
    Halt {
        /// Who imposed it.
        code: HaltCode,
    },
}

/// Why order flow is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HoldReason {
    /// The active path has not proved itself yet.
    Starting,
    /// A switch is under way: the active path is being left, or was.
    Switching,
    /// Orders in flight are being settled against the broker's book.
    Reconciling,
}

impl HoldReason {
    /// The upper-case name that scenario files and journals use.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Starting => "STARTING",
            Self::Switching => "SWITCHING",
            Self::Reconciling => "RECONCILING",
        }
    }
}

/// Who imposed a halt. The code and text in full are in [`HaltOrder`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HaltCode {
    /// The engine: the active path is lost and there is nowhere to go.
    NoTargetAvailable,
    /// A person. Latched.
    Operator,
    /// A caller, with a code of its own. Latched.
    Caller,
}

/// A halt that was ordered from outside, latched until [`Engine::resume`](super::Engine::resume).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HaltOrder {
    code: String,
    text: String,
}

impl HaltOrder {
    /// The code of a person's halt.
    pub const OPERATOR: &'static str = "OPERATOR";
    /// The code that is reserved for the engine.
    pub const NO_TARGET_AVAILABLE: &'static str = "NO_TARGET_AVAILABLE";

    /// A halt for the reason `text`, under a code that callers can tell apart.
    ///
    /// # Errors
    /// [`EngineError::HaltCode`] if `code` is blank or reserved for the engine.
    pub fn new(code: impl Into<String>, text: impl Into<String>) -> Result<Self, EngineError> {
        let (code, text) = (code.into(), text.into());
        if code.trim().is_empty() || code == Self::NO_TARGET_AVAILABLE {
            return Err(EngineError::HaltCode { found: code });
        }
        Ok(Self { code, text })
    }

    /// A person's halt.
    #[must_use]
    pub fn operator(text: impl Into<String>) -> Self {
        Self { code: Self::OPERATOR.to_owned(), text: text.into() }
    }

    /// Its code, upper case by custom, such as `OPERATOR` or `COMPETING_SESSION`.
    #[must_use]
    pub fn code(&self) -> &str {
        &self.code
    }

    /// Its reason in words.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }
}

/// What a gateway may want to do at the broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OrderAction {
    /// Send a new order, or change a resting one.
    Submit,
    /// Cancel a resting order.
    Cancel,
    /// Ask for the state of orders.
    Query,
}

impl OrderFlow {
    /// Whether trading must halt.
    #[inline]
    #[must_use]
    pub const fn is_halt(self) -> bool {
        matches!(self, Self::Halt { .. })
    }

    /// Whether `action` is allowed on the active path. `active_can_trade`: the active endpoint is HEALTHY and its
    /// epoch is not spent.
    #[must_use]
    pub const fn permits(self, action: OrderAction, active_can_trade: bool) -> bool {
        match (self, action) {
            (Self::Open { .. }, _) => true,
            (Self::Hold { reason: HoldReason::Reconciling }, OrderAction::Cancel | OrderAction::Query) => true,
            (Self::Halt { .. }, OrderAction::Cancel) => active_can_trade,
            (Self::Hold { .. } | Self::Halt { .. }, _) => false,
        }
    }
}

/// [`OrderFlow`] as the engine keeps it: OPEN names no path, because it can only ever be the active one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flow {
    Open,
    Starting,
    Reconciling,
    Switching,
    HaltNoTarget,
    HaltOperator,
    HaltCaller,
}

impl Flow {
    /// What the order path reads while `endpoint` is active in `epoch`.
    #[inline]
    pub(super) const fn on(self, endpoint: EndpointId, epoch: Epoch) -> OrderFlow {
        match self {
            Self::Open => OrderFlow::Open { endpoint, epoch },
            Self::Starting => OrderFlow::Hold { reason: HoldReason::Starting },
            Self::Reconciling => OrderFlow::Hold { reason: HoldReason::Reconciling },
            Self::Switching => OrderFlow::Hold { reason: HoldReason::Switching },
            Self::HaltNoTarget => OrderFlow::Halt { code: HaltCode::NoTargetAvailable },
            Self::HaltOperator => OrderFlow::Halt { code: HaltCode::Operator },
            Self::HaltCaller => OrderFlow::Halt { code: HaltCode::Caller },
        }
    }

    /// A halt that was ordered from outside.
    pub(super) fn halted(order: &HaltOrder) -> Self {
        if order.code == HaltOrder::OPERATOR { Self::HaltOperator } else { Self::HaltCaller }
    }

    const fn is_halt(self) -> bool {
        matches!(self, Self::HaltNoTarget | Self::HaltOperator | Self::HaltCaller)
    }

    /// A halt that outlasts evaluations: only `resume` lifts it.
    const fn is_latched(self, no_target_is_latched: bool) -> bool {
        match self {
            Self::HaltNoTarget => no_target_is_latched,
            Self::HaltOperator | Self::HaltCaller => true,
            Self::Open | Self::Starting | Self::Reconciling | Self::Switching => false,
        }
    }

    /// A failover evaluation found nothing to do. `proven`: the active is HEALTHY, fresh and unspent.
    #[inline]
    pub(super) const fn after_no_action(self, proven: bool, no_target_is_latched: bool) -> Self {
        match self {
            Self::Switching if proven => Self::Reconciling,
            Self::HaltNoTarget if proven && !no_target_is_latched => Self::Reconciling,
            _ => self,
        }
    }

    /// A failover needs a fence, a fence was begun, or a switch failed: the active path can't be presumed to trade.
    pub(super) const fn after_losing_the_path(self) -> Self {
        if self.is_halt() { self } else { Self::Switching }
    }

    /// The active path is lost and there is nowhere to go.
    pub(super) const fn after_no_target(self) -> Self {
        if self.is_halt() { self } else { Self::HaltNoTarget }
    }

    /// Flow moved to another path, or to a new epoch of the same one. `opens`: the policy asks for no reconciliation;
    /// that never ends a halt.
    pub(super) const fn after_switch(self, opens: bool, no_target_is_latched: bool) -> Self {
        if self.is_latched(no_target_is_latched) {
            self
        } else if opens && !self.is_halt() {
            Self::Open
        } else {
            Self::Reconciling
        }
    }

    /// `resume`, of a halt that it may lift.
    pub(super) const fn after_resume(self, active_and_spent: Option<bool>, no_target_is_latched: bool) -> Option<Self> {
        if !self.is_latched(no_target_is_latched) {
            return None;
        }
        Some(match active_and_spent {
            None => Self::Starting,
            Some(true) => Self::Switching,
            Some(false) => Self::Reconciling,
        })
    }

    /// The gateway restarted; what it had in flight is unknown to it.
    pub(super) const fn after_gateway_restart(self, has_active: bool) -> Self {
        match self {
            Self::Open | Self::Starting if has_active => Self::Reconciling,
            _ => self,
        }
    }
}
