//! Tokenizers compared with Python's `tokenizers` package, and chat templates with transformers.
//!
//! `scripts/oracle/tokenizer_files.py` creates the expected results.

#![allow(clippy::disallowed_methods, reason = "tests read what they write")]

mod chats;
mod cuts;
mod damage;
mod folders;
mod linear;
mod lines;
mod ours;

use gradloom_models::data::Bpe;
use serde_json::Value;
use std::path::PathBuf;

/// Returns the path of a file or folder in `tests/data/tokenizers`.
fn data(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/tokenizers").join(name)
}

fn json(name: &str) -> Value {
    let text = std::fs::read(data(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
    serde_json::from_slice(&text).unwrap_or_else(|error| panic!("{name}: {error}"))
}

const NAMES: [&str; 3] = ["gpt2", "llama3", "llama2"];

fn open(name: &str) -> Bpe {
    Bpe::open(data(name)).unwrap_or_else(|error| panic!("{error}"))
}
