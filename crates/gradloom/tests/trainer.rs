//! Tests options of a trainer other than loss and optimizer: micro-batches, frozen and unused parameters,
//! running averages.

use gradloom::Step;
use gradloom::plan::Plan;
use gradloom::prelude::*;

#[derive(Module)]
struct Net {
    first: Linear,
    norm: BatchNorm,
    last: Linear,
    unused: Linear,
    dropout: Dropout,
}

impl Net {
    fn new(dropout: f64) -> Self {
        Net {
            first: Linear::new(6, 16),
            norm: BatchNorm::new(16),
            last: Linear::new(16, 3),
            unused: Linear::new(2, 2),
            dropout: Dropout::new(dropout),
        }
    }

    fn loss(&self, x: Tensor, class: Tensor, normalized: bool) -> Tensor {
        let h = self.first.forward(x);
        let h = if normalized { self.norm.forward(h) } else { h };
        self.last.forward(self.dropout.forward(h.tanh())).cross_entropy(class)
    }
}

fn data(rows: usize) -> (Vec<f32>, Vec<i32>) {
    let x = (0..rows * 6).map(|i| ((i * 37 % 101) as f32 - 50.0) / 40.0).collect();
    (x, (0..rows as i32).map(|i| i * i % 3).collect())
}

/// Returns a trainer with `rows` rows per micro-batch, and `micro_batches` micro-batches per step.
fn trainer(rows: usize, micro_batches: usize) -> Trainer<Net, 2> {
    Trainer::new(Net::new(0.0))
        .inputs([f32("x", [rows, 6]), i32("class", [rows])])
        .loss(|net, [x, class]| net.loss(x, class, false))
        .optimizer(AdamW::new(1e-2))
        .allow_unused()
        .accumulate(micro_batches)
}

fn losses(train: &mut Train<Net, 2>, rows: usize) -> Vec<f32> {
    let (x, class) = data(rows);
    (0..6).map(|_| train.step((&x, &class)).unwrap().loss().unwrap()).collect()
}

#[test]
fn micro_batches_have_the_gradients_of_a_batch() {
    let device = Device::cpu();
    let whole = losses(&mut trainer(24, 1).compile(&device).unwrap(), 24);
    for (rows, micro_batches) in [(12, 2), (6, 4), (1, 24)] {
        let parts = losses(&mut trainer(rows, micro_batches).compile(&device).unwrap(), 24);
        for (step, (whole, part)) in whole.iter().zip(&parts).enumerate() {
            assert!(
                (whole - part).abs() < 2e-6,
                "{micro_batches} micro-batches, step {step}: {part}, not {whole}"
            );
        }
    }
    let mut train = trainer(6, 4).compile(&device).unwrap();
    let (x, class) = data(6);
    let error = train.step((&x, &class)).unwrap_err();
    let expected = "the input `x` is f32[6, 6], of which a step takes 4 micro-batches (144 elements), got 36";
    assert_eq!(error.message(), expected);
    assert!(error.remedies().eq(["pass 144 elements, row-major, one micro-batch after the other"]));
    assert!(trainer(6, 0).compile(&device).unwrap_err().to_string().contains("0 micro-batches"));
}

/// Activations dominate, and those of only one micro-batch are in memory at a time.
#[test]
fn one_micro_batch_is_in_memory() {
    let peak = |rows: usize, micro_batches: usize| {
        let shape = [rows, 64];
        let layers: Vec<Linear> = (0..6).map(|_| Linear::new(64, 64)).collect();
        let train = Trainer::new(layers)
            .inputs([f32("x", shape)])
            .loss(|layers, [x]| layers.iter().fold(x, |x, layer| layer.forward(x).tanh()).square().mean())
            .optimizer(Sgd::new(0.1))
            .accumulate(micro_batches)
            .compile(&Device::cpu())
            .unwrap();
        let plan: &Plan = train.plan();
        (plan.totals.step, plan.launches.len())
    };
    let ((one, launches), (four, many), (whole, _)) = (peak(512, 1), peak(512, 4), peak(2048, 1));
    let inputs = 2048 * 64 * 4;
    assert!(four < one + inputs + inputs / 4, "{four} bytes, {one} of one alone");
    assert!(four * 2 < whole, "{four} bytes, {whole} of a whole batch");
    assert!(many <= 5 * launches, "{many} launches, {launches} of one alone");
}

/// Statistics are carried from one micro-batch to the next, random numbers differ, and captures are
/// concatenated.
#[test]
fn states_random_numbers_and_captures_of_micro_batches() {
    let compile = |dropout: f64, micro_batches: usize| {
        Trainer::new(Net::new(dropout))
            .inputs([f32("x", [4, 6]), i32("class", [4])])
            .loss(|net, [x, class]| {
                let kept = net.dropout.forward(x);
                kept.capture("kept");
                kept.sum().capture("sum");
                net.loss(x, class, true)
            })
            .optimizer(Sgd::new(0.0))
            .allow_unused()
            .accumulate(micro_batches)
            .compile(&Device::cpu())
            .unwrap()
    };
    let (x, class) = data(8);
    let mut train = compile(0.0, 2);
    let step: Step = train.step((&x, &class)).unwrap();
    assert_eq!(step.get("kept").unwrap(), x);
    let half = |at: usize| x[at..at + 24].iter().sum::<f32>();
    assert!((step.get("sum").unwrap()[0] - (half(0) + half(24)) / 2.0).abs() < 1e-5);
    let mean = train.store().read_f32("norm.running_mean").unwrap();
    let mut one = compile(0.0, 1);
    for rows in 0..2 {
        one.step((&x[rows * 24..][..24], &class[rows * 4..][..4])).unwrap().loss().unwrap();
    }
    assert_eq!(mean, one.store().read_f32("norm.running_mean").unwrap());

    let mut train = compile(0.5, 2);
    let ones = vec![1.0f32; 48];
    let kept = train.step((&ones, &class)).unwrap().get("kept").unwrap();
    assert_ne!(kept[..24], kept[24..]);
    assert!(kept.iter().all(|&x| x == 0.0 || x == 2.0));
}

#[test]
fn frozen_parameters_stay() {
    let (x, class) = data(24);
    let mut train = trainer(24, 1).freeze("first.*").freeze("*.bias").compile(&Device::cpu()).unwrap();
    let read = |train: &Train<Net, 2>, name: &str| train.store().read_f32(name).unwrap();
    let names = ["first.weight", "first.bias", "last.bias", "last.weight"];
    let before = names.map(|name| read(&train, name));
    train.step((&x, &class)).unwrap().loss().unwrap();
    let stayed: Vec<bool> =
        names.iter().zip(before).map(|(name, before)| read(&train, name) == before).collect();
    assert_eq!(stayed, [true, true, true, false]);
    let error = trainer(24, 1).freeze("frist.*").compile(&Device::cpu()).unwrap_err().to_string();
    assert!(error.contains("`frist.*`") && error.contains("`first.weight`"), "{error}");
}

#[test]
fn unused_parameters_are_named() {
    let train = trainer(24, 1).compile(&Device::cpu()).unwrap();
    assert_eq!(train.unused_parameters(), ["norm.weight", "norm.bias", "unused.weight", "unused.bias"]);
    let error = Trainer::new(Net::new(0.0))
        .inputs([f32("x", [24, 6]), i32("class", [24])])
        .loss(|net, [x, class]| net.loss(x, class, false))
        .optimizer(AdamW::new(1e-2))
        .compile(&Device::cpu())
        .unwrap_err()
        .to_string();
    assert!(error.contains("`norm.weight`") && error.contains("Trainer::allow_unused"), "{error}");
}

#[test]
fn a_model_of_running_means() {
    let (x, class) = data(24);
    let mut train = trainer(24, 1).average(0.5).compile(&Device::cpu()).unwrap();
    let inputs = || [f32("x", [24, 6])];
    let forward = |net: &Net, [x]: [Tensor; 1]| net.last.forward(net.first.forward(x).tanh());
    let mut now = train.infer(inputs(), forward).unwrap();
    let mut average = train.infer_average(inputs(), forward).unwrap();
    train.step((&x, &class)).unwrap().loss().unwrap();
    assert_eq!(now.run([&x]).unwrap(), average.run([&x]).unwrap(), "the first mean is the parameter");
    let before = train.store().read_f32("last.weight").unwrap();
    train.step((&x, &class)).unwrap().loss().unwrap();
    let after = train.store().read_f32("last.weight").unwrap();
    let mean = train.store().read_f32("optim.average.last.weight").unwrap();
    for ((before, after), mean) in before.iter().zip(&after).zip(&mean) {
        assert!(((before + after) / 2.0 - mean).abs() < 1e-7);
    }
    assert_ne!(now.run([&x]).unwrap(), average.run([&x]).unwrap());
    let none = trainer(24, 1).compile(&Device::cpu()).unwrap();
    assert!(none.infer_average(inputs(), forward).unwrap_err().to_string().contains(".average(0.999)"));
}

#[test]
fn numbers_of_groups() {
    let optimizer = Groups::new(AdamW::new(1e-2)).group("*.bias", Sgd::new(0.5).momentum(0.9));
    let mut train = Trainer::new(Net::new(0.0))
        .inputs([f32("x", [24, 6]), i32("class", [24])])
        .loss(|net, [x, class]| net.loss(x, class, false))
        .optimizer(optimizer)
        .allow_unused()
        .compile(&Device::cpu())
        .unwrap();
    train.set_hyperparameter("*.bias:momentum", 0.5).unwrap();
    let error = train.set_hyperparameter("*.bias:momentum", 2.0).unwrap_err().to_string();
    assert!(error.contains("momentum") && error.contains("`*.bias`"), "{error}");
    let (x, class) = data(24);
    train.step((&x, &class)).unwrap().loss().unwrap();
    assert_eq!(train.hyperparameters()["*.bias:lr"], 0.5);
    let wrong = Groups::new(AdamW::new(1e-2)).group("*.gain", Sgd::new(0.5));
    let error = trainer(24, 1).optimizer(wrong).compile(&Device::cpu()).unwrap_err().to_string();
    assert!(error.contains("`*.gain`"), "{error}");
    let wrong = Groups::new(AdamW::new(1e-2)).group("*.bias", Sgd::new(0.5).nesterov());
    let error = trainer(24, 1).optimizer(wrong).compile(&Device::cpu()).unwrap_err();
    assert_eq!(error.message(), "`nesterov` of an optimizer without momentum");
}

/// Errors for wrong data show the declared type, wherever it was declared, and do not mention other ways to
/// declare it.
#[test]
fn wrong_data_is_told_as_it_was_declared() {
    let device = Device::cpu();
    let mut told = Vec::new();
    for micro_batches in [1, 2, 3] {
        let mut train = trainer(4, micro_batches).compile(&device).unwrap();
        let mut any = Trainer::new(Net::new(0.0))
            .inputs([f32("x", [4, 6]), i32("class", [4])])
            .loss_for_any_batch(|net, [x, class]| net.loss(x, class, false))
            .optimizer(AdamW::new(1e-2))
            .allow_unused()
            .accumulate(micro_batches)
            .compile(&device)
            .unwrap();
        let mut tell = |error: gradloom::Error| told.push((micro_batches, error));
        let (x, class) = data(4 * micro_batches);
        let floats = vec![0.0; class.len()];
        tell(train.step((&x[1..], &class)).unwrap_err());
        tell(train.step((&x, &floats)).unwrap_err());
        tell(train.find_not_finite(&Device::cpu(), (&x[1..], &class)).unwrap_err());
        tell(train.verify((&x[1..], &class)).unwrap_err());
        tell(any.step((&x[1..], &class)).unwrap_err());
        tell(any.step((&x, &class[1..])).unwrap_err());
        let tensor = device.upload(&[0.0f32; 6], [3, 2]).unwrap();
        tell(train.step_with(&[(&tensor).into(), (&class).into()]).unwrap_err());
    }
    let session = Session::new(Net::new(0.0), &device, 0).unwrap();
    let inputs = || [f32("x", [4, 6]), i32("class", [4])];
    let loss = |net: &Net, [x, class]: [Tensor; 2]| net.loss(x, class, false);
    let mut infer = session.infer(inputs(), loss).unwrap();
    let mut any = session.infer_any_batch(inputs(), loss).unwrap();
    let (x, class) = data(4);
    let mut tell = |error: gradloom::Error| told.push((1, error));
    tell(infer.run((&x[1..], &class)).unwrap_err());
    tell(infer.run((&x, &class[1..])).unwrap_err());
    tell(infer.queue(&[(&x[1..]).into(), (&class).into()]).unwrap_err());
    tell(any.run((&x[1..], &class)).unwrap_err());
    tell(session.check_gradients(inputs(), (&x[1..], &class), loss).unwrap_err());
    assert_eq!(told.len(), 26);
    for (micro_batches, error) in told {
        let text = error.to_string();
        let is_declared = ["the input `x` is f32[4, 6]", "the input `class` is i32[4]"];
        assert!(is_declared.iter().any(|told| error.message().starts_with(told)), "{text}");
        let micro = format!(", of which a step takes {micro_batches} micro-batches");
        assert_eq!(error.message().contains(&micro), micro_batches > 1, "{text}");
        assert!(!text.contains(".inputs(") && !text.contains("infer"), "{text}");
        assert_eq!(error.remedies().count(), 1, "{text}");
    }
}
