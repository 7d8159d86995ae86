//! Generation settings in a model's files.

use super::save::failed;
use gradloom_core::error::{Error, ErrorKind, Result};
use gradloom_runtime::files::replace_file;
use gradloom_runtime::{python_json, regular_file};
use serde_json::{Map, Value};
use std::io;
use std::path::Path;

/// Name of the file with the settings.
const FILE: &str = "generation_config.json";
/// Maximum size of the file in bytes.
const LARGEST: u64 = 16 << 20;

/// Keys of tokens, which `config.json` contains too.
const TOKENS: [&str; 3] = ["bos_token_id", "eos_token_id", "pad_token_id"];
/// Keys that `config.json` contained before the separate file was introduced.
const SETTINGS: [&str; 14] = [
    "do_sample",
    "temperature",
    "top_k",
    "top_p",
    "min_p",
    "typical_p",
    "repetition_penalty",
    "no_repeat_ngram_size",
    "num_beams",
    "length_penalty",
    "early_stopping",
    "max_length",
    "min_length",
    "bad_words_ids",
];

/// Generation settings of a model, as in transformers' `generation_config.json`: the tokens that begin and
/// end a text, and sampling settings.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Generation {
    keys: Map<String, Value>,
    /// True if a file specifies the settings, possibly without a token that ends a text.
    is_said: bool,
}

impl Generation {
    /// Reads the settings from the file in a folder or, without that file, from `config.json`.
    ///
    /// If the file exists, `config.json` is ignored: as in `from_pretrained` of transformers, a token that is
    /// missing or null in the file is none.
    ///
    /// # Errors
    /// Returns an error if the file exists but cannot be read, or is not a JSON object.
    pub fn open(folder: impl AsRef<Path>, config: Option<&Value>) -> Result<Self> {
        let path = folder.as_ref().join(FILE);
        let unusable = |reason: String| {
            Error::new(ErrorKind::File, format!("{}: {reason}", path.display()))
                .help("get the file once more, or remove it: `config.json` says the tokens that end a text")
        };
        match regular_file::read(&path, LARGEST) {
            Ok(bytes) => match python_json::parse(&bytes) {
                Ok(Value::Object(keys)) => Ok(Self { keys, is_said: true }),
                Ok(_) => Err(unusable("it is no JSON object".into())),
                Err(error) => Err(unusable(format!("it is no JSON: {error}"))),
            },
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                Ok(config.map(Self::of_config).unwrap_or_default())
            }
            Err(error) => Err(unusable(format!("cannot be read: {error}"))),
        }
    }

    /// Returns the settings in a `config.json`, such as that of a GGUF file.
    pub fn of_config(config: &Value) -> Self {
        let value = |key: &&str| config.get(*key).filter(|value| !value.is_null()).cloned();
        let keys = TOKENS.iter().chain(&SETTINGS);
        let keys = keys.filter_map(|key| Some((key.to_string(), value(key)?))).collect();
        Self { keys, is_said: false }
    }

    /// Returns the value of a key, unless it is missing or null.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.keys.get(key).filter(|value| !value.is_null())
    }

    /// Returns the tokens that end a text, in the order of the file.
    pub fn ends(&self) -> Vec<i32> {
        let said = self.get("eos_token_id");
        let all =
            said.and_then(Value::as_array).map_or(said.map_or(&[][..], std::slice::from_ref), Vec::as_slice);
        all.iter().filter_map(token).collect()
    }

    /// Writes the file, unless there are no settings and no file was read.
    ///
    /// # Errors
    /// Returns an error if the file cannot be written.
    pub fn save(&self, folder: impl AsRef<Path>) -> Result<()> {
        if self.keys.is_empty() && !self.is_said {
            return Ok(());
        }
        let path = folder.as_ref().join(FILE);
        let text = python_json::text(&Value::Object(self.keys.clone()));
        replace_file(&path, |out| out.write_all(text.as_bytes())).map_err(|error| failed(&path, &error))
    }
}

/// Returns the id of a token, which some Python programs write as a float.
fn token(value: &Value) -> Option<i32> {
    let id = value.as_i64().or_else(|| value.as_f64().filter(|id| id.fract() == 0.0).map(|id| id as i64))?;
    i32::try_from(id).ok().filter(|id| *id >= 0)
}
