//! Checks of the names of leaves: inputs, entries of the store, and scalars of the per-step block.

use super::VerifyError;
use crate::collections::{SortedMap, SortedSet};
use crate::ir::{DType, Graph, OpKind};

/// Checks that the names of inputs are unique, that the names of parameters and states are unique in their
/// shared namespace, and that scalars of the same name have the same dtype.
pub(super) fn check(graph: &Graph) -> Result<(), VerifyError> {
    let mut inputs = SortedSet::new();
    let mut stored = SortedSet::new();
    let mut scalars: SortedMap<&str, DType> = SortedMap::new();
    for (id, op) in graph.entry_ops() {
        let fail = |message: String| Err(VerifyError::in_op(graph, id, message));
        let (name, names, what) = match &op.kind {
            OpKind::Input { name, .. } => (name, &mut inputs, "inputs"),
            OpKind::Param { name, .. } | OpKind::State { name, .. } => {
                (name, &mut stored, "parameters or states")
            }
            OpKind::Scalar { name, dtype } => {
                let first = scalars.get(name.as_str()).copied().unwrap_or(*dtype);
                scalars.insert(name, first);
                if first != *dtype {
                    return fail(format!(
                        "the scalar \"{name}\" is {first} in one place and {dtype} in another"
                    ));
                }
                continue;
            }
            _ => continue,
        };
        if !names.insert(name.as_str()) {
            return fail(format!("two {what} are named \"{name}\""));
        }
    }
    Ok(())
}
