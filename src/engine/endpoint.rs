//! The endpoints of one broker account: what they are, and in which order they are preferred.

use serde::{Deserialize, Serialize};

use super::error::{ConfigurationError, EngineError, Field};
use super::trigger::Trigger;

/// Priority of a primary that states none.
pub const DEFAULT_PRIMARY_PRIORITY: u32 = 0;
/// Priority of a backup that states none.
pub const DEFAULT_BACKUP_PRIORITY: u32 = 100;

/// One network path to the broker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Endpoint {
    /// Unique name; trimmed when registered, matched exactly afterwards.
    pub name: String,
    /// Where it is, in the operator's words. Never blank.
    pub region: String,
    /// Its address. The engine only compares it.
    pub url: String,
    /// The broker account it fronts, if stated. All endpoints must front the same one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account: Option<String>,
    /// Whether this is the preferred path; there is at most one.
    pub primary: bool,
    /// Lower is preferred; ties go by name.
    pub priority: u32,
    /// What makes this endpoint DOWN; by default what the policy says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trigger: Option<Trigger>,
}

impl Endpoint {
    /// The preferred path, at priority [`DEFAULT_PRIMARY_PRIORITY`].
    #[must_use]
    pub fn primary(name: impl Into<String>, region: impl Into<String>, url: impl Into<String>) -> Self {
        Self::new(name.into(), region.into(), url.into(), true, DEFAULT_PRIMARY_PRIORITY)
    }

    /// A path to fall back to. State the priority: the nearest and the cheapest region are not the same choice.
    #[must_use]
    pub fn backup(name: impl Into<String>, region: impl Into<String>, url: impl Into<String>, priority: u32) -> Self {
        Self::new(name.into(), region.into(), url.into(), false, priority)
    }

    fn new(name: String, region: String, url: String, primary: bool, priority: u32) -> Self {
        Self { name, region, url, account: None, primary, priority, trigger: None }
    }

    /// The same endpoint with a trigger of its own.
    #[must_use]
    pub fn with_trigger(mut self, trigger: Trigger) -> Self {
        self.trigger = Some(trigger);
        self
    }

    /// The same endpoint, stating the account that it fronts.
    #[must_use]
    pub fn with_account(mut self, account: impl Into<String>) -> Self {
        self.account = Some(account.into());
        self
    }

    /// Whether probes of `self` and of `other` tell of the same thing. Name, role, priority and trigger do not
    /// matter.
    #[must_use]
    pub fn same_address(&self, other: &Self) -> bool {
        self.region == other.region && self.url == other.url && self.account == other.account
    }

    fn trimmed(self) -> Self {
        let trim = |text: String| match text.trim() {
            whole if whole.len() == text.len() => text,
            part => part.to_owned(),
        };
        Self {
            name: trim(self.name),
            region: trim(self.region),
            url: trim(self.url),
            account: self.account.map(trim),
            ..self
        }
    }

    fn refuse_blank(&self) -> Result<(), EngineError> {
        let account = self.account.as_deref().unwrap_or("none stated");
        let fields = [
            (Field::Name, &*self.name),
            (Field::Region, &*self.region),
            (Field::Url, &*self.url),
            (Field::Account, account),
        ];
        match fields.into_iter().find(|(_, text)| text.is_empty()) {
            Some((field, _)) => Err(EngineError::BlankField { endpoint: self.name.clone(), field }),
            None => Ok(()),
        }
    }
}

/// The keys of an endpoint to change; `None` leaves a key as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EndpointUpdate {
    /// New region.
    pub region: Option<String>,
    /// New address.
    pub url: Option<String>,
    /// New account. (One that was stated cannot be taken back, only changed.)
    pub account: Option<String>,
    /// Present only to be compared: changing who is primary is refused.
    pub primary: Option<bool>,
    /// New priority.
    pub priority: Option<u32>,
    /// New trigger. (One that was stated cannot be taken back, only changed.)
    pub trigger: Option<Trigger>,
}

/// An endpoint's place in the order of registration; never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EndpointId(pub(super) u16);

impl EndpointId {
    /// The place, counted from 0.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// The id of the endpoint registered as number `index`, counted from 0. An engine refuses one that it never
    /// gave out.
    #[must_use]
    pub const fn from_index(index: u16) -> Self {
        Self(index)
    }
}

/// The registered endpoints, in order of registration, and their order of preference.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Roster {
    endpoints: Vec<Endpoint>,
    /// Ids, most preferred first.
    by_preference: Vec<EndpointId>,
    /// Each id's place in `by_preference`.
    rank: Vec<u16>,
    primary: Option<EndpointId>,
}

impl Roster {
    /// One id is kept back to mean "none" in a published word.
    pub(super) const CAPACITY: usize = u16::MAX as usize;

    pub(super) fn register(&mut self, endpoint: Endpoint) -> Result<EndpointId, EngineError> {
        let endpoint = endpoint.trimmed();
        endpoint.refuse_blank()?;
        if self.find(&endpoint.name).is_some() {
            return Err(EngineError::DuplicateEndpoint { endpoint: endpoint.name });
        }
        if let (true, Some(first)) = (endpoint.primary, self.primary()) {
            let primary = self.get(first).map_or_else(String::new, |first| first.name.clone());
            return Err(EngineError::SecondPrimary { endpoint: endpoint.name, primary });
        }
        let id = match u16::try_from(self.endpoints.len()) {
            Ok(id) if usize::from(id) < Self::CAPACITY => EndpointId(id),
            _ => return Err(EngineError::TooManyEndpoints { limit: Self::CAPACITY }),
        };
        if endpoint.primary {
            self.primary = Some(id);
        }
        self.endpoints.push(endpoint);
        self.sort();
        Ok(id)
    }

    /// The endpoint `name` with `update` applied, and whether that changes its address. Nothing is stored yet.
    pub(super) fn updated(&self, name: &str, update: EndpointUpdate) -> Result<(EndpointId, Endpoint), EngineError> {
        let name = name.trim();
        let (id, now) = self
            .find(name)
            .and_then(|id| Some((id, self.get(id)?)))
            .ok_or_else(|| EngineError::UnknownEndpoint { endpoint: name.to_owned() })?;
        let new = Endpoint {
            name: now.name.clone(),
            region: update.region.unwrap_or_else(|| now.region.clone()),
            url: update.url.unwrap_or_else(|| now.url.clone()),
            account: update.account.or_else(|| now.account.clone()),
            primary: update.primary.unwrap_or(now.primary),
            priority: update.priority.unwrap_or(now.priority),
            trigger: update.trigger.or(now.trigger),
        }
        .trimmed();
        new.refuse_blank()?;
        if new.primary != now.primary {
            return Err(EngineError::RoleChange { endpoint: new.name });
        }
        Ok((id, new))
    }

    pub(super) fn replace(&mut self, id: EndpointId, endpoint: Endpoint) {
        if let Some(slot) = self.endpoints.get_mut(id.index()) {
            *slot = endpoint;
            self.sort();
        }
    }

    fn sort(&mut self) {
        let endpoints = &self.endpoints;
        let key = |id: &EndpointId| endpoints.get(id.index()).map(|e| (e.priority, e.name.as_str()));
        self.by_preference = (0..u16::MAX).map(EndpointId).take(endpoints.len()).collect();
        self.by_preference.sort_by(|a, b| key(a).cmp(&key(b)));
        self.rank = vec![0; endpoints.len()];
        for (rank, id) in (0..u16::MAX).zip(&self.by_preference) {
            if let Some(slot) = self.rank.get_mut(id.index()) {
                *slot = rank;
            }
        }
    }

    pub(super) fn len(&self) -> usize {
        self.endpoints.len()
    }

    pub(super) fn get(&self, id: EndpointId) -> Option<&Endpoint> {
        self.endpoints.get(id.index())
    }

    pub(super) fn find(&self, name: &str) -> Option<EndpointId> {
        self.iter().find(|(_, endpoint)| endpoint.name == name).map(|(id, _)| id)
    }

    pub(super) fn primary(&self) -> Option<EndpointId> {
        self.primary
    }

    pub(super) fn iter(&self) -> impl ExactSizeIterator<Item = (EndpointId, &Endpoint)> {
        self.endpoints.iter().enumerate().map(|(index, endpoint)| {
            // `register` keeps the length within u16; the cast cannot lose anything.
            (EndpointId(u16::try_from(index).unwrap_or(u16::MAX)), endpoint)
        })
    }

    /// The place of `id` in the order of preference; past its end if there is no such endpoint.
    #[inline]
    pub(super) fn rank(&self, id: EndpointId) -> usize {
        self.rank.get(id.index()).map_or(usize::MAX, |rank| usize::from(*rank))
    }

    pub(super) fn at_rank(&self, rank: usize) -> Option<EndpointId> {
        self.by_preference.get(rank).copied()
    }

    /// The start-up gate: a configuration that could never act must not look like a healthy system.
    pub(super) fn validate(&self) -> Result<(), ConfigurationError> {
        if self.primary().is_none() {
            return Err(ConfigurationError::NoPrimary { endpoints: self.len() });
        }
        if self.len() < 2 {
            return Err(ConfigurationError::TooFewEndpoints { found: self.len() });
        }
        let mut stated = self.endpoints.iter().filter_map(|e| Some((&e.name, e.account.as_ref()?)));
        let Some((first, account)) = stated.next() else { return Ok(()) };
        match stated.find(|(_, other)| *other != account) {
            None => Ok(()),
            Some((second, other)) => Err(ConfigurationError::AccountMismatch {
                endpoint: first.clone(),
                account: account.clone(),
                other_endpoint: second.clone(),
                other_account: other.clone(),
            }),
        }
    }
}
