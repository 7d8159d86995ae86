//! How a step gets its data and gives its results, without anything being changed in what is replayed.
//!
//! In: the inputs and scalars of a step, and where its results go. Out: two kernels, the first of a step and
//! the one between its phases, that read and write memory of the host. The host puts a step's data into the
//! next of a few slots; the first kernel counts the steps, and so knows the slot. Always holds: a slot is
//! used again only when the step that had it is done, as there are more slots than steps on their way.

use super::driver::{Address, Function, KernelCall};
use super::edges::Touches;
use super::gpu::Gpu;
use super::memory::{CudaMemory, HostBuffer, on_device};
use super::program::{EXCHANGE, STATUS};
use crate::gpu::{Regions, Results, STATUS_BYTES, STEP_BYTES};
use crate::memory::{Allocate, Memory};
use gradloom_core::error::{Error, ErrorKind, Result};
use gradloom_core::plan::{Buffer, Plan, Region, Role};
use std::ops::Range;
use std::sync::Arc;

/// Slots: more than steps on their way, and one for the step that is being prepared.
const SLOTS: usize = 8;
/// The first kernel has the number in its text.
const _: () = assert!(SLOTS == 8);
/// Bytes at the start of a slot: where the status goes, where outputs go or 0, and which items are there, a
/// bit for each.
const HEADER: usize = 32;
/// Items that the first kernel copies, at most.
const ITEMS: usize = 63;
/// Bytes that the first kernel copies, at most: its one block reads them through the bus.
const COPIED: usize = 4 * 1024 * 16 - HEADER - ITEMS * 16;
/// Bytes of an input that has room in every slot, at most; a larger one is copied when it is set.
const ROOM: usize = 16 << 20;

/// An item is an address, the number of its first word among all, and how many it has.
macro_rules! with_items {
    ($kernel:literal) => {
        concat!("struct Item {\n    unsigned* address;\n    unsigned first, words;\n};\n", $kernel)
    };
}

/// The kernel that takes over the data of a step.
pub(super) const BEGIN: &str = with_items!(
    "// Sixteen bytes of the host, which may have changed since the last step.
__device__ uint4 from_host(const uint4* at) {
    uint4 x;
    asm volatile(\"ld.volatile.global.v4.u32 {%0, %1, %2, %3}, [%4];\" : \"=r\"(x.x), \"=r\"(x.y), \"=r\"(x.z), \"=r\"(x.w) : \"l\"(at));
    return x;
}
extern \"C\" __global__ void __launch_bounds__(1024) begin(unsigned long long* exchange, const Item* items, unsigned long long count, unsigned long long units, const unsigned char* ring, unsigned long long slot_bytes, unsigned* status) {
    __shared__ Item known[64];
    __shared__ uint4 header[2];
    unsigned long long step = exchange[0];
    const uint4* slot = (const uint4*)(ring + (step & 7) * slot_bytes);
    // All reads at once: each takes its way through the bus.
    uint4 all[4];
    #pragma unroll
    for (unsigned i = 0; i < 4; i++) {
        unsigned unit = threadIdx.x + i * 1024;
        if (unit < units) all[i] = from_host(slot + unit);
    }
    if (threadIdx.x < count) known[threadIdx.x] = items[threadIdx.x];
    if (threadIdx.x < 8) status[threadIdx.x] = 0;
    if (threadIdx.x < 2) header[threadIdx.x] = all[0];
    __syncthreads();
    const unsigned long long* words = (const unsigned long long*)header;
    if (threadIdx.x == 0) {
        exchange[0] = step + 1;
        exchange[1] = words[0];
        exchange[2] = words[1];
    }
    #pragma unroll
    for (unsigned i = 0; i < 4; i++) {
        unsigned unit = threadIdx.x + i * 1024;
        if (unit < 2 || unit >= units) continue;
        for (unsigned j = 0; j < count; j++) {
            unsigned at = (unit - 2) * 4 - known[j].first;
            if (at >= known[j].words) continue;
            if (words[2] >> j & 1) {
                unsigned* to = known[j].address + at;
                unsigned last = known[j].words - at - 1;
                to[0] = all[i].x;
                if (last >= 1) to[1] = all[i].y;
                if (last >= 2) to[2] = all[i].z;
                if (last >= 3) to[3] = all[i].w;
            }
            break;
        }
    }
}
"
);

/// The kernel that hands its results out.
pub(super) const RESULTS: &str = with_items!(
    "extern \"C\" __global__ void __launch_bounds__(256) results(const unsigned long long* exchange, const Item* items, unsigned long long count, unsigned long long words, unsigned long long status_words, const unsigned* status) {
    unsigned* status_to = (unsigned*)exchange[1];
    unsigned* outputs_to = (unsigned*)exchange[2];
    if (blockIdx.x == 0 && threadIdx.x < status_words) status_to[threadIdx.x] = status[threadIdx.x];
    if (outputs_to == 0) return;
    for (unsigned long long w = blockIdx.x * 256ull + threadIdx.x; w < words; w += gridDim.x * 256ull) {
        unsigned low = 0, high = (unsigned)count;
        while (high - low > 1) {
            unsigned middle = (low + high) / 2;
            if (items[middle].first <= w) low = middle;
            else high = middle;
        }
        outputs_to[w] = items[low].address[w - items[low].first];
    }
}
"
);

/// Bytes that the first kernel reads from slots, and what it makes of them.
struct Item {
    /// The buffer in the plan; none of the block of scalars.
    buffer: Option<usize>,
    address: Address,
    /// Bytes of the payload.
    bytes: Range<usize>,
}

/// A larger input, whose bytes have a place in every slot.
struct Large {
    buffer: usize,
    /// Bytes of the slot.
    bytes: Range<usize>,
    is_set: bool,
}

/// The exchange of a program with the host.
pub(super) struct Exchange {
    gpu: Arc<Gpu>,
    ring: HostBuffer,
    slot_bytes: usize,
    /// Number of the step that is being prepared.
    step: u64,
    items: Vec<Item>,
    /// Which items are set for it, as bits.
    there: u64,
    larger: Vec<Large>,
    /// The counter, the places of results, and the tables of both kernels.
    memory: CudaMemory,
    /// Sixteen bytes each, of header and payload.
    units: u64,
    /// Words of all outputs, and the number of outputs.
    words: u64,
    outputs: u64,
}

const COUNTER_BYTES: usize = 32;
const ITEM_BYTES: usize = 16;

impl Exchange {
    /// Makes room for the data of a plan's steps, and the tables of the two kernels.
    ///
    /// # Errors
    /// When there is no memory, on the device or the host.
    pub(super) fn new(
        gpu: &Arc<Gpu>,
        plan: &Plan,
        memory: &Regions,
        results: &Results,
        with: Allocate<'_>,
    ) -> Result<Self> {
        let address = |region: Region, offset: usize| {
            let (memory, start) = memory.place(region, offset);
            on_device(memory).at(start)
        };
        let mut items = Vec::new();
        let mut at = 0;
        let mut add = |buffer: Option<usize>, address: Address, bytes: usize| {
            items.push(Item { buffer, address, bytes: at..at + bytes });
            at += bytes.next_multiple_of(16);
        };
        if plan.scalar_bytes() > 0 {
            add(None, address(Region::Step, 0), plan.scalar_bytes());
        }
        let is_input = |buffer: &Buffer| buffer.role == Role::Input && buffer.bytes > 0;
        let inputs = plan.buffers.iter().enumerate().filter(|(_, buffer)| is_input(buffer));
        let mut copied = plan.scalar_bytes();
        let (small, rest): (Vec<_>, Vec<_>) = inputs.partition(|(_, buffer)| {
            copied += buffer.bytes;
            copied <= COPIED
        });
        let (small, more) = small.split_at(small.len().min(ITEMS - 1));
        for (number, buffer) in small {
            add(Some(*number), address(buffer.region, buffer.offset), buffer.bytes);
        }
        let payload = at;
        assert!(HEADER + payload <= 4 * 1024 * 16, "scalars are few");
        let mut slot_bytes = HEADER + payload;
        let mut larger = Vec::new();
        for (buffer, Buffer { bytes, .. }) in
            more.iter().copied().chain(rest).filter(|(_, b)| b.bytes <= ROOM)
        {
            slot_bytes = slot_bytes.next_multiple_of(16);
            larger.push(Large { buffer, bytes: slot_bytes..slot_bytes + bytes, is_set: false });
            slot_bytes += bytes;
        }
        slot_bytes = slot_bytes.next_multiple_of(16);

        let word = |bytes: usize| u32::try_from(bytes / 4).map_err(|_| too_large());
        let mut table = Vec::new();
        let mut entry = |address: Address, first: u32, words: u32| {
            table.extend(address.to_le_bytes());
            table.extend(first.to_le_bytes());
            table.extend(words.to_le_bytes());
        };
        for item in &items {
            entry(item.address, word(item.bytes.start)?, word(item.bytes.len().next_multiple_of(4))?);
        }
        let (mut outputs, mut first) = (0, 0);
        for copy in results.copies(memory) {
            entry(on_device(copy.memory).at(copy.start), word(first)?, word(copy.bytes)?);
            (outputs, first) = (outputs + 1, first + copy.bytes);
        }
        let memory = with(COUNTER_BYTES + table.len());
        let Some(Memory::Cuda(memory)) = memory else {
            return Err(Error::new(ErrorKind::Device, "no memory for a program's exchange on the GPU"));
        };
        memory.write(COUNTER_BYTES, &table)?;
        Ok(Self {
            gpu: Arc::clone(gpu),
            ring: HostBuffer::new(gpu, SLOTS * slot_bytes, "inputs")?,
            slot_bytes,
            step: 0,
            items,
            there: 0,
            larger,
            memory,
            units: ((HEADER + payload) / 16) as u64,
            words: first as u64 / 4,
            outputs,
        })
    }

    /// The kernel that a step starts with, with what it touches.
    pub(super) fn begin(&self, function: Function, plan: &Plan, status: &Memory) -> (KernelCall, Touches) {
        let parameters = vec![
            self.memory.at(0),
            self.memory.at(COUNTER_BYTES),
            self.items.len() as u64,
            self.units,
            self.ring.address(),
            self.slot_bytes as u64,
            on_device(status).at(0),
        ];
        let mut writes = vec![(STATUS, 0..STEP_BYTES as usize), (EXCHANGE, 0..COUNTER_BYTES)];
        writes.extend(self.items.iter().map(|item| match item.buffer {
            None => (Region::Step as usize, 0..plan.scalar_bytes()),
            Some(number) => {
                let Buffer { region, offset, bytes, .. } = plan.buffers[number];
                (region as usize, offset..offset + bytes)
            }
        }));
        (KernelCall { function, blocks: 1, threads: 1024, parameters }, Touches { reads: Vec::new(), writes })
    }

    /// The kernel that hands results out, but for what it reads of them.
    pub(super) fn results(&self, function: Function, status: &Memory) -> KernelCall {
        let parameters = vec![
            self.memory.at(0),
            self.memory.at(COUNTER_BYTES + self.items.len() * ITEM_BYTES),
            self.outputs,
            self.words,
            STATUS_BYTES as u64 / 4,
            on_device(status).at(0),
        ];
        let blocks = u32::try_from(self.words.div_ceil(256).clamp(1, 512)).expect("they are few");
        KernelCall { function, blocks, threads: 256, parameters }
    }

    pub(super) fn extra_bytes(&self) -> usize {
        self.memory.len()
    }

    fn slot(&self) -> usize {
        (self.step % SLOTS as u64) as usize * self.slot_bytes
    }

    /// Sets the block of scalars for the step that is being prepared.
    pub(super) fn set_scalars(&mut self, bytes: &[u8]) {
        if let Some(item) = self.items.first().filter(|item| item.buffer.is_none()) {
            self.ring.write(self.slot() + HEADER + item.bytes.start, bytes);
            self.there |= 1;
        }
    }

    /// Sets an input for the step that is being prepared; `false` if it has no room in the slots.
    pub(super) fn set(&mut self, buffer: usize, bytes: &[u8]) -> bool {
        let slot = self.slot();
        if let Some(i) = self.items.iter().position(|item| item.buffer == Some(buffer)) {
            self.ring.write(slot + HEADER + self.items[i].bytes.start, bytes);
            self.there |= 1 << i;
            return true;
        }
        let Some(large) = self.larger.iter_mut().find(|large| large.buffer == buffer) else { return false };
        self.ring.write(slot + large.bytes.start, bytes);
        large.is_set = true;
        true
    }

    /// Has the inputs copied that the first kernel does not copy.
    ///
    /// # Errors
    /// When the device is lost.
    fn copy_larger(&mut self, plan: &Plan, memory: &Regions) -> Result<()> {
        let slot = self.slot();
        for large in &mut self.larger {
            if !std::mem::take(&mut large.is_set) {
                continue;
            }
            let Buffer { region, offset, bytes, .. } = plan.buffers[large.buffer];
            let (to, start) = memory.place(region, offset);
            let from = &self.ring.bytes()[slot + large.bytes.start..][..bytes];
            on_device(to).write(start, from)?;
        }
        Ok(())
    }

    /// Has everything that was set copied at once, for launches that run by themselves.
    ///
    /// # Errors
    /// When the device is lost.
    pub(super) fn flush(&mut self, plan: &Plan, memory: &Regions) -> Result<()> {
        self.copy_larger(plan, memory)?;
        let payload = self.slot() + HEADER;
        for (i, item) in self.items.iter().enumerate().filter(|(_, item)| item.buffer.is_some()) {
            if self.there >> i & 1 == 1 {
                let bytes = &self.ring.bytes()[payload + item.bytes.start..payload + item.bytes.end];
                self.gpu
                    .ask("take an input", |driver| driver.upload(item.address, bytes, self.gpu.stream))?;
            }
        }
        self.there = 0;
        // The slot is written again before the next launch.
        self.gpu.wait_for_all()
    }

    /// Hands the slot to the step, whose results go to `results`, its outputs only if they are wanted.
    ///
    /// # Errors
    /// When the device is lost.
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

    /// Goes on to the next step, once one was launched.
    pub(super) fn advance(&mut self) {
        self.step += 1;
    }
}

fn too_large() -> Error {
    Error::new(ErrorKind::Plan, "a step's inputs or outputs have more bytes than 32 bits count in words")
        .help("feed or capture smaller tensors")
}
