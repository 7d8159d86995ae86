//! Row-wise epilogues of attention, computed by the lanes that hold the rows.
//!
//! In: a body whose accumulators are the output and, for level `Row`, the log-sum-exp; and the lane's
//! position. Out: its results. Invariants: operands are loaded before the output is computed; all lanes of a
//! subgroup take part in reductions.

use super::super::body::{Nodes, Operands, Position, stores_of};
use super::super::{Builder, Value, Views};
use crate::narrow::narrow;
use gradloom_core::kernel::{AttentionLanes, Body, Level, NodeId, NodeKind};

/// Number of adjacent positions of a lane that are loaded as a vector.
const FOUR: usize = 4;

/// Epilogue of a lane's positions in a row.
pub(super) struct Epilogue<'k, 'b> {
    k: &'k Builder,
    views: &'b Views<'b>,
    body: &'b Body,
    nodes: Nodes<'k, 'b>,
    /// Number of lanes per row.
    lanes: usize,
    positions: Vec<Position<'k>>,
    /// For each position, true if it exists; `None` if all do.
    inside: Option<Vec<Value<'k>>>,
}

impl<'k, 'b> Epilogue<'k, 'b> {
    /// Creates the epilogue of a row for `each` positions per lane, from a column on, and loads its operands
    /// early. The lane stores results only if it owns the positions.
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

    /// Selects a position.
    fn turn_to(&mut self, i: usize) -> Position<'k> {
        match self.inside {
            None => self.nodes.turn_to_four(i, self.positions[i / FOUR * FOUR]),
            Some(_) => self.nodes.turn_to(i),
        }
        self.positions[i]
    }

    /// Computes and stores the results, given the output at these positions and the row's log-sum-exp.
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
        // Operands precede the nodes that use them, so reductions are computed in order of their depth.
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
