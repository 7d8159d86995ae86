//! Texts of `gradloom sample`: escapes, byte order marks, and ends.

#![allow(clippy::disallowed_methods, reason = "tests read what they write")]

mod common;
use common::Workspace;
use serde_json::Value;

fn trained() -> Workspace {
    let workspace = Workspace::new();
    workspace.succeed("train --config small.toml --data text.txt --steps 2 --out run");
    workspace
}

fn lines(workspace: &Workspace, line: &str, flags: &[&str]) -> Vec<Value> {
    let done = workspace.command(line).args(flags).output().unwrap();
    assert_eq!(done.status.code(), Some(0), "{line} {flags:?}\n{}", String::from_utf8_lossy(&done.stderr));
    let text = String::from_utf8(done.stdout).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn escapes_in_stop_strings_are_understood() {
    let workspace = trained();
    // This model generates only one byte.
    for (byte, stop) in [
        ("10", r"\n"),
        ("9", r"\t"),
        ("13", r"\r"),
        ("92", r"\\"),
        ("27", r"\x1b"),
        ("65", r"\u{41}"),
        ("65", "A"),
    ] {
        let bias = format!("{byte}:1000");
        for more in [&[][..], &["--count", "2"][..]] {
            let flags = [&["--bias", &bias, "--stop", stop][..], more].concat();
            for text in lines(&workspace, "sample run --tokens 5 --json", &flags) {
                assert_eq!((&text["text"], &text["finish"]), (&"".into(), &"stop".into()), "{stop}");
            }
        }
    }
    for stop in [r"\q", r"a\", r"\x8", r"\xff", r"\u{110000}", r"\u41"] {
        let failed = workspace.command("sample run --stop").arg(stop).output().unwrap();
        let told = String::from_utf8(failed.stderr).unwrap();
        assert!(
            failed.status.code() == Some(2) && told.contains("is no escape: there are "),
            "{stop}: {told}"
        );
    }
}

#[test]
fn a_byte_order_mark_is_no_part_of_a_prompt() {
    let workspace = trained();
    workspace.put("prompts.txt", "\u{feff}one\ntwo\n".as_bytes());
    let prompts: Vec<Value> = lines(&workspace, "sample run --tokens 1 --json --prompts prompts.txt", &[]);
    let prompts: Vec<&Value> = prompts.iter().map(|text| &text["prompt"]).collect();
    assert_eq!(prompts, ["one", "two"]);
    let one = lines(&workspace, "sample run --tokens 1 --json --prompt-file prompts.txt", &[]);
    assert_eq!(one[0]["prompt"], "one\ntwo\n");
}

#[test]
fn a_draft_says_that_it_ends_at_the_context() {
    let workspace = trained();
    let draft = "sample run --draft run --prompt ab";
    let told = workspace.succeed(&format!("{draft} --tokens 50"));
    let expected = "note: a text ends at the model's context of 16, after 15 of 50 tokens; one without a search \
                    or a draft goes on beyond it\n";
    assert!(told.stderr.ends_with(expected), "{}", told.stderr);
    assert_eq!(lines(&workspace, &format!("{draft} --tokens 50 --json"), &[])[0]["finish"], "context");
    let whole = workspace.succeed(&format!("{draft} --tokens 5"));
    assert!(!whole.stderr.contains("note: a text ends"), "{}", whole.stderr);
    assert_eq!(lines(&workspace, &format!("{draft} --tokens 5 --json"), &[])[0]["finish"], "length");
}
