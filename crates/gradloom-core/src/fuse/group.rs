//! Independent kernels that run as one launch.
//!
//! The updates of all parameters are maps of the commit that do not need each other: one launch. So are the sums that the norm of all
//! gradients is made of, which are then written next to each other, so that the next kernel adds them up. Sibling products (queries,
//! keys and values) share an operand and are ready at the same time.

use super::KernelSpec;
use crate::ir::{Graph, OpKind, ValueId};
use crate::kernel::{Access, Kernel, Layout, Lowered, Part};
use std::collections::{HashMap, HashSet};

pub(super) fn group(graph: &Graph, kernels: Vec<KernelSpec>, memory: &mut Lowered) -> Vec<KernelSpec> {
    let kernels = updates(kernels);
    let kernels = joined(graph, kernels, memory);
    products(kernels)
}

/// Loops of the commit that are equally far from its start.
fn updates(kernels: Vec<KernelSpec>) -> Vec<KernelSpec> {
    let (commit, mut compute): (Vec<_>, Vec<_>) = kernels.into_iter().partition(|kernel| kernel.commit);
    let mut level_of: HashMap<ValueId, usize> = HashMap::new();
    let mut levels: Vec<Vec<KernelSpec>> = Vec::new();
    for kernel in commit {
        let level =
            kernel.reads.iter().filter_map(|read| level_of.get(&read.buffer)).max().map_or(0, |l| l + 1);
        level_of.extend(kernel.writes.iter().map(|write| (write.buffer, level)));
        levels.resize_with(levels.len().max(level + 1), Vec::new);
        levels[level].push(kernel);
    }
    // Kernels of one level do not need each other.
    for level in levels {
        let (loops, others): (Vec<_>, Vec<_>) =
            level.into_iter().partition(|kernel| matches!(kernel.kernel, Kernel::Loop(_)));
        compute.extend(others);
        compute.extend(as_one(loops));
    }
    compute
}

/// Kernels whose only results are small operands of one `concat`: one launch, which writes the joined value.
fn joined(graph: &Graph, mut kernels: Vec<KernelSpec>, memory: &mut Lowered) -> Vec<KernelSpec> {
    let mut at = 0;
    while at < kernels.len() {
        if let Some((members, parts)) = joins(graph, &kernels, at) {
            let join = &kernels[at];
            let whole = join.writes[0].clone();
            let mut group: Vec<KernelSpec> = members.iter().map(|&i| kernels[i].clone()).collect();
            for (kernel, start) in group.iter_mut().zip(parts) {
                memory.access.remove(&kernel.writes[0].buffer);
                memory.buffers.remove(&kernel.writes[0].buffer);
                let shape = kernel.writes[0].layout.shape.clone();
                kernel.writes = vec![Access {
                    layout: Layout { offset: start, ..Layout::contiguous(&shape) },
                    ..whole.clone()
                }];
            }
            let gone: HashSet<usize> = members.into_iter().collect();
            let mut kept = Vec::with_capacity(kernels.len());
            for (i, kernel) in kernels.into_iter().enumerate() {
                if i == at {
                    kept.extend(as_one(std::mem::take(&mut group)));
                } else if !gone.contains(&i) {
                    kept.push(kernel);
                }
            }
            at = at - gone.len() + 1;
            kernels = kept;
        } else {
            at += 1;
        }
    }
    kernels
}

/// For a `concat` of what loops alone computed for it: those loops, and where the result of each starts.
fn joins(graph: &Graph, kernels: &[KernelSpec], at: usize) -> Option<(Vec<usize>, Vec<usize>)> {
    let join = &kernels[at];
    let Kernel::Op(OpKind::Concat { axis: 0 }) = join.kernel else { return None };
    let watched: HashSet<ValueId> = super::watched(graph).into_iter().collect();
    let mut members = Vec::new();
    let mut starts = Vec::new();
    let mut start = 0;
    for read in &join.reads {
        let member = kernels[..at].iter().position(|k| k.writes.iter().any(|w| w.buffer == read.buffer))?;
        let kernel = &kernels[member];
        let alone = kernels.iter().flat_map(|k| &k.reads).filter(|r| r.buffer == read.buffer).count() == 1;
        let whole = kernel.writes.len() == 1
            && read.layout.is_contiguous()
            && read.layout.shape.elements() == kernel.writes[0].layout.shape.elements();
        let fits = matches!(kernel.kernel, Kernel::Loop(_)) && whole && alone && kernel.commit == join.commit;
        if !fits || watched.contains(&read.buffer) || members.contains(&member) {
            return None;
        }
        members.push(member);
        starts.push(start);
        start += read.layout.shape.elements();
    }
    Some((members, starts))
}

/// Products without epilogues that read the same left or right operand and stand next to each other.
fn products(kernels: Vec<KernelSpec>) -> Vec<KernelSpec> {
    let mut grouped: Vec<KernelSpec> = Vec::new();
    let mut pending: Vec<KernelSpec> = Vec::new();
    for kernel in kernels {
        let is_product = matches!(kernel.kernel, Kernel::Op(OpKind::Dot(_)) | Kernel::Dot { .. });
        let joins = is_product
            && pending.first().is_some_and(|first| {
                let shared = first.reads[0] == kernel.reads[0] || first.reads[1] == kernel.reads[1];
                let needs = |a: &KernelSpec| {
                    a.writes.iter().any(|w| kernel.reads.iter().any(|r| r.buffer == w.buffer))
                };
                shared && !pending.iter().any(needs) && first.commit == kernel.commit
            });
        if !joins {
            grouped.extend(as_one(std::mem::take(&mut pending)));
        }
        if is_product {
            pending.push(kernel);
        } else {
            grouped.push(kernel);
        }
    }
    grouped.extend(as_one(pending));
    grouped
}

/// One launch for several kernels.
fn as_one(mut kernels: Vec<KernelSpec>) -> Option<KernelSpec> {
    if kernels.len() < 2 {
        return kernels.pop();
    }
    let (op, commit) = (kernels[0].op, kernels[0].commit);
    let mut group =
        KernelSpec { op, kernel: Kernel::Group(Vec::new()), reads: Vec::new(), writes: Vec::new(), commit };
    let mut parts = Vec::with_capacity(kernels.len());
    for kernel in kernels {
        let (reads, writes) = (group.reads.len(), group.writes.len());
        group.reads.extend(kernel.reads);
        group.writes.extend(kernel.writes);
        parts.push(Part {
            kernel: kernel.kernel,
            reads: reads..group.reads.len(),
            writes: writes..group.writes.len(),
            workspace: 0..0,
        });
    }
    group.kernel = Kernel::Group(parts);
    Some(group)
}
