//! Damaged files end in an error that names them.

use crate::{NAMES, data};
use gradloom_models::data::{Bpe, Tokenizer};
use serde_json::Value;

fn text(name: &str) -> Vec<u8> {
    let path = data(name).join("tokenizer.json");
    std::fs::read(path).unwrap_or_else(|_| Bpe::open(data(name)).unwrap().to_json().into_bytes())
}

#[test]
fn files_that_are_cut_off_are_refused() {
    for name in NAMES {
        let whole = text(name);
        let end = whole.trim_ascii_end().len();
        for length in [0, 1, 2, end / 3, end / 2, end - 1] {
            let error = Bpe::from_json(&whole[..length], "t.json").unwrap_err().to_string();
            assert!(error.starts_with("t.json: "), "{error}");
        }
    }
}

/// Every value of the file, one after the other, becomes one of another type.
#[test]
fn values_of_other_types_are_no_panic() {
    let others = [
        Value::Null,
        Value::from(-1),
        Value::from("x"),
        Value::from(""),
        Value::from(vec![1]),
        Value::from(u64::MAX),
    ];
    let mut refused = 0;
    for name in NAMES {
        let mut file: Value = serde_json::from_slice(&text(name)).unwrap();
        // Of the long lists, a few are enough.
        let vocabulary = file["model"]["vocab"].as_object_mut().unwrap();
        vocabulary.retain(|_, id| id.as_u64().unwrap() < 262);
        file["model"]["merges"].as_array_mut().unwrap().truncate(0);
        let known: Vec<Value> = file["added_tokens"].as_array().unwrap().clone();
        let least = vocabulary_size(&file);
        let kept = known.into_iter().enumerate().map(|(at, mut token)| {
            if token["id"].as_u64().unwrap() >= 262 {
                token["id"] = Value::from(least + at as u64);
            }
            token
        });
        file["added_tokens"] = Value::from(kept.collect::<Vec<_>>());
        let mut places = Vec::new();
        collect(&file, String::new(), &mut places);
        for place in places.iter().filter(|place| !place.starts_with("/model/vocab/")) {
            for other in &others {
                let mut changed = file.clone();
                *changed.pointer_mut(place).unwrap() = other.clone();
                match Bpe::from_json(changed.to_string().as_bytes(), "t.json") {
                    // What is read can be used.
                    Ok(tokenizer) => {
                        let ids = tokenizer.encode(b"the </s> word").unwrap_or_default();
                        tokenizer.decode_all(&ids);
                    }
                    Err(error) => {
                        refused += 1;
                        assert!(error.to_string().starts_with("t.json: "), "{place}: {error}");
                    }
                }
            }
        }
    }
    assert!(refused > 300, "{refused} files were refused");
}

fn vocabulary_size(file: &Value) -> u64 {
    file["model"]["vocab"].as_object().unwrap().len() as u64
}

/// The places of all values.
fn collect(value: &Value, at: String, places: &mut Vec<String>) {
    places.push(at.clone());
    match value {
        Value::Object(fields) => {
            for (name, field) in fields {
                collect(field, format!("{at}/{}", name.replace('~', "~0").replace('/', "~1")), places);
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                collect(item, format!("{at}/{index}"), places);
            }
        }
        _ => {}
    }
}
