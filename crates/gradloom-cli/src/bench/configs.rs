//! The named configurations.

use super::peers::{self, Shape};
use super::report::Report;
use super::timing::measure;
use crate::failure::{Failure, Result};
use crate::train::settings::invalid_model;
use gradloom::nn::{Linear, Module};
use gradloom::{Adam, AdamW, Device, Tensor, Trainer, f32, i32};
use gradloom_models::data::Batches;
use gradloom_models::gpt2::{Gpt2, Gpt2Config};
use std::path::Path;
use std::time::Instant;

/// A training step with a name. What a name means never changes: a different step gets a new name.
#[derive(Clone, Debug)]
pub(super) struct Config {
    pub(super) name: &'static str,
    /// Steps in all.
    steps: u64,
    /// Of these, steps that are not timed.
    warm: u64,
    kind: Kind,
}

#[derive(Clone, Debug)]
enum Kind {
    Gpt2 { model: Gpt2Config, batch: usize },
    MlpSin,
}

const fn gpt2(sizes: [usize; 5], batch: usize) -> Kind {
    let [vocabulary, width, heads, layers, context] = sizes;
    Kind::Gpt2 { model: Gpt2Config { vocabulary, context, width, heads, layers, dropout: 0.0 }, batch }
}

const CONFIGS: [Config; 4] = [
    Config { name: "S", steps: 60, warm: 10, kind: gpt2([256, 128, 4, 4, 128], 8) },
    Config { name: "M", steps: 16, warm: 4, kind: gpt2([8192, 384, 6, 6, 256], 4) },
    Config { name: "mlp-sin", steps: 1000, warm: 100, kind: Kind::MlpSin },
    Config { name: "gpt2-124m", steps: 6, warm: 2, kind: gpt2([50257, 768, 12, 12, 1024], 4) },
];

impl Config {
    pub(super) fn find(name: &str) -> Option<Config> {
        CONFIGS.into_iter().find(|config| config.name == name)
    }

    pub(super) fn names() -> String {
        CONFIGS.map(|config| config.name).join(", ")
    }

    /// Compiles and times the step.
    pub(super) fn run(self, device: &Device, steps: Option<u64>, data: Option<&Path>) -> Result<Report> {
        let steps = steps.unwrap_or(self.steps);
        let warm = self.warm.min(steps - 1);
        match &self.kind {
            Kind::Gpt2 { model, batch } => self.gpt2(model, *batch, device, (steps, warm), data),
            Kind::MlpSin if data.is_some() => {
                Err(Failure::usage("--data-dir: the configuration mlp-sin takes no data")
                    .help("leave it out"))
            }
            Kind::MlpSin => self.mlp_sin(device, (steps, warm)),
        }
    }

    fn gpt2(
        &self,
        config: &Gpt2Config,
        batch: usize,
        device: &Device,
        (steps, warm): (u64, u64),
        data: Option<&Path>,
    ) -> Result<Report> {
        let given = data
            .map(|folder| peers::load(folder, self.name, &Shape { model: config.clone(), batch }))
            .transpose()?;
        let shape = [batch, config.context];
        let began = Instant::now();
        let mut train = Trainer::new(Gpt2::new(config).map_err(|error| invalid_model(&error))?)
            .inputs([i32("ids", shape), i32("targets", shape)])
            .loss(|model, [ids, targets]| model.loss(ids, targets))
            .optimizer(AdamW::new(3e-4).betas(0.9, 0.999).epsilon(1e-8).weight_decay(0.01).decay_everything())
            .compile(device)?;
        let compile = began.elapsed();
        let (ids, targets) = match &given {
            Some(given) => {
                given.restore(&train.store())?;
                given.batch()
            }
            None => {
                let vocabulary = config.vocabulary as u32;
                let token = |i: u32| (i.wrapping_mul(2_654_435_761) >> 8) % vocabulary;
                let tokens: Vec<i32> = (0..65_536).map(|i| token(i) as i32).collect();
                Batches::new(1234, batch, config.context).draw(0, &tokens)
            }
        };
        let timing = measure(steps, warm, || Ok(train.step((&ids, &targets))?.loss()?))?;
        Ok(Report::new(self.name, &train, &timing, compile, Some(batch * config.context)))
    }

    /// A perceptron with two hidden layers of 64 learns sin on 256 points: small kernels, so what counts is the cost of a launch.
    fn mlp_sin(&self, device: &Device, (steps, warm): (u64, u64)) -> Result<Report> {
        const POINTS: usize = 256;
        let xs: Vec<f32> = (0..POINTS).map(|i| (i as f32 / 255.0 - 0.5) * 6.0).collect();
        let ys: Vec<f32> = xs.iter().map(|x| libm::sinf(*x)).collect();
        let model = Mlp { first: Linear::new(1, 64), second: Linear::new(64, 64), third: Linear::new(64, 1) };
        let began = Instant::now();
        let mut train = Trainer::new(model)
            .inputs([f32("x", [POINTS, 1]), f32("y", [POINTS, 1])])
            .loss(|model, [x, y]| (model.forward(x) - y).square().mean())
            .optimizer(Adam::new(5e-3))
            .compile(device)?;
        let compile = began.elapsed();
        let timing = measure(steps, warm, || Ok(train.step([&xs, &ys])?.loss()?))?;
        Ok(Report::new(self.name, &train, &timing, compile, None))
    }
}

#[derive(Debug, Module)]
struct Mlp {
    first: Linear,
    second: Linear,
    third: Linear,
}

impl Mlp {
    fn forward(&self, x: Tensor) -> Tensor {
        let hidden = self.second.forward(self.first.forward(x).relu()).relu();
        self.third.forward(hidden)
    }
}
