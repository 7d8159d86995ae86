//! Scatters of distinct rows that are alike, as one launch: the new keys and values of all layers.
//!
//! In: the kernels of a graph. Out: the same kernels, with those scatters of the commit as parts of a group,
//! where the last of them stood. Always holds: none needs another's result.

use gradloom_core::fuse::{Fused, KernelSpec};
use gradloom_core::ir::{OpKind, ScatterOp};
use gradloom_core::kernel::{Access, Kernel, Part, Schedule};

/// Groups what is alike.
pub(crate) fn group_scatters(fused: &mut Fused) {
    let mut first = 0;
    while let Some(at) = (first..fused.kernels.len()).find(|&at| is_distinct(&fused.kernels[at])) {
        first = at + 1;
        let mut members = vec![at];
        for (i, spec) in fused.kernels.iter().enumerate().skip(at + 1) {
            let needs = |member: &usize| {
                let writes = &fused.kernels[*member].writes;
                spec.reads.iter().any(|read| writes.iter().any(|write| write.buffer == read.buffer))
            };
            if members.iter().any(needs) {
                break;
            }
            if is_distinct(spec) && are_alike(&fused.kernels[at], spec) {
                members.push(i);
            }
        }
        if members.len() > 1 {
            first = at;
            together(&mut fused.kernels, &members);
        }
    }
}

fn is_distinct(spec: &KernelSpec) -> bool {
    spec.commit && matches!(spec.kernel, Kernel::Op(OpKind::Scatter { op: ScatterOp::Distinct, .. }))
}

/// Whether one kernel can run both, whose elements lie in other places.
fn are_alike(a: &KernelSpec, b: &KernelSpec) -> bool {
    let fits = |(a, b): (&Access, &Access)| {
        (a.dtype, &a.layout.shape, &a.layout.strides) == (b.dtype, &b.layout.shape, &b.layout.strides)
    };
    (&a.kernel, a.once) == (&b.kernel, b.once)
        && a.reads.iter().zip(&b.reads).all(fits)
        && a.writes.iter().zip(&b.writes).all(fits)
}

/// Puts a group of these kernels where the last of them stands.
fn together(kernels: &mut Vec<KernelSpec>, members: &[usize]) {
    let (mut reads, mut writes, mut parts) = (Vec::new(), Vec::new(), Vec::new());
    for spec in members.iter().map(|&at| &kernels[at]) {
        let (read, write) = (reads.len(), writes.len());
        reads.extend_from_slice(&spec.reads);
        writes.extend_from_slice(&spec.writes);
        parts.push(Part {
            kernel: spec.kernel.clone(),
            reads: read..reads.len(),
            writes: write..writes.len(),
            schedule: Schedule::Whole,
            workspace: 0..0,
        });
    }
    let (&last, others) = members.split_last().expect("a group has members");
    kernels[last] = KernelSpec { kernel: Kernel::Group(parts), reads, writes, ..kernels[last].clone() };
    others.iter().rev().for_each(|&at| drop(kernels.remove(at)));
}
