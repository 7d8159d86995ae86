//! Configuration of a model of the Llama family, and its validation.

use super::{Rotary, RotaryScaling};
use crate::gpt2::MOST_LAYERS;
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

/// An error in a [`LlamaConfig`].
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum LlamaConfigError {
    /// A size is 0.
    #[error("{0} is 0")]
    Zero(&'static str),
    /// The number of key heads does not divide the number of query heads.
    #[error("{heads} heads of queries do not share {key_heads} heads of keys evenly")]
    KeyHeads {
        /// Number of query heads.
        heads: usize,
        /// Number of key heads.
        key_heads: usize,
    },
    /// The width of a head is odd, so its elements cannot be rotated in pairs.
    #[error("a head of {0} elements has no pairs to turn")]
    OddDepth(usize),
    /// A number is not positive and finite.
    #[error("{name} {value} is not a number above 0")]
    NotPositive {
        /// Name of the field.
        name: &'static str,
        /// Value of the field.
        value: f64,
    },
    /// A tensor would have more elements than an `i32` can index.
    #[error("{0} of this configuration is too large")]
    TooLarge(&'static str),
    /// The model has more layers than can be compiled in reasonable time.
    #[error("{0} layers are more than the {MOST_LAYERS} that can be compiled")]
    TooDeep(usize),
}

impl LlamaConfigError {
    /// Returns a suggestion for fixing the error.
    pub fn remedy(&self) -> &'static str {
        match self {
            Self::Zero(_) => "set it to 1 or more",
            Self::KeyHeads { .. } => "take a number of key heads that divides the heads",
            Self::OddDepth(_) => "take an even length",
            Self::NotPositive { .. } => "take a finite number above 0",
            Self::TooLarge(_) => "take smaller sizes",
            Self::TooDeep(_) => "take fewer layers",
        }
    }
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
    pub fn validate(&self) -> Result<(), LlamaConfigError> {
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
        if let Some((name, _)) = sizes.into_iter().find(|(_, size)| *size == 0) {
            return Err(LlamaConfigError::Zero(name));
        }
        if !self.heads.is_multiple_of(self.key_heads) {
            return Err(LlamaConfigError::KeyHeads { heads: self.heads, key_heads: self.key_heads });
        }
        if !self.depth.is_multiple_of(2) {
            return Err(LlamaConfigError::OddDepth(self.depth));
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
            return Err(LlamaConfigError::NotPositive { name, value });
        }
        if self.layers > MOST_LAYERS {
            return Err(LlamaConfigError::TooDeep(self.layers));
        }
        let products = [
            ("the token embedding", self.vocabulary, self.width),
            ("the projection of queries", self.heads.saturating_mul(self.depth), self.width),
            ("the MLP", self.mlp_width, self.width),
            // Limit the context too, because positions are i32.
            ("the context", self.context, 1),
        ];
        for (what, rows, columns) in products {
            if rows.checked_mul(columns).is_none_or(|elements| elements > i32::MAX as usize) {
                return Err(LlamaConfigError::TooLarge(what));
            }
        }
        Ok(())
    }
}
