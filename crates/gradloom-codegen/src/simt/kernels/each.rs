//! One invocation for each position.

use super::super::ir::Kernel;
use super::{Builder, Value, Views, WORKGROUP};
use crate::narrow::narrow;

/// The kernel in which an invocation does `f` at each position below `elements`.
pub(super) fn each(
    label: &str,
    views: &Views<'_>,
    elements: usize,
    f: impl for<'k> FnOnce(&'k Builder, Value<'k>),
) -> Vec<Kernel> {
    if elements == 0 {
        return Vec::new();
    }
    let k = Builder::new(label, WORKGROUP, elements.div_ceil(WORKGROUP as usize));
    let position = k.group() * WORKGROUP + k.local();
    let inside = position.below(narrow(elements));
    let condition = if views.gated { k.committed() & inside } else { inside };
    k.when(condition, || f(&k, position));
    vec![k.finish()]
}
