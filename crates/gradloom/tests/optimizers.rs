//! Compares fifty steps of optimizers with PyTorch in float64: see `scripts/oracle/optimizers.py`.

mod common;

use common::{Oracle, assert_near, widen};
use gradloom::ir::ValueId;
use gradloom::optim::{DecayRule, Hyperparameters, StepBuilder, Trainable};
use gradloom::prelude::*;
use std::collections::BTreeSet;

/// Steps after which the file has the parameters.
const KEPT: [usize; 8] = [1, 2, 5, 10, 20, 30, 40, 50];

#[derive(Module)]
struct Model {
    matrix: Param,
    vector: Param,
}

fn check(tested: &mut BTreeSet<String>, name: &str, optimizer: impl gradloom::optim::Optimizer) {
    check_with(tested, name, optimizer, |trainer| trainer, "");
}

/// Compares an optimizer with further settings; `prefix` selects the entries of the store to compare.
fn check_with(
    tested: &mut BTreeSet<String>,
    name: &str,
    optimizer: impl gradloom::optim::Optimizer,
    settings: impl FnOnce(Trainer<Model, 4>) -> Trainer<Model, 4>,
    prefix: &str,
) {
    let oracle = Oracle::load("optimizers.safetensors");
    let param = |key: &str| Param::of_shape(oracle.shape(key), Init::Values(oracle.f32(key).into()));
    let model = Model { matrix: param("matrix"), vector: param("vector") };
    let inputs = [
        f32("matrix.curvature", [3, 4]),
        f32("matrix.slope", [3, 4]),
        f32("vector.curvature", [5]),
        f32("vector.slope", [5]),
    ];
    let data: Vec<Vec<f32>> = inputs.iter().map(|input| oracle.f32(&input.name)).collect();
    let trainer = Trainer::new(model)
        .inputs(inputs)
        .loss(|m, [matrix_curvature, matrix_slope, vector_curvature, vector_slope]| {
            let loss = |p: &Param, curvature: Tensor, slope: Tensor| {
                (0.5 * curvature * p.tensor().square() - slope * p).sum()
            };
            loss(&m.matrix, matrix_curvature, matrix_slope) + loss(&m.vector, vector_curvature, vector_slope)
        })
        .optimizer(optimizer);
    let mut train = settings(trainer).compile(&Device::cpu()).unwrap();
    for step in 1..=50 {
        train.step([&data[0], &data[1], &data[2], &data[3]]).unwrap().loss().unwrap();
        let Some(row) = KEPT.iter().position(|&kept| kept == step) else { continue };
        for key in ["matrix", "vector"] {
            let got = widen(&train.store().read_f32(&format!("{prefix}{key}")).unwrap());
            let case = format!("{name}/{key}");
            let want = &oracle.get(&case)[row * got.len()..][..got.len()];
            assert_near(&format!("{case}, step {step}"), &got, want, 5e-5, 0.1);
            tested.insert(case);
        }
    }
}

#[test]
fn fifty_steps_agree_with_pytorch() {
    let tested = &mut BTreeSet::new();
    let rmsprop = RmsProp::new(0.02).alpha(0.95).epsilon(1e-2).weight_decay(0.05).decay_everything();
    check(tested, "rmsprop", rmsprop);
    let centered = RmsProp::new(0.01).alpha(0.9).epsilon(1e-6).momentum(0.8).centered();
    check(tested, "rmsprop_centered", centered);
    let sgd = || Sgd::new(0.1).momentum(0.5);
    check_with(tested, "clip_norm", sgd(), |t| t.clip_norm(0.5), "");
    check_with(tested, "clip_value", sgd(), |t| t.clip_value(0.3), "");
    check_with(tested, "clip_both", sgd(), |t| t.clip_value(0.3).clip_norm(0.5), "");
    check_with(tested, "normalize", sgd(), |t| t.normalize_gradients("*"), "");
    check_with(tested, "normalize_vector", sgd(), |t| t.normalize_gradients("v*"), "");
    check_with(tested, "average", Sgd::new(0.1), |t| t.average(0.8), "optim.average.");
    let falling = Schedule::Exponential { peak: 0.1, gamma: 0.95 };
    let groups = Groups::new(Adam::new(1.0))
        .group("mat*", AdamW::new(0.02).betas(0.8, 0.95).weight_decay(0.1))
        .group("*", Sgd::new(falling).momentum(0.5));
    check(tested, "groups", groups);
    let adagrad = Adagrad::new(0.2).initial(0.1).epsilon(1e-8).weight_decay(0.05).decay_everything();
    check(tested, "adagrad", adagrad);
    let adafactor = Adafactor::new(0.004).beta2_decay(-0.7).epsilon1(1e-5).epsilon2(1e-2).threshold(1.1);
    check(tested, "adafactor", adafactor.weight_decay(0.05).decay_everything());
    let adamw = AdamW::new(0.05).betas(0.8, 0.95).epsilon(1e-6).weight_decay(0.1).decay_everything();
    check(tested, "adamw", adamw);
    check(tested, "lion", Lion::new(0.02).beta2(0.95).weight_decay(0.1).decay_everything());
    let muon = || Muon::new(0.05).momentum(0.9).others_rate(0.5).decay_everything();
    check(tested, "muon", muon());
    check(tested, "muon_plain", muon().without_nesterov().match_adam());
    let oracle = Oracle::load("optimizers.safetensors");
    let wanted: BTreeSet<String> =
        oracle.names().filter(|name| name.contains('/')).map(String::from).collect();
    assert_eq!(*tested, wanted, "what the file has and what was compared");
}

/// User-defined gradient descent, with weight decay by a rule.
struct Plain {
    rate: Schedule,
    rule: DecayRule,
}

impl gradloom::optim::Optimizer for Plain {
    fn schedule(&self) -> &Schedule {
        &self.rate
    }
    fn hyperparameters(&self) -> Hyperparameters {
        Hyperparameters::from_iter([("weight_decay".to_string(), 0.5)])
    }
    fn derive(&self, _: &mut Hyperparameters) -> Result<()> {
        Ok(())
    }
    fn update(&self, step: &mut StepBuilder<'_, '_>, parameter: &Trainable) -> ValueId {
        assert_eq!(self.rule.applies(step.builder.graph, parameter), parameter.name != "bias");
        let gradient = step.with_decay(parameter, self.rule);
        step.descend(parameter.value, gradient)
    }
}

#[test]
fn a_users_optimizer_decays_by_a_rule() {
    let mut layer = Linear::new(1, 1).init(Init::Ones);
    layer.bias = Some(Param::new([1], Init::Ones));
    let mut train = Trainer::new(layer)
        .inputs([f32("x", [1, 1])])
        .loss(|m, [x]| m.forward(x).sum())
        .optimizer(Plain { rate: Schedule::Constant(0.5), rule: DecayRule::Matrices })
        .compile(&Device::cpu())
        .unwrap();
    train.step([&[2.0f32]]).unwrap().loss().unwrap();
    // 1 - 0.5 (2 + 0.5 · 1), and 1 - 0.5 · 1 without decay.
    assert_eq!(train.store().read_f32("weight").unwrap(), [-0.25]);
    assert_eq!(train.store().read_f32("bias").unwrap(), [0.5]);
}
