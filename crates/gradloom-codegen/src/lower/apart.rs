//! Separation of products from their epilogues.
//!
//! In: kernels. Out: the same kernels, in which a plain product and a loop over its result replace each
//! product whose epilogue no product kernel supports, and separate kernels replace the parts of groups that
//! must run separately. Invariant: the loop directly follows the product.

use super::joined::joined;
use super::library::product_dtype;
use super::{Draft, Lowering};
use gradloom_core::ir::{DType, DotAxes, OpKind, Shape, Type};
use gradloom_core::kernel::{Access, Body, Kernel, Level, NodeKind, Part, Store};
use std::collections::VecDeque;

/// Turns the parts of groups that the vendor library computes into separate kernels. If a part has an
/// epilogue that no kernel supports, all parts of its group become separate kernels.
pub(super) fn ungroup(lowering: &mut Lowering<'_>) {
    lowering.replace(|lowering, group, ungrouped| {
        let Kernel::Group(parts) = &group.kernel else { return ungrouped.push(group) };
        let (reads, writes) = (&group.reads, &group.writes);
        let own = |part: &Part| {
            let (reads, writes) = (reads[part.reads.clone()].to_vec(), writes[part.writes.clone()].to_vec());
            group.beside(part.kernel.clone(), reads, writes)
        };
        let all = parts.iter().any(|part| is_split(&part.kernel));
        let (apart, others): (Vec<&Part>, Vec<&Part>) =
            parts.iter().partition(|part| all || lowering.is_for_library(&own(part)));
        if apart.is_empty() {
            return ungrouped.push(group);
        }
        ungrouped.extend(apart.into_iter().map(own));
        if let Some((kernel, reads, writes)) = regrouped(others.into_iter(), reads, writes) {
            ungrouped.push(group.beside(kernel, reads, writes));
        }
    });
}

/// Splits each product with an epilogue that no kernel supports into a product and a loop.
pub(super) fn split(lowering: &mut Lowering<'_>) {
    lowering.replace(|lowering, draft, split| match &draft.kernel {
        Kernel::Dot { axes, epilogue } if is_split(&draft.kernel) => {
            let dtype = product_dtype(lowering.target, epilogue, &draft.writes);
            split.extend(lowering.product_and_loop(&draft, axes, epilogue, dtype).into_kernels());
        }
        _ => split.push(draft),
    });
}

/// Returns `true` if a product and its epilogue must be separate kernels, because product kernels only
/// support stores of level `Element`.
fn is_split(kernel: &Kernel) -> bool {
    let Kernel::Dot { epilogue, .. } = kernel else { return false };
    !epilogue.stores.iter().all(|store| matches!(store, Store::Value { level: Level::Element, .. }))
}

/// Product and the loop that was its epilogue.
pub(super) struct Split {
    pub(super) product: Draft,
    /// Loop over the product; `None` if the product stores all results.
    pub(super) map: Option<Draft>,
}

impl Split {
    /// Returns the kernels in order.
    fn into_kernels(self) -> impl Iterator<Item = Draft> {
        [self.product].into_iter().chain(self.map)
    }
}

impl Lowering<'_> {
    /// Replaces each kernel that `f` splits by the product and the loop, if there is one. The loop is merged
    /// with the next kernel if [`joined`] allows it.
    pub(super) fn take_apart(&mut self, f: impl Fn(&mut Self, &Draft) -> Option<Split>) {
        let mut kernels = VecDeque::from(std::mem::take(&mut self.kernels));
        while let Some(draft) = kernels.pop_front() {
            let Some(Split { product, map }) = f(self, &draft) else {
                self.kernels.push(draft);
                continue;
            };
            self.kernels.push(product);
            let Some(map) = map else { continue };
            match kernels.front_mut().and_then(|rows| Some((joined(&map, rows)?, rows))) {
                Some((both, rows)) => *rows = both.into(),
                None => self.kernels.push(map),
            }
        }
    }

    /// Returns a product and a loop that computes its epilogue. The product has type `dtype`, unless the
    /// epilogue stores the product itself, which then keeps its type.
    pub(super) fn product_and_loop(
        &mut self,
        draft: &Draft,
        axes: &DotAxes,
        epilogue: &Body,
        dtype: DType,
    ) -> Split {
        let mut body = epilogue.clone();
        let mut writes = draft.writes.clone();
        let positions = [epilogue.rows, epilogue.columns].into();
        let product = match stored_product(epilogue, &writes) {
            // The product is stored anyway, so the loop need not copy it.
            Some(store) => {
                let write = body.stores.remove(store).write();
                for store in &mut body.stores {
                    let (Store::Value { write: other, .. } | Store::ColumnReduce { write: other, .. }) =
                        store;
                    *other -= usize::from(*other > write);
                }
                writes.remove(write)
            }
            None => self.memory.temporary(Type::new(dtype, [epilogue.rows, epilogue.columns])),
        };
        let shaped = |shape: &Shape| {
            let layout = product.layout.reshape(shape).expect("it is contiguous");
            Access { layout, ..product.clone() }
        };
        let reads = &draft.reads;
        let result = shaped(&axes.result_shape(&reads[0].layout.shape, &reads[1].layout.shape));
        let mut operands = reads[2..].to_vec();
        for node in &mut body.nodes {
            match &mut node.kind {
                NodeKind::Load(read) => *read -= 2,
                NodeKind::Accumulator => node.kind = NodeKind::Load(operands.len()),
                _ => {}
            }
        }
        operands.push(shaped(&positions));
        let product = draft.beside(Kernel::Op(OpKind::Dot(axes.clone())), reads[..2].to_vec(), vec![result]);
        let map = draft.beside(Kernel::Loop(body), operands, writes);
        Split { product: Draft { is_read_next: true, ..product }, map: Some(map) }
    }
}

/// Returns a group of these parts with their operands and results, or the part's kernel if there is only one.
/// Returns `None` if there are no parts.
pub(super) fn regrouped<'p>(
    parts: impl Iterator<Item = &'p Part>,
    reads: &[Access],
    writes: &[Access],
) -> Option<(Kernel, Vec<Access>, Vec<Access>)> {
    let (mut all_reads, mut all_writes, mut renumbered) = (Vec::new(), Vec::new(), Vec::new());
    for part in parts {
        let (read, write) = (all_reads.len(), all_writes.len());
        all_reads.extend_from_slice(&reads[part.reads.clone()]);
        all_writes.extend_from_slice(&writes[part.writes.clone()]);
        let (reads, writes) = (read..all_reads.len(), write..all_writes.len());
        renumbered.push(Part { reads, writes, ..part.clone() });
    }
    let kernel = match renumbered.len() {
        0 => return None,
        1 => renumbered.remove(0).kernel,
        _ => Kernel::Group(renumbered),
    };
    Some((kernel, all_reads, all_writes))
}

/// Returns the index of the store that writes the product itself to contiguous memory, if the epilogue has
/// other stores too.
fn stored_product(epilogue: &Body, writes: &[Access]) -> Option<usize> {
    let is_product = |store: &Store| match *store {
        Store::Value { node, level: Level::Element, write } => {
            epilogue.node(node).kind == NodeKind::Accumulator && writes[write].layout.is_contiguous()
        }
        _ => false,
    };
    epilogue.stores.iter().position(is_product).filter(|_| epilogue.stores.len() > 1)
}
