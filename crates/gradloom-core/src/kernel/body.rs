//! The expression of a fused kernel over `rows x columns` positions, for no target in particular.
//!
//! Positions are numbered row by row. A node has one element for each position, for each row, or one in total
//! ([`Level`]); a node of a higher level may use nodes of lower ones, whose elements are then repeated. Views
//! are not nodes: they are the [`Layout`](super::Layout)s of the operands. A target splits a body by rows,
//! or, without reductions, by any rectangle of positions.
//!
//! Always holds (checked by [`Body::check`]): operands of a node precede it, and levels and dtypes agree.

use crate::decimal::Decimal;
use crate::ir::{BinaryOp, CompareOp, DType, Number, ReduceOp, UnaryOp};
use std::fmt;

/// The level of a node: it decides how many elements the node has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// One element.
    Uniform,
    /// One element for each row.
    Row,
    /// One element for each position.
    Element,
}

impl Level {
    /// All levels, from the fewest elements to the most.
    pub const ALL: [Level; 3] = [Level::Uniform, Level::Row, Level::Element];
}

/// Index of a node in [`Body::nodes`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u32);

impl NodeId {
    /// Returns the id of the node at a position; bodies have far fewer than 2^32.
    pub fn new(position: usize) -> Self {
        Self(u32::try_from(position).expect("a body has fewer than 2^32 nodes"))
    }

    /// Returns the position in [`Body::nodes`].
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
    /// A number; uniform.
    Constant(Number),
    /// The launch's operand of this index. Its layout has as many elements as the node, in the order of the
    /// positions.
    Load(usize),
    /// Number of the column, from 0; i32, level `Element`.
    Column,
    /// Elements of the matrix product that the body follows; f32, one for each position. Only in the epilogue
    /// of a product, or of [attention](super::Kernel::Attention).
    Accumulator,
    /// A function of one node; not `Detach`.
    Unary(UnaryOp, NodeId),
    /// A function of two nodes of one dtype. Integer division and remainder, which trap, are never fused.
    Binary(BinaryOp, [NodeId; 2]),
    /// A comparison of two nodes of one dtype; bool.
    Compare(CompareOp, [NodeId; 2]),
    /// (condition, where true, where false).
    Select([NodeId; 3]),
    /// Conversion to the node's dtype.
    Cast(NodeId),
    /// The node itself, an i32; an element outside `0..extent` is an index trap.
    CheckIndex {
        /// The index that is checked.
        index: NodeId,
        /// Number of elements of the indexed axis.
        extent: usize,
    },
    /// The node's elements, repeated up to this node's level.
    Repeat(NodeId),
    /// All elements of each row of a node of level `Element` together; level `Row`. f32 is accumulated in
    /// f32.
    Reduce(ReduceOp, NodeId),
}

impl NodeKind {
    /// Returns the nodes that this one uses.
    pub fn operands(&self) -> &[NodeId] {
        match self {
            NodeKind::Constant(_) | NodeKind::Load(_) | NodeKind::Column | NodeKind::Accumulator => &[],
            NodeKind::Unary(_, a)
            | NodeKind::Cast(a)
            | NodeKind::CheckIndex { index: a, .. }
            | NodeKind::Repeat(a)
            | NodeKind::Reduce(_, a) => std::slice::from_ref(a),
            NodeKind::Binary(_, all) | NodeKind::Compare(_, all) => all,
            NodeKind::Select(all) => all,
        }
    }

    /// Returns the nodes that this one uses, to be renamed.
    pub fn operands_mut(&mut self) -> &mut [NodeId] {
        match self {
            NodeKind::Constant(_) | NodeKind::Load(_) | NodeKind::Column | NodeKind::Accumulator => &mut [],
            NodeKind::Unary(_, a)
            | NodeKind::Cast(a)
            | NodeKind::CheckIndex { index: a, .. }
            | NodeKind::Repeat(a)
            | NodeKind::Reduce(_, a) => std::slice::from_mut(a),
            NodeKind::Binary(_, all) | NodeKind::Compare(_, all) => all,
            NodeKind::Select(all) => all,
        }
    }
}

/// One value of the expression.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Node {
    /// The computation.
    pub kind: NodeKind,
    /// Dtype of its elements.
    pub dtype: DType,
    /// The level, which decides how many elements it has.
    pub level: Level,
}

/// A store of a body: a result in memory.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Store {
    /// The node's elements, repeated up to `level`, in the order of the positions.
    Value {
        /// The node that is written.
        node: NodeId,
        /// The level of the result, at least that of the node.
        level: Level,
        /// Index of the launch's result.
        write: usize,
    },
    /// The elements of each column together: one result for each column, from a node of level `Element`.
    ColumnReduce {
        /// The reduction.
        op: ReduceOp,
        /// The node that is reduced.
        node: NodeId,
        /// Index of the launch's result, of `parts x columns` elements.
        write: usize,
        /// Number of results of each column: 1, or as many as a target cut the rows into, however it likes;
        /// a kernel that follows combines them.
        parts: usize,
    },
}

impl Store {
    /// Returns the node that is stored.
    pub fn node(&self) -> NodeId {
        match *self {
            Store::Value { node, .. } | Store::ColumnReduce { node, .. } => node,
        }
    }

    /// Returns the index of the launch's result.
    pub fn write(&self) -> usize {
        match *self {
            Store::Value { write, .. } | Store::ColumnReduce { write, .. } => write,
        }
    }
}

/// A fused expression.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Body {
    /// Rows; independent of each other, but for [`Store::ColumnReduce`].
    pub rows: usize,
    /// Positions in a row.
    pub columns: usize,
    /// The expression; operands precede users.
    pub nodes: Vec<Node>,
    /// The results in memory, one store for each.
    pub stores: Vec<Store>,
}

impl Body {
    /// Returns the number of elements of a node or store of this level.
    pub fn elements(&self, level: Level) -> usize {
        match level {
            Level::Uniform => 1,
            Level::Row => self.rows,
            // A body that was not planned may have any numbers: the plan's verifier compares them with its
            // operands'.
            Level::Element => self.rows.saturating_mul(self.columns),
        }
    }

    /// Iterates over the ids of all nodes, in order.
    pub fn ids(&self) -> impl Iterator<Item = NodeId> + use<> {
        (0..self.nodes.len()).map(NodeId::new)
    }

    /// Returns the node with this id.
    pub fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.index()]
    }

    /// Returns, for each node, the number of reductions that come before it, one after the other.
    pub fn reduction_depths(&self) -> Vec<usize> {
        let mut depths: Vec<usize> = Vec::with_capacity(self.nodes.len());
        for node in &self.nodes {
            let before = node.kind.operands().iter().map(|operand| depths[operand.index()]).max();
            let own = usize::from(matches!(node.kind, NodeKind::Reduce(..)));
            depths.push(before.unwrap_or(0) + own);
        }
        depths
    }

    /// Returns whether rows must stay whole.
    pub fn has_row_reductions(&self) -> bool {
        self.nodes.iter().any(|node| matches!(node.kind, NodeKind::Reduce(..)))
    }

    /// Returns whether the body combines the elements of columns.
    pub fn has_column_reductions(&self) -> bool {
        self.stores.iter().any(|store| matches!(store, Store::ColumnReduce { .. }))
    }

    /// Returns whether running the body can trap.
    pub fn can_trap(&self) -> bool {
        self.nodes.iter().any(|node| matches!(node.kind, NodeKind::CheckIndex { .. }))
    }

    /// Returns the kind in plans and profiles: `map`, `row`, `reduce`.
    pub fn name(&self) -> &'static str {
        let stores_elements =
            self.stores.iter().any(|store| matches!(store, Store::Value { level: Level::Element, .. }));
        match (self.has_row_reductions(), stores_elements, self.has_column_reductions()) {
            (true, true, _) => "row",
            (true, false, _) | (false, _, true) => "reduce",
            (false, _, false) => "map",
        }
    }

    /// Checks what the module's comment promises.
    ///
    /// # Errors
    /// A description of the problem, for the verifier's message.
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
                // Of rows, attention has a number each.
                matches!(node.level, Level::Element | Level::Row) && node.dtype == DType::F32
            }
            NodeKind::Unary(op, a) => *op != UnaryOp::Detach && of(*a).dtype == node.dtype,
            NodeKind::Binary(op, all) => {
                let traps = matches!(op, BinaryOp::Div | BinaryOp::Rem) && node.dtype.is_integer();
                same(all) && of(all[0]).dtype == node.dtype && !traps
            }
            NodeKind::Compare(_, all) => same(all) && node.dtype == DType::Bool,
            NodeKind::Select([condition, a, b]) => {
                of(*condition).dtype == DType::Bool && same(&[*a, *b]) && of(*a).dtype == node.dtype
            }
            NodeKind::Cast(_) => true,
            NodeKind::CheckIndex { index, .. } => of(*index).dtype == DType::I32 && node.dtype == DType::I32,
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
        // They are words in memory.
        if right && level && node.dtype != DType::I64 {
            Ok(())
        } else {
            Err(format!("{name} ({:?}) does not fit its operands", node.kind))
        }
    }
}

/// One line a node and a store.
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
