//! Tokens in memory or in files, from which batches are drawn.
//!
//! In: tokens, or open shards. Out: any range of them. Invariant: only the requested ranges of token files
//! are read.

use super::{DataError, TokenShards};

/// A sequence of tokens.
#[derive(Clone, Debug)]
pub enum Tokens {
    /// Tokens in memory.
    Memory(Vec<i32>),
    /// Tokens in files.
    Shards(TokenShards),
}

impl From<Vec<i32>> for Tokens {
    fn from(tokens: Vec<i32>) -> Self {
        Self::Memory(tokens)
    }
}

impl Tokens {
    /// Returns the number of tokens.
    pub fn len(&self) -> usize {
        match self {
            Self::Memory(tokens) => tokens.len(),
            Self::Shards(shards) => shards.len(),
        }
    }

    /// Returns `true` if there are no tokens.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Appends the tokens `start..start + count` to `into`.
    ///
    /// # Errors
    /// Returns an error if a token in a file is not in the vocabulary.
    ///
    /// # Panics
    /// Panics if the range is out of bounds.
    pub fn read(&self, start: usize, count: usize, into: &mut Vec<i32>) -> Result<(), DataError> {
        match self {
            Self::Memory(tokens) => into.extend_from_slice(&tokens[start..start + count]),
            Self::Shards(shards) => shards.read(start, count, into)?,
        }
        Ok(())
    }

    /// Splits the tokens into the first `count` and the rest.
    ///
    /// # Panics
    /// Panics if there are fewer than `count` tokens.
    pub(super) fn split_at(self, count: usize) -> (Self, Self) {
        match self {
            Self::Memory(mut tokens) => {
                let rest = tokens.split_off(count);
                (tokens.into(), rest.into())
            }
            Self::Shards(shards) => {
                let (first, rest) = shards.split_at(count);
                (Self::Shards(first), Self::Shards(rest))
            }
        }
    }
}
