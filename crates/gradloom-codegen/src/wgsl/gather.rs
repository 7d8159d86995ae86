//! Rows by number.
//!
//! In: x `[batch.., rows, row..]` and indices `[batch.., index..]`, in any layout. Out:
//! `[batch.., index.., row..]`, contiguous. An index out of range is a trap, and read as the nearest that is
//! in range.

use super::Dispatch;
use super::movement::{done, each};
use super::source::zero;
use super::source::{Source, index_at};
use gradloom_core::kernel::Layout;

/// The shader of `Gather` with so many batch axes.
pub(crate) fn gather(mut source: Source<'_>, batch: usize) -> Vec<Dispatch> {
    let [x, index] = [0, 1].map(|read| source.operands.reads[read].clone());
    let write = source.operands.writes[0].clone();
    let shape = &x.layout.shape;
    let row_elements: usize = shape[batch + 1..].iter().product();
    let per_batch = index.layout.shape.elements() / shape[..batch].iter().product::<usize>().max(1);
    let elements = write.layout.shape.elements();
    each(&mut source, elements, |source| {
        source.line(format_args!("let number = position / {row_elements}u;"));
        source.line(format_args!("let column = position % {row_elements}u;"));
        let value = source.load(&index, &index_at(&index.layout, "number"));
        source.line(format_args!("let index = {value};"));
        let index = source.check_index("index", shape[batch], "number");
        if shape[batch] == 0 {
            return source.store(&write, &index_at(&write.layout, "position"), zero(x.dtype));
        }
        source.line(format_args!("let row = u32({index});"));
        let before = index_at(&axes(&x.layout, 0, batch), &format!("(number / {per_batch}u)"));
        let within = index_at(&axes(&x.layout, batch + 1, shape.rank()), "column");
        let place =
            format!("{}u + {before} + row * {}u + {within}", x.layout.offset, x.layout.strides[batch]);
        let value = source.load(&x, &place);
        source.store(&write, &index_at(&write.layout, "position"), &value);
    });
    done(source, "gather", elements)
}

/// Some axes of a layout, counted from 0.
pub(crate) fn axes(layout: &Layout, start: usize, end: usize) -> Layout {
    Layout::new(0, layout.shape[start..end].into(), layout.strides[start..end].to_vec())
}
