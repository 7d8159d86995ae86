//! Needed nodes of a body, and the number of their uses.

use gradloom_core::kernel::Body;

/// Returns the number of uses of each node by needed nodes and by stores.
pub(super) fn uses(body: &Body, needed: &[bool]) -> Vec<usize> {
    let mut uses = vec![0; body.nodes.len()];
    let users = body.nodes.iter().zip(needed).filter(|(_, needed)| **needed);
    users.flat_map(|(node, _)| node.kind.operands()).for_each(|operand| uses[operand.index()] += 1);
    body.stores.iter().for_each(|store| uses[store.node().index()] += 1);
    uses
}

/// Returns a flag for each node, which is true if the node is stored, is a check, or is used by a needed
/// node.
pub(super) fn needed(body: &Body) -> Vec<bool> {
    let mut needed = vec![false; body.nodes.len()];
    body.stores.iter().for_each(|store| needed[store.node().index()] = true);
    for (i, node) in body.nodes.iter().enumerate().rev() {
        if needed[i] || node.kind.is_check() {
            needed[i] = true;
            node.kind.operands().iter().for_each(|operand| needed[operand.index()] = true);
        }
    }
    needed
}
