//! The loop: steps, measurements, and how it ends.

use super::begin::Run;
use super::interrupt;
use super::progress::Progress;
use super::saving::{Saving, resume_line};
use crate::failure::Result;
use crate::format::thousands;
use crate::model;
use crate::output::{printable, program, quoted, say, tell};
use crate::run::{Ending, Event, Reason, Row};
use crate::source::ends;
use gradloom::ErrorKind;
use gradloom_models::data::Batches;
use gradloom_models::decoding::Sampling;
use gradloom_models::generator::{Request, TextGenerator};
use gradloom_models::hugging_face::Generation;
use gradloom_models::language_model::LanguageModel;
use std::time::Instant;

/// Makes the steps that are left, then writes what the run leaves behind.
pub(super) fn train(mut run: Run, debug_nan: bool) -> Result<()> {
    let training = &run.settings.training;
    let (steps, tokens) = (training.steps, training.batch * run.settings.model.context());
    let mut course = Course {
        progress: Progress::new(steps, run.steps, tokens),
        saving: Saving::after(run.steps),
        proven: run.steps,
        debug_nan,
    };
    let result = course.go(&mut run);
    course.progress.finish(run.steps);
    let is_done = run.steps == steps;
    let result = result.and_then(|()| if is_done { finish(&run) } else { Ok(()) });
    let reason = match &result {
        Err(_) => Reason::Failed,
        Ok(()) if is_done => Reason::Done,
        Ok(()) => Reason::Interrupted,
    };
    let ended = run.events.push(
        run.steps,
        &Event::Ended(Ending {
            reason,
            message: result.as_ref().err().map(|failure| failure.message().to_string()),
            seconds: course.progress.elapsed().as_millis() as f64 / 1e3,
            tokens_per_s: course.progress.average_speed(),
        }),
    );
    // Of two failures the first one tells more.
    result.and(ended)?;
    if !is_done {
        say!("\nstopped after step {} of {}, and saved. Go on with", thousands(run.steps), thousands(steps));
        say!("  {}", resume_line(&run.folder));
    }
    Ok(())
}

/// State of the loop that is kept beside the steps.
struct Course {
    progress: Progress,
    saving: Saving,
    /// The last step after which the held-out loss was found finite.
    proven: u64,
    /// Whether the op is looked for that makes a step's loss not finite.
    debug_nan: bool,
}

impl Course {
    /// Steps until the end or an interruption, and saves the last state.
    fn go(&mut self, run: &mut Run) -> Result<()> {
        let training = run.settings.training.clone();
        let schedule = model::schedule(&run.settings);
        let batches = Batches::new(training.seed, training.batch, run.settings.model.context());
        if run.steps == 0 && run.metrics.is_empty() {
            let held_out = self.held_out(run)?;
            self.progress.measured(0, None, held_out);
            run.events.push(0, &Event::Evaluated { held_out_loss: held_out })?;
            run.metrics.push(Row {
                step: 0,
                training: None,
                held_out: Some(held_out),
                lr: schedule.at(0),
            })?;
        }
        while run.steps < training.steps && !interrupt::asked() {
            let lr = schedule.at(run.steps);
            let (ids, targets) = batches.draw(run.steps, &run.data.training)?;
            let began = Instant::now();
            let step = run.train.step((&ids, &targets))?;
            let loss = match step.loss() {
                Ok(loss) => loss,
                Err(error) if matches!(error.kind(), ErrorKind::NotFinite { .. }) => {
                    let what = error.message().split_once(" of step").map_or("the loss", |(what, _)| what);
                    if self.debug_nan {
                        run.train.set_attempted_steps(run.steps);
                        match run.train.find_not_finite((&ids, &targets))? {
                            Some(found) => tell!("{found}"),
                            None => tell!(
                                "on the CPU, op by op, the step is finite: the device computes otherwise"
                            ),
                        }
                    }
                    // The step took no effect, so it does not count among those made.
                    return Err(self.saving.diverged(run, run.steps + 1, what));
                }
                Err(error) => return Err(error.into()),
            };
            let took = began.elapsed();
            let began = Instant::now();
            // This loss came from the state before the step.
            self.saving.proven(run)?;
            run.steps += 1;
            self.progress.step(run.steps, loss, took);

            let is_last = run.steps == training.steps;
            let gradient_norm = step.get("gradient_norm")?.first().copied().filter(|norm| norm.is_finite());
            let mut row = Row { step: run.steps, training: Some(loss), held_out: None, lr };
            let measured = if is_last || run.steps.is_multiple_of(training.eval_every) {
                self.held_out(run).map(|held_out| {
                    self.progress.measured(run.steps, Some(loss), held_out);
                    row.held_out = Some(held_out);
                })
            } else {
                Ok(())
            };
            let held_out = row.held_out;
            let recorded = run.metrics.push(row).and_then(|()| {
                let tokens_per_s = self.progress.speed();
                let (training_loss, learning_rate) = (loss, lr);
                let step = Event::Step { training_loss, learning_rate, gradient_norm, tokens_per_s };
                run.events.push(run.steps, &step)?;
                let evaluated = held_out.map(|held_out_loss| Event::Evaluated { held_out_loss });
                evaluated.map_or(Ok(()), |event| run.events.push(run.steps, &event))
            });
            recorded.map_err(|failure| self.saving.interrupted(run, run.steps, failure))?;
            measured?;
            if !is_last && run.steps.is_multiple_of(training.save_every) {
                self.saving.hold(run)?;
            }
            self.progress.aside(began.elapsed());
        }
        self.save_last(run)
    }

    /// Saves the state after which no step follows: the held-out loss proves it instead.
    fn save_last(&mut self, run: &mut Run) -> Result<()> {
        if self.proven != run.steps {
            self.held_out(run)?;
        }
        self.saving.hold(run)?;
        self.saving.proven(run)
    }

    /// The held-out loss of the weights as they are, which is finite.
    fn held_out(&mut self, run: &mut Run) -> Result<f32> {
        let loss = run.evaluator.loss()?;
        if !loss.is_finite() {
            return Err(self.saving.diverged(run, run.steps, "the held-out loss"));
        }
        self.proven = run.steps;
        Ok(loss)
    }
}

/// What the model writes at the end: `sample.txt`, and on the screen.
fn finish(run: &Run) -> Result<()> {
    const TOKENS: usize = 400;
    let sampling = Sampling { temperature: 0.8, seed: run.settings.training.seed, ..Sampling::default() };
    let mut text = String::new();
    let ends = ends(&run.tokenizer, &Generation::open(run.folder.path(), None)?);
    let session = run.train.session();
    let prompt = run.tokenizer.prompt("", session.model().sizes(), TOKENS as u64)?;
    let generator = model::generator(session, &run.tokenizer, 1, prompt.len() + TOKENS)?;
    let mut texts = TextGenerator::new(generator, run.tokenizer.get());
    let request = Request { sampling, ends, rolls: true, ..Request::new(prompt, TOKENS) };
    texts.add_encoded(request, &[""; 0])?;
    while !texts.generator().is_idle() {
        texts.step()?.iter().for_each(|event| text.push_str(event.text()));
    }
    run.folder.write_text("sample.txt", &format!("{text}\n"))?;
    if let Some(loss) = run.metrics.held_out() {
        let bits = f64::from(loss) / std::f64::consts::LN_2;
        say!("result  held-out loss {loss:.4} nats a {} ({bits:.3} bits)", run.settings.token_name());
    }
    say!("\nThe model writes:\n\n{}\n", printable(text.trim_matches('\n')));
    let folder = quoted(&run.folder.path().display().to_string());
    say!("More:\n  {} sample {folder} --prompt \"The \" --tokens 300", program());
    say!("The loss over time is in {}", run.folder.file("loss.svg").display());
    Ok(())
}
