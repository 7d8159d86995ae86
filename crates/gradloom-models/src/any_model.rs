//! A model whose architecture a file decides.

use crate::gpt2::{self, Gpt2, Gpt2Config};
use crate::language_model::{Attend, LanguageModel, Sizes};
use crate::llama::{Llama, LlamaConfig, LlamaConfigError};
use gradloom_core::nn::Module;
use gradloom_core::trace::Tensor;
use serde::{Deserialize, Serialize};

/// The configuration of a model of any architecture that is read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AnyConfig {
    /// GPT-2.
    Gpt2(Gpt2Config),
    /// The Llama family.
    Llama(LlamaConfig),
}

/// Sizes that make no model.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum AnyConfigError {
    /// An error of a GPT-2.
    #[error(transparent)]
    Gpt2(#[from] gpt2::ConfigError),
    /// An error of a model of the Llama family.
    #[error(transparent)]
    Llama(#[from] LlamaConfigError),
}

impl AnyConfigError {
    /// Returns the remedy.
    pub fn remedy(&self) -> String {
        match self {
            Self::Gpt2(error) => error.remedy(),
            Self::Llama(error) => error.remedy().to_string(),
        }
    }
}

impl AnyConfig {
    /// Returns the number of different tokens.
    pub fn vocabulary(&self) -> usize {
        match self {
            Self::Gpt2(config) => config.vocabulary,
            Self::Llama(config) => config.vocabulary,
        }
    }

    /// Returns the configuration with another number of tokens.
    #[must_use]
    pub fn with_vocabulary(mut self, vocabulary: usize) -> Self {
        match &mut self {
            Self::Gpt2(config) => config.vocabulary = vocabulary,
            Self::Llama(config) => config.vocabulary = vocabulary,
        }
        self
    }

    /// Returns the number of positions: the longest text that the model can read.
    pub fn context(&self) -> usize {
        match self {
            Self::Gpt2(config) => config.context,
            Self::Llama(config) => config.context,
        }
    }

    /// Returns the number of blocks.
    pub fn layers(&self) -> usize {
        match self {
            Self::Gpt2(config) => config.layers,
            Self::Llama(config) => config.layers,
        }
    }

    /// Heads of queries in each block.
    pub fn heads(&self) -> usize {
        match self {
            Self::Gpt2(config) => config.heads,
            Self::Llama(config) => config.heads,
        }
    }

    /// Returns the length of the vector that stands for one position.
    pub fn width(&self) -> usize {
        match self {
            Self::Gpt2(config) => config.width,
            Self::Llama(config) => config.width,
        }
    }

    /// Returns the length of the vectors within an MLP.
    pub fn mlp_width(&self) -> usize {
        match self {
            Self::Gpt2(config) => config.mlp_width(),
            Self::Llama(config) => config.mlp_width,
        }
    }

    /// Returns the number of trainable parameters. Only meaningful for a configuration that
    /// [`validate`](Self::validate) accepts.
    pub fn parameters(&self) -> usize {
        match self {
            Self::Gpt2(config) => config.parameters(),
            Self::Llama(config) => config.parameters(),
        }
    }

    /// Checks that a model of these sizes can be built.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn validate(&self) -> Result<(), AnyConfigError> {
        match self {
            Self::Gpt2(config) => config.validate()?,
            Self::Llama(config) => config.validate()?,
        }
        Ok(())
    }

    /// Builds a model of these sizes.
    ///
    /// # Errors
    /// When there is no such model.
    pub fn build(&self) -> Result<AnyModel, AnyConfigError> {
        Ok(match self {
            Self::Gpt2(config) => AnyModel::Gpt2(Gpt2::new(config)?),
            Self::Llama(config) => AnyModel::Llama(Llama::new(config)?),
        })
    }
}

/// A model of any architecture that is read. Its parameters have the names that they have in the model alone.
#[derive(Debug, Module)]
pub enum AnyModel {
    /// GPT-2.
    Gpt2(Gpt2),
    /// The Llama family.
    Llama(Llama),
}

impl AnyModel {
    /// Its configuration.
    pub fn config(&self) -> AnyConfig {
        match self {
            Self::Gpt2(model) => AnyConfig::Gpt2(model.config().clone()),
            Self::Llama(model) => AnyConfig::Llama(model.config().clone()),
        }
    }

    /// Returns the mean cross-entropy in nats: i32 ids `[batch, time]` and targets, i32 `[batch, time]` or
    /// rows of probabilities f32 `[batch, time, vocabulary]`; see [`Tensor::cross_entropy`].
    #[track_caller]
    pub fn loss(&self, ids: Tensor, targets: Tensor) -> Tensor {
        match self {
            Self::Gpt2(model) => model.loss(ids, targets),
            Self::Llama(model) => model.loss(ids, targets),
        }
    }

    /// Lets training keep only what goes from block to block; see
    /// [`checkpoint`](gradloom_core::trace::checkpoint).
    #[must_use]
    pub fn checkpoint_blocks(self) -> Self {
        match self {
            Self::Gpt2(model) => Self::Gpt2(model.checkpoint_blocks()),
            Self::Llama(model) => Self::Llama(model.checkpoint_blocks()),
        }
    }

    fn as_model(&self) -> &dyn LanguageModel {
        match self {
            Self::Gpt2(model) => model,
            Self::Llama(model) => model,
        }
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
