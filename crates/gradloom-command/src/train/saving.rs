//! Saving of states: when to save after a step, and writing in parallel with the next steps.
//!
//! In: the run after each step. Out: the files of its folder. Invariant: every saved state has produced a
//! finite loss, in the step after it or on the held-out text. A step that ruins the weights still has a
//! finite loss itself, and only the next one shows the damage; a state therefore waits in memory until then.
//! At most one state waits, and one is written at a time.

use super::aside::Aside;
use super::settings::{Settings, default_lr};
use crate::failure::{Failure, Result};
use crate::format::{number, thousands};
use crate::output::{program, quoted};
use crate::run::{Event, Events, MODEL, Metrics, RunFolder, STATE, Snapshot};
use gradloom::Store;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

/// Files of a run, and the settings that determine them.
#[derive(Debug)]
pub(super) struct Files {
    pub(super) settings: Settings,
    pub(super) folder: RunFolder,
    pub(super) metrics: Metrics,
    pub(super) events: Events,
}

impl Files {
    /// Writes a state and the files that belong to it. Metrics go first: a resumed run removes surplus rows,
    /// but could not restore missing ones.
    ///
    /// Also returns `true` if the folder now has the state.
    pub(super) fn write(&self, snapshot: &Snapshot) -> (bool, Result<()>) {
        if let Err(failure) = self.metrics.sync().and_then(|()| self.events.sync()) {
            return (false, Err(failure));
        }
        // Write the model on a second thread, if one can be started; this returns when both files are on the
        // disk.
        let write_model = || snapshot.write_model(&self.folder, &self.settings);
        let (state, model) = thread::scope(|scope| {
            let model = thread::Builder::new().spawn_scoped(scope, write_model);
            let state = snapshot.write_state(self.folder.path(), &self.settings);
            let model = model.map_or_else(
                |_| write_model(),
                |model| model.join().unwrap_or_else(|panic| resume_unwind(panic)),
            );
            (state, model)
        });
        (state.is_ok(), state.and(model).and_then(|()| self.draw()))
    }

    fn draw(&self) -> Result<()> {
        self.metrics.draw(&self.folder, &self.settings.preset, self.settings.token_name())
    }
}

/// Thread that writes states.
pub(super) type Writer = Aside<(Arc<Files>, Snapshot), Written>;

/// Result of writing a state.
#[derive(Debug)]
pub(super) struct Written {
    snapshot: Snapshot,
    /// True once the folder has the state.
    has_state: bool,
    result: Result<()>,
    took: Duration,
}

/// Starts the thread that writes states, before anything that leaves files.
pub(super) fn writer() -> Result<Writer> {
    writer_by(Files::write)
}

/// Starts the thread that writes states with the function `write`.
pub(super) fn writer_by(
    mut write: impl FnMut(&Files, &Snapshot) -> (bool, Result<()>) + Send + 'static,
) -> Result<Writer> {
    let write = move |(files, snapshot): (Arc<Files>, Snapshot)| {
        let began = Instant::now();
        let (has_state, result) = write(&files, &snapshot);
        Written { snapshot, has_state, result, took: began.elapsed() }
    };
    Aside::start(write).map_err(|error| no_thread(&error))
}

/// Returns the failure for a system that starts no thread to save states.
pub(super) fn no_thread(error: &std::io::Error) -> Failure {
    Failure::failed(format!("states cannot be saved, which takes a thread: {error}"))
        .help("end other programs, or raise the limit of processes (ulimit -u) or of memory (ulimit -v)")
}

/// Ratio of the time between saves to the time of a save, during which steps wait or, on the CPU, share the
/// cores.
const SHARE: u32 = 50;
/// Minimum and maximum time between saves, unless the user set a number of steps.
const PAUSES: [Duration; 2] = [Duration::from_secs(10), Duration::from_secs(600)];

/// Returns the time between saves if one takes the time `cost`.
fn pause(cost: Duration) -> Duration {
    (cost.saturating_mul(SHARE)).clamp(PAUSES[0], PAUSES[1])
}

/// The states of a run: one waiting, one being written, and one saved.
#[derive(Debug)]
pub(super) struct Saving {
    files: Arc<Files>,
    writer: Writer,
    waiting: Option<Snapshot>,
    /// Memory for the next state.
    spare: Snapshot,
    /// Step of the state in the folder.
    saved: u64,
    /// Start of the last save.
    began: Instant,
    /// Time for which steps waited for the last save.
    stood: Duration,
    /// Minimum time from the start of the last save to the next one.
    pause: Duration,
}

impl Saving {
    /// Creates the states of a run whose folder has the state after step `saved`; `spare` is reused for the
    /// next state.
    pub(super) fn new(files: Arc<Files>, writer: Writer, spare: Snapshot, saved: u64) -> Self {
        let (began, stood, pause) = (Instant::now(), Duration::ZERO, pause(Duration::ZERO));
        Self { files, writer, waiting: None, spare, saved, began, stood, pause }
    }

    /// Returns `true` if it is time to save the state.
    pub(super) fn is_due(&self) -> bool {
        self.waiting.is_none() && !self.writer.is_busy() && self.began.elapsed() >= self.pause
    }

    /// Copies the state, which is saved once it has produced a finite loss. First waits for the state being
    /// written, since there is memory for only one.
    pub(super) fn hold(&mut self, store: &Store, steps: u64) -> Result<()> {
        self.settle()?;
        self.began = Instant::now();
        self.spare.renew(store, steps)?;
        if let Some(name) = self.spare.not_finite() {
            let what = format!("`{name}`");
            return Err(self.diverged(steps, steps, &what));
        }
        self.stood = self.began.elapsed();
        self.waiting = Some(std::mem::take(&mut self.spare));
        Ok(())
    }

    /// Starts writing the waiting state, if any, since a finite loss was computed from it.
    pub(super) fn proven(&mut self) {
        if let Some(snapshot) = self.waiting.take() {
            self.writer.give((Arc::clone(&self.files), snapshot));
        }
    }

    /// Records the result of writing a state, if it is available.
    pub(super) fn look(&mut self) -> Result<()> {
        let written = self.writer.taken();
        written.map_or(Ok(()), |written| self.note(written))
    }

    /// Waits for the state that is being written, if any.
    pub(super) fn settle(&mut self) -> Result<()> {
        let written = self.writer.wait();
        written.map_or(Ok(()), |written| self.note(written))
    }

    fn note(&mut self, Written { snapshot, has_state, result, took }: Written) -> Result<()> {
        let step = snapshot.steps;
        self.spare = snapshot;
        self.pause = pause(self.stood + took);
        if has_state {
            self.saved = step;
        }
        let event = Event::Saved { files: [STATE, MODEL] };
        let result = result.and_then(|()| self.files.events.push(step, &event));
        result.map_err(|failure| self.interrupted(step, failure))
    }

    /// Returns the failure for a file that could not be written during a run.
    pub(super) fn interrupted(&mut self, step: u64, failure: Failure) -> Failure {
        // Ignore a second failure, because the first one is more informative.
        let _ = self.settle();
        if failure.is_of_world() {
            return failure;
        }
        failure.context(&format!("saving after step {} failed", thousands(step))).help(format!(
            "the state of step {} is whole; make room or lift the restriction, then {} repeats what came \
             after it, bit for bit",
            thousands(self.saved),
            resume_line(&self.files.folder)
        ))
    }

    /// Adds the way on to the failure of another rank.
    pub(super) fn after_loss(&self, failure: Failure) -> Failure {
        failure.also_help(&format!(
            "the state of step {} is saved, and {} goes on from it",
            thousands(self.saved),
            resume_line(&self.files.folder)
        ))
    }

    /// Ends a run whose values are not finite at `step`, after `made` completed steps: returns the failure,
    /// and keeps the saved state.
    pub(super) fn diverged(&mut self, made: u64, step: u64, what: &str) -> Failure {
        // The chart shows how the loss developed. Errors in writing it or the state before it are ignored,
        // since the divergence must be reported.
        let _ = self.settle().and_then(|()| self.files.metrics.sync()).and_then(|()| self.files.draw());
        let failure =
            Failure::failed(format!("step {}: {what} is not finite; training stopped", thousands(step)));
        let saved = thousands(self.saved);
        if made == self.saved {
            // No learning rate was applied between the saved weights and the failure.
            return failure.help(format!(
                "the saved weights, those of step {saved}, give no finite loss on this data: train anew, \
                 with a lower --lr"
            ));
        }
        let training = &self.files.settings.training;
        failure.help(format!(
            "the last good state, that of step {saved}, is saved; go on from it more slowly: {} --lr {}",
            resume_line(&self.files.folder),
            number(gentler(training.lr, &self.files.settings.preset))
        ))
    }
}

/// Returns a tenth of a learning rate with two digits, but at most the preset's default.
fn gentler(lr: f64, preset: &str) -> f64 {
    let tenth = (lr / 10.0).min(default_lr(preset));
    format!("{tenth:.1e}").parse().unwrap_or(tenth)
}

/// Returns the command that resumes a run.
pub(super) fn resume_line(folder: &RunFolder) -> String {
    format!("{} train --resume {}", program(), quoted(&folder.path().display().to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::train::options::Options;
    use gradloom::CpuDevice as _;

    #[test]
    fn the_next_saving_waits_for_its_share_of_the_time() {
        let ms = Duration::from_millis;
        for (cost, wait) in
            [(0, 10_000), (200, 10_000), (300, 15_000), (12_000, 600_000), (u64::MAX, 600_000)]
        {
            assert_eq!(pause(ms(cost)), ms(wait));
        }
    }

    /// Tests with counts instead of times, since the pause is 0 here.
    #[test]
    fn none_is_due_while_one_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let settings = Settings::resolve(&Options { layers: Some(1), ..Options::default() }).unwrap();
        let smaller = crate::model::Smaller { step: "", budgeted: "" };
        let device = gradloom::Device::cpu_with_threads(1).unwrap();
        let store = crate::model::compile(&settings, &device, smaller).unwrap().store();
        let folder = RunFolder::create(Some(folder.path()), "tiny").unwrap();
        let (metrics, events) = (Metrics::create(&folder).unwrap(), Events::create(&folder, false).unwrap());
        let files = Arc::new(Files { settings, folder, metrics, events });
        let (go, held) = std::sync::mpsc::channel();
        let writer = writer_by(move |_, _| {
            held.recv().unwrap();
            (true, Ok(()))
        });
        let mut saving = Saving::new(files, writer.unwrap(), Snapshot::default(), 0);
        assert!(!saving.is_due(), "ten seconds have not passed");
        saving.pause = Duration::ZERO;
        assert!(saving.is_due());
        saving.hold(&store, 1).unwrap();
        assert!(!saving.is_due(), "one waits to be proven");
        saving.proven();
        for _ in 2..1000 {
            saving.look().unwrap();
            assert!(!saving.is_due() && saving.saved == 0);
        }
        go.send(()).unwrap();
        saving.settle().unwrap();
        assert!(saving.saved == 1 && !saving.is_due() && saving.pause >= PAUSES[0]);
    }

    #[test]
    fn the_advised_rate_is_one_that_works() {
        assert_eq!(gentler(0.003, "tiny"), 0.0003);
        assert_eq!(gentler(0.1, "tiny"), 0.002);
        assert_eq!(gentler(1e30, "gpt2"), 3e-4);
        assert_eq!(gentler(1.0 / 3e3, "tiny"), 3.3e-5);
    }
}
