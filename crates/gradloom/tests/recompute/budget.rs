//! Tests `Trainer::memory_budget`, with which the compiler chooses the values to recompute.

use super::{assert_same_meaning, count, gpt, long_trainer, run, trainer};
use gradloom::ErrorKind;
use gradloom::plan::report::human_bytes;
use gradloom::prelude::*;

/// Returns the peak memory of the plan, and the number of products and attentions in a step.
fn cost(train: &Train<gradloom_models::gpt2::Gpt2, 2>) -> (u64, usize) {
    let graph = &train.stages().passes;
    (train.plan().totals.peak(), count(graph, "dot") + count(graph, "attention"))
}

/// Returns the smallest budget, from the error for an impossible one.
fn least(error: &Error) -> u64 {
    let words = error.message().split("needs ").nth(1).expect("it says how much is needed");
    words.split(' ').next().unwrap().parse().unwrap()
}

#[test]
fn training_has_the_same_bits_within_a_budget() {
    let kept = trainer(gpt(3)).compile(&Device::cpu()).unwrap();
    let peak = kept.plan().totals.peak();
    let refused = trainer(gpt(3)).memory_budget(1).compile(&Device::cpu()).unwrap_err();
    let least = least(&refused);
    assert!(least < peak, "{least} of {peak} bytes");
    let expected = run(kept);
    for budget in [least, (least + peak) / 2, peak - 1] {
        let train = trainer(gpt(3)).memory_budget(budget).compile(&Device::cpu()).unwrap();
        assert!(train.plan().totals.peak() <= budget);
        assert!(count(&train.stages().passes, "barrier") > 0);
        assert_eq!(run(train), expected, "budget {budget}");
    }
}

#[test]
fn what_is_cheap_is_given_up_before_products() {
    const LAYERS: usize = 6;
    let (peak, products) = cost(&long_trainer(gpt(LAYERS)).compile(&Device::null()).unwrap());
    let within = |share: f64| {
        let budget = (peak as f64 * share) as u64;
        let train = long_trainer(gpt(LAYERS)).memory_budget(budget).compile(&Device::null()).unwrap();
        let (peak, products) = cost(&train);
        assert!(peak <= budget, "{peak} bytes of {budget}");
        products
    };
    assert_eq!(within(0.95), products);
    assert_eq!(within(0.8), products);
    assert!(within(0.4) > products);
}

#[test]
fn a_budget_that_is_large_enough_changes_nothing() {
    let kept = trainer(gpt(2)).compile(&Device::null()).unwrap();
    let budget = kept.plan().totals.peak();
    let train = trainer(gpt(2)).memory_budget(budget).compile(&Device::null()).unwrap();
    assert_eq!(train.stages().passes.to_string(), kept.stages().passes.to_string());
    assert_eq!(train.stages().reports.last().unwrap().name, "remat");
}

#[test]
fn an_impossible_budget_is_refused() {
    let refused = trainer(gpt(2)).memory_budget(1000).compile(&Device::null()).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Plan);
    let least = least(&refused);
    let text = refused.to_string();
    for part in [
        format!(
            "the step needs {least} bytes ({}) of memory, the least that was found by computing values again; \
             the budget is 1000 bytes (1.0 kB)",
            human_bytes(least)
        ),
        "parameters and states take ".to_string(),
        " takes ".to_string(),
        format!("allow {least} bytes, or make the batch, the context or the model smaller"),
    ] {
        assert!(text.contains(&part), "{text}");
    }
    let train = trainer(gpt(2)).memory_budget(least).compile(&Device::null()).unwrap();
    assert!(train.plan().totals.peak() <= least);
    // If several values are named, the largest is first.
    let size = |line: &str| -> Option<f64> {
        let (number, unit) = line.split(" takes ").nth(1)?.split_once(' ')?;
        let factor = ["B", "kB", "MB"].into_iter().zip([1.0, 1e3, 1e6]).find(|(name, _)| *name == unit)?.1;
        Some(number.parse::<f64>().ok()? * factor)
    };
    let sizes: Vec<f64> = text.lines().filter_map(size).collect();
    assert!(sizes.len() == 5 && sizes.is_sorted_by(|a, b| a >= b), "{text}");
}

#[test]
fn segments_and_a_budget_go_together() {
    let again = trainer(gpt(4).checkpoint_blocks()).compile(&Device::cpu()).unwrap();
    let refused = trainer(gpt(4).checkpoint_blocks()).memory_budget(0).compile(&Device::cpu()).unwrap_err();
    let (peak, least) = (again.plan().totals.peak(), least(&refused));
    assert!(least <= peak);
    let both = trainer(gpt(4).checkpoint_blocks()).memory_budget(least).compile(&Device::cpu()).unwrap();
    assert_eq!(run(both), run(trainer(gpt(4)).compile(&Device::cpu()).unwrap()));
}

#[test]
fn the_reference_agrees_before_and_after() {
    let refused = trainer(gpt(2)).memory_budget(0).compile(&Device::null()).unwrap_err();
    let train = trainer(gpt(2)).memory_budget(least(&refused)).compile(&Device::null()).unwrap();
    assert!(count(&train.stages().passes, "barrier") > 0);
    assert_same_meaning(&train.stages().optim, &train.stages().passes);
}
