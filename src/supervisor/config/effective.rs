//! Every value that is in force, with its origin.

use std::collections::BTreeSet;

use super::build::redacted;
use super::findings::Places;
use super::read::{Table, Value};
use super::{GroupConfig, ProbeKind};

/// A value and where it comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Effective {
    /// Where in the file's tree.
    pub key: String,
    /// The value, without secrets.
    pub value: String,
    /// Where it comes from.
    pub origin: Origin,
}

/// Where a value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// This line of the file.
    Line(usize),
    /// The default.
    Default,
}

pub(super) fn of(file: &Table, text: &str) -> Vec<Effective> {
    let mut list = Vec::new();
    collect(file, &Places::new(text), &mut list);
    list
}

fn collect(table: &Table, places: &Places<'_>, list: &mut Vec<Effective>) {
    for (key, entry) in table.entries() {
        let value = match &entry.value {
            // What states nothing more is in force as well: `probe = { tcp = {} }` asks by TCP.
            Value::Table(inner) if inner.entries().next().is_none() => "{}".to_owned(),
            Value::Table(inner) => {
                collect(inner, places, list);
                continue;
            }
            Value::Tables(inner) if !inner.is_empty() => {
                inner.iter().for_each(|one| collect(one, places, list));
                continue;
            }
            Value::Refused => continue,
            Value::Tables(_) => "none".to_owned(),
            Value::Text(value) => format!("{:?}", redacted(value)),
            Value::Secret(_) => "...".to_owned(),
            Value::Flag(flag) => flag.to_string(),
            Value::Integer(number) => number.to_string(),
            Value::Duration(duration) => format!("{duration:?}"),
            Value::Share(share) => share.to_string(),
            Value::Texts(texts) => format!("{texts:?}"),
            Value::Integers(integers) => format!("{integers:?}"),
            Value::Statuses(statuses) => format!("{statuses:?}"),
            Value::TextMap(map) => {
                let names: Vec<_> = map.iter().map(|(name, _)| format!("{name}: ...")).collect();
                format!("{{{}}}", names.join(", "))
            }
        };
        let origin = entry.span.as_ref().map_or(Origin::Default, |span| Origin::Line(places.line(span.start)));
        list.push(Effective { key: table.path_of(key), value, origin });
    }
}

/// Adds the values that follow from others where the file states none, and puts all in the order of their keys.
pub(super) fn add_derived(list: &mut Vec<Effective>, groups: &[GroupConfig]) {
    let stated: BTreeSet<_> = list.iter().map(|one| one.key.clone()).collect();
    let mut add = |key: String, value: String| {
        if !stated.contains(&key) {
            list.push(Effective { key, value, origin: Origin::Default });
        }
    };
    for (place, group) in groups.iter().enumerate() {
        let (settings, probing) = (group.policy.settings(), &group.probing);
        let history = settings.minimum_history.unwrap_or_else(|| group.policy.trigger().needs());
        add(format!("group[{place}].policy.minimum_history"), history.to_string());
        add(format!("group[{place}].probing.interval_when_failing"), format!("{:?}", probing.interval_when_failing));
        add(format!("group[{place}].probing.no_evidence_alarm"), format!("{:?}", group.no_evidence_alarm));
        if let Some(feed) = &group.feed {
            add(format!("group[{place}].feed_valid_for"), format!("{:?}", feed.terms.valid_for));
        }
        for (nth, one) in group.endpoints.iter().enumerate() {
            add(format!("group[{place}].endpoint[{nth}].priority"), one.endpoint.priority.to_string());
            for (probe, config) in one.probes.iter().enumerate() {
                let ProbeKind::Report(report) = &config.kind else { continue };
                // A probe that stands by itself has no place in a list.
                let endpoint = format!("group[{place}].endpoint[{nth}]");
                let places = [format!("{endpoint}.probe[{probe}]"), format!("{endpoint}.probe")];
                let is_there = |place: &&String| stated.contains(&format!("{place}.report.max_heartbeat_age"));
                if let Some(place) = places.iter().find(is_there) {
                    add(format!("{place}.report.max_silence"), format!("{:?}", report.max_silence));
                }
            }
        }
    }
    list.sort_by_cached_key(|one| parts(&one.key));
}

/// `group[10].name` as (group, 10), (name, none): the tenth comes after the second.
fn parts(key: &str) -> Vec<(String, Option<u64>)> {
    let part = |part: &str| match part.trim_end_matches(']').split_once('[') {
        Some((name, place)) => (name.to_owned(), place.parse().ok()),
        None => (part.to_owned(), None),
    };
    key.split('.').map(part).collect()
}
