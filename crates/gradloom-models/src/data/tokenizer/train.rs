//! Training of a byte-pair encoding on a text.
//!
//! In: a text and a vocabulary size. Out: a [`Bpe`] over bytes with GPT-2's word pattern. Invariant:
//! training is deterministic across machines.

use super::pieces::Spelling;
use super::{Bpe, LongText, Roles, Tokenizer, TokenizerError, check, open};
use serde_json::Map;
use std::collections::HashSet;
use tokenizers::models::TrainerWrapper;
use tokenizers::models::bpe::BpeTrainer;
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::{AddedToken, ProgressFormat, parallelism};

/// The end-of-text token, which is the first one of the vocabulary.
const END_OF_TEXT: &str = "<|endoftext|>";
/// Minimum vocabulary size: one token for each byte and one for the end of a text.
const LEAST: usize = 257;
/// Minimum number of occurrences of a pair for it to become a token.
const OFTEN: u64 = 2;

impl Bpe {
    /// Trains a tokenizer of up to `vocabulary` tokens. There are fewer if no further pair occurs twice in
    /// the text. Bytes that are not valid UTF-8 are ignored.
    ///
    /// # Errors
    /// Returns an error if the vocabulary is too small to contain every byte or too large, or if the text
    /// cannot be cut into pieces.
    pub fn train(text: &[u8], vocabulary: usize, name: &str) -> Result<Self, TokenizerError> {
        let most = check::MOST_TOKENS as usize;
        if !(LEAST..=most).contains(&vocabulary) {
            return Err(TokenizerError::Size { asked: vocabulary, least: LEAST, most });
        }
        let failed = |error: tokenizers::Error| TokenizerError::Encode {
            name: name.to_string(),
            reason: error.to_string(),
        };
        let empty = open::over_bytes(Map::new(), Vec::new(), Vec::new(), &[]).to_string();
        let mut tokenizer: tokenizers::Tokenizer = empty.parse().map_err(failed)?;
        let trainer = BpeTrainer::builder()
            .vocab_size(vocabulary)
            .min_frequency(OFTEN)
            .special_tokens(vec![AddedToken::from(END_OF_TEXT, true)])
            .initial_alphabet(ByteLevel::alphabet().into_iter().collect::<HashSet<_>>())
            .progress_format(ProgressFormat::Silent)
            .show_progress(false)
            .build();
        let words = Self::of(tokenizer.clone(), name, Spelling::Bytes);
        let (mut pieces, cut) = (LongText::new(text), |text: &[u8]| words.last_cut(text));
        let mut uncut = None;
        let pieces = std::iter::from_fn(|| {
            let (piece, _) = match pieces.next(&cut) {
                Ok(piece) => piece?,
                Err(error) => {
                    uncut = Some(error.to_string());
                    return None;
                }
            };
            Some(piece.utf8_chunks().map(|chunk| chunk.valid()).collect::<String>())
        });
        // Train on one thread: the crate panics if the system refuses to create threads.
        let parallel = parallelism::get_parallelism();
        parallelism::set_parallelism(false);
        let trained = tokenizer.train(&mut TrainerWrapper::from(trainer), pieces).map(|_| ());
        parallelism::set_parallelism(parallel);
        trained.map_err(failed)?;
        if let Some(reason) = uncut {
            return Err(TokenizerError::Uncut { name: name.to_string(), reason });
        }
        let roles = Roles { eos: Some(END_OF_TEXT.to_string()), ..Roles::default() };
        Ok(Self::of(tokenizer, name, Spelling::Bytes).with_roles(roles))
    }
}
