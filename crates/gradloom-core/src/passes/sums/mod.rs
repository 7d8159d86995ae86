//! Joining of the terms of long sums.
//!
//! The gradient of a value with many uses is a sum with one term per use, each added to the previous ones.
//! Examples are the gradients of a tensor that is split into parts, and of a weight used in every step of a
//! recurrent layer. This pass processes a sum as a whole and replaces its terms by a single concatenation or
//! product where possible. At each element, the same numbers are added, possibly in another order.

mod pads;
mod products;

use super::definition;
use super::rewriter::{Candidate, rebuild};
use super::simplify::use_counts;
use crate::ir::{BinaryOp, Builder, Graph, Id, OpKind, ValueId};

/// Joins the terms of sums in all blocks.
pub fn sums(graph: &Graph) -> Graph {
    let old = Old::new(graph);
    rebuild(
        graph,
        |_| true,
        |builder, op| {
            if !is_sum(op.kind) || old.is_part[op.old.results[0].index()] {
                return None;
            }
            let mut terms = old.terms(builder, op);
            let count = terms.len();
            let mut joined = Vec::new();
            while let Some(value) =
                pads::join(builder, &mut terms).or_else(|| products::join(builder, &old, &mut terms))
            {
                joined.push(value);
            }
            let values = terms.iter().map(|term| term.new).chain(joined);
            // If no terms were removed, nothing was joined, so keep the op.
            (terms.len() < count)
                .then(|| values.reduce(|sum, term| builder.add(sum, term)).into_iter().collect())
        },
    )
}

fn is_sum(kind: &OpKind) -> bool {
    *kind == OpKind::Binary(BinaryOp::Add)
}

/// A term of a sum, in the old and the new graph.
#[derive(Clone, Copy)]
struct Term {
    old: ValueId,
    new: ValueId,
}

/// Removes the terms with these ascending indices from the list and returns them.
fn take(terms: &mut Vec<Term>, indices: &[usize]) -> Vec<Term> {
    let taken = indices.iter().map(|&i| terms[i]).collect();
    for &i in indices.iter().rev() {
        terms.remove(i);
    }
    taken
}

/// The graph before the pass.
struct Old<'g> {
    graph: &'g Graph,
    /// Number of reads of each value, by id.
    uses: Vec<usize>,
    /// For each value by id, true if it is a sum whose only user is another sum.
    is_part: Vec<bool>,
    /// Position of each op in its block, by id.
    positions: Vec<usize>,
}

impl<'g> Old<'g> {
    fn new(graph: &'g Graph) -> Self {
        let uses = use_counts(graph);
        let mut is_part = vec![false; graph.values.len()];
        for (_, op) in graph.ops.iter().filter(|(_, op)| is_sum(&op.kind)) {
            for &x in &op.operands {
                is_part[x.index()] =
                    uses[x.index()] == 1 && definition(graph, x).is_some_and(|(kind, _)| is_sum(kind));
            }
        }
        let mut positions = vec![0; graph.ops.len()];
        for (_, block) in graph.blocks.iter() {
            block.ops.iter().enumerate().for_each(|(position, op)| positions[op.index()] = position);
        }
        Self { graph, uses, is_part, positions }
    }

    /// Returns the terms of a sum that is not part of another sum, in order.
    fn terms(&self, b: &Builder<'_>, op: &Candidate<'_>) -> Vec<Term> {
        let pair = |old: &[ValueId], new: &[ValueId]| [1, 0].map(|i| Term { old: old[i], new: new[i] });
        // Use an explicit stack instead of recursion, because a sum may be as deep as the program is long.
        let mut open = pair(&op.old.operands, op.operands).to_vec();
        let mut terms = Vec::new();
        while let Some(term) = open.pop() {
            match (definition(self.graph, term.old), definition(b.graph, term.new)) {
                (Some((_, old)), Some((_, new))) if self.is_part[term.old.index()] => {
                    open.extend(pair(old, new));
                }
                _ => terms.push(term),
            }
        }
        terms
    }
}
