//! Tests that the tokenizers of published models are used, and that mismatched files are refused.

#![allow(clippy::disallowed_methods, reason = "tests read what they write")]

mod common;
use common::Workspace;
use std::fs;
use std::path::Path;

const DATA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data");

fn workspace() -> Workspace {
    let workspace = Workspace::new();
    for name in ["gpt2.gguf", "llama.gguf"] {
        fs::copy(Path::new(DATA).join("gguf").join(name), workspace.path(name)).unwrap();
    }
    fs::create_dir(workspace.path("foreign")).unwrap();
    for name in ["config.json", "model.safetensors"] {
        let from = Path::new(DATA).join("hugging_face/gpt2").join(name);
        fs::copy(from, workspace.path("foreign").join(name)).unwrap();
    }
    workspace
}

fn refused(workspace: &Workspace, line: &str, message: &str) {
    let failed = workspace.run(line);
    assert!(failed.stderr.contains(&format!("error: {message}")), "{line}: {}", failed.stderr);
}

#[test]
fn an_exported_gguf_file_has_its_tokenizer() {
    let workspace = workspace();
    for name in ["gpt2", "llama"] {
        let said = workspace.succeed(&format!("export {name}.gguf --out {name}")).stdout;
        assert!(said.contains(&format!("gradloom sample {name}")), "{said}");
        let text =
            |path: &str| workspace.succeed(&format!("sample {path} --temperature 0 --tokens 9")).stdout;
        assert_eq!(text(name), text(&format!("{name}.gguf")));
        let config: serde_json::Value =
            serde_json::from_str(&workspace.text(&format!("{name}/config.json"))).unwrap();
        assert!(config["eos_token_id"].is_number() || config["eos_token_id"].is_null(), "{config}");
    }
    // An export replaces another one with all its files, but not another model.
    workspace.succeed("export foreign --out gpt2");
    assert!(!workspace.path("gpt2/tokenizer.json").exists());
    refused(&workspace, "export llama.gguf --out foreign", "--out foreign: the folder has another model");
}

#[test]
fn tokens_that_the_model_does_not_have_are_told() {
    let workspace = workspace();
    for flags in ["", "--count 2", "--beams 2"] {
        let line = format!("sample foreign --prompt a --tokens 3 {flags}");
        refused(&workspace, &line, "bytes: it makes the token 97, and the model has 97");
    }
    for flags in ["--count 2", "--beams 2", "--draft foreign"] {
        refused(&workspace, &format!("sample foreign --prompt 1 --tokens 0 {flags}"), "--tokens 0: ");
    }
    refused(
        &workspace,
        "sample foreign --beams 2 --temperature 0",
        "the argument '--beams <N>' cannot be used",
    );
}

#[test]
fn tokens_of_another_tokenizer_are_refused() {
    let workspace = workspace();
    for name in ["gpt2", "llama"] {
        workspace.succeed(&format!("prepare text.txt --tokenizer {name}.gguf --out {name}-tokens"));
    }
    workspace.succeed("eval gpt2.gguf --data gpt2-tokens");
    for line in ["eval gpt2.gguf --data llama-tokens", "train --init gpt2.gguf --data llama-tokens --steps 1"]
    {
        let failed = workspace.run(line);
        assert!(failed.stderr.contains("these tokens were made by"), "{line}: {}", failed.stderr);
    }
}

/// Tests that the newline that `train` adds after a file is not scored.
#[test]
fn a_text_is_scored_as_it_is_in_its_file() {
    let workspace = workspace();
    for (text, tokens) in [("123 456", 6), ("123 456\n", 7)] {
        workspace.put("short.txt", text.as_bytes());
        let said = workspace.succeed("eval foreign --data short.txt --json").stdout;
        let found: serde_json::Value = serde_json::from_str(&said).unwrap();
        assert_eq!(found["tokens"], tokens);
    }
}

#[test]
fn a_form_that_no_matrix_takes_is_told() {
    let workspace = workspace();
    workspace.succeed("train --config small.toml --data text.txt --steps 1 --width 12 --heads 2 --out run");
    refused(&workspace, "export run --out small --weights q8_0", "--weights q8_0: no matrix has rows");
    assert!(!workspace.path("small").exists());
}

/// Tests that beyond the context of the draft model, the model continues alone.
#[test]
fn a_draft_model_may_read_less() {
    let workspace = workspace();
    let train = "train --config small.toml --data text.txt --steps 1";
    workspace.succeed(&format!("{train} --context 32 --out model"));
    workspace.succeed(&format!("{train} --context 8 --seed 4 --out draft"));
    for prompt in ["12", "a prompt of more than 8"] {
        workspace.put("prompt.txt", prompt.as_bytes());
        let text = |flags: &str| -> serde_json::Value {
            let line =
                format!("sample model --prompt-file prompt.txt --tokens 9 --temperature 0 --json {flags}");
            serde_json::from_str(&workspace.succeed(&line).stdout).unwrap()
        };
        let (alone, drafted) = (text(""), text("--draft draft"));
        assert_eq!((&drafted["text"], &drafted["tokens"]), (&alone["text"], &alone["tokens"]));
        assert_eq!(alone["finish"], "length");
    }
}

#[test]
fn a_gguf_file_is_shown_with_its_own_names_and_types() {
    let workspace = workspace();
    let shown = workspace.succeed("info llama.gguf --tensors --json").stdout;
    let shown: serde_json::Value = serde_json::from_str(&shown).unwrap();
    let file = gradloom_models::gguf::Gguf::open(workspace.path("llama.gguf")).unwrap();
    let size: usize = file.tensors().map(|tensor| tensor.bytes.len()).sum();
    assert_eq!((&shown["bytes"], &shown["tensors"]), (&size.into(), &file.tensors().count().into()));
    for tensor in file.tensors() {
        let said = format!("{}{:?}", tensor.ty.to_string().to_lowercase(), tensor.shape);
        assert_eq!(shown["names"][tensor.name], said);
    }
    assert!(shown["types"].as_object().unwrap().keys().any(|ty| ty.starts_with('q')), "{shown}");
}
