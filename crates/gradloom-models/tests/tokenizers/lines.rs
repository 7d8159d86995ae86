//! Tests with 10,000 lines of mixed text.

use crate::{NAMES, json, open};
use gradloom_models::data::{Bpe, SpecialTokens, Tokenizer};
use gradloom_models::decoding::TextStream;
use serde_json::Value;
use sha2::{Digest, Sha256};

/// Returns the oracle script's lines: fragments and runs of characters, chosen by a linear congruential
/// generator.
pub(crate) fn lines(count: usize) -> Vec<String> {
    let parts = json("fragments.json");
    let list = |name: &str| parts[name].as_array().expect("a list");
    let fragments: Vec<&str> = list("fragments").iter().map(|part| part.as_str().expect("text")).collect();
    let number = |value: &Value| value.as_u64().expect("a number");
    let ranges: Vec<_> = list("ranges").iter().map(|range| (number(&range[0]), number(&range[1]))).collect();
    let mut state = 1u64;
    let mut below = |n: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % n
    };
    let line = |_| {
        let mut line = String::new();
        for _ in 0..below(13) {
            if below(4) > 0 {
                line.push_str(fragments[below(fragments.len())]);
                continue;
            }
            let (first, span) = ranges[below(ranges.len())];
            let count = 1 + below(6);
            let character =
                |_| char::from_u32(first as u32 + below(span as usize) as u32).expect("a character");
            line.extend((0..count).map(character));
        }
        line
    };
    (0..count).map(line).collect()
}

/// Returns the oracle script's digest of every hundred rows.
fn digests(rows: &[Vec<u8>]) -> Vec<String> {
    let of = |block: &[Vec<u8>]| {
        let hash = Sha256::digest(block.concat());
        hash.iter().take(6).map(|byte| format!("{byte:02x}")).collect()
    };
    rows.chunks(100).map(of).collect()
}

#[track_caller]
fn assert_digests(rows: &[Vec<u8>], expected: &Value, what: &str) {
    let found = digests(rows);
    let expected = expected.as_array().expect("a list");
    assert_eq!((found.len(), expected.len()), (100, 100), "{what}");
    let different: Vec<usize> = (0..100).filter(|&at| expected[at] != *found[at]).collect();
    assert!(different.is_empty(), "{what}: the ids differ in the hundreds {different:?} of lines");
}

fn row(ids: &[i32]) -> Vec<u8> {
    ids.iter().chain(&[-1]).flat_map(|id| id.to_le_bytes()).collect()
}

#[test]
fn ids_are_those_of_the_package() {
    let (lines, expected) = (lines(10_000), json("digests.json"));
    for name in NAMES {
        let tokenizer = open(name);
        let modes =
            [("found", SpecialTokens::Found), ("added", SpecialTokens::Added), ("text", SpecialTokens::Text)];
        for (mode, special) in modes {
            let rows: Vec<_> =
                lines.iter().map(|line| row(&tokenizer.encode_with(line, special).unwrap())).collect();
            assert_digests(&rows, &expected[name][mode], &format!("{name}, {mode}"));
        }
        let decoded = |line: &String| {
            let mut text = tokenizer.decode_all(&tokenizer.encode(line.as_bytes()).unwrap());
            text.push(0xff);
            text
        };
        let rows: Vec<_> = lines.iter().map(decoded).collect();
        assert_digests(&rows, &expected[name]["decoded"], &format!("{name}, decoded"));
    }
}

/// Returns the text of tokens decoded one by one.
fn streamed(tokenizer: &Bpe, ids: &[i32]) -> String {
    let mut stream = TextStream::new(tokenizer);
    let mut text: String = ids.iter().map(|&id| stream.push(id)).collect();
    text.push_str(&stream.finish());
    text
}

#[test]
fn text_that_is_written_token_by_token_is_that_of_all_tokens() {
    for name in NAMES {
        let tokenizer = open(name);
        for line in lines(1000) {
            let ids = tokenizer.encode(line.as_bytes()).unwrap();
            let whole = String::from_utf8_lossy(&tokenizer.decode_all(&ids)).into_owned();
            assert_eq!(streamed(&tokenizer, &ids), whole, "{name}");
            // Omit every other token, so that many characters are incomplete.
            let half: Vec<i32> = ids.into_iter().step_by(2).collect();
            let whole = String::from_utf8_lossy(&tokenizer.decode_all(&half)).into_owned();
            assert_eq!(streamed(&tokenizer, &half), whole, "{name}");
        }
        assert_eq!(streamed(&tokenizer, &[]), "");
        assert_eq!(streamed(&tokenizer, &[-1, i32::MAX]), "");
    }
}

#[test]
fn a_long_text_in_pieces_has_the_ids_of_the_whole() {
    // The fragments alone have too few word boundaries, so prose is inserted between the lines.
    let text: String = lines(400)
        .iter()
        .map(|line| format!("{line} compile 7 tensors and\nthe gradient of them. "))
        .collect();
    let long = text.repeat(6);
    for name in NAMES {
        let tokenizer = open(name);
        let whole = tokenizer.encode_with(&long, SpecialTokens::Found).unwrap();
        let pieces = tokenizer.encode(long.as_bytes()).unwrap();
        let differs = whole.iter().zip(&pieces).position(|(a, b)| a != b);
        assert_eq!((differs, whole.len()), (None, pieces.len()), "{name}: of {} bytes", long.len());
    }
}
