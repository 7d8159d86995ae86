//! Users' own ops, under the same verifier and tests as the primitives.

use super::{Builder, DType, Type, TypeError, ValueId};
use crate::reference::HostTensor;
use std::any::Any;
use std::fmt;
use std::sync::Arc;

/// Row-major elements in the host's memory, to read.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub enum Slice<'a> {
    F32(&'a [f32]),
    I32(&'a [i32]),
    U32(&'a [u32]),
    U8(&'a [u8]),
    /// One byte an element: 0 or 1.
    Bool(&'a [u8]),
    /// The bits of floats of this dtype, of 16 bits.
    Half(DType, &'a [u16]),
}

/// Row-major elements in the host's memory, to write, every one.
#[derive(Debug)]
#[allow(missing_docs)]
pub enum SliceMut<'a> {
    F32(&'a mut [f32]),
    I32(&'a mut [i32]),
    U32(&'a mut [u32]),
    U8(&'a mut [u8]),
    /// One byte an element: 0 or 1.
    Bool(&'a mut [u8]),
    /// The bits of floats of this dtype, of 16 bits.
    Half(DType, &'a mut [u16]),
}

/// Lowering of a user's op for GPUs. The kernel language is a stage behind this crate, which only passes
/// the value on: `simt::custom` of `gradloom-codegen` makes and reads it.
#[derive(Clone)]
pub struct GpuLowering(Arc<dyn Any + Send + Sync>);

impl GpuLowering {
    /// Wraps the stage's own type.
    pub fn new(inner: impl Any + Send + Sync) -> Self {
        Self(Arc::new(inner))
    }

    /// Returns the stage's own type, if it is this one.
    pub fn get<T: Any>(&self) -> Option<&T> {
        self.0.downcast_ref()
    }
}

impl fmt::Debug for GpuLowering {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("GpuLowering")
    }
}

/// An op that gradloom does not know: its shape rule, gradient, reference and lowering.
pub trait CustomOp: fmt::Debug + Send + Sync + 'static {
    /// Returns the name in messages and in the text form: letters, digits, `_` and `.`. A text finds its
    /// ops by name, so those of one graph that is to be written and read again need different ones.
    fn name(&self) -> &str;

    /// Returns the types of the results.
    ///
    /// # Errors
    /// When the operands do not fit.
    fn infer(&self, operands: &[Type]) -> Result<Vec<Type>, TypeError>;

    /// Appends and returns the cotangents of the operands, given those of the results (`None`: no gradient
    /// arrives there). `None` says that the op cannot be differentiated, which is an error where a gradient
    /// is needed.
    fn gradient(
        &self,
        builder: &mut Builder<'_>,
        operands: &[ValueId],
        results: &[ValueId],
        cotangents: &[Option<ValueId>],
    ) -> Option<Vec<Option<ValueId>>> {
        let _ = (builder, operands, results, cotangents);
        None
    }

    /// Computes the results in float64: the meaning of the op, against which every backend is tested.
    ///
    /// # Errors
    /// A message for operands that the op refuses.
    fn reference(&self, operands: &[HostTensor]) -> Result<Vec<HostTensor>, String>;

    /// Computes the results in the host's memory: on the CPU, and for GPUs if [`CustomOp::gpu`] gives no
    /// kernels. Called from any thread, in each step once for each place where the compiled step has the op:
    /// a block of `scan` has as many as it has turns, and recomputation may add some. So it keeps no state.
    ///
    /// # Errors
    /// A message; the step then fails and changes nothing.
    fn run_on_host(&self, operands: &[Slice<'_>], results: &mut [SliceMut<'_>]) -> Result<(), String>;

    /// Returns the kernels for GPUs. `None`: a step on a GPU stops at the op, copies the operands to the
    /// host, calls [`CustomOp::run_on_host`], and goes on with what it wrote.
    fn gpu(&self) -> Option<GpuLowering> {
        None
    }
}
