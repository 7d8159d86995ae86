//! Token counts of a text, for repetition penalties.
//!
//! In: the tokens of the prompt, then those of the output as they are generated. Out: the number of
//! occurrences of each token, by token for the host and as a row over the vocabulary for devices. Invariant:
//! a token of the prompt is never counted as one of the output.

use std::collections::BTreeMap;

/// Token counts of a text.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Past {
    /// Code of each token in the text: twice the number of its occurrences in the output, plus one if it
    /// occurs in the prompt.
    codes: BTreeMap<i32, i32>,
}

impl Past {
    /// Creates the counts of a text that consists of a prompt.
    pub fn new(prompt: &[i32]) -> Self {
        Self { codes: prompt.iter().map(|&token| (token, 1)).collect() }
    }

    /// Counts a token of the output.
    pub fn push(&mut self, token: i32) {
        *self.codes.entry(token).or_default() += 2;
    }

    /// Returns the tokens in ascending order, each with the number of its occurrences in the output.
    pub fn tokens(&self) -> impl Iterator<Item = (i32, i32)> {
        self.codes.iter().map(|(&token, code)| (token, code >> 1))
    }

    /// Returns a row of `past` for [`Choices::choose`](super::Choices::choose): for each token of the
    /// vocabulary, twice the number of its occurrences in the output, plus one if it occurs in the prompt.
    ///
    /// Tokens outside the vocabulary are omitted.
    pub fn row(&self, vocabulary: usize) -> Vec<i32> {
        let mut row = vec![0; vocabulary];
        for (&token, &code) in &self.codes {
            if let Some(place) = usize::try_from(token).ok().and_then(|token| row.get_mut(token)) {
                *place = code;
            }
        }
        row
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prompt_and_output_are_counted_apart() {
        let mut past = Past::new(&[3, 1, 3, -1, 9]);
        past.push(1);
        past.push(0);
        past.push(1);
        assert_eq!(past.row(4), [2, 5, 0, 1]);
        assert!(past.row(0).is_empty());
        assert_eq!(past.tokens().collect::<Vec<_>>(), [(-1, 0), (0, 1), (1, 2), (3, 0), (9, 0)]);
    }
}
