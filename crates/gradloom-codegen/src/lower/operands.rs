//! Copies of operands that kernels cannot index through.
//!
//! In: kernels. Out: the same kernels over contiguous copies, and the kernels that make these copies.
//! Invariant: an operand that a kernel can index through is not copied, unless several products share the
//! copy. Overlapping windows that a product packs are not copied either, because their copy would be larger
//! than the memory that they cover.

use super::{Draft, Lowering};
use crate::cpu::shares_rows;
use crate::product::{DotProblem, copied_layout, dot_copies};
use gradloom_core::ir::{CustomOp, DotAxes, Graph, OpKind, Type};
use gradloom_core::kernel::{Access, Kernel};

/// Copies operands for GPUs. The operands of a custom op are only copied if the op has no GPU kernels,
/// because such kernels index through views.
pub(super) fn copied(lowering: &mut Lowering<'_>) {
    Copies { shared: Vec::new(), packs_windows: false, has_kernels: |op| op.gpu().is_some() }.add(lowering);
}

/// Copies operands for CPUs. Products that are faster with contiguous rows share a copy, and products pack
/// overlapping windows instead of copying them.
pub(super) fn with_shared_rows(lowering: &mut Lowering<'_>) {
    let shared = shared_operands(&lowering.kernels);
    Copies { shared, packs_windows: true, has_kernels: |_| false }.add(lowering);
}

struct Copies {
    /// Right operands whose copies several products share.
    shared: Vec<Shared>,
    /// True if products read overlapping windows as right operands without a copy.
    packs_windows: bool,
    /// Function that returns `true` if a custom op has kernels for the target. Other custom ops run on the
    /// host, where their operands are row-major.
    has_kernels: fn(&dyn CustomOp) -> bool,
}

/// Function that returns a contiguous copy of an operand, and adds the kernel that makes it.
type Copy<'c> = dyn FnMut(&Access) -> Access + 'c;

impl Copies {
    fn add(mut self, lowering: &mut Lowering<'_>) {
        lowering.replace(|lowering, mut draft, kernels| {
            let (mut reads, graph) = (draft.reads.clone(), lowering.graph);
            let mut copy = |from: &Access| {
                let to = lowering.memory.temporary(Type::new(from.dtype, from.layout.shape.clone()));
                kernels.push(draft.beside(Kernel::Copy, vec![from.clone()], vec![to.clone()]));
                to
            };
            let mut fit = |kernel: &Kernel, reads: &mut [Access]| match kernel {
                Kernel::Op(OpKind::Dot(axes)) | Kernel::Dot { axes, .. } => {
                    self.fit_dot_operands(axes, reads, &mut copy);
                }
                Kernel::Op(kind) if self.needs_contiguous(kind, graph) => {
                    for read in reads.iter_mut().filter(|read| !read.layout.is_contiguous()) {
                        *read = copy(read);
                    }
                }
                _ => {}
            };
            match &draft.kernel {
                _ if draft.library.is_some() => {}
                Kernel::Group(parts) => {
                    parts.iter().for_each(|part| fit(&part.kernel, &mut reads[part.reads.clone()]));
                }
                kernel => fit(kernel, &mut reads),
            }
            draft.spec.reads = reads;
            kernels.push(draft);
        });
    }

    /// Returns `true` if the operands of an op must be contiguous: those of a custom op that runs on the
    /// host, and those of a collective op, which libraries move as ranges of bytes.
    fn needs_contiguous(&self, kind: &OpKind, graph: &Graph) -> bool {
        match kind {
            OpKind::Custom(id) => !(self.has_kernels)(&*graph.customs[*id]),
            OpKind::Collective { .. } => true,
            _ => false,
        }
    }

    fn fit_dot_operands(&mut self, axes: &DotAxes, reads: &mut [Access], copy: &mut Copy<'_>) {
        if self.shared.iter().any(|shared| shared.operand == reads[1]) && shares_rows(axes, reads) {
            self.share_rows(axes, &mut reads[1], copy);
        }
        let right = &reads[1].layout;
        let overlaps = right.shape.elements() > right.end().saturating_sub(right.offset);
        if overlaps && self.packs_windows && DotProblem::packing(axes, &reads[0].layout, right).is_some() {
            return;
        }
        let copies = dot_copies(axes, &reads[0].layout, right);
        // Avoids a second copy if a product multiplies a value by itself.
        let mut last: Option<(Access, Access)> = None;
        for (read, order) in reads.iter_mut().zip([copies.lhs, copies.rhs]) {
            let Some(order) = order else { continue };
            let shape = read.layout.shape.clone();
            let from = Access { layout: read.layout.permute(&order), ..read.clone() };
            let to = match last.take() {
                Some((known, same)) if known == from => same,
                _ => copy(&from),
            };
            *read = Access { layout: copied_layout(&shape, &order), ..to.clone() };
            last = Some((from, to));
        }
    }

    /// Replaces a right operand by the shared copy, in which the contracted axes come first.
    fn share_rows(&mut self, axes: &DotAxes, read: &mut Access, copy: &mut Copy<'_>) {
        let Some(index) = self.shared.iter().position(|shared| shared.operand == *read) else { return };
        let shape = read.layout.shape.clone();
        let free = DotAxes::free(shape.rank(), &axes.rhs_batch, &axes.rhs_contract);
        let order = [&axes.rhs_batch[..], &axes.rhs_contract, &free].concat();
        let rows = self.shared[index]
            .copy
            .take()
            .unwrap_or_else(|| copy(&Access { layout: read.layout.permute(&order), ..read.clone() }));
        *read = Access { layout: copied_layout(&shape, &order), ..rows.clone() };
        self.shared[index].copy = Some(rows);
    }
}

/// A right operand that several products share.
struct Shared {
    operand: Access,
    products: usize,
    /// The shared copy, once it exists.
    copy: Option<Access>,
}

/// Minimum number of products that must share a right operand for a copy to pay off.
const SHARERS: usize = 4;

/// Returns the right operands that enough products share for a copy to pay off.
fn shared_operands(kernels: &[Draft]) -> Vec<Shared> {
    let mut shared: Vec<Shared> = Vec::new();
    for spec in kernels {
        let (Kernel::Op(OpKind::Dot(axes)) | Kernel::Dot { axes, .. }) = &spec.kernel else { continue };
        if !shares_rows(axes, &spec.reads) {
            continue;
        }
        match shared.iter_mut().find(|shared| shared.operand == spec.reads[1]) {
            Some(known) => known.products += 1,
            None => shared.push(Shared { operand: spec.reads[1].clone(), products: 1, copy: None }),
        }
    }
    shared.retain(|shared| shared.products >= SHARERS);
    shared
}
