//! Wrong command lines, files and folders: one clear message, the right exit code, and nothing lost.

mod common;
use common::Workspace;
use std::fs;

/// Asserts the exit code and the whole text of the standard error.
#[track_caller]
fn check(workspace: &Workspace, line: &str, code: i32, expected: &str) {
    let finished = workspace.run(line);
    assert_eq!(finished.stderr.trim_end(), expected, "gradloom {line}");
    assert_eq!(finished.code, Some(code), "gradloom {line}");
    assert!(!workspace.path("runs").exists(), "gradloom {line} left a folder behind");
}

#[test]
fn data_that_cannot_be_used() {
    let workspace = Workspace::new();
    workspace.put("empty.txt", b"");
    workspace.put("image.png", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR");
    workspace.put("short.txt", b"just a few words");
    let cases = [
        ("missing.txt", "DIR/missing.txt: no such file or folder\n  help: check the spelling"),
        ("empty.txt", "DIR/empty.txt: the file is empty\n  help: give a file with text in it"),
        (
            "image.png",
            "DIR/image.png: the file is not text (a NUL byte at offset 8)\n  \
             help: give plain text, UTF-8 or nearly so; convert or unpack the file first",
        ),
        (
            "none/*.txt",
            "DIR/none/*.txt: no file matches\n  \
             help: check the pattern: ** crosses folders, * does not; quote it so that the shell leaves it alone",
        ),
        (
            "short.txt",
            "the data has 17 tokens, but a context of 16 needs at least 34\n  \
             help: give more text, or take a context of 7 or less",
        ),
    ];
    for (data, message) in cases {
        let line = format!("train --config small.toml --data {data}");
        check(&workspace, &line, 2, &format!("error: --data: {message}"));
    }
    let line = "train --config small.toml --data text.txt --context 20000";
    let message = "error: --data: the data has 6580 tokens, but a context of 20000 needs at least 40002\n  \
                   help: give more text, or take a context of 3289 or less";
    let found = workspace.text("text.txt").len();
    check(
        &workspace,
        line,
        2,
        &message.replace("6580", &found.to_string()).replace("3289", &(found / 2 - 1).to_string()),
    );
}

#[test]
fn sizes_and_numbers_that_cannot_be_used() {
    let workspace = Workspace::new();
    let cases = [
        (
            "--preset gpt3",
            "--preset gpt3: there is no preset of this name\n  \
             help: the presets are tiny, small, gpt2, gpt2-medium, gpt2-large, gpt2-xl",
        ),
        (
            "--width 130",
            "--width 130 --heads 4: width 130 is not divisible by 4 heads\n  help: take width 128 or 132, or 2 heads",
        ),
        ("--layers 0", "--layers 0: layers is 0\n  help: set layers to 1 or more"),
        ("--lr 0", "--lr 0: must be above 0, and less than 1e38\n  help: try 0.001"),
        ("--steps 0", "--steps 0: must be at least 1"),
        (
            "--dropout 1",
            "--dropout 1: dropout 1 is not in 0..1\n  help: take a probability such as 0.1, or 0 for none",
        ),
        (
            "--config no.toml",
            "--config no.toml: cannot be read: No such file or directory (os error 2)\n  help: give a TOML file",
        ),
        (
            "--resume no",
            "--resume no: there is no state.safetensors in it\n  help: give the folder of a run of `gradloom train`",
        ),
    ];
    for (flags, message) in cases {
        check(&workspace, &format!("train {flags}"), 2, &format!("error: {message}"));
    }
    workspace.put("bad.toml", b"lr = 0.1\nlearning-rate = 0.2\n");
    let finished = workspace.run("train --config bad.toml");
    assert_eq!(finished.code, Some(2));
    let expected = "error: --config bad.toml: line 2: unknown key `learning-rate`\n  help: the keys are those of the flags: data, preset,";
    assert!(finished.stderr.starts_with(expected), "{}", finished.stderr);
    check(
        &workspace,
        "bench --config L",
        2,
        "error: --config L: there is no configuration of this name\n  help: the configurations are S, M, mlp-sin, gpt2-124m",
    );
    check(
        &workspace,
        "sample nothing",
        2,
        "error: nothing: there is no such run\n  help: give the folder that `gradloom train` named, such as runs/tiny-1",
    );
    check(
        &workspace,
        "sample x --temperature=-1",
        2,
        "error: --temperature -1: temperature -1 is not a number from 0 up\n  \
         help: 0 takes the likeliest token, 1 follows the model, above 1 gets wilder",
    );
    check(
        &workspace,
        "inspect gpt3",
        2,
        "error: gpt3: neither a preset nor the folder of a run\n  \
         help: the presets are tiny, small, gpt2, gpt2-medium, gpt2-large, gpt2-xl",
    );
}

#[test]
fn flags_that_are_wrong_by_form_are_named() {
    let workspace = Workspace::new();
    for (line, parts) in [
        ("train --steps many", ["'many'", "--steps"]),
        ("train --stepz 3", ["'--stepz'", "--steps"]),
        ("train --resume a --preset tiny", ["--resume", "--preset"]),
        ("inspect tiny --stage lower", ["'lower'", "trace, grad, optim, passes, plan"]),
    ] {
        let finished = workspace.run(line);
        assert_eq!(finished.code, Some(2), "gradloom {line}");
        assert!(
            parts.iter().all(|part| finished.stderr.contains(part)),
            "gradloom {line}\n{}",
            finished.stderr
        );
    }
}

#[test]
fn a_folder_that_cannot_be_written_is_noticed_at_the_start() {
    let workspace = Workspace::new();
    let finished = workspace.run("train --config small.toml --data text.txt --out small.toml/run");
    assert_eq!(finished.code, Some(1));
    let expected = "error: small.toml/run: cannot be written: Not a directory (os error 20)\n  \
                    help: a part of the path is a file: choose another folder with --out";
    assert_eq!(finished.stderr.trim_end(), expected);
    assert_eq!(workspace.text("small.toml"), common::SMALL);
}

/// A read-only folder stops everybody but root, who may write anyway: then there is nothing to see.
#[cfg(unix)]
#[test]
fn a_read_only_folder_is_noticed_at_the_start() {
    use std::os::unix::fs::PermissionsExt;
    let workspace = Workspace::new();
    fs::create_dir(workspace.path("locked")).unwrap();
    fs::set_permissions(workspace.path("locked"), fs::Permissions::from_mode(0o555)).unwrap();
    if fs::write(workspace.path("locked/probe"), "").is_ok() {
        eprintln!("skipped: this user may write to read-only folders");
        return;
    }
    let finished = workspace.run("train --config small.toml --data text.txt --out locked/run");
    assert_eq!(finished.code, Some(1));
    assert!(
        finished.stderr.contains("help: choose a folder that you may write to with --out"),
        "{}",
        finished.stderr
    );
}

#[test]
fn a_folder_with_a_run_is_not_overwritten() {
    let workspace = Workspace::new();
    workspace.succeed("train --config small.toml --data text.txt --steps 2 --out run");
    let before = workspace.read("run/state.safetensors");
    let finished = workspace.run("train --config small.toml --data text.txt --out run");
    assert_eq!(finished.code, Some(2));
    let expected = "error: --out run: there is a run in this folder already\n  \
                    help: go on with it by --resume run, or choose another folder";
    assert_eq!(finished.stderr.trim_end(), expected);
    assert_eq!(workspace.read("run/state.safetensors"), before);
}

#[test]
fn helps_are_as_they_were_reviewed() {
    let workspace = Workspace::new();
    for name in ["", "train", "sample", "inspect", "devices", "bench"] {
        let shown = workspace.succeed(&format!("{name} --help")).stdout;
        let file = format!(
            "{}/tests/snapshots/help{}{name}.txt",
            env!("CARGO_MANIFEST_DIR"),
            if name.is_empty() { "" } else { "-" }
        );
        if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
            fs::write(&file, &shown).unwrap();
        }
        let reviewed = fs::read_to_string(&file).unwrap_or_default();
        assert_eq!(shown, reviewed, "gradloom {name} --help; UPDATE_SNAPSHOTS=1 accepts it");
    }
}
