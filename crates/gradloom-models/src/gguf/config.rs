//! Configuration in Hugging Face's format.
//!
//! In: the metadata, and the shape of the token embedding. Out: the contents of `config.json`, with the keys
//! of transformers' `GPT2Config` and `LlamaConfig`. Invariant: metadata that the configuration cannot
//! express is an error, so that a model never computes something other than the file specifies.

use super::error::{damaged, unread};
use super::{Architecture, FromValue, Gguf, Tensor};
use gradloom_core::error::Result;
use serde_json::{Map, Value, json};
use std::f64::consts::TAU;

/// Name of the tensor by which llama.cpp represents Llama 3's scaling: the divisors of the rotation
/// frequencies, one per pair.
pub(super) const ROPE_FACTORS: &str = "rope_freqs.weight";

/// Keys of sampling settings in transformers, and in the metadata.
const SAMPLING: [(&str, &str); 5] = [
    ("temperature", "temp"),
    ("top_k", "top_k"),
    ("top_p", "top_p"),
    ("min_p", "min_p"),
    ("repetition_penalty", "penalty_repeat"),
];

impl Gguf {
    /// Returns the contents of `config.json` for the same model in Hugging Face's format.
    ///
    /// # Errors
    /// Returns an error if the architecture is not supported, a required key is missing, or the metadata
    /// cannot be expressed in a configuration.
    pub fn hugging_face_config(&self) -> Result<Value> {
        let mut config = match self.architecture()? {
            Architecture::Gpt2 => self.gpt2()?,
            Architecture::Llama => self.llama()?,
        };
        config["bos_token_id"] = self.token_id("bos_token_id").into();
        // Like llama.cpp, also end a text at the end of a turn or of a message.
        let mut ends: Vec<u32> = Vec::new();
        for name in ["eos_token_id", "eot_token_id", "eom_token_id"] {
            ends.extend(self.token_id(name).filter(|id| !ends.contains(id)));
        }
        config["eos_token_id"] = match ends[..] {
            [] => Value::Null,
            [end] => end.into(),
            _ => ends.into(),
        };
        if let Some(id) = self.token_id("padding_token_id") {
            config["pad_token_id"] = id.into();
        }
        for (key, name) in SAMPLING {
            match self.metadata(&format!("general.sampling.{name}")) {
                Some(found) if let Some(number) = f32::from_value(found) => {
                    config[key] = decimal(number).into()
                }
                Some(found) if let Some(number) = i32::from_value(found) => config[key] = number.into(),
                _ => {}
            }
        }
        Ok(config)
    }

    /// Returns the id of a token with a role. Like llama.cpp, ignores an id outside the vocabulary, such as
    /// -1.
    pub(super) fn token_id(&self, role: &str) -> Option<u32> {
        let id = u32::from_value(self.metadata(&format!("tokenizer.ggml.{role}"))?)?;
        let tokens = match self.metadata("tokenizer.ggml.tokens") {
            Some(super::Value::Array(tokens)) => tokens.len(),
            _ => self.vocabulary_size().ok()?,
        };
        usize::try_from(id).is_ok_and(|id| id < tokens).then_some(id)
    }

    fn gpt2(&self) -> Result<Value> {
        Ok(json!({
            "model_type": "gpt2",
            "architectures": ["GPT2LMHeadModel"],
            "activation_function": "gelu_new",
            "n_embd": self.size("gpt2.embedding_length")?,
            "n_head": self.size("gpt2.attention.head_count")?,
            "n_layer": self.size("gpt2.block_count")?,
            "n_positions": self.size("gpt2.context_length")?,
            "n_inner": self.size("gpt2.feed_forward_length")?,
            "layer_norm_epsilon": self.positive("gpt2.attention.layer_norm_epsilon")?,
            "vocab_size": self.vocabulary_size()?,
            "tie_word_embeddings": self.is_tied()?,
        }))
    }

    fn llama(&self) -> Result<Value> {
        if let Some(experts @ 1..) = self.get::<u32>("llama.expert_count")? {
            let message = format!("the model is a mixture of {experts} experts, which is not read");
            return Err(unread(&self.name, message));
        }
        let (width, heads) = (self.size("llama.embedding_length")?, self.query_heads()?);
        let head = self.size_or("llama.attention.key_length", width / heads)?;
        for key in ["llama.attention.value_length", "llama.rope.dimension_count"] {
            if let Some(other) = self.size_of_all(key)?.filter(|other| *other != head) {
                let message = format!("`{key}` is {other}, and heads have {head} elements; {ONE_SIZE}");
                return Err(unread(&self.name, message));
            }
        }
        let has_bias = |part: &str| self.tensor(&format!("blk.0.{part}.bias")).is_some();
        let theta = match self.get::<f32>("llama.rope.freq_base")? {
            None => 10_000.0,
            Some(_) => self.positive("llama.rope.freq_base")?,
        };
        Ok(json!({
            "model_type": "llama",
            "architectures": ["LlamaForCausalLM"],
            "hidden_act": "silu",
            "hidden_size": width,
            "intermediate_size": self.size("llama.feed_forward_length")?,
            "num_hidden_layers": self.size("llama.block_count")?,
            "num_attention_heads": heads,
            "num_key_value_heads": self.key_heads()?,
            "head_dim": head,
            "max_position_embeddings": self.size("llama.context_length")?,
            "rms_norm_eps": self.positive("llama.attention.layer_norm_rms_epsilon")?,
            "rope_theta": theta,
            "rope_scaling": self.rope_scaling(theta, head)?,
            "attention_bias": has_bias("attn_q"),
            "mlp_bias": has_bias("ffn_up"),
            "vocab_size": self.vocabulary_size()?,
            "tie_word_embeddings": self.is_tied()?,
        }))
    }

    pub(super) fn query_heads(&self) -> Result<usize> {
        self.size("llama.attention.head_count")
    }

    /// Returns the number of key and value heads of a Llama model.
    pub(super) fn key_heads(&self) -> Result<usize> {
        self.size_or("llama.attention.head_count_kv", self.query_heads()?)
    }

    fn rope_scaling(&self, theta: f64, head: usize) -> Result<Value> {
        let key = |name: &str| format!("llama.rope.scaling.{name}");
        // Accept the second key, which files from 2023 have. Like llama.cpp, treat a factor without a type as
        // linear scaling.
        let names = [key("factor"), "llama.rope.scale_linear".to_string()];
        let factor = names.iter().find(|name| self.metadata(name).is_some()).unwrap_or(&names[0]);
        let kind = match self.get::<&str>(&key("type"))? {
            Some(kind) => kind,
            None if matches!(self.get::<f32>(factor)?, None | Some(0.0 | 1.0)) => "none",
            None => "linear",
        };
        if let Some(factors) = self.tensor(ROPE_FACTORS) {
            return match kind {
                "none" => self.llama3(&factors, theta, head),
                _ => Err(unread(&self.name, format!("the model has `{ROPE_FACTORS}` and scaling by {kind}"))),
            };
        }
        let mut scaling = Map::new();
        match kind {
            "none" => return Ok(Value::Null),
            "linear" => {}
            "yarn" => {
                // Reject these keys, which implementations interpret differently.
                for name in ["attn_factor", "yarn_log_multiplier", "yarn_ext_factor", "yarn_attn_factor"] {
                    if self.metadata(&key(name)).is_some() {
                        return Err(unread(&self.name, format!("`{}` is not read", key(name))));
                    }
                }
                let original = self.size(&key("original_context_length"))?;
                scaling.insert("original_max_position_embeddings".to_string(), original.into());
                for name in ["beta_fast", "beta_slow"] {
                    let key = key(&format!("yarn_{name}"));
                    if self.metadata(&key).is_some() {
                        scaling.insert(name.to_string(), self.positive(&key)?.into());
                    }
                }
            }
            _ => return Err(unread(&self.name, format!("scaling of positions by `{kind}` is not read"))),
        }
        scaling.insert("rope_type".to_string(), kind.into());
        scaling.insert("factor".to_string(), self.positive(factor)?.into());
        Ok(scaling.into())
    }

    /// Reconstructs the parameters of Llama 3's scaling from its divisors: 1 for short wavelengths, `factor`
    /// for long ones, and a transition between them (`_compute_llama3_parameters` in transformers). The file
    /// does not contain the other parameters, which are the same in all of Llama 3.1 to 3.3.
    fn llama3(&self, factors: &Tensor<'_>, theta: f64, head: usize) -> Result<Value> {
        const ORIGINAL: f64 = 8192.0;
        const LOW: f64 = 1.0;
        const HIGH: f64 = 4.0;
        let found = factors.to_f32()?;
        let factor = found.iter().copied().fold(1.0, f32::max);
        let expected = |pair: usize| {
            let waves = ORIGINAL * theta.powf(-2.0 * pair as f64 / head as f64) / TAU;
            let smooth = ((waves - LOW) / (HIGH - LOW)).clamp(0.0, 1.0);
            1.0 / ((1.0 - smooth) / f64::from(factor) + smooth)
        };
        let fits = |(pair, &found): (usize, &f32)| (f64::from(found) / expected(pair) - 1.0).abs() < 1e-3;
        if found.len() != head / 2 || !factor.is_finite() || !found.iter().enumerate().all(fits) {
            let message = format!("the factors in `{ROPE_FACTORS}` are not those of Llama 3's scaling");
            return Err(unread(&self.name, message));
        }
        if factor == 1.0 {
            return Ok(Value::Null);
        }
        Ok(json!({
            "rope_type": "llama3",
            "factor": decimal(factor),
            "low_freq_factor": LOW,
            "high_freq_factor": HIGH,
            "original_max_position_embeddings": ORIGINAL as u32,
        }))
    }

    /// Returns the number of rows of the token embedding, including padding of the vocabulary.
    fn vocabulary_size(&self) -> Result<usize> {
        match self.tensor("token_embd.weight").map(|tensor| tensor.shape) {
            Some(&[rows, _]) => Ok(rows),
            _ => Err(damaged(&self.name, "there is no matrix `token_embd.weight`")),
        }
    }

    /// Returns a positive number, rounded to the shortest decimal of the f32: 1e-5 for 9.99999974e-6.
    fn positive(&self, key: &str) -> Result<f64> {
        let number: f32 = self.require(key)?;
        if number > 0.0 && number.is_finite() {
            return Ok(decimal(number));
        }
        Err(damaged(&self.name, format_args!("the metadata `{key}` is {number}")))
    }
}

const ONE_SIZE: &str = "models whose heads rotate in part, or have values of another size, are not read";

/// Returns the f64 with the same shortest decimal representation.
fn decimal(number: f32) -> f64 {
    number.to_string().parse().expect("Rust reads what it writes")
}
