//! Times of launches.
//!
//! In: a device whose programs run their launches one after the other, and note the time before and after
//! each while profiling is on. Out: a [`LaunchSpan`] for each launch of the last run. Without profiling no
//! clock is read.

use std::time::{Duration, Instant};

/// The time at which a launch ran.
#[derive(Clone, Copy, Debug)]
pub struct LaunchSpan {
    /// Its place in [`Plan::launches`](gradloom_core::plan::Plan::launches).
    pub launch: usize,
    /// Start of the launch.
    pub began: Instant,
    /// Duration of the launch.
    pub took: Duration,
}

/// The spans of one run, if they are wanted.
#[derive(Debug, Default)]
pub struct Spans {
    /// True if times are noted.
    pub on: bool,
    spans: Vec<LaunchSpan>,
}

impl Spans {
    /// Starts or stops noting; what was noted is forgotten.
    pub fn set(&mut self, on: bool, launches: usize) {
        self.on = on;
        self.clear();
        if on {
            self.spans.reserve(launches);
        }
    }

    /// Forgets the spans of the run before.
    pub fn clear(&mut self) {
        self.spans.clear();
    }

    /// Notes that a launch that began then has just ended.
    pub fn note(&mut self, launch: usize, began: Instant) {
        self.spans.push(LaunchSpan { launch, began, took: began.elapsed() });
    }

    /// Adds what ran elsewhere: for each kernel its launch, how long after the run's start it began, and how
    /// long it took. Kernels of a launch in a row are one span.
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
