//! Runs that are killed at any moment, also before they have saved anything.
//!
//! `GRADLOOM_KILLS=200` tries so many moments.

mod common;
use common::Workspace;
use gradloom_testing::Random;
use std::process::Stdio;
use std::time::Instant;

const RESULTS: [&str; 6] =
    ["config.json", "metrics.csv", "loss.svg", "model.safetensors", "state.safetensors", "sample.txt"];

/// A run that saves all the time.
const TRAIN: &str = "train --config small.toml --data text.txt --steps 120 --save-every 3 --eval-every 20";

/// Whatever the moment, the run goes on and ends with the bits of a run that was never killed. One that has
/// no state yet is begun again in the same folder.
#[test]
fn a_run_that_is_killed_at_any_moment_ends_the_same() {
    let kills: u64 = std::env::var("GRADLOOM_KILLS").ok().and_then(|n| n.parse().ok()).unwrap_or(4);
    let workspace = Workspace::new();
    let began = Instant::now();
    workspace.succeed(&format!("{TRAIN} --out whole"));
    let whole = began.elapsed();
    let mut random = Random(kills);
    let (mut unsaved, mut midway, mut too_late) = (0, 0, 0);
    while unsaved + midway < kills {
        let what = format!("kill {}", unsaved + midway + 1);
        let line = format!("{TRAIN} --out killed");
        let mut child = workspace.command(&line).stdout(Stdio::null()).spawn().expect("the command starts");
        std::thread::sleep(whole.mul_f64(random.uniform(0.0, 1.0)));
        // This is SIGKILL, which no process can hear.
        child.kill().unwrap();
        let status = child.wait().unwrap();
        let has_state = workspace.path("killed/state.safetensors").exists();
        if status.success() {
            too_late += 1;
            assert!(too_late < 100 + 10 * kills, "runs end before they can be killed");
        } else {
            *if has_state { &mut midway } else { &mut unsaved } += 1;
            let finished = workspace.run(if has_state { "train --resume killed" } else { &line });
            assert_eq!(finished.code, Some(0), "{what}: {}{}", finished.stdout, finished.stderr);
            for name in RESULTS {
                let same =
                    workspace.read(&format!("whole/{name}")) == workspace.read(&format!("killed/{name}"));
                assert!(same, "{what}: {name} differs");
            }
            let events = workspace.text("killed/events.jsonl");
            let sound = |line: &str| serde_json::from_str::<serde_json::Value>(line).is_ok();
            assert!(events.ends_with('\n') && events.lines().all(sound), "{what}: {events}");
        }
        if workspace.path("killed").exists() {
            std::fs::remove_dir_all(workspace.path("killed")).unwrap();
        }
    }
    println!("{kills} kills: {unsaved} before the first state, {midway} after it; {too_late} runs had ended");
}
