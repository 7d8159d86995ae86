//! Tests `checkpoint`: values inside a segment are recomputed instead of kept.

use super::{assert_same_meaning, count, gpt, long_trainer, run, snapshot, trainer};
use gradloom::prelude::*;

#[test]
fn training_has_the_same_bits_with_segments() {
    let kept = trainer(gpt(2)).compile(&Device::cpu()).unwrap();
    let again = trainer(gpt(2).checkpoint_blocks()).compile(&Device::cpu()).unwrap();
    let graph = |train: &Train<_, 2>, name: &str| count(&train.stages().passes, name);
    assert_eq!(graph(&kept, "barrier"), 0);
    assert!(graph(&again, "barrier") > 0, "nothing is computed again");
    // Expect one mask after the embedding, which is in no segment, and three in each of two blocks.
    assert_eq!((graph(&kept, "random_bits"), graph(&again, "random_bits")), (7, 13));
    assert_eq!(run(kept), run(again));
}

#[test]
fn the_planned_peak_falls() {
    let step = |layers: usize, segments: bool| {
        let model = if segments { gpt(layers).checkpoint_blocks() } else { gpt(layers) };
        long_trainer(model).compile(&Device::null()).unwrap().plan().totals.step as f64
    };
    let (kept, again) = (step(12, false), step(12, true));
    assert!(again < 0.25 * kept, "{kept} bytes became {again}");
    // An additional block adds only the values between blocks, and its gradients.
    let (more_kept, more_again) = (step(16, false) - kept, step(16, true) - again);
    assert!(more_again < 0.1 * more_kept, "{more_kept} and {more_again} bytes for four blocks");
}

#[test]
fn the_reference_agrees_with_and_without_segments() {
    let kept = trainer(gpt(1)).compile(&Device::null()).unwrap();
    let again = trainer(gpt(1).checkpoint_blocks()).compile(&Device::null()).unwrap();
    assert_same_meaning(&again.stages().grad, &again.stages().passes);
    assert_same_meaning(&kept.stages().passes, &again.stages().passes);
}

#[derive(Module)]
struct Recurrent {
    inner: Linear,
    outer: Linear,
    dropout: Dropout,
}

const STEPS: usize = 5;

impl Recurrent {
    /// Returns the loss of a loop in a segment. Each iteration has a segment, which contains another one.
    fn loss(&self, x: Tensor, y: Tensor, segments: bool) -> Tensor {
        let segment = |f: &dyn Fn() -> Tensor| if segments { checkpoint(f) } else { f() };
        let read = self.dropout.forward(x);
        let last = segment(&|| {
            let start = y.detach() * 0.5;
            let (last, seen) = scan(STEPS, start, read, |state, x| {
                let next = segment(&|| {
                    let mixed = segment(&|| self.inner.forward(state).tanh() * x);
                    self.outer.forward(mixed + state).sin()
                });
                (next, next.exp())
            });
            last + seen.sum_axes([0])
        });
        (last - y).square().mean()
    }
}

#[test]
fn segments_may_be_nested_and_stand_in_loops() {
    let train = |segments: bool| {
        let model =
            Recurrent { inner: Linear::new(4, 4), outer: Linear::new(4, 4), dropout: Dropout::new(0.3) };
        Trainer::new(model)
            .inputs([f32("x", [STEPS, 3, 4]), f32("y", [3, 4])])
            .loss(|model, [x, y]| model.loss(x, y, segments))
            .optimizer(AdamW::new(1e-2))
            .compile(&Device::cpu())
            .unwrap()
    };
    let (mut kept, mut again) = (train(false), train(true));
    let tanh = |train: &Train<_, 2>| count(&train.stages().passes, "tanh");
    // tanh is computed forward, for the rules of the loop, for those of an iteration, and for those of the
    // inner segment. Computations that only the intermediate ones would need are not repeated.
    assert_eq!(tanh(&kept), STEPS);
    assert!((3 * STEPS..=4 * STEPS).contains(&tanh(&again)), "{}", tanh(&again));
    let x: Vec<f32> = (0..STEPS * 12).map(|i| (i * 7 % 11) as f32 / 11.0).collect();
    let y: Vec<f32> = (0..12).map(|i| (i * 5 % 13) as f32 / 13.0).collect();
    for _ in 0..4 {
        let losses = [&mut kept, &mut again].map(|train| train.step((&x, &y)).unwrap().loss().unwrap());
        assert_eq!(losses[0].to_bits(), losses[1].to_bits());
    }
    assert_eq!(snapshot(&kept), snapshot(&again));
}

/// A segment with its own parameters, a result that is an operand, and a result that the loss does not depend
/// on.
#[test]
fn segments_with_unusual_results() {
    let train = |segments: bool| {
        Trainer::new([Param::new([4], Init::Ones), Param::new([4], Init::Ones)])
            .inputs([f32("x", [4])])
            .loss(|params, [x]| {
                let [a, b] = [&params[0], &params[1]].map(Param::tensor);
                let body = || (x, (a.exp() * b, (a * x).tanh()));
                let (same, (product, _)) = if segments { checkpoint(body) } else { body() };
                let twice = if segments { checkpoint(|| [product, product]) } else { [product; 2] };
                (same * twice[0] + twice[1]).mean()
            })
            .optimizer(AdamW::new(1e-2))
            .compile(&Device::cpu())
            .unwrap()
    };
    let (mut kept, mut again) = (train(false), train(true));
    for _ in 0..3 {
        let x = [0.5f32, -1.0, 2.0, 0.0];
        let losses = [&mut kept, &mut again].map(|train| train.step([&x]).unwrap().loss().unwrap());
        assert_eq!(losses[0].to_bits(), losses[1].to_bits());
    }
    assert_eq!(snapshot(&kept), snapshot(&again));
    // The gradient rule of exp recomputes its result; tanh is removed because nothing depends on it.
    let graph = &again.stages().passes;
    assert_eq!((count(graph, "exp"), count(graph, "tanh")), (2, 0));
}
