//! Whether blips come one by one or in bursts.

/// The most spans that are told apart.
const SPANS: usize = 256;
/// The shortest span, in nanoseconds: ten minutes.
const SHORTEST: u64 = 600_000_000_000;

/// Blips counted in spans of equal time in which the path was well. When there are too many spans, each two become one.
#[derive(Clone, Debug)]
pub(super) struct Clusters {
    span: u64,
    /// Time passed in the span that is being filled, and blips in it.
    filling: (u64, u64),
    counts: Vec<u64>,
    /// Of endpoints that were added: how many blips, and how many times their dispersion.
    added: (f64, f64),
}

impl Default for Clusters {
    fn default() -> Self {
        Self { span: SHORTEST, filling: (0, 0), counts: Vec::new(), added: (0.0, 0.0) }
    }
}

impl Clusters {
    /// So much time passed.
    #[inline]
    pub(super) fn pass(&mut self, nanos: u64) {
        self.filling.0 += nanos;
        if self.filling.0 >= self.span {
            self.close();
        }
    }

    /// A blip came.
    pub(super) const fn blip(&mut self) {
        self.filling.1 += 1;
    }

    fn close(&mut self) {
        let spans = self.filling.0 / self.span;
        self.counts.push(self.filling.1);
        // A time longer than a span holds no other blip.
        for _ in 1..spans.min(SPANS as u64) {
            self.counts.push(0);
        }
        self.filling = (self.filling.0 % self.span, 0);
        while self.counts.len() >= SPANS {
            self.counts = self.counts.chunks(2).map(|pair| pair.iter().sum()).collect();
            self.span = self.span.saturating_mul(2);
        }
    }

    /// Adds those of another endpoint.
    pub(super) fn add(&mut self, other: &Self) {
        let blips = other.counts.iter().sum::<u64>() as f64;
        self.added.0 += blips;
        self.added.1 += blips * other.dispersion();
    }

    /// The variance of the counts as a multiple of what it is for blips that come independently of each other; at least
    /// 1, and 1 if there is too little to tell.
    pub(super) fn dispersion(&self) -> f64 {
        if self.added.0 > 0.0 {
            return (self.added.1 / self.added.0).max(1.0);
        }
        let spans = self.counts.len() as f64;
        let mean = self.counts.iter().sum::<u64>() as f64 / spans;
        if spans < 10.0 || mean <= 0.0 {
            return 1.0;
        }
        let squares: f64 = self.counts.iter().map(|count| (*count as f64 - mean).powi(2)).sum();
        (squares / (spans - 1.0) / mean).max(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blips_that_come_in_bursts_are_told_from_those_that_do_not() {
        let minute = SHORTEST / 10;
        let dispersion = |blips: fn(u64) -> u64| {
            let mut clusters = Clusters::default();
            for minutes in 0..100_000 {
                clusters.pass(minute);
                (0..blips(minutes)).for_each(|_| clusters.blip());
            }
            assert!(clusters.counts.len() < SPANS);
            clusters.dispersion()
        };
        assert_eq!(dispersion(|_| 0), 1.0);
        assert_eq!(dispersion(|minutes| u64::from(minutes % 100 == 0)), 1.0);
        assert!(dispersion(|minutes| if minutes % 5_000 == 0 { 30 } else { 0 }) > 20.0);
    }
}
