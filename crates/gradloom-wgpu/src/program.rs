//! A program on a GPU: its buffers, compiled shaders and bind groups. A step encodes one compute pass and
//! submits it. If the device is idle, the first dispatches are submitted early; if the host runs a custom op
//! in between, the commands before it are submitted first.

use super::gpu::Gpu;
use super::memory::{on_device, staging};
use super::pending::PendingStep;
use super::pipelines::Pipeline;
use super::timestamps::{Timed, Timestamps, add_spans};
use gradloom_codegen::step::Owner;
use gradloom_core::error::Result;
use gradloom_core::kernel::Access;
use gradloom_core::plan::{Plan, Region, Role};
use gradloom_device::backend::{Pending, Queued, Resident, Work};
use gradloom_device::cancel::Stop;
use gradloom_device::elements::Elements;
use gradloom_device::memory::{Memory, counted};
use gradloom_device::queue::{HostLaunch, Regions, STATUS_BYTES, STEP_BYTES, Stagings};
use gradloom_device::spans::{LaunchSpan, Spans};
use std::collections::VecDeque;
use std::iter;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;
use wgpu::{
    BindGroup, Buffer, CommandEncoder, CommandEncoderDescriptor, ComputePassDescriptor, SubmissionIndex,
};

/// Maximum number of steps in flight, enough for the device never to wait for the host.
const IN_FLIGHT: usize = 4;

/// Number of dispatches in the first early submission of a step.
const FIRST_SUBMISSION: usize = 16;

/// Returns the indices of the dispatches before which the preceding ones are submitted if the device is idle.
/// The first submission is small. While the device runs one, the host encodes about twice as many dispatches
/// for the next, so there are few submissions, each of which takes some 20 us of the device's time.
pub(super) fn early_submissions(dispatches: usize) -> Vec<usize> {
    let ends = iter::successors(Some(FIRST_SUBMISSION), |end| Some(2 * end + FIRST_SUBMISSION));
    ends.take_while(|end| end + FIRST_SUBMISSION <= dispatches).collect()
}

/// One dispatch, ready to be encoded.
pub(super) struct Ready {
    pub(super) owner: Owner,
    pub(super) pipeline: Arc<Pipeline>,
    pub(super) bindings: BindGroup,
    pub(super) workgroups: [u32; 3],
}

/// A program, created in `load.rs`.
pub(super) struct WgpuProgram {
    pub(super) gpu: Arc<Gpu>,
    pub(super) plan: Arc<Plan>,
    pub(super) memory: Regions,
    pub(super) steps: Vec<Ready>,
    /// Launches that run on the host between the dispatches, in order.
    pub(super) host: Vec<HostLaunch>,
    /// Indices of dispatches before which the preceding ones are submitted if the device is idle.
    pub(super) early: Vec<usize>,
    /// Number of early submissions in the last step.
    pub(super) last_early: usize,
    /// Index of the first dispatch of the second pass, which runs after the results were copied.
    pub(super) pause: usize,
    /// Block of the step's scalars, which is written as a whole.
    pub(super) scalars: Vec<u8>,
    /// Ranges of `scalars` that were set since it was last written.
    pub(super) changed_scalars: Vec<Range<usize>>,
    /// Indices of inputs, with the tensors that a step copies to them.
    pub(super) bound: Vec<(usize, Arc<Memory>)>,
    /// Number of times that input data was copied from the host.
    pub(super) uploads: usize,
    pub(super) stagings: Arc<Stagings<Buffer>>,
    pub(super) runs: u64,
    /// Submissions of the steps in flight, oldest first.
    pub(super) in_flight: VecDeque<SubmissionIndex>,
    pub(super) unique: usize,
    /// Total size in bytes of the tables that shaders read.
    pub(super) table_bytes: usize,
    pub(super) profile: Spans,
    /// True if whole steps are timed.
    pub(super) times_steps: bool,
    /// Time of the last step, if it was timed.
    pub(super) step_time: Option<Duration>,
    pub(super) timestamps: Option<Timestamps>,
}

/// Encodes dispatches as one pass. `first` is the step's index of the first dispatch in `steps`. The device
/// orders dispatches that access the same bytes.
pub(super) fn encode(
    encoder: &mut CommandEncoder,
    steps: &[Ready],
    first: usize,
    timestamps: Option<&Timestamps>,
) {
    if steps.is_empty() {
        return;
    }
    let mut pass = encoder.begin_compute_pass(&ComputePassDescriptor::default());
    let mut last: Option<&Arc<Pipeline>> = None;
    if let Some(timestamps) = timestamps.filter(|_| first == 0) {
        timestamps.note(&mut pass, 0);
    }
    for (i, step) in steps.iter().enumerate() {
        if last.is_none_or(|last| !Arc::ptr_eq(last, &step.pipeline)) {
            pass.set_pipeline(&step.pipeline.pipeline);
            last = Some(&step.pipeline);
        }
        pass.set_bind_group(0, &step.bindings, &[]);
        let [x, y, z] = step.workgroups;
        pass.dispatch_workgroups(x, y, z);
        if let Some(timestamps) = timestamps {
            timestamps.note(&mut pass, first + i + 1);
        }
    }
}

/// Copies bytes between buffers, rounded up to whole words.
fn copy(encoder: &mut CommandEncoder, from: (&Memory, usize), to: (&Memory, usize), bytes: usize) {
    if bytes == 0 {
        return;
    }
    let ((from, start), (to, at)) = (from, to);
    let (from, to, bytes) = (&on_device(from).buffer, &on_device(to).buffer, bytes.next_multiple_of(4));
    encoder.copy_buffer_to_buffer(from, start as u64, to, at as u64, bytes as u64);
}

impl WgpuProgram {
    fn extra_bytes(&self) -> u64 {
        (STATUS_BYTES + self.table_bytes) as u64
    }

    /// Creates or removes the timestamps, as timing requires. Timing all dispatches includes timing the step.
    fn set_clock(&mut self) {
        let timed = match (self.profile.on, self.times_steps) {
            (true, _) => Some(Timed::Dispatches),
            (false, true) => Some(Timed::Step),
            (false, false) => None,
        };
        // If there is no memory for timestamps, nothing is timed.
        let new = |timed| Timestamps::new(&self.gpu, timed, self.steps.len()).ok().flatten();
        self.timestamps = timed.and_then(new);
        self.step_time = None;
    }
}

impl Queued for WgpuProgram {
    fn make_room(&mut self, stop: Stop<'_>) -> Result<()> {
        while self.in_flight.len() >= IN_FLIGHT {
            self.gpu.wait_unless(self.in_flight[0].clone(), stop)?;
            self.in_flight.pop_front();
        }
        Ok(())
    }

    fn can_keep(&self, output: usize) -> bool {
        // An output can be copied on the device only if it is contiguous and starts at a whole word.
        let access = &self.plan.outputs[output].1;
        access.layout.is_contiguous() && (access.layout.offset * access.dtype.bytes()).is_multiple_of(4)
    }

    fn submit(&mut self, stop: Stop<'_>, kept: &[(usize, Arc<Memory>)]) -> Result<Box<dyn Pending>> {
        self.gpu.check()?;
        stop.check()?;
        self.step_time = None;
        self.changed_scalars.clear();
        if !self.scalars.is_empty() {
            let (arena, start) = self.memory.place(Region::Step, 0);
            self.gpu.queue.write_buffer(&on_device(arena).buffer, start as u64, &self.scalars);
        }
        let status = &on_device(self.memory.status()).buffer;
        let mut encoder = self.gpu.device.create_command_encoder(&CommandEncoderDescriptor::default());
        encoder.clear_buffer(status, 0, Some(STEP_BYTES));
        for (input, tensor) in &self.bound {
            let buffer = &self.plan.buffers[*input];
            let (to, start) = self.memory.place(buffer.region, buffer.offset);
            copy(&mut encoder, (tensor, 0), (to, start), counted(buffer.bytes));
        }
        let timestamps = self.timestamps.as_ref();
        let mut first = 0;
        for host in &self.host {
            stop.check()?;
            encode(&mut encoder, &self.steps[first..host.before], first, timestamps);
            encoder = self.run_on_host(host, encoder)?;
            first = host.before;
        }
        let early = if self.stagings.all_read(self.runs) { &self.early[..] } else { &[] };
        self.last_early = early.len();
        for &cut in early {
            encode(&mut encoder, &self.steps[first..cut], first, timestamps);
            self.gpu.submit(encoder)?;
            encoder = self.gpu.device.create_command_encoder(&CommandEncoderDescriptor::default());
            first = cut;
        }
        encode(&mut encoder, &self.steps[first..self.pause], first, timestamps);
        let staging = self.stagings.take(|bytes| staging(&self.gpu, bytes))?;
        for (output, tensor) in kept {
            let access = &self.plan.outputs[*output].1;
            let buffer = &self.plan.buffers[self.plan.buffer_of[&access.buffer]];
            let (size, elements) = (access.dtype.bytes(), access.layout.shape.elements());
            let from = self.memory.place(buffer.region, buffer.offset + access.start());
            copy(&mut encoder, from, (tensor, 0), elements * size);
        }
        for copy in self.stagings.results().copies(&self.memory).filter(|_| kept.is_empty()) {
            let (from, to, bytes) = (&on_device(copy.memory).buffer, copy.to as u64, copy.bytes as u64);
            encoder.copy_buffer_to_buffer(from, copy.start as u64, &staging, to, bytes);
        }
        encode(&mut encoder, &self.steps[self.pause..], self.pause, timestamps);
        if let Some(timestamps) = timestamps {
            timestamps.queries.resolve(&mut encoder);
        }
        encoder.copy_buffer_to_buffer(status, 0, &staging, 0, STATUS_BYTES as u64);
        if !self.host.is_empty() {
            stop.check()?;
        }
        let submission = self.gpu.submit(encoder)?;
        let run = self.runs;
        self.runs += 1;
        self.in_flight.push_back(submission.clone());
        // Take the timestamps, so that they are dropped and not used again if reading fails.
        if let Some(timestamps) = self.timestamps.take() {
            let times = timestamps.queries.read(&self.gpu, submission.clone())?;
            self.step_time = times.last().copied().filter(|_| self.times_steps);
            if timestamps.timed == Timed::Dispatches {
                let launch = |step: &Ready| match step.owner {
                    Owner::Launch(launch) => Some(launch),
                    Owner::Hoisted(_) | Owner::Guards => None,
                };
                let launches: Vec<Option<usize>> = self.steps.iter().map(launch).collect();
                self.profile.clear();
                add_spans(&times, &launches, &mut self.profile);
            }
            self.timestamps = Some(timestamps);
        }
        Ok(Box::new(PendingStep::new(&self.gpu, &self.stagings, run, staging, submission)))
    }

    fn work(&self) -> Work {
        let early = &self.early[..self.last_early];
        let ends = self.host.iter().map(|host| host.before).chain(early.iter().copied());
        let ends = ends.chain([self.pause, self.steps.len()]);
        let mut first = 0;
        let passes = ends.filter(|&end| std::mem::replace(&mut first, end) < end).count();
        Work {
            dispatches: self.steps.len(),
            passes,
            submits: 1 + self.host.len() + early.len(),
            host_ops: self.host.len(),
            readbacks: self.stagings.readbacks(),
            uploads: self.uploads,
            extra_bytes: self.extra_bytes(),
        }
    }
}

impl Resident for WgpuProgram {
    fn write(&mut self, buffer: usize, bytes: &[u8]) {
        let buffer = &self.plan.buffers[buffer];
        assert_eq!(bytes.len() as u64, buffer.bytes, "the feed was checked");
        if buffer.role == Role::Scalar {
            let start = counted(buffer.offset);
            let range = start..start + bytes.len();
            self.scalars[range.clone()].copy_from_slice(bytes);
            // Extend the range to a whole number of words, because copies consist of whole words.
            self.changed_scalars.push(range.start..range.end.next_multiple_of(4));
            return;
        }
        if bytes.is_empty() {
            return;
        }
        self.uploads += 1;
        let (memory, start) = self.memory.place(buffer.region, buffer.offset);
        if bytes.len().is_multiple_of(4) {
            self.gpu.queue.write_buffer(&on_device(memory).buffer, start as u64, bytes);
        } else {
            // Pad the bytes to whole words, for which the buffers have room.
            let mut words = bytes.to_vec();
            words.resize(bytes.len().next_multiple_of(4), 0);
            self.gpu.queue.write_buffer(&on_device(memory).buffer, start as u64, &words);
        }
    }

    fn bind(&mut self, buffer: usize, bytes: u64, tensor: &Arc<Memory>) -> Result<()> {
        assert_eq!(bytes, self.plan.buffers[buffer].bytes, "the feed was checked");
        self.bound.push((buffer, Arc::clone(tensor)));
        Ok(())
    }

    fn unbind(&mut self) {
        self.bound.clear();
    }

    fn run_one(&mut self, launch: usize) -> Result<()> {
        self.run_launch(launch)
    }

    fn read(&self, access: &Access, into: &mut Elements) -> Result<()> {
        self.memory.read(&self.plan, access, into)
    }

    fn allocated(&self) -> u64 {
        self.memory.planned() + self.extra_bytes()
    }

    fn unique_kernels(&self) -> usize {
        self.unique
    }

    fn set_profiling(&mut self, on: bool) {
        self.profile.set(on, self.plan.launches.len());
        self.set_clock();
    }

    fn set_step_timing(&mut self, on: bool) {
        self.times_steps = on;
        self.set_clock();
    }

    fn step_time(&self) -> Result<Option<Duration>> {
        Ok(self.step_time)
    }

    fn spans(&self) -> &[LaunchSpan] {
        self.profile.spans()
    }
}
