//! GPT-2: Radford et al., "Language Models are Unsupervised Multitask Learners" (2019).
//!
//! In: a [`Gpt2Config`]. Out: a model with Hugging Face's parameter names.

mod config;
mod model;
mod presets;

pub(crate) use config::countable;
pub use config::{ConfigError, Gpt2Config, MOST_LAYERS};
pub use model::{Block, Gpt2, Mlp};
pub use presets::{PRESETS, Preset};
