//! A decision with its arithmetic, as Markdown. A rejected option whose arithmetic is not written down comes back.

use std::fmt;

use super::ladder::{Candidate, Ladder, Priced, Verdict, break_even};
use super::money::Money;
use super::text::Spoken;

/// A [`Ladder`]'s decision as an architecture decision record in Markdown: the target, the decision, every option, and
/// why each rejected one was rejected. The same inputs give the same text.
#[derive(Clone, Copy, Debug)]
pub struct DecisionRecord<'a>(pub &'a Ladder);

impl fmt::Display for DecisionRecord<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.chosen() {
            Some(chosen) => writeln!(f, "# Decision: {}", plain(&chosen.candidate.name))?,
            None => writeln!(f, "# Decision: no option meets the target")?,
        }
        self.target(f)?;
        self.decision(f)?;
        self.options(f)?;
        self.rejected(f)
    }
}

impl DecisionRecord<'_> {
    fn target(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let settings = self.0.settings();
        let currency = plain(&settings.currency);
        writeln!(f, "\n## Target\n\n- Recovery within {} (RTO).", Spoken(settings.rto))?;
        if let Some(rpo) = settings.rpo {
            writeln!(f, "- Loss of at most {} of writes (RPO).", Spoken(rpo))?;
        }
        writeln!(f, "- Downtime costs {} {currency} an hour.", settings.downtime_per_hour)?;
        writeln!(f, "- Outages that need a recovery: {}.", settings.events.spoken())?;
        if let Some(layer) = settings.routing {
            let (best, usual) = layer.failover();
            writeln!(f, "- Traffic is moved by {layer}: {} to {}.", Spoken(best), Spoken(usual))?;
            if let Err(reason) = layer.admits(settings.rto) {
                writeln!(f, "- **The target is refused**: {reason}.")?;
            }
        }
        Ok(())
    }

    fn decision(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let currency = plain(&self.0.settings().currency);
        writeln!(f, "\n## Decision\n")?;
        let Some(chosen) = self.0.chosen() else {
            return writeln!(
                f,
                "None of the options below meets the target. Change the target, or find another option."
            );
        };
        let Priced { candidate, rto, running, downtime, loss, total, .. } = chosen;
        writeln!(
            f,
            "**{}** recovers in {} and costs {running} {currency} a year to run. Its expected downtime of {} a year costs \
             {loss} {currency}: {total} {currency} in all, the least of the options that meet the target.",
            plain(&candidate.name),
            Spoken(*rto),
            Spoken(*downtime)
        )?;
        unpriced(f, candidate)
    }

    fn options(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let currency = plain(&self.0.settings().currency);
        writeln!(f, "\n## Options\n\nSums are {currency} a year.\n")?;
        writeln!(f, "| option | rung | RTO | RPO | running | downtime | its cost | in all | verdict |")?;
        writeln!(f, "|---|---|---|---|---|---|---|---|---|")?;
        for one in self.0.options() {
            let Priced { candidate, rto, running, downtime, loss, total, verdict } = one;
            let rung = candidate.rung.map_or("", |rung| rung.name());
            writeln!(
                f,
                "| {} | {rung} | {} | {} | {running} | {} | {loss} | {total} | {} |",
                plain(&candidate.name),
                Spoken(*rto),
                Spoken(candidate.rpo),
                Spoken(*downtime),
                word(*verdict)
            )?;
        }
        Ok(())
    }

    fn rejected(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rejected = || self.0.options().iter().filter(|one| one.verdict != Verdict::Chosen);
        if rejected().next().is_some() {
            writeln!(f, "\n## Rejected")?;
        }
        rejected().try_for_each(|one| self.why(f, one))
    }

    fn why(&self, f: &mut fmt::Formatter<'_>, one: &Priced) -> fmt::Result {
        let settings = self.0.settings();
        let currency = plain(&settings.currency);
        let Priced { candidate, rto, running, loss, total, .. } = one;
        writeln!(f, "\n### {}\n", plain(&candidate.name))?;
        match one.verdict {
            Verdict::MissesRto { by } => {
                writeln!(f, "It recovers in {}, {} later than the target.", Spoken(*rto), Spoken(by))?;
                if *rto > candidate.rto {
                    let own = Spoken(candidate.rto);
                    writeln!(f, "Its own {own} do not count: the routing layer moves no traffic sooner.")?;
                }
            }
            Verdict::MissesRpo { by } => {
                let (rpo, by) = (Spoken(candidate.rpo), Spoken(by));
                writeln!(f, "It may lose {rpo} of writes, {by} more than the target.")?;
            }
            Verdict::Dearer { by: Money::ZERO } => writeln!(f, "It meets the target and is no better.")?,
            Verdict::Chosen | Verdict::Dearer { .. } => writeln!(f, "It meets the target and costs more.")?,
        }
        writeln!(f)?;
        let month = candidate.cost_per_month;
        writeln!(f, "- To run: {month} {currency} a month x 12 = {running} {currency} a year.")?;
        let (downtime, hourly) = (Spoken(one.downtime), settings.downtime_per_hour);
        writeln!(f, "- Expected downtime: {} x {} = {downtime} a year.", settings.events.spoken(), Spoken(*rto))?;
        writeln!(f, "- Its cost: {downtime} x {hourly} {currency} an hour = {loss} {currency} a year.")?;
        writeln!(f, "- In all: {running} + {loss} = {total} {currency} a year.")?;
        if let (Some(over), Verdict::Dearer { by }) = (self.0.over(one), one.verdict) {
            let (avoided, worth, extra) = (Spoken(over.avoided), over.worth, over.extra);
            writeln!(
                f,
                "- Against the chosen one it avoids {avoided} a year, worth {worth} {currency}, and costs {extra} {currency} more to run."
            )?;
            writeln!(f, "- In all it costs {by} {currency} a year more.")?;
            if let Some(needed) = break_even(over.extra, hourly).filter(|needed| *needed > over.avoided) {
                writeln!(f, "- It would pay from {} of avoided downtime a year on.", Spoken(needed))?;
            }
        }
        unpriced(f, candidate)
    }
}

fn unpriced(f: &mut fmt::Formatter<'_>, candidate: &Candidate) -> fmt::Result {
    if candidate.unpriced.trim().is_empty() {
        return Ok(());
    }
    writeln!(f, "\nNot in these sums: {}.", plain(&candidate.unpriced).trim_end_matches('.'))
}

fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Chosen => "**chosen**",
        Verdict::MissesRto { .. } => "misses the RTO",
        Verdict::MissesRpo { .. } => "misses the RPO",
        Verdict::Dearer { by: Money::ZERO } => "no better",
        Verdict::Dearer { .. } => "costs more",
    }
}

/// Text from outside as one line that leaves the tables whole.
fn plain(text: &str) -> String {
    let visible = text.trim().chars().map(|c| if c.is_control() { ' ' } else { c });
    visible.fold(String::with_capacity(text.len()), |mut plain, c| {
        if c == '|' {
            plain.push('\\');
        }
        plain.push(c);
        plain
    })
}
