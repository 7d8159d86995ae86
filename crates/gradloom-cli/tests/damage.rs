//! Damaged files, and full disks.

mod common;
use common::Workspace;

const TRAIN: &str = "train --config small.toml --data text.txt --out run";

#[test]
fn a_damaged_state_is_refused_and_left_alone() {
    let workspace = Workspace::new();
    workspace.succeed(&format!("{TRAIN} --steps 4"));
    let sound = workspace.read("run/state.safetensors");
    let check = |bytes: &[u8], expected: &str| {
        workspace.put("run/state.safetensors", bytes);
        let finished = workspace.run("train --resume run --steps 6");
        assert_eq!(finished.code, Some(1));
        assert!(
            finished.stderr.starts_with(&format!("error: run/state.safetensors: {expected}")),
            "{}",
            finished.stderr
        );
        assert!(finished.stderr.contains("\n  help: "), "{}", finished.stderr);
        assert_eq!(workspace.read("run/state.safetensors"), bytes, "the file was changed");
    };
    for sixteenth in 0..16 {
        let told = if sixteenth == 0 { "the file is empty" } else { "the file is truncated or damaged" };
        check(&sound[..sound.len() * sixteenth / 16], told);
        let mut flipped = sound.clone();
        let place = sound.len() / 4 + sound.len() * sixteenth / 32;
        flipped[place] ^= 1 << (sixteenth % 8);
        check(&flipped, "the file is damaged: its contents do not match their checksum");
    }
    workspace.put("run/state.safetensors", &sound);
    workspace.succeed("train --resume run --steps 6");
}

#[test]
fn a_foreign_file_is_told_apart() {
    let workspace = Workspace::new();
    let bytes = vec![0; 24];
    let view = safetensors::tensor::TensorView::new(safetensors::Dtype::F32, vec![2, 3], &bytes).unwrap();
    let file =
        safetensors::serialize([("wte.weight", view.clone()), ("lm_head.weight", view)], None).unwrap();
    workspace.put("other.safetensors", &file);
    let finished = workspace.run("sample other.safetensors");
    assert_eq!(finished.code, Some(2));
    let expected =
        "error: other.safetensors: the file has tensors, and no configuration of a model\n  help: ";
    assert!(finished.stderr.starts_with(expected), "{}", finished.stderr);
    workspace.put("prose.safetensors", b"these are words and no tensors at all");
    let finished = workspace.run("sample prose.safetensors");
    assert_eq!(finished.code, Some(2));
    let expected = "error: prose.safetensors: the file is text, and no model\n  help: ";
    assert!(finished.stderr.starts_with(expected), "{}", finished.stderr);
}

/// Runs the command with a limit on the size of files: a write then fails as on a full disk.
#[cfg(unix)]
fn with_file_limit(workspace: &Workspace, kib: u32, line: &str) -> (Option<i32>, String) {
    let command = workspace.command(line);
    let arguments = command.get_args().map(|a| a.to_str().unwrap()).collect::<Vec<_>>().join(" ");
    let script = format!(
        "trap '' XFSZ; ulimit -f {kib}; exec {} {arguments}",
        command.get_program().to_str().unwrap()
    );
    let mut shell = std::process::Command::new("bash");
    let output = shell.args(["-c", &script]).current_dir(workspace.path("")).output().unwrap();
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[cfg(unix)]
#[test]
fn a_folder_that_cannot_hold_the_run_is_noticed_before_the_first_step() {
    let workspace = Workspace::new();
    let (code, stderr) = with_file_limit(&workspace, 20, TRAIN);
    assert_eq!(code, Some(1));
    let expected = "error: run/state.safetensors: cannot be written: File too large (os error 27)\n  \
                    help: free some space or raise the limit";
    assert_eq!(stderr.trim_end(), expected);
    assert_eq!(workspace.rows("run"), 0, "no step was made");
    assert!(!workspace.path("run/state.safetensors.partial").exists());
    workspace.succeed(&format!("{TRAIN} --steps 2"));
}

#[cfg(unix)]
#[test]
fn a_model_that_cannot_be_written_does_not_take_the_state_along() {
    let workspace = Workspace::new();
    workspace.succeed(&format!("{TRAIN} --steps 4"));
    std::fs::remove_file(workspace.path("run/model.safetensors")).unwrap();
    std::fs::create_dir(workspace.path("run/model.safetensors")).unwrap();
    let finished = workspace.run("train --resume run --steps 6 --save-every 1");
    assert_eq!(finished.code, Some(1));
    let expected = "error: saving after step 5 failed: run/model.safetensors: cannot be written: \
                    Is a directory (os error 21)\n  help: the state of step 5 is whole; ";
    assert!(finished.stderr.starts_with(expected), "{}", finished.stderr);
    std::fs::remove_dir(workspace.path("run/model.safetensors")).unwrap();
    let resumed = workspace.succeed("train --resume run");
    assert!(resumed.stdout.contains("run     run, from step 5\n"), "{}", resumed.stdout);
    workspace.succeed("sample run --tokens 1");
}

#[cfg(unix)]
#[test]
fn a_disk_that_fills_up_costs_no_saved_step() {
    let workspace = Workspace::new();
    // The state has about 35 KiB; the events exceed 48 KiB after some hundred steps.
    let tiny = "--width 8 --context 4 --batch 1 --steps 3000 --eval-every 3000 --save-every 100";
    let (code, stderr) = with_file_limit(&workspace, 48, &format!("{TRAIN} {tiny}"));
    assert_eq!(code, Some(1), "{stderr}");
    let (message, help) = stderr.split_once("\n  help: ").expect("a remedy");
    assert!(message.starts_with("error: saving after step "), "{stderr}");
    assert!(
        message.ends_with("run/events.jsonl: cannot be written: File too large (os error 27)"),
        "{stderr}"
    );
    let saved: u64 = help.split_whitespace().nth(4).unwrap().replace(',', "").parse().unwrap();
    assert!(saved > 0 && saved.is_multiple_of(100), "{help}");
    let resumed = workspace.succeed(&format!("train --resume run --steps {}", saved + 1));
    assert!(resumed.stdout.contains("from step"), "{}", resumed.stdout);
}
