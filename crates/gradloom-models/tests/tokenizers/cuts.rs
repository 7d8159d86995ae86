//! Long texts encoded in pieces, with tokenizers of all kinds.

use crate::{NAMES, open};
use gradloom_models::data::{Bpe, LongText, SpecialTokens, Tokenizer};
use serde_json::{Value, json};

fn base(name: &str) -> Value {
    let mut file: Value = serde_json::from_str(&open(name).to_json()).unwrap();
    // Remove the added tokens, whose ids would have to follow those of the merged tokens.
    (file["added_tokens"], file["post_processor"]) = (json!([]), json!(null));
    file
}

fn made(file: &Value, name: &str) -> Bpe {
    Bpe::from_json(file.to_string().as_bytes(), name).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Returns the id of a token, or the next free one.
fn id(file: &Value, token: &str) -> u64 {
    let vocabulary = file["model"]["vocab"].as_object().unwrap();
    let added = file["added_tokens"].as_array().unwrap().iter().filter_map(|token| token["id"].as_u64());
    let next = vocabulary.values().filter_map(Value::as_u64).chain(added).max().unwrap() + 1;
    vocabulary.get(token).and_then(Value::as_u64).unwrap_or(next)
}

/// Adds a token composed of two others.
fn merge(file: &mut Value, left: &str, right: &str) {
    let token = format!("{left}{right}");
    let id = id(file, &token);
    let vocabulary = file["model"]["vocab"].as_object_mut().unwrap();
    if vocabulary.insert(token, json!(id)).is_none() {
        file["model"]["merges"].as_array_mut().unwrap().push(json!([left, right]));
    }
}

/// Adds a token by merging its characters from the left.
fn grow(file: &mut Value, token: &str) {
    for character in token.chars().map(String::from) {
        let id = json!(id(file, &character));
        file["model"]["vocab"].as_object_mut().unwrap().entry(character).or_insert(id);
    }
    let places: Vec<usize> = token.char_indices().map(|(at, _)| at).skip(1).chain([token.len()]).collect();
    for (from, to) in places.iter().zip(&places[1..]) {
        merge(file, &token[..*from], &token[*from..*to]);
    }
}

fn add(file: &mut Value, content: &str, flags: usize) {
    let id = id(file, content);
    let is = |bit: usize| flags >> bit & 1 == 1;
    file["added_tokens"].as_array_mut().unwrap().push(json!({
        "id": id, "content": content, "lstrip": is(0), "rstrip": is(1), "single_word": is(2),
        "normalized": is(3), "special": false,
    }));
}

/// Returns tokenizers of all kinds: each base with one or two modifications.
fn tokenizers() -> Vec<(String, Value)> {
    let replace = |from: Value, to: &str| json!({"type": "Replace", "pattern": from, "content": to});
    let strip = |left, right| json!({"type": "Strip", "strip_left": left, "strip_right": right});
    let prepend = json!({"type": "Prepend", "prepend": "▁"});
    let spaces = replace(json!({"String": " "}), "▁");
    let normals = vec![
        json!(null),
        strip(true, true),
        strip(true, false),
        strip(false, true),
        json!({"type": "NFC"}),
        json!({"type": "NFKC"}),
        json!({"type": "Lowercase"}),
        json!({"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true,
            "strip_accents": null, "lowercase": true}),
        replace(json!({"String": "k N"}), "k_N"),
        replace(json!({"String": "e"}), ""),
        replace(json!({"Regex": " {2,}"}), " "),
        replace(json!({"Regex": "(?<=k) "}), "_"),
        json!({"type": "Sequence", "normalizers": [{"type": "NFC"}, strip(true, true), spaces]}),
        json!({"type": "Sequence", "normalizers": [prepend, spaces]}),
        json!({"type": "Sequence", "normalizers": [prepend, spaces, replace(json!({"String": "▁N"}), "M")]}),
    ];
    let bytes = |prefix: bool, words: bool| json!({"type": "ByteLevel", "add_prefix_space": prefix, "trim_offsets": true, "use_regex": words});
    let split = |pattern: &str, behavior: &str| {
        let pattern = json!({"Regex": pattern});
        json!({"type": "Split", "pattern": pattern, "behavior": behavior, "invert": false})
    };
    let sign = |scheme: &str, split: bool| json!({"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": split});
    let then = |first: Value, second: Value| json!({"type": "Sequence", "pretokenizers": [first, second]});
    let words = vec![
        (true, bytes(false, true)),
        (true, bytes(true, true)),
        (true, bytes(false, false)),
        (true, bytes(true, false)),
        (true, then(split(r"[A-Za-z ]+|\n", "Isolated"), bytes(false, false))),
        (true, then(split(r"(?=(\d{3})+(?!\d))", "Isolated"), bytes(false, false))),
        (true, then(split(r"\bNew\b", "Isolated"), bytes(false, true))),
        (true, then(split(r"\s+(?!\S)|,", "MergedWithPrevious"), bytes(false, false))),
        (true, then(json!({"type": "Digits", "individual_digits": false}), bytes(true, true))),
        (true, then(json!({"type": "Punctuation", "behavior": "Isolated"}), bytes(false, false))),
        (true, then(json!({"type": "FixedLength", "length": 5}), bytes(false, false))),
        (false, json!(null)),
        (false, sign("always", true)),
        (false, sign("first", true)),
        (false, sign("first", false)),
        (false, sign("never", false)),
        (false, then(json!({"type": "WhitespaceSplit"}), sign("always", true))),
        (false, json!({"type": "Whitespace"})),
        (false, json!({"type": "BertPreTokenizer"})),
    ];
    let mut all = Vec::new();
    for name in NAMES {
        let spells_bytes = name != "llama2";
        let mut file = base(name);
        all.push((name.to_string(), file.clone()));
        let space = if spells_bytes { "Ġ" } else { "▁" };
        for token in ["New", "York", "the", "tensor"].map(|word| format!("{space}{word}")) {
            grow(&mut file, &token);
        }
        merge(&mut file, &format!("{space}New"), &format!("{space}York"));
        merge(&mut file, "k", &format!("{space}New"));
        let with = |part: &str, value: &Value, file: &Value| {
            let mut file = file.clone();
            file[part] = value.clone();
            file
        };
        let mut others = vec![file.clone()];
        others.extend(
            words
                .iter()
                .filter(|(bytes, _)| *bytes == spells_bytes)
                .map(|(_, words)| with("pre_tokenizer", words, &with("normalizer", &json!(null), &file))),
        );
        let plain = others.len();
        for other in 0..plain {
            let normals = normals.iter().map(|normal| with("normalizer", normal, &others[other]));
            let normals: Vec<_> = normals.collect();
            others.extend(normals);
        }
        for (at, file) in others.into_iter().enumerate() {
            let mut changed = file.clone();
            for (token, flags) in
                [("New York", at), (" of", at / 2), ("k\n", at / 3), ("  x", at / 5), ("q", 3)]
            {
                add(&mut changed, token, flags % 16);
            }
            let parts = |file: &Value| format!("{name}: {} {}", file["normalizer"], file["pre_tokenizer"]);
            all.push((parts(&file), file));
            all.push((format!("{} with words", parts(&changed)), changed));
        }
    }
    all
}

fn text() -> String {
    let parts = [
        "New York ",
        "New York",
        " New ",
        "York New ",
        "the tensor ",
        " the",
        "tensor",
        " of ",
        "k\n",
        "\n",
        " ",
        "  ",
        "42",
        "1234567 ",
        ", ",
        ".",
        "Größe ",
        "e\u{301}",
        "文字列",
        "，",
        "don't ",
        "Å",
        " Q q ",
        "▁",
        "\t",
    ];
    let mut state = 7u64;
    let mut text = String::new();
    while text.len() < 1500 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let part = (state >> 33) as usize;
        text.push_str(parts[if part.is_multiple_of(3) { part / 3 % 2 } else { part / 3 % parts.len() }]);
    }
    text
}

#[test]
fn a_text_in_pieces_has_the_ids_of_the_whole() {
    let texts = [text(), "New York ".repeat(60), "word by word, and on ".repeat(30)];
    let (mut cut, mut uncut) = (0, 0);
    for (name, file) in tokenizers() {
        let bpe = made(&file, &name);
        for text in &texts {
            let whole = bpe.encode_with(text, SpecialTokens::Found).unwrap();
            let mut long = LongText::with_block(text.as_bytes(), 40);
            let (mut ids, mut pieces) = (Vec::new(), Vec::new());
            while let Some((piece, start)) = long.next(&|text| bpe.last_cut(text)).unwrap() {
                bpe.encode_piece(piece, start, &mut ids).unwrap();
                pieces.push(String::from_utf8(piece.to_vec()).unwrap());
            }
            let differs = whole.iter().zip(&ids).position(|(a, b)| a != b);
            assert_eq!((differs, ids.len()), (None, whole.len()), "{name}: {pieces:?}");
            *if pieces.len() > 5 { &mut cut } else { &mut uncut } += 1;
        }
    }
    // Do not require every text to be cut: some kinds never can, such as those with words of five characters.
    assert!(cut > 1000, "{cut} texts were cut, {uncut} not");
}

/// Tokenizers of published models allow cuts between lines and words.
#[test]
fn common_tokenizers_are_cut() {
    let text = "One word, and 3 more.\nAnother line\twith \"signs\": (a) [b]; it's\n\n文字列、文字。と言う\n"
        .repeat(50);
    for name in NAMES {
        let bpe = open(name);
        for end in (200..text.len()).filter(|end| text.is_char_boundary(*end)).step_by(17) {
            let place = bpe.last_cut(&text.as_bytes()[..end]).unwrap();
            assert!(end - place < 150, "{name}: {:?}", &text[place..end]);
        }
    }
}
