//! Functions that CUDA C lacks or leaves undefined. Kernels include the text of the functions that they use.

use super::warpgroups::SHARED;
use crate::simt::helpers;
use gradloom_core::collections::SortedSet;

/// Defines the conversion of a matrix sum to a left operand (PTX ISA, section "cvt"). The instruction's first
/// operand becomes the upper half.
macro_rules! left {
    ($name:literal, $type:literal) => {
        concat!(
            "__device__ Left ",
            $name,
            "(Sum c) {
    Left a;
    for (int i = 0; i < 4; i++) {
        asm(\"cvt.rn.",
            $type,
            "x2.f32 %0, %1, %2;\" : \"=r\"(a.r[i]) : \"f\"(c.r[2 * i + 1]), \"f\"(c.r[2 * i]));
    }
    return a;
}
"
        )
    };
}

/// Defines the product of matrices of a dtype, computed by two instructions of 8 columns each.
macro_rules! multiply {
    ($name:literal, $type:literal) => {
        concat!(
            "__device__ Sum ",
            $name,
            "(Left a, Right b, Sum c) {
    for (int half = 0; half < 2; half++) {
        float* r = c.r + 4 * half;
        asm(\"mma.sync.aligned.m16n8k16.row.col.f32.",
            $type,
            ".",
            $type,
            ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};\"
            : \"+f\"(r[0]), \"+f\"(r[1]), \"+f\"(r[2]), \"+f\"(r[3])
            : \"r\"(a.r[0]), \"r\"(a.r[1]), \"r\"(a.r[2]), \"r\"(a.r[3]), \"r\"(b.r[2 * half]), \"r\"(b.r[2 * half + 1]));
    }
    return c;
}
"
        )
    };
}

/// Functions that a kernel uses.
pub(super) type Functions = SortedSet<Function>;

helpers! {
    /// Helper function of a kernel.
    pub(super) enum Function {
        // PTX ISA, "Floating Point Instructions: max".
        Max "max_or_nan" [] = "__device__ float max_or_nan(float a, float b) {
    float c;
    asm(\"max.NaN.f32 %0, %1, %2;\" : \"=f\"(c) : \"f\"(a), \"f\"(b));
    return c;
}
";
        Min "min_or_nan" [] = "__device__ float min_or_nan(float a, float b) {
    float c;
    asm(\"min.NaN.f32 %0, %1, %2;\" : \"=f\"(c) : \"f\"(a), \"f\"(b));
    return c;
}
";
        Sign "sign_of" [] = "__device__ float sign_of(float x) {
    return x > 0.0f ? 1.0f : x < 0.0f ? -1.0f : x;
}
__device__ int sign_of(int x) {
    return (x > 0) - (x < 0);
}
";
        // `i32::MIN` wraps to itself; negating it as an int would be undefined.
        Abs "abs_of" [] = "__device__ int abs_of(int x) {
    return x < 0 ? (int)(0u - (unsigned)x) : x;
}
";
        // In this form, the exponential cannot overflow. The divisor is between 1 and 2, for which the
        // approximate quotient is off by at most 2 units in the last place (CUDA C++ Programming Guide).
        Sigmoid "sigmoid" [] = "__device__ float sigmoid(float x) {
    float e = expf(-fabsf(x));
    return __fdividef(x < 0.0f ? e : 1.0f, 1.0f + e);
}
";
        // A division by zero, which is reported elsewhere, returns 0; `i32::MIN / -1` wraps.
        Divide "divide" [] = "__device__ int divide(int a, int b) {
    return b == 0 ? 0 : b == -1 ? (int)(0u - (unsigned)a) : a / b;
}
__device__ unsigned divide(unsigned a, unsigned b) {
    return b == 0u ? 0u : a / b;
}
";
        Remainder "remainder_of" [] = "__device__ int remainder_of(int a, int b) {
    return b == 0 || b == -1 ? 0 : a % b;
}
__device__ unsigned remainder_of(unsigned a, unsigned b) {
    return b == 0u ? 0u : a % b;
}
__device__ float remainder_of(float a, float b) {
    return fmodf(a, b);
}
";
        // PTX ISA, "griddepcontrol" (programmatic dependent launch). Dependent kernels may start once all
        // blocks have called `let_next_start`. `wait_for_others` returns when the preceding kernels are done
        // and their writes are visible.
        Start "let_next_start" [] = "__device__ __forceinline__ void let_next_start() {
#if __CUDA_ARCH__ >= 900
    asm volatile(\"griddepcontrol.launch_dependents;\" ::: \"memory\");
#endif
}
__device__ __forceinline__ void wait_for_others() {
#if __CUDA_ARCH__ >= 900
    asm volatile(\"griddepcontrol.wait;\" ::: \"memory\");
#endif
}
";
        // Only the first failure of a step is recorded. See `step::Status` for the words.
        Report "report" [] = "__device__ void report(unsigned* status, unsigned launch, unsigned position, int index, unsigned extent) {
    if (atomicCAS(&status[1], 0u, launch) == 0u) {
        status[2] = position;
        status[3] = (unsigned)index;
        status[4] = extent;
    }
}
";
        F16 "from_f16" [] = F16;
        Bf16 "from_bf16" [] = BF16;
        Vectors "mul_add" [] = VECTORS;
        Half "to_half" [] = HALF;
        Bfloat "to_bfloat" [] = BFLOAT;
        Matrix "load_matrix" [] = MATRIX;
        Multiply "multiply" [] = multiply!("multiply", "f16");
        MultiplyBf16 "multiply_bf16" [] = multiply!("multiply_bf16", "bf16");
        Tf32 "multiply_tf32" [Matrix] = TF32;
        Shared "start_copy" [Matrix] = SHARED;
        Left "left_f16" [] = left!("left_f16", "f16");
        LeftBf16 "left_bf16" [] = left!("left_bf16", "bf16");
        // See PTX ISA, section "ex2".
        Exp2 "native_exp2" [] = "__device__ float native_exp2(float x) {
    float y;
    asm(\"ex2.approx.ftz.f32 %0, %1;\" : \"=f\"(y) : \"f\"(x));
    return y;
}
";
        // Returns its argument after all threads of the block have evaluated theirs.
        Meet "meet" [] = "template <class T> __device__ T meet(T value) {
    __syncthreads();
    return value;
}
";
    }
}

/// Conversions between f16 and f32 (PTX ISA, section "cvt").
const F16: &str = "__device__ float from_f16(unsigned short bits) {
    float x;
    asm(\"cvt.f32.f16 %0, %1;\" : \"=f\"(x) : \"h\"(bits));
    return x;
}
__device__ unsigned short f16_bits(float x) {
    unsigned short bits;
    asm(\"cvt.rn.f16.f32 %0, %1;\" : \"=h\"(bits) : \"f\"(x));
    return bits;
}
";

const BF16: &str = "__device__ float from_bf16(unsigned short bits) {
    return __uint_as_float((unsigned)bits << 16);
}
__device__ unsigned short bf16_bits(float x) {
    unsigned short bits;
    asm(\"cvt.rn.bf16.f32 %0, %1;\" : \"=h\"(bits) : \"f\"(x));
    return bits;
}
";

const VECTORS: &str = "__device__ float2 operator+(float2 a, float2 b) {
    return make_float2(a.x + b.x, a.y + b.y);
}
__device__ float4 operator+(float4 a, float4 b) {
    return make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w);
}
__device__ float4 operator-(float4 a, float4 b) {
    return make_float4(a.x - b.x, a.y - b.y, a.z - b.z, a.w - b.w);
}
__device__ float4 operator*(float4 a, float4 b) {
    return make_float4(a.x * b.x, a.y * b.y, a.z * b.z, a.w * b.w);
}
__device__ float4 mul_add(float4 a, float4 b, float4 c) {
    return make_float4(fmaf(a.x, b.x, c.x), fmaf(a.y, b.y, c.y), fmaf(a.z, b.z, c.z), fmaf(a.w, b.w, c.w));
}
__device__ float4 splat(float a) {
    return make_float4(a, a, a, a);
}
";

/// Vectors of f16 (PTX ISA, section "cvt"). The conversion instruction's first operand becomes the upper
/// half.
const HALF: &str = "struct Half2 {
    unsigned both;
};
struct __align__(8) Half4 {
    unsigned low, high;
};
struct __align__(16) Half8 {
    Half4 fours[2];
};
__device__ unsigned halves(float low, float high) {
    unsigned both;
    asm(\"cvt.rn.f16x2.f32 %0, %1, %2;\" : \"=r\"(both) : \"f\"(high), \"f\"(low));
    return both;
}
__device__ Half4 to_half(float4 a) {
    return {halves(a.x, a.y), halves(a.z, a.w)};
}
__device__ float half_of(unsigned short bits) {
    float x;
    asm(\"cvt.f32.f16 %0, %1;\" : \"=f\"(x) : \"h\"(bits));
    return x;
}
__device__ float2 to_vector(Half2 a) {
    return make_float2(half_of(a.both), half_of(a.both >> 16));
}
__device__ float4 to_vector(Half4 a) {
    return make_float4(half_of(a.low), half_of(a.low >> 16), half_of(a.high), half_of(a.high >> 16));
}
";

/// Vectors of bf16, whose bits are the upper half of an f32.
const BFLOAT: &str = "struct Bfloat2 {
    unsigned both;
};
struct __align__(8) Bfloat4 {
    unsigned low, high;
};
struct __align__(16) Bfloat8 {
    Bfloat4 fours[2];
};
__device__ unsigned bfloats(float low, float high) {
    unsigned both;
    asm(\"cvt.rn.bf16x2.f32 %0, %1, %2;\" : \"=r\"(both) : \"f\"(high), \"f\"(low));
    return both;
}
__device__ Bfloat4 to_bfloat(float4 a) {
    return {bfloats(a.x, a.y), bfloats(a.z, a.w)};
}
__device__ float2 to_vector(Bfloat2 a) {
    return make_float2(__uint_as_float(a.both << 16), __uint_as_float(a.both & 0xffff0000u));
}
__device__ float4 to_vector(Bfloat4 a) {
    return make_float4(__uint_as_float(a.low << 16), __uint_as_float(a.low & 0xffff0000u),
                       __uint_as_float(a.high << 16), __uint_as_float(a.high & 0xffff0000u));
}
";

/// Matrix operands in TF32 (PTX ISA, section "Matrix fragments for mma.m16n8k8"). An operand consists of two
/// steps of eight terms; the right operand also consists of two halves of eight columns. Sums have the same
/// layout as with 16-bit operands. In both operands, the two terms of a step that a thread holds are
/// adjacent, so a sum becomes a left operand without a shuffle.
const TF32: &str = "struct WideLeft {
    float r[8];
};
struct WideRight {
    float r[8];
};
template <bool BY_ROWS>
__device__ float wide_element(const float4* items, unsigned pitch, unsigned row, unsigned column) {
    unsigned line = BY_ROWS ? row : column, along = BY_ROWS ? column : row;
    return ((const float*)(items + line * pitch))[along];
}
template <bool BY_ROWS> struct Load<WideLeft, BY_ROWS> {
    static __device__ WideLeft matrix(const float4* items, unsigned pitch) {
        unsigned row = threadIdx.x % 32u / 4u, term = threadIdx.x % 4u;
        WideLeft m;
        for (int i = 0; i < 8; i++) {
            m.r[i] = wide_element<BY_ROWS>(items, pitch, row + (i & 1) * 8, 2u * term + (i & 2) / 2 + (i & 4) * 2);
        }
        return m;
    }
};
template <bool BY_ROWS> struct Load<WideRight, BY_ROWS> {
    static __device__ WideRight matrix(const float4* items, unsigned pitch) {
        unsigned column = threadIdx.x % 32u / 4u, term = threadIdx.x % 4u;
        WideRight m;
        for (int i = 0; i < 8; i++) {
            unsigned from = 2u * term + (i & 1) + (i & 2) * 4;
            m.r[i] = wide_element<BY_ROWS>(items, pitch, from, column + (i & 4) * 2);
        }
        return m;
    }
};
__device__ unsigned tf32_bits(float x) {
    unsigned bits;
    asm(\"cvt.rna.tf32.f32 %0, %1;\" : \"=r\"(bits) : \"f\"(x));
    return bits;
}
// Of a number that is not finite, or becomes so when it is rounded, nothing is left.
template <class M> __device__ M residual(M m) {
    for (int i = 0; i < 8; i++) {
        float left = m.r[i] - __uint_as_float(tf32_bits(m.r[i]) & 0xffffe000u);
        m.r[i] = left - left == 0.0f ? left : 0.0f;
    }
    return m;
}
// A thread holds the same elements of a sum and of a left operand, in another order.
__device__ WideLeft left_tf32(Sum c) {
    WideLeft a;
    for (int i = 0; i < 8; i++) {
        a.r[i] = c.r[(i & 4) + (i & 1) * 2 + (i & 2) / 2];
    }
    return a;
}
__device__ Sum multiply_tf32(WideLeft a, WideRight b, Sum c) {
    for (int half = 0; half < 2; half++) {
        float* r = c.r + 4 * half;
        for (int step = 0; step < 2; step++) {
            const float *x = a.r + 4 * step, *y = b.r + 4 * half + 2 * step;
            asm(\"mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 \"
                \"{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};\"
                : \"+f\"(r[0]), \"+f\"(r[1]), \"+f\"(r[2]), \"+f\"(r[3])
                : \"r\"(tf32_bits(x[0])), \"r\"(tf32_bits(x[1])), \"r\"(tf32_bits(x[2])),
                  \"r\"(tf32_bits(x[3])), \"r\"(tf32_bits(y[0])), \"r\"(tf32_bits(y[1])));
        }
    }
    return c;
}
";

/// Assignment of matrix elements to the threads of a warp, which is the same for f16 and bf16 (PTX ISA,
/// section "Matrix fragments for mma.m16n8k16 with floating point type").
const MATRIX: &str = "struct Left {
    unsigned r[4];
};
struct Right {
    unsigned r[4];
};
struct Sum {
    float r[8];
    __device__ Sum() : r{} {}
};
// Four blocks of 8 x 8, each lane with the address of a row of one: those of the first eight rows and of the
// others, or of the first eight columns and of the others, in turns.
template <bool DOWN, bool TURNED, class M, class Four>
__device__ M load_blocks(const Four* items, unsigned pitch) {
    unsigned lane = threadIdx.x % 32u, first = lane / 8u % 2u * 8u, second = lane / 16u * 8u;
    unsigned row = lane % 8u + (DOWN ? first : second), column = DOWN ? second : first;
    unsigned from = (unsigned)__cvta_generic_to_shared((const unsigned short*)(items + row * pitch) + column);
    M m;
    if (TURNED) {
        asm volatile(\"ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];\"
                     : \"=r\"(m.r[0]), \"=r\"(m.r[1]), \"=r\"(m.r[2]), \"=r\"(m.r[3]) : \"r\"(from));
    } else {
        asm volatile(\"ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];\"
                     : \"=r\"(m.r[0]), \"=r\"(m.r[1]), \"=r\"(m.r[2]), \"=r\"(m.r[3]) : \"r\"(from));
    }
    return m;
}
template <class M, bool BY_ROWS> struct Load;
template <bool BY_ROWS> struct Load<Left, BY_ROWS> {
    template <class Four> static __device__ Left matrix(const Four* items, unsigned pitch) {
        return load_blocks<BY_ROWS, !BY_ROWS, Left>(items, pitch);
    }
};
template <bool BY_ROWS> struct Load<Right, BY_ROWS> {
    template <class Four> static __device__ Right matrix(const Four* items, unsigned pitch) {
        return load_blocks<BY_ROWS, BY_ROWS, Right>(items, pitch);
    }
};
template <class M, bool BY_ROWS, class Four> __device__ M load_matrix(const Four* items, unsigned pitch) {
    return Load<M, BY_ROWS>::matrix(items, pitch);
}
// Of a lane's four terms, the first two are the first ones of a block of eight, the others of the next block.
template <class Four> __device__ Left left_of(Four upper, Four lower) {
    return {upper.low, lower.low, upper.high, lower.high};
}
template <class Four> __device__ Right right_of(Four first, Four second) {
    return {first.low, first.high, second.low, second.high};
}
template <int HALF> __device__ float4 half_of_sum(Sum c) {
    return make_float4(c.r[4 * HALF], c.r[4 * HALF + 1], c.r[4 * HALF + 2], c.r[4 * HALF + 3]);
}
__device__ Sum sum_of(float4 left, float4 right) {
    Sum c;
    c.r[0] = left.x, c.r[1] = left.y, c.r[2] = left.z, c.r[3] = left.w;
    c.r[4] = right.x, c.r[5] = right.y, c.r[6] = right.z, c.r[7] = right.w;
    return c;
}
__device__ void store_matrix(float* to, unsigned pitch, Sum c) {
    unsigned row = threadIdx.x % 32u / 4u, column = threadIdx.x % 4u * 2u;
    for (int i = 0; i < 8; i++) {
        to[(row + (i & 2) * 4) * pitch + column + (i & 1) + (i & 4) * 2] = c.r[i];
    }
}
";
