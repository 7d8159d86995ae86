//! Benchmark figures, as one line of text or as JSON. JSON keys may be added, but never renamed.

use super::configs::Workload;
use super::process::peak_resident_bytes;
use super::timing::Timing;
use gradloom::plan::{Buffer, Role};
use serde::Serialize;
use std::time::Duration;

/// Figures of a benchmark; `None` for those that do not apply.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Report {
    config: String,
    device: &'static str,
    device_name: String,
    driver: Option<String>,
    threads: usize,
    dtype: &'static str,
    commit: Option<&'static str>,
    steps: u64,
    launches: usize,
    unique_kernels: usize,
    /// Number of kernels that a step runs on a device with a queue; a launch may run several.
    dispatches: Option<usize>,
    passes: Option<usize>,
    submits: Option<usize>,
    /// Number of times that results were copied to the host during the timed steps, including the queued
    /// ones.
    readbacks: Option<usize>,
    planned_peak_bytes: u64,
    measured_peak_bytes: Option<u64>,
    workspace_bytes: u64,
    /// Number of elements of all parameters.
    parameters: usize,
    parameter_tensors: usize,
    /// Bytes of all parameters and states, including the padding between them. The planned peak is the sum of
    /// these, the constants, the step and the workspace.
    store_bytes: u64,
    /// Bytes of the parameters in the store, without padding.
    parameter_bytes: u64,
    /// Bytes of the states in the store, without padding: the optimizer's moments and counters.
    state_bytes: u64,
    constant_bytes: u64,
    /// Bytes of the arena for inputs, activations, gradients and outputs.
    step_bytes: u64,
    compile_ms: f64,
    first_step_ms: Option<f64>,
    process_to_first_step_ms: Option<f64>,
    /// Host time to queue a step while the device has room for it.
    encode_us: Option<f64>,
    /// Device time of a step, by the device's own clock.
    device_ms: Option<f64>,
    ms_per_step: Option<f64>,
    ms_min: Option<f64>,
    ms_max: Option<f64>,
    /// Mean time of a step whose loss is not read, among steps in a row on a device with a queue.
    queued_ms_per_step: Option<f64>,
    tokens_per_s: Option<f64>,
    first_loss: Option<f32>,
    final_loss: Option<f32>,
    rss_mb: Option<f64>,
}

fn ms(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

impl Report {
    pub(super) fn new(config: String, workload: &dyn Workload, timing: &Timing) -> Self {
        let (device, program) = (workload.device(), workload.program());
        let (plan, work) = (program.plan(), program.work());
        let with_role =
            |role: Role| -> Vec<&Buffer> { plan.buffers.iter().filter(|b| b.role == role).collect() };
        let bytes = |buffers: &[&Buffer]| buffers.iter().map(|b| b.bytes).sum::<u64>();
        let parameters = [with_role(Role::Parameter), with_role(Role::Frozen)].concat();
        let states = with_role(Role::State);
        let runs = device.name() != "null";
        let [least, median, greatest] = timing.spread().map(ms);
        // Omit the times if no step was run.
        let timed = |value: f64| runs.then_some(value);
        Self {
            config,
            device: device.name(),
            device_name: device.description(),
            driver: None,
            threads: device.threads(),
            dtype: device.precision().name(),
            commit: option_env!("GRADLOOM_COMMIT"),
            steps: timing.steps,
            launches: plan.launches.len(),
            unique_kernels: program.unique_kernels(),
            dispatches: work.as_ref().map(|work| work.dispatches),
            passes: work.as_ref().map(|work| work.passes),
            submits: work.as_ref().map(|work| work.submits),
            readbacks: timing.queued.map(|queued| queued.readbacks),
            planned_peak_bytes: plan.totals.peak(),
            measured_peak_bytes: runs.then(|| workload.allocated_bytes()),
            workspace_bytes: plan.totals.workspace,
            parameters: parameters.iter().map(|b| b.ty.elements()).sum(),
            parameter_tensors: parameters.len(),
            store_bytes: plan.totals.store,
            parameter_bytes: bytes(&parameters),
            state_bytes: bytes(&states),
            constant_bytes: plan.totals.constants,
            step_bytes: plan.totals.step,
            compile_ms: ms(workload.compile_time()),
            first_step_ms: timed(ms(timing.first)),
            process_to_first_step_ms: timed(ms(timing.process_to_first)),
            encode_us: timing.queued.map(|queued| ms(queued.host) * 1e3),
            device_ms: timing.queued.and_then(|queued| queued.device).map(ms),
            ms_per_step: timed(median),
            ms_min: timed(least),
            ms_max: timed(greatest),
            queued_ms_per_step: timing.queued.map(|queued| ms(queued.step)),
            tokens_per_s: workload.tokens().filter(|_| runs).map(|tokens| tokens as f64 / median * 1e3),
            first_loss: timing.first_loss.is_finite().then_some(timing.first_loss),
            final_loss: timing.final_loss.is_finite().then_some(timing.final_loss),
            rss_mb: peak_resident_bytes().map(|bytes| bytes as f64 / f64::from(1 << 20)),
        }
    }

    /// Returns the figures as a JSON object on one line.
    pub(super) fn json(&self) -> String {
        serde_json::to_string(self).expect("figures are plain data")
    }

    /// Returns the figures on one line, in the format of the compared programs.
    pub(super) fn line(&self) -> String {
        let nan = f64::NAN;
        format!(
            "gradloom {} {:.2} {:.0} {:.0} {:.3} {:.4}",
            self.config,
            self.ms_per_step.unwrap_or(nan),
            self.tokens_per_s.unwrap_or(nan),
            self.rss_mb.unwrap_or(nan),
            self.first_step_ms.map_or(nan, |first| (self.compile_ms + first) / 1e3),
            self.final_loss.unwrap_or(f32::NAN)
        )
        .replace("NaN", "nan")
    }
}
