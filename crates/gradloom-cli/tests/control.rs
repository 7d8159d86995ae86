//! Tests that names and texts from untrusted files cannot control a terminal: they are escaped in every
//! message and list.

#![allow(clippy::disallowed_methods, reason = "tests read what they write")]

mod common;
use common::Workspace;
use serde_json::{Map, Value, json};
use std::fs;
use std::path::Path;

/// A color, a one-byte control sequence of Latin-1, a bell, a carriage return, and a change of writing
/// direction.
const EVIL: &str = "x\u{1b}[31m\u{9b}2J\u{7}\r\u{7f}\u{202e}";
const DATA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data");

fn check(workspace: &Workspace, line: &str, what: &str) {
    let done = workspace.run(line);
    for (stream, text) in [("output", &done.stdout), ("error", &done.stderr)] {
        let odd = |c: &char| c.is_control() && !matches!(c, '\n' | '\t') || *c == '\u{202e}';
        assert_eq!(text.chars().find(odd), None, "gradloom {line}, {what}, standard {stream}:\n{text:?}");
    }
}

/// Returns copies of the file, each with one of its texts, and then one of its names, changed.
fn changed(file: &Value) -> Vec<(String, Value)> {
    fn places(value: &Value, at: &str, found: &mut Vec<String>) {
        let fields: Vec<(String, &Value)> = match value {
            Value::Object(fields) => fields.iter().map(|(name, value)| (name.clone(), value)).collect(),
            Value::Array(items) => {
                items.iter().take(3).enumerate().map(|(i, v)| (i.to_string(), v)).collect()
            }
            _ => Vec::new(),
        };
        found.push(at.to_string());
        for (name, value) in fields.iter().take(30) {
            places(value, &format!("{at}/{}", name.replace('~', "~0").replace('/', "~1")), found);
        }
    }
    let (mut all, mut found) = (Vec::new(), Vec::new());
    places(file, "", &mut found);
    for place in found {
        let mut other = file.clone();
        let value = other.pointer_mut(&place).expect("a place");
        if let Value::Object(fields) = value {
            let evil: Map<String, Value> =
                fields.iter().take(1).map(|(name, value)| (format!("{EVIL}{name}"), value.clone())).collect();
            let name = fields.keys().next().cloned().unwrap_or_default();
            fields.remove(&name);
            fields.extend(evil);
        } else {
            *value = json!(EVIL);
        }
        all.push((place, other));
    }
    all
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().flatten().filter(|entry| entry.path().is_file()) {
        fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

#[test]
fn folders_of_transformers_steer_no_terminal() {
    let workspace = Workspace::new();
    let model = workspace.path("model");
    copy(&Path::new(DATA).join("hugging_face/llama"), &model);
    copy(&Path::new(DATA).join("tokenizers/llama3"), &model);
    for name in ["config.json", "tokenizer.json", "tokenizer_config.json", "model.safetensors.index.json"] {
        let path = model.join(name);
        let sound = fs::read(&path).unwrap();
        for (place, other) in changed(&serde_json::from_slice(&sound).unwrap()) {
            fs::write(&path, other.to_string()).unwrap();
            let what = format!("{name}: {place}");
            if name.starts_with("tokenizer") {
                check(&workspace, "tokenize model --text a --json", &what);
            } else {
                check(&workspace, "info model --tensors", &what);
                check(&workspace, "info model --json", &what);
            }
        }
        fs::write(&path, sound).unwrap();
    }
    let template =
        json!({"chat_template": format!("{{{{ raise_exception('{EVIL}') }}}}"), "eos_token": EVIL});
    fs::write(model.join("tokenizer_config.json"), template.to_string()).unwrap();
    check(&workspace, "sample model --tokens 1 --device cpu", "a chat template");
    check(&workspace, "export model --out exported", "a chat template");
}

#[test]
fn tensors_and_their_files_steer_no_terminal() {
    let workspace = Workspace::new();
    let bytes = vec![0; 24];
    let view = safetensors::tensor::TensorView::new(safetensors::Dtype::F32, vec![2, 3], &bytes).unwrap();
    let metadata = [(EVIL.to_string(), EVIL.to_string()), ("format".into(), EVIL.into())].into();
    let name = format!("{EVIL}\n");
    let file = safetensors::serialize([(name.as_str(), view)], Some(metadata)).unwrap();
    workspace.put("evil.safetensors", &file);
    workspace.put(&format!("{}.safetensors", EVIL.replace('/', "")), &file);
    let listed = workspace.succeed("info evil.safetensors --tensors").stdout;
    assert!(
        listed.ends_with("  x\\u001b[31m\\u009b2J\\u0007\\u000d\\u007f\\u202e\\u000a: f32[2, 3]\n"),
        "{listed:?}"
    );
    let json: Value =
        serde_json::from_str(&workspace.succeed("info evil.safetensors --tensors --json").stdout).unwrap();
    assert_eq!(json["names"][&name], "f32[2, 3]");
    for command in [
        "info evil.safetensors --json --tensors",
        "sample evil.safetensors",
        "export evil.safetensors --out o",
    ] {
        check(&workspace, command, "names of tensors");
    }
    check(
        &workspace,
        "train --config small.toml --init evil.safetensors --data text.txt --out r",
        "names of tensors",
    );
    // These commands print names of files.
    workspace.put(&format!("texts/{EVIL}.txt"), b"");
    workspace.put("texts/a.txt", b"words of a text");
    for command in [
        "prepare texts --tokenizer bytes --out tokens",
        "info .",
        "sample texts",
        "train --data texts --steps 1 --config small.toml --out s",
    ] {
        check(&workspace, command, "names of files");
    }
    // These commands print the contents of a settings file and of questions.
    let key = EVIL.chars().map(|c| format!("\\u{:04x}", u32::from(c))).collect::<String>();
    for text in [
        format!("\"{key}\" = 1\n"),
        format!("width = \"{key}\"\n"),
        format!("{EVIL} = \n"),
        format!("# {EVIL}\n["),
    ] {
        workspace.put("evil.toml", text.as_bytes());
        check(&workspace, "train --config evil.toml --data text.txt --out t", &text);
    }
}

/// Tests every name and text of a GGUF file, where each is preceded by its length.
#[test]
fn gguf_files_steer_no_terminal() {
    let workspace = Workspace::new();
    let folder = fs::read_dir(Path::new(DATA).join("gguf")).unwrap().flatten().map(|entry| entry.path());
    let path = folder.filter(|path| path.extension().is_some_and(|end| end == "gguf")).min().expect("a file");
    let sound = fs::read(path).unwrap();
    let mut places = 0;
    let mut at = 24;
    while places < 60 && at + 8 < sound.len() {
        let length = u64::from_le_bytes(sound[at..at + 8].try_into().unwrap()) as usize;
        let text = sound.get(at + 8..at.saturating_add(8).saturating_add(length));
        let is_text = |text: &&[u8]| (3..100).contains(&text.len()) && text.iter().all(u8::is_ascii_graphic);
        let Some(text) = text.filter(is_text) else {
            at += 1;
            continue;
        };
        let mut other = sound.clone();
        other[at + 8..at + 11].copy_from_slice("\u{1b}\u{9b}".as_bytes());
        workspace.put("evil.gguf", &other);
        let what = format!("{:?} at {at}", String::from_utf8_lossy(text));
        check(&workspace, "info evil.gguf --tensors", &what);
        check(&workspace, "tokenize evil.gguf --text a", &what);
        (places, at) = (places + 1, at + 8 + length);
    }
    assert!(places > 20, "{places}");
}

/// Lists the few files that do not print through `output.rs`, which escapes messages; these were reviewed.
#[test]
fn nothing_else_writes_to_the_terminal() {
    fn sources(folder: &Path, found: &mut Vec<String>) {
        for entry in fs::read_dir(folder).unwrap().flatten() {
            let path = entry.path();
            if path.is_dir() {
                sources(&path, found);
                continue;
            }
            let text = fs::read_to_string(&path).unwrap();
            let code = text.split("#[cfg(test)]\nmod tests").next().unwrap();
            if ["stdout()", "stderr()", "println!", "print!("].iter().any(|call| code.contains(call)) {
                found.push(path.file_stem().unwrap().to_string_lossy().into_owned());
            }
        }
    }
    let mut found = Vec::new();
    sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../gradloom-command/src"), &mut found);
    found.sort();
    let known = ["events", "lib", "mod", "mod", "mutations", "output", "progress", "tokenize"];
    assert_eq!(
        found, known,
        "say, tell or print_line spell what steers a terminal; other ways must do so too"
    );
}
