//! Selection of kernels for products and attention by measurement.
//!
//! In: the problems of a program. Out: [`Choices`] with the fastest of several candidates for each problem,
//! measured once on a separate device and stored in a file (`file.rs`), which later runs read instead. A
//! recorded choice counts if it is one of the candidates.
//! Invariant: the choice for a problem never changes once it has been returned, so lowered programs remain
//! valid; a failure never prevents a program from being compiled, but may leave the rule's choice in use or
//! cause another measurement.

mod file;
mod measure;
mod values;

use super::WgpuOptions;
use super::adapter::open;
use super::gpu::Gpu;
use file::Record;
use gradloom_codegen::pipeline::Limits;
use gradloom_codegen::wgsl::Choices;
use gradloom_codegen::wgsl::tuning::{Choice, Problem, alone, candidates};
use gradloom_core::error::Result;
use measure::Bench;
use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Minimum number of multiplications of a kernel that is measured. A smaller kernel takes as long as its
/// launch.
const WORTH: usize = 1 << 20;

/// The results of measuring products and attention since the device was opened.
#[derive(Clone, Debug)]
pub struct Tuning {
    /// Path of the file in which the choices are stored.
    pub file: PathBuf,
    /// Number of kernels of programs so far whose choice was read from the file. Each kernel of attention and
    /// of its gradient counts once for each shape.
    pub read: usize,
    /// Number of kernels that were measured.
    pub measured: usize,
    /// Total time spent measuring.
    pub took: Duration,
    /// Messages for users, such as that a damaged file was ignored, that a file cannot be written, or that a
    /// kernel could not be measured or computed wrong values.
    pub notes: Vec<String>,
}

/// The choices of a device, which grow with the programs that are lowered for it.
#[derive(Debug)]
pub(super) struct Tuner {
    options: WgpuOptions,
    limits: Limits,
    record: Record,
    state: Mutex<TunerState>,
}

#[derive(Debug)]
struct TunerState {
    choices: Choices,
    /// Problems and choices of the file, as text.
    known: BTreeMap<String, String>,
    tuning: Tuning,
    /// Problems that could not be measured; the rule selects their kernels.
    given_up: HashSet<Problem>,
}

impl Tuner {
    /// Creates the tuner of a device that was opened with these options, and reads the device's file in
    /// `folder`.
    pub(super) fn new(gpu: &Gpu, options: &WgpuOptions, folder: &Path) -> Self {
        let precision = options.precision;
        let record = Record::new(folder, &gpu.report, &gpu.limits, precision);
        let (known, notes) = match record.read() {
            Ok(known) => (known, Vec::new()),
            Err(note) => (BTreeMap::new(), vec![note]),
        };
        let tuning =
            Tuning { file: record.path().to_path_buf(), read: 0, measured: 0, took: Duration::ZERO, notes };
        let choices = Choices::by_rule(precision);
        let state = Mutex::new(TunerState { choices, known, tuning, given_up: HashSet::new() });
        Self { options: options.clone(), limits: gpu.limits, record, state }
    }

    pub(super) fn tuning(&self) -> Tuning {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).tuning.clone()
    }

    pub(super) fn choices(&self) -> Choices {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).choices.clone()
    }

    /// Measures those of the problems that have not been measured before, and returns all choices so far.
    pub(super) fn choices_for(&self, problems: &[Problem]) -> Choices {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let mut missing = Vec::new();
        for problem in problems.iter().filter(|problem| problem.multiplications() >= WORTH) {
            if state.choices.is_measured(problem) || state.given_up.contains(problem) {
                continue;
            }
            let all = candidates(problem, self.options.precision, &self.limits);
            let recorded = state.known.get(&format!("{problem:?}"));
            match all.iter().find(|choice| recorded.is_some_and(|text| *text == format!("{choice:?}"))) {
                Some(&choice) => {
                    state.choices.insert(problem.clone(), choice);
                    state.tuning.read += 1;
                }
                None if all.len() > 1 => missing.push((problem, all)),
                None => {}
            }
        }
        if !missing.is_empty() {
            self.measure(&mut state, missing);
        }
        state.choices.clone()
    }

    fn measure(&self, state: &mut TunerState, missing: Vec<(&Problem, Vec<Choice>)>) {
        let began = Instant::now();
        let mut device = Spare::new(&self.options);
        for (problem, all) in missing {
            match self.best(&mut device, problem, all, &mut state.tuning.notes) {
                Ok(choice) => {
                    state.known.insert(format!("{problem:?}"), format!("{choice:?}"));
                    state.choices.insert(problem.clone(), choice);
                    state.tuning.measured += 1;
                }
                Err(error) => {
                    state.given_up.insert(problem.clone());
                    state.tuning.notes.push(format!("{problem} was not measured: {}", error.message()));
                }
            }
        }
        if let Err(note) = self.record.write(&state.known) {
            state.tuning.notes.push(note);
        }
        state.tuning.took += began.elapsed();
    }

    /// Returns the fastest of the given choices for a problem, the first of which is the rule's.
    fn best(
        &self,
        device: &mut Spare<'_>,
        problem: &Problem,
        mut all: Vec<Choice>,
        notes: &mut Vec<String>,
    ) -> Result<Choice> {
        let tolerance = problem.tolerance(self.options.precision);
        let mut bench = |choices: &[Choice]| {
            device.renew_if_lost();
            let alone = choices.iter().map(|choice| alone(problem, choice, &self.limits)).collect();
            Bench::new(device.gpu()?, alone, tolerance)
        };
        let bench = match bench(&all) {
            Ok(bench) => bench,
            Err(error) => {
                // A choice was rejected or caused the loss of the device. Try each one separately, on a new
                // device if the last one was lost, and drop those that fail.
                all.retain(|&choice| bench(&[choice]).is_ok());
                if all.is_empty() {
                    return Err(error);
                }
                bench(&all)?
            }
        };
        if bench.wrong() > 0 {
            notes.push(format!(
                "{} of {} ways to compute {problem} give other values than the first one and were left out: \
                 a defect of the driver or of gradloom",
                bench.wrong(),
                all.len()
            ));
        }
        let times = bench.times()?;
        Ok(all[fastest(&times)])
    }
}

/// Returns the index of the shortest time, or 0, which is the rule's choice, if that takes at most 2% longer.
/// The margin makes it less likely that noise decides.
fn fastest(times: &[Duration]) -> usize {
    let least = (0..times.len()).min_by_key(|&i| times[i]).unwrap_or(0);
    match times.first().is_some_and(|first| first.as_secs_f64() <= 1.02 * times[least].as_secs_f64()) {
        true => 0,
        false => least,
    }
}

/// A device for measuring, separate from the one that runs programs, so that a driver failure does not affect
/// them.
struct Spare<'o> {
    options: &'o WgpuOptions,
    gpu: Option<Arc<Gpu>>,
}

impl<'o> Spare<'o> {
    fn new(options: &'o WgpuOptions) -> Self {
        Self { options, gpu: None }
    }

    fn gpu(&mut self) -> Result<Arc<Gpu>> {
        if self.gpu.is_none() {
            self.gpu = Some(Arc::new(open(self.options)?));
        }
        Ok(Arc::clone(self.gpu.as_ref().expect("it was opened")))
    }

    fn renew_if_lost(&mut self) {
        if self.gpu.as_ref().is_some_and(|gpu| gpu.check().is_err()) {
            self.gpu = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rules_choice_stays_unless_another_is_clearly_faster() {
        let times = |micros: &[u64]| micros.iter().map(|&t| Duration::from_micros(t)).collect::<Vec<_>>();
        assert_eq!(fastest(&times(&[101, 100, 120])), 0);
        assert_eq!(fastest(&times(&[110, 120, 100])), 2);
        assert_eq!(fastest(&times(&[7])), 0);
    }
}
