//! Sums of products.

use super::super::definition;
use super::{Old, Term, take};
use crate::collections::{sort, sort_by_key};
use crate::ir::{Builder, Definition, DotAxes, Graph, Id, OpKind, ValueId};

/// Removes products from a sum that differ only in their operands, and returns one product: `a b + c d + ..`
/// is the product of `concat(a, c, ..)` and `concat(b, d, ..)` along a contracted axis.
///
/// This occurs in the gradient of a weight shared by several steps. Products are joined if the avoided
/// results, each of which would be written and read again, have more elements than the joined operands.
pub(super) fn join(b: &mut Builder<'_>, old: &Old<'_>, terms: &mut Vec<Term>) -> Option<ValueId> {
    let mut groups: Vec<JoinedTerms> = Vec::new();
    for (index, term) in terms.iter().enumerate().filter(|(_, term)| old.uses[term.old.index()] == 1) {
        let Some(alike) = Alike::of(b.graph, term.new) else { continue };
        match groups.iter_mut().find(|group| group.alike == alike) {
            Some(group) => group.members.push(index),
            None => groups.push(JoinedTerms { alike, members: vec![index] }),
        }
    }
    let JoinedTerms { alike: Alike { axes, .. }, members } =
        groups.into_iter().find(|group| group.pays(b.graph, terms))?;
    let mut products = take(terms, &members);
    // Sort by the earlier operand of each product, which is the order of the steps. Other values made from
    // these operands are concatenated in the same order, so the concatenations can be shared.
    sort_by_key(&mut products, |term| {
        operands(old.graph, term.old).into_iter().map(|operand| position(old, operand)).min()
    });
    let mut joined = |side: usize, axis: usize| {
        let parts: Vec<_> = products.iter().map(|term| operands(b.graph, term.new)[side]).collect();
        b.op(OpKind::Concat { axis }, &parts)
    };
    let sides = [joined(0, axes.lhs_contract[0]), joined(1, axes.rhs_contract[0])];
    Some(b.op(OpKind::Dot(axes), &sides))
}

/// The properties that products must share to be joined: the axes, and the extents of the operands except the
/// first contracted axis.
#[derive(PartialEq)]
struct Alike {
    axes: DotAxes,
    extents: [Vec<usize>; 2],
}

impl Alike {
    /// Returns the properties of a product that contracts an axis.
    fn of(graph: &Graph, value: ValueId) -> Option<Self> {
        let (OpKind::Dot(axes), x) = definition(graph, value)? else { return None };
        let joined = [*axes.lhs_contract.first()?, *axes.rhs_contract.first()?];
        let extents = [0, 1].map(|side| {
            let mut extents = graph.ty(x[side]).shape.to_vec();
            extents[joined[side]] = 0;
            extents
        });
        Some(Self { axes: axes.clone(), extents })
    }
}

/// Indices of the terms of a sum that can be joined.
struct JoinedTerms {
    alike: Alike,
    members: Vec<usize>,
}

impl JoinedTerms {
    fn pays(&self, graph: &Graph, terms: &[Term]) -> bool {
        let elements = |value: ValueId| graph.ty(value).shape.elements();
        let of_side = |side: usize| {
            let mut values: Vec<ValueId> =
                self.members.iter().map(|&i| operands(graph, terms[i].new)[side]).collect();
            sort(&mut values);
            values
        };
        let sides = [of_side(0), of_side(1)];
        // Exclude products with a common factor, for which adding the other factors is better.
        let distinct = sides.iter().all(|values| values.windows(2).all(|pair| pair[0] != pair[1]));
        let read: usize = sides.iter().flatten().map(|&value| elements(value)).sum();
        distinct && (self.members.len() - 1) * elements(terms[self.members[0]].new) > read
    }
}

fn operands(graph: &Graph, product: ValueId) -> [ValueId; 2] {
    let (_, x) = definition(graph, product).expect("it is a product");
    [x[0], x[1]]
}

/// Returns the position in its block of the op that computes a value.
fn position(old: &Old<'_>, value: ValueId) -> usize {
    match old.graph.values[value].definition {
        Definition::Result(op, _) => old.positions[op.index()],
        Definition::BlockParam(..) => 0,
    }
}
