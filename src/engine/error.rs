//! What the engine refuses. Every refusal leaves the state as it was.

use std::fmt;
use std::time::Duration;

use thiserror::Error;

use super::bar::Bars;
use super::endpoint::EndpointId;
use super::fence::Epoch;
use super::health::EndpointState;

/// A policy value out of bounds. No policy was made.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PolicyError {
    /// A threshold or limit of zero.
    #[error("{key} is {found}; expected 1 to 4294967295")]
    Count {
        /// The policy key.
        key: &'static str,
        /// Its value.
        found: u32,
    },
    /// A duration out of bounds.
    #[error("{key} is {found:?}; expected {least} to 18446744073709551615ns")]
    Span {
        /// The policy key.
        key: &'static str,
        /// Its value.
        found: Duration,
        /// The least legal value.
        least: &'static str,
    },
    /// A count out of bounds.
    #[error("{key} is {found}; expected 1 to {most}")]
    Range {
        /// The policy key.
        key: &'static str,
        /// Its value.
        found: u32,
        /// The greatest legal value.
        most: u32,
    },
    /// A value that contradicts another one.
    #[error("{key} is {found}; expected {expected}")]
    Mismatch {
        /// The policy key.
        key: &'static str,
        /// Its value.
        found: String,
        /// What the other value leaves room for.
        expected: String,
    },
}

impl PolicyError {
    /// The policy key that it is about.
    #[must_use]
    pub const fn key(&self) -> &'static str {
        match self {
            Self::Count { key, .. } | Self::Span { key, .. } | Self::Range { key, .. } | Self::Mismatch { key, .. } => {
                key
            }
        }
    }
}

/// A field of an endpoint that must not be blank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field {
    /// `name`
    Name,
    /// `region`
    Region,
    /// `url`
    Url,
    /// `account`
    Account,
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Name => "name",
            Self::Region => "region",
            Self::Url => "url",
            Self::Account => "account",
        })
    }
}

/// An input that the engine refuses. **The state is unchanged.**
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum EngineError {
    /// No endpoint has this name, or the id was never given out by this engine.
    #[error("no endpoint is called {endpoint:?}; nothing was changed")]
    UnknownEndpoint {
        /// What was asked for.
        endpoint: String,
    },
    /// The name is taken; registering the same endpoint again is refused too, so that a loop that does is noticed.
    #[error("an endpoint called {endpoint:?} is already registered; nothing was changed")]
    DuplicateEndpoint {
        /// The name.
        endpoint: String,
    },
    /// There is a primary already.
    #[error("{endpoint:?} cannot be primary, {primary:?} is; nothing was changed")]
    SecondPrimary {
        /// The refused endpoint.
        endpoint: String,
        /// The primary.
        primary: String,
    },
    /// A field is empty, or white space only.
    #[error("{field} of endpoint {endpoint:?} is blank; expected text; nothing was changed")]
    BlankField {
        /// The endpoint, by its trimmed name.
        endpoint: String,
        /// The field.
        field: Field,
    },
    /// The published word has no room for more.
    #[error("at most {limit} endpoints can be registered; nothing was changed")]
    TooManyEndpoints {
        /// The limit.
        limit: usize,
    },
    /// Nothing is active: no primary was registered yet.
    #[error("no endpoint is active, expected a registered primary; nothing was changed")]
    NoActiveEndpoint,
    /// The confirmation, or report, is of another epoch (or endpoint) than the present one.
    #[error("epoch {found} is not the present epoch {present} of the active endpoint; nothing was changed")]
    StaleFence {
        /// The epoch that it names.
        found: u64,
        /// The present epoch.
        present: Epoch,
    },
    /// The reconciliation is of another epoch than the present one.
    #[error("epoch {found} was reconciled, the present epoch is {present}; nothing was changed")]
    StaleReconcile {
        /// The epoch that it names.
        found: u64,
        /// The present epoch.
        present: Epoch,
    },
    /// Order flow does not wait for a reconciliation.
    #[error("order flow is not in HOLD RECONCILING; nothing was changed")]
    NotReconciling,
    /// There is no halt that `resume` could lift.
    #[error("there is no halt that resume lifts; nothing was changed")]
    NotHalted,
    /// The active path cannot be given a new epoch: its epoch is not spent, or it is not HEALTHY, fresh and free of bars.
    #[error(
        "the active path cannot be re-armed (epoch spent: {spent}, state {state}, fresh: {fresh}, barred: {bars}); expected \
         spent, HEALTHY, fresh and not barred; nothing was changed"
    )]
    NotRearmable {
        /// Whether the epoch is spent.
        spent: bool,
        /// State of the active endpoint.
        state: EndpointState,
        /// Whether its last result is young enough.
        fresh: bool,
        /// Why it is barred.
        bars: Bars,
    },
    /// The wanted target is not an eligible one.
    #[error(
        "{target:?} is not an eligible target (state {state}, fresh: {fresh}, in maintenance: {maintenance}, \
         barred: {bars}); expected HEALTHY, fresh, not in maintenance and not barred; nothing was changed"
    )]
    TargetNotEligible {
        /// The target.
        target: String,
        /// Its state.
        state: EndpointState,
        /// Whether its last result is young enough.
        fresh: bool,
        /// Whether it is in maintenance.
        maintenance: bool,
        /// Why it is barred.
        bars: Bars,
    },
    /// The wanted target carries the flow already.
    #[error("{target:?} is the active endpoint already; nothing was changed")]
    AlreadyActive {
        /// The target.
        target: String,
    },
    /// The address of the active endpoint cannot be changed: a fence would name another address than the one
    /// that trades.
    #[error("{endpoint:?} is active, its region, url and account cannot change; nothing was changed")]
    EndpointIsActive {
        /// The endpoint.
        endpoint: String,
    },
    /// Who is primary cannot be changed.
    #[error("whether {endpoint:?} is primary cannot change; nothing was changed")]
    RoleChange {
        /// The endpoint.
        endpoint: String,
    },
    /// A halt code is blank, or one that only the engine may use.
    #[error("{found:?} cannot be a halt code; expected text other than \"NO_TARGET_AVAILABLE\"; nothing was changed")]
    HaltCode {
        /// The code.
        found: String,
    },
    /// The next epoch would not fit the published word. (A switch every microsecond gets there in half a year.)
    #[error("epoch {present} is the last one; restart with a fresh snapshot; nothing was changed")]
    EpochsExhausted {
        /// The present epoch.
        present: Epoch,
    },
}

impl EngineError {
    /// The stable code that scenario files and journals use.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::UnknownEndpoint { .. } => "UNKNOWN_ENDPOINT",
            Self::DuplicateEndpoint { .. } => "DUPLICATE_ENDPOINT",
            Self::SecondPrimary { .. } => "SECOND_PRIMARY",
            Self::BlankField { .. } => "BLANK_FIELD",
            Self::TooManyEndpoints { .. } => "TOO_MANY_ENDPOINTS",
            Self::NoActiveEndpoint => "NO_ACTIVE_ENDPOINT",
            Self::StaleFence { .. } => "STALE_FENCE",
            Self::StaleReconcile { .. } => "STALE_RECONCILE",
            Self::NotReconciling => "NOT_RECONCILING",
            Self::NotHalted => "NOT_HALTED",
            Self::NotRearmable { .. } => "NOT_REARMABLE",
            Self::TargetNotEligible { .. } => "TARGET_NOT_ELIGIBLE",
            Self::AlreadyActive { .. } => "ALREADY_ACTIVE",
            Self::EndpointIsActive { .. } => "ENDPOINT_IS_ACTIVE",
            Self::RoleChange { .. } => "ROLE_CHANGE",
            Self::HaltCode { .. } => "HALT_CODE",
            Self::EpochsExhausted { .. } => "EPOCHS_EXHAUSTED",
        }
    }

    #[cold]
    #[inline(never)]
    pub(super) fn unknown_id(id: EndpointId) -> Self {
        Self::UnknownEndpoint { endpoint: format!("#{}", id.index()) }
    }
}

/// Why a configuration does not pass the start-up gate.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ConfigurationError {
    /// Nothing would ever become active.
    #[error("none of {endpoints} endpoints is primary; expected exactly one")]
    NoPrimary {
        /// How many are registered.
        endpoints: usize,
    },
    /// There is nothing to fail over to.
    #[error("{found} endpoint is registered; expected at least 2")]
    TooFewEndpoints {
        /// How many are registered.
        found: usize,
    },
    /// Two endpoints front different accounts: positions do not net across accounts.
    #[error(
        "{endpoint:?} fronts account {account:?} and {other_endpoint:?} fronts {other_account:?}; expected one account"
    )]
    AccountMismatch {
        /// An endpoint.
        endpoint: String,
        /// Its account.
        account: String,
        /// Another one.
        other_endpoint: String,
        /// That one's account.
        other_account: String,
    },
}

impl ConfigurationError {
    /// The stable code that scenario files and journals use.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::NoPrimary { .. } => "NO_PRIMARY",
            Self::TooFewEndpoints { .. } => "TOO_FEW_ENDPOINTS",
            Self::AccountMismatch { .. } => "ACCOUNT_MISMATCH",
        }
    }
}

/// Why a snapshot cannot be restored. No engine was made.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RestoreError {
    /// Written by another version of the format.
    #[error("snapshot version {found} is not known; expected {expected}")]
    Version {
        /// The version found.
        found: u32,
        /// The version this crate reads.
        expected: u32,
    },
    /// Its endpoints could not be registered.
    #[error("endpoints of the snapshot: {0}")]
    Endpoints(#[from] EngineError),
    /// Its parts contradict each other.
    #[error("{key} of the snapshot: {found}; expected {expected}")]
    Contradiction {
        /// The key.
        key: &'static str,
        /// What was found.
        found: String,
        /// What was expected.
        expected: &'static str,
    },
}
