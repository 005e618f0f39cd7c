//! Which endpoints could take over, most preferred first, without a scan of those that could not.

/// One bit per place in the order of preference: set while the endpoint there is HEALTHY, not in maintenance and not barred.
/// Freshness is a matter of the moment and is checked when asked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Targets {
    words: Vec<u64>,
}

impl Targets {
    pub(super) fn rebuilt(candidates: impl ExactSizeIterator<Item = bool>) -> Self {
        let mut targets = Self { words: vec![0; candidates.len().div_ceil(64)] };
        for (rank, candidate) in candidates.enumerate() {
            targets.set(rank, candidate);
        }
        targets
    }

    pub(super) fn set(&mut self, rank: usize, candidate: bool) {
        if let Some(word) = self.words.get_mut(rank / 64) {
            let bit = 1 << (rank % 64);
            *word = if candidate { *word | bit } else { *word & !bit };
        }
    }

    /// Places of the candidates, most preferred first.
    pub(super) fn ranks(&self) -> impl Iterator<Item = usize> {
        self.words.iter().enumerate().flat_map(|(index, word)| {
            std::iter::successors(Some(*word), |word| Some(word & word.wrapping_sub(1)))
                .take_while(|word| *word != 0)
                .map(move |word| index * 64 + usize::try_from(word.trailing_zeros()).unwrap_or(0))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn candidates_come_in_order_across_words() {
        let wanted = [0, 1, 63, 64, 127, 128, 199];
        let mut targets = Targets::rebuilt((0..200).map(|rank| wanted.contains(&rank)));
        assert_eq!(targets.ranks().collect::<Vec<_>>(), wanted);
        targets.set(63, false);
        targets.set(65, true);
        targets.set(10_000, true);
        assert_eq!(targets.ranks().collect::<Vec<_>>(), [0, 1, 64, 65, 127, 128, 199]);
    }
}
