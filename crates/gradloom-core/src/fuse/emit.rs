//! Converts clusters to kernels, with expressions over operands in memory and stored results.
//!
//! Invariant: a body computes its stores from its loads alone, and recomputes the values that other clusters
//! did not store.

use super::KernelSpec;
use super::clusters::{Cluster, Clusters, Shape};
use super::domain::Domain;
use super::facts::{Class, Facts, ViewSource};
use super::link::{Link, row_layout};
use super::single;
use super::stored::lines_up;
use crate::collections::SortedMap;
use crate::ir::{BinaryOp, CompareOp, DType, Id, Number, OpKind, ReduceOp, ScatterOp, ValueId};
use crate::kernel::{Access, Body, Kernel, Layout, Level, Lowered, Node, NodeId, NodeKind, Store};

/// Returns the kernels in a valid execution order.
pub(super) fn emit(clusters: &Clusters<'_, '_>, stored: &[bool], memory: &mut Lowered) -> Vec<KernelSpec> {
    let mut kernels = Vec::new();
    for cluster in clusters.in_order() {
        let cluster = clusters.get(cluster);
        match cluster.shape {
            Shape::Opaque => kernels.push(alone(clusters.facts, cluster.nodes[0], memory)),
            Shape::Loop | Shape::Dot(_) => kernels.extend(fused(clusters.facts, cluster, stored, memory)),
        }
    }
    kernels
}

/// Returns the access to a view's elements in the memory of its source value.
pub(super) fn access(source: &ViewSource, memory: &Lowered) -> Access {
    let Access { buffer, dtype, .. } = memory.access[&source.value];
    Access { buffer, dtype, layout: source.layout.clone(), blocks: None }
}

/// Returns the kernel of an op that is not fused.
fn alone(facts: &Facts<'_>, node: usize, memory: &mut Lowered) -> KernelSpec {
    let op = facts.op(node);
    let mut reads: Vec<Access> =
        op.operands.iter().map(|&operand| access(facts.source(operand), memory)).collect();
    let writes = op.results.iter().map(|&result| own(facts, result, memory)).collect();
    let kernel = single(&op.kind, &mut reads, facts.graph.ty(op.results[0]).dtype);
    KernelSpec {
        op: facts.nodes[node].op,
        kernel,
        reads,
        writes,
        commit: facts.nodes[node].commit,
        once: facts.nodes[node].once.is_some(),
    }
}

fn own(facts: &Facts<'_>, value: ValueId, memory: &mut Lowered) -> Access {
    let ty = facts.graph.ty(value);
    memory.own(value, ty.clone(), facts.source(value).layout.clone())
}

/// Returns the kernel of a loop or a product, or `None` if none of its results are stored.
fn fused(facts: &Facts<'_>, cluster: &Cluster, stored: &[bool], memory: &mut Lowered) -> Option<KernelSpec> {
    let left: Vec<usize> =
        cluster.nodes.iter().copied().filter(|&node| stored[facts.op(node).results[0].index()]).collect();
    let &first = left.first()?;
    let product = match cluster.shape {
        Shape::Dot(node) => Some(node),
        _ => None,
    };
    if let ([only], Some(product)) = (&left[..], product)
        && *only == product
    {
        return Some(alone(facts, product, memory));
    }
    let (rows, columns) = cluster.domain.split.unwrap_or_else(|| natural_split(facts, first, cluster.domain));
    let mut builder = Builder {
        facts,
        cluster,
        stored,
        memory,
        body: Body { rows, columns, nodes: Vec::new(), stores: Vec::new() },
        reads: Vec::new(),
        known: SortedMap::new(),
        loads: Vec::new(),
        numbers: Vec::new(),
    };
    let mut op = facts.nodes[first].op;
    if let Some(product) = product {
        let dot = facts.op(product);
        builder.reads =
            dot.operands.iter().map(|&operand| access(facts.source(operand), builder.memory)).collect();
        op = facts.nodes[product].op;
    }
    for (write, &node) in left.iter().enumerate() {
        let store = builder.store(node, write);
        builder.body.stores.push(store);
    }
    // Report traps at the op that has the index.
    if let Some(&node) = cluster
        .nodes
        .iter()
        .find(|&&n| matches!(facts.nodes[n].class, Class::Pick { .. } | Class::Put { .. }))
    {
        op = facts.nodes[node].op;
    }
    let (mut body, reads) = (builder.body, builder.reads);
    if product.is_none() && cluster.domain.split.is_none() {
        in_one_row(&mut body, &reads);
    }
    let writes = left.iter().map(|&node| own(facts, facts.op(node).results[0], memory)).collect();
    let kernel = match product.map(|node| &facts.op(node).kind) {
        Some(OpKind::Dot(axes)) => Kernel::Dot { axes: axes.clone(), epilogue: body },
        _ => Kernel::Loop(body),
    };
    Some(KernelSpec { op, kernel, reads, writes, commit: cluster.commit, once: cluster.once })
}

/// Converts a map to a single row if its loads are contiguous or uniform, and no node is row-wise.
fn in_one_row(body: &mut Body, reads: &[Access]) {
    let straight = body.nodes.iter().all(|node| match node.kind {
        NodeKind::Load(read) => node.level == Level::Uniform || reads[read].layout.is_contiguous(),
        _ => true,
    });
    if straight && body.nodes.iter().all(|node| node.level != Level::Row) {
        (body.rows, body.columns) = (1, body.rows * body.columns);
    }
}

/// Returns the rows and columns of a map without a required division: rows along the last axis, if it is long
/// enough.
fn natural_split(facts: &Facts<'_>, node: usize, domain: Domain) -> (usize, usize) {
    const SHORT: usize = 16;
    let shape = &facts.graph.ty(facts.op(node).results[0]).shape;
    match shape.last() {
        Some(&last) if last >= SHORT && domain.elements.is_multiple_of(last) => {
            (domain.elements / last, last)
        }
        _ => (1, domain.elements),
    }
}

enum OperandSource<'a> {
    Number(Number, DType),
    /// A value computed in this kernel.
    Computed(ValueId),
    /// Elements in memory, with their dtype.
    Read(&'a ViewSource, DType),
}

struct Builder<'a, 'g> {
    facts: &'a Facts<'g>,
    cluster: &'a Cluster,
    stored: &'a [bool],
    memory: &'a Lowered,
    body: Body,
    reads: Vec<Access>,
    /// Node of the body that computes each value.
    known: SortedMap<ValueId, NodeId>,
    /// Buffer, layout, level and body node of each load.
    loads: Vec<(ValueId, Layout, Level, NodeId)>,
    numbers: Vec<(Number, DType, NodeId)>,
}

impl<'a> Builder<'a, '_> {
    fn store(&mut self, node: usize, write: usize) -> Store {
        let op = self.facts.op(node);
        let value = op.results[0];
        if let (Class::ReduceRows { .. }, OpKind::Reduce { op: reduce, .. }) =
            (self.facts.nodes[node].class, &op.kind)
        {
            let operand = self.operand(op.operands[0]);
            let operand = self.lifted(operand, Level::Element);
            return Store::ColumnReduce { op: *reduce, node: operand, write, parts: 1 };
        }
        let computed = self.value(value);
        let elements = self.facts.graph.ty(value).elements();
        let level = [Level::Uniform, Level::Row, Level::Element]
            .into_iter()
            .find(|&level| level >= self.body.node(computed).level && self.body.elements(level) == elements)
            .expect("the domain fits its values");
        Store::Value { node: computed, level, write }
    }

    fn push(&mut self, kind: NodeKind, dtype: DType, level: Level) -> NodeId {
        let id = NodeId::new(self.body.nodes.len());
        self.body.nodes.push(Node { kind, dtype, level });
        id
    }

    /// Adds a node at the highest level of its operands.
    fn apply(&mut self, kind: NodeKind, dtype: DType) -> NodeId {
        let level = kind.operands().iter().map(|&n| self.body.node(n).level).max().unwrap_or(Level::Uniform);
        self.push(kind, dtype, level)
    }

    fn lifted(&mut self, node: NodeId, level: Level) -> NodeId {
        let Node { dtype, level: present, .. } = *self.body.node(node);
        if present == level { node } else { self.push(NodeKind::Repeat(node), dtype, level) }
    }

    /// Returns the node that computes a value, after adding the nodes of its operands. Uses an explicit stack
    /// instead of recursion because expressions may be deep.
    fn value(&mut self, value: ValueId) -> NodeId {
        let mut pending: Vec<(ValueId, Vec<NodeId>)> = vec![(value, Vec::new())];
        while let Some((value, operands)) = pending.last_mut() {
            let op = self.facts.op(self.facts.node_of(*value).expect("leaves are loaded"));
            let position = operands.len();
            let next = match op.kind {
                _ if self.known.contains_key(value) => None,
                // The product reads its operands itself, so the body has no nodes for them.
                OpKind::Dot(_) => None,
                OpKind::Scatter { .. } => [0, 2, 1].get(position).map(|&i| op.operands[i]),
                _ => op.operands.get(position).copied(),
            };
            match next.map(|operand| self.operand_source(operand)) {
                Some(OperandSource::Computed(value)) if !self.known.contains_key(&value) => {
                    pending.push((value, Vec::new()));
                }
                Some(source) => {
                    let node = self.operand_node(source);
                    pending.last_mut().expect("it is looked at").1.push(node);
                }
                None => {
                    let (value, operands) = pending.pop().expect("it is looked at");
                    if !self.known.contains_key(&value) {
                        let node = self.computed(value, &operands);
                        self.known.insert(value, node);
                    }
                }
            }
        }
        self.known[&value]
    }

    /// Adds the node that computes a value from the nodes of its operands.
    fn computed(&mut self, value: ValueId, x: &[NodeId]) -> NodeId {
        let number = self.facts.node_of(value).expect("leaves are loaded");
        let kind = &self.facts.op(number).kind;
        let dtype = self.facts.graph.ty(value).dtype;
        match (kind, self.facts.nodes[number].class) {
            (OpKind::Dot(_), _) => self.push(NodeKind::Accumulator, DType::F32, Level::Element),
            (OpKind::Gather { .. }, Class::Pick { columns, .. }) => {
                let here = self.is_index(x[1], columns);
                let zero = self.number(Number::of(dtype, 0.0), dtype);
                let one = self.apply(NodeKind::Select([here, x[0], zero]), dtype);
                self.push(NodeKind::Reduce(ReduceOp::Sum, one), dtype, Level::Row)
            }
            (OpKind::Scatter { op, .. }, Class::Put { columns, .. }) => {
                let here = self.is_index(x[2], columns);
                let put = match op {
                    ScatterOp::Add => self.apply(NodeKind::Binary(BinaryOp::Add, [x[0], x[1]]), dtype),
                    ScatterOp::Set | ScatterOp::Distinct => x[1],
                };
                self.apply(NodeKind::Select([here, put, x[0]]), dtype)
            }
            (OpKind::Reduce { op: reduce, .. }, _) => {
                let x = self.lifted(x[0], Level::Element);
                self.push(NodeKind::Reduce(*reduce, x), dtype, Level::Row)
            }
            (OpKind::Reshape { .. }, _) => x[0],
            (kind, _) => {
                let kind = match kind {
                    OpKind::Unary(op) => NodeKind::Unary(*op, x[0]),
                    OpKind::Binary(op) => NodeKind::Binary(*op, [x[0], x[1]]),
                    OpKind::Compare(op) => NodeKind::Compare(*op, [x[0], x[1]]),
                    OpKind::Select => NodeKind::Select([x[0], x[1], x[2]]),
                    OpKind::Cast { .. } => NodeKind::Cast(x[0]),
                    other => unreachable!("{} is not fused", other.name()),
                };
                self.apply(kind, dtype)
            }
        }
    }

    /// Adds a check of the row's index, and returns a node that is true in the indexed column.
    fn is_index(&mut self, index: NodeId, columns: usize) -> NodeId {
        let index = self.apply(NodeKind::CheckIndex { index, extent: columns }, DType::I32);
        let column = self.push(NodeKind::Column, DType::I32, Level::Element);
        self.apply(NodeKind::Compare(CompareOp::Eq, [column, index]), DType::Bool)
    }

    fn number(&mut self, number: Number, dtype: DType) -> NodeId {
        let same = |known: &&(Number, DType, NodeId)| (known.0, known.1) == (number, dtype);
        if let Some(&(.., known)) = self.numbers.iter().find(same) {
            return known;
        }
        let node = self.push(NodeKind::Constant(number), dtype, Level::Uniform);
        self.numbers.push((number, dtype, node));
        node
    }

    fn operand(&mut self, operand: ValueId) -> NodeId {
        let source = self.operand_source(operand);
        self.operand_node(source)
    }

    fn operand_node(&mut self, source: OperandSource<'_>) -> NodeId {
        match source {
            OperandSource::Number(number, dtype) => self.number(number, dtype),
            OperandSource::Computed(value) => match self.known.get(&value) {
                Some(&known) => known,
                None => self.value(value),
            },
            OperandSource::Read(source, dtype) => self.load(source, dtype),
        }
    }

    /// Returns the source of an operand: a constant, a computation in this body, or memory.
    fn operand_source(&self, operand: ValueId) -> OperandSource<'a> {
        let source = self.facts.source(operand);
        let ty = self.facts.graph.ty(source.value);
        if let Some(number) = self.facts.splat(operand) {
            return OperandSource::Number(number, ty.dtype);
        }
        if let Some(producer) = self.facts.node_of(source.value) {
            let here = self.cluster.nodes.binary_search(&producer).is_ok();
            let link = Link::of(&source.layout, ty.elements());
            if (here || !self.stored[source.value.index()])
                && lines_up(self.facts, source.value, link, self.domain())
            {
                return OperandSource::Computed(source.value);
            }
            assert!(self.stored[source.value.index()], "fusion forgot to store {}", source.value);
        }
        OperandSource::Read(source, self.memory.access[&source.value].dtype)
    }

    fn domain(&self) -> Domain {
        Domain {
            elements: self.body.rows * self.body.columns,
            split: Some((self.body.rows, self.body.columns)),
        }
    }

    fn load(&mut self, source: &ViewSource, dtype: DType) -> NodeId {
        let Access { buffer, layout, .. } = access(source, self.memory);
        let (level, layout) = self.level_of(layout);
        let same = |known: &&(ValueId, Layout, Level, NodeId)| {
            (known.0, known.2) == (buffer, level) && known.1 == layout
        };
        if let Some(&(.., known)) = self.loads.iter().find(same) {
            return known;
        }
        let node = self.push(NodeKind::Load(self.reads.len()), dtype, level);
        self.reads.push(Access { buffer, dtype, layout: layout.clone(), blocks: None });
        self.loads.push((buffer, layout, level, node));
        node
    }

    /// Returns the lowest level at which an operand can be read, and its layout at that level.
    fn level_of(&self, layout: Layout) -> (Level, Layout) {
        let elements = layout.shape.elements();
        let whole = self.body.rows * self.body.columns;
        if whole > 1 && layout.collapsed().iter().all(|&(_, stride)| stride == 0) {
            let one =
                Layout { offset: layout.offset, shape: crate::ir::Shape::scalar(), strides: Vec::new() };
            return (Level::Uniform, one);
        }
        if elements != whole {
            return (Level::Row, layout);
        }
        match row_layout(&layout, self.body.columns) {
            Some(rows) if self.body.columns > 1 => (Level::Row, rows),
            _ => (Level::Element, layout),
        }
    }
}
