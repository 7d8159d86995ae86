//! Grouping of independent kernels into single launches.
//!
//! The updates of all parameters are independent maps of the commit, which become one launch. The partial
//! sums of the norm of all gradients are also one launch. They are written contiguously, so that the next
//! kernel can add them. Sibling products (queries, keys and values) share an operand and are ready at the
//! same time; on GPUs, lowering groups them (`codegen/lower/products.rs`).

use super::{Fusion, KernelSpec};
use crate::collections::{IdMap, IdSet, sort, sort_by_key};
use crate::ir::{OpKind, ValueId, inverse_permutation};
use crate::kernel::{Access, Kernel, Layout, Part, Schedule};

/// Groups kernels that can run as one launch. `watched` contains the values that are read outside the
/// kernels. `targets` maps the next value of a parameter or state to that parameter or state. Neither
/// contains views.
pub(super) fn group(
    watched: &IdSet<ValueId>,
    targets: &IdMap<ValueId, ValueId>,
    kernels: Vec<KernelSpec>,
    fusion: Fusion,
) -> Vec<KernelSpec> {
    let kernels = joined(watched, updates(targets, kernels));
    if fusion == Fusion::SumsApart { kernels } else { products(kernels) }
}

/// Groups the loops of the commit that have the same distance from its start.
fn updates(targets: &IdMap<ValueId, ValueId>, kernels: Vec<KernelSpec>) -> Vec<KernelSpec> {
    let (commit, mut compute): (Vec<_>, Vec<_>) = kernels.into_iter().partition(|kernel| kernel.commit);
    let mut level_of: IdMap<ValueId, usize> = IdMap::new();
    let mut levels: Vec<Vec<KernelSpec>> = Vec::new();
    for kernel in commit {
        let level =
            kernel.reads.iter().filter_map(|read| level_of.get(&read.buffer)).max().map_or(0, |l| l + 1);
        level_of.extend(kernel.writes.iter().map(|write| (write.buffer, level)));
        levels.resize_with(levels.len().max(level + 1), Vec::new);
        levels[level].push(kernel);
    }
    // Group the loops of each level, whose kernels are independent.
    for level in levels {
        let (loops, others): (Vec<_>, Vec<_>) =
            level.into_iter().partition(|kernel| matches!(kernel.kernel, Kernel::Loop(_)));
        compute.extend(others);
        for batch in batches(targets, loops) {
            compute.extend(as_one(batch));
        }
    }
    compute
}

/// Splits kernels into batches in which no kernel reads a parameter or state whose next value another one
/// writes, because a group could not write that value in place.
fn batches(targets: &IdMap<ValueId, ValueId>, kernels: Vec<KernelSpec>) -> Vec<Vec<KernelSpec>> {
    struct Batch {
        reads: IdSet<ValueId>,
        overwrites: IdSet<ValueId>,
        members: Vec<KernelSpec>,
    }
    let mut batches: Vec<Batch> = Vec::new();
    for kernel in kernels {
        let overwrites: Vec<ValueId> =
            kernel.writes.iter().filter_map(|write| targets.get(&write.buffer)).copied().collect();
        let free = |batch: &Batch| {
            !overwrites.iter().any(|target| batch.reads.contains(target))
                && !kernel.reads.iter().any(|read| batch.overwrites.contains(&read.buffer))
        };
        let at = batches.iter().position(free).unwrap_or_else(|| {
            batches.push(Batch { reads: IdSet::new(), overwrites: IdSet::new(), members: Vec::new() });
            batches.len() - 1
        });
        batches[at].reads.extend(kernel.reads.iter().map(|read| read.buffer));
        batches[at].overwrites.extend(overwrites);
        batches[at].members.push(kernel);
    }
    batches.into_iter().map(|batch| batch.members).collect()
}

/// Lets the kernels that compute the operands of a `concat` write its result directly, where possible: the
/// sums of one group of loops, or the gradients of attention.
fn joined(watched: &IdSet<ValueId>, mut kernels: Vec<KernelSpec>) -> Vec<KernelSpec> {
    let mut at = 0;
    let mut uses = Uses::before(at, &kernels);
    while at < kernels.len() {
        match Join::find(&kernels, at, watched, &uses) {
            None => uses.add(at, &kernels[at]),
            Some(join) => {
                let whole = kernels[at].writes[0].clone();
                for Piece { kernel, write, layout, .. } in &join.parts {
                    kernels[*kernel].writes[*write] = Access { layout: layout.clone(), ..whole.clone() };
                }
                if join.wait {
                    let members;
                    (kernels, members) = wait(kernels, at, whole.buffer, &join.parts);
                    at -= members - 1;
                    uses = Uses::before(at, &kernels);
                    continue;
                }
                // No other kernel reads the parts, so turn the concat into an empty kernel, which is removed
                // below.
                uses.written.insert(whole.buffer, (join.parts[0].kernel, join.parts[0].write));
                kernels[at].reads.clear();
                kernels[at].writes.clear();
            }
        }
        at += 1;
    }
    let is_empty =
        |k: &KernelSpec| matches!(k.kernel, Kernel::Op(OpKind::Concat { .. })) && k.writes.is_empty();
    kernels.retain(|kernel| !is_empty(kernel));
    kernels
}

/// Combines the kernels that write the parts of `whole` into one launch at the position of the concat `at`.
/// Returns all kernels and the number of combined kernels.
fn wait(
    mut kernels: Vec<KernelSpec>,
    at: usize,
    whole: ValueId,
    parts: &[Piece],
) -> (Vec<KernelSpec>, usize) {
    let offsets: IdMap<ValueId, usize> = parts.iter().map(|part| (part.buffer, part.layout.offset)).collect();
    for read in kernels.iter_mut().flat_map(|kernel| &mut kernel.reads) {
        if let Some(offset) = offsets.get(&read.buffer) {
            // Redirect reads of a part, which is a single element, to that element of the concat.
            read.buffer = whole;
            read.layout.offset += offset;
        }
    }
    let mut members: Vec<usize> = parts.iter().map(|part| part.kernel).collect();
    sort(&mut members);
    members.dedup();
    let mut group = Vec::new();
    let mut kept = Vec::with_capacity(kernels.len());
    for (i, kernel) in kernels.into_iter().enumerate() {
        match () {
            () if i == at => kept.extend(as_one(std::mem::take(&mut group))),
            () if members.binary_search(&i).is_ok() => group.push(kernel),
            () => kept.push(kernel),
        }
    }
    (kept, members.len())
}

/// A `concat` whose result is written window by window by the kernels of its operands.
struct Join {
    parts: Vec<Piece>,
    /// True if the kernels of the parts are combined into one launch at the position of the `concat`.
    wait: bool,
}

/// An operand of a `concat`.
struct Piece {
    kernel: usize,
    write: usize,
    buffer: ValueId,
    /// Window of the result that the operand's kernel writes.
    layout: Layout,
}

impl Join {
    fn find(kernels: &[KernelSpec], at: usize, watched: &IdSet<ValueId>, uses: &Uses) -> Option<Self> {
        let join = &kernels[at];
        let Kernel::Op(OpKind::Concat { axis }) = join.kernel else { return None };
        let whole = &join.writes[0].layout;
        let mut parts: Vec<Piece> = Vec::new();
        let mut seen = IdSet::new();
        let mut start = 0;
        for read in &join.reads {
            let buffer = read.buffer;
            let (kernel, write) = *uses.written.get(&buffer)?;
            let writers = kernels[kernel].writes.iter().filter(|write| write.buffer == buffer).count();
            let end = start + read.layout.shape[axis];
            let mut limits = whole.shape.to_vec();
            let mut starts = vec![0; limits.len()];
            (starts[axis], limits[axis]) = (start, end);
            let window = whole.slice(&starts, &limits, &vec![1; limits.len()]);
            let layout = within(&window, read, &kernels[kernel].writes[write])?;
            // Reject operands that are read outside the kernels, that occur twice, or that were themselves
            // joined and are therefore written in parts.
            if watched.contains(&buffer) || !seen.insert(buffer) || writers > 1 {
                return None;
            }
            parts.push(Piece { kernel, write, buffer, layout });
            start = end;
        }
        let first = &kernels[parts.first()?.kernel];
        let one = parts.iter().all(|part| part.kernel == parts[0].kernel);
        if one && matches!(first.kernel, Kernel::Op(OpKind::AttentionGrad(_))) {
            let alone = |part: &Piece| uses.readers[&part.buffer] == 1;
            let rows = parts.iter().all(|part| part.layout.strides.last() == Some(&1) && alone(part));
            return (rows && first.writes.len() == parts.len()).then_some(Self { parts, wait: false });
        }
        let small = parts.iter().all(|part| {
            let kernel = &kernels[part.kernel];
            let read_before =
                |write: &Access| uses.last_read.get(&write.buffer).is_some_and(|&k| k > part.kernel);
            matches!(kernel.kernel, Kernel::Loop(_))
                && !kernel.writes.iter().any(read_before)
                && part.layout.shape.elements() == 1
                && (kernel.commit, kernel.once) == (join.commit, join.once)
        });
        // The kernels move to the position of the concat, so no kernel before it may read their results.
        let unread = !parts.iter().any(|part| uses.last_read.contains_key(&part.buffer));
        (small && unread).then_some(Self { parts, wait: true })
    }
}

/// Writers and readers of each value, relative to one kernel.
struct Uses {
    /// The last preceding kernel that writes each value, and the index of that write.
    written: IdMap<ValueId, (usize, usize)>,
    /// The last preceding kernel that reads each value.
    last_read: IdMap<ValueId, usize>,
    /// Number of reads of each value by all kernels.
    readers: IdMap<ValueId, usize>,
}

impl Uses {
    fn before(at: usize, kernels: &[KernelSpec]) -> Self {
        let mut uses = Self { written: IdMap::new(), last_read: IdMap::new(), readers: IdMap::new() };
        for read in kernels.iter().flat_map(|kernel| &kernel.reads) {
            *uses.readers.get_or_insert_with(read.buffer, || 0) += 1;
        }
        for (i, kernel) in kernels[..at].iter().enumerate() {
            uses.add(i, kernel);
        }
        uses
    }

    /// Records the reads and writes of the next kernel.
    fn add(&mut self, at: usize, kernel: &KernelSpec) {
        self.last_read.extend(kernel.reads.iter().map(|read| (read.buffer, at)));
        // If a kernel writes a value twice, the first write is recorded.
        let writes = kernel.writes.iter().enumerate().rev();
        self.written.extend(writes.map(|(write, access)| (access.buffer, (at, write))));
    }
}

/// Returns the layout with which `write` writes to the part `window` of the joined value, given its view
/// `read`. Returns `None` if the view is not the whole result in row-major order, or if no strides represent
/// the layout.
fn within(window: &Layout, read: &Access, write: &Access) -> Option<Layout> {
    let all = read.layout.is_contiguous()
        && read.layout.offset == 0
        && read.layout.shape.elements() == write.layout.shape.elements();
    if !all {
        return None;
    }
    // Axes of the write, from the largest to the smallest stride.
    let mut order: Vec<usize> = (0..write.layout.shape.rank()).collect();
    sort_by_key(&mut order, |&axis| {
        std::cmp::Reverse((write.layout.strides[axis], write.layout.shape[axis]))
    });
    let in_memory: Vec<usize> = order.iter().map(|&axis| write.layout.shape[axis]).collect();
    let placed = window.reshape(&in_memory.into())?;
    Some(placed.permute(&inverse_permutation(&order)))
}

/// Groups consecutive products that share a left or right operand.
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
                let when = |k: &KernelSpec| (k.commit, k.once);
                shared && !pending.iter().any(needs) && when(first) == when(&kernel)
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

/// Returns one launch for several independent kernels, or `None` if there are no kernels.
pub fn as_one(mut kernels: Vec<KernelSpec>) -> Option<KernelSpec> {
    if kernels.len() < 2 {
        return kernels.pop();
    }
    let KernelSpec { op, commit, once, .. } = kernels[0];
    let mut group = KernelSpec {
        op,
        kernel: Kernel::Group(Vec::new()),
        reads: Vec::new(),
        writes: Vec::new(),
        commit,
        once,
    };
    let mut parts = Vec::with_capacity(kernels.len());
    for kernel in kernels {
        let (reads, writes) = (group.reads.len(), group.writes.len());
        group.reads.extend(kernel.reads);
        group.writes.extend(kernel.writes);
        parts.push(Part {
            kernel: kernel.kernel,
            reads: reads..group.reads.len(),
            writes: writes..group.writes.len(),
            schedule: Schedule::Whole,
            workspace: 0..0,
        });
    }
    group.kernel = Kernel::Group(parts);
    Some(group)
}
