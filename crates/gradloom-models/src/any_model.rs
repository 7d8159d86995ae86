//! A model whose architecture is determined at run time.

use crate::gpt2::{ConfigError, Gpt2, Gpt2Config};
use crate::language_model::{Attend, LanguageModel, Sizes};
use crate::llama::{Llama, LlamaConfig};
use gradloom_core::nn::Module;
use gradloom_core::trace::Tensor;
use serde::{Deserialize, Serialize};

/// Configuration of a model of any supported architecture.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AnyConfig {
    /// GPT-2.
    Gpt2(Gpt2Config),
    /// The Llama family.
    Llama(LlamaConfig),
}

/// Evaluates an expression with the configuration or model of either architecture.
macro_rules! each {
    ($any:expr, $inner:ident => $value:expr) => {
        match $any {
            Self::Gpt2($inner) => $value,
            Self::Llama($inner) => $value,
        }
    };
}

impl AnyConfig {
    /// Returns the size of the vocabulary.
    pub fn vocabulary(&self) -> usize {
        each!(self, config => config.vocabulary)
    }

    /// Returns the configuration with another vocabulary size.
    #[must_use]
    pub fn with_vocabulary(mut self, vocabulary: usize) -> Self {
        each!(&mut self, config => config.vocabulary = vocabulary);
        self
    }

    /// Returns the context length: the maximum number of tokens that the model can read.
    pub fn context(&self) -> usize {
        each!(self, config => config.context)
    }

    /// Returns the number of layers.
    pub fn layers(&self) -> usize {
        each!(self, config => config.layers)
    }

    /// Returns the number of query heads in each layer.
    pub fn heads(&self) -> usize {
        each!(self, config => config.heads)
    }

    /// Returns the width of the hidden state.
    pub fn width(&self) -> usize {
        each!(self, config => config.width)
    }

    /// Returns the width of an MLP's hidden layer.
    pub fn mlp_width(&self) -> usize {
        match self {
            Self::Gpt2(config) => config.mlp_width(),
            Self::Llama(config) => config.mlp_width,
        }
    }

    /// Returns the number of trainable parameters. The result is only meaningful if
    /// [`validate`](Self::validate) accepts the configuration.
    pub fn parameters(&self) -> usize {
        each!(self, config => config.parameters())
    }

    /// Checks that a model can be built from the configuration.
    ///
    /// # Errors
    /// Returns an error if the configuration is invalid.
    pub fn validate(&self) -> Result<(), ConfigError> {
        each!(self, config => config.validate())
    }

    /// Builds a model with this configuration.
    ///
    /// # Errors
    /// Returns an error if the configuration is invalid.
    pub fn build(&self) -> Result<AnyModel, ConfigError> {
        Ok(match self {
            Self::Gpt2(config) => AnyModel::Gpt2(Gpt2::new(config)?),
            Self::Llama(config) => AnyModel::Llama(Llama::new(config)?),
        })
    }
}

/// A model of any supported architecture. Its parameters have the same names as in the model that it wraps.
#[derive(Debug, Module)]
pub enum AnyModel {
    /// GPT-2.
    Gpt2(Gpt2),
    /// The Llama family.
    Llama(Llama),
}

impl AnyModel {
    /// Returns the model's configuration.
    pub fn config(&self) -> AnyConfig {
        match self {
            Self::Gpt2(model) => AnyConfig::Gpt2(model.config().clone()),
            Self::Llama(model) => AnyConfig::Llama(model.config().clone()),
        }
    }

    /// Returns the mean cross-entropy in nats. `ids` is i32 `[batch, time]`; `targets` is either i32
    /// `[batch, time]` or rows of probabilities, f32 `[batch, time, vocabulary]`. See
    /// [`Tensor::cross_entropy`].
    #[track_caller]
    pub fn loss(&self, ids: Tensor, targets: Tensor) -> Tensor {
        each!(self, model => model.loss(ids, targets))
    }

    /// Checkpoints every block: training stores only the blocks' inputs and recomputes the rest. See
    /// [`checkpoint`](gradloom_core::trace::checkpoint).
    #[must_use]
    pub fn checkpoint_blocks(self) -> Self {
        match self {
            Self::Gpt2(model) => Self::Gpt2(model.checkpoint_blocks()),
            Self::Llama(model) => Self::Llama(model.checkpoint_blocks()),
        }
    }

    fn as_model(&self) -> &dyn LanguageModel {
        each!(self, model => model)
    }
}

impl LanguageModel for AnyModel {
    fn sizes(&self) -> Sizes {
        self.as_model().sizes()
    }

    fn hidden(&self, ids: Tensor, positions: Tensor, attend: &mut Attend<'_>) -> Tensor {
        self.as_model().hidden(ids, positions, attend)
    }

    fn logits(&self, hidden: Tensor) -> Tensor {
        self.as_model().logits(hidden)
    }

    fn forward(&self, ids: Tensor) -> Tensor {
        self.as_model().forward(ids)
    }
}
