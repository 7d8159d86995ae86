//! Compares losses that ignore some targets with PyTorch in float64.

mod common;

use common::{Oracle, assert_near, widen};
use gradloom::prelude::*;
use gradloom_models::data::labels::{IGNORED, completion, next_token, smoothed, soft_loss};

const SHAPE: [usize; 3] = [2, 7, 5];

/// Returns a loss of the logits, and its gradient.
fn run(loss: impl Fn(Tensor) -> Tensor, logits: &[f32]) -> (f64, Vec<f64>) {
    let session = Session::new((), &Device::cpu(), 0).unwrap();
    let inputs = [f32("logits", SHAPE)];
    let both = session.infer(inputs, |(), [logits]| {
        let loss = loss(logits);
        let [gradient] = gradloom::gradients(loss, [logits]);
        (loss, gradient)
    });
    let (loss, gradient) = both.unwrap().run([logits]).unwrap();
    (loss[0].into(), widen(&gradient))
}

/// Returns class indices as a constant of the trace.
fn constant(targets: &[i32]) -> Tensor {
    let targets: Vec<f32> = targets.iter().map(|&target| target as f32).collect();
    literal(&targets, [SHAPE[0], SHAPE[1]]).cast(DType::I32)
}

#[test]
fn losses_and_gradients_are_pytorchs() {
    let oracle = Oracle::load("labels.safetensors");
    let (ids, logits) = (oracle.i32("ids"), oracle.f32("logits"));
    let next = next_token(&ids, 7).unwrap();
    assert_eq!(next, oracle.i32("next/targets"));
    let part = completion(&ids, 7, &[3..7, 2..5]).unwrap();
    assert_eq!(part, oracle.i32("completion/targets"));
    for (name, targets, smoothing) in
        [("next", &next, 0.0), ("completion", &part, 0.0), ("smoothed", &part, 0.1)]
    {
        let options = CrossEntropyOptions::new().ignore_index(IGNORED).label_smoothing(smoothing);
        let rows = smoothed(targets, 5, smoothing).unwrap();
        let by_number = run(|logits| logits.cross_entropy_with(constant(targets), options), &logits);
        let by_rows = run(|logits| soft_loss(logits, literal(&rows, SHAPE)), &logits);
        for (how, (loss, gradient)) in [("numbers", by_number), ("rows", by_rows)] {
            let what = format!("{name} by {how}");
            assert_near(&what, &[loss], oracle.get(&format!("{name}/loss")), 1e-6, 0.0);
            assert_near(&what, &gradient, oracle.get(&format!("{name}/grad")), 1e-6, 0.0);
            for (row, &target) in gradient.chunks_exact(5).zip(targets) {
                // The gradient of ignored targets is 0 for any logits; that of the others is not.
                assert_eq!(row.iter().all(|&g| g == 0.0), target == IGNORED, "{what}: {row:?}");
            }
        }
    }
}

#[test]
fn without_a_target_that_counts_the_loss_and_its_gradient_are_0() {
    let logits = [0.5f32; 70];
    let options = CrossEntropyOptions::new().ignore_index(IGNORED);
    let none = [IGNORED; 14];
    let (loss, gradient) = run(|logits| logits.cross_entropy_with(constant(&none), options), &logits);
    assert_eq!((loss, gradient), (0.0, vec![0.0; 70]));
    // A mean that the user writes is not special: it is 0 / 0.
    assert!(run(|logits| soft_loss(logits, literal(&[0.0; 70], SHAPE)), &logits).0.is_nan());
}
