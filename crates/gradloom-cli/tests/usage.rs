//! Wrong command lines, files and folders: each has one clear message and the right exit code, and loses
//! nothing.

mod common;
use common::Workspace;
use std::fs;

/// Asserts the exit code and the complete text of the standard error.
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
             help: check the pattern: ** crosses folders, * does not; quote it so that the shell leaves it \
             alone",
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

#[cfg(unix)]
#[test]
fn pipes_and_devices_are_no_files() {
    let workspace = Workspace::new();
    let pipe = |name: &str| {
        let _ = fs::remove_file(workspace.path(name));
        let made = std::process::Command::new("mkfifo").arg(workspace.path(name)).status();
        assert!(made.expect("mkfifo is there").success());
    };
    pipe("pipe");
    let remedy = "help: put a regular file in its place, or name another one";
    for (line, code, message) in [
        ("train --config pipe", 2, "--config pipe: cannot be read: it is a named pipe, not a regular file"),
        (
            "train --config /dev/zero",
            2,
            "--config /dev/zero: cannot be read: it is a device, not a regular file",
        ),
        ("sample pipe", 2, "pipe: cannot be read: it is a named pipe, not a regular file"),
        ("sample /dev/zero", 2, "/dev/zero: cannot be read: it is a device, not a regular file"),
        (
            "inspect tiny --output pipe",
            1,
            "--output pipe: cannot be written: it is a named pipe, not a regular file",
        ),
    ] {
        check(&workspace, line, code, &format!("error: {message}\n  {remedy}"));
    }
    workspace.succeed("train --config small.toml --data text.txt --steps 1 --out run");
    for (name, line, message) in [
        (
            ".lock",
            "train --resume run",
            "run/.lock: cannot be written: it is a named pipe, not a regular file",
        ),
        (
            "state.safetensors",
            "train --resume run",
            "run/state.safetensors: cannot be read: it is a named pipe, not a regular file",
        ),
        (
            "state.safetensors",
            "inspect run",
            "run/state.safetensors: cannot be read: it is a named pipe, not a regular file",
        ),
        (
            "model.safetensors",
            "sample run",
            "run/model.safetensors: cannot be read: it is a named pipe, not a regular file",
        ),
    ] {
        let (whole, aside) = (workspace.path(&format!("run/{name}")), workspace.path("aside"));
        fs::rename(&whole, &aside).unwrap();
        pipe(&format!("run/{name}"));
        check(&workspace, line, 1, &format!("error: {message}\n  {remedy}"));
        fs::rename(&aside, &whole).unwrap();
    }
    let metrics = workspace.read("run/metrics.csv");
    pipe("run/metrics.csv");
    let resumed = workspace.succeed("train --resume run --steps 2");
    let expected = "warning: run/metrics.csv: cannot be read: it is a named pipe, not a regular file; it is \
                    now metrics.damaged.csv,";
    assert!(resumed.stderr.starts_with(expected), "{}", resumed.stderr);
    assert!(workspace.read("run/metrics.csv").len() < metrics.len());
    pipe("run/state.safetensors.partial");
    let failed = workspace.run("train --resume run --steps 3");
    let expected = "error: run/state.safetensors: cannot be written: its .partial file is a named pipe, not \
                    a regular file\n  \
                    help: remove what has its name with .partial behind it\n";
    assert_eq!((failed.code, failed.stderr.as_str()), (Some(1), expected));
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
            "--width 130 --heads 4: width 130 is not divisible by 4 heads\n  help: take width 128 or 132, or \
             2 heads",
        ),
        (
            "--heads 18446744073709551615 --width 8",
            "--width 8 --heads 18446744073709551615: width 8 is not divisible by 18446744073709551615 \
             heads\n  \
             help: take 8 heads",
        ),
        (
            "--heads 18446744073709551615 --width 18446744073709551614",
            "--width 18446744073709551614: the MLP of this configuration is too large\n  help: take a \
             smaller one",
        ),
        ("--layers 0", "--layers 0: layers is 0\n  help: set layers to 1 or more"),
        ("--lr 0", "--lr 0: must be above 0\n  help: try 0.001"),
        ("--lr -1", "--lr -1: must be above 0\n  help: try 0.001"),
        ("--lr 1e39", "--lr 1e39: too large: must be at most 1e18\n  help: try 0.001"),
        ("--clip -0.5", "--clip -0.5: must be 0 or more\n  help: 0 turns it off"),
        (
            "--dropout -1",
            "--dropout -1: dropout -1 is not at least 0 and below 1\n  help: take a probability such as 0.1, or 0 for none",
        ),
        ("--threads 0", "--threads 0: must be at least 1\n  help: leave it out to use every core"),
        (
            "--layers 1000000000",
            "--layers 1000000000: 1000000000 layers are more than the 512 that can be compiled\n  help: take \
             fewer layers",
        ),
        (
            "--width 100000000",
            "--width 100000000: the MLP of this configuration is too large\n  help: take a smaller one",
        ),
        (
            "--context 10000000",
            "a step of 8 texts of 10000000 tokens is too large\n  \
             help: lower one of them until the step fits into memory",
        ),
        (
            "--memory-budget lots",
            "invalid value 'lots' for '--memory-budget <BYTES>': write a number of bytes such as 512M, 1.5G \
             or 2GiB\n\n\
             For more information, try '--help'.",
        ),
        ("--steps 0", "--steps 0: must be at least 1"),
        (
            "--dropout 1",
            "--dropout 1: dropout 1 is not at least 0 and below 1\n  help: take a probability such as 0.1, or 0 for none",
        ),
        (
            "--config no.toml",
            "--config no.toml: cannot be read: No such file or directory (os error 2)\n  help: give a TOML \
             file, or a run's config.json",
        ),
        (
            "--resume no",
            "--resume no: there is no such folder\n  help: give the folder of a run of `gradloom train`",
        ),
    ];
    for (flags, message) in cases {
        check(&workspace, &format!("train {flags}"), 2, &format!("error: {message}"));
    }
    workspace.put("bad.toml", b"lr = 0.1\nlearning-rate = 0.2\n");
    let finished = workspace.run("train --config bad.toml");
    assert_eq!(finished.code, Some(2));
    let expected = "error: --config bad.toml: line 2: unknown key `learning-rate`\n  help: write lr? the \
                    keys are those of the flags: data, tokenizer, preset,";
    assert!(finished.stderr.starts_with(expected), "{}", finished.stderr);
    check(
        &workspace,
        "bench --config L",
        2,
        "error: --config L: there is no configuration of this name\n  help: the configurations are S, M, \
         mlp-sin, gpt2-124m, gpt2-355m, gpt2-xl, tg-transformer, tg-mlp, mnist-mlp, conv, mnist-cnn, lstm",
    );
    check(
        &workspace,
        "sample nothing",
        2,
        "error: nothing: no such file or folder\n  help: give the folder of a run, such as runs/tiny-1, a \
         folder of transformers, or a GGUF file",
    );
    check(
        &workspace,
        "sample x --temperature -1",
        2,
        "error: --temperature -1: temperature -1 is not a number from 0 up\n  \
         help: 0 takes the likeliest token, 1 follows the model, above 1 gets wilder",
    );
    for command in ["train", "sample x", "bench --config S", "profile --config S"] {
        check(
            &workspace,
            &format!("{command} --precision f16"),
            2,
            "error: --precision f16: the CPU computes in f32 or bf16\n  help: use --precision bf16, or a GPU: \
             --device auto",
        );
    }
    for command in ["bench", "profile"] {
        check(
            &workspace,
            &format!("{command} --config conv --batch 2"),
            2,
            "error: --batch 2: the configuration conv has no variations\n  help: leave it out, or take a \
             configuration of GPT-2",
        );
    }
    for command in ["train", "sample x", "bench --config S", "profile --config S"] {
        check(
            &workspace,
            &format!("{command} --tune"),
            2,
            match command {
                "train" => {
                    "error: --tune: the CPU has nothing to choose from\n  help: leave it out (a run that \
                     began with it: --tune=false), or use --device wgpu"
                }
                _ => {
                    "error: --tune: the CPU has nothing to choose from\n  help: leave it out, or use --device wgpu"
                }
            },
        );
    }
    check(
        &workspace,
        "bench --config S --device null --precision f16",
        2,
        "error: --precision f16: the null device does not multiply\n  help: use --precision f32, or --device \
         wgpu",
    );
    for command in ["sample x", "bench --config S"] {
        check(
            &workspace,
            &format!("{command} --threads 0"),
            2,
            "error: --threads 0: must be at least 1\n  help: leave it out to use every core",
        );
    }
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
        (
            "inspect tiny --stage lowered",
            ["'lowered'", "trace, grad, optim, passes, fuse, lower, plan, kernels, emit"],
        ),
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
    let expected = "error: --out small.toml/run: cannot be written: Not a directory (os error 20)\n  \
                    help: a part of the path is a file: choose another folder";
    assert_eq!(finished.stderr.trim_end(), expected);
    assert_eq!(workspace.text("small.toml"), common::SMALL);
    let finished = workspace.run("train --config small.toml --data text.txt --out text.txt");
    let expected = "error: --out text.txt: cannot be written: File exists (os error 17)\n  \
                    help: a part of the path is a file: choose another folder";
    assert_eq!((finished.code, finished.stderr.trim_end()), (Some(1), expected));
    let finished = workspace.run("inspect tiny --output none/there/x");
    let expected = "error: --output none/there/x: cannot be written: No such file or directory (os error 2)\n  \
                    help: make the folder none/there first, or name a file in one that is there";
    assert_eq!((finished.code, finished.stderr.trim_end()), (Some(1), expected));
}

#[test]
fn folders_of_others_are_left_alone() {
    let workspace = Workspace::new();
    workspace.put("theirs/model.safetensors", b"precious");
    workspace.put("theirs/notes.txt", b"precious");
    let finished = workspace.run("train --config small.toml --data text.txt --out theirs");
    assert_eq!(finished.code, Some(2));
    let expected = "error: --out theirs: the folder is not empty and no run: it has model.safetensors and 1 \
                    more\n  \
                    help: name a folder that is empty or not there yet, such as theirs/run";
    assert_eq!(finished.stderr.trim_end(), expected);
    assert_eq!(workspace.read("theirs/model.safetensors"), b"precious");
    assert_eq!(fs::read_dir(workspace.path("theirs")).unwrap().count(), 2);
    workspace.succeed("train --config small.toml --data text.txt --steps 1 --out theirs/run");
}

/// Mesa's layers print errors on a machine without a display; an environment variable makes them visible.
#[cfg(unix)]
#[test]
fn drivers_are_kept_quiet() {
    let workspace = Workspace::new();
    let stderr = |line: &str| {
        let mut command = workspace.command(line);
        command.env_remove("XDG_RUNTIME_DIR").env_remove("WAYLAND_DISPLAY");
        String::from_utf8(command.output().unwrap().stderr).unwrap()
    };
    assert_eq!(stderr("devices"), "");
    let shown = stderr("devices -v");
    let driver = std::path::Path::new("/usr/share/vulkan/implicit_layer.d/VkLayer_MESA_device_select.json");
    if cfg!(feature = "wgpu") && driver.exists() {
        assert!(shown.contains("XDG_RUNTIME_DIR"), "{shown}");
    }
}

#[test]
fn a_file_in_place_of_its_folder_is_told() {
    let workspace = Workspace::new();
    workspace.succeed("train --config small.toml --data text.txt --steps 2 --out run");
    check(
        &workspace,
        "train --resume run/state.safetensors",
        2,
        "error: --resume run/state.safetensors: this is a file\n  help: give the run's folder: --resume run",
    );
    check(
        &workspace,
        "sample run/state.safetensors",
        2,
        "error: run/state.safetensors: this is the state of a run, not its model\n  help: give the run's \
         folder: run",
    );
}

/// Tests that every error message begins with `error:`.
#[test]
fn every_failure_says_that_it_is_one() {
    let workspace = Workspace::new();
    let missing = "no such file or folder
  help: give the folder of a run, such as runs/tiny-1, a folder of transformers, or a GGUF file";
    check(&workspace, "sample errors-run", 2, &format!("error: errors-run: {missing}"));
}

#[test]
fn a_prompt_may_begin_with_a_dash() {
    let workspace = Workspace::new();
    workspace.succeed("train --config small.toml --data text.txt --steps 1 --out run");
    let finished = workspace.succeed("sample run --prompt --x-1 --tokens 1");
    assert!(finished.stdout.starts_with("--x-1"), "{}", finished.stdout);
}

/// Tests that losing requested output is a failure, unless the reader closed the pipe.
#[cfg(target_os = "linux")]
#[test]
fn output_that_is_lost_is_a_failure() {
    let workspace = Workspace::new();
    workspace.succeed("train --config small.toml --data text.txt --steps 1 --out run");
    let lines = [
        "devices",
        "inspect run",
        "inspect run --stage trace",
        "inspect run --verify",
        "sample run --tokens 1",
    ];
    for line in lines.into_iter().chain(["bench --config mlp-sin --steps 1 --device null"]) {
        let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let output = workspace.command(line).stdout(full).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "gradloom {line}");
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(stderr.starts_with("error: the standard output cannot be written: "), "{stderr}");

        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = workspace.command(line).stdout(writer).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "gradloom {line}: a reader that had enough is no failure");
    }
}

/// Tests that a read-only folder is reported. Tests nothing as root, who may write to it.
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
    assert!(finished.stderr.contains("help: choose a folder that you may write to"), "{}", finished.stderr);
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
    let script = Workspace::new().succeed("completions bash").stdout;
    assert!(script.contains("_gradloom()") && script.contains("--prompt-file"), "{script}");
    for name in [
        "",
        "train",
        "sample",
        "eval",
        "prepare",
        "tokenize",
        "inspect",
        "import",
        "export",
        "devices",
        "bench",
        "profile",
        "completions",
    ] {
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
