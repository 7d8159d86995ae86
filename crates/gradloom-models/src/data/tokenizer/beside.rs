//! Additional files in a tokenizer's folder, which define further tokens and roles.
//!
//! In: `tokenizer_config.json`, `special_tokens_map.json`, `added_tokens.json`, `chat_template.jinja` and
//! `config.json`, all optional. Out: the JSON value of a tokenizer.json with all tokens, and [`Roles`].
//! Invariant: tokens, ids and roles are those of `AutoTokenizer` in transformers 5, as determined by
//! `_from_pretrained` in its `tokenization_utils_base.py` and `__init__` in its
//! `tokenization_utils_tokenizers.py`; a malformed file is an error.

use super::open::read;
use super::special::{content, named};
use super::{Roles, TokenizerError};
use gradloom_runtime::python_json;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Roles whose tokens are added first, in this order.
const ROLES: [&str; 7] =
    ["bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"];
/// Roles of [`END`] in a GPT-2 tokenizer unless the files assign them.
const USUAL: [&str; 3] = ["bos_token", "eos_token", "unk_token"];
const END: &str = "<|endoftext|>";

/// Contents of the additional files.
pub(super) struct Beside {
    config: Map<String, Value>,
    /// Tokens other than those with a role, by id.
    tokens: BTreeMap<u64, Value>,
    /// True if `tokens` is the complete list, which replaces the added tokens of a tokenizer.json that is
    /// rebuilt.
    has_all: bool,
    /// True if the tokenizer is rebuilt as a GPT-2 tokenizer, whatever pre-tokenizer the file specifies.
    is_gpt2: bool,
}

impl Beside {
    /// Reads the additional files in a folder.
    ///
    /// # Errors
    /// Returns an error if a file cannot be read or is malformed.
    pub(super) fn of_folder(folder: &Path) -> Result<Self, TokenizerError> {
        let object = |name: &str| -> Result<Option<Map<String, Value>>, TokenizerError> {
            let path = folder.join(name);
            let parsed = read(&path)?.map(|text| python_json::parse_object(&text)).transpose();
            parsed.map_err(|reason| malformed(&path, reason))
        };
        let mut config = object("tokenizer_config.json")?.unwrap_or_default();
        // Ignore errors in the model's configuration: they are reported when the model is read.
        let model = object("config.json").ok().flatten().unwrap_or_default();
        let is_gpt2 = is_gpt2(&config, &model);
        let mut tokens = BTreeMap::new();
        let has_all = config.contains_key("added_tokens_decoder");
        if has_all {
            let path = folder.join("tokenizer_config.json");
            let all = config["added_tokens_decoder"].as_object();
            let all = all.ok_or_else(|| malformed(&path, "`added_tokens_decoder` is no object".into()))?;
            for (id, token) in all {
                let read = id.parse().ok().zip(flagged(token, false));
                let reason = || format!("`added_tokens_decoder` has {token} with the id {id:?}");
                let (id, token) = read.ok_or_else(|| malformed(&path, reason()))?;
                tokens.insert(id, token);
            }
        } else {
            for (name, value) in object("special_tokens_map.json")?.into_iter().flatten() {
                put_of_map(&mut config, name, value);
            }
            let special: BTreeSet<String> = named(&config)
                .map(|(_, token)| token)
                .chain(extra(&config))
                .filter_map(content)
                .map(String::from)
                .collect();
            for (token, id) in object("added_tokens.json")?.into_iter().flatten() {
                let reason = || format!("the token {token:?} has the id {id}");
                let place = || malformed(&folder.join("added_tokens.json"), reason());
                let is_special = special.contains(&token);
                let flags = json!({"content": token, "special": is_special, "normalized": !is_special});
                let id = id.as_u64().ok_or_else(place)?;
                tokens.extend(flagged(&flags, false).map(|token| (id, token)));
            }
        }
        if let Some(template) = read(&folder.join("chat_template.jinja"))? {
            config.insert("chat_template".into(), String::from_utf8_lossy(&template).into());
        }
        Ok(Self { config, tokens, has_all, is_gpt2 })
    }

    /// Returns `true` if encoding inserts a space before a text.
    pub(super) fn adds_a_space(&self) -> bool {
        self.config.get("add_prefix_space") == Some(&Value::Bool(true))
    }

    /// Returns the roles without adding any tokens.
    pub(super) fn roles(self) -> Roles {
        Roles::of_config(self.config)
    }

    /// Completes a tokenizer made from `vocab.json` and `merges.txt`, which is a GPT-2 tokenizer, and returns
    /// the roles. Only the configuration specifies the tokens that surround a text.
    pub(super) fn complete_two(mut self, file: &mut Value) -> Roles {
        self.is_gpt2 = true;
        let config = self.config.clone();
        let roles = self.complete(file);
        let around = |flag: &str, role: &Option<String>| {
            role.clone().filter(|_| config.get(flag) == Some(&Value::Bool(true)))
        };
        let (bos, eos) = (around("add_bos_token", &roles.bos), around("add_eos_token", &roles.eos));
        if bos.is_none() && eos.is_none() {
            return roles;
        }
        let special = |token: &String| json!({"SpecialToken": {"id": token, "type_id": 0}});
        let sequence = |name: &str| json!({"Sequence": {"id": name, "type_id": 0}});
        let around = |middle: &str| -> Vec<Value> {
            bos.iter().map(special).chain([sequence(middle)]).chain(eos.iter().map(special)).collect()
        };
        let ids = bos.iter().chain(&eos).map(|token| {
            (token.clone(), json!({"id": token, "ids": [id_of(file, token)], "tokens": [token]}))
        });
        let ids: Map<String, Value> = ids.collect();
        let pair: Vec<Value> = around("A").into_iter().chain(around("B")).collect();
        file["post_processor"] =
            json!({"type": "TemplateProcessing", "single": around("A"), "pair": pair, "special_tokens": ids});
        roles
    }

    /// Adds the tokens that a tokenizer.json lacks or defines with other flags, and returns the roles.
    pub(super) fn complete(mut self, file: &mut Value) -> Roles {
        if !file["model"].is_object() {
            // Leave the file unchanged: its reader reports the error.
            return self.roles();
        }
        let own: Vec<Value> = file["added_tokens"].as_array().cloned().unwrap_or_default();
        let by_id = own.iter().filter_map(|token| Some((token["id"].as_u64()?, flagged(token, false)?)));
        let by_id: BTreeMap<u64, Value> = by_id.collect();
        // If a token is malformed, keep all of them, so that the file's reader reports the error.
        let is_sound = by_id.len() == own.len();
        let mut added = Added::of(if self.is_gpt2 && is_sound { Vec::new() } else { own });
        if !self.has_all {
            self.tokens.extend(by_id);
        }
        if self.is_gpt2 {
            self.rebuild(file);
        }
        let is_role = |name: &str| ROLES.contains(&name);
        let roles = ROLES.iter().filter_map(|role| self.config.get(*role));
        let others = named(&self.config).filter(|(name, _)| !is_role(name)).map(|(_, token)| token);
        let all_named: Vec<&Value> = roles.chain(others).filter(|token| content(token).is_some()).collect();
        let names: BTreeSet<&str> = all_named.iter().filter_map(|token| content(token)).collect();
        let mut wanted: Vec<Value> = self.tokens.into_values().filter(|token| !added.has(token)).collect();
        let mut known: BTreeSet<String> = added.places.keys().cloned().collect();
        known.extend(wanted.iter().filter_map(content).map(String::from));
        for token in all_named.iter().copied().chain(extra(&self.config)) {
            if let Some(flagged) = flagged(token, token.is_string())
                && known.insert(content(token).unwrap_or_default().to_string())
            {
                wanted.push(flagged);
            }
        }
        for mut token in wanted {
            if content(&token).is_some_and(|text| names.contains(text)) {
                token["special"] = true.into();
            }
            added.add(token, &file["model"]["vocab"]);
        }
        file["added_tokens"] = added.tokens.into();
        Roles::of_config(self.config)
    }

    /// Rebuilds a tokenizer.json as a GPT-2 tokenizer. Unlike transformers, which keeps only the vocabulary,
    /// this also keeps a pre-tokenizer other than `ByteLevel`, because the model was trained with it.
    fn rebuild(&mut self, file: &mut Value) {
        if file["pre_tokenizer"]["type"] == "ByteLevel" {
            file["pre_tokenizer"]["add_prefix_space"] = self.adds_a_space().into();
        }
        let is_known = |token: &Value| content(token) == Some(END);
        // Unlike transformers, do not add a token that is missing from the vocabulary: the model has no
        // embedding for it.
        if file["model"]["vocab"].get(END).is_some() || self.tokens.values().any(is_known) {
            for role in USUAL {
                self.config.entry(role).or_insert_with(|| END.into());
            }
        }
        self.config.entry("tokenizer_class").or_insert_with(|| "GPT2Tokenizer".into());
    }
}

/// Returns `true` if `AutoTokenizer` would construct a GPT-2 tokenizer.
fn is_gpt2(config: &Map<String, Value>, model: &Map<String, Value>) -> bool {
    let class = config.get("tokenizer_class").or(model.get("tokenizer_class")).and_then(Value::as_str);
    let kind = model.get("model_type").and_then(Value::as_str);
    match class.map(|class| class.strip_suffix("Fast").unwrap_or(class)) {
        Some(class) => class == "GPT2Tokenizer" && kind != Some("mistral"),
        None => kind == Some("gpt2"),
    }
}

/// Overrides a value of the configuration with one of `special_tokens_map.json`.
fn put_of_map(config: &mut Map<String, Value>, name: String, value: Value) {
    let typed = |token: Value| match &token {
        Value::Object(flags) if flags.contains_key("content") => {
            let mut token = flagged(&token, true).unwrap_or_default();
            token["special"] = true.into();
            token["__type"] = "AddedToken".into();
            token
        }
        _ => token,
    };
    let list = |value: Value| match value {
        Value::Array(tokens) => tokens.into_iter().map(typed).collect(),
        other => other,
    };
    match name.as_str() {
        "additional_special_tokens"
            if config.contains_key("extra_special_tokens") || extra(config).next().is_some() => {}
        "additional_special_tokens" => drop(config.insert(name, list(value))),
        "extra_special_tokens" if value.is_array() => {
            let mut all: Vec<Value> = extra(config).cloned().collect();
            for token in list(value).as_array().into_iter().flatten() {
                if !all.contains(token) {
                    all.push(token.clone());
                }
            }
            config.insert(name, all.into());
        }
        "extra_special_tokens" => drop(config.insert(name, value)),
        _ => drop(config.insert(name, typed(value))),
    }
}

/// Returns the special tokens of a configuration that have no role.
fn extra(config: &Map<String, Value>) -> impl Iterator<Item = &Value> {
    let list = |name: &str| config.get(name).filter(|list| content_is_said(list));
    let said = list("extra_special_tokens").or_else(|| list("additional_special_tokens"));
    said.and_then(Value::as_array).into_iter().flatten()
}

fn content_is_said(list: &Value) -> bool {
    !list.is_null() && *list != json!([]) && *list != json!({})
}

/// Returns a token reduced to its content and a complete set of flags. The parameter `special` is the default
/// of the flag `special`.
fn flagged(token: &Value, special: bool) -> Option<Value> {
    let flag = |name: &str, usual: bool| token[name].as_bool().unwrap_or(usual);
    let special = flag("special", special);
    Some(json!({
        "content": content(token)?, "single_word": flag("single_word", false),
        "lstrip": flag("lstrip", false), "rstrip": flag("rstrip", false),
        "normalized": flag("normalized", !special), "special": special,
    }))
}

/// The `added_tokens` of a tokenizer.json.
struct Added {
    tokens: Vec<Value>,
    /// Index of each token in the list.
    places: BTreeMap<String, usize>,
    /// One more than the largest id in the list.
    next: u64,
}

impl Added {
    fn of(tokens: Vec<Value>) -> Self {
        let place = |(place, token): (usize, &Value)| Some((content(token)?.to_string(), place));
        let places = tokens.iter().enumerate().filter_map(place).collect();
        let next = tokens.iter().filter_map(|token| token["id"].as_u64()).max();
        Self { places, next: next.map_or(0, |id| id.saturating_add(1)), tokens }
    }

    fn of_text(&self, text: &str) -> Option<&Value> {
        self.places.get(text).map(|place| &self.tokens[*place])
    }

    /// Returns `true` if the same token with the same flags is already in the list.
    fn has(&self, token: &Value) -> bool {
        let own = content(token).and_then(|text| self.of_text(text));
        own.is_some_and(|own| flagged(own, false).as_ref() == Some(token))
    }

    /// Adds a token with its existing id or the next free one, like the `tokenizers` crate.
    fn add(&mut self, mut token: Value, vocabulary: &Value) {
        let text = content(&token).unwrap_or_default().to_string();
        if text.is_empty() {
            return;
        }
        let size = vocabulary.as_object().map_or(0, Map::len) as u64;
        let known = self.of_text(&text).map(|token| &token["id"]).or_else(|| vocabulary.get(&text));
        token["id"] = known.cloned().unwrap_or_else(|| self.next.max(size).into());
        self.next = self.next.max(token["id"].as_u64().map_or(0, |id| id.saturating_add(1)));
        match self.places.get(&text) {
            Some(place) => self.tokens[*place] = token,
            None => {
                self.places.insert(text, self.tokens.len());
                self.tokens.push(token);
            }
        }
    }
}

fn id_of(file: &Value, token: &str) -> Option<u64> {
    let mut added = file["added_tokens"].as_array().into_iter().flatten();
    added.find(|added| content(added) == Some(token))?["id"].as_u64()
}

fn malformed(path: &Path, reason: String) -> TokenizerError {
    TokenizerError::Malformed { name: path.display().to_string(), reason }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_damaged_file_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let put = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
        let wrong = || Beside::of_folder(folder.path()).err().unwrap().to_string();
        for (text, expected) in [("{", "EOF while parsing"), ("[]", "it is no JSON object"), ("", "EOF")] {
            put("special_tokens_map.json", text);
            assert!(
                wrong().contains("special_tokens_map.json: ") && wrong().contains(expected),
                "{}",
                wrong()
            );
        }
        put("special_tokens_map.json", "{}");
        put("added_tokens.json", r#"{"<a>": 1.5}"#);
        assert!(wrong().ends_with("added_tokens.json: the token \"<a>\" has the id 1.5"), "{}", wrong());
        for (decoder, expected) in [
            ("1", "`added_tokens_decoder` is no object"),
            (
                r#"{"x": {"content": "a"}}"#,
                "`added_tokens_decoder` has {\"content\":\"a\"} with the id \"x\"",
            ),
            (r#"{"7": null}"#, "`added_tokens_decoder` has null with the id \"7\""),
        ] {
            put("tokenizer_config.json", &format!("{{\"added_tokens_decoder\": {decoder}}}"));
            assert!(wrong().ends_with(&format!("tokenizer_config.json: {expected}")), "{}", wrong());
        }
    }

    /// Every file may contain Python's extensions of JSON (`NaN`, `Infinity`, lone surrogates) and a leading
    /// byte order mark.
    #[test]
    fn python_may_have_written_any_of_them() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["tokenizer_config.json", "special_tokens_map.json", "added_tokens.json"] {
            let text = match name {
                "added_tokens.json" => "\u{feff}{\"\\ud83d\": 7}",
                _ => "\u{feff}{\"model_max_length\": Infinity, \"x\": [NaN, 1e400], \"eos_token\": \"a\"}",
            };
            fs::write(folder.path().join(name), text).unwrap();
        }
        let beside = Beside::of_folder(folder.path()).unwrap();
        assert_eq!(beside.config["eos_token"], "a");
        assert_eq!(beside.tokens[&7]["content"], "\u{fffd}");
    }
}
