//! Tokenizers and files of tokens: `tokenize`, `prepare`, and training with both.

#![allow(clippy::disallowed_methods, reason = "tests read what they write")]

mod common;
use common::Workspace;
use std::fs;

const TRAIN: &str = "train --config small.toml";
/// Tokenizers written by `scripts/oracle/tokenizer_files.py`.
const TOKENIZERS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data/tokenizers");

#[test]
fn ids_are_printed_and_decoded() {
    let workspace = Workspace::new();
    let tokenize = format!("tokenize {TOKENIZERS}/llama3");
    workspace.put("words.txt", "The tensor <|eot_id|> 文\n".as_bytes());
    let printed = workspace.succeed(&format!("{tokenize} words.txt"));
    assert_eq!(printed.stderr, "12 tokens of 26 bytes\n");
    workspace.put("ids.txt", printed.stdout.as_bytes());
    let decoded = workspace.succeed(&format!("{tokenize} --decode ids.txt"));
    assert_eq!(decoded.stdout, "The tensor <|eot_id|> 文\n");
    let json: serde_json::Value =
        serde_json::from_str(&workspace.succeed(&format!("{tokenize} words.txt --json")).stdout).unwrap();
    assert_eq!((&json["tokens"], &json["bytes"]), (&12.into(), &26.into()));
    let ids: Vec<String> = json["ids"].as_array().unwrap().iter().map(ToString::to_string).collect();
    assert_eq!(ids.join(" "), printed.stdout.trim_end());
    let pieces = workspace.succeed(&format!("{tokenize} words.txt --pieces")).stdout;
    assert!(pieces.contains("564\t\"<|eot_id|>\"\n"), "{pieces}");
    let added = workspace.succeed(&format!("{tokenize} words.txt --special added")).stdout;
    assert_eq!(added, format!("560 {}", printed.stdout));
    let text = workspace.succeed(&format!("{tokenize} words.txt --special text")).stdout;
    assert!(!text.contains("564"), "{text}");
    assert_eq!(workspace.succeed("tokenize bytes --text az").stdout, "97 122\n");
    assert_eq!(workspace.succeed("tokenize bytes --decode --text [97,122]").stdout, "az");
    assert_eq!(workspace.succeed("tokenize bytes --text=").stdout, "\n");
    workspace.put("latin", b"gr\xfc\xdfe");
    for (line, expected) in [
        ("tokenize none --text a", "error: none: no such file or folder\n"),
        ("tokenize bpe:300 --text a", "error: bpe:300: a tokenizer is trained by `gradloom train` alone\n"),
        ("tokenize bytes none.txt", "error: none.txt: cannot be read: "),
        ("tokenize bytes --decode --text 256", "error: the id 256: the tokenizer has 256 tokens\n"),
        ("tokenize bytes --decode --text -1", "error: \"-1\" is no id of a token\n"),
        (&format!("{tokenize} latin --special text"), "error: the text is not UTF-8 from offset 2 on\n"),
        (&format!("tokenize {TOKENIZERS}/llama2 latin"), "error: "),
    ] {
        let failed = workspace.run(line);
        assert!(failed.code == Some(2) && failed.stderr.starts_with(expected), "{line}\n{}", failed.stderr);
        assert!(
            failed.stderr.contains("\n  help: ") || line.contains("none.txt"),
            "{line}\n{}",
            failed.stderr
        );
    }
}

/// Tests that a run keeps its tokenizer, resumes with it, and reports a different one.
#[test]
fn a_run_trains_a_tokenizer_and_keeps_it() {
    let workspace = Workspace::new();
    let train = format!("{TRAIN} --data text.txt --tokenizer bpe:300");
    let told = workspace.succeed(&format!("{train} --out whole")).stdout;
    assert!(told.contains("tokens  tokenizer.json: a vocabulary of 300\n"), "{told}");
    assert!(told.contains("nats a token"), "{told}");
    let json: serde_json::Value = serde_json::from_str(&workspace.text("whole/config.json")).unwrap();
    assert_eq!((&json["tokenizer"], &json["run"]["vocabulary"]), (&"bpe:300".into(), &300.into()));
    workspace.succeed("train --config whole/config.json --out again");
    assert_eq!(workspace.read("again/tokenizer.json"), workspace.read("whole/tokenizer.json"));
    assert_eq!(workspace.text("again/metrics.csv"), workspace.text("whole/metrics.csv"));
    let sample = workspace.succeed("sample whole --prompt 3 --tokens 30").stdout;
    assert!(sample.starts_with('3') && sample.len() > 30, "{sample}");
    workspace.succeed("tokenize whole --text times");

    // The run's tokenizer, named by its path, has the same result.
    workspace.succeed(&format!("{TRAIN} --data text.txt --tokenizer whole/tokenizer.json --out named"));
    assert_eq!(workspace.text("named/metrics.csv"), workspace.text("whole/metrics.csv"));

    workspace.succeed(&format!("{train} --out part --save-every 20"));
    workspace.succeed("train --resume part --steps 45");
    workspace.succeed("train --resume whole --steps 45");
    assert_eq!(workspace.text("part/metrics.csv"), workspace.text("whole/metrics.csv"));

    fs::copy(format!("{TOKENIZERS}/llama3/tokenizer.json"), workspace.path("part/tokenizer.json")).unwrap();
    for line in ["sample part", "train --resume part --steps 50"] {
        let failed = workspace.run(line);
        let expected = "part/tokenizer.json: this is not the tokenizer that the run began with\n  help: put";
        assert!(failed.code == Some(1) && failed.stderr.contains(expected), "{}", failed.stderr);
    }
    fs::remove_file(workspace.path("part/tokenizer.json")).unwrap();
    let failed = workspace.run("sample part");
    assert!(
        failed.stderr.contains("part/tokenizer.json: the run's tokenizer is not there"),
        "{}",
        failed.stderr
    );
    for (given, expected) in [
        ("bpe:12", "--tokenizer: a vocabulary of 12 tokens is not from 257 to 4194304"),
        ("bpe:many", "--tokenizer bpe:many: \"many\" is no number of tokens"),
        ("none.json", "none.json: no such file or folder"),
    ] {
        let failed = workspace.run(&format!("{TRAIN} --data text.txt --tokenizer {given}"));
        assert!(failed.code == Some(2) && failed.stderr.contains(expected), "{}", failed.stderr);
    }
    assert!(!workspace.path("runs").exists(), "what fails at once leaves no run");
}

/// Tests that training on tokens in files equals training on their text.
#[test]
fn tokens_in_files_train_like_their_text() {
    let workspace = Workspace::new();
    workspace.succeed(&format!("{TRAIN} --data text.txt --tokenizer bytes --out text"));
    for (name, flags) in
        [("one", "--format nanogpt"), ("many", "--shard-tokens 99"), ("some", "--shard-tokens 5000")]
    {
        let told = workspace
            .succeed(&format!("prepare text.txt --tokenizer bytes --held-out 0 --out {name} {flags}"));
        assert!(told.stdout.starts_with(&format!("{name}: ")), "{}", told.stdout);
        workspace.succeed(&format!("{TRAIN} --data {name} --tokenizer bytes --out run-{name}"));
        assert_eq!(
            workspace.text(&format!("run-{name}/metrics.csv")),
            workspace.text("text/metrics.csv"),
            "{name}"
        );
    }
    assert!(fs::read_dir(workspace.path("many")).unwrap().count() > 30);
    // Data can be named by a pattern, also for a resumed run.
    workspace
        .succeed(&format!("{TRAIN} --data some/*_train_*.bin --tokenizer bytes --out pattern --steps 20"));
    workspace.succeed("train --resume pattern --steps 40");
    workspace.succeed("train --resume run-some --steps 41");
    let changed =
        workspace.read("some/tokens_train_000001.bin").iter().map(|byte| byte ^ 1).collect::<Vec<_>>();
    let header = workspace.read("some/tokens_train_000001.bin")[..1024].to_vec();
    workspace.put("some/tokens_train_000001.bin", &[&header, &changed[1024..]].concat());
    let failed = workspace.run("train --resume run-some --steps 42");
    assert!(failed.stderr.contains("the data of the run in run-some has changed"), "{}", failed.stderr);
}

#[test]
fn a_prepared_folder_has_its_tokenizer_and_both_parts() {
    let workspace = Workspace::new();
    workspace.put("more/notes.md", "# Notes\n\nthe words of a document\n".repeat(50).as_bytes());
    workspace.put("more/picture.png", b"\x89PNG\0\0");
    let prepare = format!("prepare text.txt more --tokenizer {TOKENIZERS}/gpt2 --out tokens");
    // The remains of an interrupted command are not a folder of tokens, and are removed.
    workspace.put("tokens.partial/.partial", b"");
    workspace.put("tokens.partial/tokens_train_000001.bin", b"half");
    let told = workspace.succeed(&prepare);
    assert!(told.stdout.contains(" tokens of 2 documents, "), "{}", told.stdout);
    assert!(told.stderr.starts_with("left out more/picture.png"), "{}", told.stderr);
    assert!(!workspace.path("tokens.partial").exists());
    let mut names: Vec<String> = fs::read_dir(workspace.path("tokens"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    let expected =
        ["tokenizer.json", "tokenizer_config.json", "tokens_train_000001.bin", "tokens_val_000000.bin"];
    assert_eq!(names, expected);
    let tokens = |name: &str| {
        let bytes = workspace.read(name);
        bytes[1024..]
            .chunks_exact(2)
            .map(|b| u16::from_le_bytes([b[0], b[1]]).to_string())
            .collect::<Vec<_>>()
    };
    let (training, held_out) =
        (tokens("tokens/tokens_train_000001.bin"), tokens("tokens/tokens_val_000000.bin"));
    workspace.put("ids.txt", [training.clone(), held_out.clone()].concat().join(" ").as_bytes());
    let text = workspace.succeed(&format!("tokenize {TOKENIZERS}/gpt2 --decode ids.txt")).stdout;
    let end = "<|endoftext|>";
    assert_eq!(text, format!("{}{end}{}{end}", workspace.text("text.txt"), workspace.text("more/notes.md")));
    let share = held_out.len() as f64 / (training.len() + held_out.len()) as f64;
    assert!((0.05..0.2).contains(&share), "{share} of the tokens are held out");

    let told = workspace.succeed(&format!("{TRAIN} --data tokens --out run")).stdout;
    assert!(told.contains("tokens  tokens/tokenizer.json: a vocabulary of 600\n"), "{told}");
    assert_eq!(workspace.read("run/tokenizer.json"), workspace.read("tokens/tokenizer.json"));
    workspace.succeed("sample run --tokens 10");

    let again = workspace.run(&prepare);
    assert!(again.stderr.contains("--out tokens: it is there already\n  help: "), "{}", again.stderr);
    workspace.put("theirs.partial/notes.txt", b"precious");
    let theirs = workspace.run("prepare text.txt --tokenizer bytes --out theirs");
    assert!(theirs.stderr.contains("theirs.partial: there are files of others in it"), "{}", theirs.stderr);
    assert_eq!(workspace.text("theirs.partial/notes.txt"), "precious");
}

#[test]
fn what_cannot_be_prepared_or_trained_leaves_nothing() {
    let workspace = Workspace::new();
    workspace.put("latin.txt", &[b"gr\xfc\xdfe\n".repeat(40), b"words ".repeat(400)].concat());
    workspace.put("odd.bin", &[1, 0, 2]);
    workspace.put("far.bin", &[1u8, 0].repeat(200).into_iter().chain([0, 9]).collect::<Vec<u8>>().repeat(8));
    workspace.put("short.bin", &[1u8, 0].repeat(10));
    workspace.put("empty.txt", b"");
    for (line, expected) in [
        (&*format!("prepare latin.txt --tokenizer {TOKENIZERS}/llama2 --out tokens"), "latin.txt: "),
        ("prepare text.txt --tokenizer bytes --out tokens --held-out 1", "--held-out 1: must be at least 0"),
        ("prepare text.txt --tokenizer bytes --out tokens --held-out NaN", "--held-out NaN: "),
        ("prepare text.txt --tokenizer bpe:300 --out tokens", "a tokenizer is trained by `gradloom train`"),
        ("prepare none.txt --tokenizer bytes --out tokens", "none.txt: no such file or folder"),
        ("prepare empty.txt --tokenizer bytes --out tokens", "empty.txt: the file is empty"),
        ("prepare odd.bin --tokenizer bytes --out tokens", "odd.bin: the file is not text"),
        (
            &format!("{TRAIN} --data short.bin --tokenizer bytes"),
            "the data has 10 tokens, but a context of 16",
        ),
        (
            &format!("{TRAIN} --data short.bin"),
            "--data: these are tokens, and no tokenizer.json is beside them",
        ),
        (&format!("{TRAIN} --data short.bin --tokenizer bpe:300"), "there is no text to train it on"),
        (
            &format!("{TRAIN} --data short.bin text.txt --tokenizer bytes"),
            "a file of tokens among files of text",
        ),
        (&format!("{TRAIN} --data none.bin --tokenizer bytes"), "none.bin: cannot be read"),
    ] {
        let failed = workspace.run(line);
        assert!(failed.code == Some(2) && failed.stderr.contains(expected), "{line}\n{}", failed.stderr);
        assert!(failed.stderr.contains("\n  help: "), "{line}\n{}", failed.stderr);
        let left = ["tokens", "tokens.partial", "runs"].map(|name| workspace.path(name).exists());
        assert_eq!(left, [false; 3], "{line}");
    }
    let failed = workspace.run(&format!("{TRAIN} --data odd.bin --tokenizer bytes"));
    assert_eq!(failed.code, Some(1), "the path is right, and the file is not");
    assert!(failed.stderr.contains("odd.bin: it has no header, and 3 bytes"), "{}", failed.stderr);
    workspace.put("pytorch_model.bin", b"PK\x03\x04 and so on");
    let failed = workspace.run(&format!("{TRAIN} --data pytorch_model.bin --tokenizer bytes"));
    assert_eq!(failed.code, Some(2));
    let expected = "pytorch_model.bin: the file is a zip archive, and no file of tokens\n  help: ";
    assert!(failed.stderr.contains(expected), "{}", failed.stderr);
    let failed = workspace.run(&format!("{TRAIN} --data far.bin --tokenizer bytes"));
    let expected =
        "far.bin: the token at 200 is 2304, but the vocabulary has 256 tokens\n  help: give the tokenizer";
    let later =
        failed.stderr.contains("is 2304, but the vocabulary has 256 tokens\n  help: give the tokenizer");
    assert!(failed.stderr.contains(expected) || later, "{}", failed.stderr);
}
