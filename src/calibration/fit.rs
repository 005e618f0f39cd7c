//! Lengths -> the distribution that makes them the likeliest, and how well it fits.
//!
//! A length is never seen itself: only how many probes failed. So what is maximised is the probability of those numbers,
//! with the phase of the probes at random, of blips alone ([`Length::blip_reaches`]). The fit is tested with Pearson's
//! chi-squared over the numbers of failures, taken together until each class expects at least five, with a degree of
//! freedom less for each parameter: the test for grouped lengths with parameters estimated from them.

use std::collections::BTreeMap;

use super::length::{Grid, Length, Probed};
use super::special::chi_squared_above;

/// Fewer blips than this are not fitted.
pub(super) const FEWEST: u64 = 50;
/// A fit is taken if lengths as odd as these come at least so often.
pub(super) const ACCEPTED: f64 = 0.05;
/// What a class of the test expects at least.
const EXPECTED: f64 = 5.0;

/// How many blips had how many failed probes.
pub(super) type Counts = BTreeMap<u64, u64>;

/// A fitted distribution.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Fitted {
    pub(super) length: Length,
    pub(super) log_likelihood: f64,
    pub(super) chi_squared: f64,
    pub(super) degrees: u32,
    pub(super) p_value: f64,
    /// Covariances of the parameters (logarithm of the mean; or mean and logarithm of the deviation), row by row.
    covariance: [[f64; 2]; 2],
    parameters: [f64; 2],
    family: Family,
}

/// Which kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Family {
    Exponential,
    LogNormal,
}

impl Family {
    const fn parameters(self) -> usize {
        match self {
            Self::Exponential => 1,
            Self::LogNormal => 2,
        }
    }

    fn length(self, [first, second]: [f64; 2]) -> Length {
        match self {
            Self::Exponential => Length::Exponential { mean: first.exp() },
            Self::LogNormal => Length::LogNormal { mean: first, deviation: second.exp() },
        }
    }
}

impl Fitted {
    /// The likeliest distribution of a family; `None` if there are too few blips or too few different lengths to tell.
    pub(super) fn of(family: Family, counts: &Counts, grid: &Grid) -> Option<Self> {
        let all: u64 = counts.values().sum();
        if all < FEWEST || counts.len() < family.parameters() + 1 || grid.before <= 0.0 || grid.step <= 0.0 {
            return None;
        }
        let sum: f64 = counts.iter().map(|(failures, count)| *failures as f64 * *count as f64).sum();
        let mean = (sum / all as f64 - 0.5).max(0.5) * grid.step;
        let start = match family {
            Family::Exponential => [mean.ln(), 0.0],
            Family::LogNormal => [mean.ln() - 0.3, -0.2],
        };
        let cost = |point: [f64; 2]| -log_likelihood(&family.length(point), counts, grid);
        let parameters = minimum(cost, start, family.parameters());
        let least = cost(parameters);
        if !least.is_finite() {
            return None;
        }
        let length = family.length(parameters);
        let covariance = covariance(cost, parameters, family.parameters())?;
        let (chi_squared, classes) = pearson(&length, counts, grid, all as f64);
        let degrees = u32::try_from(classes.checked_sub(1 + family.parameters())?).ok()?;
        if degrees == 0 {
            return None;
        }
        let p_value = chi_squared_above(chi_squared, degrees);
        Some(Self { length, log_likelihood: -least, chi_squared, degrees, p_value, covariance, parameters, family })
    }

    /// Akaike's criterion.
    pub(super) fn aic(&self) -> f64 {
        2.0 * self.family.parameters() as f64 - 2.0 * self.log_likelihood
    }

    pub(super) const fn family(&self) -> Family {
        self.family
    }

    /// The variance of the logarithm of a function of the distribution, by its gradient (the delta method).
    pub(super) fn log_variance(&self, function: impl Fn(&Length) -> f64) -> f64 {
        const STEP: f64 = 1e-4;
        let mut gradient = [0.0; 2];
        for (index, slope) in gradient.iter_mut().enumerate().take(self.family.parameters()) {
            let at = |sign: f64| {
                let mut point = self.parameters;
                if let Some(value) = point.get_mut(index) {
                    *value += sign * STEP;
                }
                function(&self.family.length(point)).max(f64::MIN_POSITIVE).ln()
            };
            *slope = (at(1.0) - at(-1.0)) / (2.0 * STEP);
        }
        let [a, b] = gradient;
        let [[aa, ab], [_, bb]] = self.covariance;
        (a * a * aa + 2.0 * a * b * ab + b * b * bb).max(0.0)
    }
}

/// The logarithm of the probability of the counts.
fn log_likelihood(length: &Length, counts: &Counts, grid: &Grid) -> f64 {
    let probed = Probed::new(length, grid);
    // Mostly there are blips of each number of failures, and one reaches as far as the next one begins.
    let mut known = (0, 0.0);
    let mut term = |(failures, count): (&u64, &u64)| {
        let reached = if known.0 == *failures { known.1 } else { probed.blip_reaches(*failures) };
        let beyond = probed.blip_reaches(failures + 1);
        known = (failures + 1, beyond);
        *count as f64 * (reached - beyond).max(1e-300).ln()
    };
    counts.iter().map(&mut term).sum()
}

/// Pearson's statistic, and over how many classes.
fn pearson(length: &Length, counts: &Counts, grid: &Grid, all: f64) -> (f64, usize) {
    let probed = Probed::new(length, grid);
    let (mut statistic, mut classes) = (0.0, 0);
    let (mut from, mut reached, mut observed) = (1, 1.0, 0.0);
    let most = grid.most.min(1_000_000);
    while from <= most {
        // As many numbers of failures as make a class that expects enough, and leave enough for the last one.
        let mut to = from;
        let mut beyond;
        loop {
            observed += counts.get(&to).copied().unwrap_or(0) as f64;
            beyond = probed.blip_reaches(to + 1);
            if (reached - beyond) * all >= EXPECTED || to >= most {
                break;
            }
            to += 1;
        }
        if beyond * all < EXPECTED {
            // The last class takes the rest.
            observed += counts.range(to + 1..).map(|(_, count)| *count as f64).sum::<f64>();
            beyond = 0.0;
            to = most;
        }
        let expected = (reached - beyond) * all;
        if expected > 0.0 {
            statistic += (observed - expected).powi(2) / expected;
            classes += 1;
        }
        (from, reached, observed) = (to + 1, beyond, 0.0);
    }
    (statistic, classes)
}

/// Where a function of one or two numbers is the least, by the simplex of Nelder and Mead.
fn minimum(cost: impl Fn([f64; 2]) -> f64, start: [f64; 2], dimensions: usize) -> [f64; 2] {
    let cost = |point: [f64; 2]| {
        let value = if point.iter().any(|x| x.abs() > 50.0) { f64::INFINITY } else { cost(point) };
        if value.is_nan() { f64::INFINITY } else { value }
    };
    let corner = |point: [f64; 2]| (cost(point), point);
    let [x, y] = start;
    let mut simplex = vec![corner([x, y]), corner([x + 0.5, y])];
    if dimensions > 1 {
        simplex.push(corner([x, y + 0.5]));
    }
    let along =
        |from: [f64; 2], to: [f64; 2], by: f64| [from[0] + by * (to[0] - from[0]), from[1] + by * (to[1] - from[1])];
    for _ in 0..500 {
        simplex.sort_by(|a, b| a.0.total_cmp(&b.0));
        let (Some(best), Some(worst)) = (simplex.first().copied(), simplex.pop()) else { return start };
        let distance = along([0.0; 2], worst.1, 1.0);
        let size = (distance[0] - best.1[0]).abs().max((distance[1] - best.1[1]).abs());
        if size < 1e-9 {
            simplex.push(worst);
            break;
        }
        let count = simplex.len() as f64;
        let centre = simplex.iter().fold([0.0; 2], |sum, (_, p)| [sum[0] + p[0] / count, sum[1] + p[1] / count]);
        let second = simplex.last().map_or(f64::INFINITY, |corner| corner.0);
        let reflected = corner(along(centre, worst.1, -1.0));
        let next = if reflected.0 < best.0 {
            let further = corner(along(centre, worst.1, -2.0));
            Some(if further.0 < reflected.0 { further } else { reflected })
        } else if reflected.0 < second {
            Some(reflected)
        } else {
            let nearer = corner(along(centre, if reflected.0 < worst.0 { reflected.1 } else { worst.1 }, 0.5));
            Some(nearer).filter(|nearer| nearer.0 < worst.0.min(reflected.0))
        };
        match next {
            Some(next) => simplex.push(next),
            None => {
                simplex.push(worst);
                simplex = simplex.into_iter().map(|(_, point)| corner(along(best.1, point, 0.5))).collect();
            }
        }
    }
    simplex.into_iter().min_by(|a, b| a.0.total_cmp(&b.0)).map_or(start, |best| best.1)
}

/// The inverse of the second derivatives at the minimum: the covariances of the parameters. `None` if it is no minimum
/// that the counts decide on.
fn covariance(cost: impl Fn([f64; 2]) -> f64, [x, y]: [f64; 2], dimensions: usize) -> Option<[[f64; 2]; 2]> {
    const H: f64 = 1e-3;
    let middle = cost([x, y]);
    let xx = (cost([x + H, y]) - 2.0 * middle + cost([x - H, y])) / (H * H);
    if dimensions == 1 {
        return (xx > 0.0 && xx.is_finite()).then(|| [[1.0 / xx, 0.0], [0.0, 0.0]]);
    }
    let yy = (cost([x, y + H]) - 2.0 * middle + cost([x, y - H])) / (H * H);
    let corners = cost([x + H, y + H]) - cost([x + H, y - H]) - cost([x - H, y + H]) + cost([x - H, y - H]);
    let xy = corners / (4.0 * H * H);
    let determinant = xx * yy - xy * xy;
    let sound = xx > 0.0 && yy > 0.0 && determinant > 0.0 && determinant.is_finite();
    sound.then(|| [[yy / determinant, -xy / determinant], [-xy / determinant, xx / determinant]])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The counts that a distribution expects of so many blips, rounded.
    fn expected(length: &Length, grid: &Grid, all: f64) -> Counts {
        let share = |n| length.blip_reaches(n, grid) - length.blip_reaches(n + 1, grid);
        (1..=grid.most).map(|n| (n, (all * share(n)).round() as u64)).filter(|(_, count)| *count > 0).collect()
    }

    const GRID: Grid = Grid { before: 10.0, step: 10.0, most: 31 };

    #[test]
    fn what_an_exponential_distribution_expects_leads_back_to_it_and_to_no_other() {
        let counts = expected(&Length::Exponential { mean: 20.0 }, &GRID, 5_000.0);
        let fit = Fitted::of(Family::Exponential, &counts, &GRID).unwrap();
        assert!((fit.length.mean() - 20.0).abs() < 0.1 && fit.p_value > 0.9, "{fit:?}");
        let other = Fitted::of(Family::LogNormal, &counts, &GRID).unwrap();
        assert!(other.p_value < 0.05 && other.aic() > fit.aic(), "{other:?}");
        // The geometric distribution of the numbers has a closed form: F / m = ln(mean / (mean - 1)).
        let (sum, all) = counts.iter().fold((0, 0), |(sum, all), (n, count)| (sum + n * count, all + count));
        let mean = sum as f64 / all as f64;
        assert!((10.0 / (mean / (mean - 1.0)).ln() - fit.length.mean()).abs() < 0.05);
    }

    #[test]
    fn what_a_log_normal_distribution_expects_leads_back_to_it_and_to_no_other() {
        let counts = expected(&Length::LogNormal { mean: 3.0, deviation: 0.7 }, &GRID, 5_000.0);
        let fit = Fitted::of(Family::LogNormal, &counts, &GRID).unwrap();
        let Length::LogNormal { mean, deviation } = fit.length else { panic!("{fit:?}") };
        assert!((mean - 3.0).abs() < 0.02 && (deviation - 0.7).abs() < 0.02 && fit.p_value > 0.9, "{fit:?}");
        assert!(Fitted::of(Family::Exponential, &counts, &GRID).unwrap().p_value < 1e-6);
    }

    #[test]
    fn few_blips_or_few_lengths_are_not_fitted() {
        let fit = |counts: &[(u64, u64)], family| Fitted::of(family, &counts.iter().copied().collect(), &GRID);
        assert_eq!(fit(&[(1, 30), (2, 15), (3, 4)], Family::Exponential), None);
        assert!(fit(&[(1, 30), (2, 15), (3, 5)], Family::Exponential).is_some());
        assert_eq!(fit(&[(1, 1_000)], Family::Exponential), None);
        assert_eq!(fit(&[(1, 600), (2, 400)], Family::LogNormal), None);
    }

    #[test]
    fn the_standard_error_is_that_of_the_geometric_distribution() {
        let counts = expected(&Length::Exponential { mean: 20.0 }, &Grid { most: 200, ..GRID }, 5_000.0);
        let fit = Fitted::of(Family::Exponential, &counts, &Grid { most: 200, ..GRID }).unwrap();
        // Fisher's information of ln m, by q = exp(-F / m): (F / m)^2 q / (1 - q)^2 for each blip.
        let ratio = 10.0 / fit.length.mean();
        let q = (-ratio).exp();
        let information = 5_000.0 * ratio * ratio * q / ((1.0 - q) * (1.0 - q));
        let found = fit.log_variance(Length::mean);
        assert!((found * information - 1.0).abs() < 0.02, "{found}, {information}");
    }
}
