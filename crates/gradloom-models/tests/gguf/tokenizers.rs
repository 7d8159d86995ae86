//! Tokenizers in GGUF files.

use crate::builder::{Builder, array};
use crate::data;
use gradloom_models::data::{SpecialTokens, Tokenizer};
use gradloom_models::gguf::Gguf;
use gradloom_models::hugging_face::Folder;

fn open(name: &str) -> Gguf {
    Gguf::open(data(name)).unwrap()
}

#[test]
fn merges_of_bytes_are_applied() {
    let tokenizer = open("gpt2.gguf").tokenizer().unwrap();
    assert_eq!(tokenizer.vocabulary(), 40);
    let ids = tokenizer.encode(b"the and<|endoftext|>ab").unwrap();
    let pieces: Vec<String> = ids.iter().map(|&id| tokenizer.token(id).unwrap()).collect();
    assert_eq!(pieces, ["the", "Ġand", "<|endoftext|>", "a", "b"]);
    assert_eq!(tokenizer.decode_all(&ids), b"the and<|endoftext|>ab");
    assert_eq!(tokenizer.end_of_text(), Some(39));
    assert!(tokenizer.is_special(39) && !tokenizer.is_special(0));
    // The file does not specify a BOS token, and GPT-2 has none by default.
    assert_eq!(tokenizer.encode_with("the", SpecialTokens::Added).unwrap().len(), 1);
    assert_eq!(Folder::open_gguf(data("gpt2.gguf")).unwrap().config().vocabulary(), 40);
}

#[test]
fn pieces_with_scores_are_merged_and_nothing_is_put_before_them() {
    let tokenizer = open("llama.gguf").tokenizer().unwrap();
    let ids = tokenizer.encode_with("x16 \n", SpecialTokens::Added).unwrap();
    // The first token is BOS, the second an added token that is recognized before words are split, the last a
    // byte.
    assert_eq!(ids, [1, 47, 4, 3]);
    assert_eq!(tokenizer.decode_all(&ids[1..]), b"x16 \n");
    assert!(!tokenizer.adds_a_space());
    assert_eq!((tokenizer.end_of_text(), tokenizer.roles().unk.as_deref()), (Some(2), Some("<unk>")));
    assert!(tokenizer.roles().chat_template.is_some());
}

/// Returns a file with letters, digits, punctuation and a few merges.
fn lists(pre: Option<&str>) -> Builder {
    let letters =
        ["a", "b", "1", "2", "3", "4", ".", "Ġ", "'", "s", "B", "12", "123", "ab", "Ġa", "'s", "aB"];
    let file = Builder::new()
        .string("tokenizer.ggml.model", "gpt2")
        .strings("tokenizer.ggml.tokens", &letters)
        .strings("tokenizer.ggml.merges", &["1 2", "12 3", "a b", "Ġ a", "' s", "a B"]);
    pre.map_or(file.clone(), |pre| file.string("tokenizer.ggml.pre", pre))
}

fn pieces(file: &Builder, text: &str) -> Vec<String> {
    let tokenizer = Gguf::from_bytes(file.build()).unwrap().tokenizer().unwrap();
    let ids = tokenizer.encode(text.as_bytes()).unwrap();
    assert_eq!(tokenizer.decode_all(&ids), text.as_bytes());
    ids.iter().map(|&id| tokenizer.token(id).unwrap()).collect()
}

#[test]
fn text_is_split_as_the_name_says() {
    for (pre, text, want) in [
        // GPT-2 keeps numbers whole; others split them into digits or groups of three.
        (Some("gpt-2"), "ab 1234", &["ab", "Ġ", "123", "4"][..]),
        (Some("llama-bpe"), "ab1234", &["ab", "123", "4"]),
        (Some("smaug-bpe"), "ab1234", &["ab", "123", "4"]),
        (Some("qwen2"), "ab1234", &["ab", "1", "2", "3", "4"]),
        (Some("starcoder"), "ab1234", &["ab", "1", "2", "3", "4"]),
        // The default pattern separates punctuation, including the apostrophe of a contraction.
        (None, "a's 1234", &["a", "'", "s", "Ġ", "123", "4"]),
        (Some("default"), "a's", &["a", "'", "s"]),
        (Some("falcon"), "a's", &["a", "'", "s"]),
        (Some("gpt-2"), "a's", &["a", "'s"]),
        // Tekken and GPT-4o split before capital letters; GPT-4o keeps contractions with their words.
        (Some("tekken"), "aB", &["a", "B"]),
        (Some("gpt-4o"), "aB", &["a", "B"]),
        (Some("llama4"), "ab1234", &["ab", "123", "4"]),
        (Some("pixtral"), "ab1234", &["ab", "123", "4"]),
        (Some("qwen2"), "aB", &["aB"]),
    ] {
        assert_eq!(pieces(&lists(pre), text), want, "{pre:?}: {text}");
    }
}

#[test]
fn what_is_not_known_is_named() {
    let message = |file: Builder| {
        let error = Gguf::from_bytes(file.build()).unwrap().tokenizer().unwrap_err();
        assert!(error.remedies().next().is_some(), "{error}");
        error.message().to_string()
    };
    let other = message(lists(Some("klingon")));
    assert!(other.ends_with("`tokenizer.ggml.pre` is \"klingon\", which is not known"), "{other}");
    let kind = message(
        Builder::new().string("tokenizer.ggml.model", "bert").strings("tokenizer.ggml.tokens", &["a"]),
    );
    assert!(kind.contains("`tokenizer.ggml.model` is \"bert\""), "{kind}");
    let llama =
        Builder::new().string("tokenizer.ggml.model", "llama").strings("tokenizer.ggml.tokens", &["a"]);
    assert!(message(llama.clone()).contains("no `tokenizer.ggml.scores`"));
    let scores = array(6, &[0.5f32.to_le_bytes().to_vec()]);
    let sound = Gguf::from_bytes(llama.entry("tokenizer.ggml.scores", 9, &scores).build()).unwrap();
    assert!(sound.has_tokenizer() && sound.tokenizer().is_ok());
    assert!(!Gguf::from_bytes(Builder::new().build()).unwrap().has_tokenizer());
    let lacking = lists(Some("gpt-2")).strings("tokenizer.ggml.merges", &["x y"]);
    assert!(Gguf::from_bytes(lacking.build()).is_err(), "a key that comes twice");
}

/// Encoding produces the last of several equal tokens; each is decoded to its own text.
#[test]
fn equal_tokens_are_read() {
    for scores in [false, true] {
        let types: Vec<Vec<u8>> = [3i32, 1, 3, 0, 1, 1].iter().map(|ty| ty.to_le_bytes().to_vec()).collect();
        let numbers: Vec<Vec<u8>> = (0..6).map(|id| (-id as f32).to_le_bytes().to_vec()).collect();
        let builder = Builder::new()
            .string("tokenizer.ggml.model", if scores { "llama" } else { "gpt2" })
            .string("tokenizer.ggml.pre", "gpt-2")
            .strings("tokenizer.ggml.tokens", &["<s>", "a", "<s>", "a", "b", "ab"])
            .strings("tokenizer.ggml.merges", &["a b"])
            .entry("tokenizer.ggml.token_type", 9, &array(5, &types))
            .u32("tokenizer.ggml.padding_token_id", u32::MAX)
            .u32("tokenizer.ggml.eos_token_id", 0);
        let builder =
            if scores { builder.entry("tokenizer.ggml.scores", 9, &array(6, &numbers)) } else { builder };
        let tokenizer = Gguf::from_bytes(builder.build()).unwrap().tokenizer().unwrap();
        assert_eq!(tokenizer.vocabulary(), 6);
        let ids = tokenizer.encode_with("a<s>ab", SpecialTokens::Found).unwrap();
        assert_eq!(ids[ids.len() - 3..], [3, 2, 5], "{ids:?}");
        assert_eq!(tokenizer.decode_all(&[0, 1, 4]), b"<s>ab");
        assert!(tokenizer.is_special(2));
    }
}
