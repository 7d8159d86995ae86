//! Runs that are killed at any moment, even before they have saved anything.
//!
//! `GRADLOOM_KILLS=200` tests 200 moments.

#![allow(clippy::disallowed_methods, reason = "tests read what they write")]

mod common;
use common::Workspace;
use gradloom_testing::Random;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const RESULTS: [&str; 6] =
    ["config.json", "metrics.csv", "loss.svg", "model.safetensors", "state.safetensors", "sample.txt"];

/// Returns the number of moments to test, which the environment variable overrides.
fn kills(usual: u64) -> u64 {
    std::env::var("GRADLOOM_KILLS").ok().and_then(|n| n.parse().ok()).unwrap_or(usual)
}

/// A run that saves so often that a state is nearly always being written.
const TRAIN: &str = "train --config small.toml --data text.txt --steps 60 --save-every 3 --eval-every 20";

/// Tests that a killed run resumes and ends with the same bits as an uninterrupted one. A run without a state
/// is started again in the same folder.
#[test]
fn a_run_that_is_killed_at_any_moment_ends_the_same() {
    let kills = kills(40);
    let workspace = Workspace::new();
    let began = Instant::now();
    workspace.succeed(&format!("{TRAIN} --out whole"));
    let whole = began.elapsed();
    let mut random = Random(kills);
    let (mut unsaved, mut midway, mut writing, mut too_late) = (0, 0, 0, 0);
    while unsaved + midway < kills {
        let what = format!("kill {}", unsaved + midway + 1);
        let line = format!("{TRAIN} --out killed");
        let mut child = workspace.command(&line).stdout(Stdio::null()).spawn().expect("the command starts");
        std::thread::sleep(whole.mul_f64(random.uniform(0.0, 1.0)));
        // Make every other kill wait until a state is being written.
        let is_written = || {
            let partial = |name| workspace.path(&format!("killed/{name}.safetensors.partial")).exists();
            partial("state") || partial("model")
        };
        let aims = (unsaved + midway) % 2 == 0;
        while aims && !is_written() && child.try_wait().unwrap().is_none() {
            std::thread::yield_now();
        }
        // This sends SIGKILL, which a process cannot handle.
        child.kill().unwrap();
        let status = child.wait().unwrap();
        let has_state = workspace.path("killed/state.safetensors").exists();
        if status.success() {
            too_late += 1;
            assert!(too_late < 100 + 10 * kills, "runs end before they can be killed");
        } else {
            *if has_state { &mut midway } else { &mut unsaved } += 1;
            writing += u64::from(has_state && is_written());
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
    println!(
        "{kills} kills: {unsaved} before the first state, {midway} after it, {writing} of these while one was \
         written; {too_late} runs had ended"
    );
    assert!(writing > kills / 20, "the kills met no state that was being written");
}

/// Returns the files of a folder with their bytes; `None` if the folder does not exist. The marker of an
/// unfinished folder is ignored.
fn files(folder: &Path) -> Option<BTreeMap<String, Vec<u8>>> {
    let entries = fs::read_dir(folder).ok()?.map(|entry| entry.unwrap());
    let entries = entries.filter(|entry| entry.file_name() != ".partial");
    Some(entries.map(|e| (e.file_name().into_string().unwrap(), fs::read(e.path()).unwrap())).collect())
}

/// Creates two models whose folders have different files: one has a single file, the other has shards and no
/// tokenizer.
fn two_models() -> Workspace {
    let workspace = Workspace::new();
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data");
    fs::copy(data.join("gguf/llama.gguf"), workspace.path("a.gguf")).unwrap();
    fs::create_dir(workspace.path("b")).unwrap();
    for entry in fs::read_dir(data.join("hugging_face/llama")).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), workspace.path("b").join(entry.file_name())).unwrap();
    }
    fs::remove_file(workspace.path("b/expected.safetensors")).unwrap();
    workspace
}

/// Kills a command: in every third round at a random moment, otherwise after it began to write to `partial`.
/// Returns `true` if the command had ended before.
fn killed(mut command: Command, partial: &Path, turn: u64, whole: Duration, random: &mut Random) -> bool {
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the command starts");
    let writing = !turn.is_multiple_of(3);
    while writing && !partial.exists() && child.try_wait().unwrap().is_none() {
        std::thread::yield_now();
    }
    let most = if writing { whole / 2 } else { whole };
    std::thread::sleep(most.mul_f64(random.uniform(0.0, 1.0)));
    child.kill().unwrap();
    child.wait().unwrap().success()
}

/// Tests that the folder of an import appears only when complete, and that the same command succeeds after
/// any kill.
#[test]
fn an_import_that_is_killed_at_any_moment_is_made_again() {
    let (workspace, kills) = (two_models(), kills(60));
    let began = Instant::now();
    workspace.succeed("import a.gguf whole");
    let whole_time = began.elapsed();
    let expected = |path: &str| -> Option<BTreeMap<String, Vec<u8>>> {
        let mut files = files(&workspace.path(path))?;
        // Do not compare the configuration, which contains the path of the model.
        files.remove("config.json");
        Some(files)
    };
    let whole = expected("whole");
    let (mut random, mut before) = (Random(kills), 0);
    for kill in 0..kills {
        // Test an empty folder in every other round, and no folder in the others.
        let is_empty = kill % 2 == 0;
        if is_empty {
            fs::create_dir(workspace.path("out")).unwrap();
        }
        killed(
            workspace.command("import a.gguf out"),
            &workspace.path("out.partial"),
            kill,
            whole_time,
            &mut random,
        );
        let found = expected("out").filter(|files| !files.is_empty());
        assert!(found.is_none() || found == whole, "kill {kill}: {:?}", found.unwrap().keys());
        before += u64::from(found.is_none());
        workspace.succeed("import a.gguf out");
        assert!(expected("out") == whole, "kill {kill}");
        assert!(!workspace.path("out.partial").exists(), "kill {kill}: something is left");
        fs::remove_dir_all(workspace.path("out")).unwrap();
    }
    println!("{kills} kills of an import, {before} before the folder was there");
    assert!(before > kills / 4, "the kills came too late");
}

/// Tests that a folder always has the files of only one model, even if it is the current folder of the shell,
/// which stays the same.
#[test]
fn an_export_that_is_killed_at_any_moment_mixes_no_models() {
    let (workspace, kills) = (two_models(), kills(60));
    let models = ["a.gguf", "b"];
    let mut whole_time = Duration::ZERO;
    let wholes = models.map(|model| {
        let began = Instant::now();
        workspace.succeed(&format!("export {model} --out whole-{model}"));
        whole_time = began.elapsed();
        files(&workspace.path(&format!("whole-{model}"))).unwrap()
    });
    for inside in [false, true] {
        let (mut random, mut moments) = (Random(kills), [0; 3]);
        let out = workspace.path("out");
        fs::create_dir(&out).unwrap();
        for kill in 0..kills {
            let next = usize::from(kill % 2 == 0);
            let (model, is_last) = (models[next], kill + 1 == kills);
            let command = || {
                if !inside {
                    return workspace.command(&format!("export {model} --out out"));
                }
                let mut command = workspace.command(&format!("export ../{model} --out ."));
                command.current_dir(&out);
                command
            };
            let partial = if inside { out.join(".partial") } else { workspace.path("out.partial") };
            killed(command(), &partial, kill, whole_time, &mut random);
            let found = files(&out).unwrap();
            let moment = match wholes.iter().position(|whole| *whole == found) {
                Some(whole) => usize::from(whole == next),
                // The folder is empty, or has no file that a command accepts as a model.
                None => {
                    let is_none = found.is_empty() || (inside && !found.contains_key("config.json"));
                    assert!(is_none, "kill {kill}: {:?}", found.keys());
                    2
                }
            };
            moments[moment] += 1;
            if kill % 4 < 2 || is_last {
                let finished = command().output().unwrap();
                let said = String::from_utf8_lossy(&finished.stderr);
                assert!(finished.status.success(), "kill {kill}: {said}");
                assert!(files(&out).unwrap() == wholes[next], "kill {kill}");
                assert!(!partial.exists(), "kill {kill}: something is left");
            }
        }
        fs::remove_dir_all(&out).unwrap();
        let [old, new, none] = moments;
        println!("{kills} kills of an export: the old model {old} times, the new one {new}, none {none}");
        assert!(old + none > kills / 4, "the kills came too late");
    }
}
