//! Validation of a tokenizer.json before the `tokenizers` crate reads it.
//!
//! In: the JSON. Out: the spelling of bytes, or the first error. Invariant: a valid file is a byte-pair
//! encoding whose merges consist of tokens in the vocabulary, and whose ids are small enough for a table. The
//! crate assumes this and does not return an error for every file that violates it.

use super::TokenizerError;
use super::pieces::Spelling;
use serde_json::{Map, Value};
use std::collections::HashSet;

/// Limit on the number of tokens, ten times the largest known vocabularies.
pub(super) const MOST_TOKENS: u64 = 1 << 22;

/// Limit on the factor by which normalization may lengthen a text. Replacing a space by `▁` makes it three
/// times as long.
const MOST_GROWTH: f64 = 100.0;

/// Limit on the number of steps in each component of a file, ten times that of published ones. Every text
/// passes through all steps.
const MOST_STEPS: usize = 256;

/// Validates a tokenizer.json.
///
/// # Errors
/// Returns an error if the file is malformed or unsupported.
pub(super) fn check(file: &Value, name: &str) -> Result<Spelling, TokenizerError> {
    let unsupported = |what: String| TokenizerError::Unsupported { name: name.to_string(), what };
    let malformed = |reason: String| TokenizerError::Malformed { name: name.to_string(), reason };
    let model = &file["model"];
    match model["type"].as_str() {
        _ if !model.is_object() => {
            return Err(TokenizerError::OtherJson { name: name.to_string() });
        }
        Some(kind) if kind != "BPE" => return Err(unsupported(format!("a model of type {kind}"))),
        _ => {}
    }
    for part in ["continuing_subword_prefix", "end_of_word_suffix"] {
        if model[part].as_str().is_some_and(|text| !text.is_empty()) {
            return Err(unsupported(format!("a model with {part}")));
        }
    }
    let vocabulary =
        model["vocab"].as_object().ok_or_else(|| malformed("`model.vocab` is no object".into()))?;
    check_ids(vocabulary.iter().map(|(token, id)| (token.as_str(), id))).map_err(malformed)?;
    let merges = model["merges"].as_array().ok_or_else(|| malformed("`model.merges` is no list".into()))?;
    check_merges(merges, vocabulary).map_err(malformed)?;
    let added = file["added_tokens"].as_array().map_or(&[][..], Vec::as_slice);
    let named = added.iter().map(|token| (token["content"].as_str().unwrap_or_default(), &token["id"]));
    check_ids(named).map_err(|reason| malformed(format!("added_tokens: {reason}")))?;
    for (part, name) in [
        ("normalizer", "normalizers"),
        ("pre_tokenizer", "pretokenizers"),
        ("post_processor", "processors"),
        ("decoder", "decoders"),
    ] {
        let steps = steps(&file[part], name);
        if steps > MOST_STEPS {
            return Err(malformed(format!("`{part}` has {steps} steps: {MOST_STEPS} is the limit")));
        }
    }
    let growth = growth(&file["normalizer"]);
    if growth > MOST_GROWTH {
        return Err(malformed(format!(
            "its normalizer can make a text {growth:.0} times as long: {MOST_GROWTH:.0} is the limit"
        )));
    }
    Spelling::of(&file["decoder"]).map_err(unsupported)
}

/// Returns the number of steps of a component, including nested sequences.
fn steps(part: &Value, name: &str) -> usize {
    1 + part[name].as_array().into_iter().flatten().map(|step| steps(step, name)).sum::<usize>()
}

/// Estimates the largest factor by which a normalizer lengthens a text.
fn growth(normalizer: &Value) -> f64 {
    let length = |text: &Value| text.as_str().map_or(0, str::len);
    if let Some(steps) = normalizer["normalizers"].as_array() {
        return steps.iter().map(growth).product();
    }
    let (put, replaced) = (length(&normalizer["content"]), length(&normalizer["pattern"]["String"]));
    match normalizer["type"].as_str() {
        Some("Replace") if replaced > 0 => (put as f64 / replaced as f64).max(1.0),
        // Assume that a regular expression matches between any two characters.
        Some("Replace") => put as f64 + 1.0,
        // A prefix is added only once per text, so only a long one counts as growth.
        Some("Prepend") => (length(&normalizer["prepend"]) as f64 / 16.0).max(1.0),
        _ => 1.0,
    }
}

/// Checks the ids that the post-processor adds to a text.
///
/// # Errors
/// Returns an error with the location of the id in the file if an id is not below `tokens`.
pub(super) fn check_processor(processor: &Value, tokens: usize, place: &str) -> Result<(), String> {
    let known = |id: &Value, place: String| match id.as_u64() {
        Some(id) if id < tokens as u64 => Ok(()),
        _ => Err(format!("`{place}` is {id}, which is no token: there are {tokens}")),
    };
    for (at, step) in processor["processors"].as_array().into_iter().flatten().enumerate() {
        check_processor(step, tokens, &format!("{place}.processors[{at}]"))?;
    }
    for (name, token) in processor["special_tokens"].as_object().into_iter().flatten() {
        for (at, id) in token["ids"].as_array().into_iter().flatten().enumerate() {
            known(id, format!("{place}.special_tokens[{name:?}].ids[{at}]"))?;
        }
    }
    for name in ["sep", "cls"].into_iter().filter(|name| processor[name].is_array()) {
        known(&processor[name][1], format!("{place}.{name}[1]"))?;
    }
    Ok(())
}

fn check_ids<'v>(tokens: impl Iterator<Item = (&'v str, &'v Value)>) -> Result<(), String> {
    let mut seen = HashSet::new();
    for (token, id) in tokens {
        match id.as_u64() {
            Some(id) if id >= MOST_TOKENS => {
                return Err(format!("the token {token:?} has the id {id}: {MOST_TOKENS} is the limit"));
            }
            Some(id) if !seen.insert(id) => return Err(format!("two tokens have the id {id}")),
            Some(_) => {}
            None => return Err(format!("the token {token:?} has an id that is no whole number from 0 up")),
        }
    }
    Ok(())
}

fn check_merges(merges: &[Value], vocabulary: &Map<String, Value>) -> Result<(), String> {
    for (at, merge) in merges.iter().enumerate() {
        let (left, right) = match (merge.as_str(), merge.as_array().map(Vec::as_slice)) {
            (Some(line), _) if line.starts_with("#version") => continue,
            (Some(line), _) => line.split_once(' '),
            (_, Some([left, right])) => left.as_str().zip(right.as_str()),
            _ => None,
        }
        .ok_or_else(|| format!("merge {at} is no pair of tokens"))?;
        for token in [left, right, &format!("{left}{right}")] {
            if !vocabulary.contains_key(token) {
                return Err(format!("merge {at} needs the token {token:?}, which the vocabulary lacks"));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn wrong(change: impl FnOnce(&mut Value)) -> String {
        let mut file = json!({
            "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": [["a", "b"]]},
            "added_tokens": [{"id": 3, "content": "<s>"}],
            "decoder": {"type": "ByteLevel"},
        });
        assert_eq!(check(&file, "t").unwrap(), Spelling::Bytes);
        change(&mut file);
        check(&file, "t").unwrap_err().to_string()
    }

    #[test]
    fn what_is_wrong_is_named() {
        assert_eq!(wrong(|file| file["model"] = json!(1)), "t: it has no `model`: it is no tokenizer.json");
        let unigram = wrong(|file| file["model"]["type"] = json!("Unigram"));
        assert_eq!(unigram, "t: a model of type Unigram is not supported");
        let suffix = wrong(|file| file["model"]["end_of_word_suffix"] = json!("</w>"));
        assert_eq!(suffix, "t: a model with end_of_word_suffix is not supported");
        assert_eq!(wrong(|file| file["model"]["vocab"] = json!([])), "t: `model.vocab` is no object");
        assert_eq!(wrong(|file| file["model"]["merges"] = json!({})), "t: `model.merges` is no list");
        let beyond = wrong(|file| file["model"]["vocab"]["x"] = json!(1u64 << 40));
        assert_eq!(beyond, "t: the token \"x\" has the id 1099511627776: 4194304 is the limit");
        for id in [json!(-1), json!(1.5), json!("1"), json!(null)] {
            let odd = wrong(|file| file["model"]["vocab"]["x"] = id);
            assert_eq!(odd, "t: the token \"x\" has an id that is no whole number from 0 up");
        }
        assert_eq!(wrong(|file| file["model"]["vocab"]["x"] = json!(2)), "t: two tokens have the id 2");
        for merge in [json!("ab"), json!(["a"]), json!(["a", "b", "b"]), json!([1, 2]), json!(null)] {
            assert_eq!(
                wrong(|file| file["model"]["merges"] = json!([merge])),
                "t: merge 0 is no pair of tokens"
            );
        }
        let longer = wrong(|file| file["model"]["merges"] = json!([["a", "b"], "ab b"]));
        assert_eq!(longer, "t: merge 1 needs the token \"abb\", which the vocabulary lacks");
        let step = json!({"type": "Sequence", "normalizers": vec![json!({"type": "NFC"}); 130]});
        let steps =
            wrong(|file| file["normalizer"] = json!({"type": "Sequence", "normalizers": [step, step]}));
        assert_eq!(steps, "t: `normalizer` has 263 steps: 256 is the limit");
        let added = wrong(|file| file["added_tokens"][0]["id"] = json!(null));
        assert!(added.starts_with("t: added_tokens: the token \"<s>\" has an id"), "{added}");
        assert_eq!(
            wrong(|file| file["decoder"] = json!(null)),
            "t: a file without a decoder is not supported"
        );
    }
}
