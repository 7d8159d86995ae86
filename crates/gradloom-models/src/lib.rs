//! Models for gradloom: GPT-2 and Llama, text data, generation and evaluation.
//!
//! - [`any_model`]: models whose architecture is determined at run time.
//! - [`evaluate`]: perplexity of a text, and multiple-choice questions.
//! - [`gpt2`]: GPT-2 and its configuration, with the published presets.
//! - [`data`]: from text in files and folders to tokens, a held-out part, and batches that depend only on the
//!   seed and the step.
//! - [`language_model`]: the interface of models for generation and evaluation.
//! - [`llama`]: the models of the Llama family.
//! - [`gguf`]: models in GGUF files, converted to Hugging Face's format.
//! - [`decoding`]: sampling of the next token, beam search, and conversion of tokens to text.
//! - [`generator`]: text generation for one or many concurrent requests, over paged keys and values.
//! - [`hugging_face`]: folders in the format of transformers.
//! - [`kv`]: paged keys and values of many texts, so that each token is computed only once.

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests read what they write"))]
// Raise the limit: programs own GPU buffers, whose types are nested so deeply that rustdoc exceeds the
// default when it checks whether programs are `Send`.
#![recursion_limit = "256"]

// The derive macros refer to the facade crate; here the core crate takes its place.
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
