//! `checkpoint`: what is inside a segment is computed again instead of kept.

use super::{count, gpt, run, trainer};
use gradloom::ir::{Graph, OpKind};
use gradloom::prelude::*;
use gradloom::{checkpoint, scan};
use gradloom_models::gpt2::{Gpt2, Gpt2Config};

#[test]
fn training_has_the_same_bits_with_checkpoints() {
    let kept = trainer(gpt(2)).compile(&Device::cpu()).unwrap();
    let again = trainer(gpt(2).checkpoint_blocks()).compile(&Device::cpu()).unwrap();
    assert_eq!(count(&kept.stages().passes, &OpKind::Barrier), 0);
    assert!(count(&again.stages().passes, &OpKind::Barrier) > 0, "nothing is computed again");
    assert_eq!(run(kept), run(again));
}

#[test]
fn the_planned_peak_falls() {
    let step = |layers: usize, checkpoints: bool| {
        let config = Gpt2Config { vocabulary: 64, context: 64, width: 32, heads: 4, layers, dropout: 0.1 };
        let model = Gpt2::new(&config).unwrap();
        let model = if checkpoints { model.checkpoint_blocks() } else { model };
        let train = Trainer::new(model)
            .inputs([i32("ids", [16, 64]), i32("targets", [16, 64])])
            .loss(|gpt, [ids, targets]| gpt.loss(ids, targets))
            .optimizer(AdamW::new(1e-3))
            .compile(&Device::null())
            .unwrap();
        train.plan().totals.step as f64
    };
    for layers in [1, 2, 4, 12] {
        println!("{layers} {} {}", step(layers, false), step(layers, true));
    }
    let (kept, again) = (step(12, false), step(12, true));
    assert!(again < 0.3 * kept, "{kept} bytes became {again}");
    // Each further block costs what goes from block to block, and its gradients.
    assert!(step(24, true) - again < 0.2 * (step(24, false) - kept));
}
