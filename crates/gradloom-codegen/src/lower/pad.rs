//! The pass that aligns the starts of matrix rows.
//!
//! In: kernels, and a test for products that the library computes. Out: the same kernels with padded rows in
//! temporaries: rows of 50,257 logits, one per token of a vocabulary, are padded to 50,264. Invariant: the
//! padding is zero if a loop writes the rows; otherwise nothing reads it.

use super::library::{Padded, is_large, library_support, part, rounded_layout, zeros};
use super::{Draft, Lowering};
use crate::cuda::{EXTENT_ALIGNMENT, LibraryProduct, Room};
use gradloom_core::ir::{DType, DotAxes, OpKind, ValueId};
use gradloom_core::kernel::{Access, Kernel, Layout, Part};

/// Function that returns `true` if the library computes a product, given the layouts of its operands and the
/// type of the right one.
type IsLarge<'l> = dyn Fn(&DotAxes, [&Layout; 2], DType) -> bool + 'l;

/// Aligns the rows of temporaries that large products read or write.
pub(super) fn rows(lowering: &mut Lowering<'_>) {
    let target = lowering.target;
    let Some((dtype, least)) = library_support(target) else { return };
    let is_large: &IsLarge<'_> = &|axes, operands, right| {
        is_large(&target.limits, axes, operands, (right, dtype), (least, usize::MAX))
    };
    let mut rows: Vec<Rows> = Vec::new();
    for (kernel, reads, writes, _) in kernels(lowering) {
        // Leave out the results of an epilogue, which becomes a separate loop.
        let (axes, writes) = match kernel {
            Kernel::Op(OpKind::Dot(axes)) => (axes, writes),
            Kernel::Dot { axes, .. } => (axes, &[][..]),
            _ => continue,
        };
        if !is_large(axes, [&reads[0].layout, &reads[1].layout], reads[1].dtype) {
            continue;
        }
        for access in reads[..2].iter().chain(writes).filter(|access| access.dtype == dtype) {
            if !rows.iter().any(|rows| rows.buffer == access.buffer) {
                rows.extend(Rows::of(lowering, access.buffer));
            }
        }
    }
    // Repeats the check, because the library's support for one buffer may depend on the padding of another.
    while let Some(refused) = rows.iter().position(|one| !one.is_possible(lowering, &rows, dtype, is_large)) {
        rows.remove(refused);
    }
    let padded: Vec<_> = rows.into_iter().filter_map(|rows| rows.apply(lowering)).collect();
    lowering.padded.extend(padded);
}

/// Returns `true` if kernels write a buffer that no output, guard or update reads and no update writes.
fn is_temporary(lowering: &Lowering<'_>, buffer: ValueId) -> bool {
    let writes = |draft: &&Draft| draft.writes.iter().any(|write| write.buffer == buffer);
    let mut writers = lowering.kernels.iter().filter(writes).peekable();
    writers.peek().is_some() && writers.all(|draft| !draft.commit) && !lowering.watched().contains(&buffer)
}

/// Returns each kernel, or each part of a group, with its operands and results. The last element is true if
/// only updates need the kernel.
fn kernels<'k>(lowering: &'k Lowering<'_>) -> Vec<(&'k Kernel, &'k [Access], &'k [Access], bool)> {
    let mut all = Vec::new();
    for spec in &lowering.kernels {
        match &spec.kernel {
            Kernel::Group(parts) => all.extend(parts.iter().map(|part| {
                let (reads, writes) = (&spec.reads[part.reads.clone()], &spec.writes[part.writes.clone()]);
                (&part.kernel, reads, writes, spec.commit)
            })),
            kernel => all.push((kernel, &spec.reads[..], &spec.writes[..], spec.commit)),
        }
    }
    all
}

/// A buffer whose rows are not aligned.
struct Rows {
    buffer: ValueId,
    /// Number of rows.
    count: usize,
    /// Number of elements of a row.
    length: usize,
    /// Number of elements from the start of a padded row to that of the next.
    stride: usize,
}

impl Rows {
    /// Returns the rows of a temporary, if they need padding.
    fn of(lowering: &Lowering<'_>, buffer: ValueId) -> Option<Self> {
        let ty = lowering.memory.buffers.get(&buffer)?;
        let (&length, others) = ty.shape.split_last()?;
        let (count, stride) = (others.iter().product(), length.next_multiple_of(EXTENT_ALIGNMENT));
        let is_padded = count > 1 && stride != length && is_temporary(lowering, buffer);
        is_padded.then_some(Self { buffer, count, length, stride })
    }

    /// Returns `true` if all kernels that read or write the buffer support padded rows.
    fn is_possible(
        &self,
        lowering: &Lowering<'_>,
        all: &[Rows],
        dtype: DType,
        is_large: &IsLarge<'_>,
    ) -> bool {
        let keeps_rows =
            |access: &Access| access.buffer != self.buffer || self.padded(&access.layout).is_some();
        // Returns the layout of an access once all rows are padded, or `None` if that is impossible.
        let layout = |access: &Access| match all.iter().find(|rows| rows.buffer == access.buffer) {
            Some(rows) => rows.padded(&access.layout),
            None => Some(access.layout.clone()),
        };
        let operand = |access: &Access| match access.dtype == dtype {
            true => layout(access),
            false => Some(rounded_layout(&access.layout)),
        };
        let can_write = |kernel: &Kernel, reads: &[Access], writes: &[Access], commit: bool| match kernel {
            Kernel::Loop(_) => writes.iter().filter(|write| write.buffer == self.buffer).count() == 1,
            Kernel::Op(OpKind::Dot(axes)) if !commit => {
                let by_library = || {
                    let (lhs, rhs, result) = (operand(&reads[0])?, operand(&reads[1])?, layout(&writes[0])?);
                    LibraryProduct::new(axes, [&lhs, &rhs], dtype, (&result, dtype))
                        .filter(|_| is_large(axes, [&lhs, &rhs], reads[1].dtype))
                };
                by_library().is_some()
            }
            _ => false,
        };
        lowering.memory.access.values().all(keeps_rows)
            && kernels(lowering).into_iter().all(|(kernel, reads, writes, commit)| {
                let is_written = writes.iter().any(|write| write.buffer == self.buffer);
                reads.iter().chain(writes).all(keeps_rows)
                    && (!is_written || can_write(kernel, reads, writes, commit))
            })
    }

    /// Returns the layout of a view of the buffer once its rows are padded, or `None` if the view crosses
    /// rows.
    fn padded(&self, layout: &Layout) -> Option<Layout> {
        let Self { length, stride, .. } = *self;
        // Position, within its row, of the last element that the view reaches.
        let mut last = layout.offset % length;
        let mut strides = Vec::with_capacity(layout.strides.len());
        for (&extent, &step) in layout.shape.iter().zip(&layout.strides) {
            if step.is_multiple_of(length) {
                strides.push(step / length * stride);
            } else {
                last += extent.saturating_sub(1) * step;
                strides.push(step);
            }
        }
        let offset = layout.offset / length * stride + layout.offset % length;
        (last < length).then(|| Layout::new(offset, layout.shape.clone(), strides))
    }

    /// Pads the rows. If a loop writes the rows, the loop's kernel also fills the padding with zeros.
    fn apply(&self, lowering: &mut Lowering<'_>) -> Option<Padded> {
        let by_loop = kernels(lowering).into_iter().any(|(kernel, _, writes, _)| {
            matches!(kernel, Kernel::Loop(_)) && writes.iter().any(|write| write.buffer == self.buffer)
        });
        let pad = |access: &mut Access| {
            if access.buffer == self.buffer {
                access.layout = self.padded(&access.layout).expect("it was looked at");
            }
        };
        for Draft { spec, .. } in &mut lowering.kernels {
            spec.reads.iter_mut().chain(&mut spec.writes).for_each(pad);
        }
        let values: Vec<ValueId> = lowering.memory.access.keys().copied().collect();
        for value in values {
            lowering.memory.access.get_mut(&value).into_iter().for_each(pad);
        }
        let ty = lowering.memory.buffers.get_mut(&self.buffer)?;
        let mut extents = ty.shape.to_vec();
        *extents.last_mut()? = self.stride;
        ty.shape = extents.into();
        let padded = Padded {
            buffer: self.buffer,
            elements: self.count * self.length,
            room: Room { elements: self.stride - self.length, lines: 0 },
            is_zero: by_loop,
        };
        if !by_loop {
            return Some(padded);
        }

        let shape = [self.count, self.stride - self.length].into();
        let layout = Layout::new(self.length, shape, vec![self.stride, 1]);
        let behind = Access { buffer: self.buffer, dtype: ty.dtype, layout, blocks: None };
        let writes = |draft: &&mut Draft| draft.writes.iter().any(|write| write.buffer == self.buffer);
        let writer = lowering.kernels.iter_mut().find(writes)?;
        let (reads, write) = (writer.reads.len(), writer.writes.len());
        let mut parts = match std::mem::replace(&mut writer.kernel, Kernel::Copy) {
            Kernel::Group(parts) => parts,
            kernel => vec![Part { writes: 0..write, ..part(kernel, 0..reads, 0) }],
        };
        parts.push(part(zeros(&behind.layout.shape), reads..reads, write));
        writer.kernel = Kernel::Group(parts);
        writer.writes.push(behind);
        Some(padded)
    }
}
