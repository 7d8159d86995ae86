//! The loop: steps, measurements, savings, and how it ends.

use super::begin::Run;
use super::interrupt;
use super::progress::Progress;
use crate::failure::{Failure, Result};
use crate::format::thousands;
use crate::model::{self, Evaluator, Writer};
use crate::output::{printable, program, quoted, say};
use crate::run::{Row, RunFolder, save};
use gradloom::ErrorKind;
use gradloom_models::data::Batches;
use gradloom_models::generate::Sampling;
use std::ops::ControlFlow;
use std::time::Instant;

/// Makes the steps that are left, then writes what the run leaves behind.
pub(super) fn train(mut run: Run) -> Result<()> {
    interrupt::listen()?;
    let training = run.settings.training.clone();
    let schedule = model::schedule(&run.settings);
    let batches = Batches::new(training.seed, training.batch, run.settings.model.context);
    let mut evaluator = Evaluator::new(&run.train, &run.data.held_out, training.batch)?;
    let tokens_per_step = training.batch * run.settings.model.context;
    let mut progress = Progress::new(training.steps, run.steps, tokens_per_step);
    if run.metrics.is_empty() && run.steps == 0 {
        let held_out = evaluator.loss()?;
        progress.measured(0, None, held_out);
        run.metrics.push(Row { step: 0, training: None, held_out: Some(held_out), lr: schedule.at(0) })?;
    }
    let mut saved = run.steps;
    while run.steps < training.steps && !interrupt::asked() {
        let lr = schedule.at(run.steps);
        let (ids, targets) = batches.draw(run.steps, &run.data.training);
        let began = Instant::now();
        let loss = match run.train.step((&ids, &targets))?.loss() {
            Ok(loss) => loss,
            Err(error) if matches!(error.kind(), ErrorKind::NotFinite { .. }) => {
                progress.finish(run.steps);
                // Steps are counted from 1 for people.
                return Err(diverged(&run, run.steps + 1, error.message(), saved));
            }
            Err(error) => return Err(error.into()),
        };
        run.steps += 1;
        progress.step(run.steps, loss, began.elapsed());

        let began = Instant::now();
        let is_last = run.steps == training.steps;
        let saves = is_last || interrupt::asked() || run.steps.is_multiple_of(training.save_every);
        let measures = is_last || run.steps.is_multiple_of(training.eval_every);
        let mut row = Row { step: run.steps, training: Some(loss), held_out: None, lr };
        // The training loss was computed before the update: only a measurement after it tells that the new weights are sound. Weights
        // that are not never replace what is saved.
        if measures || saves {
            let held_out = evaluator.loss()?;
            if !held_out.is_finite() {
                progress.finish(run.steps);
                return Err(diverged(&run, run.steps, "the held-out loss", saved));
            }
            if measures {
                progress.measured(run.steps, Some(loss), held_out);
                row.held_out = Some(held_out);
            }
        }
        let kept = run.metrics.push(row).and_then(|()| {
            if saves {
                keep(&run)?;
                saved = run.steps;
            }
            Ok(())
        });
        if let Err(failure) = kept {
            progress.finish(run.steps);
            return Err(not_saved(failure, &run.folder, run.steps, saved));
        }
        progress.aside(began.elapsed());
    }
    let steps = run.steps;
    progress.finish(steps);
    if steps < training.steps {
        if saved < steps {
            if !evaluator.loss()?.is_finite() {
                return Err(diverged(&run, steps, "the held-out loss", saved));
            }
            keep(&run).map_err(|failure| not_saved(failure, &run.folder, steps, saved))?;
        }
        say!(
            "\nstopped after step {} of {}, and saved. Go on with",
            thousands(steps),
            thousands(training.steps)
        );
        say!("  {}", resume_line(&run.folder));
        return Ok(());
    }
    finish(&run)
}

/// Saves everything. Metrics go first: a resumed run cuts off rows that are too many, but could not make up missing ones.
fn keep(run: &Run) -> Result<()> {
    run.metrics.sync()?;
    save(&run.folder, &run.train.store(), &run.settings, run.steps)?;
    run.metrics.draw(&run.folder, &run.settings.preset)
}

/// What the model writes at the end: `sample.txt`, and on the screen.
fn finish(run: &Run) -> Result<()> {
    const TOKENS: u64 = 400;
    let sampling = Sampling { temperature: 0.8, seed: run.settings.training.seed, ..Sampling::default() };
    let mut text = String::new();
    Writer::new(run.train.session())?.write("", TOKENS, &sampling, |piece| {
        text.push_str(piece);
        ControlFlow::Continue(())
    })?;
    keep(run)?;
    run.folder.write_text("sample.txt", &format!("{text}\n"))?;
    if let Some(loss) = run.metrics.held_out() {
        let bits = f64::from(loss) / std::f64::consts::LN_2;
        say!("result  held-out loss {loss:.4} nats a byte ({bits:.3} bits)");
    }
    say!("\nThe model writes:\n\n{}\n", printable(text.trim_matches('\n')));
    let folder = quoted(&run.folder.path().display().to_string());
    say!("More:\n  {} sample {folder} --prompt \"The \" --tokens 300", program());
    say!("The loss over time is in {}", run.folder.file("loss.svg").display());
    Ok(())
}

/// Something that must be finite is not: the weights are ruined, or about to be. What is saved stays as it is.
fn diverged(run: &Run, step: u64, reason: &str, saved: u64) -> Failure {
    let what = reason.split_once(" of step").map_or(reason, |(what, _)| what);
    // A tenth of a rate far beyond reason would be no better.
    let slower = (run.settings.training.lr / 10.0).min(1e-3);
    Failure::failed(format!("step {}: {what} is not finite; training stopped", thousands(step))).help(
        format!(
            "the weights of step {} are kept; go on from there more slowly: {} --lr {slower}",
            thousands(saved),
            resume_line(&run.folder),
        ),
    )
}

/// A file could not be written in the middle of a run.
fn not_saved(failure: Failure, folder: &RunFolder, step: u64, saved: u64) -> Failure {
    failure.context(&format!("saving after step {} failed", thousands(step))).help(format!(
        "the state of step {} is untouched; make room or lift the restriction, then {} repeats what came after it, bit for bit",
        thousands(saved),
        resume_line(folder)
    ))
}

/// The command that goes on with a run.
fn resume_line(folder: &RunFolder) -> String {
    format!("{} train --resume {}", program(), quoted(&folder.path().display().to_string()))
}
