//! Products to which the vendor library adds a bias.
//!
//! In: a product whose epilogue stores the sum of the product and a row of numbers, the bias, in 16 bits.
//! Out: a product that stores this sum, and a loop that reads it, if the epilogue stores more. The loop then
//! reads a result that is stored anyway, and the product itself needs no memory.

use super::Draft;
use super::apart::Split;
use crate::cuda::EXTENT_ALIGNMENT;
use gradloom_core::ir::{BinaryOp, DType, DotAxes};
use gradloom_core::kernel::{Access, Body, Kernel, Layout, Level, Node, NodeId, NodeKind, Store};

/// Splits a product from its epilogue; returns `None` if the epilogue does not store the sum of the product
/// and a bias in 16 bits, or uses the product otherwise.
pub(super) fn split(draft: &Draft, axes: &DotAxes, epilogue: &Body) -> Option<Split> {
    let (store, sum, bias) = epilogue.stores.iter().enumerate().find_map(|(i, store)| match *store {
        Store::Value { node, level: Level::Element, write } if is_stored(&draft.writes[write]) => {
            Some((i, node, bias_of(epilogue, node)?))
        }
        _ => None,
    })?;
    let access = &draft.reads[bias];
    let rows = access.layout.reshape(&[epilogue.rows, epilogue.columns].into())?;
    if rows.strides[..] != [0, 1]
        || access.dtype != DType::F32
        || !epilogue.columns.is_multiple_of(EXTENT_ALIGNMENT)
    {
        return None;
    }
    let is_product = |id: NodeId| epilogue.node(id).kind == NodeKind::Accumulator;
    let uses_product =
        |id: NodeId| epilogue.node(id).kind.operands().iter().any(|&operand| is_product(operand));
    if epilogue.ids().any(|id| id != sum && uses_product(id))
        || epilogue.stores.iter().any(|store| is_product(store.node()))
    {
        return None;
    }
    let mut body = epilogue.clone();
    let mut writes = draft.writes.clone();
    let write = body.stores.remove(store).write();
    let result = writes.remove(write);
    for store in &mut body.stores {
        let (Store::Value { write: other, .. } | Store::ColumnReduce { write: other, .. }) = store;
        *other -= usize::from(*other > write);
    }
    let bias = Access { layout: rows, ..access.clone() };
    let reads = vec![draft.reads[0].clone(), draft.reads[1].clone(), bias];
    let kernel = Kernel::Dot { axes: axes.clone(), epilogue: added(epilogue.rows, epilogue.columns) };
    let product = draft.beside(kernel, reads, vec![result.clone()]);
    let map = (!body.stores.is_empty()).then(|| {
        body.nodes[sum.index()].kind = NodeKind::Load(draft.reads.len());
        let (body, operands) = without_unused(&body, draft.reads.iter().chain([&result]));
        draft.beside(Kernel::Loop(body), operands, writes)
    });
    Some(Split { product: Draft { is_read_next: map.is_some(), ..product }, map })
}

/// Returns `true` if a result is one that the library can store.
fn is_stored(write: &Access) -> bool {
    matches!(write.dtype, DType::F16 | DType::BF16) && write.layout.is_contiguous()
}

/// Returns the operand that a node adds to the product; `None` if the node does something else.
fn bias_of(epilogue: &Body, node: NodeId) -> Option<usize> {
    let NodeKind::Binary(BinaryOp::Add, [a, b]) = epilogue.node(node).kind else { return None };
    match [a, b].map(|id| &epilogue.node(id).kind) {
        [NodeKind::Accumulator, NodeKind::Load(read)] | [NodeKind::Load(read), NodeKind::Accumulator] => {
            Some(*read)
        }
        _ => None,
    }
}

/// Returns the epilogue that stores the sum of the product and the third operand.
fn added(rows: usize, columns: usize) -> Body {
    let node = |kind| Node { kind, dtype: DType::F32, level: Level::Element };
    let kinds = [
        NodeKind::Accumulator,
        NodeKind::Load(2),
        NodeKind::Binary(BinaryOp::Add, [NodeId::new(0), NodeId::new(1)]),
    ];
    let stores = vec![Store::Value { node: NodeId::new(2), level: Level::Element, write: 0 }];
    Body { rows, columns, nodes: kinds.into_iter().map(node).collect(), stores }
}

/// Returns `true` if an epilogue only adds a bias.
pub(super) fn is_added(epilogue: &Body) -> bool {
    *epilogue == added(epilogue.rows, epilogue.columns)
}

/// Returns the bias as a vector.
pub(super) fn vector(bias: &Access) -> Access {
    let layout = Layout::new(bias.layout.offset, [bias.layout.shape[1]].into(), vec![1]);
    Access { layout, ..bias.clone() }
}

/// Returns a vector as an operand with the same elements in each of `rows` rows.
pub(super) fn for_rows(vector: &Access, rows: usize) -> Access {
    let shape = [rows, vector.layout.shape[0]].into();
    Access { layout: Layout::new(vector.layout.offset, shape, vec![0, 1]), ..vector.clone() }
}

/// Returns a body without the nodes on which no result and no check depends, and without the operands that no
/// node loads.
fn without_unused<'a>(body: &Body, reads: impl Iterator<Item = &'a Access>) -> (Body, Vec<Access>) {
    let mut used = vec![false; body.nodes.len()];
    body.stores.iter().for_each(|store| used[store.node().index()] = true);
    for id in body.ids().collect::<Vec<_>>().into_iter().rev() {
        let node = body.node(id);
        used[id.index()] |= node.kind.is_check();
        if used[id.index()] {
            node.kind.operands().iter().for_each(|operand| used[operand.index()] = true);
        }
    }
    let reads: Vec<&Access> = reads.collect();
    let (mut operands, mut numbers) = (Vec::new(), vec![None; reads.len()]);
    let (mut nodes, mut places) = (Vec::new(), Vec::new());
    for (node, used) in body.nodes.iter().zip(used) {
        places.push(NodeId::new(nodes.len()));
        if !used {
            continue;
        }
        let mut node = node.clone();
        match &mut node.kind {
            NodeKind::Load(read) => {
                *read = *numbers[*read].get_or_insert_with(|| {
                    operands.push(reads[*read].clone());
                    operands.len() - 1
                });
            }
            kind => kind.operands_mut().iter_mut().for_each(|operand| *operand = places[operand.index()]),
        }
        nodes.push(node);
    }
    let mut stores = body.stores.clone();
    for store in &mut stores {
        let (Store::Value { node, .. } | Store::ColumnReduce { node, .. }) = store;
        *node = places[node.index()];
    }
    (Body { nodes, stores, ..*body }, operands)
}
