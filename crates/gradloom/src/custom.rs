//! User-defined ops: a shape rule, a gradient, a reference in float64, a function for the host, and kernels
//! for GPUs.
//!
//! An op is a value that implements [`CustomOp`]; [`Tensor::custom`](crate::Tensor::custom) applies it. On
//! the CPU, it runs [`CustomOp::run_on_host`]. On GPUs, it runs the kernels of [`CustomOp::gpu`], which are
//! written once, in gradloom's kernel language, for all GPUs. If an op has no kernels, a step on a GPU is
//! split at the op: the part before it is submitted, the operands are copied to the host, and the part after
//! it is submitted with the results. The rest of the step is compiled as usual. `Program::work` returns the
//! number of such ops as `host_ops`.
//!
//! # Example
//! `x · sigmoid(βx)` with a gradient, for the CPU and for GPUs:
//!
//! ```
//! use gradloom::custom::{
//!     Builder, CustomOp, GpuLowering, HostTensor, Slice, SliceMut, Type, TypeError, UnaryOp, ValueId,
//!     gpu_lowering,
//! };
//! use gradloom::prelude::*;
//!
//! #[derive(Debug)]
//! struct Swish(f32);
//!
//! impl CustomOp for Swish {
//!     fn name(&self) -> &str {
//!         "swish"
//!     }
//!
//!     fn infer(&self, operands: &[Type]) -> std::result::Result<Vec<Type>, TypeError> {
//!         match operands {
//!             [x] if x.dtype == DType::F32 => Ok(vec![x.clone()]),
//!             _ => Err(TypeError::new("swish takes one tensor of f32")),
//!         }
//!     }
//!
//!     // Build the gradient from ops of the graph, which are fused with the surrounding ops.
//!     fn gradient(
//!         &self,
//!         b: &mut Builder<'_>,
//!         x: &[ValueId],
//!         y: &[ValueId],
//!         g: &[Option<ValueId>],
//!     ) -> Option<Vec<Option<ValueId>>> {
//!         let scaled = b.mul_number(x[0], self.0.into());
//!         let s = b.unary(UnaryOp::Sigmoid, scaled);
//!         // s + βy(1 - s)
//!         let ys = b.mul(y[0], s);
//!         let rest = b.sub(y[0], ys);
//!         let rest = b.mul_number(rest, self.0.into());
//!         let slope = b.add(s, rest);
//!         Some(vec![Some(b.mul(g[0]?, slope))])
//!     }
//!
//!     fn reference(&self, operands: &[HostTensor]) -> std::result::Result<Vec<HostTensor>, String> {
//!         let beta = f64::from(self.0);
//!         let y = operands[0].to_f64().into_iter().map(|x| x / (1.0 + (-beta * x).exp()));
//!         Ok(vec![HostTensor::from_f64(operands[0].ty.clone(), y)])
//!     }
//!
//!     fn run_on_host(&self, x: &[Slice<'_>], y: &mut [SliceMut<'_>]) -> std::result::Result<(), String> {
//!         let ([Slice::F32(x)], [SliceMut::F32(y)]) = (x, y) else { return Err("f32 is expected".into()) };
//!         for (y, x) in y.iter_mut().zip(*x) {
//!             *y = x / (1.0 + (-self.0 * x).exp());
//!         }
//!         Ok(())
//!     }
//!
//!     fn gpu(&self) -> Option<GpuLowering> {
//!         let beta = self.0;
//!         Some(gpu_lowering(move |op| {
//!             let (x, y) = (op.operand(0), op.result(0));
//!             op.each(y.elements(), |k, i| {
//!                 let value = k.load(x, i);
//!                 k.store(y, i, value * (value * k.f32(beta)).unary(UnaryOp::Sigmoid));
//!             });
//!         }))
//!     }
//! }
//!
//! #[derive(Module)]
//! struct Model {
//!     hidden: Linear,
//!     out: Linear,
//! }
//!
//! let mut train = Trainer::new(Model { hidden: Linear::new(2, 16), out: Linear::new(16, 1) })
//!     .inputs([f32("x", [4, 2]), f32("y", [4, 1])])
//!     .loss(|m, [x, y]| {
//!         let hidden = Tensor::custom(Swish(1.5), [m.hidden.forward(x)])[0];
//!         (m.out.forward(hidden) - y).square().mean()
//!     })
//!     .optimizer(Adam::new(0.05))
//!     .compile(&Device::cpu())?;
//! let xor = ([0., 0., 0., 1., 1., 0., 1., 1.], [0., 1., 1., 0.]);
//! for _ in 0..200 {
//!     train.step([&xor.0[..], &xor.1[..]])?;
//! }
//! assert!(train.step([&xor.0[..], &xor.1[..]])?.loss()? < 0.01);
//! # Ok::<(), gradloom::Error>(())
//! ```

pub use gradloom_codegen::simt::custom::{CustomArray, CustomBuffer, CustomLaunch, Invocation, gpu_lowering};
pub use gradloom_codegen::simt::{Value, Variable};
pub use gradloom_core::ir::{
    BinaryOp, Builder, CompareOp, CustomOp, GpuLowering, Shape, Slice, SliceMut, Type, TypeError, UnaryOp,
    ValueId,
};
pub use gradloom_core::reference::HostTensor;
