//! Files from llama.cpp's converter, compared with the models that they were converted from.

use crate::data;
use gradloom_models::gguf::Gguf;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;

/// Returns a file, and Hugging Face's data of the same model.
fn model(name: &str) -> (Gguf, Value) {
    let reference = std::fs::read_to_string(data(&format!("{name}.json"))).unwrap();
    (Gguf::open(data(&format!("{name}.gguf"))).unwrap(), serde_json::from_str(&reference).unwrap())
}

#[test]
fn weights_are_those_of_hugging_face() {
    for name in ["gpt2", "llama"] {
        let (file, reference) = model(name);
        let weights = file.weights().unwrap();
        assert_eq!(weights.name(), file.name());
        let expected = reference["tensors"].as_object().unwrap();
        let names: BTreeSet<_> = weights.iter().map(|(name, _)| name).collect();
        assert_eq!(names, expected.keys().map(String::as_str).collect());
        for (tensor, expected) in expected {
            let found = weights.get(tensor).unwrap();
            let shape: Vec<usize> = serde_json::from_value(expected[1].clone()).unwrap();
            assert_eq!(found.to_string(), format!("{}{shape:?}", expected[0].as_str().unwrap()), "{tensor}");
            let bytes: Vec<u8> = found.to_f32().unwrap().iter().flat_map(|x| x.to_le_bytes()).collect();
            let digest: String = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
            assert_eq!(digest, expected[2], "{tensor} has other elements");
        }
    }
}

#[test]
fn configurations_are_those_of_hugging_face() {
    let (file, reference) = model("gpt2");
    let config = file.hugging_face_config().unwrap();
    let fields = config.as_object().unwrap();
    assert_eq!(fields.len(), 13);
    for (field, found) in fields.iter().filter(|(field, _)| *field != "architectures") {
        assert_eq!(*found, reference["config"][field], "{field}");
    }

    let (file, reference) = model("llama");
    let mut config = file.hugging_face_config().unwrap();
    // Compare the two rotary fields with `rope_parameters`, in which transformers 5 combines them.
    let mut rope = reference["config"]["rope_parameters"].clone();
    let fields = config.as_object_mut().unwrap();
    assert_eq!(fields.remove("rope_theta"), rope.as_object_mut().unwrap().remove("rope_theta"));
    assert_eq!(fields.remove("rope_scaling"), Some(rope));
    assert_eq!(fields.remove("architectures"), Some(json!(["LlamaForCausalLM"])));
    assert_eq!(fields.len(), 16);
    for (field, found) in &*fields {
        assert_eq!(*found, reference["config"][field], "{field}");
    }
}

#[test]
fn merges_of_bytes() {
    let vocabulary = model("gpt2").0.vocabulary().unwrap();
    assert_eq!(vocabulary.tokens.len(), 40);
    assert_eq!((&*vocabulary.tokens[26], &*vocabulary.tokens[39]), ("Ġ", "<|endoftext|>"));
    assert_eq!(vocabulary.merges[..3], ["t h", "th e", "Ġ the"]);
    assert_eq!((&vocabulary.special[..], &vocabulary.added[..]), (&[39][..], &[][..]));
    let roles = vocabulary.roles;
    let end = Some("<|endoftext|>");
    assert_eq!((roles.bos.as_deref(), roles.eos.as_deref(), roles.unk), (end, end, None));
    assert!(vocabulary.words.is_empty() && !vocabulary.whole_words, "GPT-2's pattern");
    assert_eq!((vocabulary.scores.len(), vocabulary.begins_with_bos, roles.chat_template), (0, false, None));
}

#[test]
fn pieces_with_scores() {
    let vocabulary = model("llama").0.vocabulary().unwrap();
    assert_eq!(vocabulary.tokens[..6], ["<unk>", "<s>", "</s>", "<0x0A>", "▁", "▁a"]);
    assert_eq!((vocabulary.scores.len(), vocabulary.scores[47]), (48, -47.0));
    assert_eq!((&vocabulary.special[..], &vocabulary.added[..]), (&[0, 1, 2][..], &[47][..]));
    let roles = vocabulary.roles;
    let named = [roles.bos, roles.eos, roles.unk].map(Option::unwrap);
    assert_eq!(named, ["<s>", "</s>", "<unk>"]);
    assert!(vocabulary.begins_with_bos && vocabulary.starts_plain);
    let template = roles.chat_template.unwrap();
    assert!(template.starts_with("{% for m in messages %}"), "{template}");
}
