//! Output and files of `profile`.

#![allow(clippy::disallowed_methods, reason = "tests read what they write")]

mod common;
use common::Workspace;
use serde_json::Value;

/// Runs a profile with the workspace's own cache folder.
fn profile(workspace: &Workspace, flags: &str) -> String {
    let line = format!("profile --config tg-mlp --steps 20 --threads 2 {flags}");
    let mut command = workspace.command(&line);
    let output = command.env("XDG_CACHE_HOME", workspace.path("cache")).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn parse(json: &str) -> Value {
    serde_json::from_str(json).unwrap_or_else(|error| panic!("{error} in {json}"))
}

#[test]
fn an_instruction_set_that_the_machine_lacks_is_an_error() {
    let workspace = Workspace::new();
    for line in ["devices", "profile --config tg-mlp"] {
        let output = workspace.command(line).env("GRADLOOM_INSTRUCTIONS", "mmx").output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{text}");
        assert!(
            text.starts_with("error: GRADLOOM_INSTRUCTIONS is `mmx`; this machine has baseline"),
            "{text}"
        );
    }
    let output = workspace.command("devices").env("GRADLOOM_INSTRUCTIONS", "baseline").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn every_launch_is_in_the_profile_and_the_bounds_are_kept() {
    let workspace = Workspace::new();
    let figures = parse(&profile(&workspace, "--json --trace trace.json"));
    let launches = figures["launches"].as_array().unwrap();
    let bench = parse(&workspace.succeed("bench --config tg-mlp --threads 2 --device null --json").stdout);
    assert_eq!(Some(launches.len() as u64), bench["launches"].as_u64());
    let mut numbers: Vec<u64> = launches.iter().map(|l| l["launch"].as_u64().unwrap()).collect();
    numbers.sort_unstable();
    assert!(numbers.into_iter().eq(0..launches.len() as u64));
    assert!(launches.iter().all(|l| l["us"].as_f64().unwrap() > 0.0), "{figures}");

    // The forward pass has 256 x (64 + 64 x 64 + 64) products, the backward pass twice as many without the
    // first layer's.
    let flops = figures["total"]["flops"].as_u64().unwrap();
    let [outer, inner] = [2 * 256 * 64, 2 * 256 * 64 * 64];
    let products = (2 * outer + inner) + (outer + 2 * inner + 2 * outer);
    assert!((products..products * 3 / 2).contains(&flops), "{flops} with {products} for products");
    let of_kinds: u64 =
        figures["kernels"].as_array().unwrap().iter().map(|k| k["flops"].as_u64().unwrap()).sum();
    assert_eq!(of_kinds, flops);

    let trace = parse(&workspace.text("trace.json"));
    let slices = trace["traceEvents"].as_array().unwrap().iter().filter(|event| event["ph"] == "X").count();
    assert_eq!(slices, 5 * (1 + launches.len()), "five steps are traced");

    // Valid cached bounds are used, damaged ones are not, and a new measurement replaces them.
    let file = "cache/gradloom/roofline.json";
    let mut kept = parse(&workspace.text(file));
    let machine = kept["machines"].as_object_mut().unwrap().values_mut().next().unwrap();
    machine["flops_per_s"] = 1e15.into();
    workspace.put(file, kept.to_string().as_bytes());
    let bound =
        |flags: &str| parse(&profile(&workspace, flags))["roofline"]["gflops_per_s"].as_f64().unwrap();
    assert_eq!(bound("--json"), 1e6);
    assert!(bound("--json --remeasure") < 1e6);
    assert!(bound("--json") < 1e6);

    let text = profile(&workspace, "--top 3");
    assert!(text.starts_with("tg-mlp on ") && text.contains("\ntotal "), "{text}");
    assert!(text.ends_with("%\n") && text.contains(" others "), "{text}");
}

#[test]
fn what_cannot_be_profiled_is_refused() {
    let workspace = Workspace::new();
    for (flags, message) in [
        ("--config none", "error: --config none: there is no configuration of this name\n"),
        ("--config tg-mlp --steps 0", "error: --steps 0: must be at least 1\n"),
        ("--config tg-mlp --threads 0", "error: --threads 0: must be at least 1\n"),
    ] {
        let finished = workspace.run(&format!("profile {flags}"));
        assert_eq!(finished.code, Some(2), "{flags}");
        assert!(finished.stderr.starts_with(message), "{}", finished.stderr);
    }
    let mut command = workspace.command("profile --config tg-mlp --steps 1 --trace no/where.json");
    let output = command.env("XDG_CACHE_HOME", workspace.path("cache")).output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr.starts_with("error: --trace no/where.json: cannot be written: "), "{stderr}");
}
