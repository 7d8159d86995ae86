//! Models stored in fewer bits: written by `export`, and read by every command that takes a model.

#![allow(clippy::disallowed_methods, reason = "tests read what they write")]

mod common;
use common::Workspace;
use serde_json::Value;

#[test]
fn weights_in_fewer_bits_are_exported_and_read() {
    let workspace = Workspace::new();
    workspace.succeed("train --config small.toml --data text.txt --width 32 --steps 60 --out run");
    let json = |line: &str| -> Value { serde_json::from_str(&workspace.succeed(line).stdout).unwrap() };
    let loss = |path: &str| json(&format!("eval {path} --data text.txt --json"))["loss"].as_f64().unwrap();
    let whole = loss("run");
    let size = |path: &str| workspace.read(&format!("{path}/model.safetensors")).len();
    workspace.succeed("export run --out floats");
    for (weights, within, share) in
        [("bf16", 0.01, 0.6), ("f16", 0.001, 0.6), ("q8_0", 0.01, 0.4), ("q4_0", 0.3, 0.3)]
    {
        let told = workspace.succeed(&format!("export run --out {weights} --weights {weights}")).stdout;
        assert!(told.starts_with(&format!("{weights}: 16 tensors, 6 of them in {weights}, ")), "{told}");
        let kept = loss(weights);
        assert!(kept != whole && (kept / whole - 1.0).abs() < within, "{weights}: {kept} for {whole}");
        assert!((size(weights) as f64) < share * size("floats") as f64, "{weights}: {}", size(weights));
        workspace.succeed(&format!("sample {weights} --tokens 5"));
        assert_eq!(json(&format!("info {weights} --json"))["weights"], weights);
        let told = workspace.succeed(&format!("info {weights}")).stdout;
        assert!(told.contains(&format!(" parameters, matrices in {weights}\n")), "{told}");

        // After an export, an import or a training, the weights are floats again.
        workspace.succeed(&format!("export {weights} --out {weights}-floats"));
        workspace.succeed(&format!("import {weights} {weights}-run"));
        assert_eq!(json(&format!("info {weights}-floats --json"))["weights"], Value::Null);
        let again = [loss(&format!("{weights}-floats")), loss(&format!("{weights}-run"))];
        assert!(again.iter().all(|again| (again / kept - 1.0).abs() < 1e-5), "{weights}: {again:?}, {kept}");
        let train = format!("train --init {weights} --data text.txt --batch 2 --steps 1 --threads 1");
        workspace.succeed(&format!("{train} --out {weights}-more"));
    }
    // The result is the same from the folder of transformers, and from the quantized one.
    workspace.succeed("export floats --out again --quantize q8_0");
    assert_eq!(workspace.read("again/model.safetensors"), workspace.read("q8_0/model.safetensors"));
    workspace.succeed("export q8_0 --out again --weights q8_0");
    assert_eq!(workspace.read("again/model.safetensors"), workspace.read("q8_0/model.safetensors"));
    let failed = workspace.run("export q8_0 --out other --weights q4_0");
    let expected = "error: --weights q4_0: those of the model are q8_0 already\n  help: export the model";
    assert!(failed.code == Some(2) && failed.stderr.starts_with(expected), "{}", failed.stderr);
    let failed = workspace.run("export run --out other --weights q4_0 --dtype f16");
    assert!(failed.code == Some(2) && failed.stderr.contains("cannot be used with"), "{}", failed.stderr);
    assert!(!workspace.path("other").exists());
}
