//! A plan as a table for people, and as JSON.

use std::io::{self, Write};
use std::time::Duration;

use anstyle::Style;
use broker_failover::planning::{
    Ladder, Money, Plan, Preparation, Priced, Seconds, Spoken, Stage, Stages, Step, Tier, Verdict,
};
use broker_failover::supervisor::visible::visible;
use serde_json::{Value, json};

use crate::table::{ALARM, CARE, GOOD, PLAIN};

pub(crate) fn text(out: &mut impl Write, plan: &Plan) -> io::Result<()> {
    let settings = plan.settings();
    writeln!(out, "Recovery by trigger and tier; RTO {}\n", Spoken(settings.rto))?;
    let names = Tier::ALL.map(|tier| (tier.name().to_uppercase(), PLAIN, ""));
    writeln!(out, "{:<16} {:>9} {:>9} {:>9}{}", "TRIGGER", "DETECTION", "WORST", "FALSE/DAY", cells(&names))?;
    for row in plan.rows() {
        let (detection, worst) = (Seconds(row.detection), Seconds(row.detection_worst));
        let verdicts = row.cells.map(|cell| {
            let (style, word) = if cell.fits { (GOOD, "ok") } else { (ALARM, "over") };
            (Seconds(cell.recovery).to_string(), style, word)
        });
        let (trigger, daily, verdicts) = (row.trigger, row.false_failovers_per_day, cells(&verdicts));
        writeln!(out, "{trigger:<16} {detection:>9} {worst:>9} {daily:>9.2}{verdicts}")?;
    }
    let left = Tier::ALL.map(|tier| match plan.detection_left(tier) {
        Some(left) => (Seconds(left).to_string(), PLAIN, ""),
        None => ("none".to_owned(), PLAIN, ""),
    });
    writeln!(out, "{:<46}{}\n", "detection that the RTO leaves", cells(&left))?;
    if let Some(reason) = plan.below_floor() {
        writeln!(out, "{ALARM}Refused{ALARM:#}: {reason}.\n")?;
    }
    budget(out, plan)?;
    if let Some(ladder) = plan.ladder() {
        options(out, ladder)?;
    }
    notes(out, plan)
}

/// A value for each tier and a word behind it, in columns.
fn cells(values: &[(String, Style, &str); 3]) -> String {
    let mut text = String::new();
    let mut missing = 2;
    for (value, style, word) in values {
        text.push_str(&format!("{:missing$}{value:>9}", ""));
        if !word.is_empty() {
            text.push_str(&format!(" {style}{word}{style:#}"));
        }
        let used = if word.is_empty() { 0 } else { 1 + word.len() };
        missing = 7 - used;
    }
    text
}

fn budget(out: &mut impl Write, plan: &Plan) -> io::Result<()> {
    let Some((budget, hit)) = plan.budget() else { return Ok(()) };
    let (availability, month, allowed) = (budget.availability(), budget.month(), Spoken(budget.allowed()));
    writeln!(
        out,
        "Error budget that one recovery uses: {availability} of {month} leaves {allowed}, {hit} of the flow is hit\n"
    )?;
    let names = Tier::ALL.map(|tier| (tier.name().to_uppercase(), PLAIN, ""));
    writeln!(out, "{:<46}{}", "TRIGGER", cells(&names))?;
    for row in plan.rows() {
        let used = row.cells.map(|cell| {
            let used = cell.budget_used.unwrap_or_default();
            let (style, word) = if used > 1.0 { (ALARM, "over") } else { (PLAIN, "") };
            (format!("{:.1}%", used * 100.0), style, word)
        });
        writeln!(out, "{:<46}{}", row.trigger, cells(&used))?;
    }
    writeln!(out)
}

fn options(out: &mut impl Write, ladder: &Ladder) -> io::Result<()> {
    let settings = ladder.settings();
    let (currency, hourly, events) =
        (visible(&settings.currency), settings.downtime_per_hour, settings.events.spoken());
    writeln!(out, "Options in {currency} a year; an hour of downtime costs {hourly}, outages: {events}\n")?;
    let width =
        ladder.options().iter().map(|one| visible(&one.candidate.name).chars().count()).max().unwrap_or(0).max(6);
    writeln!(
        out,
        "{:<width$} {:>10} {:>10} {:>12} {:>12} {:>12} {:>12}  VERDICT",
        "OPTION", "RTO", "RPO", "RUNNING", "DOWNTIME", "ITS COST", "IN ALL"
    )?;
    for one in ladder.options() {
        let Priced { candidate, rto, running, downtime, loss, total, verdict } = one;
        let (name, rto, rpo, downtime) =
            (visible(&candidate.name), Spoken(*rto), Spoken(candidate.rpo), Spoken(*downtime));
        let (style, word) = verdict_words(*verdict);
        writeln!(
            out,
            "{name:<width$} {rto:>10} {rpo:>10} {running:>12} {downtime:>12} {loss:>12} {total:>12}  {style}{word}{style:#}"
        )?;
    }
    writeln!(out)
}

fn verdict_words(verdict: Verdict) -> (Style, String) {
    match verdict {
        Verdict::Chosen => (GOOD, "chosen".to_owned()),
        Verdict::MissesRto { by } => (ALARM, format!("misses the RTO by {}", Spoken(by))),
        Verdict::MissesRpo { by } => (ALARM, format!("misses the RPO by {}", Spoken(by))),
        Verdict::Dearer { by: Money::ZERO } => (PLAIN, "no better".to_owned()),
        Verdict::Dearer { by } => (CARE, format!("costs {by} more")),
    }
}

fn notes(out: &mut impl Write, plan: &Plan) -> io::Result<()> {
    let settings = plan.settings();
    for tier in Tier::ALL {
        writeln!(out, "{:<4} = detection{}", tier, added(&plan.stages(tier)))?;
    }
    let (interval, timeout) = (Seconds(settings.interval), Seconds(settings.timeout));
    let judged = if settings.worst_case { "WORST" } else { "DETECTION" };
    writeln!(
        out,
        "DETECTION counts from the first failed probe. WORST adds one interval ({interval}) before it, and the timeout"
    )?;
    writeln!(out, "({timeout}) after the last, for a path that hangs. The tiers are judged by {judged}.")?;
    writeln!(out, "FALSE/DAY, false failovers a day, is a closed form for blips that come {}.", plan.blips())?;
    writeln!(out, "That is an assumption: measure yours.")
}

/// The stages that take time, in order, and then those that are hidden behind a longer side.
fn added(stages: &Stages) -> String {
    let steps = stages.steps(Duration::MAX);
    let timed = || steps.iter().filter(|step| step.stage != Stage::Detection && !step.length.is_zero());
    let told = |step: &Step| format!("{} {}", step.stage, Seconds(step.length));
    let mut text: String = timed().filter(|step| step.counts).map(|step| format!(" + {}", told(step))).collect();
    let hidden: Vec<_> = timed().filter(|step| !step.counts).map(told).collect();
    if !hidden.is_empty() {
        text.push_str(&format!("; beside them {}", hidden.join(", ")));
    }
    if !stages.gate_not_before.is_zero() {
        text.push_str(&format!("; the gate not before {} from the fault", Seconds(stages.gate_not_before)));
    }
    text
}

pub(crate) fn json(plan: &Plan) -> Value {
    let settings = plan.settings();
    let seconds = |duration: Duration| duration.as_secs_f64();
    let tiers: Vec<_> = Tier::ALL.into_iter().map(|tier| tier_json(plan, tier)).collect();
    let triggers: Vec<_> = plan
        .rows()
        .iter()
        .map(|row| {
            let cells: Vec<_> = row
                .cells
                .iter()
                .map(|cell| {
                    json!({
                        "tier": cell.tier.name(),
                        "recovery_seconds": seconds(cell.recovery),
                        "fits": cell.fits,
                        "budget_used": cell.budget_used,
                    })
                })
                .collect();
            json!({
                "trigger": row.trigger.to_string(),
                "failures": row.failures,
                "detection_seconds": seconds(row.detection),
                "detection_worst_seconds": seconds(row.detection_worst),
                "false_failovers_per_day": row.false_failovers_per_day,
                "tiers": cells,
            })
        })
        .collect();
    let budget = plan.budget().map(|(budget, hit)| {
        json!({
            "availability": budget.availability().as_f64(),
            "month": budget.month().to_string(),
            "month_seconds": seconds(budget.month().length()),
            "allowed_seconds": seconds(budget.allowed()),
            "hit": hit.as_f64(),
        })
    });
    let routing = settings.routing.map(|layer| {
        json!({
            "layer": layer.to_string(),
            "floor_seconds": seconds(layer.floor()),
            "usual_seconds": seconds(layer.failover().1),
            "refused": plan.below_floor().map(|reason| reason.to_string()),
        })
    });
    json!({
        "fits": plan.fits(),
        "rto_seconds": seconds(settings.rto),
        "judged_by": if settings.worst_case { "worst" } else { "detection" },
        "interval_seconds": seconds(settings.interval),
        "timeout_seconds": seconds(settings.timeout),
        "blips": { "per_day": plan.blips().rate().per_day(), "mean_seconds": seconds(plan.blips().mean()) },
        "preparation": match settings.preparation {
            Preparation::AfterPromotion => "after_promotion",
            Preparation::BesideGate => "beside_gate",
        },
        "tiers": tiers,
        "triggers": triggers,
        "budget": budget,
        "routing": routing,
        "decision": plan.ladder().map(ladder_json),
    })
}

fn tier_json(plan: &Plan, tier: Tier) -> Value {
    let stages = plan.stages(tier);
    let steps: Vec<_> = stages
        .steps(Duration::MAX)
        .iter()
        .filter(|step| step.stage != Stage::Detection)
        .map(|step| json!({ "stage": step.stage.name(), "seconds": step.length.as_secs_f64(), "counts": step.counts }))
        .collect();
    json!({
        "tier": tier.name(),
        "stages": steps,
        "after_detection_seconds": stages.downstream().as_secs_f64(),
        "detection_left_seconds": plan.detection_left(tier).map(|left| left.as_secs_f64()),
    })
}

fn ladder_json(ladder: &Ladder) -> Value {
    let settings = ladder.settings();
    let sum = |money: Money| money.as_hundredths() as f64 / 100.0;
    let options: Vec<_> = ladder
        .options()
        .iter()
        .map(|one| {
            json!({
                "name": one.candidate.name,
                "rung": one.candidate.rung.map(|rung| rung.key()),
                "rto_seconds": one.rto.as_secs_f64(),
                "rpo_seconds": one.candidate.rpo.as_secs_f64(),
                "running_per_year": sum(one.running),
                "downtime_seconds_per_year": one.downtime.as_secs_f64(),
                "downtime_cost_per_year": sum(one.loss),
                "total_per_year": sum(one.total),
                "verdict": match one.verdict {
                    Verdict::Chosen => "chosen",
                    Verdict::MissesRto { .. } => "misses_rto",
                    Verdict::MissesRpo { .. } => "misses_rpo",
                    Verdict::Dearer { .. } => "dearer",
                },
                "unpriced": one.candidate.unpriced,
            })
        })
        .collect();
    json!({
        "currency": settings.currency,
        "downtime_per_hour": sum(settings.downtime_per_hour),
        "events": settings.events.to_string(),
        "rpo_seconds": settings.rpo.map(|rpo| rpo.as_secs_f64()),
        "chosen": ladder.chosen().map(|one| one.candidate.name.clone()),
        "options": options,
    })
}
