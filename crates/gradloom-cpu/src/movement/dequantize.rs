//! Conversion of numbers in quantized blocks to f32.
//!
//! In: blocks of a format, u8 `[.., bytes]`, in any layout. Out: f32 `[.., elements]`, contiguous. Invariant:
//! an element is the product of its block's scale and its integer, which is exact.

use crate::InstructionSet;
use crate::kernel::{Call, Prepared, Tasks};
use crate::matrix::blocks::{Blocks, unpack};
use crate::simd::{Simd, Vectorized, dispatch};
use gradloom_codegen::product::SteppedView;
use gradloom_core::ir::{BLOCK, BlockFormat};
use gradloom_core::kernel::{Launch, Layout};
use std::ops::Range;

/// Number of blocks per task.
const TASK: usize = 512;

/// Returns a kernel for a `Dequantize` launch.
pub(crate) fn prepare(launch: &Launch, format: BlockFormat) -> Box<dyn Prepared> {
    let Layout { offset, shape, strides } = &launch.reads[0].layout;
    let axes = || shape.iter().copied().zip(strides.iter().copied());
    let mut rows: Vec<(usize, usize)> = axes().collect();
    let (bytes, step) = rows.pop().expect("shape inference refuses scalars");
    Box::new(Dequantize {
        format,
        rows,
        blocks_of_row: bytes / format.block_bytes(),
        step,
        offsets: [*offset, launch.writes[0].layout.offset],
        blocks: launch.writes[0].layout.shape.elements() / BLOCK,
        level: InstructionSet::detect(),
    })
}

struct Dequantize {
    format: BlockFormat,
    /// Extents and strides of the row axes.
    rows: Vec<(usize, usize)>,
    blocks_of_row: usize,
    /// Stride between the bytes of a row.
    step: usize,
    /// Offsets of the operand and the result.
    offsets: [usize; 2],
    blocks: usize,
    level: InstructionSet,
}

impl Tasks for Dequantize {
    fn count(&self, _: usize) -> usize {
        self.blocks.div_ceil(TASK)
    }

    unsafe fn run_task(&self, call: &Call<'_>, _: usize, task: usize) {
        let blocks = task * TASK..((task + 1) * TASK).min(self.blocks);
        // SAFETY: this machine supports the detected level.
        unsafe { dispatch(self.level, Some { kernel: self, call, blocks }) };
    }
}

/// A range of blocks, numbered over all rows.
struct Some<'a, 'c> {
    kernel: &'a Dequantize,
    call: &'a Call<'c>,
    blocks: Range<usize>,
}

impl Vectorized for Some<'_, '_> {
    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Dequantize { format, rows, blocks_of_row, step, offsets, .. } = self.kernel;
        let bytes = format.block_bytes();
        let mut gathered = [0; 2 + BLOCK];
        for block in self.blocks {
            let start =
                SteppedView::offset(rows, block / blocks_of_row) + block % blocks_of_row * bytes * step;
            let mut from = self.call.read::<u8>(0, offsets[0] + start);
            let to = self.call.write::<f32>(0, offsets[1] + block * BLOCK);
            // SAFETY: the launch's layouts lie in the call's buffers; tasks write disjoint blocks.
            unsafe {
                if *step != 1 {
                    (0..bytes).for_each(|i| gathered[i] = *from.wrapping_add(i * step));
                    from = gathered.as_ptr();
                }
                unpack(simd, Blocks { format: *format, start: from }, 1, to);
            }
        }
    }
}
