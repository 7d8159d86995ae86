//! The tokens that a text has so far, for penalties on repeating them.
//!
//! In: the tokens of the prompt, then those of the output as they come. Out: the number of times that each
//! occurs, for the host by token and for devices as a row of the vocabulary. Always holds: a token of the
//! prompt is never counted as one of the output.

use std::collections::BTreeMap;

/// The tokens of a text, counted.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Past {
    /// For each token of the text: two for each occurrence in the output, plus one if it is in the prompt.
    codes: BTreeMap<i32, i32>,
}

impl Past {
    /// Returns the counts of a text with this prompt and no output yet.
    pub fn new(prompt: &[i32]) -> Self {
        Self { codes: prompt.iter().map(|&token| (token, 1)).collect() }
    }

    /// Counts a token of the output.
    pub fn push(&mut self, token: i32) {
        *self.codes.entry(token).or_default() += 2;
    }

    /// Returns the tokens in order, each with the number of times that the output has it.
    pub fn tokens(&self) -> impl Iterator<Item = (i32, i32)> {
        self.codes.iter().map(|(&token, code)| (token, code >> 1))
    }

    /// Returns a row of `past` for [`Choices::choose`](super::Choices::choose): for each token of the
    /// vocabulary, two for each occurrence in the output, plus one if it is in the prompt. Tokens that are
    /// not in the vocabulary are left out.
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
