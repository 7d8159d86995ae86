//! Tests guarantees of a training session: determinism, atomic steps, planned memory, and variable
//! hyperparameters.

use gradloom::ErrorKind;
use gradloom::nn::Lstm;
use gradloom::prelude::*;
use gradloom_cpu::always_waking;

#[derive(Module)]
struct Net {
    l1: Linear,
    dropout: Dropout,
    l2: Linear,
}

impl Net {
    fn new(dropout: f64) -> Self {
        Self { l1: Linear::new(5, 33), dropout: Dropout::new(dropout), l2: Linear::new(33, 3) }
    }

    fn forward(&self, x: Tensor) -> Tensor {
        self.l2.forward(self.dropout.forward(self.l1.forward(x).gelu()))
    }
}

const ROWS: usize = 17;

fn data() -> (Vec<f32>, Vec<i32>) {
    let x = (0..ROWS * 5).map(|i| ((i * 37 % 101) as f32 - 50.0) / 40.0).collect();
    (x, (0..ROWS as i32).map(|i| i % 3).collect())
}

fn compile(device: &Device, dropout: f64, seed: u64) -> Train<Net, 2> {
    Trainer::new(Net::new(dropout))
        .inputs([f32("x", [ROWS, 5]), i32("class", [ROWS])])
        .loss(|net, [x, class]| net.forward(x).cross_entropy(class))
        .optimizer(AdamW::new(Schedule::warmup_cosine(1e-2, 5, 50, 1e-3)))
        .clip_norm(0.5)
        .seed(seed)
        .compile(device)
        .unwrap()
}

/// Returns the bytes of every parameter and state.
fn snapshot<M: Module, const N: usize>(train: &Train<M, N>) -> Vec<(String, Vec<u8>)> {
    let store = train.store();
    store.entries().into_iter().map(|e| (e.name.clone(), store.read(&e.name).unwrap())).collect()
}

#[test]
fn the_same_seed_gives_the_same_bits_on_any_number_of_threads() {
    let (x, class) = data();
    let run = |device: &Device, seed: u64| {
        let mut train = compile(device, 0.3, seed);
        for _ in 0..50 {
            train.step((&x, &class)).unwrap();
        }
        snapshot(&train)
    };
    let two = run(&always_waking(2), 7);
    for threads in [1, 2, 3, 8, 16] {
        assert_eq!(two, run(&always_waking(threads), 7), "{threads} threads");
    }
    assert_ne!(two, run(&always_waking(2), 8));
}

#[test]
fn a_run_that_is_restored_half_way_ends_with_the_same_bits() {
    let (x, class) = data();
    let mut whole = compile(&Device::cpu(), 0.3, 7);
    let mut first = compile(&Device::cpu(), 0.3, 7);
    for _ in 0..20 {
        whole.step((&x, &class)).unwrap();
        first.step((&x, &class)).unwrap();
    }
    let saved = snapshot(&first);
    let types: Vec<_> = first.store().entries().into_iter().map(|e| e.ty).collect();
    let mut second = compile(&Device::cpu(), 0.3, 7);
    let entries: Vec<_> =
        saved.iter().zip(&types).map(|((n, b), ty)| (n.as_str(), ty, b.as_slice())).collect();
    second.store().write_all(&entries).unwrap();
    second.set_attempted_steps(first.attempted_steps());
    for _ in 0..20 {
        let (a, b) = (whole.step((&x, &class)).unwrap(), second.step((&x, &class)).unwrap());
        assert_eq!(a.loss().unwrap().to_bits(), b.loss().unwrap().to_bits());
    }
    assert_eq!(snapshot(&whole), snapshot(&second));
}

#[test]
fn a_loss_that_is_not_finite_changes_nothing_and_names_the_step() {
    let (mut x, class) = data();
    let mut train = compile(&Device::cpu(), 0.0, 1);
    train.step((&x, &class)).unwrap().loss().unwrap();
    let before = snapshot(&train);
    x[3] = f32::NAN;
    let step = train.step((&x, &class)).unwrap();
    let error = step.loss().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFinite { step: 1 });
    assert!(error.to_string().contains("step 1"), "{error}");
    assert!(step.get("loss").unwrap()[0].is_nan());
    assert_eq!(snapshot(&train), before);
    assert_eq!((train.attempted_steps(), train.applied_steps().unwrap()), (2, 1));
    x[3] = 0.0;
    train.step((&x, &class)).unwrap().loss().unwrap();
    assert_eq!(train.applied_steps().unwrap(), 2);
}

#[test]
fn a_failure_that_nobody_read_is_returned_by_the_next_step() {
    let (mut x, class) = data();
    let mut train = compile(&Device::cpu(), 0.0, 1);
    x[0] = f32::INFINITY;
    train.step((&x, &class)).unwrap();
    x[0] = 0.0;
    assert_eq!(train.step((&x, &class)).unwrap_err().kind(), ErrorKind::NotFinite { step: 0 });
    train.step((&x, &class)).unwrap().loss().unwrap();
}

#[test]
fn an_index_out_of_range_fails_the_step_and_changes_nothing() {
    let (x, mut class) = data();
    let mut train = compile(&Device::cpu(), 0.0, 1);
    train.step((&x, &class)).unwrap();
    let before = snapshot(&train);
    for wrong in [3, -1, i32::MIN, i32::MAX] {
        class[4] = wrong;
        let error = train.step((&x, &class)).unwrap().loss().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Trap, "{error}");
        let text = error.to_string();
        assert!(text.contains(&wrong.to_string()) && text.contains("cross_entropy(class)"), "{text}");
        assert_eq!(snapshot(&train), before);
    }
    class[4] = 0;
    train.step((&x, &class)).unwrap().loss().unwrap();
}

#[test]
fn planned_bytes_are_the_bytes_that_were_asked_for() {
    let train = compile(&Device::cpu(), 0.1, 1);
    assert_eq!(train.plan().totals.peak(), train.allocated_bytes());
    gradloom::plan::verify(train.plan()).unwrap();
    assert!(train.stages().passes.entry_ops().count() < train.stages().optim.entry_ops().count());
}

#[test]
fn parameters_are_updated_in_place() {
    use gradloom::kernel::{Kernel, Phase};
    let train = compile(&Device::cpu(), 0.0, 1);
    let commit: Vec<_> = train.plan().launches.iter().filter(|l| l.phase == Phase::Commit).collect();
    assert!(!commit.is_empty());
    assert!(
        commit.iter().all(|l| l.kernel != Kernel::Copy),
        "{}",
        train.plan().report(&train.stages().passes)
    );
}

#[test]
fn bad_data_is_refused_before_anything_runs() {
    let (x, class) = data();
    let mut train = compile(&Device::cpu(), 0.0, 1);
    let before = snapshot(&train);
    let error = train.step((&x[1..], &class)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Feed);
    assert!(error.to_string().contains("`x` is f32[17, 5] (85 elements), got 84"), "{error}");
    let error = train.step((&x, &x)).unwrap_err();
    assert!(error.to_string().contains("`class` is i32[17], got f32"), "{error}");
    assert_eq!((train.attempted_steps(), snapshot(&train)), (0, before));
}

#[test]
fn a_changed_learning_rate_changes_the_decay_with_it() {
    #[derive(Module)]
    struct One {
        weight: Param,
        gain: Param,
    }
    let model = One { weight: Param::new([2, 2], Init::Ones), gain: Param::new([2], Init::Ones) };
    let mut train = Trainer::new(model)
        .inputs([f32("x", [2])])
        .loss(|m, [x]| (m.weight.tensor() * 0.0).sum() + (x * &m.gain * 0.0).sum())
        .optimizer(AdamW::new(0.1).weight_decay(0.5))
        .compile(&Device::cpu())
        .unwrap();
    train.step([&[1.0f32, 1.0]]).unwrap().loss().unwrap();
    assert_eq!(train.store().read_f32("weight").unwrap(), vec![0.95f32; 4]);
    assert_eq!(train.store().read_f32("gain").unwrap(), vec![1.0f32; 2], "vectors do not decay");
    train.set_lr(0.0);
    train.step([&[1.0f32, 1.0]]).unwrap().loss().unwrap();
    assert_eq!(train.store().read_f32("weight").unwrap(), vec![0.95f32; 4]);
    train.set_lr(0.2);
    train.set_hyperparameter("weight_decay", 1.0).unwrap();
    train.step([&[1.0f32, 1.0]]).unwrap().loss().unwrap();
    assert_eq!(train.store().read_f32("weight").unwrap(), vec![0.95f32 * 0.8; 4]);
    for (name, value) in [("beta1", 1.0), ("momentum", 0.5), ("lr", f64::NAN), ("max_norm", 1.0)] {
        assert!(train.set_hyperparameter(name, value).is_err(), "{name}");
    }
    assert_eq!(train.lr(), 0.2);
    train.set_hyperparameter("lr", 0.3).unwrap();
    assert_eq!(train.lr(), 0.3);
    train.follow_schedule();
    assert_eq!(train.lr(), 0.1);
}

#[test]
fn large_logits_lose_no_digits() {
    let run = |offset: f32| {
        let logits = [offset, offset - 7.0, offset - 8.0];
        let mut train = Trainer::new((Param::new([1, 3], Init::Values(logits.into())),))
            .inputs([i32("class", [1]), f32("row", [1, 3])])
            .loss(|(w,), [class, row]| {
                w.tensor().cross_entropy(row).capture("soft");
                w.tensor().logsumexp_keep(-1).capture("logsumexp");
                w.tensor().cross_entropy(class)
            })
            .optimizer(Sgd::new(0.1))
            .compile(&Device::cpu())
            .unwrap();
        let step = train.step((&[0], &[1.0f32, 0.0, 0.0])).unwrap();
        ["loss", "soft", "logsumexp"].map(|name| step.get(name).unwrap()[0])
    };
    let want = (1.0 + (-7.0f64).exp() + (-8.0f64).exp()).ln() as f32;
    for offset in [0.0, 100.0, 1e4, 1e6] {
        let [hard, soft, _] = run(offset);
        assert!(
            (hard / want - 1.0).abs() < 1e-4 && (soft / want - 1.0).abs() < 1e-4,
            "{offset}: {hard} {soft}"
        );
    }
    assert_eq!(run(f32::NEG_INFINITY)[2], f32::NEG_INFINITY);
    assert_eq!(run(f32::INFINITY)[2], f32::INFINITY);
}

#[test]
fn a_reset_clears_moments_and_step_counter_together() {
    let (x, class) = data();
    let mut train = compile(&Device::cpu(), 0.0, 1);
    for _ in 0..3 {
        train.step((&x, &class)).unwrap();
    }
    assert!(train.store().read_f32("optim.m.l1.weight").unwrap().iter().any(|&m| m != 0.0));
    let parameters = train.store().read_f32("l1.weight").unwrap();
    train.reset_optimizer().unwrap();
    assert!(train.store().read_f32("optim.m.l1.weight").unwrap().iter().all(|&m| m == 0.0));
    assert!(train.store().read_f32("optim.v.l2.bias").unwrap().iter().all(|&v| v == 0.0));
    assert_eq!(train.applied_steps().unwrap(), 0);
    assert_eq!(train.store().read_f32("l1.weight").unwrap(), parameters);
}

#[test]
fn dropout_acts_in_training_only_and_differs_between_steps() {
    let (x, class) = data();
    let mut train = compile(&Device::cpu(), 0.5, 1);
    train.set_lr(0.0);
    let losses: Vec<f32> = (0..4).map(|_| train.step((&x, &class)).unwrap().loss().unwrap()).collect();
    assert!(losses.windows(2).all(|pair| pair[0] != pair[1]), "{losses:?}");
    train.set_attempted_steps(0);
    assert_eq!(train.step((&x, &class)).unwrap().loss().unwrap(), losses[0]);
    let mut evaluate = train.infer([f32("x", [ROWS, 5])], |net, [x]| net.forward(x)).unwrap();
    assert_eq!(evaluate.run([&x]).unwrap(), evaluate.run([&x]).unwrap());
}

#[test]
fn dropout_keeps_the_expected_share_and_the_mean() {
    let mut train = Trainer::new(Linear::no_bias(1, 1))
        .inputs([f32("x", [100_000])])
        .loss(|l, [x]| (x.dropout(0.3).capture("dropped") * 0.0).sum() + l.weight.tensor().sum())
        .optimizer(Sgd::new(0.0))
        .compile(&Device::cpu())
        .unwrap();
    let dropped = train.step([&vec![1.0f32; 100_000]]).unwrap().get("dropped").unwrap();
    let zeros = dropped.iter().filter(|&&v| v == 0.0).count();
    assert!(dropped.iter().all(|&v| v == 0.0 || (v - 1.0 / 0.7).abs() < 1e-6));
    assert!((28_500..31_500).contains(&zeros), "{zeros} of 100,000 dropped");
}

#[test]
fn inference_sees_the_trained_parameters_and_runs_on_another_thread() {
    let (x, class) = data();
    let mut train = compile(&Device::cpu(), 0.0, 1);
    let mut predict = train.infer([f32("x", [ROWS, 5])], |net, [x]| net.forward(x)).unwrap();
    let before = predict.run([&x]).unwrap();
    train.step((&x, &class)).unwrap().loss().unwrap();
    let after = predict.run([&x]).unwrap();
    assert_ne!(before, after);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            for _ in 0..50 {
                assert!(predict.run([&x]).unwrap().iter().all(|v| v.is_finite()));
            }
        });
        for _ in 0..50 {
            train.step((&x, &class)).unwrap().loss().unwrap();
        }
        reader.join().unwrap();
    });
}

#[test]
fn steps_may_be_read_late_and_in_any_order() {
    let (x, class) = data();
    let mut train = compile(&Device::cpu(), 0.0, 1);
    let steps: Vec<_> = (0..20).map(|_| train.step((&x, &class)).unwrap()).collect();
    let losses: Vec<f32> = steps.iter().rev().map(|s| s.loss().unwrap()).collect();
    assert!(losses.windows(2).all(|pair| pair[0] < pair[1]), "{losses:?}");
    assert_eq!(steps[13].number(), 13);
}

#[test]
fn tied_parameters_are_one_and_get_the_sum_of_the_gradients() {
    #[derive(Module)]
    struct Tied {
        a: Param,
        b: Param,
    }
    let a = Param::new([2], Init::Values([3.0, 5.0].into()));
    let model = Tied { b: a.tie(), a };
    let mut train = Trainer::new(model)
        .inputs([f32("x", [2])])
        .loss(|m, [x]| (x * &m.a * &m.b).sum())
        .optimizer(Sgd::new(1.0))
        .compile(&Device::cpu())
        .unwrap();
    train.step([&[1.0f32, 0.5]]).unwrap().loss().unwrap();
    assert_eq!(train.store().read_f32("a").unwrap(), vec![3.0 - 6.0, 5.0 - 5.0]);
    assert!(train.store().read("b").is_err());
}

#[test]
fn frozen_parameters_stay_and_need_no_gradient() {
    let (x, class) = data();
    let net = Net::new(0.0);
    net.l1.weight.freeze();
    let mut train = Trainer::new(net)
        .inputs([f32("x", [ROWS, 5]), i32("class", [ROWS])])
        .loss(|net, [x, class]| net.forward(x).cross_entropy(class))
        .optimizer(Adam::new(0.1))
        .compile(&Device::cpu())
        .unwrap();
    let frozen = train.store().read("l1.weight").unwrap();
    let trained = train.store().read("l1.bias").unwrap();
    train.step((&x, &class)).unwrap().loss().unwrap();
    assert_eq!(train.store().read("l1.weight").unwrap(), frozen);
    assert_ne!(train.store().read("l1.bias").unwrap(), trained);
}

#[test]
fn a_store_takes_all_or_nothing() {
    let train = compile(&Device::cpu(), 0.0, 1);
    let store = train.store();
    let before = snapshot(&train);
    let ty = gradloom::ir::Type::new(DType::F32, [3]);
    let zeros = vec![0u8; 12];
    let good = ("l2.bias", &ty, zeros.as_slice());
    let wrong_type = gradloom::ir::Type::new(DType::F32, [4]);
    for (entries, says) in [
        (vec![good, ("l2.biass", &ty, zeros.as_slice())], "did you mean `l2.bias`"),
        (vec![good, good], "twice"),
        (vec![good, ("l1.bias", &wrong_type, zeros.as_slice())], "f32[33], not f32[4]"),
        (vec![("l2.bias", &ty, &zeros[..8])], "takes 12 bytes, got 8"),
    ] {
        let error = store.write(&entries).unwrap_err().to_string();
        assert!(error.contains(says), "{error}");
        assert_eq!(snapshot(&train), before);
    }
    assert!(store.write_all(&[good]).unwrap_err().to_string().contains("is missing"));
    assert_eq!(snapshot(&train), before);
    store.write(&[good]).unwrap();
    assert_eq!(store.read_f32("l2.bias").unwrap(), vec![0.0; 3]);
}

#[test]
fn the_null_device_plans_and_computes_nothing() {
    let (x, class) = data();
    let mut train = compile(&Device::null(), 0.0, 1);
    assert!(!train.plan().launches.is_empty());
    assert_eq!(train.allocated_bytes(), 0);
    assert!(train.step((&x, &class)).unwrap().loss().unwrap().is_nan());
    assert!(train.store().read("l1.weight").is_err());
}

#[test]
fn attention_takes_large_scores_and_keeps_every_nan() {
    let session = Session::new((), &Device::cpu(), 0).unwrap();
    let shape = [1, 1, 3, 40];
    let mut attend = session
        .infer([f32("q", shape), f32("k", shape), f32("v", shape)], |(), [q, k, v]| {
            q.attention(k, v, AttentionOptions::causal())
        })
        .unwrap();
    let values =
        |scale: f32| -> Vec<f32> { (0..120).map(|i| scale * ((i * 37 % 41) as f32 / 20.0 - 1.0)).collect() };
    let (q, v) = (values(1e6), values(1.0));
    assert!(attend.run([&q, &q, &v]).unwrap().iter().all(|y| y.is_finite()));
    for payload in [0x7fc0_0000u32, 0x7fc0_0001, 0x7fc0_dead] {
        let mut q = values(1.0);
        q[0] = f32::from_bits(payload);
        assert!(attend.run([&q, &v, &v]).unwrap()[..40].iter().all(|y| y.is_nan()), "{payload:x}");
    }
}

#[test]
fn the_smallest_gpt_trains() {
    let config = gradloom_models::gpt2::Gpt2Config {
        vocabulary: 3,
        context: 2,
        width: 1,
        heads: 1,
        layers: 1,
        ..gradloom_models::gpt2::Gpt2Config::default()
    };
    let mut train = Trainer::new(gradloom_models::gpt2::Gpt2::new(&config).unwrap())
        .inputs([i32("ids", [1, 2]), i32("targets", [1, 2])])
        .loss(|gpt, [ids, targets]| gpt.loss(ids, targets))
        .optimizer(AdamW::new(1e-2))
        .clip_norm(1.0)
        .compile(&Device::cpu())
        .unwrap();
    assert!(train.step([&[0, 1], &[1, 2]]).unwrap().loss().unwrap().is_finite());
}

#[test]
fn the_gradient_of_a_recurrent_weight_is_one_product() {
    let plan = |steps: usize| {
        let train = Trainer::new(Lstm::new(16, 16))
            .inputs([f32("x", [8, steps, 16])])
            .loss(|lstm: &Lstm, [x]: [Tensor; 1]| lstm.forward(x).square().mean())
            .optimizer(Sgd::new(0.1))
            .compile(&Device::cpu())
            .unwrap();
        let count = |name| train.stages().passes.entry_ops().filter(|(_, op)| op.kind.name() == name).count();
        // Expect products of the inputs, forward and backward; of each state, forward and backward except the
        // first; and of both weights.
        assert_eq!((count("dot"), count("pad")), (2 * steps + 2, 0), "{steps} steps");
        // Expect one copy that the cotangents of the state in all steps share, and one of the inputs.
        let copies = train.plan().launches.iter().filter(|launch| launch.kernel.name() == "copy").count();
        assert_eq!(copies, 2, "{steps} steps");
        train.plan().totals.peak()
    };
    // Compile more steps than the limit of any search. Memory is proportional to the number of steps.
    let (some, many) = (plan(50), plan(200));
    assert!(many < 5 * some, "{some} and {many} bytes");
}

/// Dropout zeroes each attention weight with its probability, and scales the others. The values are unit
/// vectors, so that the outputs are the weights.
#[test]
fn attention_drops_weights_with_their_probability() {
    const KEYS: usize = 96;
    const P: f64 = 0.3;
    let param = || Param::new([2, 4, KEYS, 8], Init::Normal { std: 1.0 });
    let mut train = Trainer::new((param(), param()))
        .inputs([])
        .loss(|(q, k), []: [Tensor; 0]| {
            let values = eye(KEYS).reshape([1, 1, KEYS, KEYS]).broadcast_to([2, 4, KEYS, KEYS]);
            let weights = |options| q.tensor().attention(k.tensor(), values, options);
            weights(AttentionOptions::causal()).capture("all");
            let kept = weights(AttentionOptions::causal().dropout(P));
            kept.capture("kept");
            kept.mean() * 0.0
        })
        .optimizer(Sgd::new(0.1))
        .compile(&Device::cpu())
        .unwrap();
    let mut draws: Vec<Vec<bool>> = Vec::new();
    for _ in 0..3 {
        let step = train.step([] as [&[f32]; 0]).unwrap();
        let [all, kept] = ["all", "kept"].map(|name| step.get(name).unwrap().to_vec());
        let visible = all.iter().zip(&kept).filter(|(all, _)| **all > 0.0);
        let is_kept: Vec<bool> = visible.clone().map(|(_, &kept)| kept != 0.0).collect();
        for (&all, &kept) in visible.filter(|(_, kept)| **kept != 0.0) {
            // The probability is rounded by less than a thousandth of it.
            let expected = all / (1.0 - P as f32);
            assert!((kept - expected).abs() <= 1e-3 * expected, "{kept} instead of {expected}");
        }
        // Six standard deviations of the share of a binomial distribution.
        let share = is_kept.iter().filter(|&&kept| !kept).count() as f64 / is_kept.len() as f64;
        let deviation = (P * (1.0 - P) / is_kept.len() as f64).sqrt();
        assert!((share - P).abs() < 6.0 * deviation, "{share} of {} are dropped", is_kept.len());
        assert!(!draws.contains(&is_kept), "a step drops what an earlier one dropped");
        draws.push(is_kept);
    }
}
