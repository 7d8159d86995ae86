//! Runs that are killed at any moment, also before they have saved anything.
//!
//! `GRADLOOM_KILLS=200` tries so many moments.

mod common;
use common::Workspace;
use gradloom_testing::Random;
use std::process::Stdio;
use std::time::{Duration, Instant};

const RESULTS: [&str; 6] =
    ["config.json", "metrics.csv", "loss.svg", "model.safetensors", "state.safetensors", "sample.txt"];

/// A run that takes some tenths of a second, and saves all the time.
const TRAIN: &str = "train --config small.toml --data text.txt --steps 200 --save-every 3 --eval-every 20";

/// Whatever the moment, the run goes on and ends with the bits of a run that was never killed. One that has no
/// state yet is begun again in the same folder.
#[test]
fn a_run_that_is_killed_at_any_moment_ends_the_same() {
    let kills = std::env::var("GRADLOOM_KILLS").ok().and_then(|n| n.parse().ok()).unwrap_or(6);
    let workspace = Workspace::new();
    let began = Instant::now();
    workspace.succeed(&format!("{TRAIN} --out whole"));
    let whole = began.elapsed();
    let mut random = Random(kills);
    let (mut unsaved, mut midway, mut ended) = (0, 0, 0);
    for kill in 0..kills {
        let out = format!("killed-{kill}");
        let line = format!("{TRAIN} --out {out}");
        let mut child = workspace.command(&line).stdout(Stdio::null()).spawn().expect("the command starts");
        std::thread::sleep(whole.mul_f64(random.uniform(0.0, 1.0)).max(Duration::from_micros(100)));
        // Kill is SIGKILL, which no process can hear.
        child.kill().unwrap();
        let status = child.wait().unwrap();
        let has_state = workspace.path(&format!("{out}/state.safetensors")).exists();
        match has_state {
            _ if status.success() => ended += 1,
            true => midway += 1,
            false => unsaved += 1,
        }
        let resume = format!("train --resume {out}");
        let finished = workspace.run(if has_state { &resume } else { &line });
        assert_eq!(finished.code, Some(0), "kill {kill}: {}{}", finished.stdout, finished.stderr);
        for name in RESULTS {
            let same = workspace.read(&format!("whole/{name}")) == workspace.read(&format!("{out}/{name}"));
            assert!(same, "kill {kill}: {name} differs");
        }
        let events = workspace.text(&format!("{out}/events.jsonl"));
        let sound = |line: &str| serde_json::from_str::<serde_json::Value>(line).is_ok();
        assert!(events.ends_with('\n') && events.lines().all(sound), "kill {kill}: {events}");
        std::fs::remove_dir_all(workspace.path(&out)).unwrap();
    }
    println!("{kills} kills: {unsaved} before the first state, {midway} midway, {ended} after the end");
}
