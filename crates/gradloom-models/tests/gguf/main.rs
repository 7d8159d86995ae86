//! GGUF files: compared with the results of Python packages, and damaged systematically.

#![allow(clippy::disallowed_methods, reason = "tests read what they write")]

mod builder;
mod configurations;
mod headers;
mod models;
mod mutations;
mod quants;
mod tokenizers;

use gradloom_core::error::Result;
use std::path::{Path, PathBuf};

/// Returns the path of a file that `scripts/oracle/gguf_files.py` creates.
fn data(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/gguf").join(file)
}

/// Returns the message of an error, which must have a remedy.
#[track_caller]
fn refused<T>(result: Result<T>) -> String {
    let error = result.err().expect("an error");
    assert!(error.remedies().next().is_some(), "no remedy: {error}");
    error.message().to_string()
}
