//! Configuration of a model of the Llama family, and its validation.

use super::{Rotary, RotaryScaling};
use crate::gpt2::{ConfigError, MOST_LAYERS, countable};
use serde::{Deserialize, Serialize};

/// Configuration of a model of the Llama family.
///
/// The serialized keys are the field names. An unknown key is an error.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LlamaConfig {
    /// Size of the vocabulary.
    pub vocabulary: usize,
    /// Context length: the maximum number of tokens that the model can read.
    pub context: usize,
    /// Width of the hidden state.
    pub width: usize,
    /// Width of the MLPs' hidden layer.
    pub mlp_width: usize,
    /// Number of layers.
    pub layers: usize,
    /// Number of query heads in each layer.
    pub heads: usize,
    /// Number of key heads and of value heads, each shared by several query heads; must divide `heads`.
    pub key_heads: usize,
    /// Width of a query, key or value; even. Usually `width / heads`.
    pub depth: usize,
    /// Sliding window: number of positions that a query attends to, its own included; `None` if it attends to
    /// all before it.
    #[serde(default)]
    pub window: Option<usize>,
    /// Constant added to the mean square in each normalization to avoid division by zero.
    pub epsilon: f64,
    /// Rotary embedding of queries and keys.
    pub rotary: Rotary,
    /// True if the output layer is tied to the token embedding.
    #[serde(default)]
    pub tied: bool,
    /// True if the attention projections have biases.
    #[serde(default)]
    pub attention_bias: bool,
    /// True if the MLP projections have biases.
    #[serde(default)]
    pub mlp_bias: bool,
}

impl LlamaConfig {
    /// Returns the number of trainable parameters. The result is only meaningful if
    /// [`validate`](Self::validate) accepts the configuration.
    pub fn parameters(&self) -> usize {
        let layer = |inputs: usize, outputs: usize, bias: bool| {
            outputs.saturating_mul(inputs.saturating_add(usize::from(bias)))
        };
        let (queries, keys) =
            (self.heads.saturating_mul(self.depth), self.key_heads.saturating_mul(self.depth));
        let parts = [
            layer(self.width, queries, self.attention_bias),
            layer(self.width, keys, self.attention_bias).saturating_mul(2),
            layer(queries, self.width, self.attention_bias),
            layer(self.width, self.mlp_width, self.mlp_bias).saturating_mul(2),
            layer(self.mlp_width, self.width, self.mlp_bias),
            // The two normalizations.
            self.width.saturating_mul(2),
        ];
        let block = parts.into_iter().fold(0, usize::saturating_add);
        let embeddings = layer(self.width, self.vocabulary, false).saturating_mul(2 - usize::from(self.tied));
        block.saturating_mul(self.layers).saturating_add(embeddings).saturating_add(self.width)
    }

    /// Checks that a model can be built from the configuration.
    ///
    /// # Errors
    /// Returns an error if the configuration is invalid.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let sizes = [
            ("vocabulary", self.vocabulary),
            ("context", self.context),
            ("width", self.width),
            ("mlp_width", self.mlp_width),
            ("layers", self.layers),
            ("heads", self.heads),
            ("key_heads", self.key_heads),
            ("depth", self.depth),
            ("window", self.window.unwrap_or(1)),
        ];
        if let Some((field, _)) = sizes.into_iter().find(|(_, size)| *size == 0) {
            return Err(ConfigError::Zero { field });
        }
        if !self.heads.is_multiple_of(self.key_heads) {
            return Err(ConfigError::KeyHeads { heads: self.heads, key_heads: self.key_heads });
        }
        if !self.depth.is_multiple_of(2) {
            return Err(ConfigError::OddDepth(self.depth));
        }
        let mut numbers = vec![("epsilon", self.epsilon), ("the rotary base", self.rotary.base)];
        match self.rotary.scaling {
            RotaryScaling::None => {}
            RotaryScaling::Linear { factor } => numbers.push(("the rotary factor", factor)),
            RotaryScaling::Llama3 { factor, low_frequency_factor, high_frequency_factor, .. } => {
                numbers.extend([
                    ("the rotary factor", factor),
                    ("the rotary low_frequency_factor", low_frequency_factor),
                    (
                        "high_frequency_factor - low_frequency_factor",
                        high_frequency_factor - low_frequency_factor,
                    ),
                ]);
            }
        }
        if let Some((name, value)) = numbers.into_iter().find(|(_, x)| !(*x > 0.0 && x.is_finite())) {
            return Err(ConfigError::NotPositive { name, value });
        }
        if self.layers > MOST_LAYERS {
            return Err(ConfigError::TooDeep { layers: self.layers });
        }
        let width = ("width", self.width);
        let queries = self.heads.saturating_mul(self.depth);
        let matrices = [
            ("the token embedding", self.vocabulary, vec![("vocabulary", self.vocabulary), width]),
            ("the projection of queries", queries, vec![("heads", self.heads), ("depth", self.depth), width]),
            ("the MLP", self.mlp_width, vec![("mlp_width", self.mlp_width), width]),
        ];
        for (what, rows, sizes) in matrices {
            if !countable(rows, self.width) {
                return Err(ConfigError::TooLarge { what, sizes });
            }
        }
        // Limit the context too, because positions are i32.
        if !countable(self.context, 1) {
            return Err(ConfigError::TooLarge {
                what: "the context",
                sizes: vec![("context", self.context)],
            });
        }
        Ok(())
    }
}
