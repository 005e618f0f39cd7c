//! Random numbers from a seed, in integers only: no machine's logarithm can make them differ.

use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::{RngCore as _, SeedableRng as _};

/// Independent throws; which ones, its seed and its use decide.
#[derive(Clone, Debug)]
pub(super) struct Dice(Pcg64Mcg);

impl Dice {
    /// One for each use, so that what one of them draws moves none of the others.
    pub(super) fn of<const USES: usize>(seed: u64) -> [Self; USES] {
        let mut root = Pcg64Mcg::seed_from_u64(seed);
        std::array::from_fn(|_| Self(Pcg64Mcg::seed_from_u64(root.next_u64())))
    }

    /// Any number as likely as the others.
    #[inline]
    pub(super) fn number(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// One below `bound`, or 0.
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        scaled(u128::from(bound), u128::from(self.number()), 64)
    }

    /// A length whose distribution is exponential with this mean, to 2^-32 of it.
    ///
    /// By von Neumann's comparisons: of numbers that are drawn until one is no smaller than the one before, the first is
    /// taken if they were an odd count, without the last; otherwise the length is a whole mean longer, and again.
    pub(super) fn exponential(&mut self, mean: u64) -> u64 {
        let mut means: u128 = 0;
        loop {
            let first = self.fraction();
            let (mut last, mut odd) = (first, true);
            loop {
                let next = self.fraction();
                if next >= last {
                    break;
                }
                (last, odd) = (next, !odd);
            }
            if odd {
                return scaled(u128::from(mean), means << 32 | u128::from(first), 32);
            }
            means += 1;
        }
    }

    fn fraction(&mut self) -> u32 {
        self.0.next_u32()
    }
}

/// `whole * part / 2^bits`, or the largest number if it does not fit.
fn scaled(whole: u128, part: u128, bits: u32) -> u64 {
    whole.checked_mul(part).and_then(|product| u64::try_from(product >> bits).ok()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_exponential() {
        let [mut dice] = Dice::of::<1>(7);
        const MANY: u32 = 200_000;
        let mean = 1_000_000;
        let lengths: Vec<_> = (0..MANY).map(|_| dice.exponential(mean)).collect();
        // P(length > x) = exp(-x / mean), to four standard deviations.
        for tenths in [1, 5, 10, 20, 30, 50] {
            let longer = lengths.iter().filter(|length| **length > mean * tenths / 10).count() as f64;
            let expected = (-(tenths as f64) / 10.0).exp();
            let deviation = (expected * (1.0 - expected) / f64::from(MANY)).sqrt();
            assert!((longer / f64::from(MANY) - expected).abs() < 4.0 * deviation, "{tenths}: {longer}");
        }
        let sum: u64 = lengths.iter().sum();
        let found = sum as f64 / f64::from(MANY);
        assert!((found / mean as f64 - 1.0).abs() < 4.0 / f64::from(MANY).sqrt(), "{found}");
    }

    #[test]
    fn the_numbers_of_a_seed_never_change() {
        // The first three are those of another implementation of PCG XSL-RR 128/64 (MCG).
        let [mut one, mut other] = Dice::of::<2>(1);
        assert_eq!(
            [one.number(), one.number(), other.number()],
            [2_515_402_840_356_996_764, 13_299_586_581_037_294_869, 7_300_250_467_592_898_530]
        );
        let lengths = [one.exponential(20_000_000_000), other.exponential(20_000_000_000)];
        assert_eq!(lengths, [15_814_186_660, 2_911_109_384]);
    }

    #[test]
    fn nothing_wraps() {
        let [mut dice] = Dice::of::<1>(3);
        for _ in 0..10_000 {
            assert!(dice.below(10) < 10);
            assert_eq!((dice.below(0), dice.exponential(0)), (0, 0));
            assert!(dice.exponential(u64::MAX) > 0);
        }
    }
}
