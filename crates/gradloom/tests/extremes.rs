//! Tests training with extreme numbers: no step makes a weight infinite or NaN, and data that is ignored
//! changes nothing.

use gradloom::ir::Type;
use gradloom::nn::BatchNorm;
use gradloom::optim::{Adafactor, Adagrad, Adam, Lion, Muon, Optimizer, RmsProp};
use gradloom::prelude::*;
use gradloom::trace::{CrossEntropyOptions, Input};

#[derive(Module)]
struct Weights {
    matrix: Param,
    vector: Param,
}

impl Weights {
    fn new() -> Self {
        Self { matrix: Param::new([2, 3], Init::Ones), vector: Param::new([3], Init::Ones) }
    }
}

/// Compiles the training of weights with constant gradients: the loss is `slope` times their sum.
fn constant_slope(optimizer: impl Optimizer) -> Train<Weights, 1> {
    Trainer::new(Weights::new())
        .inputs([f32("slope", [3])])
        .loss(|w, [slope]| ((slope * &w.matrix).sum() + (slope * &w.vector).sum()) * 1.0)
        .optimizer(optimizer)
        .compile(&Device::cpu())
        .unwrap()
}

fn weights(train: &Train<Weights, 1>) -> Vec<f32> {
    let store = train.store();
    [store.read_f32("matrix").unwrap(), store.read_f32("vector").unwrap()].concat()
}

/// Calls `f` with every optimizer, whose learning rate is set to `rate` after compilation.
fn each(rate: f64, mut f: impl FnMut(&str, Train<Weights, 1>)) {
    let lr = 1e-3;
    let mut f = |name: &str, mut train: Train<Weights, 1>| {
        train.set_lr(rate);
        f(name, train);
    };
    f("sgd", constant_slope(Sgd::new(lr)));
    f("momentum", constant_slope(Sgd::new(lr).momentum(0.9).nesterov()));
    f("adam", constant_slope(Adam::new(lr)));
    f("adamw", constant_slope(AdamW::new(lr).weight_decay(0.1)));
    f("rmsprop", constant_slope(RmsProp::new(lr)));
    f("centred", constant_slope(RmsProp::new(lr).centered().momentum(0.5)));
    f("adagrad", constant_slope(Adagrad::new(lr)));
    f("lion", constant_slope(Lion::new(lr)));
    f("adafactor", constant_slope(Adafactor::new(lr)));
    f("muon", constant_slope(Muon::new(lr)));
}

#[test]
fn a_rate_that_would_make_weights_infinite_is_refused() {
    for lr in [3e38, 1e38, 1e30, 2e18] {
        each(lr, |name, mut train| {
            let before = weights(&train);
            for slope in [1.0, 1e-3, 1e10] {
                let refused = train.step([&[slope, 2.0, -slope]]).and_then(|step| step.loss());
                assert!(refused.is_err(), "{name} at {lr}");
                assert_eq!(weights(&train), before, "{name} at {lr}");
            }
        });
    }
    // With the largest allowed rate and the largest gradients, a step is finite.
    for slope in [1e18, 3e18, 1.0, 1e-30, 0.0] {
        each(1e18, |name, mut train| {
            let _ = train.step([&[slope, 2.0, -slope]]).and_then(|step| step.loss());
            let now = weights(&train);
            assert!(now.iter().all(|w| w.is_finite()), "{name}, {slope}: {now:?}");
        });
    }
}

#[test]
fn no_divisor_of_zero_and_no_root_below_it() {
    let check = |name: &str, mut train: Train<Weights, 1>, slopes: [f32; 3]| {
        for _ in 0..300 {
            train.step([&slopes]).unwrap().loss().unwrap();
        }
        let now = weights(&train);
        assert!(now.iter().all(|w| w.is_finite()), "{name}, {slopes:?}: {now:?}");
    };
    for slopes in [[0.0; 3], [0.1, 0.3, 0.7], [1e-20, 3.3, 1e-4], [1e4, 123.4, 1e-3]] {
        for alpha in [0.9, 0.99, 0.5] {
            check("centred", constant_slope(RmsProp::new(1e-3).centered().alpha(alpha)), slopes);
        }
        check("centred", constant_slope(RmsProp::new(1e-3).centered().epsilon(0.0)), slopes);
        check("rmsprop", constant_slope(RmsProp::new(1e-3).epsilon(0.0)), slopes);
        check("adam", constant_slope(Adam::new(1e-3).epsilon(0.0)), slopes);
        check("adagrad", constant_slope(Adagrad::new(1e-3).epsilon(0.0)), slopes);
        check("adafactor", constant_slope(Adafactor::new(1e-3).epsilon1(0.0)), slopes);
    }
}

#[test]
fn dropout_of_everything_trains_with_gradients_of_zero() {
    let mut train = Trainer::new(Linear::new(3, 2))
        .inputs([f32("x", [4, 3])])
        .loss(|net, [x]| net.forward(x).dropout(1.0).square().mean())
        .optimizer(Sgd::new(0.1))
        .compile(&Device::cpu())
        .unwrap();
    let before = train.store().read_f32("weight").unwrap();
    let step = train.step([&[1.0f32; 12]]).unwrap();
    assert_eq!(step.loss().unwrap(), 0.0);
    assert_eq!(step.get("gradient_norm").unwrap(), [0.0]);
    assert_eq!(train.store().read_f32("weight").unwrap(), before);
}

/// Returns loss and weights after a step with these targets, in the given number of micro-batches.
fn after(targets: &[i32], micro_batches: usize) -> (f32, Vec<f32>) {
    let rows = targets.len() / micro_batches;
    let mut train = Trainer::new(Linear::new(3, 4))
        .inputs([f32("x", [rows, 3]), i32("class", [rows])])
        .loss(|net, [x, class]| {
            net.forward(x).cross_entropy_with(class, CrossEntropyOptions::new().ignore_index(-1))
        })
        .optimizer(Sgd::new(if micro_batches == 1 { 0.5 } else { 1.0 }))
        .accumulate(micro_batches)
        .compile(&Device::cpu())
        .unwrap();
    let mut x: Vec<f32> = (0..targets.len() * 3).map(|i| (i % 7) as f32 - 3.0).collect();
    // Change the inputs of ignored targets, which may have any values.
    for (row, _) in targets.iter().enumerate().filter(|(_, target)| **target == -1) {
        x[row * 3] = 0.25;
    }
    let loss = train.step((&x, targets)).unwrap().loss().unwrap();
    (loss, train.store().read_f32("weight").unwrap())
}

#[test]
fn a_micro_batch_without_a_target_adds_nothing() {
    let (one, (two_loss, two)) = (after(&[2, 0], 1), after(&[2, 0, -1, -1], 2));
    assert!((two_loss - one.0 / 2.0).abs() < 1e-6, "{two_loss}, {}", one.0);
    let near = one.1.iter().zip(&two).all(|(a, b)| (a - b).abs() < 1e-6);
    assert!(near, "{two:?}, not {:?}", one.1);
    let (loss, _) = after(&[-1, -1, -1, -1], 2);
    assert_eq!(loss, 0.0);
}

#[test]
fn batch_norm_of_one_number_a_channel_is_an_error_in_training_only() {
    let compile = |shape: &[usize]| {
        Trainer::new(BatchNorm::new(3))
            .inputs([Input { name: "x".to_string(), ty: Type::new(DType::F32, shape) }])
            .loss(|norm, [x]| norm.forward(x).square().mean())
            .optimizer(Sgd::new(0.1))
            .compile(&Device::cpu())
    };
    for shape in [&[1, 3][..], &[1, 3, 1], &[1, 3, 1, 1]] {
        let Err(error) = compile(shape) else { panic!("{shape:?} has one number a channel") };
        let error = error.to_string();
        assert!(error.contains("each channel has one number") && error.contains("extremes.rs"), "{error}");
    }
    for shape in [&[2, 3][..], &[1, 3, 2], &[1, 3, 1, 2]] {
        let train = compile(shape).unwrap();
        let mut infer = train.infer([f32("x", [1, 3])], |norm, [x]| norm.forward(x)).unwrap();
        assert_eq!(infer.run([&[0.0f32; 3]]).unwrap().len(), 3);
    }
}

#[test]
fn a_saturated_sigmoid_trains_on() {
    let mut train = Trainer::new(Linear::new(1, 1))
        .inputs([f32("x", [4, 1]), f32("y", [4, 1])])
        .loss(|net, [x, y]| net.forward(x).sigmoid().bce_loss(y))
        .optimizer(Sgd::new(0.1))
        .compile(&Device::cpu())
        .unwrap();
    for _ in 0..3 {
        let x = [1e6f32, -1e6, 0.5, -0.5];
        train.step((&x, &[1.0f32, 1.0, 0.0, 0.0])).unwrap().loss().unwrap();
    }
    assert!(train.store().read_f32("weight").unwrap()[0].is_finite());
}

/// Tests on the CPU's kernels the guarantees of `gradloom-core/tests/functions/ignored.rs`.
#[test]
fn kernels_leave_out_what_is_hidden() {
    let train = constant_slope(Sgd::new(0.1));
    let (queries, keys, depth) = (3, 5, 4);
    let q: Vec<f32> = (0..2 * queries * depth).map(|i| (i * 37 % 11) as f32 / 5.0 - 1.0).collect();
    let k: Vec<f32> = (0..2 * keys * depth).map(|i| (i * 53 % 13) as f32 / 6.0 - 1.0).collect();
    for kind in 0..4 {
        let mut infer = train
            .infer(
                [
                    f32("q", [1, 2, queries, depth]),
                    f32("k", [1, 2, keys, depth]),
                    f32("v", [1, 2, keys, depth]),
                    i32("length", [1]),
                    f32("bias", [keys]),
                ],
                move |_, [q, k, v, length, bias]| {
                    let options = match kind {
                        0 => AttentionOptions::full().key_length(length),
                        1 => AttentionOptions::causal().key_length(length),
                        2 => AttentionOptions::full().mask(bias.eq(0.0)),
                        _ => AttentionOptions::full().bias(bias.detach()),
                    };
                    let y = q.attention(k, v, options);
                    let [dq, dk, dv] = gradloom::trace::gradients(y.square().sum(), [q, k, v]);
                    gradloom::trace::concat(0, &[y, dq, dk, dv].map(|x| x.flatten()))
                },
            )
            .unwrap();
        let bias = [0.0, 0.0, 0.0, f32::NEG_INFINITY, f32::NEG_INFINITY];
        let mut run = |poison: f32| {
            let mut hidden = k.clone();
            for head in 0..2 {
                hidden[(head * keys + 3) * depth..(head + 1) * keys * depth].fill(poison);
            }
            infer.run((&q, &hidden, &hidden, &[3i32], &bias)).unwrap()
        };
        let want = run(0.5);
        assert!(want.iter().all(|x| x.is_finite()), "{kind}: {want:?}");
        for poison in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 3e38] {
            assert_eq!(run(poison), want, "{kind}: {poison}");
        }
    }
}

/// Tests every hyperparameter of the optimizers, in and out of its range. Either it is rejected at the line
/// of the trainer, or no gradient that is accepted makes a weight infinite or NaN.
#[test]
fn no_number_of_an_optimizer_makes_weights_nan() {
    let (mut refused, mut ran) = (0, 0);
    for n in [f64::NAN, -1.0, 0.0, 0.5, 1.0, 2.0, 1e9, f64::INFINITY, 1e30, 1e-320, 1e39] {
        let mut check = |name: &str, made: gradloom::Result<Train<Weights, 1>>| {
            let mut train = match made {
                Ok(train) => train,
                Err(error) => {
                    refused += 1;
                    let place = error.origin().unwrap_or_else(|| panic!("{name} of {n:e}: {error}"));
                    assert!(place.file.ends_with("extremes.rs"), "{name} of {n:e}: {error}");
                    assert!(error.remedies().next().is_some(), "{name} of {n:e}: {error}");
                    return;
                }
            };
            ran += 1;
            for slope in [
                [1.0, 0.0, -1.0],
                [0.0; 3],
                [1e-20, 1e18, -1e-30],
                [3.0, 2.0, 1.0],
                [1e30, -1e30, 1e18],
                [f32::MAX, 1e-38, 0.0],
                [1.0; 3],
            ] {
                let loss = train.step([&slope]).and_then(|step| step.loss());
                let after = weights(&train);
                assert!(
                    after.iter().all(|w| w.is_finite()),
                    "{name} of {n:e}, slope {slope:?}: {loss:?}, {after:?}"
                );
            }
        };
        macro_rules! all {
            ($($optimizer:expr),* $(,)?) => {
                $(check(stringify!($optimizer), {
                    Trainer::new(Weights::new())
                        .inputs([f32("slope", [3])])
                        .loss(|w, [slope]| ((slope * &w.matrix).sum() + (slope * &w.vector).sum()) * 1.0)
                        .optimizer($optimizer)
                        .compile(&Device::cpu())
                });)*
            };
        }
        all!(
            Sgd::new(n),
            Sgd::new(0.1).momentum(n).nesterov(),
            Adam::new(0.1).beta1(n),
            Adam::new(0.1).beta2(n),
            Adam::new(0.1).epsilon(n),
            RmsProp::new(0.1).alpha(n),
            RmsProp::new(0.1).alpha(n).centered(),
            RmsProp::new(0.1).epsilon(n),
            RmsProp::new(0.1).momentum(n),
            Adagrad::new(0.1).epsilon(n),
            Adagrad::new(0.1).initial(n),
            Lion::new(0.1).beta1(n),
            Lion::new(0.1).beta2(n),
            Muon::new(0.1).momentum(n),
            Muon::new(0.1).others_rate(n),
            Adafactor::new(0.1).beta2_decay(n),
            Adafactor::new(0.1).epsilon1(n),
            Adafactor::new(0.1).epsilon2(n),
            Adafactor::new(0.1).threshold(n),
        );
    }
    println!("{refused} refused, {ran} ran");
    assert!(refused > 80 && ran > 60, "{refused} refused, {ran} ran");
}

/// An error for lack of memory has the source location of the largest value.
#[test]
fn values_that_no_memory_holds_are_refused_at_their_line() {
    let refused = |f: fn(Tensor) -> Tensor| {
        let traced = gradloom::trace::trace(&(), &[f32("x", [2])], false, |x| f(x[0]), |y| vec![y]).unwrap();
        let mut graph = traced.graph;
        graph.outputs.push(gradloom::ir::Output { name: "y".into(), value: traced.results[0] });
        let error = gradloom::runtime::run_once(graph, &Device::cpu(), &[vec![1.0; 2]]).unwrap_err();
        let place = error.origin().unwrap_or_else(|| panic!("{error}"));
        assert!(place.file.ends_with("extremes.rs"), "{error}");
    };
    refused(|x| x.tile(&[1 << 40]));
    refused(|x| x.repeat_interleave(0, 1 << 40));
    refused(|x| (x.unsqueeze(1) + x).tile(&[1 << 20, 1 << 20]).exp());
}
