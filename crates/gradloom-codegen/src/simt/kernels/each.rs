//! Kernels with one invocation per position.

use super::super::ir::Kernel;
use super::{Builder, Value, Views, WORKGROUP};
use crate::narrow::narrow;

/// Returns a kernel in which one invocation per position below `elements` runs `f`.
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
    let whole = elements.is_multiple_of(WORKGROUP as usize);
    let inside = (!whole).then(|| position.below(narrow(elements)));
    k.guard([views.gate(&k), inside], || f(&k, position));
    vec![k.finish()]
}
