//! A replay of a history as a table for people, as JSON, and in words.

use std::io::{self, Write};
use std::time::Duration;

use broker_failover::calibration::Report;
use broker_failover::calibration::counterfactual::{Afterwards, Assumptions, Halt, Outage, Replayed, Switch};
use broker_failover::engine::{Reason, SwitchKind};
use broker_failover::planning::Spoken;
use broker_failover::supervisor::config::GroupConfig;
use broker_failover::supervisor::journal::format_time;
use broker_failover::supervisor::visible::visible;
use serde_json::{Value, json};

use crate::table::{ALARM, CARE, GOOD, PLAIN};

/// A moment, in RFC 3339 with milliseconds.
pub(crate) fn moment(nanos: u64) -> String {
    let text = format_time(nanos / 1_000);
    // The last three of the six digits.
    match text.len().checked_sub(4).and_then(|end| text.get(..end)) {
        Some(head) => format!("{head}Z"),
        None => text,
    }
}

fn between(from: u64, to: u64) -> Spoken {
    Spoken(Duration::from_nanos(to.saturating_sub(from)))
}

/// What became of the path that was left, in a sentence.
pub(crate) fn afterwards(replayed: &Replayed, place: usize) -> String {
    let Some(switch) = replayed.switches.get(place) else { return String::new() };
    let from = name(replayed, switch.from);
    match switch.afterwards {
        Afterwards::Saved { time, recovered: Some(_) } => {
            format!("{from} failed for {} more with flow open on {}", Spoken(time), name(replayed, switch.to))
        }
        Afterwards::Saved { time, recovered: None } => {
            format!("{from} failed for at least {} more; the history does not show its end", Spoken(time))
        }
        Afterwards::False { recovered } => {
            format!("FALSE: {from} answered again {} after the decision", between(switch.decided, recovered))
        }
        Afterwards::InVain { recovered } => {
            let after = between(switch.decided, recovered);
            format!("in vain: {from} answered again after {after}, before flow could open on the target")
        }
        Afterwards::Unknown => format!("unknown: the history has no later result of {from} that tells"),
        Afterwards::Well => match switch.kind {
            SwitchKind::Rearm => "the same path in a new epoch".to_owned(),
            _ => "the primary was back".to_owned(),
        },
    }
}

pub(crate) fn name(replayed: &Replayed, endpoint: usize) -> &str {
    replayed.endpoints.get(endpoint).map_or("?", |name| name)
}

/// What happened to an outage that is listed, in words.
pub(crate) fn outage_in_words(outage: &Outage) -> String {
    let back = match outage.flow_back {
        Some(back) => format!("flow was back {} after its first failed result", between(outage.start, back)),
        None => "flow was not back by the end of the history".to_owned(),
    };
    format!("{}; {back}", outage.why.sentence())
}

/// For how long a halt lasted, in words.
pub(crate) fn halt_in_words(replayed: &Replayed, halt: &Halt) -> String {
    match halt.end {
        Some(end) => between(halt.start, end).to_string(),
        None => format!("{}, to the end of the history", between(halt.start, replayed.last)),
    }
}

/// What was assumed, in sentences.
pub(crate) fn assumed(replayed: &Replayed) -> Vec<String> {
    let Assumptions { fence, switch, reconcile, person_fails_back, outage, rto } = replayed.assumptions;
    let mut sentences = vec![
        format!(
            "a fence takes {}, a switch {}, a reconciliation {}, and each succeeds (--fence-time, --switch-time, --reconcile-time)",
            Spoken(fence),
            Spoken(switch),
            Spoken(reconcile)
        ),
        format!("an outage is a failure of more than {} from its first failed result to its last", Spoken(outage)),
        format!("no result of any endpoint for more than {} is a stop of the monitor", Spoken(replayed.gap)),
    ];
    if let Some(rto) = rto {
        sentences.push(format!("an outage is left late if flow is not back within {}", Spoken(rto)));
    }
    if person_fails_back {
        sentences.push("a person fails back as soon as the engine allows it".to_owned());
    } else if let Some(first) = replayed.failback_possible.first() {
        let (count, first) = (replayed.failback_possible.len(), moment(*first));
        let times = if count == 1 { "once".to_owned() } else { format!("{count} times") };
        sentences.push(format!(
            "nobody fails back, though a person could have {times}, first at {first} (--assume-failback)"
        ));
    }
    sentences
}

/// What the history's own rate makes of the configuration, if that is something else than what it says.
pub(crate) fn rate_note(group: &GroupConfig, report: &Report) -> Option<String> {
    let seen = report.overall.interval_seconds;
    let configured = group.probing.interval.as_secs_f64();
    let fresh = group.policy.settings().max_health_age.as_secs_f64();
    let spoken = |seconds: f64| Spoken(Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)).to_string();
    if seen > fresh {
        return Some(format!(
            "the history has a result every {} and max_health_age is {}: almost all of it is a stop of the monitor here",
            spoken(seen),
            spoken(fresh)
        ));
    }
    (seen > configured * 1.5 || seen * 1.5 < configured).then(|| {
        format!(
            "the history has a result every {} and the configuration probes every {}: counts of failures take another time here",
            spoken(seen),
            spoken(configured)
        )
    })
}

pub(crate) fn text(out: &mut impl Write, replayed: &Replayed, notes: &[String]) -> io::Result<()> {
    writeln!(out, "Replay of group {}: {}\n", visible(&replayed.group), summary(replayed))?;
    if !replayed.switches.is_empty() {
        let path = "FROM -> TO";
        writeln!(
            out,
            "{:<24} {:>5} {:<10} {path:<24} {:<17} {:>8} {:>8}  AFTERWARDS",
            "DECIDED", "EPOCH", "KIND", "REASON", "HELD", "COST"
        )?;
    }
    for (place, switch) in replayed.switches.iter().enumerate() {
        row(out, replayed, place, switch)?;
    }
    if !replayed.outages.is_empty() {
        writeln!(out, "\nOutages of the active path that were not left, or late")?;
        writeln!(out, "{:<24} {:<12} {:>10}  WHY", "FIRST FAILED", "ENDPOINT", "LENGTH")?;
    }
    for outage in &replayed.outages {
        let (start, endpoint) = (moment(outage.start), visible(name(replayed, outage.endpoint)));
        let length = Spoken(outage.length()).to_string();
        writeln!(out, "{start:<24} {endpoint:<12} {ALARM}{length:>10}{ALARM:#}  {}", outage_in_words(outage))?;
    }
    if !replayed.halts.is_empty() {
        writeln!(out, "\nHalts\n{:<24} {:<12} {:<22} FOR", "BEGAN", "ON", "CODE")?;
    }
    for halt in &replayed.halts {
        let (start, endpoint) = (moment(halt.start), visible(name(replayed, halt.endpoint)));
        writeln!(
            out,
            "{start:<24} {endpoint:<12} {ALARM}{:<22}{ALARM:#} {}",
            halt.code,
            halt_in_words(replayed, halt)
        )?;
    }
    writeln!(out)?;
    for (name, value) in sums(replayed) {
        writeln!(out, "{name:<62} {value:>16}")?;
    }
    writeln!(out)?;
    for sentence in notes {
        writeln!(out, "Note: {sentence}.")?;
    }
    Ok(())
}

fn row(out: &mut impl Write, replayed: &Replayed, place: usize, switch: &Switch) -> io::Result<()> {
    let style = match switch.afterwards {
        Afterwards::Saved { .. } => GOOD,
        Afterwards::False { .. } | Afterwards::InVain { .. } => ALARM,
        Afterwards::Unknown => CARE,
        Afterwards::Well => PLAIN,
    };
    let path = visible(&format!("{} -> {}", name(replayed, switch.from), name(replayed, switch.to)));
    let reason = switch.reason.map_or("", Reason::code);
    let held = switch.held().map_or_else(|| "-".to_owned(), |held| Spoken(held).to_string());
    let cost = Spoken(replayed.cost(place)).to_string();
    let (decided, kind, epoch) = (moment(switch.decided), switch.kind.name(), switch.epoch);
    let afterwards = visible(&afterwards(replayed, place));
    writeln!(
        out,
        "{decided:<24} {epoch:>5} {kind:<10} {path:<24} {reason:<17} {held:>8} {cost:>8}  {style}{afterwards}{style:#}"
    )
}

/// The whole in a sentence.
pub(crate) fn summary(replayed: &Replayed) -> String {
    let (failovers, of_these) = (replayed.failovers().count(), replayed.false_failovers());
    let plural = |count: usize, one: &str| if count == 1 { format!("1 {one}") } else { format!("{count} {one}s") };
    format!(
        "{}, {of_these} of them false; {} in all; {} not left, or late; {}",
        plural(failovers, "failover"),
        plural(replayed.switches.len(), "switch").replace("switchs", "switches"),
        plural(replayed.outages.len(), "outage"),
        plural(replayed.halts.len(), "halt"),
    )
}

/// Sums of times, with their names.
pub(crate) fn sums(replayed: &Replayed) -> Vec<(&'static str, String)> {
    let totals = &replayed.totals;
    let gained = totals.gained_seconds();
    let size = Spoken(Duration::try_from_secs_f64(gained.abs()).unwrap_or(Duration::MAX));
    let spoken = |time| Spoken(time).to_string();
    vec![
        ("saved by failovers: the path left failed, flow open elsewhere", spoken(replayed.saved())),
        ("cost of the false ones, with their failbacks", spoken(replayed.cost_of_false())),
        ("from the first result to the last", spoken(totals.observed)),
        ("of that, the monitor had stopped", spoken(totals.stopped)),
        ("flow open on a path that answered", spoken(totals.well)),
        ("flow open on a path without a fresh result", spoken(totals.stale)),
        ("flow open on a path that failed", spoken(totals.failing)),
        ("flow held", spoken(totals.held)),
        ("trading halted", spoken(totals.halted)),
        ("lost: failed, held and halted", spoken(totals.lost())),
        ("lost without any failover: the primary failed", spoken(totals.primary_failing)),
        ("gained by these settings", format!("{}{size}", if gained < 0.0 { "-" } else { "" })),
    ]
}

pub(crate) fn json(replayed: &Replayed, notes: &[String]) -> Value {
    let assumptions = &replayed.assumptions;
    let totals = &replayed.totals;
    let switches: Vec<_> = (0..replayed.switches.len()).map(|place| switch_json(replayed, place)).collect();
    let outages = replayed.outages.iter().map(|outage| {
        json!({
            "endpoint": name(replayed, outage.endpoint),
            "from": moment(outage.start),
            "to": outage.end.map(moment),
            "seconds": outage.length().as_secs_f64(),
            "left": outage.left.map(moment),
            "flow_back": outage.flow_back.map(moment),
            "why": outage.why.name(),
        })
    });
    let halts = replayed.halts.iter().map(|halt| {
        json!({
            "endpoint": name(replayed, halt.endpoint),
            "code": halt.code,
            "from": moment(halt.start),
            "to": halt.end.map(moment),
            "seconds": Duration::from_nanos(halt.end.unwrap_or(replayed.last).saturating_sub(halt.start)).as_secs_f64(),
        })
    });
    json!({
        "group": replayed.group,
        "from": moment(replayed.first),
        "to": moment(replayed.last),
        "samples": replayed.samples,
        "assumed": {
            "fence_seconds": assumptions.fence.as_secs_f64(),
            "switch_seconds": assumptions.switch.as_secs_f64(),
            "reconcile_seconds": assumptions.reconcile.as_secs_f64(),
            "person_fails_back": assumptions.person_fails_back,
            "outage_after_seconds": assumptions.outage.as_secs_f64(),
            "rto_seconds": assumptions.rto.map(|rto| rto.as_secs_f64()),
            "monitor_stopped_after_seconds": replayed.gap.as_secs_f64(),
        },
        "notes": notes,
        "switches": switches,
        "outages": outages.collect::<Vec<_>>(),
        "halts": halts.collect::<Vec<_>>(),
        "failback_possible": replayed.failback_possible.iter().map(|at| moment(*at)).collect::<Vec<_>>(),
        "totals": {
            "failovers": replayed.failovers().count(),
            "false_failovers": replayed.false_failovers(),
            "saved_seconds": replayed.saved().as_secs_f64(),
            "cost_of_false_seconds": replayed.cost_of_false().as_secs_f64(),
            "observed_seconds": totals.observed.as_secs_f64(),
            "monitor_stops": totals.stops,
            "monitor_stopped_seconds": totals.stopped.as_secs_f64(),
            "well_seconds": totals.well.as_secs_f64(),
            "stale_seconds": totals.stale.as_secs_f64(),
            "failing_seconds": totals.failing.as_secs_f64(),
            "held_seconds": totals.held.as_secs_f64(),
            "halted_seconds": totals.halted.as_secs_f64(),
            "lost_seconds": totals.lost().as_secs_f64(),
            "lost_without_failover_seconds": totals.primary_failing.as_secs_f64(),
            "gained_seconds": totals.gained_seconds(),
        },
    })
}

fn switch_json(replayed: &Replayed, place: usize) -> Value {
    let Some(switch) = replayed.switches.get(place) else { return Value::Null };
    let (what, saved, recovered) = match switch.afterwards {
        Afterwards::Saved { time, recovered } => ("SAVED", Some(time.as_secs_f64()), recovered),
        Afterwards::False { recovered } => ("FALSE", None, Some(recovered)),
        Afterwards::InVain { recovered } => ("IN_VAIN", None, Some(recovered)),
        Afterwards::Unknown => ("UNKNOWN", None, None),
        Afterwards::Well => ("WELL", None, None),
    };
    json!({
        "decided": moment(switch.decided),
        "switched": moment(switch.switched),
        "opened": switch.opened.map(moment),
        "kind": switch.kind.name(),
        "from": name(replayed, switch.from),
        "to": name(replayed, switch.to),
        "reason": switch.reason.map(Reason::code),
        "epoch": switch.epoch,
        "failing_since": switch.failing_since.map(moment),
        "afterwards": what,
        "saved_seconds": saved,
        "recovered": recovered.map(moment),
        "held_seconds": switch.held().map(|held| held.as_secs_f64()),
        "cost_seconds": replayed.cost(place).as_secs_f64(),
        "left_again": switch.stay.until.map(moment),
        "failing_on_target_seconds": switch.stay.failing.as_secs_f64(),
        "halted_on_target_seconds": switch.stay.halted.as_secs_f64(),
    })
}
