//! Features that the `tokenizers` crate does not have: tokenizers in several files, lists in memory, special
//! tokens, and training.

use crate::lines::lines;
use crate::{NAMES, data, json, open};
use gradloom_models::data::{Bpe, Bytes, Roles, SpecialTokens, Tokenizer, TokenizerError, Vocabulary};
use serde_json::Value;
use std::fs;

/// Returns the lists that correspond to a tokenizer.json.
fn vocabulary(file: &Value) -> Vocabulary {
    let model = file["model"]["vocab"].as_object().unwrap();
    let added = file["added_tokens"].as_array().unwrap();
    let named = added.iter().map(|token| (token["content"].as_str().unwrap(), &token["id"]));
    let all = model.iter().map(|(token, id)| (token.as_str(), id)).chain(named);
    let mut all: Vec<(u64, &str)> = all.map(|(token, id)| (id.as_u64().unwrap(), token)).collect();
    all.sort_unstable();
    all.dedup();
    let pair = |merge: &Value| format!("{} {}", merge[0].as_str().unwrap(), merge[1].as_str().unwrap());
    Vocabulary {
        tokens: all.iter().map(|(_, token)| token.to_string()).collect(),
        merges: file["model"]["merges"].as_array().unwrap().iter().map(pair).collect(),
        special: added.iter().map(|token| token["id"].as_i64().unwrap() as i32).collect(),
        begins_with_bos: true,
        ..Vocabulary::default()
    }
}

fn assert_same(a: &Bpe, b: &Bpe) {
    assert_eq!(a.vocabulary(), b.vocabulary());
    for line in lines(1000) {
        for special in [SpecialTokens::Added, SpecialTokens::Found, SpecialTokens::Text] {
            assert_eq!(
                a.encode_with(&line, special).unwrap(),
                b.encode_with(&line, special).unwrap(),
                "{line:?}"
            );
        }
    }
}

#[test]
fn lists_in_memory_make_the_tokenizer_of_the_file() {
    let file = json("llama3/tokenizer.json");
    let words = file["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"].as_str().unwrap();
    let lists = Vocabulary {
        words: vec![words.to_string()],
        whole_words: true,
        roles: Roles { bos: Some("<|begin_of_text|>".into()), ..Roles::default() },
        ..vocabulary(&file)
    };
    assert_same(&Bpe::from_vocabulary(&lists, "lists").unwrap(), &open("llama3"));
}

/// If scores decrease in merge order, they determine the same merges.
#[test]
fn scores_make_merges() {
    let file = json("llama2/tokenizer.json");
    let lists = vocabulary(&file);
    let scores = (0..lists.tokens.len()).map(|id| -(id as f32)).collect();
    let roles = Roles { bos: Some("<s>".into()), unk: Some("<unk>".into()), ..Roles::default() };
    let lists = Vocabulary { merges: Vec::new(), scores, roles, ..lists };
    let tokenizer = Bpe::from_vocabulary(&lists, "lists").unwrap();
    assert!(tokenizer.adds_a_space());
    assert_same(&tokenizer, &open("llama2"));
}

#[test]
fn lists_that_do_not_fit_are_refused() {
    let good = Vocabulary {
        tokens: ["a", "b", "ab"].map(String::from).to_vec(),
        merges: vec!["a b".to_string()],
        ..Vocabulary::default()
    };
    let wrong = |change: fn(&mut Vocabulary)| {
        let mut lists = good.clone();
        change(&mut lists);
        Bpe::from_vocabulary(&lists, "lists").unwrap_err().to_string()
    };
    assert_eq!(Bpe::from_vocabulary(&good, "lists").unwrap().encode(b"aba").unwrap(), [2, 0]);
    assert_eq!(wrong(|lists| lists.special.push(3)), "lists: there is no token 3");
    assert_eq!(wrong(|lists| lists.added.push(-1)), "lists: there is no token -1");
    assert_eq!(wrong(|lists| lists.scores.push(0.0)), "lists: it has 3 tokens and 1 scores");
    assert_eq!(
        wrong(|lists| lists.begins_with_bos = true),
        "lists: there is no token \"\" to begin a text with"
    );
    assert!(wrong(|lists| lists.merges.push("b b".into())).contains("merge 1 needs the token \"bb\""));
    assert!(wrong(|lists| lists.words.push("(".into())).starts_with("lists: "));
}

#[test]
fn special_tokens_have_roles() {
    let names = NAMES.map(|name| {
        let tokenizer = open(name);
        let end = tokenizer.end_of_text().expect("a token that ends a text");
        assert!(tokenizer.is_special(end) && !tokenizer.is_special(-1) && !tokenizer.is_special(i32::MAX));
        assert_eq!(tokenizer.id(&tokenizer.token(end).unwrap()), Some(end));
        let word = tokenizer.encode(b"the").unwrap();
        assert!(word.iter().all(|&id| !tokenizer.is_special(id)));
        tokenizer.token(end).unwrap()
    });
    assert_eq!(names, ["<|endoftext|>", "<|end_of_text|>", "</s>"]);
    let llama = open("llama2");
    assert_eq!(llama.encode_with("</s>", SpecialTokens::Added).unwrap(), [1, 2]);
    assert_eq!(llama.encode(b"</s>").unwrap(), [2]);
    assert!(!llama.encode_with("</s>", SpecialTokens::Text).unwrap().contains(&2));
    assert_eq!(llama.roles().unk.as_deref(), Some("<unk>"));
}

#[test]
fn broken_text_has_tokens_where_bytes_have() {
    let bytes = b"a\xff \xe6\x96 the\x80";
    for name in ["gpt2", "llama3"] {
        let tokenizer = open(name);
        assert_eq!(tokenizer.decode_all(&tokenizer.encode(bytes).unwrap()), bytes);
    }
    let error = open("llama2").encode(bytes).unwrap_err();
    assert!(
        error.to_string().ends_with("the byte 0xff at offset 1 of the text, which is not UTF-8"),
        "{error}"
    );
    assert_eq!(error.remedy(), "convert the text to UTF-8");
    let late = [b"the word ".repeat(20_000), b"\xff".to_vec()].concat();
    let error = open("llama2").encode(&late).unwrap_err();
    assert!(error.to_string().contains("at offset 180000 of the text"), "{error}");
}

#[test]
fn what_is_written_is_read_as_the_same() {
    for name in NAMES {
        let tokenizer = open(name);
        let again = Bpe::from_json(tokenizer.to_json().as_bytes(), "again").unwrap();
        assert_same(&tokenizer, &again);
        assert_eq!(tokenizer.fingerprint(), again.fingerprint());
    }
    assert_ne!(open("gpt2").fingerprint(), open("llama3").fingerprint());
}

#[test]
fn a_saved_folder_has_the_roles_too() {
    let folder = tempfile::tempdir().unwrap();
    for name in NAMES {
        let roles = Roles { chat_template: Some("{{ messages }}".into()), ..open(name).roles().clone() };
        let tokenizer = open(name).with_roles(roles);
        tokenizer.save(folder.path()).unwrap();
        let again = Bpe::open(folder.path()).unwrap();
        let without_config = |roles: &Roles| Roles { config: serde_json::Map::new(), ..roles.clone() };
        assert_eq!(without_config(again.roles()), without_config(tokenizer.roles()));
        assert_same(&tokenizer, &again);
    }
}

/// Checks that dropout, truncation and padding, which would change the text, are ignored.
#[test]
fn what_changes_a_text_is_left_out() {
    let mut file = json("llama3/tokenizer.json");
    file["model"]["dropout"] = 0.9.into();
    file["truncation"] =
        serde_json::json!({"direction": "Right", "max_length": 2, "strategy": "LongestFirst", "stride": 0});
    file["padding"] = serde_json::json!({"strategy": {"Fixed": 64}, "direction": "Right", 
        "pad_to_multiple_of": null, "pad_id": 0, "pad_type_id": 0, "pad_token": "!"});
    assert_same(&Bpe::from_json(file.to_string().as_bytes(), "changed").unwrap(), &open("llama3"));
}

/// Bytes that do not form whole characters, as a model may produce them, are decoded unchanged.
#[test]
fn tokens_of_bytes_make_characters_together() {
    let tokenizer = open("llama2");
    let byte = |byte: u8| tokenizer.id(&format!("<0x{byte:02X}>")).unwrap();
    let the = tokenizer.encode(b"a").unwrap();
    let ids = [&the[..], &[byte(0xe6), byte(0x96), byte(0x87), byte(0xe6), byte(0x96)], &the].concat();
    assert_eq!(String::from_utf8_lossy(&tokenizer.decode_all(&ids)), "a文\u{fffd} a");
}

#[test]
fn folders_without_a_tokenizer_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let message = |path: &std::path::Path| {
        let error = Bpe::open(path).unwrap_err();
        error.to_string().replace(folder.path().to_str().unwrap(), "DIR")
    };
    assert_eq!(message(folder.path()), "DIR: no tokenizer in this folder");
    assert_eq!(message(&folder.path().join("none.json")), "DIR/none.json: no such file or folder");
    fs::copy(data("gpt2/vocab.json"), folder.path().join("vocab.json")).unwrap();
    assert_eq!(message(folder.path()), "DIR: no tokenizer in this folder");
    for (merges, expected) in [
        ("#version: 0.2\na\n", "DIR/vocab.json: merge 0 is no pair of tokens"),
        ("zz z\n", "DIR/vocab.json: merge 0 needs the token \"zz\", which the vocabulary lacks"),
    ] {
        fs::write(folder.path().join("merges.txt"), merges).unwrap();
        assert_eq!(message(folder.path()), expected);
    }
    fs::write(folder.path().join("vocab.json"), "[1]").unwrap();
    assert!(message(folder.path()).starts_with("DIR/vocab.json: it is no JSON object"));
}

#[test]
fn a_trained_tokenizer_depends_on_the_text_alone() {
    let text = lines(2000).join("\n") + "\nthe tensor and the tensor \u{fffd}\n";
    let trained = |vocabulary| Bpe::train(text.as_bytes(), vocabulary, "trained").unwrap();
    let (a, b) = (trained(600), trained(600));
    assert_eq!(a.to_json(), b.to_json());
    assert_eq!(a.vocabulary(), 600);
    assert_eq!(a.end_of_text(), Some(0));
    let ids = a.encode(text.as_bytes()).unwrap();
    assert_eq!(a.decode_all(&ids), text.as_bytes());
    assert!(ids.len() * 4 < text.len() * 3, "{} tokens of {} bytes", ids.len(), text.len());
    assert_same(&a, &Bpe::from_json(a.to_json().as_bytes(), "again").unwrap());
    // No pair occurs twice in such a short text.
    let bytes = Bpe::train(b"ab", 1000, "trained").unwrap();
    assert_eq!(bytes.vocabulary(), 257);
    assert_eq!(bytes.decode_all(&bytes.encode(b"\xff\x00z").unwrap()), b"\xff\x00z");
    assert_eq!(Bpe::train(b"", 257, "trained").unwrap().vocabulary(), 257);
    for size in [0, 256, 1 << 23] {
        let error = Bpe::train(text.as_bytes(), size, "trained").unwrap_err();
        assert!(matches!(error, TokenizerError::Size { .. }), "{error}");
    }
}

/// A prompt has the same tokens as in transformers by default.
#[test]
fn prompts_begin_with_the_token_that_the_tokenizer_adds() {
    for name in NAMES {
        let tokenizer = open(name);
        let text = "hello, world";
        let added = tokenizer.encode_with(text, SpecialTokens::Added).unwrap();
        assert_eq!(tokenizer.prompt(text.as_bytes()).unwrap(), added, "{name}");
        let empty = tokenizer.prompt(b"").unwrap();
        match tokenizer.beginning() {
            Some(first) => assert_eq!((empty, name == "gpt2"), (vec![first], false)),
            None => assert_eq!((empty, name), (tokenizer.encode(b"\n").unwrap(), "gpt2")),
        }
    }
    assert_eq!(Bytes.prompt(b"").unwrap(), [10]);
    assert_eq!(Bytes.prompt(b"ab").unwrap(), [97, 98]);
}
