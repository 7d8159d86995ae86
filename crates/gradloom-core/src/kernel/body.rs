//! The target-independent expression of a fused kernel over `rows x columns` positions.
//!
//! Positions are numbered row by row. A node has one element per position, one per row, or one in total
//! ([`Level`]). A node of a higher level may use nodes of lower levels, whose elements are then repeated.
//! Views are not nodes but the [`Layout`](super::Layout)s of the operands. A target splits a body by rows or,
//! without reductions, into arbitrary rectangles of positions.
//!
//! Invariants, checked by [`Body::check`]: the operands of a node precede it, and levels and dtypes agree.

use crate::decimal::Decimal;
use crate::ir::{BinaryOp, CompareOp, DType, Number, ReduceOp, UnaryOp};
use std::fmt;

/// The level of a node, which determines its number of elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// One element.
    Uniform,
    /// One element per row.
    Row,
    /// One element per position.
    Element,
}

impl Level {
    /// All levels, in ascending order of their number of elements.
    pub const ALL: [Level; 3] = [Level::Uniform, Level::Row, Level::Element];
}

/// An index into [`Body::nodes`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u32);

impl NodeId {
    /// Returns the id of the node at an index.
    ///
    /// # Panics
    /// Panics if the index does not fit into 32 bits.
    pub fn new(position: usize) -> Self {
        Self(u32::try_from(position).expect("a body has fewer than 2^32 nodes"))
    }

    /// Returns the index in [`Body::nodes`].
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "t{}", self.0)
    }
}

/// The computation of a node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum NodeKind {
    /// A constant of level `Uniform`.
    Constant(Number),
    /// The launch's read with this index. Its layout has the same number of elements as the node, in the
    /// order of the positions.
    Load(usize),
    /// The column index, from 0, as i32 of level `Element`.
    Column,
    /// The f32 elements of the preceding matrix product, one per position, or of the log-sum-exp of
    /// attention, one per row. Occurs only in the epilogue of a product or of
    /// [attention](super::Kernel::Attention).
    Accumulator,
    /// A function of one node, except `Detach`.
    Unary(UnaryOp, NodeId),
    /// A function of two nodes of the same dtype. The divisor of an integer division or remainder is a
    /// [`NodeKind::CheckDivisor`].
    Binary(BinaryOp, [NodeId; 2]),
    /// A comparison of two nodes of the same dtype, as bool.
    Compare(CompareOp, [NodeId; 2]),
    /// A selection between two nodes: (condition, node where true, node where false).
    Select([NodeId; 3]),
    /// A conversion to the node's dtype.
    Cast(NodeId),
    /// The elements of an i32 node, unchanged. An element outside `0..extent` is an index trap.
    CheckIndex {
        /// The checked index.
        index: NodeId,
        /// Extent of the indexed axis.
        extent: usize,
    },
    /// The elements of an integer node, unchanged. An element of 0 is a trap.
    CheckDivisor(NodeId),
    /// The operand's elements, repeated up to this node's level.
    Repeat(NodeId),
    /// The reduction of each row of a node of level `Element`, at level `Row`. f32 elements are accumulated
    /// in f32.
    Reduce(ReduceOp, NodeId),
}

impl NodeKind {
    /// Returns the operands of this node.
    pub fn operands(&self) -> &[NodeId] {
        match self {
            NodeKind::Constant(_) | NodeKind::Load(_) | NodeKind::Column | NodeKind::Accumulator => &[],
            NodeKind::Unary(_, a)
            | NodeKind::Cast(a)
            | NodeKind::CheckIndex { index: a, .. }
            | NodeKind::CheckDivisor(a)
            | NodeKind::Repeat(a)
            | NodeKind::Reduce(_, a) => std::slice::from_ref(a),
            NodeKind::Binary(_, all) | NodeKind::Compare(_, all) => all,
            NodeKind::Select(all) => all,
        }
    }

    /// Returns the operands of this node for renumbering.
    pub fn operands_mut(&mut self) -> &mut [NodeId] {
        match self {
            NodeKind::Constant(_) | NodeKind::Load(_) | NodeKind::Column | NodeKind::Accumulator => &mut [],
            NodeKind::Unary(_, a)
            | NodeKind::Cast(a)
            | NodeKind::CheckIndex { index: a, .. }
            | NodeKind::CheckDivisor(a)
            | NodeKind::Repeat(a)
            | NodeKind::Reduce(_, a) => std::slice::from_mut(a),
            NodeKind::Binary(_, all) | NodeKind::Compare(_, all) => all,
            NodeKind::Select(all) => all,
        }
    }

    /// Returns `true` if the node is a check, which traps on some elements and otherwise equals its operand.
    pub fn is_check(&self) -> bool {
        matches!(self, NodeKind::CheckIndex { .. } | NodeKind::CheckDivisor(_))
    }
}

/// A value of the expression.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Node {
    /// Computation of the node.
    pub kind: NodeKind,
    /// Dtype of the node's elements.
    pub dtype: DType,
    /// Level of the node, which determines its number of elements.
    pub level: Level,
}

/// A store of a body's result to memory.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Store {
    /// Stores the node's elements, repeated up to `level`, in the order of the positions.
    Value {
        /// The stored node.
        node: NodeId,
        /// Level of the result, at least that of the node.
        level: Level,
        /// Index of the launch's write.
        write: usize,
    },
    /// Stores the reduction of each column of a node of level `Element`.
    ColumnReduce {
        /// Reduction to apply.
        op: ReduceOp,
        /// The reduced node.
        node: NodeId,
        /// Index of the launch's write, which has `parts x columns` elements.
        write: usize,
        /// Number of partial results per column: 1, or the number of parts into which a target splits the
        /// rows. A subsequent kernel combines the partial results.
        parts: usize,
    },
}

impl Store {
    /// Returns the stored node.
    pub fn node(&self) -> NodeId {
        match *self {
            Store::Value { node, .. } | Store::ColumnReduce { node, .. } => node,
        }
    }

    /// Returns the index of the launch's write.
    pub fn write(&self) -> usize {
        match *self {
            Store::Value { write, .. } | Store::ColumnReduce { write, .. } => write,
        }
    }
}

/// A fused expression.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Body {
    /// Number of rows. Rows are independent of each other except for [`Store::ColumnReduce`].
    pub rows: usize,
    /// Number of positions in a row.
    pub columns: usize,
    /// Nodes of the expression. Operands precede their users.
    pub nodes: Vec<Node>,
    /// Stores of the results, one per result.
    pub stores: Vec<Store>,
}

impl Body {
    /// Returns the number of elements of a node or store at this level.
    pub fn elements(&self, level: Level) -> usize {
        match level {
            Level::Uniform => 1,
            Level::Row => self.rows,
            // Saturate, because an unplanned body may have arbitrary extents, which the plan's verifier
            // compares with those of its operands.
            Level::Element => self.rows.saturating_mul(self.columns),
        }
    }

    /// Iterates over the ids of all nodes in order.
    pub fn ids(&self) -> impl Iterator<Item = NodeId> + use<> {
        (0..self.nodes.len()).map(NodeId::new)
    }

    /// Returns the node with this id.
    pub fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.index()]
    }

    /// Returns, for each node, the length of the longest chain of reductions up to and including it.
    pub fn reduction_depths(&self) -> Vec<usize> {
        let mut depths: Vec<usize> = Vec::with_capacity(self.nodes.len());
        for node in &self.nodes {
            let before = node.kind.operands().iter().map(|operand| depths[operand.index()]).max();
            let own = usize::from(matches!(node.kind, NodeKind::Reduce(..)));
            depths.push(before.unwrap_or(0) + own);
        }
        depths
    }

    /// Returns `true` if the body reduces along rows, in which case rows must not be split.
    pub fn has_row_reductions(&self) -> bool {
        self.nodes.iter().any(|node| matches!(node.kind, NodeKind::Reduce(..)))
    }

    /// Returns `true` if the body reduces along columns.
    pub fn has_column_reductions(&self) -> bool {
        self.stores.iter().any(|store| matches!(store, Store::ColumnReduce { .. }))
    }

    /// Returns `true` if the body can trap.
    pub fn can_trap(&self) -> bool {
        self.nodes.iter().any(|node| node.kind.is_check())
    }

    /// Returns the kind in plans and profiles: `map`, `row` or `reduce`.
    pub fn name(&self) -> &'static str {
        let stores_elements =
            self.stores.iter().any(|store| matches!(store, Store::Value { level: Level::Element, .. }));
        match (self.has_row_reductions(), stores_elements, self.has_column_reductions()) {
            (true, true, _) => "row",
            (true, false, _) | (false, _, true) => "reduce",
            (false, _, false) => "map",
        }
    }

    /// Checks the invariants in the module documentation.
    ///
    /// # Errors
    /// Returns a description of the violation, for the verifier's message.
    pub fn check(&self) -> Result<(), String> {
        for (i, node) in self.nodes.iter().enumerate() {
            self.check_node(i, node)?;
        }
        for store in &self.stores {
            let node = self.nodes.get(store.node().index()).ok_or("a store of a node that is not there")?;
            let fits = match store {
                Store::Value { level, .. } => node.level <= *level,
                Store::ColumnReduce { parts, .. } => {
                    node.level == Level::Element && node.dtype != DType::Bool && *parts > 0
                }
            };
            if !fits {
                return Err(format!("{} is stored at the wrong level", store.node()));
            }
        }
        Ok(())
    }

    fn check_node(&self, i: usize, node: &Node) -> Result<(), String> {
        let name = NodeId::new(i);
        let operands = node.kind.operands();
        if operands.iter().any(|operand| operand.index() >= i) {
            return Err(format!("{name} uses a node that comes later"));
        }
        let of = |operand: NodeId| &self.nodes[operand.index()];
        let highest = operands.iter().map(|&operand| of(operand).level).max();
        let same = |all: &[NodeId]| all.windows(2).all(|pair| of(pair[0]).dtype == of(pair[1]).dtype);
        let right = match &node.kind {
            NodeKind::Constant(number) => node.level == Level::Uniform && number.fits(node.dtype),
            NodeKind::Load(_) => true,
            NodeKind::Column => node.level == Level::Element && node.dtype == DType::I32,
            NodeKind::Repeat(a) => of(*a).dtype == node.dtype && of(*a).level <= node.level,
            NodeKind::Accumulator => {
                // The accumulator of attention at level `Row` is the log-sum-exp.
                matches!(node.level, Level::Element | Level::Row) && node.dtype == DType::F32
            }
            NodeKind::Unary(op, a) => *op != UnaryOp::Detach && of(*a).dtype == node.dtype,
            NodeKind::Binary(op, all) => {
                let divides = op.divides_integers(node.dtype);
                let is_checked = matches!(of(all[1]).kind, NodeKind::CheckDivisor(_));
                same(all) && of(all[0]).dtype == node.dtype && (!divides || is_checked)
            }
            NodeKind::Compare(_, all) => same(all) && node.dtype == DType::Bool,
            NodeKind::Select([condition, a, b]) => {
                of(*condition).dtype == DType::Bool && same(&[*a, *b]) && of(*a).dtype == node.dtype
            }
            NodeKind::Cast(_) => true,
            NodeKind::CheckIndex { index, .. } => of(*index).dtype == DType::I32 && node.dtype == DType::I32,
            NodeKind::CheckDivisor(a) => node.dtype.is_integer() && of(*a).dtype == node.dtype,
            NodeKind::Reduce(_, a) => {
                let bools = node.dtype == DType::Bool;
                !bools
                    && of(*a).level == Level::Element
                    && of(*a).dtype == node.dtype
                    && node.level == Level::Row
            }
        };
        let level = match (&node.kind, highest) {
            (NodeKind::Reduce(..) | NodeKind::Repeat(_), _) | (_, None) => true,
            (_, Some(highest)) => node.level == highest,
        };
        // Kernels access an i64 as two words, so no node has that dtype.
        if right && level && node.dtype != DType::I64 {
            Ok(())
        } else {
            Err(format!("{name} ({:?}) does not fit its operands", node.kind))
        }
    }
}

/// Prints one line per node and store.
impl fmt::Display for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, node) in self.nodes.iter().enumerate() {
            let level = match node.level {
                Level::Uniform => "uniform",
                Level::Row => "row",
                Level::Element => "element",
            };
            write!(f, "  {} = ", NodeId::new(i))?;
            match &node.kind {
                NodeKind::Constant(number) => write!(f, "{}", Decimal::from(number.as_f64()))?,
                NodeKind::Load(read) => write!(f, "load r{read}")?,
                NodeKind::Column => f.write_str("column")?,
                NodeKind::Repeat(_) => f.write_str("repeat")?,
                NodeKind::Accumulator => f.write_str("accumulator")?,
                NodeKind::Unary(op, _) => f.write_str(op.name())?,
                NodeKind::Binary(op, _) => f.write_str(op.name())?,
                NodeKind::Compare(op, _) => f.write_str(op.name())?,
                NodeKind::Select(_) => f.write_str("select")?,
                NodeKind::Cast(_) => f.write_str("cast")?,
                NodeKind::CheckIndex { extent, .. } => write!(f, "check_index below {extent}")?,
                NodeKind::CheckDivisor(_) => f.write_str("check_divisor")?,
                NodeKind::Reduce(op, _) => {
                    let name = op.name();
                    write!(f, "reduce_{}", name.strip_prefix("reduce_").unwrap_or(name))?;
                }
            }
            for operand in node.kind.operands() {
                write!(f, " {operand}")?;
            }
            writeln!(f, " : {} {level}", node.dtype)?;
        }
        for store in &self.stores {
            match store {
                Store::Value { node, level: _, write } => writeln!(f, "  w{write} = {node}")?,
                Store::ColumnReduce { op, node, write, parts } => {
                    write!(f, "  w{write} = columns {} {node}", op.name())?;
                    if *parts > 1 {
                        write!(f, " in {parts} parts")?;
                    }
                    writeln!(f)?;
                }
            }
        }
        Ok(())
    }
}
