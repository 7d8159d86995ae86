//! Tests that the tokenizer of a GGUF file is used.

#![allow(clippy::disallowed_methods, reason = "tests read what they write")]

mod common;
use common::Workspace;
use std::fs;

/// Files written by `scripts/oracle/gguf_files.py`.
const FILES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data/gguf");

#[test]
fn the_tokenizer_of_a_file_is_used() {
    let workspace = Workspace::new();
    for name in ["gpt2", "llama"] {
        fs::copy(format!("{FILES}/{name}.gguf"), workspace.path(&format!("{name}.gguf"))).unwrap();
    }
    assert_eq!(workspace.succeed("tokenize gpt2.gguf --text the").stdout, "29\n");
    let text = workspace.succeed("sample gpt2.gguf --prompt the --tokens 5 --temperature 0").stdout;
    assert!(text.starts_with("the") && text.len() > 4, "{text}");
    workspace.put("words.txt", "the and the in on\n".repeat(9).as_bytes());
    let found = workspace.succeed("eval gpt2.gguf --data words.txt --json").stdout;
    let found: serde_json::Value = serde_json::from_str(&found).unwrap();
    // The tokens are `the`, ` and`, ` the`, twice a blank and a word, and the line feed.
    assert_eq!((&found["tokens"], &found["context"]), (&(9 * 8 - 1).into(), &16.into()));
    let bits = found["loss"].as_f64().unwrap() * 71.0 / 2f64.ln() / (9.0 * 18.0 - 3.0);
    assert!((found["bits_per_byte"].as_f64().unwrap() / bits - 1.0).abs() < 1e-9, "{found} {bits}");

    // If the file's own tokenizer is not supported, the one next to the file is used; without it, this is an
    // error.
    let bytes = workspace.read("gpt2.gguf");
    let at = bytes.windows(5).position(|five| five == b"gpt-2").expect("how text is split");
    let other = [&bytes[..at], b"klngn", &bytes[at + 5..]].concat();
    workspace.put("other.gguf", &other);
    let failed = workspace.run("sample other.gguf");
    let expected = "error: other.gguf: `tokenizer.ggml.pre` is \"klngn\", which is not known\n  help: use";
    assert!(failed.code == Some(1) && failed.stderr.starts_with(expected), "{}", failed.stderr);
    let large = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data/tokenizers/llama3/tokenizer.json");
    fs::copy(large, workspace.path("tokenizer.json")).unwrap();
    let failed = workspace.run("eval other.gguf --data words.txt");
    assert!(failed.stderr.contains("tokenizer.json: it makes the token "), "{}", failed.stderr);
    assert_eq!(workspace.succeed("tokenize gpt2.gguf --text the").stdout, "29\n");
}
