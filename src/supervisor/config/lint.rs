//! What is legal but dangerous.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::Path;
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::Duration;

use hyper::Uri;

use super::build;
use super::read::Table;
use super::{
    EndpointConfig, GroupConfig, HttpConfig, ProbeKind, WebSocketConfig, depth, feed, fix, recovery, reports, watch,
};
use crate::manager::Clock;
use crate::supervisor::certificates::{SOON, first_of_file, in_words};
use crate::supervisor::clock::BootClock;

pub(super) fn group(builder: &mut build::Builder<'_>, table: &Table, group: &GroupConfig) {
    depth::check(builder, table, group);
    policy(builder, table, group);
    endpoints(builder, table, group);
    fix::lint(builder, table, group);
    authorities(builder, table, group);
    hooks(builder, table, group);
    watch::apart(builder, table, group);
    watch::lint(builder, table, group);
    feed::lint(builder, table, group);
    recovery::lint(builder, table, group);
}

fn policy(builder: &mut build::Builder<'_>, table: &Table, group: &GroupConfig) {
    let Some(policy) = table.table("policy") else { return };
    let settings = group.policy.settings();
    if !settings.require_fence {
        builder.warning(
            policy,
            "require_fence",
            "false: two live paths in front of one account are possible",
            "true, unless the broker provably fences for you",
        );
    }
    reports::silence(builder, policy, group);
    max_health_age(builder, policy, group, settings.max_health_age);
    if let (Some(own), Some(shadow)) = (table.table("shadow"), &group.shadow) {
        if *shadow == group.policy {
            builder.warning(table, "shadow", "the same as policy: it will never differ", "keys that differ from it");
        }
        if shadow.settings().max_health_age != settings.max_health_age {
            max_health_age(builder, own, group, shadow.settings().max_health_age);
        }
    }
}

fn max_health_age(builder: &mut build::Builder<'_>, policy: &Table, group: &GroupConfig, age: Duration) {
    let enough = (group.probing.interval + group.probing.timeout).saturating_mul(2);
    if age < enough {
        let found = format!("{age:?} is not comfortably above interval + timeout");
        builder.warning(policy, "max_health_age", found, format!("at least {enough:?}"));
    }
}

fn endpoints(builder: &mut build::Builder<'_>, table: &Table, group: &GroupConfig) {
    let mut addresses: Vec<(String, SocketAddr)> = Vec::new();
    let all = resolved(group.endpoints.iter().map(|one| &*one.endpoint.url), builder.lookups);
    for ((one, endpoint), found) in table.tables("endpoint").iter().zip(&group.endpoints).zip(all) {
        if !endpoint.endpoint.primary && !endpoint.explicit_priority {
            builder.warning(
                one,
                "priority",
                "the backup's priority is implicit",
                "a stated one: the nearest and the cheapest path are not the same choice",
            );
        }
        if endpoint.probes.iter().all(|probe| probe.kind == ProbeKind::Tcp) {
            builder.warning(
                one,
                "probe",
                "a bare TCP probe proves that something accepts, not that orders are taken",
                "a probe that logs on or asks for the account",
            );
        }
        reports::times(builder, one, endpoint, group);
        let name = &endpoint.endpoint.name;
        for address in found {
            if let Some((other, _)) = addresses.iter().find(|(other, known)| *known == address && other != name) {
                builder.warning(
                    one,
                    "url",
                    format!("{name} and {other} are one address, {address}"),
                    "paths that do not fail together",
                );
            }
            addresses.push((name.clone(), address));
        }
    }
}

/// Authorities that expire soon, with the paths that trust the same file.
fn authorities(builder: &mut build::Builder<'_>, table: &Table, group: &GroupConfig) {
    let trusted: Vec<_> = group.endpoints.iter().map(ca_file).collect();
    for (place, (one, file)) in table.tables("endpoint").iter().zip(&trusted).enumerate() {
        let Some(file) = file else { continue };
        let Some(left) = first_of_file(file).filter(|left| *left < SOON) else { continue };
        let others = group.endpoints.iter().zip(&trusted).enumerate();
        let others: Vec<_> = others
            .filter(|(other, (_, trusts))| *other != place && **trusts == Some(*file))
            .map(|(_, (endpoint, _))| &*endpoint.endpoint.name)
            .collect();
        let mut found = format!("ca_file {} has an authority that expires in {}", file.display(), in_words(left));
        if !others.is_empty() {
            found = format!("{found}, and {} trust it too: one expiry takes these paths together", others.join(", "));
        }
        builder.warning(one, "probe", found, format!("authorities that are valid for {} or more", in_words(SOON)));
    }
}

fn ca_file(endpoint: &EndpointConfig) -> Option<&Path> {
    endpoint.probes.iter().find_map(|probe| match &probe.kind {
        ProbeKind::Tls(tls)
        | ProbeKind::Http(HttpConfig { tls, .. })
        | ProbeKind::WebSocket(WebSocketConfig { tls, .. }) => tls.ca_file.as_deref(),
        ProbeKind::Fix(config) => config.tls.ca_file.as_deref(),
        ProbeKind::Tcp | ProbeKind::Exec(_) | ProbeKind::Report(_) => None,
    })
}

fn hooks(builder: &mut build::Builder<'_>, table: &Table, group: &GroupConfig) {
    let Some(hooks) = table.table("hooks") else { return };
    let settings = group.policy.settings();
    let missing = [
        (
            "fence",
            group.hooks.fence.is_empty() && settings.require_fence,
            "only a person can confirm a fence, so no switch is unattended",
        ),
        (
            "switch",
            group.hooks.switch.is_empty(),
            "nothing moves the transport: the gateway must follow the published path by itself",
        ),
        (
            "reconcile",
            group.hooks.reconcile.is_empty() && settings.require_reconciliation,
            "only a person can end a hold after a switch",
        ),
        ("halt", group.hooks.halt.is_empty(), "a halt is published, and nobody is told"),
    ];
    for (key, is_missing, found) in missing {
        if is_missing {
            builder.warning(hooks, key, format!("no {key} hook: {found}"), "a command or a webhook");
        }
    }
}

/// The addresses behind each url; none for one that does not resolve here and now. A look-up that hangs is left behind.
fn resolved<'a>(urls: impl Iterator<Item = &'a str>, since: BootClock) -> Vec<Vec<SocketAddr>> {
    let begun = urls.map(|url| {
        let (host, port) = host_and_port(url)?;
        let (found, addresses) = sync_channel(1);
        let look = move || drop(found.send((&*host, port).to_socket_addrs().map(Iterator::collect)));
        std::thread::Builder::new().name("look-up".to_owned()).spawn(look).ok().map(|_| addresses)
    });
    let begun: Vec<Option<Receiver<io::Result<Vec<SocketAddr>>>>> = begun.collect();
    let left = || build::LOOKUPS.saturating_sub(Duration::from_nanos(since.now().as_nanos()));
    let wait = |answer: Receiver<_>| answer.recv_timeout(left()).ok();
    begun.into_iter().map(|answer| answer.and_then(wait).and_then(Result::ok).unwrap_or_default()).collect()
}

fn host_and_port(url: &str) -> Option<(String, u16)> {
    let uri = url.parse::<Uri>().ok()?;
    let port = match (uri.port_u16(), uri.scheme_str()) {
        (Some(port), _) => port,
        (None, Some("https" | "wss")) => 443,
        (None, Some("http" | "ws")) => 80,
        _ => return None,
    };
    Some((uri.host().unwrap_or_default().trim_matches(['[', ']']).to_owned(), port))
}
