//! The `config.json` of transformers.

use crate::any_model::AnyConfig;
use crate::gpt2::Gpt2Config;
use crate::llama::{LlamaConfig, Rotary, RotaryScaling};
use gradloom_core::error::{Error, ErrorKind, Result};
use serde_json::{Map, Value, json};

/// Converts a `config.json` to a model configuration. Error messages refer to the file as `path`.
///
/// The supported model types are `gpt2`, `llama` and `mistral`. Keys that do not affect the computed values
/// are ignored.
///
/// # Errors
/// Returns an error if `config` is not an object, if a key is missing or has the wrong type, or if a key
/// specifies an unsupported feature.
pub fn from_json(config: &Value, path: &str) -> Result<AnyConfig> {
    let Some(map) = config.as_object() else {
        return Err(wrong(path, "it is no JSON object".into()));
    };
    let keys = Keys { map, path, parent: "" };
    match keys.text("model_type", None)? {
        "gpt2" => gpt2(&keys).map(AnyConfig::Gpt2),
        "llama" => llama(&keys, &LLAMA).map(AnyConfig::Llama),
        "mistral" => {
            // If the key is missing, assume the default window of transformers.
            let window = match keys.map.contains_key("sliding_window") {
                true => keys.optional_size("sliding_window")?,
                false => Some(4096),
            };
            let config = llama(&keys, &MISTRAL)?;
            let window = window.filter(|window| *window < config.context);
            Ok(AnyConfig::Llama(LlamaConfig { window, ..config }))
        }
        _ => Err(keys.unsupported("model_type", "gpt2, llama or mistral")),
    }
}

fn gpt2(keys: &Keys<'_>) -> Result<Gpt2Config> {
    let activation = keys.text("activation_function", Some("gelu_new"))?;
    // Accept all names of the tanh approximation.
    if !["gelu_new", "gelu_pytorch_tanh", "gelu_python_tanh", "gelu_fast", "gelu_accurate"]
        .contains(&activation)
    {
        return Err(keys.unsupported("activation_function", "gelu_new or gelu_pytorch_tanh"));
    }
    for (key, known) in [
        ("scale_attn_weights", true),
        ("scale_attn_by_inverse_layer_idx", false),
        ("add_cross_attention", false),
    ] {
        if keys.flag(key, known)? != known {
            return Err(keys.unsupported(key, if known { "true" } else { "false" }));
        }
    }
    Ok(Gpt2Config {
        vocabulary: keys.first_size(&["vocab_size"], 50257)?,
        context: keys.first_size(&["n_positions", "max_position_embeddings"], 1024)?,
        width: keys.first_size(&["n_embd", "hidden_size"], 768)?,
        heads: keys.first_size(&["n_head", "num_attention_heads"], 12)?,
        layers: keys.first_size(&["n_layer", "num_hidden_layers"], 12)?,
        dropout: keys.number("resid_pdrop", Some(0.0))?,
        mlp_width: keys.optional_size("n_inner")?,
        epsilon: keys.number("layer_norm_epsilon", Some(1e-5))?,
        tied: keys.flag("tie_word_embeddings", true)?,
    })
}

/// Defaults of transformers for missing keys.
struct Usual {
    context: usize,
    mlp_width: usize,
    /// Number of key heads, or `None` for the number of heads.
    key_heads: Option<usize>,
}

const LLAMA: Usual = Usual { context: 2048, mlp_width: 11008, key_heads: None };
const MISTRAL: Usual = Usual { context: 131_072, mlp_width: 14336, key_heads: Some(8) };

fn llama(keys: &Keys<'_>, usual: &Usual) -> Result<LlamaConfig> {
    // Accept both names of the function.
    if !["silu", "swish"].contains(&keys.text("hidden_act", Some("silu"))?) {
        return Err(keys.unsupported("hidden_act", "silu"));
    }
    let (width, heads) =
        (keys.first_size(&["hidden_size"], 4096)?, keys.first_size(&["num_attention_heads"], 32)?);
    let key_heads = match keys.map.get("num_key_value_heads") {
        None => usual.key_heads,
        Some(_) => keys.optional_size("num_key_value_heads")?,
    };
    Ok(LlamaConfig {
        vocabulary: keys.first_size(&["vocab_size"], 32000)?,
        context: keys.first_size(&["max_position_embeddings"], usual.context)?,
        width,
        mlp_width: keys.first_size(&["intermediate_size"], usual.mlp_width)?,
        layers: keys.first_size(&["num_hidden_layers"], 32)?,
        heads,
        key_heads: key_heads.unwrap_or(heads),
        depth: keys.optional_size("head_dim")?.unwrap_or(width / heads.max(1)),
        window: None,
        epsilon: keys.number("rms_norm_eps", Some(1e-6))?,
        rotary: rotary(keys)?,
        tied: keys.flag("tie_word_embeddings", false)?,
        attention_bias: keys.flag("attention_bias", false)?,
        mlp_bias: keys.flag("mlp_bias", false)?,
    })
}

/// Reads the rotary settings in the format of transformers 5 (`rope_parameters`) or earlier (`rope_theta`,
/// and an optional `rope_scaling`).
fn rotary(keys: &Keys<'_>) -> Result<Rotary> {
    let base = keys.number("rope_theta", Some(10_000.0))?;
    let found = ["rope_parameters", "rope_scaling"].into_iter().find_map(|key| keys.object(key).transpose());
    let Some(inner) = found.transpose()? else { return Ok(Rotary { base, scaling: RotaryScaling::None }) };
    let base = inner.number("rope_theta", Some(base))?;
    // Fall back to `type`, the former name of `rope_type`.
    let key = if inner.map.contains_key("rope_type") { "rope_type" } else { "type" };
    let scaling = match inner.text(key, Some("default"))? {
        "default" => RotaryScaling::None,
        "linear" => RotaryScaling::Linear { factor: inner.number("factor", None)? },
        "llama3" => RotaryScaling::Llama3 {
            factor: inner.number("factor", None)?,
            low_frequency_factor: inner.number("low_freq_factor", None)?,
            high_frequency_factor: inner.number("high_freq_factor", None)?,
            original_context: inner.size("original_max_position_embeddings", None)?,
        },
        _ => return Err(inner.unsupported(key, "default, linear or llama3")),
    };
    Ok(Rotary { base, scaling })
}

/// Returns the `config.json` of a model. It does not specify a dtype, so that of the tensors applies.
pub fn to_json(config: &AnyConfig) -> Value {
    match config {
        AnyConfig::Gpt2(config) => json!({
            "architectures": ["GPT2LMHeadModel"],
            "model_type": "gpt2",
            "vocab_size": config.vocabulary,
            "n_positions": config.context,
            "n_embd": config.width,
            "n_head": config.heads,
            "n_layer": config.layers,
            "n_inner": config.mlp_width,
            "activation_function": "gelu_new",
            "layer_norm_epsilon": config.epsilon,
            "resid_pdrop": config.dropout,
            "embd_pdrop": config.dropout,
            "attn_pdrop": config.dropout,
            "tie_word_embeddings": config.tied,
        }),
        AnyConfig::Llama(config) => {
            let rotary = &config.rotary;
            let scaling = match rotary.scaling {
                RotaryScaling::None => Value::Null,
                RotaryScaling::Linear { factor } => json!({ "rope_type": "linear", "factor": factor }),
                RotaryScaling::Llama3 {
                    factor,
                    low_frequency_factor,
                    high_frequency_factor,
                    original_context,
                } => json!({
                    "rope_type": "llama3",
                    "factor": factor,
                    "low_freq_factor": low_frequency_factor,
                    "high_freq_factor": high_frequency_factor,
                    "original_max_position_embeddings": original_context,
                }),
            };
            // Write the keys of transformers both before and since version 5; each version ignores or accepts
            // those of the other.
            let mut parameters = match &scaling {
                Value::Object(map) => map.clone(),
                _ => Map::from_iter([("rope_type".to_string(), json!("default"))]),
            };
            parameters.insert("rope_theta".into(), json!(rotary.base));
            let mut keys = json!({
                "architectures": ["LlamaForCausalLM"],
                "model_type": "llama",
                "vocab_size": config.vocabulary,
                "max_position_embeddings": config.context,
                "hidden_size": config.width,
                "intermediate_size": config.mlp_width,
                "num_hidden_layers": config.layers,
                "num_attention_heads": config.heads,
                "num_key_value_heads": config.key_heads,
                "head_dim": config.depth,
                "hidden_act": "silu",
                "rms_norm_eps": config.epsilon,
                "rope_theta": rotary.base,
                "rope_scaling": scaling,
                "rope_parameters": parameters,
                "tie_word_embeddings": config.tied,
                "attention_bias": config.attention_bias,
                "mlp_bias": config.mlp_bias,
            });
            if let Some(window) = config.window.filter(|window| *window < config.context) {
                keys["architectures"] = json!(["MistralForCausalLM"]);
                keys["model_type"] = json!("mistral");
                keys["sliding_window"] = json!(window);
            }
            keys
        }
    }
}

fn wrong(path: &str, reason: String) -> Error {
    Error::new(ErrorKind::File, format!("{path}: {reason}"))
        .help("give a folder that transformers' `save_pretrained` wrote")
}

/// The keys of an object in the file.
struct Keys<'a> {
    map: &'a Map<String, Value>,
    path: &'a str,
    /// Key of the object followed by a dot, or empty for the root.
    parent: &'a str,
}

impl<'a> Keys<'a> {
    /// Returns the value of a key, unless it is missing or null.
    fn value(&self, key: &str) -> Option<&'a Value> {
        self.map.get(key).filter(|value| !value.is_null())
    }

    fn get<T>(
        &self,
        key: &str,
        usual: Option<T>,
        kind: &str,
        convert: impl FnOnce(&'a Value) -> Option<T>,
    ) -> Result<T> {
        let name = format!("`{}{key}`", self.parent);
        match self.value(key) {
            Some(value) => convert(value)
                .ok_or_else(|| wrong(self.path, format!("{name} is {value}, which is no {kind}"))),
            None => usual.ok_or_else(|| wrong(self.path, format!("there is no {name}"))),
        }
    }

    fn size(&self, key: &str, usual: Option<usize>) -> Result<usize> {
        self.get(key, usual, "size", |value| usize::try_from(value.as_u64()?).ok())
    }

    /// Returns the size under the first of several names that exists, or a default.
    fn first_size(&self, names: &[&str], usual: usize) -> Result<usize> {
        match names.iter().find(|name| self.map.contains_key(**name)) {
            Some(name) => self.size(name, None),
            None => Ok(usual),
        }
    }

    fn optional_size(&self, key: &str) -> Result<Option<usize>> {
        self.value(key).map(|_| self.size(key, None)).transpose()
    }

    fn number(&self, key: &str, usual: Option<f64>) -> Result<f64> {
        self.get(key, usual, "number", Value::as_f64)
    }

    fn flag(&self, key: &str, usual: bool) -> Result<bool> {
        self.get(key, Some(usual), "true or false", Value::as_bool)
    }

    fn text(&self, key: &str, usual: Option<&'a str>) -> Result<&'a str> {
        self.get(key, usual, "text", Value::as_str)
    }

    fn object(&self, key: &'static str) -> Result<Option<Keys<'a>>> {
        let Some(value) = self.value(key) else { return Ok(None) };
        let parent = if key == "rope_parameters" { "rope_parameters." } else { "rope_scaling." };
        match value.as_object() {
            Some(map) => Ok(Some(Keys { map, path: self.path, parent })),
            None => Err(wrong(self.path, format!("`{key}` is {value}, which is no object"))),
        }
    }

    fn unsupported(&self, key: &str, known: &str) -> Error {
        let value = self.map.get(key).unwrap_or(&Value::Null);
        let message = format!("{}: `{}{key}` is {value}, which no model here has", self.path, self.parent);
        Error::new(ErrorKind::File, message).help(format!("what can be read is {known}"))
    }
}
