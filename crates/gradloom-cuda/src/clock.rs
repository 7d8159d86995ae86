//! Time measurement by the device's clock, between points in the stream.

use super::driver::Event;
use super::gpu::Gpu;
use gradloom_core::error::Result;
use gradloom_device::cancel::Stop;
use std::sync::Arc;
use std::time::Duration;

/// Numbered points in the stream, each a timed event.
#[derive(Debug)]
pub(super) struct Clock {
    gpu: Arc<Gpu>,
    points: Vec<Event>,
}

impl Clock {
    pub(super) fn new(gpu: &Arc<Gpu>) -> Self {
        Self { gpu: Arc::clone(gpu), points: Vec::new() }
    }

    /// Records point `point`, an existing one or the next, after all work queued in the stream so far.
    ///
    /// # Errors
    /// Returns an error if the device is lost, or has no more events.
    pub(super) fn set(&mut self, point: usize) -> Result<()> {
        if point == self.points.len() {
            self.points.push(self.gpu.ask("make an event", |driver| driver.event(true))?);
        }
        let event = self.points[point];
        self.gpu.ask("note the time", |driver| driver.record(event, self.gpu.stream))
    }

    pub(super) fn len(&self) -> usize {
        self.points.len()
    }

    /// Waits until the device has reached point `to` and returns the time between two points.
    ///
    /// # Errors
    /// Same as [`Gpu::wait`].
    pub(super) fn between(&self, from: usize, to: usize) -> Result<Duration> {
        let (from, to) = (self.points[from], self.points[to]);
        self.gpu.wait(to, Stop::default())?;
        let milliseconds = self.gpu.ask("tell times", |driver| driver.elapsed(from, to))?;
        Ok(Duration::from_secs_f64(f64::from(milliseconds).max(0.0) / 1e3))
    }
}

impl Drop for Clock {
    fn drop(&mut self) {
        let points = std::mem::take(&mut self.points);
        self.gpu.give_back(|driver| points.into_iter().for_each(|event| driver.destroy_event(event)));
    }
}
