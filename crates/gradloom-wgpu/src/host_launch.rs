//! Runs ops on the host in the middle of a step ([`HostLaunch`]): submits the commands so far and waits for
//! the operands.
//!
//! In: the commands of a step before such a launch. Out: the results of the op on the device, for the
//! following commands. Invariant: an op is not called once its step has trapped, and an op that fails ends
//! the step before its commit.

use super::download::Download;
use super::memory::{on_device, staging};
use super::program::WgpuProgram;
use gradloom_codegen::step::Status;
use gradloom_core::error::Result;
use gradloom_device::memory::counted;
use gradloom_device::queue::{HostLaunch, HostSpan, STATUS_BYTES};
use wgpu::{CommandEncoder, CommandEncoderDescriptor};

impl WgpuProgram {
    /// Submits the commands so far, runs the op on their results, and returns an encoder for the following
    /// commands.
    ///
    /// # Errors
    /// Returns an error if the op fails (a trap), the device is lost, or there is not enough memory.
    pub(super) fn run_on_host(
        &self,
        launch: &HostLaunch,
        mut encoder: CommandEncoder,
    ) -> Result<CommandEncoder> {
        let Self { gpu, memory, stagings, .. } = self;
        let mut ends = vec![STATUS_BYTES];
        for read in &launch.reads {
            ends.push(ends[ends.len() - 1] + counted(read.words().end - read.words().start));
        }
        let staging = staging(gpu, ends[launch.reads.len()])?;
        let status = &on_device(memory.status()).buffer;
        encoder.copy_buffer_to_buffer(status, 0, &staging, 0, STATUS_BYTES as u64);
        for (read, &to) in launch.reads.iter().zip(&ends) {
            let words = read.words();
            if !words.is_empty() {
                let (from, start) = memory.place(read.region, words.start);
                let from = &on_device(from).buffer;
                encoder.copy_buffer_to_buffer(
                    from,
                    start as u64,
                    &staging,
                    to as u64,
                    words.end - words.start,
                );
            }
        }
        let submission = gpu.submit(encoder)?;
        let mut operands: Vec<Vec<u64>> =
            launch.reads.iter().map(HostSpan::on_host).collect::<Result<_>>()?;
        let (status, _) = Download::new(staging, submission).read(gpu, |bytes| {
            for ((read, &at), operand) in launch.reads.iter().zip(&ends).zip(&mut operands) {
                let at = at + counted(read.bytes.start - read.words().start);
                HostSpan::fill(&bytes[at..at + read.length()], operand);
            }
            Status::new(bytes)
        })?;
        if status.trap().is_none() {
            launch.call(memory, stagings.results(), &operands)?;
        }
        Ok(gpu.device.create_command_encoder(&CommandEncoderDescriptor::default()))
    }
}
