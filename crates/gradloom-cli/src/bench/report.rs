//! The figures, as a line and as JSON. The keys are a contract: they are added to, never renamed.

use super::process::peak_resident_bytes;
use super::timing::Timing;
use gradloom::{Module, Train};
use serde::Serialize;
use std::time::Duration;

/// All figures; what has no meaning is `None`.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Report {
    config: &'static str,
    device: &'static str,
    device_name: String,
    driver: Option<String>,
    threads: usize,
    dtype: &'static str,
    commit: Option<&'static str>,
    steps: u64,
    launches: usize,
    unique_kernels: usize,
    passes: Option<usize>,
    submits: Option<usize>,
    planned_peak_bytes: usize,
    measured_peak_bytes: Option<usize>,
    workspace_bytes: usize,
    compile_ms: f64,
    first_step_ms: Option<f64>,
    process_to_first_step_ms: Option<f64>,
    encode_us: Option<f64>,
    device_ms: Option<f64>,
    ms_per_step: Option<f64>,
    ms_min: Option<f64>,
    ms_max: Option<f64>,
    tokens_per_s: Option<f64>,
    final_loss: Option<f32>,
    rss_mb: Option<f64>,
}

fn ms(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

impl Report {
    pub(super) fn new<M: Module, const N: usize>(
        config: &'static str,
        train: &Train<M, N>,
        timing: &Timing,
        compile: Duration,
        tokens: Option<usize>,
    ) -> Self {
        let device = train.device();
        let runs = device.name() != "null";
        let [least, median, greatest] = timing.spread().map(ms);
        // The time of a step that was not run means nothing.
        let timed = |value: f64| runs.then_some(value);
        Self {
            config,
            device: device.name(),
            device_name: device.description(),
            driver: None,
            threads: device.threads(),
            dtype: "f32",
            commit: option_env!("GRADLOOM_COMMIT"),
            steps: timing.steps,
            launches: train.plan().launches.len(),
            unique_kernels: train.program().unique_kernels(),
            passes: None,
            submits: None,
            planned_peak_bytes: train.plan().totals.peak(),
            measured_peak_bytes: runs.then(|| train.allocated_bytes()),
            workspace_bytes: train.plan().totals.workspace,
            compile_ms: ms(compile),
            first_step_ms: timed(ms(timing.first)),
            process_to_first_step_ms: timed(ms(timing.process_to_first)),
            encode_us: None,
            device_ms: None,
            ms_per_step: timed(median),
            ms_min: timed(least),
            ms_max: timed(greatest),
            tokens_per_s: tokens.filter(|_| runs).map(|tokens| tokens as f64 / median * 1e3),
            final_loss: timing.final_loss.is_finite().then_some(timing.final_loss),
            rss_mb: peak_resident_bytes().map(|bytes| bytes as f64 / f64::from(1 << 20)),
        }
    }

    /// One JSON object on one line.
    pub(super) fn json(&self) -> String {
        serde_json::to_string(self).expect("figures are plain data")
    }

    /// The line that the programs print that gradloom is measured beside.
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
