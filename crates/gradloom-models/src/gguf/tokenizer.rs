//! The tokenizer in a GGUF file.
//!
//! In: a file's vocabulary. Out: [`Bpe`]. Invariant: an unknown pre-tokenizer is an error, because the ids
//! of another one would be silently wrong.

use super::error::{error, unread};
use super::vocabulary::{TokenType, Vocabulary};
use super::{Gguf, words};
use crate::data::{self, Bpe, Roles};
use gradloom_core::error::Result;

impl Gguf {
    /// Returns `true` if the file contains a tokenizer.
    pub fn has_tokenizer(&self) -> bool {
        self.metadata("tokenizer.ggml.model").is_some()
    }

    /// Returns the file's tokenizer: a byte-level BPE (`gpt2`) or a SentencePiece encoding (`llama`).
    ///
    /// # Errors
    /// Returns an error in the same cases as [`Gguf::vocabulary`], if the kind of tokenizer or its
    /// pre-tokenizer is unknown, or if tokens, merges and scores are inconsistent.
    pub fn tokenizer(&self) -> Result<Bpe> {
        let found = self.vocabulary()?;
        let (words, is_sentence_piece) = match &*found.model {
            // Like llama.cpp, treat a file without a name as one from before pre-tokenizers were named.
            "gpt2" => {
                let pre = found.pre.as_deref().unwrap_or("default");
                let known = words::find(pre).ok_or_else(|| {
                    unread(&self.name, format_args!("`tokenizer.ggml.pre` is {pre:?}, which is not known"))
                        .help("or put the model's tokenizer.json beside the file")
                })?;
                (known, false)
            }
            "llama" if found.scores.is_empty() => {
                let message = "the metadata has no `tokenizer.ggml.scores`, which `llama` needs";
                return Err(error(&self.name, message).help("convert the model once more"));
            }
            "llama" => (words::Words { begins: true, ..words::Words::default() }, true),
            other => {
                let message = format!("`tokenizer.ggml.model` is {other:?}, and gpt2 and llama are read");
                return Err(unread(&self.name, message));
            }
        };
        let of = |id: Option<u32>| id.map(|id| found.tokens[id as usize].clone());
        let roles = Roles {
            bos: of(found.bos),
            eos: of(found.eos),
            unk: of(found.unknown),
            pad: of(found.padding),
            chat_template: found.chat_template.clone(),
            ..Roles::default()
        };
        let begins_with_bos = found.add_bos.unwrap_or(words.begins) && roles.bos.is_some();
        let lists = data::Vocabulary {
            special: special(&found),
            added: of_types(&found, &[TokenType::UserDefined]),
            words: words.patterns.iter().map(ToString::to_string).collect(),
            whole_words: words.whole,
            begins_with_bos,
            starts_plain: found.add_space_prefix == Some(false),
            // Ignore the scores of a byte-level BPE, which are meaningless.
            scores: if is_sentence_piece { found.scores } else { Vec::new() },
            tokens: found.tokens,
            merges: found.merges,
            roles,
        };
        Bpe::from_vocabulary(&lists, &self.name).map_err(|problem| {
            // Do not add the file's name, which the problem already contains.
            gradloom_core::error::Error::new(gradloom_core::error::ErrorKind::File, problem.to_string())
                .help("convert the model once more, or put its tokenizer.json beside the file")
        })
    }
}

/// Returns the control tokens, or those that begin and end a text if the tokens have no types.
fn special(found: &Vocabulary) -> Vec<i32> {
    if found.types.is_empty() {
        let mut ids: Vec<i32> = [found.bos, found.eos].into_iter().flatten().map(|id| id as i32).collect();
        ids.dedup();
        return ids;
    }
    of_types(found, &[TokenType::Control, TokenType::Unknown])
}

fn of_types(found: &Vocabulary, wanted: &[TokenType]) -> Vec<i32> {
    found.types.iter().zip(0..).filter(|(ty, _)| wanted.contains(ty)).map(|(_, id)| id).collect()
}
