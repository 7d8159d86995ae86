//! The type in which a program multiplies, and keeps values between its kernels.

/// Type that a program computes in, where its device can. Parameters, the optimizer's states, sums, norms,
/// softmax and losses are `f32` in every case. A device that lacks a type computes in `f32` instead: so do
/// CPUs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Precision {
    /// `f32`.
    #[default]
    F32,
    /// Values between kernels are rounded to `f16` (11 significant bits), and so are the operands of products
    /// and of attention on their way to the device's matrix instructions, where it has them and they are
    /// large enough to gain. Of numbers beyond 65,504 nothing but infinity is left, of those below 6.1e-5
    /// fewer bits, and below 3.0e-8 zero: so a loss is scaled, see
    /// [`loss_scale`](gradloom_core::optim::loss_scale).
    F16,
    /// The same in `bf16`: 8 significant bits with the range of `f32`, without a scale. CUDA has the type;
    /// WebGPU does not, and computes in `f32`.
    Bf16,
    /// Values stay `f32`; the operands of products are rounded to TF32 (11 significant bits, the range of
    /// `f32`) on their way to the matrix instructions of CUDA devices. Attention, and all products on other
    /// devices, are computed in `f32`.
    Tf32,
    /// The same instructions, thrice for each product: of the operands in TF32, and of each with what
    /// rounding left of the other. The instructions cut sums off instead of rounding them, so that those of a
    /// thousand terms are off by 5e-6 of the largest, where `f32` is by 1e-6 at most and TF32 by 3e-4. An
    /// infinite operand may give NaN. (The way is CUTLASS's 3xTF32; Ootomo and Yokota, "Recovering single
    /// precision accuracy from Tensor Cores while surpassing the FP32 theoretical peak performance", 2022.)
    Tf32x3,
}

impl Precision {
    /// Every precision.
    pub const ALL: [Self; 5] = [Self::F32, Self::F16, Self::Bf16, Self::Tf32, Self::Tf32x3];

    /// Its name on command lines and in reports.
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
