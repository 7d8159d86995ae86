//! Properties of a graph that fusion requires: the role of each op, and the users of each value with the
//! views between them.
//!
//! [`Facts`] are collected from a graph without block ops. They contain the computing ops (all ops except
//! views and leaves), numbered in order, the source value and layout of each operand, and the users of each
//! value.

use super::link::Link;
use crate::collections::IdMap;
use crate::ir::{
    CostClass, DType, Definition, DotAxes, Graph, Id, Literal, Number, Op, OpId, OpKind, ReduceOp, Shape,
    UnaryOp, ValueId, inverse_permutation,
};
use crate::kernel::{Layout, Lowered};

/// The role of an op in fusion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    /// Computes each position from the operands at that position.
    Map,
    /// A reshape that strides cannot represent, which keeps the order of elements.
    Move,
    /// Reduces the columns of each row.
    ReduceColumns { rows: usize, columns: usize },
    /// Reduces the rows of each column.
    ReduceRows { rows: usize, columns: usize },
    /// Gathers one element of each row.
    Pick { rows: usize, columns: usize },
    /// Updates one element of each row.
    Put { rows: usize, columns: usize },
    /// A matrix product. The rows of all products of a batch are stacked.
    Dot { rows: usize, columns: usize },
    /// A separate, unfused kernel.
    Opaque,
}

impl Class {
    /// Returns the number of rows and columns that the class requires, or `None` if any division works.
    pub(super) fn split(self) -> Option<(usize, usize)> {
        match self {
            Class::Map | Class::Move | Class::Opaque => None,
            Class::ReduceColumns { rows, columns }
            | Class::ReduceRows { rows, columns }
            | Class::Pick { rows, columns }
            | Class::Put { rows, columns }
            | Class::Dot { rows, columns } => Some((rows, columns)),
        }
    }

    /// Returns `true` if the op requires whole rows.
    pub(super) fn reduces_columns(self) -> bool {
        matches!(self, Class::ReduceColumns { .. } | Class::Pick { .. })
    }
}

/// A value accessed through views.
#[derive(Clone, Debug)]
pub(super) struct ViewSource {
    /// A leaf or the result of a computing op.
    pub(super) value: ValueId,
    /// Layout of the accessed elements in the value's buffer.
    pub(super) layout: Layout,
    /// True if one of the views is a barrier.
    pub(super) waits: bool,
}

/// A use of a value by a computing op.
#[derive(Clone, Copy, Debug)]
pub(super) struct Use {
    /// Index of the user's node.
    pub(super) user: usize,
    /// Relation of the operand's elements to those of the value.
    pub(super) link: Link,
    /// True if a fused kernel can compute the value instead of reading it.
    pub(super) fusible: bool,
}

/// A node that depends only on constants and can run when the program is loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Once {
    /// Arithmetic, comparisons and selections on constants, which are cheaper to compute at each use than to
    /// read.
    Light,
    /// A computation whose result is worth storing.
    Heavy,
}

/// A computing op.
pub(super) struct Node {
    pub(super) op: OpId,
    pub(super) class: Class,
    /// Number of elements of the first result or, for a reduction or a [`Class::Pick`], of the first operand.
    pub(super) elements: usize,
    /// True if only updates need the node.
    pub(super) commit: bool,
    /// Set if the results are the same in every step.
    pub(super) once: Option<Once>,
    /// Number of matrix products and unfused kernels on the longest path that ends with the node.
    pub(super) depth: usize,
}

pub(super) struct Facts<'g> {
    pub(super) graph: &'g Graph,
    pub(super) nodes: Vec<Node>,
    /// Node that computes each value.
    node_of: Vec<Option<usize>>,
    sources: Vec<Option<ViewSource>>,
    /// Depth at which each value is available. The result of a barrier is available only after the awaited
    /// value.
    available: Vec<usize>,
    uses: Vec<Vec<Use>>,
    /// True for values that are the same in every step.
    constant: Vec<bool>,
    /// True for values that are read outside the fused kernels.
    pub(super) needed: Vec<bool>,
}

impl<'g> Facts<'g> {
    /// Collects the properties of a graph. `memory` contains the locations of the leaves.
    pub(super) fn new(graph: &'g Graph, memory: &Lowered, fuse: bool) -> Self {
        let count = graph.values.len();
        let mut facts = Self {
            graph,
            nodes: Vec::new(),
            node_of: vec![None; count],
            sources: vec![None; count],
            available: vec![0; count],
            uses: vec![Vec::new(); count],
            constant: vec![false; count],
            needed: vec![false; count],
        };
        let late = commit_only(graph);
        let orders = wanted_orders(graph);
        let updates: Vec<ValueId> = graph.updates.iter().map(|u| u.value).collect();
        for (id, op) in graph.entry_ops() {
            if facts.is_constant(op) && !op.results.iter().any(|result| updates.contains(result)) {
                op.results.iter().for_each(|result| facts.constant[result.index()] = true);
            }
            if !facts.view(op, memory) {
                facts.node(id, fuse, late[id.index()], &orders);
            }
        }
        let watched = graph.outputs.iter().map(|o| o.value).chain(graph.guards.iter().map(|g| g.value));
        let updated = graph.updates.iter().flat_map(|u| u.region.iter().flatten().copied().chain([u.value]));
        for value in watched.chain(updated) {
            let root = facts.source(value).value;
            facts.needed[root.index()] = true;
        }
        facts
    }

    /// Records the source of a leaf or a view. Returns `false` for a computing op.
    fn view(&mut self, op: &Op, memory: &Lowered) -> bool {
        let Some(&result) = op.results.first() else { return false };
        let source = if let Some(access) = memory.access.get(&result) {
            ViewSource { value: result, layout: access.layout.clone(), waits: false }
        } else {
            let Some(x) = op.operands.first().map(|&operand| self.source(operand)) else { return false };
            let layout = match &op.kind {
                OpKind::Reshape { shape } => x.layout.reshape(shape),
                OpKind::Permute { perm } => Some(x.layout.permute(perm)),
                OpKind::Broadcast { shape } => Some(x.layout.broadcast(shape)),
                OpKind::Slice { start, limit, step } => Some(x.layout.slice(start, limit, step)),
                OpKind::Windows { step, dilation, .. } => {
                    Some(x.layout.windows(&self.graph.ty(result).shape, step, dilation))
                }
                // The layout of a 64-bit value already has an axis for its words.
                OpKind::Unary(UnaryOp::Detach) | OpKind::Barrier | OpKind::Words => Some(x.layout.clone()),
                _ => None,
            };
            let Some(layout) = layout else { return false };
            ViewSource { value: x.value, layout, waits: x.waits || op.kind == OpKind::Barrier }
        };
        self.sources[result.index()] = Some(source);
        self.available[result.index()] = self.depth_of_operands(op);
        true
    }

    fn node(&mut self, id: OpId, fuse: bool, commit: bool, orders: &IdMap<ValueId, Option<Vec<usize>>>) {
        let op = &self.graph.ops[id];
        let number = self.nodes.len();
        let class = if fuse { self.class(id) } else { unfused(&op.kind) };
        let mut depth = self.depth_of_operands(op);
        for (position, operand) in op.operands.iter().enumerate() {
            let source = self.source(*operand);
            let (value, link) = (source.value, self.link(source));
            let fusible = !matches!(class, Class::Dot { .. } | Class::Opaque)
                && (class != Class::Move || position == 0)
                // A value read through a barrier must be computed before it, unless recomputing the value is
                // cheap.
                && !(source.waits && self.is_heavy(value));
            self.uses[value.index()].push(Use { user: number, link, fusible });
        }
        depth += usize::from(matches!(class, Class::Dot { .. } | Class::Opaque));
        let measured = match class {
            Class::ReduceColumns { .. } | Class::ReduceRows { .. } | Class::Pick { .. } => op.operands[0],
            _ => op.results[0],
        };
        let elements = self.graph.ty(measured).shape.elements();
        for &result in &op.results {
            let shape = &self.graph.ty(result).shape;
            let layout = match orders.get(&result) {
                Some(Some(order)) if fuse => ordered(shape, order),
                _ => Layout::contiguous(shape),
            };
            self.sources[result.index()] = Some(ViewSource { value: result, layout, waits: false });
            self.node_of[result.index()] = Some(number);
            self.available[result.index()] = depth;
        }
        let once = self.once(op, class);
        // Values computed when the program is loaded are available to the step and to its updates, so their
        // nodes do not belong to the commit.
        let commit = commit && once.is_none();
        self.nodes.push(Node { op: id, class, elements, commit, once, depth });
    }

    /// Returns `true` if the results of the op are the same in every step. Ops that can trap are excluded,
    /// because a trap must fail a step, not the loading of the program. User-defined ops are excluded,
    /// because they may have side effects, and collective ops, because they wait for other ranks.
    fn is_constant(&self, op: &Op) -> bool {
        match op.kind {
            OpKind::Constant { .. } | OpKind::Iota { .. } => true,
            OpKind::RandomBits { .. } | OpKind::Custom(_) | OpKind::Collective { .. } => false,
            _ => {
                !op.operands.is_empty()
                    && op.operands.iter().all(|operand| self.constant[operand.index()])
                    && !self.graph.can_trap(op)
            }
        }
    }

    /// Returns whether a node with the same results in every step is worth storing, or `None` for other
    /// nodes.
    fn once(&self, op: &Op, class: Class) -> Option<Once> {
        if !self.constant[op.results.first()?.index()] {
            return None;
        }
        let light = match &op.kind {
            OpKind::Unary(op) => op.cost_class() == CostClass::Simple,
            OpKind::Binary(op) if op.cost_class() > CostClass::Simple => false,
            _ => matches!(class, Class::Map | Class::Move),
        };
        let heavy = |operand: &ValueId| {
            let node = self.node_of(self.source(*operand).value);
            node.is_some_and(|node| self.nodes[node].once == Some(Once::Heavy))
        };
        Some(if light && !op.operands.iter().any(heavy) { Once::Light } else { Once::Heavy })
    }

    /// Returns `true` if the node of a value combines elements, as a reduction does, or directly follows a
    /// product, so that one kernel computes both.
    fn is_heavy(&self, value: ValueId) -> bool {
        let class = |value: ValueId| self.node_of[value.index()].map(|node| self.nodes[node].class);
        match class(value) {
            Some(Class::Map | Class::Move) => {
                let op = self.graph.defining_op(value).expect("a node computes it");
                let is_product =
                    |operand: &ValueId| matches!(class(self.source(*operand).value), Some(Class::Dot { .. }));
                op.operands.iter().any(is_product)
            }
            class => class.is_some(),
        }
    }

    fn depth_of_operands(&self, op: &Op) -> usize {
        op.operands.iter().map(|operand| self.available[operand.index()]).max().unwrap_or(0)
    }

    fn class(&self, id: OpId) -> Class {
        let op = &self.graph.ops[id];
        let ty = |value: ValueId| self.graph.ty(value);
        if op.operands.iter().chain(&op.results).any(|&value| ty(value).elements() == 0) {
            return Class::Opaque;
        }
        match &op.kind {
            OpKind::Unary(op) if *op != UnaryOp::Detach => Class::Map,
            OpKind::Binary(binary) if binary.divides_integers(ty(op.results[0]).dtype) => Class::Opaque,
            OpKind::Binary(_) | OpKind::Compare(_) | OpKind::Select | OpKind::Cast { .. } => Class::Map,
            OpKind::Reshape { .. } => Class::Move,
            OpKind::Reduce { op: reduce, axes } => reduction(*reduce, axes, &ty(op.operands[0]).shape),
            OpKind::Gather { batch } => self.pick(*batch, &op.operands).unwrap_or(Class::Opaque),
            OpKind::Scatter { op, .. } if op.is_distinct() => Class::Opaque,
            OpKind::Scatter { batch, .. } => self.put(*batch, &op.operands).unwrap_or(Class::Opaque),
            OpKind::Dot(axes) => {
                let columns = dot_columns(axes, &ty(op.operands[1]).shape);
                Class::Dot { rows: ty(op.results[0]).elements() / columns, columns }
            }
            _ => Class::Opaque,
        }
    }

    /// Returns the class of a gather if it selects one element of each row of a value computed by a fused
    /// kernel, or `None`.
    fn pick(&self, batch: usize, operands: &[ValueId]) -> Option<Class> {
        let (x, index) = (&self.graph.ty(operands[0]).shape, &self.graph.ty(operands[1]).shape);
        // The fused gather is a sum over the row, which requires 4-byte elements.
        let computed =
            self.is_computed_in_place(operands[0]) && self.graph.ty(operands[0]).dtype.bytes() == 4;
        (x.rank() == batch + 1 && index.rank() == batch && computed)
            .then(|| Class::Pick { rows: index.elements(), columns: x[batch] })
            .filter(has_numbered_columns)
    }

    /// Returns the class of a scatter if it updates one element of each row, or `None`.
    fn put(&self, batch: usize, operands: &[ValueId]) -> Option<Class> {
        let (x, index) = (&self.graph.ty(operands[0]).shape, &self.graph.ty(operands[1]).shape);
        let known = self.splat(operands[0]).is_some() || self.is_computed_in_place(operands[0]);
        (x.rank() == batch + 1 && index.rank() == batch && known)
            .then(|| Class::Put { rows: index.elements(), columns: x[batch] })
            .filter(has_numbered_columns)
    }

    /// Returns `true` if a fused kernel computes the operand in the order in which it is used.
    fn is_computed_in_place(&self, operand: ValueId) -> bool {
        let source = self.source(operand);
        let map = self.node_of[source.value.index()].map(|node| self.nodes[node].class);
        matches!(map, Some(Class::Map | Class::Put { .. })) && self.link(source) == Link::Same
    }

    /// Returns the source of a value, which is the value itself unless it is a view.
    pub(super) fn source(&self, value: ValueId) -> &ViewSource {
        self.sources[value.index()].as_ref().expect("operands come before their users")
    }

    fn link(&self, source: &ViewSource) -> Link {
        Link::of(&source.layout, self.elements(source.value))
    }

    /// Returns the number of elements of a value in kernels, where an i64 is two words.
    pub(super) fn elements(&self, value: ValueId) -> usize {
        let ty = self.graph.ty(value);
        ty.elements() * if ty.dtype == DType::I64 { 2 } else { 1 }
    }

    /// Returns the node that computes a value, or `None` for leaves.
    pub(super) fn node_of(&self, value: ValueId) -> Option<usize> {
        self.node_of[value.index()]
    }

    pub(super) fn op(&self, node: usize) -> &'g Op {
        &self.graph.ops[self.nodes[node].op]
    }

    pub(super) fn uses_of_value(&self, value: ValueId) -> &[Use] {
        &self.uses[value.index()]
    }

    /// Returns all uses of a node's results.
    pub(super) fn uses(&self, node: usize) -> impl Iterator<Item = &Use> {
        self.op(node).results.iter().flat_map(|result| &self.uses[result.index()])
    }

    /// Returns the number of bytes to read for a leaf.
    pub(super) fn leaf_bytes(&self, value: ValueId) -> u64 {
        let ty = self.graph.ty(value);
        match self.graph.defining_op(value).map(|op| &op.kind) {
            // Memory holds only the numbers along the counted axis.
            Some(OpKind::Iota { axis, .. }) => (ty.shape[*axis] * ty.dtype.bytes()) as u64,
            _ => ty.bytes(),
        }
    }

    /// Returns the value of a splat constant, or `None` for other values.
    pub(super) fn splat(&self, value: ValueId) -> Option<Number> {
        let source = self.source(value).value;
        match &self.graph.defining_op(source)?.kind {
            OpKind::Constant { data: Literal::Splat(number), .. } => Some(*number),
            _ => None,
        }
    }
}

/// Returns, for each permuted result of attention, its permutation, or `None` if it is permuted in several
/// ways. Attention can write its result in the permuted order directly. The permutation usually makes heads
/// adjacent again.
fn wanted_orders(graph: &Graph) -> IdMap<ValueId, Option<Vec<usize>>> {
    let mut orders: IdMap<ValueId, Option<Vec<usize>>> = IdMap::new();
    for (_, op) in graph.entry_ops() {
        let OpKind::Permute { perm } = &op.kind else { continue };
        let value = op.operands[0];
        let attention = graph
            .defining_op(value)
            .is_some_and(|op| matches!(op.kind, OpKind::Attention(_) | OpKind::AttentionGrad(_)));
        // Ignore permutations that would break up the contiguous rows.
        if attention && perm.len() == 4 && perm[3] == 3 {
            let known = orders.get_or_insert_with(value, || Some(perm.clone()));
            if known.as_ref() != Some(perm) {
                *known = None;
            }
        }
    }
    orders
}

/// Returns the layout of a value that is contiguous after a permutation of its axes.
fn ordered(shape: &Shape, perm: &[usize]) -> Layout {
    let permuted: Vec<usize> = perm.iter().map(|&axis| shape[axis]).collect();
    Layout::contiguous(&permuted.into()).permute(&inverse_permutation(perm))
}

/// Returns the class of an op without fusion, where each op is a separate kernel.
fn unfused(kind: &OpKind) -> Class {
    match kind {
        OpKind::Reshape { .. } => Class::Move,
        _ => Class::Opaque,
    }
}

/// Returns the class of a reduction. A reduction over leading or trailing axes, ignoring axes of extent 1,
/// can be fused; a reduction over axes in the middle is a separate kernel.
fn reduction(op: ReduceOp, axes: &[usize], shape: &Shape) -> Class {
    /// Maximum number of elements that one thread reduces if there is only one row.
    const LONG: usize = 16 * 1024;
    let reduced: usize = axes.iter().map(|&axis| shape[axis]).product();
    let kept = shape.elements() / reduced;
    let of: Vec<bool> =
        (0..shape.rank()).filter(|&axis| shape[axis] != 1).map(|axis| axes.contains(&axis)).collect();
    let (leading, trailing) = (of.is_sorted_by(|a, b| a >= b), of.is_sorted());
    // A long reduction to one number is split among threads; see `Store::ColumnReduce`.
    let long = reduced > LONG && op.splits();
    match (leading, trailing) {
        (true, true) if long && kept == 1 => Class::ReduceRows { rows: reduced, columns: 1 },
        (_, true) => Class::ReduceColumns { rows: kept, columns: reduced },
        (true, false) => Class::ReduceRows { rows: reduced, columns: kept },
        (false, false) => Class::Opaque,
    }
}

/// Returns `true` if i32 can represent the column indices, as
/// [`NodeKind::Column`](crate::kernel::NodeKind::Column) requires.
fn has_numbered_columns(class: &Class) -> bool {
    class.split().is_some_and(|(_, columns)| i32::try_from(columns).is_ok())
}

/// Returns the number of columns of the product, which is the number of free elements of the right operand.
fn dot_columns(axes: &DotAxes, rhs: &Shape) -> usize {
    DotAxes::free(rhs.rank(), &axes.rhs_batch, &axes.rhs_contract).iter().map(|&axis| rhs[axis]).product()
}

/// Returns, for each op by id, whether only updates need it. Ops that can trap are always needed by the step
/// itself.
fn commit_only(graph: &Graph) -> Vec<bool> {
    let mut late = vec![true; graph.ops.len()];
    let mut stack: Vec<ValueId> = graph.outputs.iter().map(|o| o.value).collect();
    stack.extend(graph.guards.iter().map(|g| g.value));
    stack.extend(graph.updates.iter().flat_map(|u| u.region.iter().flatten().copied()));
    for (_, op) in graph.entry_ops().filter(|(_, op)| graph.can_trap(op)) {
        stack.extend(&op.results);
    }
    while let Some(value) = stack.pop() {
        if let Definition::Result(id, _) = graph.values[value].definition
            && std::mem::replace(&mut late[id.index()], false)
        {
            stack.extend(&graph.ops[id].operands);
        }
    }
    late
}
