//! Gateways that report: their probe, their users, and what is dangerous about them.

use std::time::Duration;

use crate::engine::{Policy, Silence};

use super::build::Builder;
use super::read::Table;
use super::{EndpointConfig, GroupConfig, ProbeKind, Probing, ReportConfig};

impl Builder<'_> {
    /// A probe by what gateways report. What its group says of silence, it says once all endpoints are read.
    pub(super) fn report(&mut self, table: &Table) -> Option<ReportConfig> {
        Some(ReportConfig {
            max_silence: Duration::ZERO,
            max_heartbeat_age: self.positive(table, "max_heartbeat_age")?,
            min_answers: table.integer("min_answers")?,
            unknown_share: table.share("unknown_share"),
            silence: Silence::Note,
        })
    }

    /// What the group says of its endpoints' `report` probes.
    pub(super) fn settle_reports(
        &mut self,
        table: &Table,
        policy: &Policy,
        probing: &Probing,
        endpoints: &mut [EndpointConfig],
    ) {
        if endpoints.len() != table.tables("endpoint").len() {
            // One of them is refused: which is which is not known here.
            return;
        }
        let least = probing.interval.saturating_mul(2);
        for (one, endpoint) in table.tables("endpoint").iter().zip(endpoints) {
            let mut reports = 0;
            for (probe, table) in endpoint.probes.iter_mut().zip(one.tables("probe")) {
                let (ProbeKind::Report(report), Some(keys)) = (&mut probe.kind, table.table("report")) else {
                    continue;
                };
                report.silence = policy.settings().silence;
                report.max_silence = keys.duration("max_silence").unwrap_or(least);
                if report.max_silence < least {
                    let found = format!("{:?} is less than 2 x interval ({:?})", report.max_silence, probing.interval);
                    self.error(keys, "max_silence", found, format!("at least {least:?}"));
                }
                reports += 1;
            }
            if reports > 1 {
                self.error(
                    one,
                    "probe",
                    format!("{reports} report probes"),
                    "one at most: each report is looked at once",
                );
            }
        }
    }

    /// The users that may report.
    pub(super) fn report_users(&mut self, table: &Table) -> Vec<u32> {
        let names = table.texts("report_users");
        if !names.is_empty() && table.entry("report_socket").is_none() {
            let expected = "report_socket too: the control socket is for the supervisor's own user and root";
            self.error(table, "report_users", "users without a report_socket", expected);
        }
        let mut users = Vec::new();
        for name in names {
            match user(&name) {
                Some(number) => users.push(number),
                None => {
                    let expected = "a user's number, or a name that /etc/passwd has";
                    self.error(table, "report_users", format!("{name:?}"), expected);
                }
            }
        }
        users
    }
}

/// A user's number. Names are looked up where local ones are; there is no other way without the C library.
fn user(name: &str) -> Option<u32> {
    if let Ok(number) = name.parse() {
        return Some(number);
    }
    let users = std::fs::read_to_string("/etc/passwd").ok()?;
    let fields = |line: &str| {
        let mut fields = line.split(':');
        let is_it = fields.next() == Some(name);
        fields.nth(1).filter(|_| is_it).and_then(|number| number.parse().ok())
    };
    users.lines().find_map(fields)
}

/// What a gateway that stops reporting will mean, if the file leaves it to the default.
pub(super) fn silence(builder: &mut Builder<'_>, policy: &Table, group: &GroupConfig) {
    let stated = policy.entry("silence").is_some_and(|entry| entry.span.is_some());
    let reported: Vec<_> =
        group.endpoints.iter().filter(|one| report(one).is_some()).map(|one| &*one.endpoint.name).collect();
    if stated || reported.is_empty() {
        return;
    }
    let found = format!(
        "silence is not stated, and gateways report {}: one that stops reporting will be no evidence, noted after {:?} \
         and moving nobody",
        reported.join(", "),
        group.no_evidence_alarm
    );
    builder.warning(policy, "silence", found, "\"note\", if that is meant, or \"failure\": then the path is left");
}

/// The `report` probe of an endpoint.
fn report(endpoint: &EndpointConfig) -> Option<&ReportConfig> {
    endpoint.probes.iter().find_map(|probe| match &probe.kind {
        ProbeKind::Report(report) => Some(report),
        _ => None,
    })
}

/// How long a session whose peer fell silent will go on counting as one that works.
pub(super) fn times(builder: &mut Builder<'_>, one: &Table, endpoint: &EndpointConfig, group: &GroupConfig) {
    let Some(report) = report(endpoint) else { return };
    let (age, interval) = (report.max_heartbeat_age, group.probing.interval);
    let keys = one.tables("probe").iter().find_map(|probe| probe.table("report"));
    let Some(keys) = keys else { return };
    if age < interval {
        let found = format!("{age:?} is shorter than interval ({interval:?})");
        builder.warning(keys, "max_heartbeat_age", found, "well above the broker's own interval of heartbeats");
    }
    if age > group.policy.settings().max_health_age {
        let found = format!(
            "a session on which nothing comes in counts as working for {age:?}, longer than max_health_age ({:?})",
            group.policy.settings().max_health_age
        );
        builder.warning(keys, "max_heartbeat_age", found, "two of the broker's intervals of heartbeats, and no more");
    }
    if report.max_silence > group.policy.settings().max_health_age {
        let found = format!("{:?} is longer than max_health_age", report.max_silence);
        builder.warning(keys, "max_silence", found, "a few of the gateway's intervals of reports");
    }
}
