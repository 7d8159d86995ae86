//! The split into training data and held-out data.

use super::{DataError, Tokens};

/// Tokens for training and for evaluation. [`Split::new`] holds out the last tenth of the data, or the last
/// window if that is longer.
#[derive(Clone, Debug)]
pub struct Split {
    /// Tokens for training, at least one window of `context + 1`.
    pub training: Tokens,
    /// Tokens for evaluation, at least one window of `context + 1`. They are never trained on.
    pub held_out: Tokens,
}

impl Split {
    /// Splits the tokens for windows of `context` inputs and their targets.
    ///
    /// # Errors
    /// Returns an error if there are too few tokens for two windows.
    pub fn new(tokens: impl Into<Tokens>, context: usize) -> Result<Self, DataError> {
        let tokens = tokens.into();
        let window = context.saturating_add(1);
        let needed = window.saturating_mul(2);
        if tokens.len() < needed {
            return Err(DataError::TooShort { part: "data", tokens: tokens.len(), context, needed });
        }
        let held_out = (tokens.len() / 10).max(window);
        let training = tokens.len() - held_out;
        let (training, held_out) = tokens.split_at(training);
        Ok(Self { training, held_out })
    }

    /// Creates a split from two given parts, for windows of `context` inputs and their targets.
    ///
    /// # Errors
    /// Returns an error if a part has too few tokens for one window.
    pub fn of_parts(training: Tokens, held_out: Tokens, context: usize) -> Result<Self, DataError> {
        let needed = context.saturating_add(1);
        for (part, tokens) in [("training data", training.len()), ("held-out data", held_out.len())] {
            if tokens < needed {
                return Err(DataError::TooShort { part, tokens, context, needed });
            }
        }
        Ok(Self { training, held_out })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(tokens: &Tokens) -> Vec<i32> {
        let mut all = Vec::new();
        tokens.read(0, tokens.len(), &mut all).unwrap();
        all
    }

    #[test]
    fn the_tail_is_held_out() {
        let split = Split::new((0..100).collect::<Vec<_>>(), 4).unwrap();
        assert_eq!(all(&split.training), (0..90).collect::<Vec<_>>());
        assert_eq!(all(&split.held_out), (90..100).collect::<Vec<_>>());
    }

    #[test]
    fn short_data_gives_one_window_each() {
        let split = Split::new((0..10).collect::<Vec<_>>(), 4).unwrap();
        assert_eq!((split.training.len(), split.held_out.len()), (5, 5));
    }

    #[test]
    fn too_short_says_what_would_fit() {
        let error = Split::new(vec![0; 9], 4).unwrap_err();
        assert_eq!(error.to_string(), "the data has 9 tokens, but a context of 4 needs at least 10");
        assert_eq!(error.remedy(), "give more text, or take a context of 3 or less");
        assert!(Split::new(vec![0; 9], 3).is_ok(), "the remedy works");
        assert_eq!(Split::new(vec![0; 3], usize::MAX).unwrap_err().remedy(), "give more text");
    }

    #[test]
    fn each_of_two_parts_needs_a_window() {
        let parts = |training: usize, held_out: usize| {
            Split::of_parts(vec![0; training].into(), vec![0; held_out].into(), 4)
        };
        assert!(parts(5, 5).is_ok());
        let error = parts(5, 4).unwrap_err();
        assert_eq!(error.to_string(), "the held-out data has 4 tokens, but a context of 4 needs at least 5");
        assert_eq!(error.remedy(), "give more text, or take a context of 3 or less");
        assert!(parts(4, 5).unwrap_err().to_string().starts_with("the training data has 4 tokens"));
    }
}
