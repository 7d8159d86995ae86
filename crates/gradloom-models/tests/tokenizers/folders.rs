//! Folders with tokens and roles in several files are read as transformers' `AutoTokenizer` reads them.
//!
//! `scripts/oracle/tokenizer_folders.py` creates the expected results.

use crate::json;
use gradloom_models::data::{Bpe, Message, Roles, SpecialTokens, Tokenizer};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;

fn texts(value: &Value) -> BTreeMap<String, String> {
    serde_json::from_value(value.clone()).unwrap()
}

fn write(folder: &Path, all: &Value, case: &Value) {
    let files = texts(&all["files"][case["base"].as_str().unwrap()]);
    for (name, text) in files.into_iter().chain(texts(&case["files"])) {
        std::fs::write(folder.join(name), text).unwrap();
    }
    std::fs::write(folder.join("config.json"), format!("{{\"model_type\": {}}}", case["model"])).unwrap();
}

/// Returns the differences in the ids, the vocabulary size, the roles, and the output of a template that
/// prints the roles.
fn differences(tokenizer: &Bpe, all: &Value, case: &Value) -> Vec<String> {
    let text = all["text"].as_str().unwrap();
    let ids = |special| serde_json::to_value(tokenizer.encode_with(text, special).unwrap()).unwrap();
    let Roles { bos, eos, unk, pad, .. } = tokenizer.roles();
    let named = |name: &str| case["tokens"][name].as_str().map(str::to_string);
    let template =
        Roles { chat_template: all["chat"].as_str().map(str::to_string), ..tokenizer.roles().clone() };
    let chat = Bpe::from_json(tokenizer.to_json().as_bytes(), "again").unwrap().with_roles(template);
    let chat = chat.apply_chat_template(&[Message::new("user", "x")], false).unwrap();
    let found = [
        ("added", ids(SpecialTokens::Added), case["added"].clone()),
        ("found", ids(SpecialTokens::Found), case["found"].clone()),
        ("size", tokenizer.vocabulary().into(), case["size"].clone()),
        ("bos", bos.clone().into(), named("bos_token").into()),
        ("eos", eos.clone().into(), named("eos_token").into()),
        ("unk", unk.clone().into(), named("unk_token").into()),
        ("pad", pad.clone().into(), named("pad_token").into()),
        ("chat", chat.into(), case["chat"].clone()),
    ];
    let differ = found.into_iter().filter(|(_, found, expected)| found != expected);
    differ
        .map(|(what, found, expected)| format!("{}: {what}: {found}, not {expected}", case["name"]))
        .collect()
}

#[test]
fn folders_are_read_as_transformers_does() {
    let all = json("folders.json");
    let mut wrong = Vec::new();
    for case in all["cases"].as_array().unwrap() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), &all, case);
        let tokenizer = Bpe::open(folder.path()).unwrap_or_else(|error| panic!("{}: {error}", case["name"]));
        wrong.extend(differences(&tokenizer, &all, case));
        // The saved tokenizer is the same when it is loaded again, with and without a model's `config.json`.
        let again = tempfile::tempdir().unwrap();
        for model in [None, case["model"].as_str()] {
            tokenizer.save(again.path()).unwrap();
            if let Some(model) = model {
                std::fs::write(again.path().join("config.json"), format!("{{\"model_type\": \"{model}\"}}"))
                    .unwrap();
            }
            for path in [again.path().to_path_buf(), again.path().join("tokenizer.json")] {
                let read = Bpe::open(&path).unwrap();
                wrong.extend(differences(&read, &all, case));
                assert_eq!(
                    read.fingerprint(),
                    tokenizer.fingerprint(),
                    "{} {}",
                    case["name"],
                    path.display()
                );
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
