//! Choices read off one number, the way digits are.

/// Each roll takes one digit, in the base of the number of faces. Zero gives the first choice of everything, so that a
/// number that shrinks makes simpler choices; that's why lists begin with what is plainest.
#[derive(Clone)]
pub(super) struct Dice(pub(super) u64);

/// A weight, and a choice that goes on rolling.
pub(super) type Choice<T> = (u64, fn(&mut Dice) -> T);

impl Dice {
    pub(super) fn roll(&mut self, faces: u64) -> u64 {
        let digit = self.0 % faces;
        self.0 /= faces;
        digit
    }

    pub(super) fn one_of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.roll(choices.len() as u64) as usize]
    }

    /// Each choice with its weight.
    pub(super) fn weighted<T: Copy>(&mut self, choices: &[(u64, T)]) -> T {
        let mut rest = self.roll(choices.iter().map(|(weight, _)| weight).sum());
        for (weight, choice) in choices {
            match rest.checked_sub(*weight) {
                None => return *choice,
                Some(left) => rest = left,
            }
        }
        unreachable!("a roll below the sum of the weights")
    }

    /// As `weighted`, for choices that go on rolling.
    pub(super) fn call<T>(&mut self, choices: &[Choice<T>]) -> T {
        self.weighted(choices)(self)
    }
}
