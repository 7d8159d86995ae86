//! Finds launches whose results are the same in every step, so that they run once, when the program is
//! loaded.
//!
//! A launch is hoisted if it reads only constants and results of other hoisted launches. It must not be able
//! to trap, so that loading cannot fail depending on values. No step may write its results, and they must not
//! be the next value of an update, because the commit would have to copy that value instead of computing it
//! in place.

use crate::collections::{IdMap, IdSet};
use crate::ir::{Graph, OpKind, ValueId};
use crate::kernel::{Kernel, Launch, Lowered};

/// Returns the launches to hoist and the remaining launches.
pub(super) fn split(graph: &Graph, lowered: &Lowered, launches: Vec<Launch>) -> (Vec<Launch>, Vec<Launch>) {
    let mut constant: IdSet<ValueId> = graph
        .entry_ops()
        .filter(|(_, op)| matches!(op.kind, OpKind::Constant { .. } | OpKind::Iota { .. }))
        .map(|(_, op)| op.results[0])
        .collect();
    let next: IdSet<ValueId> = graph.updates.iter().map(|u| lowered.access[&u.value].buffer).collect();
    // Several launches may fill one buffer together. Keep all of them in the step, because one of them may
    // have to run there.
    let mut writer: IdMap<ValueId, usize> = IdMap::new();
    let mut shared: IdSet<ValueId> = IdSet::new();
    for (i, write) in launches.iter().enumerate().flat_map(|(i, l)| l.writes.iter().map(move |w| (i, w))) {
        if *writer.get_or_insert_with(write.buffer, || i) != i {
            shared.insert(write.buffer);
        }
    }
    launches.into_iter().partition(|launch| {
        let alike = launch.reads.iter().all(|read| constant.contains(&read.buffer))
            && launch.writes.iter().all(|w| !shared.contains(&w.buffer) && !next.contains(&w.buffer))
            && is_function(&launch.kernel)
            && !launch.kernel.can_trap(graph, launch.op);
        if alike {
            constant.extend(launch.writes.iter().map(|write| write.buffer));
        }
        alike
    })
}

/// Returns `true` if the results depend only on the operands. Random bits and collective ops are excluded,
/// and user-defined ops are not assumed to be pure.
fn is_function(kernel: &Kernel) -> bool {
    match kernel {
        Kernel::Op(kind) => {
            !matches!(kind, OpKind::RandomBits { .. } | OpKind::Custom(_) | OpKind::Collective { .. })
        }
        Kernel::Group(parts) => parts.iter().all(|part| is_function(&part.kernel)),
        Kernel::Attention { .. } => true,
        Kernel::Loop(_) | Kernel::Dot { .. } | Kernel::Copy | Kernel::WriteRegion => true,
    }
}
