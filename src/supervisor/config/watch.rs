//! `watch`: the session that is held open beside an endpoint's probes.

use std::time::Duration;

use super::build::{Builder, OVER_TCP, OVER_TLS};
use super::read::Table;
use super::{
    EndpointConfig, ExecConfig, GroupConfig, HttpConfig, Identity, ProbeConfig, ProbeKind, Probing, SessionKind, Terms,
    WatchConfig, WebSocketConfig,
};
use crate::engine::TriggerRule;
use crate::supervisor::scheduler::{MOST_CONFIRMS, SHORTEST_SPACING};

/// Long enough for a listener that is handed over, or a packet that is overtaken; three of them are soon over.
const SPACING: Duration = Duration::from_millis(10);
/// The bounds of `ping_interval`.
const PINGS: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(3_600)];

impl Builder<'_> {
    pub(super) fn watch(&mut self, endpoint: &Table, url: &str) -> Option<WatchConfig> {
        let table = endpoint.table("watch")?;
        let ping_interval = self.ping_interval(table);
        let kinds: Vec<_> =
            ["tcp", "tls", "websocket"].into_iter().filter(|kind| table.entry(kind).is_some()).collect();
        let [kind] = kinds[..] else {
            if kinds.is_empty() && !table.sound {
                // It may have a key that is not known, which was told.
                return None;
            }
            let found = if kinds.is_empty() { "no session".to_owned() } else { kinds.join(" with ") };
            self.error(endpoint, "watch", found, "exactly one of tcp, tls, websocket");
            return None;
        };
        let inner = table.table(kind)?;
        let (schemes, session) = match kind {
            "tcp" => (OVER_TCP, SessionKind::Tcp),
            "tls" => (OVER_TLS, SessionKind::Tls(self.tls(inner))),
            _ => (&["ws", "wss"] as &[_], SessionKind::WebSocket(self.held_websocket(inner)?)),
        };
        self.check_url(endpoint, url, schemes);
        let terms = self.held_terms(endpoint, inner, &session, url);
        let confirm_spacing = table.duration("confirm_spacing").unwrap_or(SPACING);
        Some(WatchConfig { session, confirm_spacing, ping_interval: ping_interval?, terms })
    }

    fn ping_interval(&mut self, table: &Table) -> Option<Duration> {
        let ping_interval = table.duration("ping_interval")?;
        let [least, most] = PINGS;
        if !(least..=most).contains(&ping_interval) {
            let found = format!("{ping_interval:?}");
            self.error(table, "ping_interval", found, format!("from {least:?} to {most:?}"));
        }
        Some(ping_interval)
    }

    fn held_websocket(&mut self, table: &Table) -> Option<WebSocketConfig> {
        let text = |key| table.text(key).map(str::to_owned);
        let tls = self.tls(table);
        Some(WebSocketConfig {
            path: text("path")?,
            headers: table.text_map("headers"),
            subprotocol: text("subprotocol"),
            subscribe: text("subscribe"),
            expect_message: None,
            competing_session_status: Vec::new(),
            tls,
        })
    }

    /// The endpoints with a `confirm_spacing` that the pace allows. What is not stated fits.
    pub(super) fn spaced(
        &mut self,
        group: &Table,
        probing: &Probing,
        mut endpoints: Vec<EndpointConfig>,
    ) -> Vec<EndpointConfig> {
        let most = probing.interval_when_failing;
        if endpoints.len() != group.tables("endpoint").len() {
            // One is refused, and the others do not stand where their tables do.
            return endpoints;
        }
        for (table, endpoint) in group.tables("endpoint").iter().zip(&mut endpoints) {
            let (Some(keys), Some(watch)) = (table.table("watch"), &mut endpoint.watch) else { continue };
            if keys.entry("confirm_spacing").is_none() {
                watch.confirm_spacing = watch.confirm_spacing.min(most);
            } else if watch.confirm_spacing < SHORTEST_SPACING || watch.confirm_spacing > most {
                let found = format!("{:?}", watch.confirm_spacing);
                let expected = format!("from {SHORTEST_SPACING:?} to interval_when_failing ({most:?})");
                self.error(keys, "confirm_spacing", found, expected);
            }
        }
        endpoints
    }
}

/// What is legal but dangerous about the sessions that are held open.
pub(super) fn lint(builder: &mut Builder<'_>, table: &Table, group: &GroupConfig) {
    for (one, endpoint) in table.tables("endpoint").iter().zip(&group.endpoints) {
        let (Some(keys), Some(watch)) = (one.table("watch"), &endpoint.watch) else { continue };
        let failures = endpoint.confirming(group).failures;
        if let SessionKind::WebSocket(WebSocketConfig { headers, subscribe, .. }) = &watch.session {
            if !headers.is_empty() || subscribe.is_some() {
                let found = "the held session states headers or a subscription, and may log on";
                builder.warning(keys, "websocket", found, "an identity that is not the one that trades");
            }
        }
        if endpoint.probes.iter().any(logs_on) {
            let found = format!(
                "the probes may log on, and the end of the held session fires up to {failures} of them at once"
            );
            builder.warning(one, "watch", found, "probes that do not log on, or a broker that allows so many logons");
        }
        if watch.confirm_spacing >= group.probing.timeout {
            let found = format!("{:?} is not below timeout ({:?})", watch.confirm_spacing, group.probing.timeout);
            builder.warning(keys, "confirm_spacing", found, "a spacing that makes the end of a session worth a probe");
        }
        let trigger = endpoint.endpoint.trigger.unwrap_or(group.policy.trigger());
        if let TriggerRule::Window(span) = trigger.rule() {
            let found = format!("the trigger is a window of {span:?}, which no probe can shorten");
            builder.warning(one, "watch", found, "a trigger that counts failures");
        }
        if trigger.needs() > MOST_CONFIRMS {
            let found = format!("the trigger needs {} failures, more than are asked for at once", trigger.needs());
            builder.warning(one, "watch", found, format!("at most {MOST_CONFIRMS}"));
        }
    }
}

/// Two sessions that show one login cannot stand at once where the broker allows one: each end of the held one would be our
/// own doing, and would fire probes.
pub(super) fn apart(builder: &mut Builder<'_>, table: &Table, group: &GroupConfig) {
    if !group.exclusivity.is_exclusive() {
        return;
    }
    for (place, (one, endpoint)) in table.tables("endpoint").iter().zip(&group.endpoints).enumerate() {
        let (Some(keys), Some(held)) = (one.table("watch"), held_login(endpoint)) else { continue };
        let credential = held_credential(endpoint);
        let is_same = |probe: &ProbeConfig| {
            matches!(&probe.kind, ProbeKind::WebSocket(config) if login(config) == Some(held))
                || credential.is_some() && credential == stated_credential(&probe.terms)
        };
        let by_probe = group.endpoints.iter().find(|other| other.probes.iter().any(is_same));
        let is_held = |other: &&EndpointConfig| {
            held_login(other) == Some(held) || credential.is_some() && credential == held_credential(other)
        };
        let by_watch = || group.endpoints.iter().take(place).find(is_held);
        let other = by_probe.map(|other| (other, "probe")).or_else(|| by_watch().map(|other| (other, "watch")));
        if let Some((other, what)) = other {
            let (name, kind) = (&other.endpoint.name, group.exclusivity.name());
            let found = format!("its login is that of the {what} of {name} too, where exclusivity is {kind}");
            builder.error(keys, "websocket", found, "a login for each session that is held: one would evict the other");
        }
    }
}

/// What a session shows of who opens it: `headers` and `subscribe`.
type Login<'a> = (&'a [(String, String)], Option<&'a str>);

/// That of a session that may log on.
fn login(config: &WebSocketConfig) -> Option<Login<'_>> {
    let WebSocketConfig { headers, subscribe, .. } = config;
    (!headers.is_empty() || subscribe.is_some()).then_some((headers, subscribe.as_deref()))
}

fn held_login(endpoint: &EndpointConfig) -> Option<Login<'_>> {
    match &endpoint.watch.as_ref()?.session {
        SessionKind::WebSocket(config) => login(config),
        SessionKind::Tcp | SessionKind::Tls(_) => None,
    }
}

/// What the file says whose login it is: what it does not name, it does not say is one and the same.
fn stated_credential(terms: &Terms) -> Option<&str> {
    Some(&*terms.credential).filter(|name| terms.identity != Identity::None && *name != terms.identity.name())
}

fn held_credential(endpoint: &EndpointConfig) -> Option<&str> {
    stated_credential(&endpoint.watch.as_ref()?.terms)
}

/// Whether a probe may log on, as far as its keys tell.
fn logs_on(probe: &ProbeConfig) -> bool {
    match &probe.kind {
        ProbeKind::Tcp | ProbeKind::Tls(_) | ProbeKind::Report(_) => false,
        // Held, it logs on again only where its own session is lost, and waits between two.
        ProbeKind::Fix(_) => true,
        ProbeKind::Http(HttpConfig { competing_session_status, .. }) => !competing_session_status.is_empty(),
        ProbeKind::WebSocket(WebSocketConfig { subscribe, competing_session_status, .. }) => {
            subscribe.is_some() || !competing_session_status.is_empty()
        }
        ProbeKind::Exec(ExecConfig { competing_session_exit, .. }) => competing_session_exit.is_some(),
    }
}
