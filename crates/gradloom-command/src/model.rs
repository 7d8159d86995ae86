//! Models compiled for training and evaluation, or ready to generate.

use crate::failure::{Failure, Result};
use crate::tokenizer::AnyTokenizer;
use crate::train::settings::{Settings, invalid_model};
use crate::world;
use gradloom::ir::Type;
use gradloom::nn::{Module, Visitor};
use gradloom::{AdamW, Device, ErrorKind, Infer, Schedule, Session, Tensor, Train, Trainer, i32};
use gradloom_models::any_model::{AnyConfig, AnyModel};
use gradloom_models::data::{Tokens, held_out_windows};
use gradloom_models::generator::{Generator, GeneratorOptions};
use gradloom_models::language_model::{LanguageModel, Sizes};

/// A training program that takes ids and targets.
pub(crate) type ModelTrain = Train<AnyModel, 2>;

/// Returns the learning-rate schedule of a run: a warm-up, then half a cosine down to a tenth.
pub(crate) fn schedule(settings: &Settings) -> Schedule {
    let training = &settings.training;
    Schedule::warmup_cosine(training.lr, training.warmup, training.steps, training.lr / 10.0)
}

pub(crate) fn optimizer(settings: &Settings) -> AdamW {
    // GPT-3's betas (Brown et al., 2020, appendix B), which suit small runs too.
    AdamW::new(schedule(settings)).betas(0.9, 0.95).weight_decay(settings.training.weight_decay)
}

/// Remedies for a step that does not fit in memory, in the options of the command that compiles it.
#[derive(Clone, Copy)]
pub(crate) struct Smaller {
    pub(crate) step: &'static str,
    /// Remedy for a run with a memory budget.
    pub(crate) budgeted: &'static str,
}

/// Compiles the training step of a run. On a rank of a world, it has the rank's part of the batch.
pub(crate) fn compile(settings: &Settings, device: &Device, smaller: Smaller) -> Result<ModelTrain> {
    let training = &settings.training;
    let model = settings.model.build().map_err(|error| invalid_model(&error))?;
    if let Some(lora) = &settings.lora {
        lora.attach(&model)?;
    }
    let shape = [training.batch / device.ranks(), settings.model.context()];
    let mut trainer = Trainer::new(model)
        .inputs([i32("ids", shape), i32("targets", shape)])
        .loss(|model, [ids, targets]| model.loss(ids, targets))
        .optimizer(optimizer(settings))
        .seed(training.seed);
    if training.clip > 0.0 {
        trainer = trainer.clip_norm(training.clip);
    }
    if let Some(bytes) = training.memory_budget {
        trainer = trainer.memory_budget(bytes as u64);
    }
    world::configured(trainer).compile(device).map_err(|error| match error.kind() {
        ErrorKind::Plan if training.memory_budget.is_some() => {
            Failure::failed(error.message()).help(smaller.budgeted)
        }
        ErrorKind::Plan | ErrorKind::Device => Failure::failed(error.message()).help(smaller.step),
        _ => error.into(),
    })
}

/// Returns the names and types of a model's parameters.
pub(crate) fn parameter_types(config: &AnyConfig) -> Vec<(String, Type)> {
    let mut types = Vec::new();
    if let Ok(model) = config.build() {
        let mut add = |name: &str, param: &gradloom::Param| types.push((name.to_string(), param.ty()));
        model.visit(&mut Visitor::new(&mut add));
    }
    types
}

/// Evaluation of the loss on the held-out windows, without dropout.
pub(crate) struct Evaluator {
    program: Infer<2, Tensor>,
    windows: Vec<(Vec<i32>, Vec<i32>)>,
}

/// Maximum number of batches in a measurement.
const HELD_OUT_BATCHES: usize = 8;

impl Evaluator {
    pub(crate) fn new(train: &ModelTrain, held_out: &Tokens, batch: usize) -> Result<Self> {
        let context = train.model().sizes().context;
        // The windows are the same for any number of ranks, but there is memory for a rank's part alone.
        let rows = batch / train.device().ranks();
        let shape = [rows, context];
        let program = train.infer([i32("ids", shape), i32("targets", shape)], |m, [x, y]| m.loss(x, y))?;
        let mut windows = Vec::new();
        for (ids, targets) in held_out_windows(held_out, batch, context, HELD_OUT_BATCHES)? {
            let parts = ids.chunks(rows * context).zip(targets.chunks(rows * context));
            windows.extend(parts.map(|(ids, targets)| (ids.to_vec(), targets.to_vec())));
        }
        Ok(Self { program, windows })
    }

    /// Returns the mean loss in nats per token; it may be infinite or NaN.
    pub(crate) fn loss(&mut self) -> Result<f32> {
        let mut sum = 0.0;
        for (ids, targets) in &self.windows {
            sum += f64::from(self.program.run((ids, targets))?[0]);
        }
        Ok((sum / self.windows.len() as f64) as f32)
    }
}

/// Creates a generator with room for `texts` texts of `tokens` tokens each, which samples only tokens of the
/// tokenizer.
pub(crate) fn generator(
    session: &Session<AnyModel>,
    tokenizer: &AnyTokenizer,
    texts: usize,
    tokens: usize,
) -> Result<Generator> {
    let Sizes { context, vocabulary, .. } = session.model().sizes();
    // Exclude the tokens of the model that the tokenizer lacks, because they have no text.
    let vocabulary = Some(vocabulary.min(tokenizer.get().vocabulary()));
    let options = GeneratorOptions::holding(texts, tokens.min(context));
    Ok(Generator::new(session, GeneratorOptions { vocabulary, ..options })?)
}
