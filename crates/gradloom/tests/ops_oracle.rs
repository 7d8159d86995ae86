//! Compares single ops and optimizers with PyTorch in float64; the cases are in `scripts/oracle/ops.py`.

mod common;

use common::{Oracle, assert_near, widen};
use gradloom::prelude::*;
use gradloom::trace::{Input, Tensor};

const FILE: &str = "ops_oracle.safetensors";

/// Model whose parameters are the named tensors of a case, so that their gradients can be computed.
#[derive(Module)]
struct Leaves(Vec<Param>);

/// Runs `f` on f32 tensors of a case on the CPU. Returns its result and the gradients of `sum(f · upstream)`.
fn run(
    oracle: &Oracle,
    case: &str,
    names: &[&str],
    f: impl Fn(&[Tensor]) -> Tensor,
) -> (Vec<f32>, Vec<Vec<f32>>) {
    let input = |name: &str| Input {
        name: name.to_string(),
        ty: gradloom::ir::Type::new(DType::F32, oracle.shape(&format!("{case}.{name}"))),
    };
    // `infer` takes an array of inputs, whose number differs between the cases, so the graph is traced
    // directly.
    let mut traced = gradloom::trace::trace(
        &Leaves(Vec::new()),
        &names.iter().chain(&["upstream"]).map(|n| input(n)).collect::<Vec<_>>(),
        false,
        |x| {
            let (upstream, x) = x.split_last().unwrap();
            let y = f(x);
            let loss = (y * upstream).sum();
            std::iter::once(y).chain(x.iter().map(|&x| gradloom::gradients(loss, [x])[0])).collect::<Vec<_>>()
        },
        |results| results,
    )
    .unwrap();
    for (i, &value) in traced.results.iter().enumerate() {
        traced.graph.outputs.push(gradloom::ir::Output { name: format!("{i}"), value });
    }
    let data: Vec<Vec<f32>> =
        names.iter().chain(&["upstream"]).map(|n| oracle.f32(&format!("{case}.{n}"))).collect();
    let mut outputs = gradloom::runtime::run_once(traced.graph, &Device::cpu(), &data).unwrap();
    let y = outputs.remove(0);
    (y, outputs)
}

fn check(case: &str, names: &[&str], f: impl Fn(&[Tensor]) -> Tensor) {
    let oracle = Oracle::load(FILE);
    let (y, gradients) = run(&oracle, case, names, f);
    assert_near(&format!("{case}.y"), &widen(&y), oracle.get(&format!("{case}.y")), 1e-6, 1e-6);
    for (name, gradient) in names.iter().zip(&gradients) {
        let want = oracle.get(&format!("{case}.grad.{name}"));
        assert_near(&format!("{case}.grad.{name}"), &widen(gradient), want, 5e-6, 1e-3);
    }
}

#[test]
fn layer_norm() {
    check("layer_norm", &["x", "weight", "bias"], |x| {
        let centred = x[0] - x[0].mean_keep(-1);
        centred * (centred.square().mean_keep(-1) + 1e-5).rsqrt() * x[1] + x[2]
    });
}

#[test]
fn gelu_in_both_forms() {
    check("gelu", &["x"], |x| x[0].gelu());
    check("gelu_tanh", &["x"], |x| x[0].gelu_tanh());
}

#[test]
fn softmax_over_either_axis() {
    check("softmax", &["x"], |x| x[0].softmax(-1));
    check("softmax_axis0", &["x"], |x| x[0].softmax(0));
}

#[test]
fn attention() {
    check("attention", &["q", "k", "v"], |x| x[0].attention(x[1], x[2], AttentionOptions::causal()));
    let constant = |value: f64| gradloom::full(DType::I32, gradloom::ir::Shape::scalar(), value);
    check("attention_offset", &["q", "k", "v"], |x| {
        x[0].attention(x[1], x[2], AttentionOptions::causal().query_offset(constant(2.0)))
    });
    check("attention_key_length", &["q", "k", "v"], |x| {
        x[0].attention(x[1], x[2], AttentionOptions::full().key_length(constant(3.0)))
    });
}

#[test]
fn cross_entropy_on_rows_that_do_not_sum_to_one() {
    let oracle = Oracle::load(FILE);
    let logits = oracle.f32("cross_entropy.logits");
    let mut train = Trainer::new(Leaves(vec![Param::new([6, 9], Init::Values(logits.into()))]))
        .inputs([f32("targets", [6, 9])])
        .loss(|m, [targets]| m.0[0].tensor().cross_entropy(targets))
        .optimizer(Sgd::new(1.0))
        .compile(&Device::cpu())
        .unwrap();
    let mut gradient = train
        .infer([f32("targets", [6, 9])], |m, [targets]| {
            let logits = m.0[0].tensor();
            gradloom::gradients(logits.cross_entropy(targets), [logits])
        })
        .unwrap();
    let targets = oracle.f32("cross_entropy.targets");
    let [gradient] = gradient.run([&targets]).unwrap();
    assert_near("gradient", &widen(&gradient), oracle.get("cross_entropy.grad.logits"), 1e-5, 1e-3);
    assert!(gradient[2 * 9..3 * 9].iter().all(|&g| g == 0.0), "a row of zeros has no gradient");
    let loss = train.step([&targets]).unwrap().loss().unwrap();
    assert_near("loss", &[loss.into()], oracle.get("cross_entropy.y"), 1e-6, 0.0);
}

/// Minimizes the quadratic in the file, and compares parameters and losses after each step.
fn check_optimizer(case: &str, optimizer: impl gradloom::optim::Optimizer) {
    let oracle = Oracle::load(FILE);
    let weight = Param::new([3, 4], Init::Values(oracle.f32("quadratic.w").into()));
    let mut train = Trainer::new((weight,))
        .inputs([f32("curvature", [3, 4]), f32("slope", [3, 4])])
        .loss(|(w,), [curvature, slope]| (0.5 * curvature * w.tensor().square() - slope * w).sum())
        .optimizer(optimizer)
        .compile(&Device::cpu())
        .unwrap();
    let (curvature, slope) = (oracle.f32("quadratic.curvature"), oracle.f32("quadratic.slope"));
    let name = train.store().entries()[0].name.clone();
    for (i, &want) in oracle.get(&format!("{case}.losses")).iter().enumerate() {
        let loss = f64::from(train.step([&curvature, &slope]).unwrap().loss().unwrap());
        assert!(
            (loss - want).abs() <= 2e-5 * want.abs().max(0.1),
            "{case}: loss {loss} of step {i}, {want} wanted"
        );
        let weights = widen(&train.store().read_f32(&name).unwrap());
        assert_near(
            &format!("{case}, step {i}"),
            &weights,
            &oracle.get(&format!("{case}.w"))[i * 12..][..12],
            2e-6,
            0.1,
        );
    }
}

#[test]
fn sgd_with_momentum() {
    let o = Oracle::load(FILE);
    let sgd = |case: &str| {
        Sgd::new(o.number(&format!("{case}.lr")))
            .momentum(o.number(&format!("{case}.momentum")))
            .weight_decay(o.number(&format!("{case}.weight_decay")))
    };
    check_optimizer("sgd", sgd("sgd"));
    check_optimizer("sgd_nesterov", sgd("sgd_nesterov").nesterov());
}

#[test]
fn adam_and_adamw() {
    let o = Oracle::load(FILE);
    let get = |case: &str, name: &str| o.number(&format!("{case}.{name}"));
    let adam = Adam::new(get("adam", "lr"))
        .betas(get("adam", "beta1"), get("adam", "beta2"))
        .epsilon(get("adam", "eps"))
        .weight_decay(get("adam", "weight_decay"));
    check_optimizer("adam", adam);
    let adamw = AdamW::new(get("adamw", "lr"))
        .betas(get("adamw", "beta1"), get("adamw", "beta2"))
        .epsilon(get("adamw", "eps"))
        .weight_decay(get("adamw", "weight_decay"));
    check_optimizer("adamw", adamw);
}
