//! Exchange of a step's data and results with the host, without changes to what is replayed.
//!
//! In: a plan. Out: two kernels, the first of a step and the one between its phases, that read and write
//! memory of the host; and where the data of each step lies for the first ([`Payload`]). The host puts it
//! into the next of a few slots; the first kernel counts the steps, and so knows the slot.

use gradloom_core::plan::{Buffer, Plan, Role};
use std::ops::Range;

/// Slots of the host's memory, which the first kernel goes through in turn.
pub const SLOTS: usize = 8;
/// The first kernel has the number in its text.
const _: () = assert!(SLOTS == 8);
/// Bytes at the start of a slot: where the status goes, where outputs go or 0, and which items are there, a
/// bit for each.
pub const HEADER: u64 = 32;
/// Bytes of the counter of steps, and of what the header says, on the device.
pub const COUNTER_BYTES: u64 = 32;
/// Items that the first kernel copies, at most.
const ITEMS: usize = 63;
/// Bytes that the first kernel copies, at most: its one block reads them through the bus.
const COPIED: u64 = 4 * 1024 * 16 - HEADER - ITEMS as u64 * 16;
/// Bytes of an input that has room in every slot, at most; a larger one is copied when it is set.
const ROOM: u64 = 16 << 20;

/// An item is an address, the number of its first word among all, and how many it has.
macro_rules! with_items {
    ($kernel:literal) => {
        concat!("struct Item {\n    unsigned* address;\n    unsigned first, words;\n};\n", $kernel)
    };
}

/// The kernel that takes over the data of a step.
pub const BEGIN: &str = with_items!(
    "// Sixteen bytes of the host, which may have changed since the last step.
__device__ uint4 from_host(const uint4* at) {
    uint4 x;
    asm volatile(\"ld.volatile.global.v4.u32 {%0, %1, %2, %3}, [%4];\"
                 : \"=r\"(x.x), \"=r\"(x.y), \"=r\"(x.z), \"=r\"(x.w) : \"l\"(at));
    return x;
}
extern \"C\" __global__ void __launch_bounds__(1024) begin(
    unsigned long long* exchange, const Item* items, unsigned long long count, unsigned long long units,
    const unsigned char* ring, unsigned long long slot_bytes, unsigned* status) {
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
pub const RESULTS: &str = with_items!(
    "extern \"C\" __global__ void __launch_bounds__(256) results(
    const unsigned long long* exchange, const Item* items, unsigned long long count, unsigned long long words,
    unsigned long long status_words, const unsigned* status) {
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

/// Bytes of a slot, and what they are for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// The buffer in the plan; none of the block of scalars.
    pub buffer: Option<usize>,
    /// Bytes of the slot.
    pub bytes: Range<u64>,
}

/// Places of a step's data in a slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Payload {
    /// Items that the first kernel copies, behind the header.
    pub items: Vec<Item>,
    /// Inputs that are copied before the step.
    pub larger: Vec<Item>,
    /// Bytes of the header and all items.
    pub copied: u64,
    /// Bytes of a slot.
    pub slot: u64,
}

impl Payload {
    /// Creates the payload of a plan's steps.
    pub fn new(plan: &Plan) -> Self {
        let scalars = plan.scalar_bytes();
        let (mut items, mut rest) = (Vec::new(), Vec::new());
        let (mut taken, mut end) = (scalars, HEADER);
        let place = |end: &mut u64, buffer: Option<usize>, bytes: u64| {
            let start = end.next_multiple_of(16);
            *end = start + bytes;
            Item { buffer, bytes: start..*end }
        };
        if scalars > 0 {
            items.push(place(&mut end, None, scalars));
        }
        let is_input = |buffer: &Buffer| buffer.role == Role::Input && buffer.bytes > 0;
        for (number, buffer) in plan.buffers.iter().enumerate().filter(|(_, buffer)| is_input(buffer)) {
            if taken + buffer.bytes <= COPIED && items.len() < ITEMS {
                taken += buffer.bytes;
                items.push(place(&mut end, Some(number), buffer.bytes));
            } else if buffer.bytes <= ROOM {
                rest.push((number, buffer.bytes));
            }
        }
        let copied = end.next_multiple_of(16);
        assert!(copied <= 4 * 1024 * 16, "scalars are few");
        let larger = rest.into_iter().map(|(number, bytes)| place(&mut end, Some(number), bytes)).collect();
        Self { items, larger, copied, slot: end.next_multiple_of(16) }
    }
}
