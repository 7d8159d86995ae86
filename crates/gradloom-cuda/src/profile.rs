//! Times of a step's kernels, measured by the device's clock.
//!
//! In: a step, while profiling is on. Out: the span of each launch. The kernels are launched one by one with
//! an event before and after each, and the host waits for the step.

use super::clock::Clock;
use super::nvtx;
use super::program::CudaProgram;
use gradloom_codegen::cuda::Member;
use gradloom_codegen::step::Owner;
use gradloom_core::error::Result;
use gradloom_device::cancel::Stop;

impl CudaProgram {
    /// Runs the kernels of a prepared step and records the times of the launches.
    ///
    /// # Errors
    /// Returns an error if the device is lost, or the run is stopped.
    pub(super) fn run_profiled(&mut self, stop: Stop<'_>) -> Result<()> {
        // Wait for the graphs that were launched before: NCCL need not support single calls beside them.
        while let Some(end) = self.in_flight.front() {
            end.wait(stop)?;
            self.in_flight.pop_front();
        }
        let mut clock = Clock::new(&self.gpu);
        clock.set(0)?;
        for (i, segment) in self.replay.segments.iter().enumerate() {
            for kernel in segment.clone() {
                let _range = nvtx::range(|| self.name(kernel));
                self.launch(kernel)?;
                clock.set(clock.len())?;
            }
            if i == 0 {
                self.exchange.advance();
            }
            if let Some(host) = self.host.get(i) {
                stop.check()?;
                self.run_on_host(host)?;
            }
        }
        self.profile.clear();
        let mut spans = Vec::new();
        for (i, node) in self.replay.nodes.iter().enumerate() {
            let Member::Planned(Owner::Launch(launch)) = node.member else { continue };
            spans.push((launch, clock.between(0, i)?, clock.between(i, i + 1)?));
        }
        self.profile.add_all(spans);
        Ok(())
    }

    /// Returns the name of a kernel of the step for profilers.
    fn name(&self, kernel: usize) -> String {
        match self.replay.nodes[kernel].member {
            Member::Begin => "begin".to_string(),
            Member::Planned(Owner::Launch(launch)) => {
                format!("launch {launch}: {}", self.plan.launches[launch].kernel.title())
            }
            Member::Planned(Owner::Hoisted(launch)) => format!("constant launch {launch}"),
            Member::Planned(Owner::Guards) => "guards".to_string(),
            Member::Results => "results".to_string(),
        }
    }
}
