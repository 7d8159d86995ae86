//! Times of launches.
//!
//! In: a device that runs the launches of a program sequentially and, while profiling is on, records the time
//! before and after each one. Out: a [`LaunchSpan`] for each launch of the last run. Without profiling, no
//! clock is read.

use std::time::{Duration, Instant};

/// Start and duration of a launch.
#[derive(Clone, Copy, Debug)]
pub struct LaunchSpan {
    /// Index of the launch in [`Plan::launches`](gradloom_core::plan::Plan::launches).
    pub launch: usize,
    /// Start of the launch.
    pub began: Instant,
    /// Duration of the launch.
    pub took: Duration,
}

/// The spans of one run, if they are recorded.
#[derive(Debug, Default)]
pub struct Spans {
    /// True if times are recorded.
    pub on: bool,
    spans: Vec<LaunchSpan>,
}

impl Spans {
    /// Starts or stops recording, and discards the recorded spans.
    pub fn set(&mut self, on: bool, launches: usize) {
        self.on = on;
        self.clear();
        if on {
            self.spans.reserve(launches);
        }
    }

    /// Discards the spans of the previous run.
    pub fn clear(&mut self) {
        self.spans.clear();
    }

    /// Records a launch that began at `began` and has just ended.
    pub fn note(&mut self, launch: usize, began: Instant) {
        self.spans.push(LaunchSpan { launch, began, took: began.elapsed() });
    }

    /// Adds the times of kernels that ran on a device: the launch of each, its start relative to the start of
    /// the run, and its duration. Consecutive kernels of one launch are merged into one span.
    pub fn add_all(&mut self, kernels: impl IntoIterator<Item = (usize, Duration, Duration)>) {
        let start = Instant::now();
        for (launch, began, took) in kernels {
            match self.spans.last_mut() {
                Some(span) if span.launch == launch => span.took += took,
                _ => self.spans.push(LaunchSpan { launch, began: start + began, took }),
            }
        }
    }

    /// Returns the spans of the last run.
    pub fn spans(&self) -> &[LaunchSpan] {
        &self.spans
    }
}
