//! The data of a tokenizer.
//!
//! In: the metadata under `tokenizer`. Out: a [`Vocabulary`]. Invariant: there are as many types and
//! scores as tokens, or none; ids are within the vocabulary.

use super::Gguf;
use super::error::damaged;
use gradloom_core::error::Result;

/// Contents of a file that describe the tokenizer.
#[derive(Clone, Debug, PartialEq)]
pub struct Vocabulary {
    /// Kind of tokenizer: `gpt2` for a byte-level BPE, `llama` for SentencePiece.
    pub model: String,
    /// llama.cpp's name of the pre-tokenizer, such as `gpt-2` or `llama-bpe`.
    pub pre: Option<String>,
    /// Tokens, indexed by id. For `gpt2`, bytes are spelled as in GPT-2's `vocab.json`; for `llama`, a space
    /// is `▁`.
    pub tokens: Vec<String>,
    /// Type of each token. Empty if the file has none.
    pub types: Vec<TokenType>,
    /// SentencePiece score of each token. Empty if the file has none.
    pub scores: Vec<f32>,
    /// Pairs of tokens separated by a space, in the order in which they are merged. Empty if the file has
    /// none.
    pub merges: Vec<String>,
    /// Token at the beginning of a text.
    pub bos: Option<u32>,
    /// Token at the end of a text.
    pub eos: Option<u32>,
    /// Token for unknown text.
    pub unknown: Option<u32>,
    /// Padding token.
    pub padding: Option<u32>,
    /// True if texts begin with [`bos`](Self::bos), or `None` if the file does not specify it.
    pub add_bos: Option<bool>,
    /// True if texts end with [`eos`](Self::eos), or `None` if the file does not specify it.
    pub add_eos: Option<bool>,
    /// True if a space is inserted before a text, or `None` if the file does not specify it.
    pub add_space_prefix: Option<bool>,
    /// Jinja template of a conversation.
    pub chat_template: Option<String>,
}

/// Type of a token, with llama.cpp's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenType {
    /// Undefined type, or one with an unknown number; treated as normal text.
    Undefined = 0,
    /// Piece of text.
    Normal = 1,
    /// Token for unknown text.
    Unknown = 2,
    /// Control token, such as the end of a text, which represents no text.
    Control = 3,
    /// Added token, recognized before a text is split into other tokens.
    UserDefined = 4,
    /// Token that is never used.
    Unused = 5,
    /// Byte, spelled as in `<0x0A>`.
    Byte = 6,
}

impl TokenType {
    /// Returns the type with the given number. As in llama.cpp, an unknown number is
    /// [`TokenType::Undefined`].
    fn of(number: i32) -> Self {
        use TokenType::{Byte, Control, Normal, Undefined, Unknown, Unused, UserDefined};
        let known = [Normal, Unknown, Control, UserDefined, Unused, Byte];
        known.into_iter().find(|ty| *ty as i32 == number).unwrap_or(Undefined)
    }
}

impl Gguf {
    /// Returns the file's description of the tokenizer.
    ///
    /// # Errors
    /// Returns an error if the kind or the tokens are missing, or the contents are inconsistent.
    pub fn vocabulary(&self) -> Result<Vocabulary> {
        let key = |name: &str| format!("tokenizer.ggml.{name}");
        let text = |key: &str| self.get::<String>(key);
        let tokens = self.texts(&key("tokens"))?;
        let vocabulary = Vocabulary {
            model: self.require::<&str>(&key("model"))?.to_string(),
            pre: text(&key("pre"))?,
            types: self.token_types(&key("token_type"))?,
            scores: self.get(&key("scores"))?.unwrap_or_default(),
            merges: if self.metadata(&key("merges")).is_some() {
                self.texts(&key("merges"))?
            } else {
                vec![]
            },
            bos: self.token_id("bos_token_id"),
            eos: self.token_id("eos_token_id"),
            unknown: self.token_id("unknown_token_id"),
            padding: self.token_id("padding_token_id"),
            add_bos: self.get(&key("add_bos_token"))?,
            add_eos: self.get(&key("add_eos_token"))?,
            add_space_prefix: self.get(&key("add_space_prefix"))?,
            chat_template: text("tokenizer.chat_template")?,
            tokens,
        };
        let lengths = [("token_type", vocabulary.types.len()), ("scores", vocabulary.scores.len())];
        for (name, length) in lengths {
            if length != 0 && length != vocabulary.tokens.len() {
                let (key, tokens) = (key(name), vocabulary.tokens.len());
                let reason = format_args!("`{key}` has {length} elements for {tokens} tokens");
                return Err(damaged(&self.name, reason));
            }
        }
        Ok(vocabulary)
    }

    fn texts(&self, key: &str) -> Result<Vec<String>> {
        self.require(key)
    }

    fn token_types(&self, key: &str) -> Result<Vec<TokenType>> {
        let numbers: Vec<i32> = self.get(key)?.unwrap_or_default();
        Ok(numbers.into_iter().map(TokenType::of).collect())
    }
}
