//! The Llama family: Touvron et al., "LLaMA" (2023), and its successors.
//!
//! In: a [`LlamaConfig`]. Out: a model with Hugging Face's parameter names.

mod config;
mod model;
mod rotary;

pub use config::LlamaConfig;
pub use model::{Attention, Block, Layers, Llama, Mlp};
pub use rotary::{Rotary, RotaryScaling};
