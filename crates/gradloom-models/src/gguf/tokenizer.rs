//! The tokenizer in a GGUF file.
//!
//! In: the metadata under `tokenizer`. Out: a [`Vocabulary`], and [`Bpe`] made of it. Invariant: an unknown
//! pre-tokenizer is an error, because the ids of another one would be silently wrong.

use super::error::{damaged, error, unread};
use super::{Gguf, words};
use crate::data::{Bpe, Roles, Vocabulary};
use gradloom_core::error::{Error, ErrorKind, Result};

/// Number of the type of the token for unknown text. As in llama.cpp, tokens of other types than these three
/// are read as normal ones.
const UNKNOWN: i32 = 2;
/// Number of the type of control tokens, such as the end of a text, which represent no text.
const CONTROL: i32 = 3;
/// Number of the type of added tokens, recognized before a text is split into other tokens.
const USER_DEFINED: i32 = 4;

impl Gguf {
    /// Returns `true` if the file contains a tokenizer.
    pub fn has_tokenizer(&self) -> bool {
        self.metadata("tokenizer.ggml.model").is_some()
    }

    /// Returns the file's tokenizer: a byte-level BPE (`gpt2`) or a SentencePiece encoding (`llama`).
    ///
    /// # Errors
    /// Returns an error in the same cases as [`Gguf::vocabulary`], or if tokens, merges and scores are
    /// inconsistent.
    pub fn tokenizer(&self) -> Result<Bpe> {
        Bpe::from_vocabulary(&self.vocabulary()?, &self.name).map_err(|problem| {
            // Do not add the file's name, which the problem already contains.
            Error::new(ErrorKind::File, problem.to_string())
                .help("convert the model once more, or put its tokenizer.json beside the file")
        })
    }

    /// Returns the tokens of the file's tokenizer, and what the file says of them.
    ///
    /// # Errors
    /// Returns an error if the tokens, the kind of tokenizer or the scores of a `llama` are missing, if the
    /// kind or its pre-tokenizer is unknown, or if there are types or scores for another number of tokens.
    pub fn vocabulary(&self) -> Result<Vocabulary> {
        let key = |name: &str| format!("tokenizer.ggml.{name}");
        let tokens: Vec<String> = self.require(&key("tokens"))?;
        let model: &str = self.require(&key("model"))?;
        let pre: Option<String> = self.get(&key("pre"))?;
        let types: Vec<i32> = self.get(&key("token_type"))?.unwrap_or_default();
        let mut scores: Vec<f32> = self.get(&key("scores"))?.unwrap_or_default();
        for (name, length) in [("token_type", types.len()), ("scores", scores.len())] {
            if length != 0 && length != tokens.len() {
                let (key, tokens) = (key(name), tokens.len());
                let reason = format_args!("`{key}` has {length} elements for {tokens} tokens");
                return Err(damaged(&self.name, reason));
            }
        }
        let words = match model {
            "gpt2" => {
                // Ignore the scores of a byte-level BPE, which are meaningless.
                scores.clear();
                // Like llama.cpp, treat a file without a name as one from before pre-tokenizers were named.
                let pre = pre.as_deref().unwrap_or("default");
                words::find(pre).ok_or_else(|| {
                    unread(&self.name, format_args!("`tokenizer.ggml.pre` is {pre:?}, which is not known"))
                        .help("or put the model's tokenizer.json beside the file")
                })?
            }
            "llama" if scores.is_empty() => {
                let message = "the metadata has no `tokenizer.ggml.scores`, which `llama` needs";
                return Err(error(&self.name, message).help("convert the model once more"));
            }
            "llama" => words::Words { begins: true, ..words::Words::default() },
            other => {
                let message = format!("`tokenizer.ggml.model` is {other:?}, and gpt2 and llama are read");
                return Err(unread(&self.name, message));
            }
        };
        let of_types = |wanted: &[i32]| -> Vec<i32> {
            types.iter().zip(0..).filter(|(ty, _)| wanted.contains(ty)).map(|(_, id)| id).collect()
        };
        let [bos, eos, unk, pad] =
            ["bos", "eos", "unknown", "padding"].map(|role| self.token_id(&format!("{role}_token_id")));
        // Without types, the control tokens are those that begin and end a text.
        let mut special = of_types(&[CONTROL, UNKNOWN]);
        if types.is_empty() {
            special = [bos, eos].into_iter().flatten().map(|id| id as i32).collect();
            special.dedup();
        }
        let of = |id: Option<u32>| id.map(|id| tokens[id as usize].clone());
        let roles = Roles {
            bos: of(bos),
            eos: of(eos),
            unk: of(unk),
            pad: of(pad),
            chat_template: self.get("tokenizer.chat_template")?,
            ..Roles::default()
        };
        let add_bos: Option<bool> = self.get(&key("add_bos_token"))?;
        Ok(Vocabulary {
            merges: self.get(&key("merges"))?.unwrap_or_default(),
            scores,
            special,
            added: of_types(&[USER_DEFINED]),
            words: words.patterns.iter().map(ToString::to_string).collect(),
            whole_words: words.whole,
            begins_with_bos: add_bos.unwrap_or(words.begins) && roles.bos.is_some(),
            starts_plain: self.get(&key("add_space_prefix"))? == Some(false),
            roles,
            tokens,
        })
    }
}
