//! Functions of statistics that std does not have.

use libm::{erfc, lgamma};

/// The probability that a standard normal number is below `z`.
pub(super) fn normal(z: f64) -> f64 {
    0.5 * erfc(-z / std::f64::consts::SQRT_2)
}

/// The lower regularised incomplete gamma function P(a, x): by its series below `a + 1`, by its continued fraction above
/// (Abramowitz and Stegun 6.5.29 and 6.5.31, the fraction by Lentz's method).
pub(super) fn gamma_below(a: f64, x: f64) -> f64 {
    if x <= 0.0 || a <= 0.0 {
        return if a <= 0.0 { 1.0 } else { 0.0 };
    }
    let scale = (a * x.ln() - x - lgamma(a)).exp();
    if x < a + 1.0 {
        let (mut term, mut sum, mut n) = (1.0 / a, 1.0 / a, a);
        for _ in 0..100_000 {
            n += 1.0;
            term *= x / n;
            sum += term;
            if term < sum * 1e-16 {
                break;
            }
        }
        return (sum * scale).min(1.0);
    }
    const TINY: f64 = 1e-300;
    let mut b = x + 1.0 - a;
    let (mut c, mut d) = (1.0 / TINY, 1.0 / b);
    let mut fraction = d;
    for i in 1..100_000 {
        let i = f64::from(i);
        let an = -i * (i - a);
        b += 2.0;
        d = an * d + b;
        d = 1.0 / if d.abs() < TINY { TINY } else { d };
        c = b + an / c;
        c = if c.abs() < TINY { TINY } else { c };
        fraction *= d * c;
        if (d * c - 1.0).abs() < 1e-15 {
            break;
        }
    }
    (1.0 - scale * fraction).max(0.0)
}

/// The number below which a gamma distribution of this shape, with scale 1, is with probability `p`.
pub(super) fn gamma_quantile(shape: f64, p: f64) -> f64 {
    if shape <= 0.0 {
        return 0.0;
    }
    let (mut low, mut high) = (0.0, shape + 1.0);
    while gamma_below(shape, high) < p && high < 1e300 {
        high *= 2.0;
    }
    for _ in 0..200 {
        let middle = 0.5 * (low + high);
        if middle <= low || middle >= high {
            break;
        }
        if gamma_below(shape, middle) < p { low = middle } else { high = middle }
    }
    0.5 * (low + high)
}

/// The probability that a chi-squared number is at least `x`.
pub(super) fn chi_squared_above(x: f64, degrees: u32) -> f64 {
    1.0 - gamma_below(f64::from(degrees) / 2.0, x / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(found: f64, expected: f64) {
        assert!((found - expected).abs() < 1e-4 * expected.abs().max(1e-3), "{found}, expected {expected}");
    }

    #[test]
    fn tables_agree() {
        close(normal(0.0), 0.5);
        close(normal(1.959_964), 0.975);
        close(normal(-2.575_829), 0.005);
        // Chi-squared: 5 % points of 1, 4, 10 and 100 degrees.
        for (degrees, point) in [(1, 3.841_459), (4, 9.487_729), (10, 18.307_04), (100, 124.342_1)] {
            close(chi_squared_above(point, degrees), 0.05);
        }
        // Garwood's limits for 0, 1 and 10 events at 95 %.
        close(gamma_quantile(1.0, 0.975), 3.688_879);
        close(gamma_quantile(1.0, 0.025), 0.025_318);
        close(gamma_quantile(2.0, 0.975), 5.571_643);
        close(gamma_quantile(10.0, 0.025), 4.795_389);
        close(gamma_quantile(11.0, 0.975), 18.390_36);
        assert_eq!(gamma_quantile(0.0, 0.005), 0.0);
        close(gamma_quantile(1e6, 0.5), 1e6);
    }
}
