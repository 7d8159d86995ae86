//! The training loop: steps, evaluations, and the end of a run.

use super::begin::Run;
use super::interrupt;
use super::progress::{Progress, Spent};
use super::saving::{Files, Saving, resume_line};
use crate::failure::{Failure, Result};
use crate::format::thousands;
use crate::model::{self, Evaluator, ModelTrain};
use crate::output::{printable, program, quoted, say, tell};
use crate::run::{Event, Measurement, Reason};
use crate::source::ends;
use crate::tokenizer::AnyTokenizer;
use crate::world::{self, Agreement};
use gradloom::{CpuDevice as _, Device, ErrorKind};
use gradloom_models::data::{Batches, Split};
use gradloom_models::decoding::Sampling;
use gradloom_models::generator::{Request, TextGenerator};
use gradloom_models::hugging_face::Generation;
use gradloom_models::language_model::LanguageModel;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Runs the remaining steps, then writes the run's final files.
pub(super) fn train(run: Run, debug_nan: bool) -> Result<()> {
    let Run { files, data, tokenizer, train, evaluator, writer, spare, steps } = run;
    let training = &files.settings.training;
    let mut course = Course {
        progress: Progress::new(training.steps, steps, training.batch * files.settings.model.context()),
        saving: Saving::new(Arc::clone(&files), writer, spare, steps),
        proven: steps,
        made: None,
        files: Arc::clone(&files),
        train,
        evaluator,
        steps,
        debug_nan,
    };
    let result = course.go(&data);
    course.progress.clear();
    let is_done = course.steps == training.steps;
    // Generate the text while the last state is being written.
    let result = result.and_then(|()| if is_done { course.sample(&tokenizer).map(Some) } else { Ok(None) });
    let settled = course.timed(|spent| &mut spent.saving, |course| course.saving.settle());
    course.progress.finish(course.steps);
    // Report the first of two failures, which is more informative.
    let result = result.and_then(|text| settled.map(|()| text));
    let result = result.and_then(|text| text.map_or(Ok(()), |text| finish(&files, &text)));
    let result = result.map_err(|failure| match failure.is_of_world() {
        true => course.saving.after_loss(failure),
        false => failure,
    });
    let reason = match &result {
        Err(_) => Reason::Failed,
        Ok(()) if is_done => Reason::Done,
        Ok(()) => Reason::Interrupted,
    };
    let message = result.as_ref().err().map(|failure| failure.message().to_string());
    let ended = files.events.push(course.steps, &Event::Ended(course.progress.ending(reason, message)));
    result.and(ended)?;
    if !is_done {
        let (made, steps) = (thousands(course.steps), thousands(training.steps));
        say!("\nstopped after step {made} of {steps}, and saved. Go on with");
        say!("  {}", resume_line(&files.folder));
    }
    Ok(())
}

/// A run in progress.
struct Course {
    files: Arc<Files>,
    train: ModelTrain,
    evaluator: Evaluator,
    progress: Progress,
    saving: Saving,
    /// Number of completed steps.
    steps: u64,
    /// Last step after which the held-out loss was finite.
    proven: u64,
    /// The last step, until it is recorded.
    made: Option<Made>,
    /// True if the op that caused a non-finite loss should be searched for.
    debug_nan: bool,
}

/// A completed step.
struct Made {
    row: Measurement,
    gradient_norm: Option<f32>,
    tokens_per_s: Option<f64>,
}

impl Course {
    /// Runs steps until the end or an interruption, and starts saving the last state.
    fn go(&mut self, data: &Split) -> Result<()> {
        let result = self.make_steps(data);
        let recorded = self.record();
        result.and(recorded)?;
        // Compute the held-out loss, because no further step will prove the state.
        if self.proven != self.steps {
            self.held_out()?;
        }
        self.hold()?;
        self.saving.proven();
        Ok(())
    }

    fn make_steps(&mut self, data: &Split) -> Result<()> {
        let files = Arc::clone(&self.files);
        let training = &files.settings.training;
        let schedule = model::schedule(&files.settings);
        let (world, mut agreement) = (world::joined()?, Agreement::new(self.steps, training.save_every));
        let batches = Batches::new(training.seed, training.batch, files.settings.model.context())
            .part(world.rank(), world.size());
        if self.steps == 0 && files.metrics.is_empty() {
            let held_out = self.held_out()?;
            self.progress.measured(0, None, held_out);
            files.events.push(0, &Event::Evaluated { held_out_loss: held_out })?;
            files.metrics.push(Measurement {
                step: 0,
                training: None,
                held_out: Some(held_out),
                lr: schedule.at(0),
            })?;
        }
        // A GPU computes a step while the previous one is recorded and the next batch is drawn. On the CPU,
        // this would only delay recording.
        let is_beside = self.train.session().device().is_gpu();
        let mut drawn = batches.draw(self.steps, &data.training);
        while self.steps < training.steps {
            let is_due = self.saving.is_due();
            let agreed = agreement.after(self.steps, interrupt::asked(), is_due)?;
            if !agreed.goes_on {
                break;
            }
            if agreed.saves {
                self.hold()?;
            }
            let (ids, targets) = drawn?;
            let lr = schedule.at(self.steps);
            let began = Instant::now();
            let step = self.train.step((&ids, &targets));
            self.record()?;
            drawn = batches.draw(self.steps + 1, &data.training);
            let step = step?;
            let loss = step.loss().or_else(|error| Err(self.failed(error, (&ids, &targets))?))?;
            let took = began.elapsed();
            // This loss was computed from the state before the step.
            self.saving.proven();
            self.steps += 1;
            self.progress.step(self.steps, loss, took);

            let gradient_norm = step.get("gradient_norm")?.first().copied().filter(|norm| norm.is_finite());
            let mut row = Measurement { step: self.steps, training: Some(loss), held_out: None, lr };
            let is_last = self.steps == training.steps;
            let measured = if is_last || self.steps.is_multiple_of(training.eval_every) {
                self.held_out().map(|held_out| {
                    self.progress.measured(self.steps, Some(loss), held_out);
                    row.held_out = Some(held_out);
                })
            } else {
                Ok(())
            };
            self.made = Some(Made { row, gradient_norm, tokens_per_s: self.progress.speed() });
            if !is_beside {
                self.record()?;
            }
            measured?;
            self.saving.look()?;
        }
        Ok(())
    }

    /// Runs a function and adds its time to a part of the total.
    fn timed<T>(&mut self, part: fn(&mut Spent) -> &mut Duration, f: impl FnOnce(&mut Self) -> T) -> T {
        let began = Instant::now();
        let result = f(self);
        *part(&mut self.progress.spent) += began.elapsed();
        result
    }

    /// Copies the state, which is saved once a finite loss is computed from it.
    fn hold(&mut self) -> Result<()> {
        self.timed(
            |spent| &mut spent.saving,
            |course| course.saving.hold(&course.train.store(), course.steps),
        )
    }

    /// Records the last step, unless it is recorded already.
    fn record(&mut self) -> Result<()> {
        let Some(Made { row, gradient_norm, tokens_per_s }) = self.made.take() else { return Ok(()) };
        let Measurement { step, held_out, lr: learning_rate, .. } = row;
        let training_loss = row.training.unwrap_or(f32::NAN);
        let recorded = self.files.metrics.push(row).and_then(|()| {
            let made = Event::Step { training_loss, learning_rate, gradient_norm, tokens_per_s };
            self.files.events.push(step, &made)?;
            let evaluated = held_out.map(|held_out_loss| Event::Evaluated { held_out_loss });
            evaluated.map_or(Ok(()), |event| self.files.events.push(step, &event))
        });
        recorded.map_err(|failure| self.saving.interrupted(step, failure))
    }

    /// Returns the failure for an error in a step on a batch.
    fn failed(&mut self, error: gradloom::Error, batch: (&[i32], &[i32])) -> Result<Failure> {
        if !matches!(error.kind(), ErrorKind::NotFinite { .. }) {
            return Ok(error.into());
        }
        let what = error.message().split_once(" of step").map_or("the loss", |(what, _)| what);
        if self.debug_nan {
            self.train.set_attempted_steps(self.steps);
            match self.train.find_not_finite(&Device::cpu(), batch)? {
                Some(found) => tell!("{found}"),
                None if world::joined()?.size() > 1 => {
                    tell!("rank 0's part of the batch is finite, op by op on the CPU: it is another rank's");
                }
                None => tell!("on the CPU, op by op, the step is finite: the device computes otherwise"),
            }
        }
        // The step had no effect, so it does not count as completed.
        Ok(self.saving.diverged(self.steps, self.steps + 1, what))
    }

    /// Returns the held-out loss of the current weights, or an error if it is not finite.
    fn held_out(&mut self) -> Result<f32> {
        let loss = self.timed(|spent| &mut spent.evaluation, |course| course.evaluator.loss())?;
        if !loss.is_finite() {
            return Err(self.saving.diverged(self.steps, self.steps, "the held-out loss"));
        }
        self.proven = self.steps;
        Ok(loss)
    }

    /// Generates the text at the end.
    fn sample(&mut self, tokenizer: &AnyTokenizer) -> Result<String> {
        self.timed(|spent| &mut spent.sample, |course| sample(&course.train, &course.files, tokenizer))
    }
}

/// Generates a text.
fn sample(train: &ModelTrain, files: &Files, tokenizer: &AnyTokenizer) -> Result<String> {
    const TOKENS: usize = 400;
    let sampling = Sampling { temperature: 0.8, seed: files.settings.training.seed, ..Sampling::default() };
    let mut text = String::new();
    let ends = ends(tokenizer, &Generation::open(files.folder.path(), None)?);
    let session = train.session();
    let prompt = tokenizer.prompt("", session.model().sizes(), TOKENS as u64)?;
    let generator = model::generator(session, tokenizer, 1, prompt.len() + TOKENS)?;
    let mut texts = TextGenerator::new(generator, tokenizer.get());
    let request = Request { sampling, ends, rolls: true, ..Request::new(prompt, TOKENS) };
    texts.add_encoded(request, &[""; 0])?;
    while !texts.generator().is_idle() {
        texts.step()?.iter().for_each(|event| text.push_str(event.text()));
    }
    Ok(text)
}

/// Writes the model's text to `sample.txt`, and prints it.
fn finish(files: &Files, text: &str) -> Result<()> {
    files.folder.write_text("sample.txt", &format!("{text}\n"))?;
    if let Some(loss) = files.metrics.held_out() {
        let bits = f64::from(loss) / std::f64::consts::LN_2;
        say!("result  held-out loss {loss:.4} nats a {} ({bits:.3} bits)", files.settings.token_name());
    }
    say!("\nThe model writes:\n\n{}\n", printable(text.trim_matches('\n')));
    let folder = quoted(&files.folder.path().display().to_string());
    say!("More:\n  {} sample {folder} --prompt \"The \" --tokens 300", program());
    say!("The loss over time is in {}", files.folder.file("loss.svg").display());
    Ok(())
}
