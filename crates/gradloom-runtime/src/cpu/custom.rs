//! Users' ops: their CPU kernel gets typed slices.
//!
//! In: contiguous operands. Out: what [`CustomOp::run_cpu`] writes.
//! Always holds: no result shares bytes with an operand.

use super::kernel::{Call, Prepared, Trap};
use gradloom_core::ir::{CustomOp, DType, Slice, SliceMut};
use gradloom_core::kernel::{Access, Launch};
use std::ptr::NonNull;
use std::sync::Arc;

/// Prepares `Custom`.
///
/// # Panics
/// When lowering left an operand that is not contiguous, or a result in the place of an operand.
pub(super) fn prepare(launch: &Launch, op: Arc<dyn CustomOp>) -> Box<dyn Prepared> {
    for access in launch.reads.iter().chain(&launch.writes) {
        assert!(
            access.layout.is_contiguous(),
            "{}: lowering must copy {} first; please report this",
            op.name(),
            access.buffer
        );
    }
    assert!(
        launch.may_alias.is_empty(),
        "{}: a custom op cannot work in place; please report this",
        op.name()
    );
    let window = |access: &Access| Window {
        dtype: access.dtype,
        offset: access.layout.offset,
        elements: access.layout.shape.elements(),
    };
    Box::new(Custom {
        op,
        reads: launch.reads.iter().map(window).collect(),
        writes: launch.writes.iter().map(window).collect(),
    })
}

/// Contiguous elements of a buffer.
struct Window {
    dtype: DType,
    offset: usize,
    elements: usize,
}

struct Custom {
    op: Arc<dyn CustomOp>,
    reads: Vec<Window>,
    writes: Vec<Window>,
}

/// # Safety
/// As `std::slice::from_raw_parts`, but any pointer will do for no elements.
unsafe fn slice<'a, T>(from: *const T, count: usize) -> &'a [T] {
    let from = if count == 0 { NonNull::dangling().as_ptr() } else { from };
    // SAFETY: the caller's promise, or a well-aligned pointer for no elements.
    unsafe { std::slice::from_raw_parts(from, count) }
}

/// # Safety
/// As `std::slice::from_raw_parts_mut`, but any pointer will do for no elements.
unsafe fn slice_mut<'a, T>(to: *mut T, count: usize) -> &'a mut [T] {
    let to = if count == 0 { NonNull::dangling().as_ptr() } else { to };
    // SAFETY: the caller's promise, or a well-aligned pointer for no elements.
    unsafe { std::slice::from_raw_parts_mut(to, count) }
}

impl Prepared for Custom {
    fn run(&self, call: &Call<'_>) -> Result<(), Trap> {
        // SAFETY: the launch's windows lie in the call's buffers, and, as `prepare` made sure, results overlap nothing.
        let operands: Vec<Slice<'_>> = (self.reads.iter().enumerate())
            .map(|(i, &Window { dtype, offset, elements })| unsafe {
                match dtype {
                    DType::F32 => Slice::F32(slice(call.read(i, offset), elements)),
                    DType::I32 => Slice::I32(slice(call.read(i, offset), elements)),
                    DType::U32 => Slice::U32(slice(call.read(i, offset), elements)),
                    DType::Bool => Slice::Bool(slice(call.read(i, offset), elements)),
                }
            })
            .collect();
        // SAFETY: as above; a program fills its memory once when it is loaded, so the elements are initialised.
        let mut results: Vec<SliceMut<'_>> = (self.writes.iter().enumerate())
            .map(|(i, &Window { dtype, offset, elements })| unsafe {
                match dtype {
                    DType::F32 => SliceMut::F32(slice_mut(call.write(i, offset), elements)),
                    DType::I32 => SliceMut::I32(slice_mut(call.write(i, offset), elements)),
                    DType::U32 => SliceMut::U32(slice_mut(call.write(i, offset), elements)),
                    DType::Bool => SliceMut::Bool(slice_mut(call.write(i, offset), elements)),
                }
            })
            .collect();
        (self.op)
            .run_cpu(&operands, &mut results)
            .map_err(|message| Trap::new(format!("{}: {message}", self.op.name())))
    }
}
