//! In which order to give up values: cheapest operations for each byte saved first.
//!
//! In: the forward pass. Out: sets of ops to compute again, one added to the other; each set frees the
//! results of one op that was kept. Always holds: whatever a chosen op reads is a leaf, is kept, or is
//! chosen, too; products and attention are chosen only after everything that saves bytes without them.
//!
//! Giving up a value brings in what it was computed from and nobody keeps (its chain): that is computed
//! again, or, where it is small or dear, kept from then on. Of equal layers, the first is given up first: its
//! values live longest.

use super::cost::{is_expensive, operations};
use super::live::{Forward, is_constant};
use crate::collections::IdSet;
use crate::ir::OpId;

/// What is kept rather than computed again has at most this share of the bytes that it helps to save.
const SMALL: f64 = 1.0 / 16.0;

/// What it takes to give up one value.
struct Chain {
    /// The ops to compute again.
    ops: Vec<OpId>,
    /// What must be kept for them and was not.
    kept: Vec<OpId>,
    /// Operations for each byte saved.
    price: f64,
}

/// The sets in the order in which to add them.
pub(super) fn order(forward: &Forward<'_>) -> Vec<Vec<OpId>> {
    let mut choice = Choice { forward, kept: forward.kept(), chosen: IdSet::new() };
    let mut sets = Vec::new();
    for expensive in [false, true] {
        while let Some(chain) = choice.cheapest(expensive) {
            choice.kept.extend(&chain.kept);
            for op in &chain.ops {
                choice.kept.remove(op);
            }
            choice.chosen.extend(&chain.ops);
            sets.push(chain.ops);
        }
    }
    sets
}

struct Choice<'f, 'g> {
    forward: &'f Forward<'g>,
    /// Ops whose results stay alive until the backward pass reads them.
    kept: IdSet<OpId>,
    /// Ops to compute again.
    chosen: IdSet<OpId>,
}

impl Choice<'_, '_> {
    fn cheapest(&self, expensive: bool) -> Option<Chain> {
        let key = |chain: &Chain| (chain.price, self.forward.position(chain.ops[0]));
        let chains = self.kept.iter().filter_map(|&op| self.chain(op, expensive));
        chains.min_by(|a, b| key(a).partial_cmp(&key(b)).expect("prices are numbers"))
    }

    /// What it takes to give up the results of an op that is kept, if that saves anything.
    fn chain(&self, op: OpId, expensive: bool) -> Option<Chain> {
        let forward = self.forward;
        let repeatable =
            |op: OpId| forward.is_repeatable(op) && (expensive || !is_expensive(&forward.graph.ops[op]));
        if !repeatable(op) {
            return None;
        }
        let bytes = forward.bytes(op);
        let (mut ops, mut kept) = (vec![op], Vec::new());
        let mut seen = IdSet::from([op]);
        let (mut cost, mut saved, mut next) = (0.0, bytes, 0);
        while let Some(&op) = ops.get(next) {
            next += 1;
            let op = &forward.graph.ops[op];
            cost += operations(forward.graph, op);
            for read in forward.reads(op) {
                let kind = &forward.graph.ops[read].kind;
                let there = self.kept.contains(&read)
                    || self.chosen.contains(&read)
                    || kind.is_external_leaf()
                    || is_constant(kind);
                if there || !seen.insert(read) {
                    continue;
                }
                if repeatable(read) && forward.bytes(read) > bytes * SMALL {
                    ops.push(read);
                } else {
                    kept.push(read);
                    saved -= forward.bytes(read);
                }
            }
        }
        (saved > 0.0).then(|| Chain { ops, kept, price: cost / saved })
    }
}
