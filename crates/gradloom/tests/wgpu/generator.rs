//! Tests concurrent requests to one generator on a GPU: each has the same result as alone.

#[path = "../../../gradloom-models/tests/generator/crowd.rs"]
mod crowd;

use crate::{device, skipped};

fn gets_what_it_gets_alone(name: &str, seed: u64) {
    if !skipped() {
        let totals = crowd::crowd(name, &device(), seed, None);
        assert!(totals.found > 500 && totals.preempted > 0, "the case is too easy: {totals:?}");
        let totals = crowd::crowd(name, &device(), seed, Some(true));
        assert!(totals.preempted > 0 && totals.ahead > 10, "the case is too easy: {totals:?}");
    }
}

#[test]
fn requests_to_a_gpt2() {
    gets_what_it_gets_alone("gpt2", 3);
}

#[test]
fn requests_to_a_llama() {
    gets_what_it_gets_alone("llama", 6);
}

#[test]
fn texts_are_those_of_transformers_over_200_tokens() {
    if !skipped() {
        ["gpt2", "llama"].into_iter().for_each(|name| crowd::transformers_text(name, &device(), None));
    }
}
