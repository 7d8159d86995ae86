//! Byte-pair encoding, implemented by the `tokenizers` crate.
//!
//! In: a validated tokenizer.json. Out: ids of text, and text of ids. Invariant: decoding concatenates the
//! bytes of each token from a table, so decoding token by token yields the same text as decoding all tokens
//! together.

use super::cuts::Cuts;
use super::pieces::Spelling;
use super::special::END_OF_TEXT;
use super::{Roles, Start, Tokenizer, TokenizerError, check};
use gradloom_runtime::files::replace_file;
use gradloom_runtime::python_json;
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::OnceLock;
use tokenizers::{ModelWrapper, PaddingParams, TruncationParams};

/// A byte-pair encoding (Sennrich et al., 2016) of bytes (GPT-2, Llama 3, Qwen) or of characters with byte
/// fallback (Llama 2, Gemma). See [`Bpe::open`].
///
/// The truncation, padding and dropout settings of a file are ignored because they would change the text.
pub struct Bpe {
    name: String,
    inner: tokenizers::Tokenizer,
    /// The same tokenizer, but with special tokens encoded as ordinary text. Created on first use.
    literal: OnceLock<Box<tokenizers::Tokenizer>>,
    /// The bytes of each token, indexed by id. Empty for unused ids.
    pieces: Vec<Box<[u8]>>,
    is_special: Vec<bool>,
    /// The token of each single byte, if it exists.
    bytes: Vec<Option<i32>>,
    pub(super) spelling: Spelling,
    pub(super) cuts: Cuts,
    adds_a_space: bool,
    roles: Roles,
    /// The end-of-text token to use if no file specifies one.
    usual_end: Option<&'static str>,
}

/// Treatment of special tokens by the encoder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpecialTokens {
    /// Adds the tokens that surround a text, and recognizes special tokens in the text.
    Added,
    /// Recognizes special tokens in the text but adds none.
    Found,
    /// Neither adds nor recognizes special tokens: text that spells a special token is encoded as ordinary
    /// text. Use this for untrusted input, such as a user's message.
    Text,
}

impl Bpe {
    /// Parses a tokenizer.json. Error messages refer to it as `name`.
    ///
    /// # Errors
    /// Returns an error if the JSON is malformed, or describes neither a byte-pair encoding of bytes nor one
    /// with byte fallback.
    pub fn from_json(text: &[u8], name: &str) -> Result<Self, TokenizerError> {
        let malformed = |reason: String| TokenizerError::Malformed { name: name.to_string(), reason };
        let file = python_json::parse(text).map_err(malformed)?;
        Self::from_value(&file, name)
    }

    pub(super) fn from_value(file: &Value, name: &str) -> Result<Self, TokenizerError> {
        let malformed = |reason: String| TokenizerError::Malformed { name: name.to_string(), reason };
        let spelling = check::check(file, name)?;
        let text = file.to_string();
        // Do not use `from_bytes`: it is generic and would compile the deserializer of the whole format again
        // in this crate.
        let mut inner: tokenizers::Tokenizer = guarded(|| text.parse::<tokenizers::Tokenizer>())
            .map_err(|reason| malformed(format!("the crate `tokenizers` panics: {reason}")))?
            .map_err(|error| malformed(error.to_string()))?;
        for token in file["added_tokens"].as_array().into_iter().flatten() {
            let (content, id) = (token["content"].as_str().unwrap_or_default(), token["id"].as_u64());
            let found = inner.token_to_id(content).map(u64::from);
            if found != id && !content.is_empty() {
                let (id, found) = (id.unwrap_or_default(), found.unwrap_or_default());
                return Err(malformed(format!(
                    "the added token {content:?} has the id {id}, and should be {found}"
                )));
            }
        }
        for (id, token) in inner.get_added_tokens_decoder() {
            // Reject a token that normalization makes empty, because it would match everywhere.
            if inner.id_to_token(id).is_some_and(|normalized| normalized.is_empty()) {
                return Err(malformed(format!(
                    "the normalizer leaves nothing of the added token {:?}: its `normalized` should be false",
                    token.content
                )));
            }
        }
        inner.with_truncation(None::<TruncationParams>).map_err(|error| malformed(error.to_string()))?;
        inner.with_padding(None::<PaddingParams>);
        if let ModelWrapper::BPE(model) = inner.get_model()
            && model.dropout.is_some()
        {
            let mut model = model.clone();
            model.dropout = None;
            inner.with_model(model);
        }
        let tokenizer = Self::of(inner, name, spelling);
        check::check_processor(&file["post_processor"], tokenizer.vocabulary(), "post_processor")
            .map_err(malformed)?;
        Ok(tokenizer)
    }

    /// Wraps a tokenizer that was read or trained.
    pub(super) fn of(inner: tokenizers::Tokenizer, name: &str, spelling: Spelling) -> Self {
        let largest = inner.get_vocab(true).values().copied().max();
        let ids = 0..largest.map_or(0, |id| id + 1);
        let added = inner.get_added_tokens_decoder();
        let piece = |id| inner.id_to_token(id).map_or_else(Vec::new, |token| spelling.bytes(&token));
        let pieces: Vec<Box<[u8]>> = ids.clone().map(|id| piece(id).into_boxed_slice()).collect();
        let longest = pieces.iter().map(|piece| piece.len()).max().unwrap_or(0);
        let is_special = ids.map(|id| added.get(&id).is_some_and(|token| token.special)).collect();
        let token = |byte| inner.token_to_id(&spelling.token_of(byte)).map(|id| id as i32);
        let bytes = (0..=255).map(token).collect();
        let usual_end = END_OF_TEXT.into_iter().find(|name| inner.token_to_id(name).is_some());
        let mut tokenizer = Self {
            name: name.to_string(),
            cuts: Cuts::of(&inner, spelling, longest),
            inner,
            literal: OnceLock::new(),
            pieces,
            is_special,
            bytes,
            spelling,
            adds_a_space: false,
            roles: Roles::default(),
            usual_end,
        };
        // Find out whether encoding adds a space by encoding a letter, which is more reliable than inspecting
        // every setting of the file that may add one.
        let alone = tokenizer.encode_with("a", SpecialTokens::Found).unwrap_or_default();
        tokenizer.adds_a_space = tokenizer.decode_all(&alone).starts_with(b" ")
            && matches!(spelling, Spelling::Text { strips: true, .. });
        tokenizer
    }

    /// Returns the tokenizer with the given roles.
    pub fn with_roles(self, roles: Roles) -> Self {
        Self { roles, ..self }
    }

    /// Makes the first token of each pair decode to the same bytes as the second one. Encoding never produces
    /// the first one.
    pub(super) fn with_equal(mut self, pairs: &[(usize, usize)]) -> Self {
        for &(id, of) in pairs {
            self.pieces[id] = self.pieces[of].clone();
        }
        self
    }

    /// Returns the names of the tokens that have a role, and the chat template.
    pub fn roles(&self) -> &Roles {
        &self.roles
    }

    /// Returns the id of a token, given its spelling in the file.
    pub fn id(&self, token: &str) -> Option<i32> {
        self.inner.token_to_id(token).map(|id| id as i32)
    }

    /// Returns a token as it is spelled in the file.
    pub fn token(&self, id: i32) -> Option<String> {
        self.inner.id_to_token(u32::try_from(id).ok()?)
    }

    /// Returns the ids of a text. `special` selects the treatment of special tokens.
    ///
    /// # Errors
    /// Returns an error if the text contains a character that no token represents, or if the `tokenizers`
    /// crate panics.
    pub fn encode_with(&self, text: &str, special: SpecialTokens) -> Result<Vec<i32>, TokenizerError> {
        let inner = match special {
            SpecialTokens::Added | SpecialTokens::Found => &self.inner,
            SpecialTokens::Text => &**self.literal.get_or_init(|| {
                let mut literal = self.inner.clone();
                literal.set_encode_special_tokens(true);
                Box::new(literal)
            }),
        };
        let encoded = guarded(|| inner.encode_fast(text, special == SpecialTokens::Added))
            .map_err(|reason| TokenizerError::Panicked { name: self.name.clone(), reason })?
            .map_err(|error| TokenizerError::Encode { name: self.name.clone(), reason: error.to_string() })?;
        Ok(encoded.get_ids().iter().map(|&id| id as i32).collect())
    }

    /// Returns a tokenizer.json of this tokenizer.
    ///
    /// # Panics
    /// Never panics: every tokenizer can be serialized.
    pub fn to_json(&self) -> String {
        self.inner.to_string(false).expect("a tokenizer that was read can be written")
    }

    /// Writes `tokenizer.json` and `tokenizer_config.json` to a folder, from which [`Bpe::open`] restores the
    /// same tokenizer with the same roles. Each file is replaced atomically.
    ///
    /// # Errors
    /// Returns an error if a file cannot be written.
    pub fn save(&self, folder: &Path) -> std::io::Result<()> {
        let mut config = self.roles.to_config();
        if self.roles.config.is_empty() {
            // Name the generic class. Otherwise, transformers would use the class for the model's type, which
            // may split words differently.
            config.insert("tokenizer_class".into(), "PreTrainedTokenizerFast".into());
        }
        let config = python_json::text(&config.into()).trim_end().to_string();
        for (name, text) in [("tokenizer_config.json", config), ("tokenizer.json", self.to_json())] {
            replace_file(&folder.join(name), |file| writeln!(file, "{text}"))?;
        }
        Ok(())
    }

    /// Returns the SHA-256 of [`Bpe::to_json`] in hexadecimal. Tokenizers with equal fingerprints produce the
    /// same ids.
    pub fn fingerprint(&self) -> String {
        Sha256::digest(self.to_json()).iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Returns `true` if merges alone determine the tokens of a word fragment with this character at its
    /// edge: the character is neither fused with adjacent unknown characters, nor is the fragment encoded as
    /// one token because it is a whole word in the vocabulary.
    pub(super) fn knows(&self, c: char) -> bool {
        let ModelWrapper::BPE(model) = self.inner.get_model() else { return false };
        if model.ignore_merges {
            return false;
        }
        let all_bytes = self.bytes.iter().all(Option::is_some);
        if self.spelling == Spelling::Bytes || model.byte_fallback && all_bytes {
            return all_bytes;
        }
        // Without an unknown token, unknown characters are dropped, and merges may cross the gap that they
        // leave.
        model.unk_token.is_some() && (!model.fuse_unk || self.id(c.encode_utf8(&mut [0; 4])).is_some())
    }

    /// Returns the bytes of all tokens, or `None` if merges can produce a token that is spelled differently
    /// from the text.
    pub(super) fn literal_tokens(&self) -> Option<impl Iterator<Item = &[u8]>> {
        let is_odd = |piece: &[u8]| piece.len() > 1 && piece.windows(3).any(|bytes| bytes == b"<0x");
        let is_literal = self.spelling == Spelling::Bytes || !self.pieces.iter().any(|piece| is_odd(piece));
        is_literal.then(|| self.pieces.iter().map(|piece| &**piece))
    }

    /// Appends the ids of valid UTF-8 text.
    fn encode_text(&self, text: &str, start: Start, ids: &mut Vec<i32>) -> Result<(), TokenizerError> {
        if text.is_empty() {
            return Ok(());
        }
        // Normalization prepends a space to each piece, so the leading space of a later piece is removed
        // first.
        let puts = start == Start::Within && self.cuts.prepends();
        let there = text.strip_prefix(' ').filter(|rest| puts && !rest.is_empty());
        ids.extend(self.encode_with(there.unwrap_or(text), SpecialTokens::Found)?);
        Ok(())
    }
}

/// Calls the `tokenizers` crate and converts a panic into an error: the crate panics on some of the files and
/// texts that it accepts.
///
/// # Errors
/// Returns the panic message if the call panics.
fn guarded<T>(call: impl FnOnce() -> T) -> Result<T, String> {
    // Using the tokenizer after a panic is safe because the call mutates only caches, which are consistent
    // after every step.
    catch_unwind(AssertUnwindSafe(call)).map_err(|panic| match panic.downcast::<String>() {
        Ok(said) => *said,
        Err(panic) => panic.downcast_ref::<&str>().copied().unwrap_or("no reason given").to_string(),
    })
}

impl Tokenizer for Bpe {
    fn name(&self) -> &str {
        &self.name
    }

    fn vocabulary(&self) -> usize {
        self.pieces.len()
    }

    /// Encodes bytes that are not valid UTF-8 as single-byte tokens if the vocabulary is one of bytes, and
    /// returns an error otherwise.
    fn encode_piece(&self, piece: &[u8], mut start: Start, ids: &mut Vec<i32>) -> Result<(), TokenizerError> {
        let mut offset = 0;
        for chunk in piece.utf8_chunks() {
            self.encode_text(chunk.valid(), start, ids)?;
            offset += chunk.valid().len() as u64;
            for &byte in chunk.invalid() {
                let id = self.bytes[usize::from(byte)].filter(|_| self.spelling == Spelling::Bytes);
                let none = || TokenizerError::NoByte { name: self.name.clone(), byte, offset };
                ids.push(id.ok_or_else(none)?);
                offset += 1;
            }
            start = Start::Within;
        }
        Ok(())
    }

    fn last_cut(&self, text: &[u8]) -> Option<usize> {
        self.cuts.last(text, self)
    }

    fn decode(&self, token: i32, bytes: &mut Vec<u8>) {
        if let Some(piece) = usize::try_from(token).ok().and_then(|id| self.pieces.get(id)) {
            bytes.extend_from_slice(piece);
        }
    }

    fn adds_a_space(&self) -> bool {
        self.adds_a_space
    }

    fn beginning(&self) -> Option<i32> {
        let added = self.encode_with("", SpecialTokens::Added).unwrap_or_default();
        let begins = self.roles.bos.as_deref().and_then(|token| self.id(token));
        added.first().copied().filter(|first| Some(*first) == begins)
    }

    fn end_of_text(&self) -> Option<i32> {
        let is_said = self.roles.config.contains_key("eos_token");
        let end = self.roles.eos.as_deref().or(self.usual_end.filter(|_| !is_said));
        end.and_then(|token| self.id(token))
    }

    fn is_special(&self, token: i32) -> bool {
        usize::try_from(token).ok().and_then(|id| self.is_special.get(id)).is_some_and(|special| *special)
    }
}

impl std::fmt::Debug for Bpe {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Bpe({}, {} tokens)", self.name, self.pieces.len())
    }
}
