//! Probabilities of finitely many binary digits.

/// A fraction `parts / 2^digits` in lowest terms, strictly between 0 and 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BinaryFraction {
    /// Odd number below `2^digits`.
    pub parts: u32,
    /// Number of binary digits, from 1 to [`BinaryFraction::MAX_DIGITS`].
    pub digits: u32,
}

impl BinaryFraction {
    /// 1/2, the probability of a 1 in each bit of a random word.
    pub const HALF: Self = Self { parts: 1, digits: 1 };
    /// Maximum number of binary digits.
    pub const MAX_DIGITS: u32 = 24;

    /// Returns the fraction of the fewest digits from which `p` and `1 - p` differ by at most a thousandth
    /// of themselves, for `p` between 0 and 1. If none is as close, returns the closest one of all digits.
    pub fn close_to(p: f64) -> Self {
        let rounded = |digits: u32| {
            let whole = f64::from(1_u32 << digits);
            ((p * whole).round().clamp(1.0, whole - 1.0), whole)
        };
        let is_close = |digits: &u32| {
            let (parts, whole) = rounded(*digits);
            (parts / whole - p).abs() <= p.min(1.0 - p) / 1000.0
        };
        let digits = (1..Self::MAX_DIGITS).find(is_close).unwrap_or(Self::MAX_DIGITS);
        let parts = rounded(digits).0 as u32;
        let zeros = parts.trailing_zeros();
        Self { parts: parts >> zeros, digits: digits - zeros }
    }

    /// Returns the fraction as a number, which is exact.
    pub fn value(self) -> f64 {
        f64::from(self.parts) / f64::from(1_u32 << self.digits)
    }

    /// Returns `true` if the fields are as their documentation requires.
    pub fn is_valid(self) -> bool {
        (1..=Self::MAX_DIGITS).contains(&self.digits) && self.parts % 2 == 1 && self.parts >> self.digits == 0
    }

    /// Returns a word whose bits are 1 with this probability, given random words whose bits are 1 with
    /// probability 1/2, one for each digit. `word` takes the number of a digit, from 0 for the last one.
    ///
    /// Each bit of the result is `x < self` for the number x whose binary digits are the complements of the
    /// words' bits. The first digit decides half of the draws, the second one half of the others, and so on.
    pub fn draw(self, word: impl Fn(u32) -> u32) -> u32 {
        (1..self.digits).fold(word(0), |drawn, digit| match self.parts >> digit & 1 {
            1 => drawn | word(digit),
            _ => drawn & word(digit),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::BinaryFraction;

    #[test]
    fn close_fractions_have_few_digits() {
        let close = |p| BinaryFraction::close_to(p);
        let fraction = |parts, digits| BinaryFraction { parts, digits };
        assert_eq!([0.5, 0.75, 0.9].map(close), [fraction(1, 1), fraction(3, 2), fraction(1843, 11)]);
        for p in (1..1000).map(|p| f64::from(p) / 1000.0) {
            let it = close(p);
            let off = (it.value() - p).abs();
            assert!(it.is_valid() && off <= p.min(1.0 - p) / 1000.0 && it.digits <= 20, "{it:?} for {p}");
        }
        // Nothing that may be dropped is never dropped, and likewise for what is kept.
        assert_eq!([1e-12, 1.0 - 1e-12].map(close), [fraction(1, 24), fraction((1 << 24) - 1, 24)]);
    }

    /// Over all combinations of the digits, a bit is 1 in exactly `parts` of `2^digits`.
    #[test]
    fn draws_have_the_exact_probability() {
        for digits in 1..=10 {
            for parts in (1..1 << digits).step_by(2) {
                let ones = (0..1_u32 << digits)
                    .map(|draw| BinaryFraction { parts, digits }.draw(|digit| draw >> digit & 1));
                assert_eq!(ones.sum::<u32>(), parts, "{parts} of 2^{digits}");
            }
        }
    }
}
