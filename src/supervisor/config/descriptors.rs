//! The descriptors that a supervisor may hold at once, and whether the limit of this process permits so many.

use rustix::process::{Resource, getrlimit};

use super::super::{control, report, serve};
use super::build::Builder;
use super::read::Table;
use super::{Config, EndpointConfig, GroupConfig, ProbeConfig, ProbeKind};

/// What belongs to no path and no client: standard streams, the journal, listeners, the runtimes' own.
const OWN: u64 = 64;
/// The pipes of a program, and the handle of its process.
const PROGRAM: u64 = 3;
/// A feed, and its lock.
const FEED: u64 = 2;

impl Config {
    /// The most descriptors that it holds at once: while every path hangs and every place of a client is taken. The
    /// supervisor does not raise its limit, since hooks and probes would inherit it.
    #[must_use]
    pub fn descriptors(&self) -> u64 {
        let clients = control::MOST_CONNECTIONS + control::subscribe::MOST_SUBSCRIPTIONS;
        let readers = self.supervisor.listen.map_or(0, |_| serve::MOST_CONNECTIONS);
        let gateways = self.supervisor.report_socket.as_ref().map_or(0, |_| report::MOST_CONNECTIONS);
        let groups = self.groups.iter().map(of_group).fold(0, u64::saturating_add);
        groups.saturating_add(OWN).saturating_add((clients + readers + gateways) as u64)
    }
}

fn of_group(group: &GroupConfig) -> u64 {
    let feed = group.feed.as_ref().map_or(0, |_| FEED);
    let paths = group.endpoints.iter().map(|endpoint| of_endpoint(endpoint, group));
    paths.fold(PROGRAM + feed, u64::saturating_add)
}

fn of_endpoint(endpoint: &EndpointConfig, group: &GroupConfig) -> u64 {
    let probing = &group.probing;
    // A path that hangs is asked again and again before the first answer is given up.
    let overlap = endpoint.probes.iter().all(overlaps);
    let slots = match overlap {
        true => probing.timeout.as_nanos().div_ceil(probing.interval_when_failing.as_nanos().max(1)),
        false => 1,
    };
    // A session that ends has the path asked as often as decides, beside its slots where they may overlap.
    let confirms = if overlap { u64::from(endpoint.confirming(group).failures) } else { 0 };
    let (held, confirms) = endpoint.watch.as_ref().map_or((0, 0), |_| (1, confirms));
    let slots = u64::try_from(slots).unwrap_or(u64::MAX).saturating_add(confirms);
    endpoint.probes.iter().map(of_probe).sum::<u64>().saturating_mul(slots).saturating_add(held)
}

fn overlaps(probe: &ProbeConfig) -> bool {
    match &probe.kind {
        ProbeKind::Exec(_) | ProbeKind::Fix(_) => false,
        ProbeKind::WebSocket(config) => config.subscribe.is_none(),
        ProbeKind::Tcp | ProbeKind::Tls(_) | ProbeKind::Http(_) | ProbeKind::Report(_) => true,
    }
}

const fn of_probe(probe: &ProbeConfig) -> u64 {
    match probe.kind {
        ProbeKind::Exec(_) => PROGRAM,
        ProbeKind::Report(_) => 0,
        ProbeKind::Tcp | ProbeKind::Tls(_) | ProbeKind::Http(_) | ProbeKind::WebSocket(_) | ProbeKind::Fix(_) => 1,
    }
}

/// Warns where the soft limit of this process is lower than what the supervisor may need.
pub(super) fn lint(builder: &mut Builder<'_>, file: &Table, config: &Config) {
    let needed = config.descriptors();
    if let Some(limit) = getrlimit(Resource::Nofile).current.filter(|limit| *limit < needed) {
        let found = format!(
            "up to {needed} descriptors at once while paths hang, and the soft limit is {limit}, as it is here and now: \
             without descriptors a probe is no evidence, and nothing moves"
        );
        let expected = format!("a soft limit (ulimit -n, LimitNOFILE) of {needed} or more where it runs");
        builder.warning(file, "supervisor", found, expected);
    }
}
