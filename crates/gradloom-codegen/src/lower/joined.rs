//! Fusion of a row kernel, such as a normalization, with the preceding loop that was split from a product,
//! such as a residual connection.
//!
//! The loop was the product's epilogue until the product was assigned to the library or cut into parts. Since
//! the loop is now a separate launch, the next kernel that reads its result can compute it too. Invariant:
//! the results of the loop are still stored for other readers.

use gradloom_core::fuse::KernelSpec;
use gradloom_core::kernel::{Access, Body, Kernel, Level, NodeId, NodeKind, Store};

/// Returns both kernels merged into one, if the second has row reductions over the same positions, and each
/// of its positions reads the results of the first only at that position.
pub(super) fn joined(map: &KernelSpec, rows: &KernelSpec) -> Option<KernelSpec> {
    let (Kernel::Loop(first), Kernel::Loop(second)) = (&map.kernel, &rows.kernel) else { return None };
    let alike = (first.rows, first.columns, map.commit, map.once)
        == (second.rows, second.columns, rows.commit, rows.once);
    let is_map = first.stores.iter().all(|store| matches!(store, Store::Value { level: Level::Element, .. }));
    if !alike || !is_map || !second.has_row_reductions() {
        return None;
    }
    let mut reads = map.reads.clone();
    // For each operand of the second kernel: the node of the first that computes it, or its index among the
    // merged operands.
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
    // For each node of the second kernel, its index in the merged body.
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

/// Returns `true` if an operand covers a whole result, in the same order.
pub(super) fn is_all_of(read: &Access, write: &Access) -> bool {
    let [read, write] = [read, write].map(|access| &access.layout);
    read.is_contiguous()
        && write.is_contiguous()
        && (read.offset, read.shape.elements()) == (write.offset, write.shape.elements())
}
