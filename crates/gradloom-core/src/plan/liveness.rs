//! Lifetimes of buffers: the first and last launch between which their bytes are needed.

use super::types::first_commit;
use super::{Buffer, Role};
use crate::collections::IdMap;
use crate::kernel::{Access, Launch};

/// Sets `first` and `last` of each buffer.
pub(super) fn set(
    buffers: &mut [Buffer],
    launches: &[Launch],
    outputs: &[(String, Access)],
    guards: &[(String, Access)],
) {
    let index: IdMap<_, usize> = buffers.iter().enumerate().map(|(i, b)| (b.value, i)).collect();
    let end = launches.len();
    for buffer in buffers.iter_mut() {
        (buffer.first, buffer.last) = match buffer.role {
            // Inputs are written before the first launch. The lifetime of an input that no launch reads ends
            // there, since the caller may omit it.
            Role::Input | Role::Scalar => (0, 0),
            Role::Parameter | Role::Frozen | Role::State | Role::Constant | Role::Hoisted => (0, end),
            Role::Next | Role::Output | Role::Temporary => (usize::MAX, 0),
        };
    }
    for (i, launch) in launches.iter().enumerate() {
        for access in launch.reads.iter().chain(&launch.writes) {
            let buffer = &mut buffers[index[&access.buffer]];
            buffer.first = buffer.first.min(i);
            buffer.last = buffer.last.max(i);
        }
    }
    for (_, access) in outputs {
        let buffer = &mut buffers[index[&access.buffer]];
        buffer.first = buffer.first.min(end);
        buffer.last = end;
    }
    // Guards are checked between the last compute launch and the first commit launch.
    let commit = first_commit(launches);
    for (_, access) in guards {
        let buffer = &mut buffers[index[&access.buffer]];
        buffer.first = buffer.first.min(commit);
        buffer.last = buffer.last.max(commit);
    }
}
