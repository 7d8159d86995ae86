//! Runs a single launch of a program, for debug runs.
//!
//! In: a launch whose operands are in memory. Out: its results in memory. Invariant: a window that does
//! not fit is a trap, as in a whole step; guards are not checked.

use super::download::Download;
use super::memory::{on_device, staging};
use super::program::{WgpuProgram, encode};
use gradloom_codegen::step::{Owner, Status};
use gradloom_core::error::Result;
use gradloom_core::plan::Region;
use gradloom_device::backend::Resident;
use gradloom_device::queue::{STATUS_BYTES, STEP_BYTES, check_window};
use wgpu::CommandEncoderDescriptor;

impl WgpuProgram {
    /// Runs a launch and waits for it.
    ///
    /// # Errors
    /// Returns an error if the launch traps, or the device is lost.
    pub(super) fn run_launch(&mut self, launch: usize) -> Result<()> {
        self.gpu.check()?;
        check_window(&self.plan, launch, self.stagings.results(), |access, into| self.read(access, into))?;
        // Only changed scalars are written, because the memory of the others may already hold later values.
        for range in self.changed_scalars.drain(..) {
            let (arena, start) = self.memory.place(Region::Step, range.start as u64);
            self.gpu.queue.write_buffer(&on_device(arena).buffer, start as u64, &self.scalars[range]);
        }
        let status = &on_device(self.memory.status()).buffer;
        let staging = staging(&self.gpu, STATUS_BYTES)?;
        let mut encoder = self.gpu.device.create_command_encoder(&CommandEncoderDescriptor::default());
        encoder.clear_buffer(status, 0, Some(STEP_BYTES));
        let first = self.steps.iter().position(|step| step.owner == Owner::Launch(launch));
        let steps = first.map_or(&[][..], |first| &self.steps[first..]);
        let count = steps.iter().take_while(|step| step.owner == Owner::Launch(launch)).count();
        encode(&mut encoder, &steps[..count], 0, None);
        if let Some(host) = self.host.iter().find(|host| host.launch == launch) {
            encoder = self.run_on_host(host, encoder)?;
        }
        encoder.copy_buffer_to_buffer(status, 0, &staging, 0, STATUS_BYTES as u64);
        let submission = self.gpu.submit(encoder)?;
        let (status, _) = Download::new(staging, submission).read(&self.gpu, Status::new)?;
        status.trap().map_or(Ok(()), |trap| self.stagings.results().outcome(trap).map(|_| ()))
    }
}
