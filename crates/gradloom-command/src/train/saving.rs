//! Decides what is saved after each step.
//!
//! In: the run after each step. Out: the files of its folder. Always holds: the saved state is one from which
//! a finite loss was computed, by the step after it or on the held-out text. The step that ruins the weights
//! still has a finite loss itself: it is the next one that tells, so a state waits in memory until then.

use super::begin::Run;
use crate::failure::{Failure, Result};
use crate::format::{number, thousands};
use crate::output::{program, quoted};
use crate::run::{Event, MODEL, RunFolder, STATE, Snapshot};
use crate::train::settings::default_lr;

/// The state that waits, and the one that is saved.
#[derive(Debug)]
pub(super) struct Saving {
    waiting: Option<Snapshot>,
    /// Step of the state in the folder.
    saved: u64,
}

impl Saving {
    /// Starts from a folder that has the state of step `saved`.
    pub(super) fn after(saved: u64) -> Self {
        Self { waiting: None, saved }
    }

    /// Copies the state, to be saved when it proves good.
    pub(super) fn hold(&mut self, run: &Run) -> Result<()> {
        let snapshot = Snapshot::of(&run.train.store(), run.steps)?;
        if let Some(name) = snapshot.not_finite() {
            return Err(self.diverged(run, run.steps, &format!("`{name}`")));
        }
        self.waiting = Some(snapshot);
        Ok(())
    }

    /// Saves the state that waits, if there is one: a finite loss was computed from it.
    pub(super) fn proven(&mut self, run: &Run) -> Result<()> {
        let Some(snapshot) = self.waiting.take() else { return Ok(()) };
        let written = self.write(run, &snapshot);
        written.map_err(|failure| self.interrupted(run, snapshot.steps, failure))
    }

    /// A file could not be written in the middle of a run.
    pub(super) fn interrupted(&self, run: &Run, step: u64, failure: Failure) -> Failure {
        failure.context(&format!("saving after step {} failed", thousands(step))).help(format!(
            "the state of step {} is whole; make room or lift the restriction, then {} repeats what came \
             after it, bit for bit",
            thousands(self.saved),
            resume_line(&run.folder)
        ))
    }

    /// Metrics go first: a resumed run cuts off rows that are too many, but could not make up missing ones.
    fn write(&mut self, run: &Run, snapshot: &Snapshot) -> Result<()> {
        run.metrics.sync()?;
        run.events.sync()?;
        snapshot.write_state(&run.folder, &run.settings)?;
        self.saved = snapshot.steps;
        snapshot.write_model(&run.folder, &run.settings)?;
        run.events.push(snapshot.steps, &Event::Saved { files: [STATE, MODEL] })?;
        draw(run)
    }

    /// A value of a step is not finite: what is saved stays as it is, and the run ends.
    pub(super) fn diverged(&self, run: &Run, step: u64, what: &str) -> Failure {
        // The curve shows how it came; but the divergence is what must be told, even where the curve cannot
        // be written.
        let _ = run.metrics.sync().and_then(|()| draw(run));
        let failure =
            Failure::failed(format!("step {}: {what} is not finite; training stopped", thousands(step)));
        let saved = thousands(self.saved);
        if run.steps == self.saved {
            // No rate has acted between the saved weights and the failure.
            return failure.help(format!(
                "the saved weights, those of step {saved}, give no finite loss on this data: train anew, \
                 with a lower --lr"
            ));
        }
        failure.help(format!(
            "the last good state, that of step {saved}, is saved; go on from it more slowly: {} --lr {}",
            resume_line(&run.folder),
            number(gentler(run.settings.training.lr, &run.settings.preset))
        ))
    }
}

fn draw(run: &Run) -> Result<()> {
    run.metrics.draw(&run.folder, &run.settings.preset, run.settings.token_name())
}

/// A tenth of a learning rate, in two digits, and not more than suits the preset.
fn gentler(lr: f64, preset: &str) -> f64 {
    let tenth = (lr / 10.0).min(default_lr(preset));
    format!("{tenth:.1e}").parse().unwrap_or(tenth)
}

/// The command that goes on with a run.
pub(super) fn resume_line(folder: &RunFolder) -> String {
    format!("{} train --resume {}", program(), quoted(&folder.path().display().to_string()))
}

#[cfg(test)]
mod tests {
    use super::gentler;

    #[test]
    fn the_advised_rate_is_one_that_works() {
        assert_eq!(gentler(0.003, "tiny"), 0.0003);
        assert_eq!(gentler(0.1, "tiny"), 0.002);
        assert_eq!(gentler(1e30, "gpt2"), 3e-4);
        assert_eq!(gentler(1.0 / 3e3, "tiny"), 3.3e-5);
    }
}
