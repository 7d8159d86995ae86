//! Loading of tokenizers from files and from lists in memory.
//!
//! In: a path, or tokens with merges. Out: [`Bpe`]. Invariant: every tokenizer is converted to a
//! tokenizer.json first, so the same guarantees apply to all of them.

use super::beside::Beside;
use super::{Bpe, Roles, TokenizerError, scores as by_score};
use gradloom_runtime::{python_json, regular_file};
use serde_json::{Map, Value, json};
use std::io::ErrorKind;
use std::path::Path;

/// Maximum size of a tokenizer's file in bytes. The file of a vocabulary of 256,000 tokens has about 30 MB.
const LARGEST: u64 = 1 << 28;

/// Reads a file, or returns `None` if it does not exist.
pub(super) fn read(path: &Path) -> Result<Option<Vec<u8>>, TokenizerError> {
    match regular_file::read(path, LARGEST) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(source) => Err(TokenizerError::Unreadable { path: path.to_path_buf(), source }),
    }
}

/// The tokens and properties of a byte-pair encoding, as stored in a GGUF file.
#[derive(Clone, Debug, Default)]
pub struct Vocabulary {
    /// The tokens, indexed by id.
    pub tokens: Vec<String>,
    /// Pairs of tokens separated by a space, in the order in which they are merged.
    pub merges: Vec<String>,
    /// Score of each token, from which SentencePiece encodings derive their merges. Empty for encodings over
    /// bytes.
    pub scores: Vec<f32>,
    /// Ids of control tokens.
    pub special: Vec<i32>,
    /// Ids of other tokens that are recognized before a text is split into words.
    pub added: Vec<i32>,
    /// Regular expressions that split a text into words, applied one after the other to the parts that
    /// result. Empty for GPT-2's pattern.
    pub words: Vec<String>,
    /// True if a word that is a token is always encoded as that token, even if merges would not produce it,
    /// as in Llama 3.
    pub whole_words: bool,
    /// True if [`SpecialTokens::Added`](super::SpecialTokens::Added) adds [`Roles::bos`] at the beginning of
    /// a text.
    pub begins_with_bos: bool,
    /// For SentencePiece encodings, true if no space is inserted before a text.
    pub starts_plain: bool,
    /// Tokens that have a role.
    pub roles: Roles,
}

impl Bpe {
    /// Opens a tokenizer.
    ///
    /// A folder contains a tokenizer.json or GPT-2's `vocab.json` and `merges.txt`. As in `AutoTokenizer` of
    /// transformers, further tokens, roles and the chat template come from `tokenizer_config.json`,
    /// `special_tokens_map.json`, `added_tokens.json` and `chat_template.jinja` in the folder. If the path
    /// leads to a tokenizer.json itself, its tokens are those in the file, and only the roles come from the
    /// other files in its folder.
    ///
    /// # Errors
    /// Returns an error if there is no tokenizer, or a file cannot be read, is malformed, or is unsupported.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, TokenizerError> {
        Self::open_path(path.as_ref())
    }

    fn open_path(path: &Path) -> Result<Self, TokenizerError> {
        let (folder, file) = match path.is_dir() {
            true => (path, path.join("tokenizer.json")),
            false => (path.parent().unwrap_or(path), path.to_path_buf()),
        };
        let object = |path: &Path, text: &[u8]| {
            let name = path.display().to_string();
            python_json::parse(text).map_err(|reason| TokenizerError::Malformed { name, reason })
        };
        let name = file.display().to_string();
        if let Some(text) = read(&file)? {
            let mut value = object(&file, &text)?;
            let beside = Beside::of_folder(folder)?;
            let roles = if path.is_dir() { beside.complete(&mut value) } else { beside.roles() };
            return Ok(Self::from_value(&value, &name)?.with_roles(roles));
        }
        if !path.is_dir() {
            return Err(TokenizerError::Missing { path: path.to_path_buf() });
        }
        let (vocabulary, merges) = (path.join("vocab.json"), path.join("merges.txt"));
        let (Some(tokens), Some(merges)) = (read(&vocabulary)?, read(&merges)?) else {
            return Err(TokenizerError::NoTokenizer { path: path.to_path_buf() });
        };
        let name = vocabulary.display().to_string();
        let tokens = match object(&vocabulary, &tokens)? {
            Value::Object(tokens) => tokens,
            _ => {
                let reason = "it is no JSON object".to_string();
                return Err(TokenizerError::Malformed { name, reason });
            }
        };
        let merges = String::from_utf8_lossy(&merges);
        let merges = merges.lines().filter(|line| !line.is_empty() && !line.starts_with("#version"));
        let merges = merges.map(|merge| Value::String(merge.to_string())).collect();
        let mut value = over_bytes(tokens, merges, Vec::new(), &[]);
        let roles = Beside::of_folder(path)?.complete_two(&mut value);
        Ok(Self::from_value(&value, &name)?.with_roles(roles))
    }

    /// Creates a tokenizer from tokens and merges. Error messages refer to it as `name`.
    ///
    /// # Errors
    /// Returns an error if an id is out of range, or a merge involves text that is not a token.
    pub fn from_vocabulary(vocabulary: &Vocabulary, name: &str) -> Result<Self, TokenizerError> {
        let malformed = |reason: String| TokenizerError::Malformed { name: name.to_string(), reason };
        let Vocabulary {
            tokens,
            merges,
            scores,
            special,
            added: others,
            words,
            whole_words,
            begins_with_bos,
            starts_plain,
            roles,
        } = vocabulary;
        let ids: Map<String, Value> =
            tokens.iter().zip(0..).map(|(token, id)| (token.clone(), json!(id))).collect();
        // As in llama.cpp, encoding produces the last of several equal tokens, and all of them decode alike.
        let of_text = |id: usize| ids[&tokens[id]].as_u64().map_or(id, |id| id as usize);
        let equal: Vec<(usize, usize)> =
            (0..tokens.len()).map(|id| (id, of_text(id))).filter(|(id, of)| id != of).collect();
        let mut found = Vec::new();
        for (&id, is_special) in
            special.iter().zip(std::iter::repeat(true)).chain(others.iter().zip(std::iter::repeat(false)))
        {
            let token = usize::try_from(id).ok().and_then(|id| tokens.get(id));
            let token = token.ok_or_else(|| malformed(format!("there is no token {id}")))?;
            if ids[token] != id {
                continue;
            }
            found.push(added(token, &json!(id), is_special));
        }
        let mut file = if scores.is_empty() {
            let merges = merges.iter().map(|merge| Value::String(merge.clone())).collect();
            let mut file = over_bytes(ids.clone(), merges, found, words);
            file["model"]["ignore_merges"] = json!(whole_words);
            file
        } else if scores.len() == tokens.len() {
            let merges = by_score::merges(tokens, scores).map_err(malformed)?;
            let merges = merges.into_iter().map(|(left, right)| json!([left, right])).collect();
            sentence_piece(ids.clone(), merges, found, roles.unk.as_deref(), *starts_plain)
        } else {
            return Err(malformed(format!("it has {} tokens and {} scores", tokens.len(), scores.len())));
        };
        if *begins_with_bos {
            let bos = roles.bos.as_deref().unwrap_or_default();
            let id = file["model"]["vocab"][bos].clone();
            if id.is_null() {
                return Err(malformed(format!("there is no token {bos:?} to begin a text with")));
            }
            let sequence = |of: &str, id: u32| json!({"Sequence": {"id": of, "type_id": id}});
            file["post_processor"] = json!({
                "type": "TemplateProcessing",
                "single": [{"SpecialToken": {"id": bos, "type_id": 0}}, sequence("A", 0)],
                "pair": [sequence("A", 0), sequence("B", 1)],
                "special_tokens": {bos: {"id": bos, "ids": [id], "tokens": [bos]}},
            });
        }
        Ok(Self::from_value(&file, name)?.with_roles(roles.clone()).with_equal(&equal))
    }
}

fn added(token: &str, id: &Value, special: bool) -> Value {
    json!({"id": id, "content": token, "single_word": false, "lstrip": false, "rstrip": false,
           "normalized": false, "special": special})
}

/// Returns a tokenizer.json of an encoding over bytes, such as GPT-2's.
pub(super) fn over_bytes(
    tokens: Map<String, Value>,
    merges: Vec<Value>,
    added: Vec<Value>,
    words: &[String],
) -> Value {
    let bytes = |words: bool| {
        json!({
            "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": words,
        })
    };
    let words = if words.is_empty() {
        bytes(true)
    } else {
        let split = |words: &String| {
            let pattern = json!({"Regex": words});
            json!({"type": "Split", "pattern": pattern, "behavior": "Isolated", "invert": false})
        };
        let steps: Vec<Value> = words.iter().map(split).chain([bytes(false)]).collect();
        json!({"type": "Sequence", "pretokenizers": steps})
    };
    json!({
        "version": "1.0", "added_tokens": added, "pre_tokenizer": words, "decoder": bytes(true),
        "model": {"type": "BPE", "vocab": tokens, "merges": merges},
    })
}

/// Returns a tokenizer.json of an encoding over characters with byte fallback, such as Llama 2's.
fn sentence_piece(
    tokens: Map<String, Value>,
    merges: Vec<Value>,
    added: Vec<Value>,
    unknown: Option<&str>,
    starts_plain: bool,
) -> Value {
    let replace =
        |from: &str, to: &str| json!({"type": "Replace", "pattern": {"String": from}, "content": to});
    let (mut normalizers, mut decoders) = (vec![], vec![replace("▁", " ")]);
    decoders.extend([json!({"type": "ByteFallback"}), json!({"type": "Fuse"})]);
    if !starts_plain {
        normalizers.push(json!({"type": "Prepend", "prepend": "▁"}));
        decoders.push(json!({"type": "Strip", "content": " ", "start": 1, "stop": 0}));
    }
    normalizers.push(replace(" ", "▁"));
    json!({
        "version": "1.0", "added_tokens": added,
        "normalizer": {"type": "Sequence", "normalizers": normalizers},
        "decoder": {"type": "Sequence", "decoders": decoders},
        "model": {
            "type": "BPE", "unk_token": unknown, "fuse_unk": true, "byte_fallback": true,
            "vocab": tokens, "merges": merges,
        },
    })
}
