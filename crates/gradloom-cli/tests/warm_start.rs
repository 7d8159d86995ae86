//! Training that starts from an existing model, and imported models.

#![allow(clippy::disallowed_methods, reason = "tests read what they write")]

mod common;
use common::Workspace;
use gradloom::runtime::files::Weights;
use std::fs;
use std::path::Path;

/// Models written by `scripts/oracle/hugging_face.py` and `gguf_files.py`.
const DATA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data");

/// Copies a folder or file of the test data into the workspace.
fn copy(workspace: &Workspace, from: &str, to: &str) {
    let from = Path::new(DATA).join(from);
    if from.is_file() {
        fs::copy(from, workspace.path(to)).unwrap();
        return;
    }
    fs::create_dir(workspace.path(to)).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        if entry.file_name() != "expected.safetensors" {
            fs::copy(entry.path(), workspace.path(to).join(entry.file_name())).unwrap();
        }
    }
}

/// Puts the tokenizer of a small GGUF file next to models of the test data, which have none.
fn give_tokenizer(workspace: &Workspace, folders: &[&str]) {
    copy(workspace, "gguf/gpt2.gguf", "gpt2.gguf");
    workspace.succeed("import gpt2.gguf its-tokenizer");
    for (folder, name) in folders.iter().flat_map(|f| [(f, "tokenizer.json"), (f, "tokenizer_config.json")]) {
        fs::copy(workspace.path("its-tokenizer").join(name), workspace.path(folder).join(name)).unwrap();
    }
}

/// Returns the held-out loss before the first step, and the last training loss.
fn losses(workspace: &Workspace, run: &str) -> (f64, f64) {
    let text = workspace.text(&format!("{run}/metrics.csv"));
    let rows: Vec<Vec<&str>> = text.lines().skip(1).map(|line| line.split(',').collect()).collect();
    (rows[0][2].parse().unwrap(), rows.last().unwrap()[1].parse().unwrap())
}

#[test]
fn a_warm_start_goes_on_from_the_models_loss() {
    let workspace = Workspace::new();
    workspace.succeed("train --config small.toml --data text.txt --dropout 0 --out first");
    let init = "train --init first --data text.txt --batch 2 --threads 1";
    workspace.succeed(&format!("{init} --steps 60 --lr 0.003 --save-every 20 --out second"));
    // The last held-out loss of one run is the first of the other: the windows and weights are the same.
    let text = workspace.text("first/metrics.csv");
    let last: f64 = text.lines().last().unwrap().split(',').nth(2).unwrap().parse().unwrap();
    let (began, ended) = losses(&workspace, "second");
    assert!((began - last).abs() < 1e-6 && ended < began, "{last}, {began}, {ended}");
    // Repeated and resumed, the run is the same.
    workspace.succeed("train --config second/config.json --out again");
    assert_eq!(workspace.text("again/metrics.csv"), workspace.text("second/metrics.csv"));
    workspace.succeed("train --resume again --steps 65");
    workspace.succeed("train --resume second --steps 65");
    assert_eq!(workspace.text("again/metrics.csv"), workspace.text("second/metrics.csv"));
    assert_eq!(workspace.read("again/model.safetensors"), workspace.read("second/model.safetensors"));
    workspace.succeed("inspect second --verify");
}

#[test]
fn published_models_are_imported_and_trained_further() {
    let workspace = Workspace::new();
    copy(&workspace, "hugging_face/gpt2", "gpt2");
    copy(&workspace, "hugging_face/llama", "llama");
    give_tokenizer(&workspace, &["gpt2", "llama"]);
    workspace.put("words.txt", "the and the in on the end\n".repeat(200).as_bytes());
    for (from, context) in [("gpt2.gguf", ""), ("gpt2", ""), ("llama", "--context 16")] {
        let told = workspace.succeed(&format!("import {from} {from}-here")).stdout;
        assert!(told.starts_with(&format!("{from}-here: ")) && told.contains(" parameters, "), "{told}");
        let eval = |path: &str| {
            let found = workspace.succeed(&format!("eval {path} --data words.txt --json")).stdout;
            serde_json::from_str::<serde_json::Value>(&found).unwrap()["loss"].clone()
        };
        assert_eq!(eval(from), eval(&format!("{from}-here")), "{from}");
        workspace.succeed(&format!("sample {from}-here --tokens 3"));
        let train = format!("train --data words.txt --batch 2 --steps 30 --lr 0.01 --threads 1 {context}");
        workspace.succeed(&format!("{train} --init {from} --out {from}-a"));
        workspace.succeed(&format!("{train} --init {from}-here --out {from}-b"));
        assert_eq!(
            workspace.text(&format!("{from}-a/metrics.csv")),
            workspace.text(&format!("{from}-b/metrics.csv"))
        );
        let (began, ended) = losses(&workspace, &format!("{from}-a"));
        assert!(ended < 0.8 * began, "{from}: {began} to {ended}");
        workspace.succeed(&format!("train --resume {from}-a --steps 31"));
        let verified = workspace.succeed(&format!("inspect {from}-a --verify")).stdout;
        assert!(
            verified.starts_with("shrunk to 2 layers, ") && verified.contains("all within"),
            "{verified}"
        );
        workspace.succeed(&format!("sample {from}-a --tokens 3"));
        workspace.succeed(&format!("export {from}-a --out {from}-exported"));
        assert_eq!(eval(&format!("{from}-a")), eval(&format!("{from}-exported")), "{from}");
    }
}

#[test]
fn what_contradicts_the_model_is_refused() {
    let workspace = Workspace::new();
    copy(&workspace, "hugging_face/gpt2", "gpt2");
    copy(&workspace, "hugging_face/llama", "llama");
    let small = "--init: gpt2: the model has 97 tokens, and the tokenizer bytes 256\n";
    let failed = workspace.run("train --data text.txt --init gpt2");
    assert!(
        failed.code == Some(2) && failed.stderr.starts_with(&format!("error: {small}")),
        "{}",
        failed.stderr
    );
    give_tokenizer(&workspace, &["gpt2", "llama"]);
    let tokenizer = format!("{DATA}/tokenizers/llama3/tokenizer.json");
    for (line, expected) in [
        ("--init none", "--init: none: no such file or folder\n"),
        ("--init gpt2 --preset tiny", "--preset tiny: --init says what the sizes are\n"),
        ("--init gpt2 --layers 77", "--layers 77: the model that --init names has "),
        ("--init gpt2 --context 5", "--context 5: the model that --init names has "),
        ("--init llama --context 999999", "--context 999999: the model that --init names has "),
        ("--init llama --dropout 0.5", "--dropout 0.5: a Llama has none\n"),
        ("--init gpt2.gguf --tokenizer bytes", "--tokenizer bytes: this is not the tokenizer of the model\n"),
        (
            &format!("--init gpt2 --tokenizer {tokenizer}"),
            &format!("--tokenizer {tokenizer}: this is not the tokenizer of the model\n"),
        ),
    ] {
        let failed = workspace.run(&format!("train --data text.txt {line}"));
        assert_eq!(failed.code, Some(2), "{line}: {}", failed.stderr);
        assert!(failed.stderr.starts_with(&format!("error: {expected}")), "{line}: {}", failed.stderr);
        assert!(failed.stderr.contains("\n  help: "), "{line}: {}", failed.stderr);
        assert!(!workspace.path("runs").exists(), "{line}");
    }
    // The folder is checked before the model, which may be large.
    let failed = workspace.run("import gpt2 gpt2");
    assert!(failed.stderr.starts_with("error: gpt2: the folder is not empty"), "{}", failed.stderr);
    let failed = workspace.run("train --resume gpt2 --init llama");
    assert!(failed.code == Some(2) && failed.stderr.contains("cannot be used with"), "{}", failed.stderr);
}

/// Tests that only adapters are trained, and that the result is the model with them merged, which any command
/// reads.
#[test]
fn adapters_are_trained_beside_a_model() {
    let workspace = Workspace::new();
    workspace.succeed("train --config small.toml --data text.txt --dropout 0 --out first");
    let init = "train --init first --data text.txt --batch 2 --threads 1 --lora 2 --lora-alpha 4";
    workspace.succeed(&format!("{init} --steps 40 --lr 0.01 --save-every 20 --out second"));
    let (began, ended) = losses(&workspace, "second");
    assert!(ended < began, "{began}, {ended}");
    let elements = |run: &str, name: &str| {
        let file = Weights::open(workspace.path(run).join("model.safetensors")).unwrap();
        assert!(file.iter().all(|(name, _)| !name.contains("lora")));
        file.get(name).unwrap().to_f32().unwrap()
    };
    assert_eq!(elements("first", "wte.weight"), elements("second", "wte.weight"));
    assert_ne!(elements("first", "h.0.mlp.c_fc.weight"), elements("second", "h.0.mlp.c_fc.weight"));
    // The held-out loss of the model with adapters is that of the merged model, from which another run
    // starts.
    let text = workspace.text("second/metrics.csv");
    let last: f64 = text.lines().last().unwrap().split(',').nth(2).unwrap().parse().unwrap();
    workspace.succeed("train --init second --data text.txt --batch 2 --threads 1 --steps 1 --out third");
    assert!((losses(&workspace, "third").0 - last).abs() < 1e-5);
    workspace.succeed("sample second --tokens 3");
    // A published model behaves in the same way.
    copy(&workspace, "hugging_face/gpt2", "gpt2");
    give_tokenizer(&workspace, &["gpt2"]);
    workspace.succeed("train --init gpt2 --data text.txt --batch 1 --steps 1 --lora 1 --out published");
    // Repeated and resumed, the run is the same.
    workspace.succeed("train --config second/config.json --out again");
    assert_eq!(workspace.read("again/model.safetensors"), workspace.read("second/model.safetensors"));
    for run in ["again", "second"] {
        workspace.succeed(&format!("train --resume {run} --steps 50"));
    }
    assert_eq!(
        workspace.read("again/state.safetensors").len(),
        workspace.read("second/state.safetensors").len()
    );
    assert_eq!(workspace.text("again/metrics.csv"), workspace.text("second/metrics.csv"));
    for (line, message) in [
        ("--lora 2", "--lora 2: there is no model to adapt"),
        ("--init first --lora-alpha 2", "--lora-alpha: there are no adapters"),
        ("--init first --lora 0", "--lora: adapters of rank 0 add nothing"),
        ("--init first --lora 2 --lora-targets *.nothing", "--lora: "),
        ("--init first --lora 2 --lora-targets wte.weight", "--lora: `wte.weight`"),
    ] {
        let failed = workspace.run(&format!("train --data text.txt --steps 1 {line}"));
        assert!(failed.stderr.contains(&format!("error: {message}")), "{}", failed.stderr);
    }
}
