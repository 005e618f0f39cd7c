//! What a probe proves, what it may log on with, and what the broker's sessions allow: the types, and their checks.

use std::fmt;

use super::build::Builder;
use super::read::Table;
use super::{EndpointConfig, GroupConfig, HttpConfig, ProbeConfig, ProbeKind, Require, SessionKind, WebSocketConfig};

/// How deep a success goes. Each level includes those before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Depth {
    /// Something accepts, or answers.
    #[default]
    Reachable,
    /// It knows us: a credential was accepted.
    Authenticated,
    /// What orders pass was passed. Reading never proves it: reads may work where every order is refused.
    OrderPath,
}

impl Depth {
    /// Every depth, the shallowest first.
    pub const ALL: [Self; 3] = [Self::Reachable, Self::Authenticated, Self::OrderPath];

    /// As the configuration says it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Reachable => "reachable",
            Self::Authenticated => "authenticated",
            Self::OrderPath => "order-path",
        }
    }

    pub(super) fn of(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|depth| depth.name() == name)
    }
}

impl fmt::Display for Depth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Whose session a probe opens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Identity {
    /// Nobody's: it does not log on. A request that carries a key and opens no session is none.
    #[default]
    None,
    /// One that does not trade.
    Own,
    /// The one that trades.
    Trading,
}

impl Identity {
    /// As the configuration says it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Own => "own",
            Self::Trading => "trading",
        }
    }

    pub(super) fn of(name: &str) -> Self {
        [Self::Own, Self::Trading].into_iter().find(|identity| identity.name() == name).unwrap_or_default()
    }
}

/// What the broker does with a second session of one identity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Exclusivity {
    /// The new one ends the old one.
    LastLoginWins,
    /// Above a cap, the oldest one ends without a word.
    OldestEvicted,
    /// The new one is refused until the old one has aged out.
    RefusedUntilAged,
    /// It may stand by; the venue says which one may trade.
    VenueArbitrated,
    /// Both live.
    DualLive,
    /// Not known: the strictest reading of each.
    #[default]
    Unknown,
}

impl Exclusivity {
    const ALL: [Self; 6] = [
        Self::LastLoginWins,
        Self::OldestEvicted,
        Self::RefusedUntilAged,
        Self::VenueArbitrated,
        Self::DualLive,
        Self::Unknown,
    ];

    /// As the configuration says it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::LastLoginWins => "last-login-wins",
            Self::OldestEvicted => "oldest-evicted",
            Self::RefusedUntilAged => "refused-until-aged",
            Self::VenueArbitrated => "venue-arbitrated",
            Self::DualLive => "dual-live",
            Self::Unknown => "unknown",
        }
    }

    pub(super) fn of(name: &str) -> Self {
        Self::ALL.into_iter().find(|one| one.name() == name).unwrap_or_default()
    }

    /// Whether a logon of a probe with the identity that trades may cost the trading session.
    #[must_use]
    pub const fn is_exclusive(self) -> bool {
        !matches!(self, Self::DualLive)
    }

    /// Whether the broker itself keeps two sessions of one identity from trading at once: then, and only then, a fence
    /// may be left out. An eviction above a cap does not: below it, both trade.
    #[must_use]
    pub const fn fences(self) -> bool {
        matches!(self, Self::LastLoginWins | Self::RefusedUntilAged | Self::VenueArbitrated)
    }
}

/// Beside what a probe, or a held session, does: what that proves, and what it costs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Terms {
    /// `proves`: the depth of a success.
    pub proves: Depth,
    /// `identity`: whose session it opens.
    pub identity: Identity,
    /// `credential`: the login that it uses, by a name. Failed logons are counted for it. Default: the identity's name.
    pub credential: String,
    /// `budget`: the budget that each of its requests is charged to.
    pub budget: Option<String>,
}

impl ProbeKind {
    /// The depth of a success that states none, and the deepest that it may state, with what it lacks for more. The one
    /// place where kinds differ in this.
    fn depths(&self, has_user: bool) -> (Depth, Depth, &'static str) {
        match self {
            // A session that is up knows us; what it says of orders deepens that, report by report.
            Self::Report(_) => (Depth::Authenticated, Depth::OrderPath, ""),
            Self::Fix(_) => (Depth::Authenticated, Depth::Authenticated, "it sends no order"),
            Self::Tcp | Self::Tls(_) => (Depth::Reachable, Depth::Reachable, "it asks nobody who we are"),
            Self::Http(HttpConfig { headers, .. }) if headers.is_empty() && !has_user => {
                (Depth::Reachable, Depth::Reachable, "it carries no credential: neither headers nor a user in the url")
            }
            Self::Http(HttpConfig { method, .. }) if method != "POST" => (
                Depth::Reachable,
                Depth::Authenticated,
                "it only reads, and reads may work where every order is refused",
            ),
            Self::WebSocket(config) if !config.logs_on(has_user) => (
                Depth::Reachable,
                Depth::Reachable,
                "it carries no credential: neither headers nor subscribe nor a user in the url",
            ),
            Self::WebSocket(_) => (
                Depth::Reachable,
                Depth::Authenticated,
                "what it is sent it only reads, and reads may work where every order is refused",
            ),
            Self::Http(_) | Self::Exec(_) => (Depth::Reachable, Depth::OrderPath, ""),
        }
    }

    /// Whose session it opens, if nothing is stated.
    fn default_identity(&self, has_user: bool) -> Identity {
        match self {
            Self::Fix(_) => Identity::Own,
            Self::WebSocket(config) if config.logs_on(has_user) => Identity::Own,
            Self::Tcp | Self::Tls(_) | Self::Http(_) | Self::WebSocket(_) | Self::Exec(_) | Self::Report(_) => {
                Identity::None
            }
        }
    }
}

impl WebSocketConfig {
    /// Whether it opens a session of somebody's: whoever shows a key, or says something first, may log on.
    fn logs_on(&self, has_user: bool) -> bool {
        has_user || !self.headers.is_empty() || self.subscribe.is_some()
    }
}

/// Whether a url names a user, who is then shown to the far side.
fn has_user(url: &str) -> bool {
    let authority = url.split_once("://").map_or("", |(_, rest)| rest.split(['/', '?', '#']).next().unwrap_or(""));
    authority.contains('@')
}

impl Builder<'_> {
    /// The terms of a probe, from its own table and its endpoint's.
    pub(super) fn terms(&mut self, endpoint: &Table, table: &Table, kind: &ProbeKind, url: &str) -> Terms {
        let has_user = has_user(url);
        let (default, deepest, lacks) = kind.depths(has_user);
        let stated = table.text("proves").and_then(Depth::of);
        // What it could prove depends on all of its keys, and on the url.
        let known = table.sound && !endpoint.is_refused("url");
        if let Some(stated) = stated.filter(|stated| known && *stated > deepest) {
            self.error(table, "proves", format!("{stated}, and {lacks}"), format!("{deepest} at most"));
        }
        let identity = table.text("identity").map_or_else(|| kind.default_identity(has_user), Identity::of);
        // A FIX session is a login of its own.
        let login = match kind {
            ProbeKind::Fix(config) => config.session(),
            _ => identity.name().to_owned(),
        };
        let credential = self.credential(table, login);
        if identity == Identity::None && !table.is_refused("identity") && table.entry("credential").is_some() {
            self.error(table, "credential", "a credential of a probe that does not log on", "identity beside it");
        }
        Terms { proves: stated.unwrap_or(default), identity, credential, budget: budget(endpoint, table) }
    }

    /// The terms of a session that is held. What it shows of itself says whether it logs on, as for a probe; never with the
    /// identity that trades.
    pub(super) fn held_terms(&mut self, endpoint: &Table, table: &Table, session: &SessionKind, url: &str) -> Terms {
        let identity = match session {
            SessionKind::WebSocket(config) if config.logs_on(has_user(url)) => Identity::Own,
            SessionKind::Tcp | SessionKind::Tls(_) | SessionKind::WebSocket(_) => Identity::None,
        };
        let credential = self.credential(table, identity.name().to_owned());
        if identity == Identity::None && table.sound && table.entry("credential").is_some() {
            let found = "a credential of a session that does not log on";
            self.error(table, "credential", found, "headers, subscribe or a user in the url");
        }
        // A handshake that is answered accepts what was shown in it. What is sent behind it may still be refused.
        let is_accepted = matches!(session, SessionKind::WebSocket(config) if config.subscribe.is_none());
        let proves = if identity == Identity::Own && is_accepted { Depth::Authenticated } else { Depth::Reachable };
        Terms { proves, identity, credential, budget: budget(endpoint, table) }
    }

    /// The name of a login, if another one than `login` is stated.
    fn credential(&mut self, table: &Table, login: String) -> String {
        let credential = table.text("credential").map_or(login, |credential| credential.trim().to_owned());
        self.one_line(table, "credential");
        if credential.is_empty() {
            self.error(table, "credential", "blank", "a name");
        }
        credential
    }
}

/// The budget that it names, or its endpoint does.
fn budget(endpoint: &Table, table: &Table) -> Option<String> {
    table.text("budget").or_else(|| endpoint.text("budget")).map(str::to_owned)
}

impl EndpointConfig {
    /// The deepest of what a success of the whole can prove.
    #[must_use]
    pub fn provable(&self) -> Depth {
        let of_probe = |probe: &ProbeConfig| match probe.kind {
            ProbeKind::Report(_) => Depth::OrderPath,
            _ => probe.terms.proves,
        };
        self.probes.iter().map(of_probe).max().unwrap_or_default()
    }

    /// The credentials that its probes log on with.
    pub fn credentials(&self) -> impl Iterator<Item = &str> {
        let logs_on = |probe: &&ProbeConfig| probe.terms.identity != Identity::None;
        self.probes.iter().filter(logs_on).map(|probe| &*probe.terms.credential)
    }
}

/// What of these does not go together, and what is not stated.
pub(super) fn check(builder: &mut Builder<'_>, table: &Table, group: &GroupConfig) {
    let stated = |key| table.entry(key).is_some_and(|entry| entry.span.is_some());
    if !stated("exclusivity") {
        let found = "not stated: taken as unknown, the strictest";
        builder.warning(table, "exclusivity", found, "what the broker does with a second session of one identity");
    }
    if !stated("required_depth") {
        let found = "not stated: a path that merely answers is a target";
        builder.warning(table, "required_depth", found, "authenticated or order-path, or reachable if that is enough");
    }
    let name = group.exclusivity.name();
    let policy =
        table.table("policy").filter(|_| !group.policy.settings().require_fence && !group.exclusivity.fences());
    if let Some(policy) = policy {
        let found = format!("false where exclusivity is {name}: nothing keeps two paths from trading at once");
        let expected = "true; or an exclusivity of a broker that fences by itself: last-login-wins, refused-until-aged or \
                        venue-arbitrated";
        builder.error(policy, "require_fence", found, expected);
    }
    for (one, endpoint) in table.tables("endpoint").iter().zip(&group.endpoints) {
        check_endpoint(builder, one, endpoint, group);
        check_account(builder, one, endpoint);
    }
}

/// An account that is stated and that no probe reads looks checked, and is not.
fn check_account(builder: &mut Builder<'_>, table: &Table, endpoint: &EndpointConfig) {
    let reads = |probe: &ProbeConfig| match &probe.kind {
        ProbeKind::Http(config) => config.account_pointer.is_some(),
        ProbeKind::Fix(config) => config.account_tag.is_some(),
        ProbeKind::Tcp | ProbeKind::Tls(_) | ProbeKind::WebSocket(_) | ProbeKind::Exec(_) | ProbeKind::Report(_) => {
            false
        }
    };
    if endpoint.endpoint.account.is_some() && !endpoint.probes.iter().any(reads) {
        let found = "stated, and none of its probes reads an account: nothing will ever compare it";
        builder.warning(table, "account", found, "an http probe with account_pointer, or a fix probe with account_tag");
    }
}

fn check_endpoint(builder: &mut Builder<'_>, table: &Table, endpoint: &EndpointConfig, group: &GroupConfig) {
    let provable = endpoint.provable();
    if provable < group.required_depth {
        let found = format!("its probes prove {provable} at most, and {} is required", group.required_depth);
        builder.error(table, "probe", found, "a probe that proves as much; without one it is never a target");
    }
    if endpoint.probes.iter().any(|probe| probe.terms.identity == Identity::Trading) && group.exclusivity.is_exclusive()
    {
        let found = format!(
            "a probe that logs on with the identity that trades, where exclusivity is {}",
            group.exclusivity.name()
        );
        builder.error(table, "probe", found, "an identity of its own: such a probe can end the session that trades");
    }
    let is_bare = |probe: &ProbeConfig| probe.kind == ProbeKind::Tcp;
    let suffices = match endpoint.require {
        Require::All => endpoint.probes.iter().all(is_bare),
        Require::Any => endpoint.probes.iter().any(is_bare),
    };
    let is_fix = endpoint.endpoint.url.starts_with("fix://") || endpoint.endpoint.url.starts_with("fixs://");
    if is_fix && suffices {
        let found = "a bare TCP probe as the proof of a FIX path: whatever forwards for a dead peer accepts too";
        builder.error(table, "probe", found, "a probe that logs on, or one that asks what knows of the session");
    }
}
