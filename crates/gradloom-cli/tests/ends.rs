//! Tests that the tokens that end a text, as stored with a model, are kept through every conversion.

#![allow(clippy::disallowed_methods, reason = "tests read what they write")]

mod common;
use common::Workspace;
use serde_json::{Value, json};
use std::fs;

const GGUF: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data/gguf/gpt2.gguf");

/// Returns the generated text, its number of tokens, and the reason why it ended.
fn written(workspace: &Workspace, path: &str) -> [Value; 3] {
    let line = format!("sample {path} --prompt the --tokens 10 --temperature 0 --json");
    let said: Value = serde_json::from_str(&workspace.succeed(&line).stdout).unwrap();
    ["text", "tokens", "finish"].map(|key| said[key].clone())
}

/// Returns a GGUF file with additional metadata of 32-bit numbers.
fn with_numbers(bytes: &[u8], numbers: &[(&str, u32)]) -> Vec<u8> {
    let text = |text: &str| [&(text.len() as u64).to_le_bytes()[..], text.as_bytes()].concat();
    let number =
        |(key, n): &(&str, u32)| [text(key), 4u32.to_le_bytes().into(), n.to_le_bytes().into()].concat();
    let mut entries = numbers.iter().map(number).collect::<Vec<_>>().concat();
    // Pad the last text, to keep the tensors aligned.
    let filler = [text("x"), 8u32.to_le_bytes().into()].concat();
    let rest = (entries.len() + filler.len() + 8).next_multiple_of(32) - entries.len() - filler.len() - 8;
    entries.extend([filler, text(&" ".repeat(rest))].concat());
    let count = u64::from_le_bytes(bytes[16..24].try_into().unwrap()) + numbers.len() as u64 + 1;
    [&bytes[..16], &count.to_le_bytes(), &entries, &bytes[24..]].concat()
}

/// Returns the ids of the ten most likely tokens after the prompt, with no end token set.
fn tokens(workspace: &Workspace) -> Vec<u32> {
    let [text, ..] = written(workspace, "plain.gguf");
    workspace.put("text.txt", text.as_str().unwrap().as_bytes());
    let said = workspace.succeed("tokenize plain.gguf text.txt").stdout;
    said.split_whitespace().map(|id| id.parse().unwrap()).collect()
}

fn workspace() -> Workspace {
    let workspace = Workspace::new();
    fs::copy(GGUF, workspace.path("plain.gguf")).unwrap();
    workspace
}

/// Converts a model in every possible way, and returns the paths of the results.
fn ways(workspace: &Workspace, from: &str) -> Vec<String> {
    workspace.put("words.txt", "the and the in on the end\n".repeat(200).as_bytes());
    let train = format!("train --init {from} --data words.txt --batch 2 --steps 1 --lr 1e-12 --threads 1");
    for line in [
        format!("import {from} imported"),
        "import imported again".to_string(),
        format!("{train} --out trained"),
        format!("{train} --lora 2 --out adapted"),
        "train --resume adapted --steps 2".to_string(),
        format!("export {from} --out exported"),
        "export imported --out exported-import --dtype f32".to_string(),
        "export trained --out exported-run".to_string(),
        "export adapted --out exported-lora".to_string(),
        "import exported-lora back".to_string(),
        "export back --out and-again".to_string(),
    ] {
        workspace.succeed(&line);
    }
    let paths = ["imported", "again", "imported/model.safetensors", "trained", "adapted", "exported"];
    let more = ["exported-import", "exported-run", "exported-lora", "back", "and-again"];
    paths.into_iter().chain(more).map(str::to_string).collect()
}

/// Tests several ends in `generation_config.json`, with values that Python writes but JSON does not allow.
#[test]
fn all_ends_of_a_folder_go_along() {
    let workspace = workspace();
    let tokens = tokens(&workspace);
    let last = tokens[4];
    let at = tokens.iter().position(|id| *id == last).unwrap();
    workspace.succeed("export plain.gguf --out folder");
    assert_eq!(written(&workspace, "folder"), written(&workspace, "plain.gguf"));
    let text = format!("{{\"eos_token_id\": [39, 38, {last}], \"max_time\": Infinity, \"top_k\": 7}}");
    workspace.put("folder/generation_config.json", text.as_bytes());
    let expected = written(&workspace, "folder");
    assert_eq!((&expected[1], &expected[2]), (&at.into(), &json!("end")), "{expected:?}");
    for path in ways(&workspace, "folder") {
        assert_eq!(written(&workspace, &path), expected, "{path}");
        let folder = path.trim_end_matches("/model.safetensors");
        let said = workspace.text(&format!("{folder}/generation_config.json"));
        assert!(said.contains("Infinity") && said.contains("\"top_k\": 7"), "{path}: {said}");
    }
    // transformers uses the configuration's end if there is no other.
    let config: Value = serde_json::from_str(&workspace.text("exported-lora/config.json")).unwrap();
    assert_eq!(config["eos_token_id"], json!([39, 38, last]));
    // A damaged file is reported, not ignored.
    workspace.put("folder/generation_config.json", b"{\"eos_token_id\": [1,");
    for line in ["sample folder", "import folder other", "export folder --out other"] {
        let failed = workspace.run(line);
        assert!(failed.stderr.contains("folder/generation_config.json: it is no JSON"), "{}", failed.stderr);
        assert!(!workspace.path("other").exists());
    }
}

/// Tests that JSON as written by Python is accepted in every file, and that unused settings of a tokenizer's
/// configuration are kept. A `generation_config.json` without an end token means that there is none,
/// regardless of `config.json`.
#[test]
fn all_that_the_files_of_a_folder_say_goes_along() {
    let workspace = workspace();
    workspace.succeed("export plain.gguf --out folder");
    let add = |name: &str, entry: &str| {
        let text = workspace.text(&format!("folder/{name}"));
        workspace.put(&format!("folder/{name}"), format!("\u{feff}{{{entry}, {}", &text[1..]).as_bytes());
    };
    add("config.json", r#""x": [Infinity, NaN, 1e400, "\ud83d"]"#);
    add("tokenizer_config.json", r#""model_max_length": Infinity, "sep_token": "q", "padding_side": "left""#);
    workspace.put("folder/generation_config.json", b"{}");
    ways(&workspace, "folder");
    for line in ["export folder --out exported", "export imported --out exported-import"] {
        workspace.succeed(line);
    }
    for folder in ["imported", "trained", "exported", "exported-import", "exported-run", "and-again"] {
        let said = workspace.text(&format!("{folder}/tokenizer_config.json"));
        for entry in ["\"model_max_length\": Infinity", "\"sep_token\": \"q\"", "\"padding_side\": \"left\""]
        {
            assert!(said.contains(entry), "{folder}: {said}");
        }
        assert_eq!(workspace.text(&format!("{folder}/generation_config.json")).trim(), "{}", "{folder}");
    }
    workspace.put("exported/config.json", "[".repeat(300).as_bytes());
    let failed = workspace.run("export folder --out exported");
    let expected =
        "--out exported: the folder has a config.json that cannot be read: 300 values lie in one another";
    assert!(failed.stderr.contains(expected), "{}", failed.stderr);
}

/// Tests that the end-of-turn and end-of-message tokens of a GGUF file end a text, too.
#[test]
fn all_ends_of_a_gguf_file_go_along() {
    let workspace = workspace();
    let tokens = tokens(&workspace);
    for (name, key) in [("turn", "eot"), ("message", "eom")] {
        let last = tokens[3];
        let at = tokens.iter().position(|id| *id == last).unwrap();
        let key = format!("tokenizer.ggml.{key}_token_id");
        // A value that is not a token, such as -1, is ignored.
        let numbers = [(key.as_str(), last), ("tokenizer.ggml.padding_token_id", u32::MAX)];
        workspace.put("model.gguf", &with_numbers(&workspace.read("plain.gguf"), &numbers));
        let expected = written(&workspace, "model.gguf");
        assert_eq!((&expected[1], &expected[2]), (&at.into(), &json!("end")), "{name}: {expected:?}");
        if name == "turn" {
            for path in ways(&workspace, "model.gguf") {
                assert_eq!(written(&workspace, &path), expected, "{path}");
            }
        }
    }
}
