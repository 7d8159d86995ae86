//! Memory use for opening a tokenizer.json is linear in its size, whatever it contains.

use gradloom_models::data::Bpe;
use gradloom_testing::memory::{Counting, measured};
use serde_json::{Map, Value, json};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Returns a file with the given tokens in addition to single bytes.
fn file(tokens: &[String], merges: &[Value], added: &[String], change: impl FnOnce(&mut Value)) -> String {
    let gpt2: Value = serde_json::from_str(&crate::open("gpt2").to_json()).unwrap();
    let bytes = gpt2["model"]["vocab"].as_object().unwrap().keys().filter(|token| token.chars().count() == 1);
    let vocabulary: Vec<String> = bytes.cloned().chain(tokens.iter().cloned()).collect();
    let added: Vec<Value> = added
        .iter()
        .zip(vocabulary.len()..)
        .map(|(token, id)| {
            json!({"id": id, "content": token, "single_word": false, "lstrip": false, "rstrip": false,
                   "normalized": id % 2 == 0, "special": false})
        })
        .collect();
    let ids: Map<String, Value> =
        vocabulary.into_iter().zip(0..).map(|(token, id)| (token, json!(id))).collect();
    let bytes =
        json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false});
    let mut file = json!({
        "version": "1.0", "added_tokens": added, "pre_tokenizer": bytes, "decoder": bytes,
        "model": {"type": "BPE", "vocab": ids, "merges": merges},
    });
    change(&mut file);
    file.to_string()
}

fn names(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("token{number}")).collect()
}

fn split(pattern: &Value) -> impl FnOnce(&mut Value) {
    let split = json!({"type": "Split", "pattern": pattern, "behavior": "Isolated", "invert": false});
    move |file| {
        file["pre_tokenizer"] = json!({"type": "Sequence", "pretokenizers": [split, file["pre_tokenizer"]]});
    }
}

fn many_tokens(bytes: usize) -> String {
    file(&names(bytes / 20), &[], &[], |_| {})
}

fn a_long_token(bytes: usize) -> String {
    file(&["ab".repeat(bytes / 2)], &[], &[], |_| {})
}

/// Returns a file in which each token consists of two copies of the previous one.
fn doubling_merges(bytes: usize) -> String {
    let mut tokens = vec!["a".to_string()];
    let mut merges = Vec::new();
    while tokens[tokens.len() - 1].len() * 4 < bytes {
        let last = &tokens[tokens.len() - 1];
        merges.push(json!([last, last]));
        tokens.push(last.repeat(2));
    }
    file(&tokens[1..], &merges, &[], |_| {})
}

fn many_added_tokens(bytes: usize) -> String {
    file(&[], &[], &names(bytes / 140), |file| file["normalizer"] = json!({"type": "Lowercase"}))
}

fn a_long_added_token(bytes: usize) -> String {
    file(&[], &[], &["ab".repeat(bytes / 2)], |_| {})
}

fn many_ids_of_a_template(bytes: usize) -> String {
    let count = bytes / 8;
    file(&[], &[], &[], |file| {
        let text = json!({"Sequence": {"id": "A", "type_id": 0}});
        let begin = json!({"SpecialToken": {"id": "a", "type_id": 0}});
        file["post_processor"] = json!({
            "type": "TemplateProcessing", "single": [begin, text], "pair": [text],
            "special_tokens": {"a": {"id": "a", "ids": vec![1; count], "tokens": vec!["a"; count]}},
        });
    })
}

fn a_long_expression(bytes: usize) -> String {
    let words: Vec<String> = (0..bytes / 7).map(|number| format!("w{number}")).collect();
    file(&[], &[], &[], split(&json!({"Regex": words.join("|")})))
}

fn a_long_text_to_split_at(bytes: usize) -> String {
    file(&[], &[], &[], split(&json!({"String": "x".repeat(bytes)})))
}

/// Measures peak memory and total allocations per byte of a file. For a file four times as large, they must
/// grow by at most half, which allows for the doubling of tables, and remain below a bound.
#[test]
fn a_file_opens_by_its_bytes() {
    type Shape = fn(usize) -> String;
    let shapes: [(&str, Shape, usize, usize); 8] = [
        ("many tokens", many_tokens, 1 << 20, 200),
        ("a long token", a_long_token, 5 << 20, 100),
        ("doubling merges", doubling_merges, 4 << 20, 100),
        ("many added tokens", many_added_tokens, 1 << 19, 300),
        ("a long added token", a_long_added_token, 1 << 19, 400),
        ("many ids of a template", many_ids_of_a_template, 1 << 20, 200),
        ("a long expression", a_long_expression, 1 << 15, 2000),
        ("a long text to split at", a_long_text_to_split_at, 1 << 15, 2000),
    ];
    for (name, shape, bytes, most) in shapes {
        let taken = [bytes, 4 * bytes].map(|bytes| {
            let file = shape(bytes);
            let (tokenizer, taken) = measured(|| Bpe::from_json(file.as_bytes(), "t"));
            tokenizer.unwrap_or_else(|error| panic!("{name}: {error}"));
            [taken.most, taken.all].map(|bytes| bytes as f64 / file.len() as f64)
        });
        println!("{name}: {taken:.1?}");
        for (few, many) in taken[0].into_iter().zip(taken[1]) {
            assert!(many <= 1.5 * few && many <= most as f64, "{name}: {taken:.1?} bytes for each");
        }
    }
}
