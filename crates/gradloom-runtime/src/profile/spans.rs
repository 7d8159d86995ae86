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
pub(crate) struct Spans {
    pub(crate) on: bool,
    spans: Vec<LaunchSpan>,
}

impl Spans {
    /// Starts or stops noting; what was noted is forgotten.
    pub(crate) fn set(&mut self, on: bool, launches: usize) {
        self.on = on;
        self.clear();
        if on {
            self.spans.reserve(launches);
        }
    }

    /// Forgets the spans of the run before.
    pub(crate) fn clear(&mut self) {
        self.spans.clear();
    }

    /// Notes that a launch that began then has just ended.
    pub(crate) fn note(&mut self, launch: usize, began: Instant) {
        self.spans.push(LaunchSpan { launch, began, took: began.elapsed() });
    }

    /// Adds the span of a launch that ran elsewhere, so long after the run began.
    #[cfg(any(feature = "wgpu", feature = "cuda"))]
    pub(crate) fn add(&mut self, launch: usize, began: Instant, took: Duration) {
        self.spans.push(LaunchSpan { launch, began, took });
    }

    pub(crate) fn spans(&self) -> &[LaunchSpan] {
        &self.spans
    }
}
