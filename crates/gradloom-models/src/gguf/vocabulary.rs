//! The data of a tokenizer.
//!
//! In: the metadata under `tokenizer`. Out: a [`Vocabulary`]. Always holds: types and scores are as many as
//! the tokens, or none; ids are those of tokens.

use super::Gguf;
use super::error::damaged;
use gradloom_core::error::Result;

/// Contents of a file about the model's tokenizer.
#[derive(Clone, Debug, PartialEq)]
pub struct Vocabulary {
    /// The kind: `gpt2` for merges of bytes, `llama` for SentencePiece's.
    pub model: String,
    /// llama.cpp's name for the way to split a text into words: `gpt-2`, `llama-bpe`.
    pub pre: Option<String>,
    /// The tokens by id. Of the kind `gpt2`, bytes are written as GPT-2's `vocab.json` writes them; of
    /// `llama`, a space is `▁`.
    pub tokens: Vec<String>,
    /// The type of each token, if the file has them.
    pub types: Vec<TokenType>,
    /// SentencePiece's score of each token, if the file has them.
    pub scores: Vec<f32>,
    /// Two tokens with a space between, the first to merge first, if the file has them.
    pub merges: Vec<String>,
    /// The token before a text.
    pub bos: Option<u32>,
    /// The token that ends a text.
    pub eos: Option<u32>,
    /// The token for unknown text.
    pub unknown: Option<u32>,
    /// The padding token.
    pub padding: Option<u32>,
    /// True if texts begin with [`bos`](Self::bos); `None` if the file does not say.
    pub add_bos: Option<bool>,
    /// True if texts end with [`eos`](Self::eos); `None` if the file does not say.
    pub add_eos: Option<bool>,
    /// True if a space is put before a text; `None` if the file does not say.
    pub add_space_prefix: Option<bool>,
    /// The template of a conversation, in Jinja's language.
    pub chat_template: Option<String>,
}

/// The type of a token, with llama.cpp's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenType {
    /// A type that the file does not name; the token is read as a piece of text.
    Undefined = 0,
    /// A piece of text.
    Normal = 1,
    /// The token for unknown text.
    Unknown = 2,
    /// A control token, which stands for no text, such as the end.
    Control = 3,
    /// An added token, which is found in a text before others are.
    UserDefined = 4,
    /// A token that is never used.
    Unused = 5,
    /// A byte, written `<0x0A>`.
    Byte = 6,
}

impl TokenType {
    /// Returns the type of a number, as llama.cpp reads it: a number that it does not know is
    /// [`TokenType::Undefined`].
    fn of(number: i32) -> Self {
        use TokenType::{Byte, Control, Normal, Undefined, Unknown, Unused, UserDefined};
        let known = [Normal, Unknown, Control, UserDefined, Unused, Byte];
        known.into_iter().find(|ty| *ty as i32 == number).unwrap_or(Undefined)
    }
}

impl Gguf {
    /// Returns the contents of the file about the tokenizer.
    ///
    /// # Errors
    /// When it has no kind or no tokens, or what it has does not fit together.
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
