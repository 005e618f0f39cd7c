//! The smallest patience that keeps to the owner's limits, or why there is none.

use super::estimate::{MONTH, Sight, poisson};
use super::report::{PathReport, Recommendation, TriggerReport, Verdict};
use super::settings::CalibrationSettings;
use crate::planning::counted;

/// What one trigger comes to on every endpoint.
struct Candidate<'a> {
    name: &'a str,
    patience: f64,
    rows: Vec<&'a TriggerReport>,
    /// Its place among the triggers.
    index: usize,
}

impl Candidate<'_> {
    fn all(&self, verdict: impl Fn(Verdict) -> bool) -> bool {
        self.rows.iter().all(|row| verdict(row.verdict))
    }

    fn any(&self, verdict: Verdict) -> bool {
        self.rows.iter().any(|row| row.verdict == verdict)
    }
}

/// Looks for a trigger that keeps to the limits on every endpoint. `sights` are those of `endpoints`, in order.
pub(super) fn recommend(
    settings: &CalibrationSettings,
    endpoints: &[PathReport],
    sights: &[Sight<'_>],
) -> Recommendation {
    let none = |why: String, days_needed| Recommendation { trigger: None, why, days_needed };
    let Some(most) = settings.max_false_per_month else {
        return none("no limit was given (--max-false-per-month)".to_owned(), None);
    };
    let mut candidates: Vec<_> = (0..settings.triggers.len()).filter_map(|index| candidate(endpoints, index)).collect();
    candidates.sort_by(|a, b| a.patience.total_cmp(&b.patience));
    if let Some(found) = candidates.iter().find(|one| one.all(|verdict| verdict == Verdict::Keeps)) {
        let worst = found.rows.iter().map(|row| row.detection_seconds.worst).fold(0.0, f64::max);
        let high = found.rows.iter().map(|row| row.false_per_month.high).fold(0.0, f64::max);
        let why = format!(
            "the smallest patience with at most {most} false failovers a month on every endpoint (at most {high:.2} with \
             99 % confidence); a fault is detected within {worst:.1} s"
        );
        return Recommendation { trigger: Some(found.name.to_owned()), why, days_needed: None };
    }
    // What more history might prove: not refuted, and fast enough.
    let open =
        candidates.iter().filter(|one| one.all(|verdict| matches!(verdict, Verdict::Keeps | Verdict::NotProven)));
    let needed = open.filter_map(|one| days_needed(one, most, sights)).min_by(f64::total_cmp);
    if let Some(days) = needed {
        let why = format!(
            "the history is too short: the estimate of some trigger keeps to the limits, the upper end of its interval \
             does not; about {} of covered time on each endpoint may prove it",
            counted(days.ceil(), "day")
        );
        return none(why, Some(days.ceil()));
    }
    let all = |verdict| candidates.iter().all(|one| one.any(verdict));
    let why = if all(Verdict::TooSlow) {
        "every trigger detects a fault too late for the recovery time"
    } else if all(Verdict::TooMany) {
        "every trigger fails over for nothing too often: ask about more patient ones"
    } else {
        "the triggers that are fast enough fail over for nothing too often, and the others are too slow: the limits exclude \
         each other, or another trigger between them has to be asked about"
    };
    none(why.to_owned(), None)
}

fn candidate(endpoints: &[PathReport], index: usize) -> Option<Candidate<'_>> {
    let rows: Vec<_> = endpoints.iter().filter_map(|path| path.triggers.get(index)).collect();
    let name = &rows.first()?.trigger;
    let patience = rows.iter().map(|row| row.patience_seconds).fold(0.0, f64::max);
    Some(Candidate { name, patience, rows, index })
}

/// Days of covered time after which the interval of a trigger would keep to the limit on every endpoint, if false
/// failovers go on coming as they did.
fn days_needed(candidate: &Candidate<'_>, most: f64, sights: &[Sight<'_>]) -> Option<f64> {
    let each = sights.iter().map(|sight| {
        let fires = sight.evidence.fires.get(candidate.index)?;
        let (count, dispersion) = (fires.in_blips as f64, sight.dispersion_of(fires.in_blips));
        let exposure = sight.exposure().max(1.0);
        let high = |factor: f64| poisson(count * factor, dispersion).1 / (exposure * factor) * MONTH;
        // The interval gets narrower with time: by halves between what is too short and what is enough.
        let mut enough = 1.0;
        while high(enough) > most {
            enough *= 2.0;
            if enough > 1e9 {
                return None;
            }
        }
        let mut short = enough / 2.0;
        for _ in 0..40 {
            let middle = 0.5 * (short + enough);
            if high(middle) > most { short = middle } else { enough = middle }
        }
        Some(enough * exposure / 86_400.0)
    });
    each.collect::<Option<Vec<_>>>()?.into_iter().max_by(f64::total_cmp)
}
