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
    /// Of a GPT-2.
    #[error(transparent)]
    Gpt2(#[from] gpt2::ConfigError),
    /// Of the Llama family.
    #[error(transparent)]
    Llama(#[from] LlamaConfigError),
}

impl AnyConfigError {
    /// The remedy.
    pub fn remedy(&self) -> String {
        match self {
            Self::Gpt2(error) => error.remedy(),
            Self::Llama(error) => error.remedy().to_string(),
        }
    }
}

impl AnyConfig {
    /// Number of different tokens.
    pub fn vocabulary(&self) -> usize {
        match self {
            Self::Gpt2(config) => config.vocabulary,
            Self::Llama(config) => config.vocabulary,
        }
    }

    /// A model of these sizes.
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
