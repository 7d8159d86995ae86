//! Finds launches that copy a parameter or state, which `must_alias` forbids.

use crate::ir::{OpKind, ValueId};
use crate::kernel::{Access, Kernel, Launch, NodeKind, Store};

/// Returns `true` if a launch copies `target`, unchanged or partly changed, to a buffer for which `in_place`
/// returns `false`. `in_place` returns `true` if a buffer shares the bytes of the target.
///
/// A launch that computes a new tensor from the whole target is not a copy. Copies of scalars are allowed,
/// because the starts of windows are kept for the commit.
pub(super) fn copies(launch: &Launch, target: ValueId, in_place: &dyn Fn(ValueId) -> bool) -> bool {
    copies_any(&launch.kernel, &launch.reads, &launch.writes, &|read: &Access, write: &Access| {
        read.buffer == target && read.layout.shape.rank() > 0 && !in_place(write.buffer)
    })
}

/// Returns `true` if the kernel copies a read to a write for which `forbidden` returns `true`.
fn copies_any(
    kernel: &Kernel,
    reads: &[Access],
    writes: &[Access],
    forbidden: &dyn Fn(&Access, &Access) -> bool,
) -> bool {
    match kernel {
        Kernel::Copy | Kernel::Op(OpKind::DynamicUpdateSlice | OpKind::Scatter { .. }) => {
            forbidden(&reads[0], &writes[0])
        }
        Kernel::Group(parts) => parts.iter().any(|part| {
            copies_any(&part.kernel, &reads[part.reads.clone()], &writes[part.writes.clone()], forbidden)
        }),
        kernel => kernel.body().is_some_and(|body| {
            body.stores.iter().any(|store| match *store {
                Store::Value { node, write, .. } => match body.node(node).kind {
                    NodeKind::Load(read) => forbidden(&reads[read], &writes[write]),
                    _ => false,
                },
                Store::ColumnReduce { .. } => false,
            })
        }),
    }
}
