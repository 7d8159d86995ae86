//! Tests that the figures of `gradloom eval` are consistent, and that mistakes are named.

#![allow(clippy::disallowed_methods, reason = "tests read what they write")]

mod common;
use common::Workspace;
use serde_json::{Value, json};

const QUESTIONS: &str = "{\"context\": \"3 times 4 is\", \"choices\": [\"12\", \"a\"], \"answer\": 0}\n\
                         {\"question\": \"5 times\", \"choices\": [\"q\", \"2 is\"], \"answer\": 0}\n";

fn trained() -> Workspace {
    let workspace = Workspace::new();
    workspace.succeed("train --config small.toml --data text.txt --out run");
    workspace.put("questions.jsonl", QUESTIONS.as_bytes());
    workspace.put("short.txt", b"3 times 3 is 9\n");
    workspace
}

#[test]
fn a_text_and_questions() {
    let workspace = trained();
    let json = |line: &str| -> Value { serde_json::from_str(&workspace.succeed(line).stdout).unwrap() };
    let found = json("eval run --data text.txt --choices questions.jsonl --json");
    let text = workspace.text("text.txt");
    assert_eq!(found["tokens"], text.len() - 1);
    assert_eq!((&found["context"], &found["stride"]), (&16.into(), &8.into()));
    let loss = found["loss"].as_f64().unwrap();
    assert!(loss > 0.1 && loss < 256f64.ln(), "{loss}");
    assert!((found["perplexity"].as_f64().unwrap() / loss.exp() - 1.0).abs() < 1e-9);
    // The tokens are bytes.
    assert!((found["bits_per_byte"].as_f64().unwrap() * 2f64.ln() / loss - 1.0).abs() < 1e-9);
    // The model learned digits and not `q`, so the first answer is right and the second wrong.
    assert_eq!(
        (&found["questions"], &found["right"], &found["accuracy"]),
        (&2.into(), &1.into(), &0.5.into())
    );

    // More context makes a regular text more likely, and the batch size changes nothing.
    let slow = json("eval run --data text.txt --stride 1 --batch 7 --json");
    assert!(slow["loss"].as_f64().unwrap() < loss, "{slow} {found}");
    let batch = json("eval run --data text.txt --batch 1 --json");
    assert!((batch["loss"].as_f64().unwrap() / loss - 1.0).abs() < 1e-6);

    // Tokens in files have the same loss.
    workspace.succeed("prepare text.txt --tokenizer bytes --out tokens --held-out 0");
    let shards = json("eval run --data tokens --json");
    assert_eq!((&shards["loss"], &shards["bits_per_byte"]), (&found["loss"], &Value::Null));

    let told = workspace.succeed("eval run --data text.txt --choices questions.jsonl").stdout;
    assert!(told.contains(&format!("loss          {loss:.4} nats a token\n")), "{told}");
    assert!(told.contains("accuracy      0.5000 (1 of 2 questions)\n"), "{told}");
    let exported = workspace.succeed("export run --out folder");
    assert!(exported.stderr.is_empty(), "{}", exported.stderr);
    assert_eq!(json("eval folder --data text.txt --json")["loss"], found["loss"]);
}

#[test]
fn mistakes_are_named() {
    let workspace = trained();
    workspace.put("empty.jsonl", b"\n");
    workspace.put("one.txt", b"\n");
    let line = |context: &str| json!({"context": context, "choices": ["a", "b"], "answer": 0}).to_string();
    workspace.put("long.jsonl", format!("{}\n\n{}\n", line("a"), line(&"x".repeat(16))).as_bytes());
    workspace.put("none.jsonl", line("").as_bytes());
    workspace.put("answer.jsonl", line("a").replace(":0", ":2").as_bytes());
    for (rest, expected) in [
        ("--data none", "--data: none: no such file or folder"),
        ("--data one.txt", "--data one.txt: the text has 1 tokens, of which the first is not scored"),
        ("--data short.txt --context 17", "--context 17: the model reads from 1 to 16 tokens"),
        ("--data short.txt --context 0", "--context 0: the model reads"),
        ("--data short.txt --stride 17", "--stride 17: must be from 1 to the context, 16"),
        ("--data short.txt --batch 0", "--batch 0: must be at least 1"),
        ("--choices none.txt", "--choices: none.txt: cannot be read"),
        ("--choices empty.jsonl", "--choices: empty.jsonl: there is no question in it"),
        ("--choices text.txt", "--choices: text.txt: line 1: "),
        ("--choices none.jsonl", "--choices: none.jsonl: line 1: the context is empty"),
        ("--choices answer.jsonl", "--choices: answer.jsonl: line 1: the answer is 2"),
        (
            "--choices long.jsonl",
            "--choices: long.jsonl: line 3: the choice 0 makes a text of 18 tokens, and the model reads 16",
        ),
    ] {
        let failed = workspace.run(&format!("eval run {rest}"));
        assert_eq!(failed.code, Some(2), "{rest}: {}", failed.stderr);
        assert!(failed.stderr.starts_with(&format!("error: {expected}")), "{rest}: {}", failed.stderr);
        assert!(failed.stderr.contains("\n  help: "), "{rest}: {}", failed.stderr);
    }
    let failed = workspace.run("eval run");
    assert!(failed.code == Some(2) && failed.stderr.contains("--data <TEXT>..."), "{}", failed.stderr);
}
