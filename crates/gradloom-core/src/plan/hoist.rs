//! Finds launches that are the same in every step. They run once, when the program is loaded.
//!
//! In: the launches that are needed, in order. Out: those that read constants alone, directly or through each
//! other, and the others. Always holds: what is hoisted cannot trap, so that loading cannot fail on values;
//! no step writes what it wrote, and what it wrote is no update's next value (the commit would have to copy
//! that, instead of computing it in place).

use crate::collections::{IdMap, IdSet};
use crate::ir::{Graph, OpKind, ValueId};
use crate::kernel::{Kernel, Launch, Lowered};

/// Returns the launches to hoist, and those that stay.
pub(super) fn split(graph: &Graph, lowered: &Lowered, launches: Vec<Launch>) -> (Vec<Launch>, Vec<Launch>) {
    let mut constant: IdSet<ValueId> = graph
        .entry_ops()
        .filter(|(_, op)| matches!(op.kind, OpKind::Constant { .. } | OpKind::Iota { .. }))
        .map(|(_, op)| op.results[0])
        .collect();
    let next: IdSet<ValueId> = graph.updates.iter().map(|u| lowered.access[&u.value].buffer).collect();
    // Several launches may fill one buffer together; one that waits for the step keeps the others.
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

/// Returns whether the results follow from the operands alone. Users' code is not trusted to keep to that.
fn is_function(kernel: &Kernel) -> bool {
    match kernel {
        Kernel::Op(kind) => !matches!(kind, OpKind::RandomBits { .. } | OpKind::Custom(_)),
        Kernel::Group(parts) => parts.iter().all(|part| is_function(&part.kernel)),
        Kernel::Attention { .. } => true,
        Kernel::Loop(_) | Kernel::Dot { .. } | Kernel::Copy | Kernel::WriteRegion => true,
    }
}
