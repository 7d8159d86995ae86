//! CUDA C of warpgroup products, asynchronous copies, and matrices in shared memory.
//!
//! In: a product. Out: the text of a function that computes one step of 16 terms, and the descriptors of the
//! operands in shared memory. The instructions exist only on GPUs of compute capability 9.0 (`sm_90a`); see
//! PTX ISA, "Asynchronous warpgroup level matrix instructions".

use crate::narrow::narrow;
use crate::simt::{ProductLeft, SharedMatrix, WarpgroupProduct};
use gradloom_core::ir::DType;

/// Function that multiplies a 64 x 16 matrix by a 16 x `columns` matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Step {
    columns: u32,
    dtype: DType,
    /// True if the left operand is in shared memory.
    is_shared: bool,
    /// True if the rows of the right operand are the columns of the product.
    transposed: bool,
}

impl Step {
    /// Returns the function for a product of matrices of a dtype.
    pub(super) fn new(product: &WarpgroupProduct, dtype: DType) -> Self {
        let is_shared = matches!(product.left, ProductLeft::Shared(..));
        Self { columns: 16 * narrow(product.sums.len()), dtype, is_shared, transposed: product.transposed }
    }

    /// Returns the function's name.
    pub(super) fn name(&self) -> String {
        let left = if self.is_shared { "shared" } else { "held" };
        let order = if self.transposed { "transposed" } else { "straight" };
        format!("multiply_{}_{}_{left}_{order}", self.columns, self.dtype)
    }

    /// Returns the function's text.
    pub(super) fn text(&self) -> String {
        let Self { columns, dtype, is_shared, transposed } = *self;
        let ty = if dtype == DType::BF16 { "bf16" } else { "f16" };
        let (sums, registers) = (columns / 16, columns / 2);
        let list = |f: &dyn Fn(u32) -> String, count: u32| (0..count).map(f).collect::<Vec<_>>().join(", ");
        let parameters = list(&|i| format!("Sum& c{i}"), sums);
        let numbers = list(&|i| format!("%{i}"), registers);
        let outputs = list(&|i| format!("\"+f\"(c{}.r[{}])", i / 8, i % 8), registers);
        let name = self.name();
        // The last immediate operand is 1 if the columns of each term are contiguous in memory.
        let rows = u32::from(!transposed);
        let (declared, left, inputs, next, orders) = match is_shared {
            true => {
                let left = format!("%{registers}");
                ("unsigned long long a", left, "\"l\"(a)".to_string(), registers + 1, format!("0, {rows}"))
            }
            false => {
                let left = format!("{{{}}}", list(&|i| format!("%{}", registers + i), 4));
                let inputs = list(&|i| format!("\"r\"(a.r[{i}])"), 4);
                ("Left a", left, inputs, registers + 4, rows.to_string())
            }
        };
        format!(
            "__device__ __forceinline__ void {name}({parameters}, {declared}, unsigned long long b, int adds) {{
    asm volatile(\"{{.reg .pred p; setp.ne.b32 p, %{}, 0; wgmma.mma_async.sync.aligned.m64n{columns}k16.f32.{ty}.{ty} \"
        \"{{{numbers}}}, {left}, %{next}, p, 1, 1, {orders};}}\"
        : {outputs}
        : {inputs}, \"l\"(b), \"r\"(adds));
}}
",
            next + 1,
        )
    }
}

/// Returns the constant part of a matrix's descriptor, and the offset of each step of 16 terms, in units of
/// 16 bytes. The terms are the matrix's columns if `transposed`, else its rows.
pub(super) fn descriptor(matrix: &SharedMatrix, transposed: bool) -> (u64, Vec<u32>) {
    let row = u64::from(matrix.eights());
    let panel = u64::from(matrix.rows) * row;
    let mode: u64 = match matrix.panel() {
        64 => 1,
        32 => 2,
        _ => 3,
    };
    let constant = mode << 62 | (8 * row) << 32 | panel << 16;
    let steps = if transposed { matrix.columns } else { matrix.rows } / 16;
    let offset = |step: u32| {
        if !transposed {
            return 16 * step * matrix.eights();
        }
        let (panel, along) = (2 * step / matrix.eights(), 2 * step % matrix.eights());
        panel * matrix.rows * matrix.eights() + along
    };
    (constant, (0..steps).map(offset).collect())
}

/// Functions for statements and expressions that concern shared matrices and asynchronous copies.
pub(super) const SHARED: &str = "__device__ __forceinline__ unsigned shared_address(const void* item) {
    return (unsigned)__cvta_generic_to_shared(item);
}
__device__ __forceinline__ unsigned long long descriptor_of(const void* item, unsigned long long constant) {
    return constant | ((shared_address(item) & 0x3ffff) >> 4);
}
__device__ __forceinline__ void start_products() {
    asm volatile(\"wgmma.fence.sync.aligned;\" ::: \"memory\");
}
__device__ __forceinline__ void end_products() {
    asm volatile(\"wgmma.commit_group.sync.aligned;\" ::: \"memory\");
}
template <int MOST> __device__ __forceinline__ void await_products() {
    asm volatile(\"wgmma.wait_group.sync.aligned %0;\" :: \"n\"(MOST) : \"memory\");
}
// Keeps the compiler from computing a left operand after the start.
__device__ __forceinline__ Left ready(Left a) {
    asm volatile(\"\" : \"+r\"(a.r[0]), \"+r\"(a.r[1]), \"+r\"(a.r[2]), \"+r\"(a.r[3]));
    return a;
}
// Keeps the compiler from moving accesses of sums over a start or a wait.
__device__ __forceinline__ void keep(Sum& c) {
    for (int i = 0; i < 8; i++) {
        asm volatile(\"\" : \"+f\"(c.r[i]) :: \"memory\");
    }
}
__device__ __forceinline__ void start_copy(void* to, const void* from, bool there) {
    asm volatile(\"cp.async.cg.shared.global [%0], [%1], 16, %2;\"
                 :: \"r\"(shared_address(to)), \"l\"(from), \"r\"(there ? 16 : 0) : \"memory\");
}
__device__ __forceinline__ void end_copies() {
    asm volatile(\"cp.async.commit_group;\" ::: \"memory\");
}
// Products read shared memory through another proxy, for which the fence makes the copies visible.
template <int MOST> __device__ __forceinline__ void await_copies() {
    asm volatile(\"cp.async.wait_group %0;\" :: \"n\"(MOST) : \"memory\");
    asm volatile(\"fence.proxy.async.shared::cta;\" ::: \"memory\");
}
// The exchange lets the compiler see that the number is the same for all threads of a warp.
__device__ __forceinline__ unsigned warpgroup() {
    return __shfl_sync(0xffffffffu, threadIdx.x / 128u, 0);
}
";
