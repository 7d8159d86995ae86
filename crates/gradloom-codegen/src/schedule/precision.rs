//! The type in which a program multiplies, and in which it stores values between its kernels.

/// Type that a program computes in, if its device supports it. Parameters, optimizer states, sums, norms,
/// softmax and losses are always `f32`. A GPU that lacks a type computes in `f32` instead; on a CPU, any
/// precision but `F32` and `Bf16` is an error.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Precision {
    /// Computes in `f32`.
    #[default]
    F32,
    /// Rounds values between kernels to `f16` (11 significant bits). The operands of products and attention
    /// are rounded too, if the device has matrix instructions and the operands are large enough to benefit.
    /// Numbers beyond 65,504 become infinity, those below 6.1e-5 lose bits, and those below 3.0e-8 become
    /// zero. Losses are therefore scaled (see [`loss_scale`](gradloom_core::optim::loss_scale)).
    F16,
    /// Like `F16`, but rounds to `bf16`, which has 8 significant bits and the range of `f32`, so losses need
    /// no scale. CUDA has the type; WebGPU does not, and computes in `f32`. A CPU rounds the operands of
    /// products of more than four rows, and of attention with more than two rows of queries of heads that
    /// share keys, and keeps all values in `f32`. It has instructions for that with AMX or AVX512_BF16 (which
    /// take numbers below 1.2e-38 as zero), else those of `f32` compute.
    Bf16,
    /// Keeps values in `f32`, and rounds the operands of products and of attention with rows of up to 64
    /// elements to TF32 (11 significant bits, the range of `f32`) for the matrix instructions of CUDA
    /// devices. Other attention, and everything on other devices, is computed in `f32`.
    Tf32,
    /// Keeps values and attention in `f32`, and computes each product as three products in TF32 instead of
    /// one: the product of the rounded operands, and those of each rounded operand and the rounding error of
    /// the other. The instructions truncate sums instead of rounding them, so the error of sums of a thousand
    /// terms is 5e-6 of the largest one, compared to at most 1e-6 in `f32` and 3e-4 in TF32. An infinite
    /// operand may yield NaN. (This is the method of CUTLASS's 3xTF32; Ootomo and Yokota, "Recovering single
    /// precision accuracy from Tensor Cores while surpassing the FP32 theoretical peak performance", 2022.)
    Tf32x3,
}

impl Precision {
    /// All precisions.
    pub const ALL: [Self; 5] = [Self::F32, Self::F16, Self::Bf16, Self::Tf32, Self::Tf32x3];

    /// Returns the name on command lines and in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::F16 => "f16",
            Self::Bf16 => "bf16",
            Self::Tf32 => "tf32",
            Self::Tf32x3 => "tf32x3",
        }
    }
}
