//! A map that is left of a product by the library, or in parts, and the kernel of rows behind it, as one: a
//! residual connection with the norm that follows.
//!
//! Fusion put the map behind the product; once the library computes that, the map is a launch of its own, and
//! what reads its result next may as well compute it. Always holds: the map's results are still stored, as
//! others read them.

use gradloom_core::fuse::KernelSpec;
use gradloom_core::kernel::{Access, Body, Kernel, Level, NodeId, NodeKind, Store};

/// Returns both kernels as one, if the second has rows of the same positions and reads what the first gives
/// at its own position.
pub(super) fn joined(map: &KernelSpec, rows: &KernelSpec) -> Option<KernelSpec> {
    let (Kernel::Loop(first), Kernel::Loop(second)) = (&map.kernel, &rows.kernel) else { return None };
    let alike = (first.rows, first.columns, map.commit, map.once)
        == (second.rows, second.columns, rows.commit, rows.once);
    let is_map = first.stores.iter().all(|store| matches!(store, Store::Value { level: Level::Element, .. }));
    if !alike || !is_map || !second.has_row_reductions() {
        return None;
    }
    let mut reads = map.reads.clone();
    // What each of the second's operands is: a node of the first, or an operand of both.
    let mut found = Vec::with_capacity(rows.reads.len());
    for read in &rows.reads {
        match map.writes.iter().position(|write| write.buffer == read.buffer) {
            None => {
                found.push(Err(reads.len()));
                reads.push(read.clone());
            }
            Some(write) if is_all_of(read, &map.writes[write]) => {
                let store = first.stores.iter().find(|store| store.write() == write)?;
                found.push(Ok(store.node()));
            }
            Some(_) => return None,
        }
    }
    if found.iter().all(Result::is_err) {
        return None;
    }
    let mut nodes = first.nodes.clone();
    // Where the second's nodes are in both.
    let mut places: Vec<NodeId> = Vec::with_capacity(second.nodes.len());
    for node in &second.nodes {
        let mut node = node.clone();
        match &mut node.kind {
            NodeKind::Load(read) => match found[*read] {
                Ok(known)
                    if (node.level, node.dtype) == (Level::Element, first.node(known).dtype)
                        && first.node(known).level == Level::Element =>
                {
                    places.push(known);
                    continue;
                }
                Ok(_) => return None,
                Err(number) => *read = number,
            },
            kind => kind.operands_mut().iter_mut().for_each(|operand| *operand = places[operand.index()]),
        }
        places.push(NodeId::new(nodes.len()));
        nodes.push(node);
    }
    let mut stores = first.stores.clone();
    for store in &second.stores {
        let mut store = store.clone();
        let (Store::Value { node, write, .. } | Store::ColumnReduce { node, write, .. }) = &mut store;
        (*node, *write) = (places[node.index()], *write + map.writes.len());
        stores.push(store);
    }
    Some(KernelSpec {
        kernel: Kernel::Loop(Body { nodes, stores, ..*second }),
        reads,
        writes: map.writes.iter().chain(&rows.writes).cloned().collect(),
        ..*rows
    })
}

/// Returns true if an operand is all of a result, in the same order.
pub(super) fn is_all_of(read: &Access, write: &Access) -> bool {
    let [read, write] = [read, write].map(|access| &access.layout);
    read.is_contiguous()
        && write.is_contiguous()
        && (read.offset, read.shape.elements()) == (write.offset, write.shape.elements())
}
