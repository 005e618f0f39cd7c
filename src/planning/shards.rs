//! How many ways there are to share workers.

/// How many different sets of `taken` out of `all` there are: with each tenant on a set of its own, how few share one's
/// fate. `None`: more than a `u128` holds.
///
/// ```
/// use broker_failover::planning::choices;
///
/// assert_eq!(choices(8, 2), Some(28));
/// ```
#[must_use]
pub fn choices(all: u32, taken: u32) -> Option<u128> {
    if taken > all {
        return Some(0);
    }
    let taken = taken.min(all - taken);
    // After each step the product is itself a number of choices, so the division is exact. It grows at least as fast as
    // 2^step, so a number of steps beyond any bound ends early.
    (1..=u128::from(taken)).try_fold(1_u128, |product, step| {
        product.checked_mul(u128::from(all) - u128::from(taken) + step).map(|product| product / step)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_edges_and_pascals_rule() {
        assert_eq!((choices(0, 0), choices(5, 0), choices(5, 5), choices(5, 6)), (Some(1), Some(1), Some(1), Some(0)));
        for all in 1..60 {
            for taken in 1..=all {
                let sum = choices(all - 1, taken - 1).zip(choices(all - 1, taken)).map(|(left, right)| left + right);
                assert_eq!(choices(all, taken), sum, "{all} {taken}");
            }
        }
        assert_eq!(choices(u32::MAX, u32::MAX / 2), None);
    }
}
