//! Evaluation of fused expressions.
//!
//! In: a [`Body`], and the invocation's position. Out: the values of the requested nodes and of those that
//! they depend on. A node is computed once per scope.

use super::super::ir::{Role, ValueType};
use super::super::{index_at, index_at_row};
use super::{Builder, Value, View, Views};
use crate::narrow::narrow;
use gradloom_core::ir::DType;
use gradloom_core::kernel::{Body, Layout, Level, NodeId, NodeKind, Store};

/// Values of a body's nodes that are already computed at some point of a kernel.
pub(super) struct Nodes<'k, 'b> {
    k: &'k Builder,
    body: &'b Body,
    operands: Operands<'k, 'b>,
    /// Values of the nodes at each of the invocation's positions. Values of level `Row` are stored at the
    /// first position of their row, those of level `Uniform` at the first of all.
    values: Vec<Vec<Option<Value<'k>>>>,
    /// Index of the invocation's current position.
    at: usize,
    /// Index of the first position of the current row.
    row_at: usize,
    /// First position of the current group of four adjacent ones, if positions are processed in groups of
    /// four.
    four: Option<Position<'k>>,
    /// Vectors loaded for groups of four positions, each after the indices of its group and its operand.
    fours: Vec<(usize, usize, Value<'k>)>,
    /// Operand of whose row the workgroup keeps a copy.
    kept: Option<KeptRow>,
    /// Element of the product, if the body is an epilogue.
    product: Option<Value<'k>>,
}

/// Copy of a row of an operand in workgroup memory. Each invocation reads only what it has written.
#[derive(Clone, Copy)]
struct KeptRow {
    /// Number of the operand.
    read: usize,
    /// Array with the row's elements, four per item.
    array: u32,
    /// State of the copy.
    state: Kept,
}

/// State of the copy of a row.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kept {
    /// No pass over the row has read it.
    Empty,
    /// The current pass writes it.
    Written,
    /// It is complete.
    Complete,
}

/// Locations of a body's operands and results.
#[derive(Clone)]
pub(super) enum Operands<'k, 'b> {
    /// Elements at the indices that the layouts of the views determine.
    Views(&'b Views<'b>),
    /// Contiguous elements from these start indices on. Those of the operands precede those of the results. A
    /// uniform operand has a single element.
    Starts(&'b Views<'b>, Vec<Value<'k>>),
}

/// Position of an element that an invocation computes.
#[derive(Clone, Copy)]
pub(super) struct Position<'k> {
    /// Index of the row.
    pub(super) row: Value<'k>,
    /// Index of the column.
    pub(super) column: Value<'k>,
    /// Row-major index of the position, if it is available.
    pub(super) number: Option<Value<'k>>,
    /// Condition under which the invocation owns this position; `None` if it always does. An invocation that
    /// does not own its position may read elements that the owner has already overwritten, so the values that
    /// it computes must have no effect.
    pub(super) owned: Option<Value<'k>>,
}

impl<'k, 'b> Nodes<'k, 'b> {
    pub(super) fn new(k: &'k Builder, body: &'b Body, operands: Operands<'k, 'b>) -> Self {
        let values = vec![vec![None; body.nodes.len()]];
        let (four, fours, kept, product) = (None, Vec::new(), None, None);
        Self { k, body, operands, values, at: 0, row_at: 0, four, fours, kept, product }
    }

    /// Sets the element of the product to which the body is an epilogue.
    pub(super) fn with_product(self, element: Value<'k>) -> Self {
        Self { product: Some(element), ..self }
    }

    /// Keeps a copy of an operand's row in workgroup memory.
    pub(super) fn keep(&mut self, read: usize) {
        let items = narrow(self.body.columns / 4);
        let array = self.k.shared(ValueType::four(self.views().reads[read].dtype), items);
        self.kept = Some(KeptRow { read, array, state: Kept::Empty });
    }

    /// Begins a row whose positions start at index `at`.
    pub(super) fn begin_row(&mut self, at: usize) {
        self.turn_to(at);
        self.row_at = at;
        if let Some(kept) = &mut self.kept {
            kept.state = Kept::Empty;
        }
    }

    /// Ends a pass over a row.
    pub(super) fn end_pass(&mut self) {
        if let Some(kept) = self.kept.as_mut().filter(|kept| kept.state == Kept::Written) {
            kept.state = Kept::Complete;
        }
    }

    /// Selects one of the invocation's positions. Values at all positions are kept until [`Nodes::forget`]
    /// removes them.
    pub(super) fn turn_to(&mut self, position: usize) {
        let count = self.body.nodes.len();
        self.values.resize_with(self.values.len().max(position + 1), || vec![None; count]);
        self.at = position;
    }

    /// Selects one of the invocation's positions in a group of four adjacent ones, which starts at `first`.
    pub(super) fn turn_to_four(&mut self, position: usize, first: Position<'k>) {
        self.turn_to(position);
        self.four = Some(first);
    }

    /// Selects the first position of the row, outside of groups of four.
    pub(super) fn turn_to_single(&mut self) {
        self.turn_to(self.row_at);
        self.four = None;
    }

    fn known(&mut self, id: NodeId) -> &mut Option<Value<'k>> {
        let at = match self.body.node(id).level {
            Level::Uniform => 0,
            Level::Row => self.row_at,
            Level::Element => self.at,
        };
        &mut self.values[at][id.index()]
    }

    /// Sets the value of a node.
    pub(super) fn set(&mut self, id: NodeId, value: Value<'k>) {
        *self.known(id) = Some(value);
    }

    /// Removes the values of all nodes of level `from` and above, before another position is processed.
    pub(super) fn forget(&mut self, from: Level) {
        self.fours.clear();
        for values in &mut self.values {
            for (value, node) in values.iter_mut().zip(&self.body.nodes) {
                if node.level >= from {
                    *value = None;
                }
            }
        }
    }

    /// Returns the value of a node, computing it if necessary.
    ///
    /// # Panics
    /// Panics if the node depends on a reduction whose value was not [set](Self::set).
    pub(super) fn compute(&mut self, id: NodeId, position: Position<'k>) -> Value<'k> {
        if let Some(value) = *self.known(id) {
            return value;
        }
        let node = self.body.node(id);
        let x: Vec<Value<'k>> =
            node.kind.operands().iter().map(|&operand| self.compute(operand, position)).collect();
        let value = match &node.kind {
            NodeKind::Constant(number) => self.k.number(*number, node.dtype),
            NodeKind::Repeat(_) => x[0],
            NodeKind::Load(read) if node.level == Level::Element && self.is_in_fours(*read, false) => {
                self.load_four(*read).component(narrow(self.at % 4))
            }
            NodeKind::Load(read) => {
                let index = self.index(*read, false, node.level, position);
                let dtype = self.views().reads[*read].dtype;
                self.k.load(self.k.buffer(Role::Operand(*read), dtype), index)
            }
            NodeKind::Column => position.column.cast(DType::I32),
            NodeKind::Unary(op, _) => x[0].unary(*op),
            NodeKind::Binary(op, _) => x[0].binary(*op, x[1]),
            NodeKind::Compare(op, _) => x[0].compare(*op, x[1]),
            NodeKind::Select(_) => x[0].select(x[1], x[2]),
            NodeKind::Cast(_) => x[0].converted(node.dtype),
            NodeKind::CheckIndex { extent, .. } => {
                let number = self.number(node.level, position);
                let extent = narrow(*extent);
                match position.owned {
                    None => self.k.report_index(x[0], extent, number),
                    Some(owned) => self.k.when(owned, || self.k.report_index(x[0], extent, number)),
                }
                x[0].clamped(extent)
            }
            NodeKind::CheckDivisor(_) => {
                let number = self.number(node.level, position);
                match position.owned {
                    None => self.k.check_divisor(x[0], number),
                    Some(owned) => self.k.when(owned, || self.k.check_divisor(x[0], number)),
                }
                x[0]
            }
            NodeKind::Accumulator => self.product.expect("the body follows a product"),
            NodeKind::Reduce(..) => {
                panic!("gradloom used a reduction before it was computed; please report this")
            }
        };
        self.set(id, value);
        value
    }

    /// Computes the checks of a level, which no other node may depend on.
    pub(super) fn check(&mut self, level: Level, position: Position<'k>) {
        for id in checks_of(self.body, level) {
            self.compute(id, position);
        }
    }

    /// Computes and stores the results of level `Element` at a position. All of them are computed before the
    /// first is stored, because a result may alias an operand.
    pub(super) fn store_elements(&mut self, position: Position<'k>) {
        self.compute_elements(position);
        for (node, write) in stores_of(self.body, Level::Element) {
            self.store(node, write, Level::Element, position);
        }
    }

    /// Computes the results of level `Element` at a position.
    pub(super) fn compute_elements(&mut self, position: Position<'k>) {
        for (node, _) in stores_of(self.body, Level::Element) {
            self.compute(node, position);
        }
    }

    /// Stores a node at a position.
    pub(super) fn store(&mut self, node: NodeId, write: usize, level: Level, position: Position<'k>) {
        let value = self.compute(node, position);
        let index = self.index(write, true, level, position);
        let dtype = self.views().writes[write].dtype;
        self.k.store(self.k.buffer(Role::Result(write), dtype), index, value);
    }

    /// Returns `true` if an operand or result is accessed in vectors of four elements at the current
    /// position.
    fn is_in_fours(&self, number: usize, is_result: bool) -> bool {
        let views = self.views();
        let list = if is_result { &views.writes } else { &views.reads };
        self.four.is_some() && list[number].has_vectors
    }

    /// Loads a vector of four adjacent elements of an operand, as f32.
    fn load_four(&mut self, read: usize) -> Value<'k> {
        let group = self.at / 4;
        if let Some(&(.., known)) = self.fours.iter().find(|&&(g, r, _)| (g, r) == (group, read)) {
            return known;
        }
        let first = self.four.expect("positions are in fours");
        let index = self.index(read, false, Level::Element, first) / 4;
        let buffer = self.k.buffer(Role::Operand(read), ValueType::four(self.views().reads[read].dtype));
        let kept = self.kept.as_mut().filter(|kept| kept.read == read);
        let vector = match kept {
            Some(kept) if kept.state == Kept::Complete => self.k.element(kept.array, first.column / 4),
            Some(kept) => {
                kept.state = Kept::Written;
                let four = self.k.load(buffer, index);
                self.k.set_element(kept.array, first.column / 4, four);
                four
            }
            None => self.k.load(buffer, index),
        };
        let vector = vector.to_vector();
        self.fours.push((group, read, vector));
        vector
    }

    /// Stores a node at the four positions of a group, the last of which is selected. The node must already
    /// be computed at all four.
    pub(super) fn store_four(&mut self, node: NodeId, write: usize, position: Position<'k>) {
        let first = self.four.expect("positions are in fours");
        let last = self.at;
        let positions = (0..4).map(|i| Position { column: first.column + narrow(i), ..position });
        let positions: Vec<Position<'k>> = match position.number {
            Some(_) => positions
                .zip(0..4)
                .map(|(at, i)| Position { number: first.number.map(|number| number + i), ..at })
                .collect(),
            None => positions.collect(),
        };
        if !self.is_in_fours(write, true) {
            for (i, position) in positions.into_iter().enumerate() {
                self.at = last - 3 + i;
                self.store(node, write, Level::Element, position);
            }
            return;
        }
        let mut values = Vec::new();
        for (i, position) in positions.into_iter().enumerate() {
            self.at = last - 3 + i;
            values.push(self.compute(node, position));
        }
        let dtype = self.views().writes[write].dtype;
        let index = self.index(write, true, Level::Element, first) / 4;
        let vector = self.k.vector(&values);
        let vector = if dtype.is_for_memory() { vector.to_half(dtype) } else { vector };
        self.k.store(self.k.buffer(Role::Result(write), ValueType::four(dtype)), index, vector);
    }

    fn views(&self) -> &'b Views<'b> {
        match self.operands {
            Operands::Views(views) | Operands::Starts(views, _) => views,
        }
    }

    /// Returns the index of the element of an operand or result at a position.
    fn index(&self, number: usize, is_result: bool, level: Level, position: Position<'k>) -> Value<'k> {
        let views = self.views();
        let list: &[View<'_>] = if is_result { &views.writes } else { &views.reads };
        match &self.operands {
            Operands::Views(_) => self.index_in(list[number].layout, level, position),
            Operands::Starts(_, starts) => {
                let start = starts[number + if is_result { views.reads.len() } else { 0 }];
                match level {
                    Level::Uniform => start,
                    Level::Row | Level::Element => start + self.number(level, position),
                }
            }
        }
    }

    fn index_in(&self, layout: &Layout, level: Level, position: Position<'k>) -> Value<'k> {
        let Body { rows, columns, .. } = *self.body;
        match (level, position.number) {
            (Level::Uniform, _) => index_at(self.k, layout, self.k.u32(0)),
            (Level::Row, _) => index_at(self.k, layout, position.row),
            (Level::Element, Some(number)) if layout.collapsed().len() <= 1 => {
                index_at(self.k, layout, number)
            }
            (Level::Element, _) => {
                index_at_row(self.k, layout, [rows, columns], [position.row, position.column])
            }
        }
    }

    /// Returns the index of a level's element at a position.
    fn number(&self, level: Level, position: Position<'k>) -> Value<'k> {
        match level {
            Level::Uniform => self.k.u32(0),
            Level::Row => position.row,
            Level::Element => match position.number {
                Some(number) => number,
                None => position.row * narrow(self.body.columns) + position.column,
            },
        }
    }
}

/// Returns the checks of a level.
pub(super) fn checks_of(body: &Body, level: Level) -> Vec<NodeId> {
    let is_check = |id: &NodeId| {
        let node = body.node(*id);
        node.level == level && node.kind.is_check()
    };
    body.ids().filter(is_check).collect()
}

/// Returns a body's results of a level, as (node, write).
pub(super) fn stores_of(body: &Body, wanted: Level) -> Vec<(NodeId, usize)> {
    body.stores
        .iter()
        .filter_map(|store| match *store {
            Store::Value { node, level, write } if level == wanted => Some((node, write)),
            _ => None,
        })
        .collect()
}
