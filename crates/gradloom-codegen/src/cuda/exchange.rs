//! Exchange of a step's inputs and results with the host, without modifying the replayed graph.
//!
//! In: a plan. Out: two kernels, the first of a step and one between its phases, which access host memory;
//! and the layout of a step's inputs for the first ([`Payload`]). The host writes the inputs to the next slot
//! of a ring; the first kernel counts steps to select the same slot.

use gradloom_core::plan::{Buffer, Plan, Role};
use std::ops::Range;

/// Number of slots in host memory, which the first kernel uses in turn.
pub const SLOTS: usize = 8;
/// [`BEGIN`] computes the index of the slot as `step & 7`.
const _: () = assert!(SLOTS == 8);
/// Number of bytes of a slot's header, which consists of the address for the status, the address for the
/// outputs or 0, a bit mask of the items present, and padding.
pub const HEADER: u64 = 32;
/// Number of bytes on the device for the step counter and the copied header.
pub const COUNTER_BYTES: u64 = 32;
/// Maximum number of items that the first kernel copies.
const ITEMS: usize = 63;
/// Maximum number of bytes of the inputs that the first kernel copies. Each of the 1,024 threads of its
/// single block reads four units of 16 bytes over the bus; the header and the alignment of the items to 16
/// bytes are subtracted.
const COPIED: u64 = 4 * 1024 * 16 - HEADER - ITEMS as u64 * 16;
/// Maximum number of bytes of an input that is stored in every slot; a larger input is copied to the device
/// when it is set.
const ROOM: u64 = 16 << 20;

/// Prepends the definition of `Item`, which consists of an address, the index of the item's first word among
/// all words, and its number of words.
macro_rules! with_items {
    ($kernel:literal) => {
        concat!("struct Item {\n    unsigned* address;\n    unsigned first, words;\n};\n", $kernel)
    };
}

/// Source of the kernel that copies the inputs of a step to the device.
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

/// Source of the kernel that copies the results of a step to the host.
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

/// Bytes of a slot, with the buffer to which they belong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// Index of the buffer in the plan; `None` for the block of scalars.
    pub buffer: Option<usize>,
    /// Range of bytes of the slot.
    pub bytes: Range<u64>,
}

/// Layout of a step's inputs in a slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Payload {
    /// Items that the first kernel copies, after the header.
    pub items: Vec<Item>,
    /// Larger inputs, which are copied before the step.
    pub larger: Vec<Item>,
    /// Number of bytes of the header and of the items that the first kernel copies.
    pub copied: u64,
    /// Number of bytes of a slot.
    pub slot: u64,
}

impl Payload {
    /// Creates the layout for the steps of a plan.
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
