//! Output of `inspect`, `devices` and `bench`.

#![allow(clippy::disallowed_methods, reason = "tests read what they write")]

mod common;
use common::Workspace;
use gradloom::ir::parse;

#[test]
fn every_stage_prints_and_the_graphs_parse_back() {
    let workspace = Workspace::new();
    let mut ops = Vec::new();
    for stage in ["trace", "grad", "optim", "passes"] {
        let text = workspace.succeed(&format!("inspect tiny --batch 2 --stage {stage}")).stdout;
        let graph = parse(text.trim_end()).unwrap_or_else(|error| panic!("{stage}: {error}"));
        ops.push(graph.entry_ops().count());
    }
    assert!(ops[0] < ops[1] && ops[1] < ops[2] && ops[3] < ops[2], "{ops:?}");
    let summary = workspace.succeed("inspect tiny --batch 2").stdout;
    assert!(summary.starts_with("tiny: 842,496 parameters; a step of 2 × 128 = 256 tokens\n"), "{summary}");
    for (stage, n) in ["trace", "grad", "optim", "passes"].iter().zip(&ops) {
        assert!(summary.contains(&format!("{stage:<8} {n:>5}")), "{summary}");
    }
    let plan = workspace.succeed("inspect tiny --batch 2 --stage plan").stdout;
    let launches = plan.split(' ').next().unwrap();
    assert!((20..100).contains(&launches.parse::<usize>().unwrap()), "{launches} launches");
    let kernels = workspace.succeed("inspect tiny --batch 2 --stage fuse").stdout;
    assert_eq!(kernels.lines().filter(|line| line.starts_with("kernel ")).count().to_string(), launches);
    assert!(plan.contains("\nlaunches:\n"), "{plan}");
}

#[test]
fn a_summary_is_one_object() {
    let workspace = Workspace::new();
    let json = workspace.succeed("inspect tiny --batch 2 --json").stdout;
    assert_eq!(json.lines().count(), 1);
    let summary: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&summary["preset"], &summary["parameters"]), (&"tiny".into(), &842_496.into()));
    let parts = ["store_bytes", "constant_bytes", "step_bytes", "workspace_bytes"];
    let sum: u64 = parts.iter().map(|part| summary[part].as_u64().unwrap()).sum();
    assert_eq!(summary["planned_peak_bytes"], sum);
    let text = workspace.succeed("inspect tiny --batch 2").stdout;
    for stage in summary["stages"].as_array().unwrap() {
        let (name, ops) = (stage["stage"].as_str().unwrap(), stage["ops"].as_u64().unwrap());
        assert!(text.contains(&format!("{name:<8} {ops:>5}")), "{text}");
    }
    let plan = workspace.succeed("inspect tiny --batch 2 --stage plan --json").stdout;
    assert_eq!(plan, workspace.succeed("inspect tiny --batch 2 --format json").stdout);
    let refused = workspace.run("inspect tiny --stage trace --json");
    assert_eq!(refused.code, Some(2), "{refused:?}");
}

/// The options of `train` that decide the memory of a step have their effect on a preset.
#[test]
fn a_preset_is_shown_with_options_of_training() {
    let workspace = Workspace::new();
    let summary = |options: &str| -> serde_json::Value {
        let json = workspace.succeed(&format!("inspect tiny --batch 2 --json {options}")).stdout;
        serde_json::from_str(&json).unwrap()
    };
    let peak = |summary: &serde_json::Value| summary["planned_peak_bytes"].as_u64().unwrap();
    assert_eq!(summary("--context 32")["context"], 32);
    let [kept, dropping] = ["--dropout 0", "--dropout 0.1"].map(summary);
    assert!(peak(&dropping) > peak(&kept), "the bits of dropout are kept");
    let budget = peak(&kept) * 4 / 5;
    assert!(peak(&summary(&format!("--dropout 0 --memory-budget {budget}"))) <= budget);
    let refused = workspace.run("inspect tiny --memory-budget 1k");
    assert!(refused.code == Some(1) && refused.stderr.contains("raise --memory-budget"), "{refused:?}");
}

#[test]
fn nothing_is_allocated_to_look_at_a_large_model() {
    let summary = Workspace::new().succeed("inspect gpt2-xl --batch 1").stdout;
    assert!(summary.contains("1,557,611,200 parameters"), "{summary}");
}

#[test]
fn kernels_are_shown_by_launch_and_graphs_in_short() {
    let workspace = Workspace::new();
    let command = "inspect tiny --batch 2 --target cuda";
    let all = workspace.succeed(&format!("{command} --stage emit")).stdout;
    let one = workspace.succeed(&format!("{command} --stage emit --launch 3")).stdout;
    assert!(one.starts_with("// launch 3: ") && all.contains(one.trim_end()), "{one}");
    assert!(!one.contains("// launch 4: ") && one.len() < all.len() / 10);
    let refused = workspace.run(&format!("{command} --stage emit --launch 5000"));
    assert!(refused.stderr.contains("--launch 5000: the step has "), "{refused:?}");
    let refused = workspace.run(&format!("{command} --launch 3"));
    assert!(refused.code == Some(2) && refused.stderr.contains("add --stage emit"), "{refused:?}");
    let common = workspace.succeed(&format!("{command} --stage kernels --launch 3")).stdout;
    assert!(common.starts_with("// launch 3: ") && common.contains("\nkernel \""), "{common}");
    let refused = workspace.run("inspect tiny --stage kernels");
    assert!(refused.code == Some(2) && refused.stderr.contains("add --target wgsl or cuda"), "{refused:?}");
    let summary = workspace.succeed(command).stdout;
    assert!(summary.contains(" launches in a graph\n"), "{summary}");
}

/// Tests that `inspect` reports a precision that the target does not support.
#[test]
fn kernels_of_16_bits_are_shown_without_a_gpu() {
    let workspace = Workspace::new();
    for (target, precision, word) in
        [("cuda", "bf16", "bf16_bits("), ("cuda", "f16", "f16_bits("), ("wgsl", "f16", "enable f16")]
    {
        let show = |stage: &str| {
            let command = "inspect tiny --batch 2";
            workspace
                .succeed(&format!("{command} --target {target} --precision {precision} --stage {stage}"))
                .stdout
        };
        assert!(show("plan").contains(&format!(" {precision}[")), "{target}, {precision}");
        assert!(show("emit").contains(word), "{target}, {precision}");
    }
    let on_cpu =
        workspace.succeed("inspect tiny --batch 2 --target cpu --precision bf16 --stage lower").stdout;
    assert!(on_cpu.contains("Rounded(BF16)"), "{on_cpu}");
    let tf32 = workspace.succeed("inspect tiny --batch 2 --target cuda --precision tf32 --stage emit").stdout;
    assert!(tf32.contains("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32"));
    for (target, precision) in [("cpu", "f16"), ("cpu", "tf32"), ("wgsl", "bf16"), ("wgsl", "tf32")] {
        let refused = workspace.run(&format!("inspect tiny --target {target} --precision {precision}"));
        assert_eq!(refused.code, Some(2), "{refused:?}");
        assert!(refused.stderr.contains("use --target cuda"), "{refused:?}");
    }
}

#[test]
fn a_run_can_be_inspected() {
    let workspace = Workspace::new();
    workspace.succeed("train --config small.toml --data text.txt --steps 1 --out run");
    let summary = workspace.succeed("inspect run").stdout;
    assert!(summary.contains("a step of 2 × 16 = 32 tokens"), "{summary}");
    let refused = workspace.run("inspect run --context 8");
    assert!(refused.code == Some(2) && refused.stderr.contains("--context: run is a run"), "{refused:?}");
    let verified = workspace.succeed("inspect run --verify").stdout;
    assert!(verified.ends_with("all within the tolerance\n"), "{verified}");
    let plan = workspace.succeed("inspect run --stage plan").stdout;
    assert_eq!(workspace.succeed("inspect run --stage plan --verify").stdout, plan + "\n" + &verified);
}

#[test]
fn the_measuring_contract_is_kept() {
    let workspace = Workspace::new();
    let json = workspace.succeed("bench --config mlp-sin --steps 300 --threads 1 --json").stdout;
    let figures: serde_json::Value = serde_json::from_str(&json).expect("one JSON object");
    let keys = "config device device_name driver threads dtype commit steps launches unique_kernels passes \
                submits planned_peak_bytes measured_peak_bytes workspace_bytes compile_ms first_step_ms \
                process_to_first_step_ms encode_us device_ms ms_per_step ms_min ms_max tokens_per_s \
                final_loss rss_mb parameters parameter_tensors store_bytes parameter_bytes state_bytes \
                constant_bytes step_bytes first_loss";
    for key in keys.split_whitespace() {
        assert!(figures.get(key).is_some(), "{key} is missing in {json}");
    }
    assert_eq!(figures["planned_peak_bytes"], figures["measured_peak_bytes"]);
    assert_eq!((&figures["config"], &figures["steps"]), (&"mlp-sin".into(), &300.into()));
    assert!(figures["final_loss"].as_f64().unwrap() < 0.1, "{json}");
    assert!(figures["ms_min"].as_f64() <= figures["ms_per_step"].as_f64());

    let planned = workspace.succeed("bench --config S --device null --json").stdout;
    let planned: serde_json::Value = serde_json::from_str(&planned).expect("one JSON object");
    for key in ["measured_peak_bytes", "final_loss", "first_step_ms", "ms_per_step", "ms_min", "ms_max"] {
        assert!(planned[key].is_null(), "nothing has run, but {key} is {}", planned[key]);
    }
    assert!(planned["planned_peak_bytes"].as_u64().unwrap() > 10_000_000);

    let sized = workspace.succeed("bench --config S --batch 2 --context 64 --device null --json").stdout;
    let sized: serde_json::Value = serde_json::from_str(&sized).expect("one JSON object");
    assert_eq!(sized["config"], "S-b2-t64");
    // An eighth of the tokens, and as many parameters but for 64 positions of 128 elements.
    let bytes = |figures: &serde_json::Value| figures["step_bytes"].as_f64().unwrap();
    assert!(bytes(&sized) < 0.2 * bytes(&planned), "{sized}");
    let parameters = |figures: &serde_json::Value| figures["parameters"].as_u64().unwrap();
    assert_eq!(parameters(&planned) - parameters(&sized), 64 * 128);

    let line = workspace.succeed("bench --config S --steps 2").stdout;
    let fields: Vec<&str> = line.split_whitespace().collect();
    assert_eq!((fields.len(), fields[0], fields[1]), (7, "gradloom", "S"), "{line}");
    assert!(fields[2..].iter().all(|field| field.parse::<f64>().is_ok_and(f64::is_finite)), "{line}");
}

#[test]
fn devices_are_listed() {
    let json = Workspace::new().succeed("devices --json").stdout;
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json[0]["device"], "cpu");
    assert!(json[0]["threads"].as_u64().unwrap() >= 1);
    let listed = Workspace::new().succeed("devices").stdout;
    assert!(listed.starts_with("cpu    ") && listed.contains(" thread"), "{listed}");
    assert!(listed.contains("\nnull   ") && listed.contains("\nSIMD   "), "{listed}");
}
