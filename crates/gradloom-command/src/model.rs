//! A model compiled for training, measuring and writing.

use crate::failure::{Failure, Result};
use crate::tokenizer::AnyTokenizer;
use crate::train::settings::{Settings, invalid_any};
use gradloom::ir::Type;
use gradloom::nn::{Module, Visitor};
use gradloom::{AdamW, Device, ErrorKind, Infer, Schedule, Session, Tensor, Train, Trainer, i32};
use gradloom_models::any_model::{AnyConfig, AnyModel};
use gradloom_models::data::{Tokens, held_out_windows};
use gradloom_models::generate::{Sampling, StopStream, Window, generate};
use gradloom_models::kv::{Decoder, TextCache};
use gradloom_models::language_model::{LanguageModel, Sizes};
use std::ops::ControlFlow;

/// A training program that takes ids and targets.
pub(crate) type ModelTrain = Train<AnyModel, 2>;

/// The learning rate over a run: a rise, then half a cosine down to a tenth.
pub(crate) fn schedule(settings: &Settings) -> Schedule {
    let training = &settings.training;
    Schedule::warmup_cosine(training.lr, training.warmup, training.steps, training.lr / 10.0)
}

/// The optimizer of a run.
pub(crate) fn optimizer(settings: &Settings) -> AdamW {
    // GPT-3's betas (Brown et al., 2020, appendix B), which suit small runs too.
    AdamW::new(schedule(settings)).betas(0.9, 0.95).weight_decay(settings.training.weight_decay)
}

/// Remedies where a step has no room, in the options of the command that compiles it.
#[derive(Clone, Copy)]
pub(crate) struct Smaller {
    pub(crate) step: &'static str,
    /// Of a run that has a budget of memory.
    pub(crate) budgeted: &'static str,
}

/// Compiles the training step of a run.
pub(crate) fn compile(settings: &Settings, device: &Device, smaller: Smaller) -> Result<ModelTrain> {
    let training = &settings.training;
    let model = settings.model.build().map_err(|error| invalid_any(&error))?;
    if let Some(lora) = &settings.lora {
        lora.attach(&model)?;
    }
    let shape = [training.batch, settings.model.context()];
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
    trainer.compile(device).map_err(|error| match error.kind() {
        ErrorKind::Plan if training.memory_budget.is_some() => {
            Failure::failed(error.message()).help(smaller.budgeted)
        }
        ErrorKind::Plan | ErrorKind::Device => Failure::failed(error.message()).help(smaller.step),
        _ => error.into(),
    })
}

/// Names and types of a model's parameters.
pub(crate) fn parameter_types(config: &AnyConfig) -> Vec<(String, Type)> {
    let mut types = Vec::new();
    if let Ok(model) = config.build() {
        let mut add = |name: &str, param: &gradloom::Param| types.push((name.to_string(), param.ty()));
        model.visit(&mut Visitor::new(&mut add));
    }
    types
}

/// Measures the loss on the held-out windows, without dropout.
pub(crate) struct Evaluator {
    program: Infer<2, Tensor>,
    windows: Vec<(Vec<i32>, Vec<i32>)>,
}

/// Most batches of one measurement.
const HELD_OUT_BATCHES: usize = 8;

impl Evaluator {
    pub(crate) fn new(train: &ModelTrain, held_out: &Tokens, batch: usize) -> Result<Self> {
        let context = train.model().sizes().context;
        let shape = [batch, context];
        let program = train.infer([i32("ids", shape), i32("targets", shape)], |m, [x, y]| m.loss(x, y))?;
        Ok(Self { program, windows: held_out_windows(held_out, batch, context, HELD_OUT_BATCHES)? })
    }

    /// Mean loss in nats a token; it may be infinite or not a number.
    pub(crate) fn loss(&mut self) -> Result<f32> {
        let mut sum = 0.0;
        for (ids, targets) in &self.windows {
            sum += f64::from(self.program.run((ids, targets))?[0]);
        }
        Ok((sum / self.windows.len() as f64) as f32)
    }
}

/// A model that is to write one text.
pub(crate) struct Writer<'s, M> {
    decoder: Decoder<'s, M>,
    tokenizer: &'s AnyTokenizer,
    /// Tokens that end a text.
    ends: Vec<i32>,
    prompt: Vec<i32>,
    /// New tokens at most.
    count: u64,
    context: usize,
}

/// What came of a text.
pub(crate) struct Written {
    /// Number of tokens.
    pub(crate) tokens: u64,
    /// Why there are no more, in a word.
    pub(crate) finish: &'static str,
}

impl<'s, M: LanguageModel> Writer<'s, M> {
    /// For up to `count` tokens after a prompt, over the parameters of a session, all of which exist from
    /// here on. Keys and values have room for that, and not for a whole context that is longer.
    pub(crate) fn new(
        session: &'s Session<M>,
        tokenizer: &'s AnyTokenizer,
        ends: Vec<i32>,
        prompt: Vec<i32>,
        count: u64,
    ) -> Result<Self> {
        const BLOCK: usize = 16;
        let sizes = session.model().sizes();
        let longest = prompt.len().saturating_add(usize::try_from(count).unwrap_or(usize::MAX));
        // The decoder fills up a prompt to a power of two.
        let longest = longest.max(prompt.len().next_power_of_two()).min(sizes.context);
        let room = Sizes { context: longest.next_multiple_of(BLOCK).min(sizes.context), ..sizes };
        let decoder = Decoder::over(session, TextCache::new(room, "cache"))?;
        Ok(Self { decoder, tokenizer, ends, prompt, count, context: sizes.context })
    }

    /// Writes the text, at most up to the first of the stop strings; each piece of text is handed on as soon
    /// as its characters are whole, and no part of a stop string.
    pub(crate) fn write(
        &mut self,
        sampling: &Sampling,
        stops: &[String],
        mut on_text: impl FnMut(&str) -> ControlFlow<()>,
    ) -> Result<Written> {
        let (ends, vocabulary) = (&self.ends, self.tokenizer.get().vocabulary());
        let mut written = Written { tokens: 0, finish: "length" };
        let mut stream = StopStream::new(stops);
        let (tokenizer, mut bytes) = (self.tokenizer.get(), Vec::new());
        let mut stopped = false;
        let decoder = &mut self.decoder;
        let next_logits = |window: &Window| -> Result<Vec<f32>> {
            if window.known == 0 {
                decoder.reset()?;
            }
            let mut logits = decoder.feed(window.new_tokens())?;
            // A model may have more tokens than the tokenizer: those stand for nothing.
            logits.truncate(vocabulary);
            Ok(logits)
        };
        generate(&self.prompt, self.context, self.count, sampling, next_logits, |token| {
            if ends.contains(&token) {
                written.finish = "end";
                return ControlFlow::Break(());
            }
            written.tokens += 1;
            bytes.clear();
            tokenizer.decode(token, &mut bytes);
            let text = stream.push(&bytes);
            let goes_on = if text.is_empty() { ControlFlow::Continue(()) } else { on_text(&text) };
            stopped = goes_on.is_break();
            if stream.stopped().is_some() {
                written.finish = "stop";
                return ControlFlow::Break(());
            }
            goes_on
        })?;
        // What might have become a stop string, or a whole character.
        let rest = stream.finish();
        if !stopped && !rest.is_empty() {
            let _ = on_text(&rest);
        }
        Ok(written)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gradloom_models::data::Bytes;
    use gradloom_models::gpt2::{Gpt2, Gpt2Config};

    #[test]
    fn keys_and_values_have_room_for_a_text_and_no_more() {
        let config = Gpt2Config {
            vocabulary: 256,
            context: 100,
            width: 8,
            heads: 1,
            layers: 1,
            ..Gpt2Config::DEFAULT
        };
        let tokenizer = AnyTokenizer::Bytes(Bytes);
        for (prompt, count, room) in
            [(1, 0, 16), (3, 13, 16), (3, 14, 32), (20, 3, 32), (33, 4, 64), (1, u64::MAX, 100)]
        {
            let session = Session::new(Gpt2::new(&config).unwrap(), &Device::cpu(), 0).unwrap();
            let prompt: Vec<i32> = (0..prompt).collect();
            let sampling = Sampling { temperature: 0.0, ..Sampling::default() };
            let mut writer = Writer::new(&session, &tokenizer, vec![], prompt.clone(), count).unwrap();
            let entries = session.store().entries();
            let keys = entries.iter().find(|entry| entry.name == "cache.h.0.keys").unwrap();
            assert_eq!(keys.ty.shape[..], [1, 1, room, 8], "{} and {count}", prompt.len());
            if count < 20 {
                let written = writer.write(&sampling, &[], |_| ControlFlow::Continue(())).unwrap();
                assert_eq!(written.tokens, count);
            }
        }
    }
}
