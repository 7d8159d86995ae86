//! Checks of the operand indices and extents of fused kernels, which have no bounds checks themselves.

use crate::ir::DType;
use crate::kernel::{Access, Body, Kernel, NodeKind, Schedule, Store};

/// Checks the expression of a fused kernel, the numbers of elements of its operands and results, and the size
/// of its scratch memory. Kernels rely on these checks, because they index memory without bounds checks.
pub(super) fn check(
    kernel: &Kernel,
    schedule: &Schedule,
    reads: &[Access],
    writes: &[Access],
    workspace: u64,
) -> Result<(), String> {
    let wanted = schedule.workspace(kernel);
    if wanted > workspace {
        return Err(format!("has {workspace} bytes of scratch, its schedule takes {wanted}"));
    }
    match kernel {
        Kernel::Loop(body) => check_body(body, reads, writes),
        Kernel::Dot { epilogue, .. } if reads.len() < 2 || epilogue.has_row_reductions() => {
            Err("is no product with an epilogue".into())
        }
        Kernel::Dot { epilogue, .. } => check_body(epilogue, reads, writes),
        Kernel::Attention { spec, epilogue } => {
            let [q, v] = [0, 2].map(|read| reads.get(read).map(|access| &access.layout.shape[..]));
            let (Some(&[batch, heads, queries, _]), Some(&[.., width])) = (q, v) else {
                return Err("is no attention with an epilogue".into());
            };
            let is_op = reads.len() >= 3 + spec.extra_operands();
            let takes = matches!(schedule, Schedule::Attention(attention) if attention.takes_epilogue());
            if !is_op || !takes || [epilogue.rows, epilogue.columns] != [batch * heads * queries, width] {
                return Err("has an epilogue of other positions".into());
            }
            check_body(epilogue, reads, writes)
        }
        Kernel::Group(parts) => {
            let (mut read, mut write, mut scratch) = (0, 0, 0);
            for part in parts {
                let apart = part.reads.start == read && part.writes.start == write;
                if !apart || part.workspace.start < scratch || part.workspace.end > workspace {
                    return Err("has parts that share operands, results or scratch".into());
                }
                (read, write, scratch) = (part.reads.end, part.writes.end, part.workspace.end);
                let (Some(reads), Some(writes)) =
                    (reads.get(part.reads.clone()), writes.get(part.writes.clone()))
                else {
                    return Err("has parts with operands that it does not have".into());
                };
                check(
                    &part.kernel,
                    &part.schedule,
                    reads,
                    writes,
                    part.workspace.end - part.workspace.start,
                )?;
            }
            let all = read == reads.len() && write == writes.len();
            if all { Ok(()) } else { Err("has operands that no part uses".into()) }
        }
        Kernel::Op(_) | Kernel::Copy | Kernel::WriteRegion => Ok(()),
    }
}

/// Returns `true` if an operand or result has elements of a node's dtype, or 16-bit floats for an f32 node.
fn holds(access: &Access, dtype: DType) -> bool {
    access.dtype == dtype || access.dtype.is_float() && dtype == DType::F32
}

fn check_body(body: &Body, reads: &[Access], writes: &[Access]) -> Result<(), String> {
    body.check()?;
    for node in &body.nodes {
        if let NodeKind::Load(read) = node.kind {
            let fits = reads.get(read).is_some_and(|access| {
                holds(access, node.dtype) && access.layout.shape.elements() == body.elements(node.level)
            });
            if !fits {
                return Err(format!("loads operand {read} at a level that it does not have"));
            }
        }
    }
    let mut written = vec![false; writes.len()];
    for store in &body.stores {
        let elements = match store {
            Store::Value { level, .. } => body.elements(*level),
            Store::ColumnReduce { parts, .. } => parts.saturating_mul(body.columns),
        };
        let fits = writes.get(store.write()).is_some_and(|access| {
            holds(access, body.node(store.node()).dtype) && access.layout.shape.elements() == elements
        });
        if !fits || std::mem::replace(&mut written[store.write()], true) {
            return Err(format!("stores result {} at a level that it does not have", store.write()));
        }
    }
    if written.iter().all(|&w| w) { Ok(()) } else { Err("leaves a result unwritten".into()) }
}
