//! Data exchange between steps and the host, as specified in `gradloom_codegen::cuda::exchange`: host and
//! device memory, and the two kernels with their parameters.
//!
//! In: the inputs and scalars of a step, and the address for its results. Out: a slot that the step's first
//! kernel reads. Invariant: a slot is reused only after the step that used it is done, because there are
//! more slots than steps in flight.

use super::driver::{Address, Function, KernelCall};
use super::gpu::Gpu;
use super::memory::{CudaMemory, HostBuffer, on_device};
use super::program::IN_FLIGHT;
use gradloom_codegen::cuda::exchange::{COUNTER_BYTES, HEADER, Item, Payload, SLOTS};
use gradloom_core::error::{Error, ErrorKind, Result};
use gradloom_core::plan::{Plan, Region};
use gradloom_device::memory::{Allocate, DeviceMemory as _, Memory, counted};
use gradloom_device::queue::{Regions, Results, STATUS_BYTES};
use std::sync::Arc;

// There must be slots for all steps in flight, for the one being prepared, and one more.
const _: () = assert!(SLOTS >= IN_FLIGHT + 2);
/// Size of an entry in the kernels' tables: an address, the index of its first word, and its number of words.
const ITEM_BYTES: usize = 16;

pub(super) struct Exchange {
    gpu: Arc<Gpu>,
    ring: HostBuffer,
    payload: Payload,
    /// Index of the step being prepared.
    step: u64,
    /// Bit mask of the items that were set for the step being prepared.
    there: u64,
    /// Flags of the larger inputs that were set for the step being prepared.
    larger_there: Vec<bool>,
    /// The counter, the addresses of results, and the tables of both kernels.
    memory: Memory,
    /// Number of words of all outputs.
    words: u64,
    /// Number of outputs.
    outputs: u64,
}

impl Exchange {
    /// Allocates memory for the data of a plan's steps and writes the tables of the two kernels.
    ///
    /// # Errors
    /// Returns an error if there is not enough memory on the device or the host.
    pub(super) fn new(
        gpu: &Arc<Gpu>,
        plan: &Plan,
        memory: &Regions,
        results: &Results,
        with: Allocate<'_>,
    ) -> Result<Self> {
        let payload = Payload::new(plan);
        let word = |bytes: u64| u32::try_from(bytes / 4).map_err(|_| too_large());
        let mut table = Vec::new();
        let mut entry = |address: Address, first: u32, words: u32| {
            table.extend(address.to_le_bytes());
            table.extend(first.to_le_bytes());
            table.extend(words.to_le_bytes());
        };
        for item in &payload.items {
            let (to, start) = place(plan, memory, item);
            let (first, bytes) =
                (item.bytes.start - HEADER, (item.bytes.end - item.bytes.start).next_multiple_of(4));
            entry(to.at(start), word(first)?, word(bytes)?);
        }
        let (mut outputs, mut first) = (0, 0);
        for copy in results.copies(memory) {
            entry(on_device(copy.memory).at(copy.start), word(first)?, word(copy.bytes as u64)?);
            (outputs, first) = (outputs + 1, first + copy.bytes as u64);
        }
        let memory = with(COUNTER_BYTES + table.len() as u64);
        let Some(memory) = memory else {
            return Err(Error::new(ErrorKind::Device, "no memory for a program's exchange on the GPU"));
        };
        memory.write(counted(COUNTER_BYTES), &table)?;
        Ok(Self {
            gpu: Arc::clone(gpu),
            ring: HostBuffer::new(gpu, SLOTS * counted(payload.slot), "inputs")?,
            step: 0,
            there: 0,
            larger_there: vec![false; payload.larger.len()],
            payload,
            memory,
            words: first / 4,
            outputs,
        })
    }

    /// Returns the first kernel of a step.
    pub(super) fn begin(&self, function: Function, status: &Memory) -> KernelCall {
        let parameters = vec![
            on_device(&self.memory).at(0),
            on_device(&self.memory).at(counted(COUNTER_BYTES)),
            self.payload.items.len() as u64,
            self.payload.copied / 16,
            self.ring.address(),
            self.payload.slot,
            on_device(status).at(0),
        ];
        KernelCall { function, blocks: 1, threads: 1024, shared: 0, parameters }
    }

    /// Returns the kernel that copies results to the host.
    pub(super) fn results(&self, function: Function, status: &Memory) -> KernelCall {
        let parameters = vec![
            on_device(&self.memory).at(0),
            on_device(&self.memory).at(counted(COUNTER_BYTES) + self.payload.items.len() * ITEM_BYTES),
            self.outputs,
            self.words,
            STATUS_BYTES as u64 / 4,
            on_device(status).at(0),
        ];
        let blocks = u32::try_from(self.words.div_ceil(256).clamp(1, 512)).expect("they are few");
        KernelCall { function, blocks, threads: 256, shared: 0, parameters }
    }

    pub(super) fn extra_bytes(&self) -> usize {
        self.memory.len()
    }

    fn slot(&self) -> usize {
        (self.step % SLOTS as u64) as usize * counted(self.payload.slot)
    }

    /// Sets the block of scalars for the step being prepared.
    pub(super) fn set_scalars(&mut self, bytes: &[u8]) {
        if let Some(item) = self.payload.items.first().filter(|item| item.buffer.is_none()) {
            self.ring.write(self.slot() + counted(item.bytes.start), bytes);
            self.there |= 1;
        }
    }

    /// Sets an input for the step being prepared; returns `false` if the slots have no room for it.
    pub(super) fn set(&mut self, buffer: usize, bytes: &[u8]) -> bool {
        let of_buffer = |item: &Item| item.buffer == Some(buffer);
        let Payload { items, larger, .. } = &self.payload;
        let item = if let Some(i) = items.iter().position(of_buffer) {
            self.there |= 1 << i;
            &items[i]
        } else if let Some(i) = larger.iter().position(of_buffer) {
            self.larger_there[i] = true;
            &larger[i]
        } else {
            return false;
        };
        self.ring.write(self.slot() + counted(item.bytes.start), bytes);
        true
    }

    /// Copies the inputs that the first kernel does not copy.
    ///
    /// # Errors
    /// Returns an error if the device is lost.
    fn copy_larger(&mut self, plan: &Plan, memory: &Regions) -> Result<()> {
        for (i, item) in self.payload.larger.iter().enumerate() {
            if std::mem::take(&mut self.larger_there[i]) {
                self.copy(item, plan, memory)?;
            }
        }
        Ok(())
    }

    /// Copies the bytes of an item to their location in device memory.
    fn copy(&self, item: &Item, plan: &Plan, memory: &Regions) -> Result<()> {
        let (to, start) = place(plan, memory, item);
        to.write(start, &self.ring.bytes()[self.slot()..][counted(item.bytes.start)..counted(item.bytes.end)])
    }

    /// Copies all inputs that were set and waits for the copies, for launches that run outside of a whole
    /// step.
    ///
    /// # Errors
    /// Returns an error if the device is lost.
    pub(super) fn flush(&mut self, plan: &Plan, memory: &Regions) -> Result<()> {
        self.copy_larger(plan, memory)?;
        for (i, item) in self.payload.items.iter().enumerate().filter(|(_, item)| item.buffer.is_some()) {
            if self.there >> i & 1 == 1 {
                self.copy(item, plan, memory)?;
            }
        }
        self.there = 0;
        // The slot may be overwritten before the next launch, so the copies must be complete.
        self.gpu.wait_for_all()
    }

    /// Completes the slot for the step, whose results go to `results`; outputs are copied only if `outputs`
    /// is true.
    ///
    /// # Errors
    /// Returns an error if the device is lost.
    pub(super) fn hand_over(
        &mut self,
        plan: &Plan,
        memory: &Regions,
        results: &HostBuffer,
        outputs: bool,
    ) -> Result<()> {
        self.copy_larger(plan, memory)?;
        let to = results.address();
        let outputs = if outputs { to + STATUS_BYTES as Address } else { 0 };
        let header = [to, outputs, std::mem::take(&mut self.there)].map(u64::to_le_bytes).concat();
        self.ring.write(self.slot(), &header);
        Ok(())
    }

    /// Advances to the next step, after a step was launched.
    pub(super) fn advance(&mut self) {
        self.step += 1;
    }
}

/// Returns the device memory of an item, and the item's offset in it.
fn place<'m>(plan: &Plan, memory: &'m Regions, item: &Item) -> (&'m CudaMemory, usize) {
    let (region, offset) =
        item.buffer.map_or((Region::Step, 0), |i| (plan.buffers[i].region, plan.buffers[i].offset));
    let (memory, start) = memory.place(region, offset);
    (on_device(memory), start)
}

fn too_large() -> Error {
    Error::new(ErrorKind::Plan, "a step's inputs or outputs have more bytes than 32 bits count in words")
        .help("feed or capture smaller tensors")
}
