//! Tests that gradloom does not have the defects of tensorgrad's ops, modules and optimizers (sections 2 to 4
//! of its inventory). Each test first states the defect.

use gradloom::ir::OpKind;
use gradloom::nn::fans;
use gradloom::prelude::*;
use gradloom::trace::trace;

/// Returns the results of a program with one f32 input.
fn run<const N: usize>(x: &[f32], f: impl FnOnce(Tensor) -> [Tensor; N]) -> [Vec<f32>; N] {
    let session = Session::new((), &Device::cpu(), 1).unwrap();
    let mut program = session.infer([f32("x", [x.len()])], |(), [x]| f(x).to_vec()).unwrap();
    program.run([x]).unwrap().try_into().expect("as many results as tensors")
}

/// Returns the error message of a mistake with `x: f32[4]` and `i: i32[4]`.
fn refused(f: impl FnOnce(Tensor, Tensor) -> Tensor) -> String {
    let inputs = [f32("x", [4]), i32("i", [4])];
    let traced = trace(&(), &inputs, false, |x| f(x[0], x[1]), |y| vec![y]);
    traced.map(|_| ()).unwrap_err().to_string()
}

/// `div(i32, 2)` and `mul(i32, 0.5)` returned zeros, because the number was truncated to an integer.
#[test]
fn numbers_beside_integers() {
    let [half, odd] = run(&[0.0, 1.0, 2.0, 7.0, -7.0], |x| {
        let i = x.cast(DType::I32);
        [(i / 2).cast(DType::F32), (i * 3.0 - 1.0).cast(DType::F32)]
    });
    assert_eq!(half, [0.0, 0.0, 1.0, 3.0, -3.0]);
    assert_eq!(odd, [-1.0, 2.0, 5.0, 20.0, -22.0]);
    assert!(refused(|_, i| i * 0.5).contains("0.5"));
    assert!(refused(|_, i| i / 2.0).contains("no fractions"));
    assert!(refused(|x, _| x / 0.0).contains("zero") || refused(|x, _| x / 0.0).contains("by 0"));
    assert!(refused(|_, i| i / 0.0).contains('0'));
}

/// Arithmetic with numbers accepted bools.
#[test]
fn bools_are_no_numbers() {
    assert!(refused(|x, _| x.gt(0.0) * 2.0).contains("bool"));
    assert!(refused(|x, _| x.gt(0.0) + 1.0).contains("bool"));
}

/// At ties, the second operand of `min` and `max` received the whole gradient; the gradient of `abs` at 0 was
/// 1.
#[test]
fn gradients_at_ties_and_at_zero() {
    let [dx] = run(&[0.0, -2.0, 3.0], |x| gradients(x.abs().sum(), [x]));
    assert_eq!(dx, [0.0, -1.0, 1.0]);
    let [da, db] = run(&[1.0, 5.0], |x| {
        let other = x * 1.0;
        gradients((x.minimum(other) + x.maximum(other)).sum(), [x, other])
    });
    assert_eq!((da, db), (vec![2.0, 2.0], vec![1.0, 1.0]), "through both operands, and through one");
}

/// `softplus(-20)` was 0, because there was no `log1p`.
#[test]
fn softplus_of_negative_numbers() {
    let [y] = run(&[-20.0, -80.0, 30.0], |x| [x.softplus()]);
    assert!((f64::from(y[0]) / (-20f64).exp() - 1.0).abs() < 1e-6 && y[1] > 0.0 && y[2] == 30.0, "{y:?}");
}

/// Logits below -1e30, the initial value of the maximum, broke the softmax.
#[test]
fn very_negative_logits() {
    let [y] = run(&[-2e30, -3e30, -2e30], |x| [x.softmax(0)]);
    assert_eq!(y, [0.5, 0.0, 0.5]);
}

/// A reshape copied, a split copied each part, and a concatenation took at most seven tensors at a time.
#[test]
fn views_cost_nothing() {
    let session = Session::new((), &Device::null(), 1).unwrap();
    let program = session.infer([f32("x", [4, 6])], |(), [x]| {
        let parts: Vec<Tensor> = (0..6).map(|i| x.slice(1, i..i + 1)).collect();
        let x = concat(1, &[&parts[..], &parts].concat());
        (x.reshape([2, -1]).exp().reshape([-1]) + 1.0).sum()
    });
    let program = program.unwrap();
    let kernels: Vec<&str> = program.plan().launches.iter().map(|launch| launch.kernel.name()).collect();
    assert!(!kernels.contains(&"copy") && kernels.len() <= 3, "{kernels:?}");
}

/// A lookup was a product with one-hot rows, which took 823 MB for 4,096 ids and GPT-2's table.
#[test]
fn a_lookup_reads_its_rows_alone() {
    let model = Embedding::new(50_257, 768);
    let train = Trainer::new(model)
        .inputs([i32("ids", [8, 512])])
        .loss(|table, [ids]| table.forward(ids).square().mean())
        .optimizer(Sgd::new(0.1))
        .compile(&Device::null())
        .unwrap();
    let totals = &train.plan().totals;
    let table = 50_257 * 768 * 4;
    assert!(totals.step < 2 * table, "{} bytes beside the table's {table}", totals.step);
}

/// An index or a class out of range resulted in zeros, which a mean still counted.
#[test]
fn indices_out_of_range_fail_the_step() {
    let mut train = Trainer::new(Embedding::new(5, 3))
        .inputs([i32("ids", [2])])
        .loss(|table, [ids]| table.forward(ids).cross_entropy(ids))
        .optimizer(Sgd::new(0.1))
        .compile(&Device::cpu())
        .unwrap();
    let before = train.store().read_f32("weight").unwrap();
    assert!(train.step([&[0, 2]]).unwrap().loss().unwrap().is_finite());
    for wrong in [[0, 7], [4, 0], [-1, 0]] {
        let error = train.step([&wrong]).unwrap().loss().unwrap_err().to_string();
        assert!(error.contains("out of range"), "{error}");
    }
    assert_ne!(before, train.store().read_f32("weight").unwrap(), "the first step took effect");
}

/// Batches of a product did not broadcast, and the gradient of a shared matrix was computed per batch.
#[test]
fn products_of_many_batches_with_one_matrix() {
    let compiled = |rows: usize| {
        Trainer::new(Linear::no_bias(64, 64))
            .inputs([f32("x", [rows, 4, 64])])
            .loss(|layer, [x]| layer.forward(x).square().mean())
            .optimizer(Sgd::new(0.1))
            .compile(&Device::null())
            .unwrap()
            .plan()
            .totals
            .step
    };
    let (few, many) = (compiled(64), compiled(1024));
    assert!(many < few * 17, "{few} bytes for 64 batches, {many} for 1,024");
    let [y] = run(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], |x| {
        [x.reshape([3, 1, 1, 2]).matmul(x.slice(0, 0..4).reshape([2, 2, 1])).sum_axes([0, 2, 3])]
    });
    assert_eq!(y.len(), 2);
}

/// The angles of `rope` were computed in every step.
#[test]
fn angles_are_constants() {
    let input = [f32("q", [2, 8, 4])];
    let traced = trace(&(), &input, false, |x| x[0].rope(10_000.0), |y| vec![y]).unwrap();
    let computes = |kind: &OpKind| matches!(kind.name(), "sin" | "cos" | "pow" | "iota");
    assert!(!traced.graph.entry_ops().any(|(_, op)| computes(&op.kind)));
}

/// The noise of one step was a permutation of that of another, was the same for every seed, and could be
/// exactly 1.
#[test]
fn noise_is_new_at_every_step_and_seed() {
    let noise = |seed: u64, steps: usize| -> Vec<Vec<f32>> {
        let session = Session::new((), &Device::cpu(), seed).unwrap();
        let mut program =
            session.infer([], |(), []: [Tensor; 0]| vec![uniform([1024]), randn([1024])]).unwrap();
        (0..steps).flat_map(|_| program.run([] as [&[f32]; 0]).unwrap()).collect()
    };
    let sorted = |mut values: Vec<f32>| {
        values.sort_by(f32::total_cmp);
        values
    };
    let first: Vec<Vec<f32>> = noise(1, 100).into_iter().map(sorted).collect();
    for (i, values) in first.iter().enumerate() {
        assert!(
            first[..i].iter().all(|earlier| earlier != values),
            "draw {i} is an earlier one in another order"
        );
    }
    assert!(first.iter().step_by(2).all(|uniform| uniform[0] >= 0.0 && uniform[1023] < 1.0));
    let other: Vec<Vec<f32>> = noise(2, 2).into_iter().map(sorted).collect();
    assert!(other.iter().all(|values| !first.contains(values)));
}

/// Dropout kept the same number of elements in every step.
#[test]
fn dropout_keeps_a_random_number_of_elements() {
    let mut train = Trainer::new((Param::new([1024], Init::Ones),))
        .inputs([])
        .loss(|(p,), []: [Tensor; 0]| {
            let kept = p.tensor().dropout(0.1);
            kept.capture("kept");
            kept.mean() * 0.0
        })
        .optimizer(Sgd::new(0.1))
        .compile(&Device::cpu())
        .unwrap();
    let mut counts: Vec<usize> = (0..50)
        .map(|_| {
            let step = train.step([] as [&[f32]; 0]).unwrap();
            step.get("kept").unwrap().iter().filter(|&&x| x != 0.0).count()
        })
        .collect();
    counts.sort_unstable();
    counts.dedup();
    assert!(counts.len() > 10 && counts.iter().all(|count| (860..980).contains(count)), "{counts:?}");
}

/// The fan-in of a convolution's weights was the number of its outputs.
#[test]
fn fans_of_convolutions() {
    assert_eq!(fans(&[32, 16, 3, 3].into()), [144.0, 288.0]);
}

/// A module in two places silently became two modules.
#[test]
fn a_parameter_in_two_places_is_one() {
    #[derive(Module)]
    struct Tied {
        a: Param,
        b: Param,
    }
    let a = Param::new([2], Init::Ones);
    let model = Tied { b: a.tie(), a };
    let mut train = Trainer::new(model)
        .inputs([])
        .loss(|m, []: [Tensor; 0]| (m.a.tensor() * 2.0 + m.b.tensor()).sum())
        .optimizer(Sgd::new(1.0))
        .compile(&Device::cpu())
        .unwrap();
    train.step([] as [&[f32]; 0]).unwrap().loss().unwrap();
    assert_eq!(train.store().read_f32("a").unwrap(), [-2.0, -2.0]);
    assert!(train.store().read_f32("b").is_err(), "it has the name of its first place");
}

/// With a learning rate of 0, weights still decayed, by the previous rate.
#[test]
fn a_rate_of_zero_changes_nothing() {
    let mut train = Trainer::new(Linear::no_bias(3, 2))
        .inputs([f32("x", [1, 3])])
        .loss(|layer, [x]| layer.forward(x).square().mean())
        .optimizer(AdamW::new(0.1).weight_decay(0.5))
        .compile(&Device::cpu())
        .unwrap();
    let data = [1.0f32, 2.0, 3.0];
    train.step([&data]).unwrap().loss().unwrap();
    let before = train.store().read_f32("weight").unwrap();
    train.set_lr(0.0);
    train.step([&data]).unwrap().loss().unwrap();
    assert_eq!(train.store().read_f32("weight").unwrap(), before);
}

/// A linear schedule already decreased in its first step.
#[test]
fn schedules_begin_at_their_peak() {
    let linear = Schedule::Linear { from: 1.0, to: 0.0, steps: 10 };
    assert_eq!([linear.at(0), linear.at(5), linear.at(10)], [1.0, 0.5, 0.0]);
}

/// Extents of 0 were never tested.
#[test]
fn tensors_without_elements() {
    let [sum, mean, joined, sorted] = run(&[1.0, 2.0], |x| {
        let none = x.slice(0, 2..);
        [none.sum().reshape([1]), none.mean().reshape([1]), concat(0, &[none, x]), none.sort(0)]
    });
    assert_eq!((sum, joined, sorted), (vec![0.0], vec![1.0, 2.0], vec![]));
    assert!(mean[0].is_nan());
}
