//! The order in which values are given up, by ascending number of operations per byte saved.
//!
//! `order` returns sets of forward ops to recompute, each of which is added to the previous ones and frees
//! the results of one kept op. Every value that a chosen op reads is a leaf, kept, or also chosen. Products
//! and attention are chosen only when no other op saves any more bytes.
//!
//! Giving up a value requires its chain: the values from which it is computed and that are not kept. These
//! are recomputed or, if they are small or expensive, kept from then on. Of equal layers, the first is given
//! up first, because its values live longest.

use super::cost::{is_expensive, operations};
use super::live::{Forward, is_constant};
use crate::collections::IdSet;
use crate::ir::{Id, OpId};

/// Size, relative to the bytes to save, up to which a value is kept instead of recomputed.
const SMALL: f64 = 1.0 / 16.0;

/// The ops and values required to give up one value, as far as they were followed.
struct Chain {
    /// Ops to recompute. The first is the op whose results are given up.
    ops: Vec<OpId>,
    /// Ops whose results must be kept to recompute `ops` and are not kept yet.
    kept: Vec<OpId>,
    price: Price,
}

/// The number of operations per byte saved, which is infinite if nothing is saved.
#[derive(Clone, Copy)]
struct Price {
    /// Lower bound. Following a chain further adds operations and reduces the saved bytes.
    least: f64,
    /// True if the whole chain was followed, or enough of it to show that nothing is saved.
    is_exact: bool,
}

/// Returns the sets of ops to recompute, in the order in which they should be added.
pub(super) fn order(forward: &Forward<'_>) -> Vec<Vec<OpId>> {
    let mut choice = Choice::new(forward);
    let mut sets = Vec::new();
    for expensive in [false, true] {
        choice.begin(expensive);
        while let Some(op) = choice.cheapest() {
            sets.push(choice.give_up(op));
        }
    }
    sets
}

/// The state of the selection. Chains of deep models reach back to the first layer, so they are followed only
/// until another one is known to be cheaper, and again only after one of their ops has been kept or chosen.
struct Choice<'f, 'g> {
    forward: &'f Forward<'g>,
    /// Ops whose results remain alive until the backward pass reads them.
    kept: IdSet<OpId>,
    /// Ops to recompute.
    chosen: IdSet<OpId>,
    /// True if products and attention may be recomputed.
    expensive: bool,
    /// Price of each kept op that may be recomputed, by id.
    prices: Vec<Option<Price>>,
    /// For each op by id, the ops whose followed chains contain it.
    parts: Vec<Vec<OpId>>,
    /// Ops of the chain being followed.
    seen: IdSet<OpId>,
}

impl<'f, 'g> Choice<'f, 'g> {
    fn new(forward: &'f Forward<'g>) -> Self {
        Self {
            forward,
            kept: forward.kept(),
            chosen: IdSet::new(),
            expensive: false,
            prices: Vec::new(),
            parts: Vec::new(),
            seen: IdSet::new(),
        }
    }

    /// Computes the prices of all kept ops.
    fn begin(&mut self, expensive: bool) {
        self.expensive = expensive;
        self.prices = vec![None; self.forward.graph.ops.len()];
        self.parts = vec![Vec::new(); self.forward.graph.ops.len()];
        let kept: Vec<OpId> = self.kept.iter().copied().collect();
        for op in kept {
            self.price(op, 0.0);
        }
    }

    /// Computes the price of a kept op if it can be recomputed. Follows its chain up to a price of `limit`.
    fn price(&mut self, op: OpId, limit: f64) {
        if self.is_repeatable(op) {
            let chain = self.chain(op, limit);
            for part in chain.ops[1..].iter().chain(&chain.kept) {
                let users = &mut self.parts[part.index()];
                if users.last() != Some(&op) {
                    users.push(op);
                }
            }
            self.prices[op.index()] = Some(chain.price);
        }
    }

    /// Returns the op with the lowest price, or the first of several with that price.
    fn cheapest(&mut self) -> Option<OpId> {
        loop {
            let priced = |&op: &OpId| Some((self.prices[op.index()]?, op));
            let key = |(price, op): &(Price, OpId)| (price.least, self.forward.position(*op));
            let saving = self.kept.iter().filter_map(priced).filter(|(price, _)| price.least.is_finite());
            let (price, op) =
                saving.min_by(|a, b| key(a).partial_cmp(&key(b)).expect("prices are numbers"))?;
            if price.is_exact {
                return Some(op);
            }
            self.price(op, 2.0 * price.least);
        }
    }

    /// Gives up the results of an op. Returns the ops to recompute.
    fn give_up(&mut self, op: OpId) -> Vec<OpId> {
        let chain = self.chain(op, f64::INFINITY);
        self.prices[op.index()] = None;
        self.kept.remove(&op);
        self.kept.extend(&chain.kept);
        self.chosen.extend(&chain.ops);
        // Other chains already ended at `op`, which was kept. They now also end at the ops added with it, so
        // their prices change.
        let new = chain.ops[1..].iter().chain(&chain.kept);
        let changed: IdSet<OpId> =
            new.flat_map(|part| std::mem::take(&mut self.parts[part.index()])).collect();
        for &op in changed.iter().chain(&chain.kept) {
            if self.kept.contains(&op) {
                self.price(op, 0.0);
            }
        }
        chain.ops
    }

    fn is_repeatable(&self, op: OpId) -> bool {
        self.forward.is_repeatable(op) && (self.expensive || !is_expensive(&self.forward.graph.ops[op]))
    }

    /// Returns the chain required to give up the results of an op, which must be kept and recomputable.
    /// Follows the chain until the price exceeds `limit`.
    fn chain(&mut self, op: OpId, limit: f64) -> Chain {
        let forward = self.forward;
        let bytes = forward.bytes(op);
        let (mut ops, mut kept) = (vec![op], Vec::new());
        self.seen.truncate(0);
        self.seen.insert(op);
        let (mut cost, mut saved, mut next) = (0.0, bytes, 0);
        let mut price = 0.0;
        while let Some(&op) = ops.get(next).filter(|_| price <= limit) {
            next += 1;
            let op = &forward.graph.ops[op];
            cost += operations(forward.graph, op);
            for read in forward.reads(op) {
                let kind = &forward.graph.ops[read].kind;
                let there = self.kept.contains(&read)
                    || self.chosen.contains(&read)
                    || kind.is_external_leaf()
                    || is_constant(kind);
                if there || !self.seen.insert(read) {
                    continue;
                }
                if self.is_repeatable(read) && forward.bytes(read) > bytes * SMALL {
                    ops.push(read);
                } else {
                    kept.push(read);
                    saved -= forward.bytes(read);
                }
            }
            price = if saved > 0.0 { cost / saved } else { f64::INFINITY };
        }
        let is_exact = next == ops.len() || price.is_infinite();
        Chain { ops, kept, price: Price { least: price, is_exact } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::{Graph, parse};
    use std::fmt::Write;

    /// Returns the result of `order`, computed by following every chain to its end before each choice.
    fn order_in_full(forward: &Forward<'_>) -> Vec<Vec<OpId>> {
        let mut choice = Choice::new(forward);
        let mut sets = Vec::new();
        for expensive in [false, true] {
            loop {
                choice.begin(expensive);
                for op in choice.kept.iter().copied().collect::<Vec<_>>() {
                    choice.price(op, f64::INFINITY);
                }
                let Some(op) = choice.cheapest() else { break };
                sets.push(choice.give_up(op));
            }
        }
        sets
    }

    /// Builds layers with a residual stream that is not kept, so that chains reach back to the first layer.
    fn layers(count: usize) -> Graph {
        let mut text = "graph {\n%0: f32[64, 64] = input \"x\"\n%1: f32[64, 64] = param \"w\"\n".to_owned();
        let (mut next, mut stream, mut read) = (2, 0, Vec::new());
        let mut emit = |line: String| {
            writeln!(text, "%{next}: {line}").unwrap();
            next += 1;
            next - 1
        };
        for _ in 0..count {
            let sum = emit(format!("f32[64] = sum %{stream} {{axes=[1]}}"));
            let mean = emit(format!("f32[64, 1] = reshape %{sum}"));
            let mean = emit(format!("f32[64, 64] = broadcast %{mean}"));
            let centred = emit(format!("f32[64, 64] = sub %{stream}, %{mean}"));
            let product =
                emit(format!("f32[64, 64] = dot %{centred}, %1 {{lhs_contract=[1], rhs_contract=[0]}}"));
            let bent = emit(format!("f32[64, 64] = tanh %{product}"));
            stream = emit(format!("f32[64, 64] = add %{stream}, %{bent}"));
            read.extend([sum, centred, bent]);
        }
        let loss = emit(format!("f32[] = sum %{stream} {{axes=[0, 1]}}"));
        let mut late = Vec::new();
        for (i, value) in read.into_iter().enumerate() {
            let shape = if i % 3 == 0 { "[64]" } else { "[64, 64]" };
            late.push(emit(format!("f32{shape} = neg %{value}")));
        }
        for (i, late) in late.iter().enumerate() {
            writeln!(text, "output \"late {i}\" %{late}").unwrap();
        }
        writeln!(text, "output \"loss\" %{loss}\n}}").unwrap();
        parse(&text).unwrap()
    }

    #[test]
    fn chains_followed_in_part_give_the_order_of_those_followed_in_full() {
        let graph = layers(9);
        let forward = Forward::new(&graph, graph.output("loss").unwrap());
        let sets = order(&forward);
        assert_eq!(sets, order_in_full(&forward));
        assert!(sets.len() >= 18 && sets.iter().any(|set| set.len() > 1), "{sets:?}");
    }
}
