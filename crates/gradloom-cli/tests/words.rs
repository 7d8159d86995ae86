//! Errors of commands about unusable paths and options: they are accurate, name the options of their own
//! command, and have the right exit code.

#![allow(clippy::disallowed_methods, reason = "tests read what they write")]

mod common;
#[path = "absurd/help.rs"]
#[allow(dead_code, reason = "the other test program uses all of it")]
mod help;

use common::{Finished, Workspace};
use std::collections::BTreeSet;

/// A file or folder of the workspace.
struct Thing {
    path: &'static str,
    /// Words for the file or folder in an error, any of which is accepted.
    is: &'static [&'static str],
}

const fn thing(path: &'static str, is: &'static [&'static str]) -> Thing {
    Thing { path, is }
}

/// Words for a missing path.
const MISSING: &[&str] = &["no such file or folder", "No such file", "no such folder", "neither a preset"];

const THINGS: [Thing; 26] = [
    thing("nowhere", MISSING),
    thing(
        "text.txt/below",
        &["no such file or folder", "Not a directory", "no such folder", "neither a preset"],
    ),
    thing(
        "empty",
        &[
            "it is empty",
            "no tokenizer in this folder",
            "no text in it",
            "a directory",
            "not that of a run",
            "no state.safetensors in it",
        ],
    ),
    thing(
        "corpus",
        &[
            "it has a.txt",
            "no tokenizer in this folder",
            "a directory",
            "not that of a run",
            "no state.safetensors in it",
            "needs at least",
        ],
    ),
    thing("run", &["a directory", "of transformers", "no text in it", "it is there already"]),
    thing(
        "hf",
        &["not that of a run", "no state.safetensors in it", "a directory", "no text in it", "no tokenizer"],
    ),
    thing(
        "broken",
        &[
            "config.json: it is no JSON",
            "not that of a run",
            "no state.safetensors in it",
            "a directory",
            "no text",
            "no tokenizer",
            "needs at least",
        ],
    ),
    thing(
        "loose",
        &[
            "no configuration of a model",
            "not that of a run",
            "no state.safetensors in it",
            "a directory",
            "no text in it",
            "no tokenizer",
        ],
    ),
    thing(
        "run/state.safetensors",
        &["the state of a run", "a safetensors file", "this is a file", "NUL byte", "not text", "no text"],
    ),
    thing("hf/model.safetensors", &["tensors alone", "a safetensors file", "this is a file", "NUL byte"]),
    thing(
        "hf/config.json",
        &[
            "the configuration of a model",
            "this is a file",
            "unknown key",
            "missing field",
            "needs at least",
            "tokenizer",
            "line 1",
        ],
    ),
    thing(
        "net.safetensors",
        &["no configuration of a model", "a safetensors file", "this is a file", "NUL byte"],
    ),
    thing("net.npz", &["a NumPy archive", "this is a file", "NUL byte"]),
    thing("net.npy", &["a NumPy array", "this is a file", "NUL byte"]),
    thing("new.pth", &["PyTorch's torch.save", "this is a file", "NUL byte"]),
    thing("old.pth", &["PyTorch's torch.save before", "this is a file", "control characters", "not text"]),
    thing("w.h5", &["an HDF5 file", "this is a file", "NUL byte"]),
    thing("archive.zip", &["a zip archive", "this is a file", "NUL byte"]),
    thing("page.html", &["a web page", "this is a file", "needs at least", "line 1"]),
    thing("pointer", &["a pointer of Git LFS", "this is a file", "needs at least", "line 1"]),
    thing("odd.json", &["JSON", "this is a file", "unknown key", "needs at least", "line 1", "odd.json: "]),
    thing("cut.gguf", &["truncated or damaged", "a GGUF file", "this is a file", "NUL byte"]),
    thing("cut.safetensors", &["truncated or damaged", "a safetensors file", "this is a file", "NUL byte"]),
    thing("empty.txt", &["the file is empty", "this is a file", "no line in it", "no question in it"]),
    thing("words.txt", &["the file is text", "this is a file", "line 1", "needs at least", "no id"]),
    thing("noise", &["of no kind that is known here", "not text", "this is a file", "NUL byte", "not UTF-8"]),
];

fn entry(name: &str) -> Vec<u8> {
    let mut bytes = b"PK\x03\x04".to_vec();
    bytes.resize(26, 0);
    bytes.extend((name.len() as u16).to_le_bytes());
    bytes.extend([0, 0]);
    bytes.extend(name.as_bytes());
    bytes.extend([7; 40]);
    bytes
}

fn workspace() -> Workspace {
    let workspace = Workspace::new();
    workspace.succeed("train --config small.toml --data text.txt --steps 1 --out run");
    workspace.succeed("export run --out hf");
    let tensors = workspace.read("hf/model.safetensors");
    for (name, bytes) in [
        ("corpus/a.txt", b"a short text".to_vec()),
        ("empty/.keep", vec![]),
        ("broken/config.json", b"{\"model_type\": ".to_vec()),
        ("broken/model.safetensors", tensors.clone()),
        ("loose/model.safetensors", tensors.clone()),
        ("net.safetensors", tensors.clone()),
        ("net.npz", entry("w.npy")),
        ("net.npy", b"\x93NUMPY\x01\0v\0{'descr': '<f4'\0".to_vec()),
        ("new.pth", entry("archive/data.pkl")),
        ("old.pth", b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.\x80\x02M\xe9\x03.".to_vec()),
        ("w.h5", b"\x89HDF\r\n\x1a\n\0\0\0\0".to_vec()),
        ("archive.zip", entry("readme.txt")),
        ("page.html", b"<!DOCTYPE html>\n<html></html>".to_vec()),
        ("pointer", b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n".to_vec()),
        ("odd.json", b"{\"a\": 1}".to_vec()),
        ("cut.gguf", b"GGUF\x03\0\0\0".to_vec()),
        ("cut.safetensors", tensors[..200].to_vec()),
        ("empty.txt", vec![]),
        ("words.txt", b"words".to_vec()),
        ("noise", [0, 1, 2, 255].repeat(50)),
    ] {
        workspace.put(name, &bytes);
    }
    std::fs::remove_file(workspace.path("empty/.keep")).unwrap();
    workspace
}

/// Command lines with a placeholder for a path, each to be tried with every existing path.
const LINES: [&str; 18] = [
    "sample PATH --tokens 1",
    "sample run --draft PATH --tokens 1",
    "sample run --prompt-file PATH --tokens 1",
    "sample run --prompts PATH --tokens 1",
    "eval PATH --data text.txt",
    "eval run --data PATH",
    "eval run --choices PATH",
    "prepare PATH --tokenizer bytes --out made",
    "prepare text.txt --tokenizer PATH --out made",
    "tokenize PATH --text abc",
    "inspect PATH",
    "info PATH",
    "import PATH made",
    "export PATH --out made",
    "train --config small.toml --data PATH --steps 1 --out made",
    "train --config small.toml --data text.txt --tokenizer PATH --steps 1 --out made",
    "train --data text.txt --init PATH --steps 1 --out made",
    "train --resume PATH",
];

/// Lists the faults of an error, such as an option that the command does not have, a function of the library,
/// or a second error.
fn faults(line: &str, finished: &Finished, commands: &[help::Command]) -> Vec<String> {
    let command = line.split(' ').next().unwrap();
    let own = commands.iter().find(|known| known.name == command).expect("a command");
    let given: BTreeSet<&str> = line.split([' ', '=']).collect();
    let mut faults = Vec::new();
    if finished.stderr.lines().filter(|line| line.starts_with("error: ")).count() != 1 {
        faults.push("not one error".to_string());
    }
    for word in finished.stderr.split(|c: char| !(c.is_ascii_alphanumeric() || c == '-')) {
        let is_option = word.starts_with("--") && word.len() > 2;
        let is_own = || word == "--help" || own.parameters.iter().any(|parameter| parameter.name == word);
        if is_option && !is_own() && !given.contains(word) {
            faults.push(format!("{word} is no option of {command}"));
        }
    }
    let quoted = finished.stderr.split('`').skip(1).step_by(2);
    for code in quoted.filter(|code| !code.starts_with("gradloom ") && !code.starts_with("--")) {
        if code.starts_with('.') || code.contains("::") || code.contains('(') {
            faults.push(format!("`{code}` is a function"));
        }
    }
    faults
}

#[test]
fn every_command_tells_the_truth_of_every_path() {
    let workspace = workspace();
    let commands = help::commands();
    let (mut wrong, mut refused) = (Vec::new(), 0);
    for line in LINES {
        for Thing { path, is } in THINGS {
            let line = line.replace("PATH", path);
            let finished = workspace.run(&line);
            let _ = std::fs::remove_dir_all(workspace.path("made"));
            let _ = std::fs::remove_dir_all(workspace.path("runs"));
            let stderr = &finished.stderr;
            let mut faults = match finished.code {
                Some(0) => continue,
                Some(1 | 2) => faults(&line, &finished, &commands),
                code => vec![format!("exit code {code:?}")],
            };
            refused += 1;
            let is_there = workspace.path(path).exists();
            if !stderr.contains(path)
                && !stderr.contains("the data has")
                && !stderr.contains("no id of a token")
            {
                faults.push("the path is not named".to_string());
            }
            if !is.iter().any(|word| stderr.contains(word)) {
                faults.push("it is not told what is there".to_string());
            }
            // Only the path itself must exist; a file within the folder may be missing.
            if is_there && stderr.contains(&format!("{path}: no such")) {
                faults.push("it is there".to_string());
            }
            let damaged = stderr.contains("damaged") || stderr.contains("it is no JSON");
            let code = if damaged { 1 } else { 2 };
            if finished.code != Some(code) {
                faults.push(format!("exit code {:?}, not {code}", finished.code));
            }
            if !faults.is_empty() {
                wrong.push(format!("gradloom {line}: {}\n{stderr}", faults.join("; ")));
            }
        }
    }
    println!("{refused} of {} refused", LINES.len() * THINGS.len());
    assert!(wrong.is_empty(), "{} of {refused}:\n{}", wrong.len(), wrong.join("\n"));
    assert!(refused > 250, "{refused}");
}

#[test]
fn tensors_without_a_configuration_are_listed() {
    let workspace = workspace();
    for path in ["net.safetensors", "loose", "hf/model.safetensors", "run/state.safetensors"] {
        let listed = workspace.succeed(&format!("info {path}")).stdout;
        assert!(listed.starts_with(&format!("{path}: tensors without a configuration\n")), "{listed}");
        assert!(listed.contains("h.0.attn.c_attn.weight: f32[16, 48]"), "{listed}");
        let json = workspace.succeed(&format!("info {path} --json --tensors")).stdout;
        let json: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert!(json["config"].is_null() && json["names"].as_object().unwrap().len() >= 16, "{json}");
    }
    workspace.put("none.safetensors", b"\x02\0\0\0\0\0\0\0{}");
    let listed = workspace.succeed("info none.safetensors").stdout;
    assert_eq!(listed, "none.safetensors: tensors without a configuration\ntensors  none\n");
    let cut = workspace.run("info cut.safetensors").stderr;
    assert!(cut.contains("  help: ") && !cut.contains("train"), "{cut}");
    // GGUF and safetensors files are recognized under any name.
    std::fs::copy(workspace.path("run/model.safetensors"), workspace.path("weights")).unwrap();
    assert!(workspace.succeed("info weights").stdout.contains("a run of gradloom train"));
}

/// Tests that the exit code is 2 if the command line must be changed.
#[test]
fn wrong_command_lines_are_usage() {
    let workspace = workspace();
    let commands = help::commands();
    let mut lines: Vec<String> = Vec::new();
    for command in &commands {
        lines.push(format!("{} --no-such-option", command.name));
        // These numbers and words are not possible values.
        for parameter in
            command.parameters.iter().filter(|p| p.name.starts_with("--") && !p.choices.is_empty())
        {
            let needed = needed(&command.name);
            lines.push(format!("{} {needed} {} none-of-these", command.name, parameter.name));
        }
    }
    for (command, options) in [
        (
            "sample run",
            "--temperature -1|--top-k 0|--top-p 2|--top-p 0|--min-p 2|--min-p -1|--repetition-penalty 0|--presence-penalty inf|--frequency-penalty nan|--bias 5:inf|--bias 9999:1 --tokens 1|--bias x|--tokens 0 --beams 2|--tokens x|--count 0|--batch 0|--threads 0|--drafted 3|--logprobs 1|--adapter 1 --device cpu|--tune|--precision f16",
        ),
        (
            "eval run --data text.txt",
            "--context 0|--context 100|--stride 0|--stride 99|--batch 0|--threads 0|--precision f16|--tune",
        ),
        (
            "train --config small.toml --data text.txt",
            "--steps 0|--batch 0|--lr 0|--lr nan|--clip -1|--weight-decay -1|--eval-every 0|--save-every 0|--heads 3|--width 0|--layers 0|--context 0|--dropout 1|--threads 0|--lora 8|--lora-alpha 2|--lora-targets x|--preset x|--tokenizer bpe:x|--context 1000000|--batch 99999999999999|--memory-budget x|--init run --preset tiny|--init run --layers 7|--init run --tokenizer bpe:300|--out run",
        ),
        (
            "prepare text.txt --tokenizer bytes --out made",
            "--held-out 1|--held-out -1|--held-out nan|--shard-tokens 0|--out run",
        ),
        ("prepare text.txt --tokenizer bpe:300 --out made", ""),
        ("tokenize bytes --text x", "--decode|--pieces --json"),
        ("tokenize bpe:300 --text x", ""),
        (
            "inspect tiny",
            "--launch 1|--launch 99999 --stage emit|--batch 0|--json --stage trace|--format json --stage trace|--verify --format json|--precision f16|--precision bf16 --target wgsl",
        ),
        ("import run hf", ""),
        ("export run --out hf2", "--weights q8_0 --dtype f16|--shard-mb 0|--out run|--out corpus"),
        (
            "bench --config mlp-sin",
            "--steps 0|--threads 0|--precision f16|--tune|--device null --tune|--device null --precision f16|--data-dir nowhere|--batch 2|--context 8|--batch 0",
        ),
        ("profile --config mlp-sin", "--steps 0|--threads 0|--precision f16|--tune|--batch 2|--context 8"),
        ("bench --config x", ""),
        ("profile --config x", ""),
        ("train --resume run --steps 0", ""),
        ("train --resume run --batch 99999999999999", ""),
        ("train --resume nowhere", ""),
        ("train --config odd.json", ""),
    ] {
        lines.extend(options.split('|').map(|options| format!("{command} {options}").trim().to_string()));
    }
    check_all(&workspace, &commands, &lines, 2);
}

/// Tests that the exit code is 1 if the command line is right, but something else is not.
#[cfg(unix)]
#[test]
fn what_fails_for_another_reason_is_no_usage() {
    let workspace = workspace();
    let commands = help::commands();
    let sound = workspace.read("run/state.safetensors");
    workspace.put("damaged/state.safetensors", &sound[..sound.len() / 2]);
    workspace.put("damaged/model.safetensors", &workspace.read("run/model.safetensors")[..300]);
    workspace.put("tokenizer.json", b"{\"version\": ");
    workspace.put("sizes/config.json", b"{\"model_type\": \"gpt2\", \"vocab_size\": 256, \"n_positions\": 16, \"n_embd\": 16, \"n_head\": 0, \"n_layer\": 1}");
    workspace.put("sizes/model.safetensors", &workspace.read("hf/model.safetensors"));
    workspace.put("huge/config.json", b"{\"model_type\": \"gpt2\", \"vocab_size\": 256, \"n_positions\": 100000000000, \"n_embd\": 16, \"n_head\": 2, \"n_layer\": 1}");
    workspace.put("huge/model.safetensors", &workspace.read("hf/model.safetensors"));
    let mut lines: Vec<String> = [
        "train --config small.toml --data text.txt --out text.txt/run",
        "train --resume damaged",
        "train --config small.toml --data text.txt --tokenizer tokenizer.json",
        "train --config small.toml --data text.txt --memory-budget 10",
        "inspect damaged",
        "import run text.txt/out",
        "import hf text.txt/out",
        "export run --out text.txt/out",
        "prepare text.txt --tokenizer bytes --out text.txt/out",
        "prepare text.txt --tokenizer tokenizer.json --out made",
        "tokenize tokenizer.json --text x",
        "inspect tiny --output text.txt/page",
        "profile --config mlp-sin --steps 2 --trace text.txt/trace",
    ]
    .map(str::to_string)
    .to_vec();
    // A wrong configuration is not an error of the command line, with or without other files next to it.
    workspace.put("keys/config.json", b"{\"model_type\": \"gpt2\", \"n_positions\": \"many\"}");
    workspace.put("keys_beside/config.json", &workspace.read("keys/config.json"));
    workspace.put("keys_beside/model.safetensors", &workspace.read("hf/model.safetensors"));
    for path in ["damaged", "sizes", "huge", "keys", "keys_beside"] {
        for line in LINES.iter().filter(|line| {
            line.starts_with("sample PATH")
                || line.contains("--draft PATH")
                || line.starts_with("eval PATH")
                || line.starts_with("info")
                || line.starts_with("import")
                || line.starts_with("export")
                || line.contains("--init PATH")
        }) {
            // The sizes make no valid model, but listing the tensors needs none.
            lines.push(line.replace("PATH", path));
        }
    }
    check_all(&workspace, &commands, &lines, 1);
    for device in ["cuda", "wgpu"] {
        for command in [
            "train --config small.toml --data text.txt",
            "sample run",
            "eval run --data text.txt",
            "bench --config mlp-sin",
            "profile --config mlp-sin",
        ] {
            let line = format!("{command} --device {device} --adapter 77");
            let mut command = workspace.command(&line);
            command.env("VK_DRIVER_FILES", "/dev/null").env("VK_ICD_FILENAMES", "/dev/null");
            let output = command.env("LIBGL_DRIVERS_PATH", "/dev/null").output().unwrap();
            let stderr = String::from_utf8(output.stderr).unwrap();
            let finished = Finished { code: output.status.code(), stdout: String::new(), stderr };
            assert_eq!(finished.code, Some(1), "gradloom {line}\n{}", finished.stderr);
            assert_eq!(faults(&line, &finished, &commands), [""; 0], "gradloom {line}\n{}", finished.stderr);
        }
    }
}

/// Tests that `gradloom devices`, which errors refer to, has a line for every kind of device.
#[cfg(unix)]
#[test]
fn devices_tells_of_every_kind() {
    let workspace = Workspace::new();
    let run = |line: &str| {
        let mut command = workspace.command(line);
        command.env("VK_DRIVER_FILES", "/dev/null").env("VK_ICD_FILENAMES", "/dev/null");
        String::from_utf8(command.env("LIBGL_DRIVERS_PATH", "/dev/null").output().unwrap().stdout).unwrap()
    };
    let (text, json) = (run("devices"), run("devices --json"));
    for device in ["cpu", "null", "cuda", "wgpu"] {
        assert!(text.lines().any(|line| line.starts_with(device)), "{text}");
    }
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let has = |device: &str| json.as_array().unwrap().iter().any(|found| found["device"] == device);
    assert!(["cpu", "cuda", "wgpu"].into_iter().all(has), "{json}");
}

/// Returns arguments that a command requires besides the one under test.
fn needed(command: &str) -> &'static str {
    match command {
        "sample" => "run",
        "eval" => "run --data text.txt",
        "prepare" => "text.txt --tokenizer bytes --out made",
        "tokenize" => "bytes --text x",
        "inspect" => "tiny",
        "info" => "run",
        "import" => "run made",
        "export" => "run --out made",
        "bench" | "profile" => "--config mlp-sin",
        _ => "",
    }
}

#[track_caller]
fn check_all(workspace: &Workspace, commands: &[help::Command], lines: &[String], code: i32) {
    let mut wrong = Vec::new();
    for line in lines {
        let finished = workspace.run(line);
        let mut faults = faults(line, &finished, commands);
        if finished.code != Some(code) {
            faults.push(format!("exit code {:?}, not {code}", finished.code));
        }
        if !faults.is_empty() {
            wrong.push(format!("gradloom {line}: {}\n{}", faults.join("; "), finished.stderr));
        }
    }
    println!("{} command lines", lines.len());
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), lines.len(), wrong.join("\n"));
    assert!(!workspace.path("runs").exists() && !workspace.path("made").exists());
}
