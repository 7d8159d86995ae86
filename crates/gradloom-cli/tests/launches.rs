//! Upper bounds on the launches and bytes of the small models that other libraries have as samples.
//!
//! A bound may only be lowered. tensorgrad needs 933 kernels and 24.4 MB for `tg-transformer`, and 63 and 521
//! kB for `tg-mlp`.

#![allow(clippy::disallowed_methods, reason = "tests read what they write")]

mod common;
use common::Workspace;
use serde_json::Value;

struct Expected {
    config: &'static str,
    parameters: u64,
    tensors: u64,
    /// Maximum number of launches of a step.
    launches: u64,
    /// Maximum total memory of a step in bytes.
    bytes: u64,
    /// Number of steps after which the loss must be below `falls_below` times the first loss.
    steps: u64,
    falls_below: f64,
}

const EXPECTED: [Expected; 3] = [
    Expected {
        config: "tg-transformer",
        parameters: 150_656,
        tensors: 40,
        launches: 93,
        bytes: 9_000_000,
        steps: 60,
        falls_below: 0.3,
    },
    Expected {
        config: "tg-mlp",
        parameters: 4_353,
        tensors: 6,
        launches: 13,
        bytes: 360_000,
        steps: 200,
        falls_below: 0.1,
    },
    Expected {
        config: "mnist-mlp",
        parameters: 203_530,
        tensors: 4,
        launches: 11,
        bytes: 4_061_568,
        steps: 60,
        falls_below: 0.8,
    },
];

#[test]
fn small_models_train_in_few_launches_and_little_memory() {
    let workspace = Workspace::new();
    for expected in EXPECTED {
        // Use two threads on every machine, because each has its own scratch memory.
        let line =
            format!("bench --config {} --steps {} --threads 2 --json", expected.config, expected.steps);
        let json = workspace.succeed(&line).stdout;
        let figures: Value = serde_json::from_str(&json).expect("one JSON object");
        let count = |key: &str| figures[key].as_u64().unwrap_or_else(|| panic!("{key} in {json}"));
        assert_eq!(
            (count("parameters"), count("parameter_tensors")),
            (expected.parameters, expected.tensors)
        );
        assert!(count("launches") <= expected.launches, "more launches than before: {json}");
        assert!(count("planned_peak_bytes") <= expected.bytes, "more bytes than before: {json}");
        assert!(count("unique_kernels") <= count("launches"), "{json}");

        let parts = ["store_bytes", "constant_bytes", "step_bytes", "workspace_bytes"];
        assert_eq!(parts.map(count).iter().sum::<u64>(), count("planned_peak_bytes"), "{json}");
        assert_eq!(count("parameter_bytes"), 4 * expected.parameters);
        // States are two moments for each parameter, and the number of steps.
        assert_eq!(count("state_bytes"), 8 * expected.parameters + 4, "{json}");
        assert!(count("parameter_bytes") + count("state_bytes") <= count("store_bytes"), "{json}");

        let [first, last] = ["first_loss", "final_loss"].map(|key| figures[key].as_f64().unwrap());
        assert!(
            last < expected.falls_below * first,
            "{}: the loss went from {first} to {last}",
            expected.config
        );
    }
}

/// Tests that a step on a GPU is one pass in one submission, and that its results are copied to the host only
/// when the caller reads them.
#[cfg(feature = "wgpu")]
#[test]
fn a_small_model_trains_in_few_dispatches_on_a_gpu() {
    let Some(adapter) = adapter() else { return };
    let steps = 10;
    let workspace = Workspace::new();
    let line = format!("bench --config tg-transformer --steps {steps} --device wgpu --json --adapter");
    let finished = workspace.command(&line).arg(&adapter).output().expect("the command starts");
    let (json, errors) =
        (String::from_utf8_lossy(&finished.stdout), String::from_utf8_lossy(&finished.stderr));
    assert!(finished.status.success(), "{json}{errors}");
    let figures: Value = serde_json::from_str(&json).expect("one JSON object");
    let count = |key: &str| figures[key].as_u64().unwrap_or_else(|| panic!("{key} in {json}"));
    assert!(count("dispatches") <= 86, "more dispatches than before: {json}");
    assert!(count("unique_kernels") <= 43, "more kernels than before: {json}");
    assert_eq!((count("passes"), count("submits")), (1, 1), "{json}");
    assert!(count("planned_peak_bytes") <= 13_000_000, "more bytes than before: {json}");
    // Expect a readback for each step that is timed alone, one before the clock of the queued steps starts,
    // and one for the last queued step.
    assert_eq!(count("readbacks"), steps + 1 + 1, "{json}");
}

/// Returns the adapter under test: the one that `GRADLOOM_ADAPTER` names, or Mesa's on the CPU. Without
/// either, prints a note and returns `None`.
#[cfg(feature = "wgpu")]
fn adapter() -> Option<String> {
    let wanted = std::env::var("GRADLOOM_ADAPTER").unwrap_or_else(|_| "llvmpipe".into());
    let known = |name: &str| name.to_lowercase().contains(&wanted.to_lowercase());
    let found = gradloom::adapters().into_iter().find(|adapter| known(&adapter.name));
    if found.is_none() {
        let reason =
            format!("no adapter {wanted} (`apt-get install mesa-vulkan-drivers libvulkan1` brings llvmpipe)");
        gradloom_testing::skip::skip(&reason, Some("GRADLOOM_NEEDS_ADAPTER"));
    }
    found.map(|_| wanted)
}

#[test]
fn only_models_of_text_take_data() {
    let finished = Workspace::new().run("bench --config tg-transformer --data-dir .");
    assert_eq!(finished.code, Some(2));
    let expected = "error: --data-dir: the configuration tg-transformer takes no data\n  help: leave it out";
    assert_eq!(finished.stderr.trim_end(), expected);
}
