//! Tests that training steps have the same bits on any number of threads, however their launches overlap.

use gradloom_codegen::pipeline::Precision;
use gradloom_core::optim::AdamW;
use gradloom_core::trace::i32;
use gradloom_cpu::always_waking;
use gradloom_models::gpt2::{Gpt2, Gpt2Config};
use gradloom_runtime::Trainer;

/// Returns the bits of the losses and of all parameters and moments after some steps.
fn trained(precision: Precision, threads: usize) -> (Vec<u32>, Vec<Vec<u8>>) {
    let config =
        Gpt2Config { vocabulary: 300, context: 64, width: 96, heads: 3, layers: 2, ..Gpt2Config::default() };
    let shape = [5, config.context];
    let mut train = Trainer::new(Gpt2::new(&config).unwrap())
        .inputs([i32("ids", shape), i32("targets", shape)])
        .loss(|model, [ids, targets]| model.loss(ids, targets))
        .optimizer(AdamW::new(1e-3))
        .precision(precision)
        .clip_norm(1.0)
        .compile(&always_waking(threads))
        .unwrap_or_else(|error| panic!("{error}"));
    let ids: Vec<i32> = (0..5 * 64).map(|i| i * i % 293).collect();
    let targets: Vec<i32> = ids.iter().map(|id| (id + 1) % 300).collect();
    let losses = (0..6).map(|_| train.step((&ids, &targets)).unwrap().loss().unwrap().to_bits());
    let losses = losses.collect();
    let store = train.store();
    let values = store.entries().into_iter().map(|entry| store.read(&entry.name).unwrap());
    (losses, values.collect())
}

#[test]
fn a_gpt2_has_the_same_bits_on_any_number_of_threads() {
    for precision in [Precision::F32, Precision::Bf16] {
        let alone = trained(precision, 1);
        for threads in [2, 3, 8, 16] {
            for _ in 0..3 {
                assert!(trained(precision, threads) == alone, "{threads} threads, {precision:?}");
            }
        }
    }
}
