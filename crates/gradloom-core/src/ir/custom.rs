//! User-defined ops, which pass the same verifier and tests as the primitives.

use super::{Builder, DType, Type, TypeError, ValueId};
use crate::reference::HostTensor;
use std::any::Any;
use std::fmt;
use std::sync::Arc;

/// Row-major elements in host memory, read-only.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub enum Slice<'a> {
    F32(&'a [f32]),
    I32(&'a [i32]),
    U32(&'a [u32]),
    U8(&'a [u8]),
    /// One byte per element: 0 or 1.
    Bool(&'a [u8]),
    /// Bits of 16-bit floats of this dtype.
    Half(DType, &'a [u16]),
}

/// Row-major elements in host memory to write. Every element must be written.
#[derive(Debug)]
#[allow(missing_docs)]
pub enum SliceMut<'a> {
    F32(&'a mut [f32]),
    I32(&'a mut [i32]),
    U32(&'a mut [u32]),
    U8(&'a mut [u8]),
    /// One byte per element: 0 or 1.
    Bool(&'a mut [u8]),
    /// Bits of 16-bit floats of this dtype.
    Half(DType, &'a mut [u16]),
}

/// GPU lowering of a user-defined op. This crate only passes it on to `simt::custom` of `gradloom-codegen`,
/// which defines the kernel language and creates and reads the value.
#[derive(Clone)]
pub struct GpuLowering(Arc<dyn Any + Send + Sync>);

impl GpuLowering {
    /// Wraps a lowering of the code generator's type.
    pub fn new(inner: impl Any + Send + Sync) -> Self {
        Self(Arc::new(inner))
    }

    /// Returns the wrapped lowering if it has type `T`.
    pub fn get<T: Any>(&self) -> Option<&T> {
        self.0.downcast_ref()
    }
}

impl fmt::Debug for GpuLowering {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("GpuLowering")
    }
}

/// A user-defined op with its shape rule, gradient, reference and lowering.
pub trait CustomOp: fmt::Debug + Send + Sync + 'static {
    /// Returns the name used in messages and in the text form. It consists of letters, digits, `_` and `.`.
    /// The parser finds custom ops by name, so the names in a graph must be unique if its text is to be
    /// parsed.
    fn name(&self) -> &str;

    /// Returns the types of the results.
    ///
    /// # Errors
    /// Returns an error if the operand types are invalid.
    fn infer(&self, operands: &[Type]) -> Result<Vec<Type>, TypeError>;

    /// Appends the cotangents of the operands, given those of the results, and returns them. Those of 16-bit
    /// floats are f32. A cotangent of
    /// `None` means that no gradient reaches the result. A return value of `None` means that the op is not
    /// differentiable, which is an error if a gradient is needed.
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

    /// Computes the results in float64. This defines the op's semantics, against which every backend is
    /// tested.
    ///
    /// # Errors
    /// Returns a message if the op rejects the operands.
    fn reference(&self, operands: &[HostTensor]) -> Result<Vec<HostTensor>, String>;

    /// Computes the results in host memory. Used on the CPU, and for GPUs if [`CustomOp::gpu`] returns no
    /// kernels. May be called from any thread, once per step for each occurrence of the op in the compiled
    /// step, and by several threads at once for different occurrences. A `scan` block contributes one
    /// occurrence per iteration, and recomputation may add more, so the op must not keep state.
    ///
    /// # Errors
    /// Returns a message if the computation fails. The step then fails and changes nothing.
    fn run_on_host(&self, operands: &[Slice<'_>], results: &mut [SliceMut<'_>]) -> Result<(), String>;

    /// Returns the kernels for GPUs. If this is `None`, a step on a GPU stops at the op, copies the operands
    /// to the host, calls [`CustomOp::run_on_host`], and continues with its results.
    fn gpu(&self) -> Option<GpuLowering> {
        None
    }
}
