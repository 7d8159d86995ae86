//! Times of a step's kernels, by the device's clock.
//!
//! In: a step, while profiling is on. Out: the span of each launch. The kernels are launched one by one, with
//! an event before and behind each, and the step is waited for.

use super::driver::Event;
use super::gpu::Gpu;
use super::program::{CudaProgram, Member};
use crate::cancel::Stop;
use gradloom_codegen::step::Owner;
use gradloom_core::error::Result;
use std::time::{Duration, Instant};

/// Events that are given back.
struct Events<'g> {
    gpu: &'g Gpu,
    all: Vec<Event>,
}

impl Events<'_> {
    /// Notes the device's time, once it has done what it was asked for so far.
    fn note(&mut self) -> Result<()> {
        let event = self.gpu.ask("make an event", |driver| driver.event(true))?;
        self.all.push(event);
        self.gpu.ask("note the time", |driver| driver.record(event, self.gpu.stream))
    }

    /// The time between two of them.
    fn between(&self, from: usize, to: usize) -> Result<Duration> {
        let (from, to) = (self.all[from], self.all[to]);
        let milliseconds = self.gpu.ask("tell times", |driver| driver.elapsed(from, to))?;
        Ok(Duration::from_secs_f64(f64::from(milliseconds).max(0.0) / 1e3))
    }
}

impl Drop for Events<'_> {
    fn drop(&mut self) {
        let all = std::mem::take(&mut self.all);
        self.gpu.give_back(|driver| all.into_iter().for_each(|event| driver.destroy_event(event)));
    }
}

impl CudaProgram {
    /// Runs the kernels of a step that was handed over, and notes when each launch ran.
    ///
    /// # Errors
    /// When the device is lost, or the run is stopped.
    pub(super) fn run_profiled(&mut self, stop: Stop<'_>) -> Result<()> {
        let gpu = std::sync::Arc::clone(&self.gpu);
        let mut events = Events { gpu: &gpu, all: Vec::new() };
        events.note()?;
        for (i, segment) in self.segments.iter().enumerate() {
            for kernel in segment.kernels.clone() {
                self.launch(kernel)?;
                events.note()?;
            }
            if i == 0 {
                self.exchange.advance();
            }
            if let Some(host) = self.host.get(i) {
                stop.check()?;
                self.run_on_host(host)?;
            }
        }
        self.gpu.wait_for_all()?;
        self.profile.clear();
        let start = Instant::now();
        let mut spans: Vec<(usize, Duration, Duration)> = Vec::new();
        for (i, step) in self.steps.iter().enumerate() {
            let Member::Planned(Owner::Launch(launch)) = step.member else { continue };
            let (began, took) = (events.between(0, i)?, events.between(i, i + 1)?);
            match spans.last_mut() {
                Some((known, _, sum)) if *known == launch => *sum += took,
                _ => spans.push((launch, began, took)),
            }
        }
        spans.into_iter().for_each(|(launch, began, took)| self.profile.add(launch, start + began, took));
        Ok(())
    }
}
