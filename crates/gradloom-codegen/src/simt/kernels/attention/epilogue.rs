//! Epilogues of attention row by row, computed by the lanes that have the rows.
//!
//! In: a body, whose accumulator is the output, and of rows the log-sum-exp; where a lane stands. Out: its
//! results. Always holds: operands are loaded before they are needed; all lanes of a subgroup reduce
//! together.

use super::super::body::{Nodes, Operands, Position, stores_of};
use super::super::{Builder, Value, Views};
use crate::narrow::narrow;
use gradloom_core::kernel::{AttentionLanes, Body, Level, NodeId, NodeKind};

/// Positions of a lane that are neighbours and loaded together.
const FOUR: usize = 4;

/// A lane's positions in a row.
pub(super) struct Epilogue<'k, 'b> {
    k: &'k Builder,
    views: &'b Views<'b>,
    body: &'b Body,
    nodes: Nodes<'k, 'b>,
    /// Lanes of a row.
    lanes: usize,
    positions: Vec<Position<'k>>,
    /// For each position whether it is there; `None` if all are.
    inside: Option<Vec<Value<'k>>>,
}

impl<'k, 'b> Epilogue<'k, 'b> {
    /// Creates the positions of a row from a column on, `each` of them for each lane. What is loaded there
    /// is on its way then. The lane answers for them if it owns them.
    pub(super) fn new(
        k: &'k Builder,
        views: &'b Views<'b>,
        body: &'b Body,
        [row, column, owned]: [Value<'k>; 3],
        [lanes, each]: [usize; 2],
    ) -> Self {
        let columns = (0..each).map(|i| column + narrow(i));
        let width = narrow(body.columns);
        let is_whole = lanes * each == body.columns;
        let inside = (!is_whole).then(|| columns.clone().map(|column| column.below(width)).collect());
        let position = |column: Value<'k>| {
            let column = if is_whole { column } else { column.min(k.u32(width - 1)) };
            Position { row, column, number: None, owned: Some(owned) }
        };
        let positions = columns.map(position).collect();
        let nodes = Nodes::new(k, body, Operands::Views(views));
        let mut epilogue = Self { k, views, body, nodes, lanes, positions, inside };
        let loads: Vec<NodeId> = of_kind(body, |kind| matches!(kind, NodeKind::Load(_)));
        for i in 0..each {
            let position = epilogue.turn_to(i);
            loads.iter().for_each(|&load| _ = epilogue.nodes.compute(load, position));
        }
        epilogue
    }

    /// Turns to a position.
    fn turn_to(&mut self, i: usize) -> Position<'k> {
        match self.inside {
            None => self.nodes.turn_to_four(i, self.positions[i / FOUR * FOUR]),
            Some(_) => self.nodes.turn_to(i),
        }
        self.positions[i]
    }

    /// Computes and stores the results from the output at these positions and the row's log-sum-exp.
    pub(super) fn finish(mut self, output: &[Value<'k>], log_sum: Value<'k>) {
        let k = self.k;
        for id in of_kind(self.body, |kind| matches!(kind, NodeKind::Accumulator)) {
            match self.body.node(id).level {
                Level::Element => {
                    for (i, &element) in output.iter().enumerate() {
                        self.turn_to(i);
                        self.nodes.set(id, element);
                    }
                }
                _ => self.nodes.set(id, log_sum),
            }
        }
        // Operands precede users, so reductions come in the order of their depth.
        for id in of_kind(self.body, |kind| matches!(kind, NodeKind::Reduce(..))) {
            let node = self.body.node(id);
            let NodeKind::Reduce(op, operand) = node.kind else { continue };
            let mut sum = k.identity(op, node.dtype);
            for i in 0..output.len() {
                let position = self.turn_to(i);
                let value = self.nodes.compute(operand, position);
                let value = match &self.inside {
                    Some(inside) => inside[i].select(value, k.identity(op, node.dtype)),
                    None => value,
                };
                sum = sum.combine(op, value);
            }
            self.nodes.set(id, sum.across_subgroup(op, self.lanes, AttentionLanes::SUBGROUP));
        }
        for i in 0..output.len() {
            let position = self.turn_to(i);
            self.nodes.compute_elements(position);
        }
        let owned = self.positions[0].owned;
        for (node, write) in stores_of(self.body, Level::Element) {
            for i in 0..output.len() {
                let position = self.turn_to(i);
                let inside = self.inside.as_ref().map(|inside| inside[i]);
                if inside.is_none() && i % FOUR < FOUR - 1 {
                    continue;
                }
                k.guard([owned, inside, self.views.gate(k)], || match inside {
                    None => self.nodes.store_four(node, write, position),
                    Some(_) => self.nodes.store(node, write, Level::Element, position),
                });
            }
        }
    }
}

/// Returns the nodes of a kind, in order.
fn of_kind(body: &Body, is_wanted: impl Fn(&NodeKind) -> bool) -> Vec<NodeId> {
    body.ids().filter(|id| is_wanted(&body.node(*id).kind)).collect()
}
