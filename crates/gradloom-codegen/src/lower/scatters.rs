//! Grouping of similar scatters of distinct rows into one launch, such as the new keys and values of all
//! layers.
//!
//! In: the kernels of a graph. Out: the same kernels, with similar scatters of the commit as parts of a group
//! at the position of the last one. Invariant: no part needs the result of another.

use super::Lowering;
use gradloom_core::fuse::{KernelSpec, as_one};
use gradloom_core::ir::{OpKind, ScatterOp};
use gradloom_core::kernel::{Access, Kernel};

/// Groups similar scatters.
pub(super) fn together(lowering: &mut Lowering<'_>) {
    let mut first = 0;
    while let Some(at) = (first..lowering.kernels.len()).find(|&at| is_distinct(&lowering.kernels[at])) {
        first = at + 1;
        let mut members = vec![at];
        for (i, spec) in lowering.kernels.iter().enumerate().skip(at + 1) {
            let needs = |member: &usize| {
                let writes = &lowering.kernels[*member].writes;
                spec.reads.iter().any(|read| writes.iter().any(|write| write.buffer == read.buffer))
            };
            if members.iter().any(needs) {
                break;
            }
            if is_distinct(spec) && are_alike(&lowering.kernels[at], spec) {
                members.push(i);
            }
        }
        if let Some((&last, others)) = members.split_last().filter(|(_, others)| !others.is_empty()) {
            let specs = members.iter().map(|&i| lowering.kernels[i].spec.clone()).collect();
            lowering.kernels[last] = as_one(specs).expect("a group has members").into();
            others.iter().rev().for_each(|&i| drop(lowering.kernels.remove(i)));
            first = at;
        }
    }
}

fn is_distinct(spec: &KernelSpec) -> bool {
    spec.commit && matches!(spec.kernel, Kernel::Op(OpKind::Scatter { op: ScatterOp::Distinct, .. }))
}

/// Returns `true` if one kernel can run both scatters, whose elements may lie at different offsets.
fn are_alike(a: &KernelSpec, b: &KernelSpec) -> bool {
    let fits = |(a, b): (&Access, &Access)| {
        (a.dtype, &a.layout.shape, &a.layout.strides) == (b.dtype, &b.layout.shape, &b.layout.strides)
    };
    (&a.kernel, a.once) == (&b.kernel, b.once)
        && a.reads.iter().zip(&b.reads).all(fits)
        && a.writes.iter().zip(&b.writes).all(fits)
}
