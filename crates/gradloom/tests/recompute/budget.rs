//! `Trainer::memory_budget`: the compiler chooses what to compute again.

use super::{count, gpt, run, trainer};
use gradloom::ErrorKind;
use gradloom::ir::OpKind;
use gradloom::prelude::*;
use gradloom_models::gpt2::{Gpt2, Gpt2Config};

fn peak(layers: usize) -> usize {
    trainer(gpt(layers)).compile(&Device::null()).unwrap().plan().totals.peak()
}

/// The least budget, from the refusal of an impossible one.
fn least(message: &str) -> usize {
    let number = message.split("at least ").nth(1).unwrap().split(' ').next().unwrap();
    number.parse().unwrap()
}

#[test]
fn training_has_the_same_bits_within_a_budget() {
    let kept = trainer(gpt(3)).compile(&Device::cpu()).unwrap();
    let peak = kept.plan().totals.peak();
    let refused = trainer(gpt(3)).memory_budget(1).compile(&Device::cpu()).unwrap_err();
    let least = least(refused.message());
    assert!(least < peak * 9 / 10, "{least} of {peak} bytes");
    let expected = run(kept);
    for budget in [least, (least + peak) / 2, peak - 1] {
        let train = trainer(gpt(3)).memory_budget(budget).compile(&Device::cpu()).unwrap();
        assert!(train.plan().totals.peak() <= budget);
        assert!(count(&train.stages().passes, &OpKind::Barrier) > 0);
        assert_eq!(run(train), expected, "budget {budget}");
    }
}
#[test]
fn probe() {
    for layers in [4, 12] {
        let config = Gpt2Config { vocabulary: 64, context: 64, width: 32, heads: 4, layers, dropout: 0.1 };
        let make = |b: Option<usize>| {
            let t = Trainer::new(Gpt2::new(&config).unwrap())
                .inputs([i32("ids", [16, 64]), i32("targets", [16, 64])])
                .loss(|gpt, [ids, targets]| gpt.loss(ids, targets))
                .optimizer(AdamW::new(1e-3));
            let t = match b {
                Some(b) => t.memory_budget(b),
                None => t,
            };
            t.compile(&Device::null())
        };
        let t0 = std::time::Instant::now();
        let p = make(None).unwrap().plan().totals;
        println!("{layers}: {p:?} {:?}", t0.elapsed());
        let t0 = std::time::Instant::now();
        println!("{} {:?}", make(Some(0)).unwrap_err(), t0.elapsed());
        for f in [0.9, 0.7, 0.5, 0.3, 0.2] {
            let t = make(Some((p.peak() as f64 * f) as usize));
            if let Ok(t) = t {
                let c = |n: &str| t.stages().passes.entry_ops().filter(|(_, o)| o.kind.name() == n).count();
                println!(
                    "{f} {} barriers {} dots {} attn {} {}",
                    t.plan().totals.peak(),
                    c("barrier"),
                    c("dot"),
                    c("attention"),
                    t.stages().reports.last().unwrap()
                );
            }
        }
    }
}
