//! Damaged files yield an error that names them.

use crate::{NAMES, data};
use gradloom_models::data::{Bpe, Roles, Tokenizer, Vocabulary};
use serde_json::{Value, json};

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

/// Replaces every value of the file in turn by one of another type.
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
        // Keep only a few entries of the long lists, to limit the number of changed files.
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
                    // Use every tokenizer that loads, which must not panic.
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

/// Collects the JSON pointers of all values.
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

#[test]
fn ids_that_are_put_around_a_text_are_tokens() {
    let wrong = |processor: Value| {
        let mut file: Value = serde_json::from_slice(&text("llama3")).unwrap();
        file["post_processor"] = processor;
        Bpe::from_json(file.to_string().as_bytes(), "t.json").unwrap_err().to_string()
    };
    let template = |id: u64| {
        let begin = json!({"SpecialToken": {"id": "<s>", "type_id": 0}});
        let text = json!({"Sequence": {"id": "A", "type_id": 0}});
        json!({"type": "TemplateProcessing", "single": [begin, text], "pair": [text],
            "special_tokens": {"<s>": {"id": "<s>", "ids": [1, id], "tokens": ["<s>", "<s>"]}}})
    };
    for id in [565, 4_000_000_000] {
        assert_eq!(
            wrong(template(id)),
            format!(
                "t.json: `post_processor.special_tokens[\"<s>\"].ids[1]` is {id}, which is no token: there are 565"
            )
        );
    }
    let bytes =
        json!({"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true});
    let nested = wrong(json!({"type": "Sequence", "processors": [bytes, template(600)]}));
    assert!(nested.starts_with("t.json: `post_processor.processors[1].special_tokens"), "{nested}");
    let roberta = json!({"type": "RobertaProcessing", "sep": ["</s>", 565], "cls": ["<s>", 0],
        "trim_offsets": true, "add_prefix_space": true});
    assert_eq!(wrong(roberta), "t.json: `post_processor.sep[1]` is 565, which is no token: there are 565");
}

#[test]
fn a_normalizer_that_blows_a_text_up_is_refused() {
    let opened = |rules: &[(&str, Value)]| {
        let mut file: Value = serde_json::from_slice(&text("gpt2")).unwrap();
        let rule =
            |(to, pattern): &(&str, Value)| json!({"type": "Replace", "pattern": pattern, "content": to});
        let rules: Vec<Value> = rules.iter().map(rule).collect();
        file["normalizer"] = json!({"type": "Sequence", "normalizers": rules});
        Bpe::from_json(file.to_string().as_bytes(), "t.json").map_err(|error| error.to_string())
    };
    let double = ("aa", json!({"String": "a"}));
    assert!(opened(&vec![double.clone(); 6]).is_ok());
    let error = opened(&vec![double; 30]).unwrap_err();
    assert_eq!(error, "t.json: its normalizer can make a text 1073741824 times as long: 100 is the limit");
    let between = "x".repeat(1000);
    let error = opened(&[(&between, json!({"Regex": ""}))]).unwrap_err();
    assert!(error.contains("1001 times as long"), "{error}");
}

/// Opening a vocabulary with scores takes time and memory linear in its bytes: tokens longer than any model's
/// are accepted, and merges that would take far more are rejected.
#[test]
fn vocabularies_with_scores_open_by_their_bytes() {
    let open = |tokens: Vec<String>| {
        let scores = (0..tokens.len()).map(|id| -(id as f32)).collect();
        let roles = Roles { unk: Some("a".into()), ..Roles::default() };
        let lists = Vocabulary { tokens, scores, roles, ..Vocabulary::default() };
        Bpe::from_vocabulary(&lists, "lists").map_err(|error| error.to_string())
    };
    let letters = ["a", "b", "▁", "ab"].map(String::from).to_vec();
    let tokenizer = open([letters, vec!["ab".repeat(200_000)]].concat()).unwrap();
    assert_eq!(tokenizer.encode(b"abab").unwrap(), [2, 3, 3]);
    let ladder = (1..1900).map(|length| "a".repeat(length)).collect();
    let error = open(ladder).unwrap_err();
    assert!(error.starts_with("lists: its tokens can be made of each other in 1802151 ways"), "{error}");
}

fn with_added(tokens: &[Value], normalizer: Value) -> Result<Bpe, String> {
    let mut file: Value = serde_json::from_slice(&text("gpt2")).unwrap();
    let first = Bpe::open(data("gpt2")).unwrap().vocabulary();
    let added = tokens.iter().zip(first..).map(|(token, id)| {
        let mut token = token.clone();
        token["id"] = json!(id);
        token["special"] = json!(false);
        token
    });
    file["added_tokens"].as_array_mut().unwrap().extend(added);
    file["normalizer"] = normalizer;
    Bpe::from_json(file.to_string().as_bytes(), "t.json").map_err(|error| error.to_string())
}

/// A token normalized to the empty string would match everywhere; the `tokenizers` crate panics on it.
#[test]
fn added_tokens_that_normalize_to_nothing_are_refused() {
    let blanks = |normalized: bool| json!({"content": "  ", "single_word": true, "lstrip": false, "rstrip": false, "normalized": normalized});
    let strip = json!({"type": "Strip", "strip_left": true, "strip_right": true});
    let error = with_added(&[blanks(true)], strip.clone()).unwrap_err();
    assert_eq!(
        error,
        "t.json: the normalizer leaves nothing of the added token \"  \": its `normalized` should be false"
    );
    assert!(with_added(&[blanks(false)], strip).is_ok());
}

/// The crate panics on a token that absorbs the whitespace after it, followed by a whitespace token that
/// absorbs the whitespace before it.
#[test]
fn a_panic_of_the_crate_is_an_error() {
    let token = |content: &str, side: &str| {
        let is = |name: &str| name == side;
        json!({"content": content, "single_word": false, "lstrip": is("left"), "rstrip": is("right"),
               "normalized": false})
    };
    let bpe = with_added(&[token("<a>", "right"), token(" ", "left")], json!(null)).unwrap();
    let error = bpe.encode(b"<a>   b").unwrap_err();
    let named = "t.json cannot encode the text: the crate `tokenizers` panics: ";
    assert!(error.to_string().starts_with(named), "{error}");
    assert!(error.remedy().contains("`rstrip`"), "{}", error.remedy());
    assert!(bpe.encode(b"<a>b").is_ok());
}
