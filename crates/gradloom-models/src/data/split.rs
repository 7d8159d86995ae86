//! Splits off the held-out part of the data.

use super::DataError;

/// Tokens to train on and tokens to measure with: the tail of the data, a tenth of it or one window if that
/// is more.
#[derive(Clone, Debug, PartialEq)]
pub struct Split {
    /// Tokens to train on: at least one window of `context + 1`.
    pub training: Vec<i32>,
    /// Tokens that training never sees: at least one window of `context + 1`.
    pub held_out: Vec<i32>,
}

impl Split {
    /// Splits tokens for windows of `context` inputs and their targets.
    ///
    /// # Errors
    /// When the tokens are too few for two windows.
    pub fn new(mut tokens: Vec<i32>, context: usize) -> Result<Self, DataError> {
        let window = context.saturating_add(1);
        let needed = window.saturating_mul(2);
        if tokens.len() < needed {
            return Err(DataError::TooShort { tokens: tokens.len(), context, needed });
        }
        let held_out = (tokens.len() / 10).max(window);
        let held_out = tokens.split_off(tokens.len() - held_out);
        Ok(Self { training: tokens, held_out })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tail_is_held_out() {
        let split = Split::new((0..100).collect(), 4).unwrap();
        assert_eq!(split.training, (0..90).collect::<Vec<_>>());
        assert_eq!(split.held_out, (90..100).collect::<Vec<_>>());
    }

    #[test]
    fn short_data_gives_one_window_each() {
        let split = Split::new((0..10).collect(), 4).unwrap();
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
}
