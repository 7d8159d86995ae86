//! Models for gradloom and their surroundings: GPT-2 and Llama, text data and generation.
//!
//! - [`any_model`]: a model whose architecture a file decides.
//! - [`evaluate`]: the perplexity of a text, and questions with choices.
//! - [`gpt2`]: the configuration (with GPT-2's published shapes) and the model.
//! - [`data`]: text from files and folders to tokens, a held-out part, and batches that depend on nothing but
//!   (seed, step).
//! - [`language_model`]: what generation needs of a model, whatever its architecture.
//! - [`llama`]: the models of the Llama family.
//! - [`gguf`]: models in GGUF files, as Hugging Face's files have them.
//! - [`decoding`]: which token follows, from logits; searches; and the text that tokens make.
//! - [`generator`]: text for one request or for many at once, over pages of keys and values.
//! - [`hugging_face`]: folders that transformers reads and writes.
//! - [`kv`]: keys and values of many texts in one memory, so that each token is computed once.

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests read what they write"))]
// Programs hold a GPU's buffers, whose types are nested so deeply that rustdoc, asking whether they are
// `Send`, would give up.
#![recursion_limit = "256"]

// The derive macros name the facade crate; here the compiler crate stands in for it.
extern crate gradloom_core as gradloom;

pub mod any_model;
pub mod data;
pub mod decoding;
pub mod evaluate;
pub mod generator;
pub mod gguf;
pub mod gpt2;
pub mod hugging_face;
pub mod kv;
pub mod language_model;
pub mod llama;
