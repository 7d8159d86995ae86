//! From fused kernels to launches, for any target.
//!
//! In: a graph without block ops, fused, and a [`Target`]. Out: [`Lowered`]. Always holds: a copy is made
//! only where the kernel that reads a view cannot index through it (a matrix operand without single strides,
//! a user's op).

mod followed;
pub(crate) mod gpu;
mod joined;
mod library;
mod narrow;
mod pad;
mod parts;
mod products;
mod reduce;
mod rounding;
mod scatters;
mod stored;

use crate::product::{DotProblem, copied_layout, dot_copies};
use gradloom_core::fuse::{Fused, KernelSpec};
use gradloom_core::ir::{CustomOp, DType, DotAxes, Graph, OpId, OpKind, Shape, Type};
use gradloom_core::kernel::{
    Access, Body, GroupSchedule, Kernel, Launch, Layout, Level, Lowered, NodeKind, Part, Phase, Schedule,
    Store,
};
use gradloom_core::plan::ALIGNMENT;
use joined::joined;
use library::{Padded, product_dtype};
use parts::Unfinished;
pub(crate) use reduce::as_body;
pub(crate) use rounding::round_at_scatters;
pub(crate) use scatters::group_scatters;
pub(crate) use stored::{OfProducts, read_stored};

/// What lowering asks of a target.
pub(crate) trait Target {
    /// How a kernel that is no group is shared out, and bytes of scratch that it needs while it runs.
    fn schedule(&self, request: Request<'_>) -> (Schedule, u64);
    /// How a group is shared out, and bytes of scratch that its parts need together, if it is more than what
    /// they need side by side.
    fn group_schedule(&self, _parts: &[Part], _reads: &[Access], _writes: &[Access]) -> (Schedule, u64) {
        (Schedule::Whole, 0)
    }
    /// How products that are alike are shared out, if kernels of the target can run several of them.
    fn products_together(&self) -> Option<GroupSchedule> {
        None
    }
    /// Whether a result with an element for each position, row, or one in all may take the place of an
    /// operand with as many: not if another thread may still read that.
    fn may_replace(&self, kernel: &Kernel, level: Level) -> bool;
    /// Whether the target's products can do what follows from them themselves; otherwise a loop of its own
    /// does.
    fn takes_epilogue(&self, epilogue: &Body) -> bool;
    /// Whether a user's op has kernels for the target, which index through views; its operands on the host
    /// are row-major.
    fn has_kernels(&self, _op: &dyn CustomOp) -> bool {
        false
    }
    /// Whether products read windows that overlap, as right operands, without a copy.
    fn packs_windows(&self) -> bool {
        false
    }
    /// Whether products like this one would rather share a copy of their right operand whose rows, for each
    /// contracted index, are contiguous.
    fn shares_rows(&self, _axes: &DotAxes, _reads: &[Access]) -> bool {
        false
    }
    /// The dtype of operands with which a library of the device's vendor computes a product, if it does that
    /// well. The result's layout and dtype come last.
    fn library(&self, _axes: &DotAxes, _reads: &[Access], _result: (&Layout, DType)) -> Option<DType> {
        None
    }
    /// Whether the library rounds operands in f32 to TF32.
    fn rounds_to_tf32(&self) -> bool {
        false
    }
    /// Into how many parts the rows of a body are cut for its sums of columns; a kernel that follows takes
    /// them together. 1: the kernel gives whole sums.
    fn column_parts(&self, _body: &Body, _reads: &[Access], _writes: &[Access]) -> usize {
        1
    }
    /// Into how many products those of a product are cut that what follows from it adds up. 1: it is one.
    fn parts_with_epilogue(&self, _axes: &DotAxes, _reads: &[Access]) -> usize {
        1
    }
    /// Into how many products the terms of a product's sums are cut, if these become a batch whose results a
    /// kernel that follows adds up. 1: the kernel gives whole sums.
    fn product_parts(&self, _axes: &DotAxes, _reads: &[Access]) -> usize {
        1
    }
}

/// A kernel that is to be shared out.
pub(crate) struct Request<'r> {
    pub(crate) graph: &'r Graph,
    /// The op that asks for it.
    pub(crate) op: OpId,
    pub(crate) kernel: &'r Kernel,
    pub(crate) reads: &'r [Access],
    pub(crate) writes: &'r [Access],
    /// See [`Launch::may_alias`].
    pub(crate) aliases: &'r [(usize, usize)],
}

/// Lowers kernels for a target.
pub(crate) fn lower(graph: &Graph, fused: Fused, target: &impl Target) -> Lowered {
    lower_padded(graph, fused, Vec::new(), target)
}

/// Lowers kernels, some of whose buffers are larger than what is in them.
fn lower_padded(graph: &Graph, fused: Fused, padded: Vec<Padded>, target: &impl Target) -> Lowered {
    let shared = shared_operands(&fused.kernels, target);
    let mut lowering = Lowering {
        graph,
        target,
        lowered: fused.memory,
        unfinished: Vec::new(),
        shared,
        rounded: Vec::new(),
        padded,
        waiting: None,
        commits: false,
        once: false,
        behind: 0,
    };
    for spec in fused.kernels {
        lowering.kernel(spec);
    }
    if let Some(map) = lowering.waiting.take() {
        lowering.alone(map);
    }
    lowering.finish();
    lowering.lowered
}

struct Lowering<'g, T> {
    graph: &'g Graph,
    target: &'g T,
    lowered: Lowered,
    /// Sums whose parts were computed.
    unfinished: Vec<Unfinished>,
    /// Right operands that products share a copy of.
    shared: Vec<Shared>,
    /// Operands, and their copies of another dtype.
    rounded: Vec<(Access, Access)>,
    /// Buffers that are larger than what is in them.
    padded: Vec<Padded>,
    /// What follows from the last product, by the library or in parts, if that is all that was lowered since.
    waiting: Option<KernelSpec>,
    /// Whether what is lowered now is only needed by updates.
    commits: bool,
    /// Whether it runs once, when the program is loaded.
    once: bool,
    /// The first launch from which on the same holds.
    behind: usize,
}

/// A product and the loop behind it, with their operands and results.
type Split = [(Kernel, Vec<Access>, Vec<Access>); 2];

/// The right operand of several products.
struct Shared {
    operand: Access,
    products: usize,
    /// Its copy, once there is one.
    copy: Option<Access>,
}

/// Products that pay for a copy of the right operand that they share.
const SHARERS: usize = 4;

/// The right operands that so many products share.
fn shared_operands(kernels: &[KernelSpec], target: &impl Target) -> Vec<Shared> {
    let mut shared: Vec<Shared> = Vec::new();
    for spec in kernels {
        let (Kernel::Op(OpKind::Dot(axes)) | Kernel::Dot { axes, .. }) = &spec.kernel else { continue };
        if !target.shares_rows(axes, &spec.reads) {
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

impl<T: Target> Lowering<'_, T> {
    /// Lowers a kernel, with the map before it or behind that.
    fn kernel(&mut self, mut spec: KernelSpec) {
        if let Some(map) = self.waiting.take() {
            match joined(&map, &spec) {
                Some(both) => spec = both,
                None => self.alone(map),
            }
        }
        self.alone(spec);
    }

    fn alone(&mut self, spec: KernelSpec) {
        let KernelSpec { op, mut kernel, mut reads, mut writes, commit, once } = spec;
        // What only updates need comes last, and is not kept waiting.
        if commit {
            self.finish();
        }
        if (self.commits, self.once) != (commit, once) {
            (self.commits, self.once) = (commit, once);
            self.behind = self.lowered.launches.len();
        }
        if let Kernel::Dot { axes, epilogue } = &kernel
            && let Some([(product, operands, sums), (body, reads, writes)]) =
                self.dot_in_parts(axes, epilogue, &reads, &writes)
        {
            self.finish_for(&operands);
            self.push(op, product, operands, sums);
            self.waiting = Some(KernelSpec { op, kernel: body, reads, writes, commit, once });
            return;
        }
        let by_library = self.is_for_library(&kernel, &reads, &writes);
        if let Kernel::Dot { axes, epilogue } = &kernel
            && (by_library || self.is_split(&kernel))
        {
            let dtype = if by_library { product_dtype(&writes) } else { DType::F32 };
            let split = self.dot_and_loop(axes, epilogue, dtype, reads, writes);
            let [(kernel, operands, product), (body, reads, writes)] = split;
            self.finish_for(&operands);
            // The loop follows at once, so the product does not leave parts.
            self.push(op, kernel, operands, product);
            let map = KernelSpec { op, kernel: body, reads, writes, commit, once };
            if by_library {
                self.waiting = Some(map);
                return;
            }
            return self.kernel(map);
        }
        if let Kernel::Group(parts) = &kernel {
            let all = parts.iter().any(|part| self.is_split(&part.kernel));
            let is_apart = |part: &Part| {
                let (reads, writes) = (&reads[part.reads.clone()], &writes[part.writes.clone()]);
                all || self.is_for_library(&part.kernel, reads, writes)
            };
            let apart: Vec<bool> = parts.iter().map(is_apart).collect();
            if apart.contains(&true) {
                for (_, part) in parts.iter().enumerate().filter(|(i, _)| apart[*i]) {
                    let (reads, writes) =
                        (reads[part.reads.clone()].to_vec(), writes[part.writes.clone()].to_vec());
                    self.kernel(KernelSpec { op, kernel: part.kernel.clone(), reads, writes, commit, once });
                }
                let others = parts.iter().enumerate().filter(|(i, _)| !apart[*i]).map(|(_, part)| part);
                if let Some((kernel, reads, writes)) = regrouped(others, &reads, &writes) {
                    self.kernel(KernelSpec { op, kernel, reads, writes, commit, once });
                }
                return;
            }
        }
        self.finish_for(&reads);
        if !once && !by_library {
            self.cut(op, &mut kernel, &mut reads, &mut writes);
        }
        self.push(op, kernel, reads, writes);
        if commit {
            self.finish();
        }
        self.finish_large();
    }

    /// Adds a launch, whose reads are finished.
    fn push(&mut self, op: OpId, mut kernel: Kernel, mut reads: Vec<Access>, writes: Vec<Access>) {
        let (may_alias, schedule, workspace) = match &mut kernel {
            Kernel::Group(parts) => self.group(op, parts, &mut reads, &writes),
            kernel => self.prepare(op, kernel, &mut reads, &writes),
        };
        let launch =
            Launch { op, kernel, reads, writes, may_alias, schedule, workspace, phase: Phase::Compute };
        let launches = &mut self.lowered.launches;
        // An update could not take the place of a state that another product of its launch reads.
        if !self.commits
            && let Some(schedule) = self.target.products_together()
            && let Some(group) = products::find(&mut launches[self.behind..], &launch)
        {
            return products::add(group, launch, schedule);
        }
        launches.push(launch);
    }

    /// Whether a product and what follows from it are two launches.
    fn is_split(&self, kernel: &Kernel) -> bool {
        matches!(kernel, Kernel::Dot { epilogue, .. } if !self.target.takes_epilogue(epilogue))
    }

    /// A product, and a loop over it.
    fn dot_and_loop(
        &mut self,
        axes: &DotAxes,
        epilogue: &Body,
        dtype: DType,
        reads: Vec<Access>,
        mut writes: Vec<Access>,
    ) -> Split {
        let mut body = epilogue.clone();
        let positions = [epilogue.rows, epilogue.columns].into();
        let product = match stored_product(epilogue, &writes) {
            // A result already: the loop has no need to copy it.
            Some(store) => {
                let write = body.stores.remove(store).write();
                for store in &mut body.stores {
                    let (Store::Value { write: other, .. } | Store::ColumnReduce { write: other, .. }) =
                        store;
                    *other -= usize::from(*other > write);
                }
                writes.remove(write)
            }
            None => self.lowered.temporary(Type::new(dtype, [epilogue.rows, epilogue.columns])),
        };
        let shaped = |shape: &Shape| {
            let layout = product.layout.reshape(shape).expect("it is contiguous");
            Access { layout, ..product.clone() }
        };
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
        [
            (Kernel::Op(OpKind::Dot(axes.clone())), reads[..2].to_vec(), vec![result]),
            (Kernel::Loop(body), operands, writes),
        ]
    }

    /// Makes the operands fit the kernel; gives what may alias, how it is shared out, and its scratch.
    fn prepare(
        &mut self,
        op: OpId,
        kernel: &Kernel,
        reads: &mut [Access],
        writes: &[Access],
    ) -> (Vec<(usize, usize)>, Schedule, u64) {
        if let Kernel::Op(OpKind::Dot(axes)) = kernel
            && let Some(schedule) = self.library(op, axes, reads, &writes[0])
        {
            let workspace = schedule.workspace(kernel);
            return (Vec::new(), schedule, workspace);
        }
        match kernel {
            Kernel::Op(OpKind::Dot(axes)) | Kernel::Dot { axes, .. } => {
                self.fit_dot_operands(op, axes, reads)
            }
            Kernel::Op(OpKind::Custom(id)) if !self.target.has_kernels(&*self.graph.customs[*id]) => {
                for read in reads.iter_mut().filter(|read| !read.layout.is_contiguous()) {
                    *read = self.copy(op, read);
                }
            }
            _ => {}
        }
        let aliases = self.aliases(kernel, reads, writes);
        let request = Request { graph: self.graph, op, kernel, reads, writes, aliases: &aliases };
        let (schedule, workspace) = self.target.schedule(request);
        (aliases, schedule, workspace)
    }

    /// Prepares the parts of a group, whose scratch stands side by side.
    fn group(
        &mut self,
        op: OpId,
        parts: &mut [Part],
        reads: &mut [Access],
        writes: &[Access],
    ) -> (Vec<(usize, usize)>, Schedule, u64) {
        let mut may_alias = Vec::new();
        let mut workspace = 0;
        for part in &mut *parts {
            let writes = &writes[part.writes.clone()];
            let (pairs, schedule, bytes) =
                self.prepare(op, &part.kernel, &mut reads[part.reads.clone()], writes);
            part.schedule = schedule;
            part.workspace = workspace..workspace + bytes;
            workspace = part.workspace.end.next_multiple_of(ALIGNMENT);
            may_alias.extend(pairs.into_iter().map(|(w, r)| (part.writes.start + w, part.reads.start + r)));
        }
        let (schedule, together) = self.target.group_schedule(parts, reads, writes);
        (may_alias, schedule, workspace.max(together))
    }

    fn fit_dot_operands(&mut self, op: OpId, axes: &DotAxes, reads: &mut [Access]) {
        if self.target.shares_rows(axes, reads) {
            self.share_rows(op, axes, &mut reads[1]);
        }
        let right = &reads[1].layout;
        // A copy of windows that overlap would be larger than what they look at.
        let overlaps = right.shape.elements() > right.end().saturating_sub(right.offset);
        if overlaps
            && self.target.packs_windows()
            && DotProblem::packing(axes, &reads[0].layout, right).is_some()
        {
            return;
        }
        let copies = dot_copies(axes, &reads[0].layout, right);
        // A product of a value with itself copies it once.
        let mut last: Option<(Access, Access)> = None;
        for (read, order) in reads.iter_mut().zip([copies.lhs, copies.rhs]) {
            let Some(order) = order else { continue };
            let shape = read.layout.shape.clone();
            let from = Access { layout: read.layout.permute(&order), ..read.clone() };
            let to = match last.take() {
                Some((known, copy)) if known == from => copy,
                _ => self.copy(op, &from),
            };
            *read = Access { layout: copied_layout(&shape, &order), ..to.clone() };
            last = Some((from, to));
        }
    }

    /// Takes a copy of a right operand, contracted axes first, if other products do, too.
    fn share_rows(&mut self, op: OpId, axes: &DotAxes, read: &mut Access) {
        let Some(index) = self.shared.iter().position(|shared| shared.operand == *read) else { return };
        let shape = read.layout.shape.clone();
        let free = DotAxes::free(shape.rank(), &axes.rhs_batch, &axes.rhs_contract);
        let order = [&axes.rhs_batch[..], &axes.rhs_contract, &free].concat();
        let copy = self.shared[index].copy.take().unwrap_or_else(|| {
            let from = Access { layout: read.layout.permute(&order), ..read.clone() };
            self.copy(op, &from)
        });
        *read = Access { layout: copied_layout(&shape, &order), ..copy.clone() };
        self.shared[index].copy = Some(copy);
    }

    /// A contiguous copy.
    fn copy(&mut self, op: OpId, from: &Access) -> Access {
        let to = self.lowered.temporary(Type::new(from.dtype, from.layout.shape.clone()));
        self.lowered.launches.push(Launch {
            op,
            kernel: Kernel::Copy,
            reads: vec![from.clone()],
            writes: vec![to.clone()],
            may_alias: Vec::new(),
            schedule: Schedule::Whole,
            workspace: 0,
            phase: Phase::Compute,
        });
        to
    }

    /// Which reads the results may overwrite. A kernel that can trap is no exception: it is never launched in
    /// the commit, and the temporaries that it overwrites die with the step.
    fn aliases(&self, kernel: &Kernel, reads: &[Access], writes: &[Access]) -> Vec<(usize, usize)> {
        match kernel {
            Kernel::Op(
                OpKind::Unary(_)
                | OpKind::Binary(_)
                | OpKind::Compare(_)
                | OpKind::Select
                | OpKind::Cast { .. },
            ) => {
                let same_size = |read: &Access| read.dtype.bytes() == writes[0].dtype.bytes();
                (0..reads.len()).filter(|&i| same_size(&reads[i])).map(|i| (0, i)).collect()
            }
            Kernel::Op(OpKind::Scatter { .. } | OpKind::DynamicUpdateSlice) => vec![(0, 0)],
            Kernel::Loop(body) | Kernel::Dot { epilogue: body, .. } => {
                let may_replace = |level| self.target.may_replace(kernel, level);
                body_aliases(body, reads, writes, may_replace)
            }
            _ => Vec::new(),
        }
    }
}

/// Some parts of a group with their operands and results: a group again, or the only one as it is.
fn regrouped<'p>(
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

/// The store of an epilogue that gives the product itself, if a loop is left to do the others.
fn stored_product(epilogue: &Body, writes: &[Access]) -> Option<usize> {
    let is_product = |store: &Store| match *store {
        Store::Value { node, level: Level::Element, write } => {
            epilogue.node(node).kind == NodeKind::Accumulator && writes[write].layout.is_contiguous()
        }
        _ => false,
    };
    epilogue.stores.iter().position(is_product).filter(|_| epilogue.stores.len() > 1)
}

/// A position's operands are read before its results are written, if both have an element for each position
/// (or each row).
fn body_aliases(
    body: &Body,
    reads: &[Access],
    writes: &[Access],
    may_replace: impl Fn(Level) -> bool,
) -> Vec<(usize, usize)> {
    let loads: Vec<(usize, Level)> = body
        .nodes
        .iter()
        .filter_map(|node| match node.kind {
            NodeKind::Load(read) => Some((read, node.level)),
            _ => None,
        })
        .collect();
    let mut pairs = Vec::new();
    for store in &body.stores {
        let Store::Value { level, write, .. } = *store else { continue };
        for &(read, at) in &loads {
            let one = body.elements(Level::Element) == 1;
            let alike = at == level && (one || level != Level::Uniform && may_replace(level));
            if alike && reads[read].dtype.bytes() == writes[write].dtype.bytes() {
                pairs.push((write, read));
            }
        }
    }
    pairs
}
