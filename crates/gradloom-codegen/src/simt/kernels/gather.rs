//! Gathering of rows by index.
//!
//! In: x `[batch.., rows, row..]` and indices `[batch.., index..]`, in any layout. Out:
//! `[batch.., index.., row..]`, contiguous. An index out of range fails the step, and is clamped to the
//! nearest index in range.

use super::super::index::{axes, index_at};
use super::super::ir::{Kernel, Role};
use super::Views;
use super::each::each;
use crate::narrow::narrow;

/// Returns the kernel of `Gather` with `batch` leading batch axes.
pub(super) fn gather(views: &Views<'_>, batch: usize) -> Vec<Kernel> {
    let layout = views.reads[0].layout;
    let dtype = views.reads[0].dtype;
    let shape = &layout.shape;
    let row_elements: usize = shape[batch + 1..].iter().product();
    let indices = views.reads[1].layout.shape.elements();
    let per_batch = indices / shape[..batch].iter().product::<usize>().max(1);
    each("gather", views, views.elements(), |k, position| {
        let (number, column) = (position / narrow(row_elements), position % narrow(row_elements));
        let index = views.load(k, 1, number);
        let row = k.check_index(index, narrow(shape[batch]), number);
        if shape[batch] == 0 {
            return views.store(k, position, k.bits(dtype, 0));
        }
        let before = index_at(k, &axes(layout, 0, batch), number / narrow(per_batch));
        let within = index_at(k, &axes(layout, batch + 1, shape.rank()), column);
        let row = row * narrow(layout.strides[batch]);
        let value = k.load(k.buffer(Role::Operand(0), dtype), before + row + within + narrow(layout.offset));
        views.store(k, position, value);
    })
}
