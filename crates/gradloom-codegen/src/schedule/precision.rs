//! The type in which a program multiplies, and keeps values between its kernels.

/// What a program computes in, where its device can. Parameters, the optimizer's states, sums, norms, softmax
/// and losses are `f32` in every case. A device that lacks a type computes in `f32` instead: so do CPUs.
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
}
