//! Finds launches that copy a parameter or state, which `must_alias` forbids.

use crate::ir::{OpKind, ValueId};
use crate::kernel::{Access, Kernel, Launch, NodeKind, Store};

/// Returns whether a launch copies the bytes of `target` to others, as they are or with a part changed.
/// `in_place` says whether a buffer is to be the target's own bytes.
///
/// A launch that computes a new tensor from all of them makes no copy. A copy of a scalar does not count:
/// the starts of windows are kept for the commit.
pub(super) fn copies(launch: &Launch, target: ValueId, in_place: &dyn Fn(ValueId) -> bool) -> bool {
    copies_any(&launch.kernel, &launch.reads, &launch.writes, &|read: &Access, write: &Access| {
        read.buffer == target && read.layout.shape.rank() > 0 && !in_place(write.buffer)
    })
}

/// Returns whether the kernel copies one of the reads to one of the writes for which `forbidden` holds.
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
