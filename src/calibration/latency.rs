//! How long probes took, to 3 %: counts in classes of numbers, 32 for each doubling.

/// Classes for each doubling.
const CLASSES: u64 = 32;

/// Counts of latencies.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Latencies {
    counts: Vec<u64>,
    all: u64,
    worst: u64,
}

impl Latencies {
    /// One more, in nanoseconds.
    #[inline]
    pub(super) fn take(&mut self, nanos: u64) {
        let class = class(nanos);
        if class >= self.counts.len() {
            self.counts.resize(class + 1, 0);
        }
        if let Some(count) = self.counts.get_mut(class) {
            *count += 1;
        }
        self.all += 1;
        self.worst = self.worst.max(nanos);
    }

    pub(super) fn add(&mut self, other: &Self) {
        self.counts.resize(self.counts.len().max(other.counts.len()), 0);
        self.counts.iter_mut().zip(&other.counts).for_each(|(count, more)| *count += more);
        self.all += other.all;
        self.worst = self.worst.max(other.worst);
    }

    /// The nanoseconds within which this share of them is, up to the end of a class. `None`: there are none.
    pub(super) fn quantile(&self, share: f64) -> Option<u64> {
        let wanted = (share * self.all as f64).ceil().max(1.0) as u64;
        let mut below = 0;
        let class = self.counts.iter().position(|count| {
            below += count;
            below >= wanted
        })?;
        Some((first(class as u64 + 1) - 1).min(self.worst))
    }
}

/// Which class a number is in; larger numbers are never in a smaller one.
fn class(number: u64) -> usize {
    let bits = u64::from((u64::BITS - number.leading_zeros()).saturating_sub(6));
    (bits * CLASSES + (number >> bits)) as usize
}

/// The least number of a class.
const fn first(class: u64) -> u64 {
    if class < 2 * CLASSES {
        return class;
    }
    let bits = class / CLASSES - 1;
    let top = class - bits * CLASSES;
    if bits > 58 { u64::MAX } else { top << bits }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_holds_what_is_within_a_thirty_second() {
        let numbers = (0..100_000).chain((17..64).map(|bits| (1_u64 << bits) - 1)).chain([u64::MAX]);
        for number in numbers {
            let of = class(number);
            let (low, high) = (first(of as u64), first(of as u64 + 1));
            assert!(low <= number && (number < high || high == u64::MAX), "{number}: {low} to {high}");
            assert!(high - low <= 1 + low / 32 || high == u64::MAX, "{number}: {low} to {high}");
        }
    }

    #[test]
    fn quantiles_are_those_of_the_numbers() {
        let mut latencies = Latencies::default();
        assert_eq!(latencies.quantile(0.5), None);
        (1..=1_000).for_each(|millis| latencies.take(millis * 1_000_000));
        for (share, exact) in [(0.5, 500.0), (0.95, 950.0), (1.0, 1_000.0)] {
            let found = latencies.quantile(share).unwrap() as f64 / 1e6;
            assert!((found / exact - 1.0).abs() < 0.033, "{share}: {found}");
        }
    }
}
