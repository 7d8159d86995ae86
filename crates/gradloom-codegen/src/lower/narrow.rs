//! The pass that stores values between kernels in 16 bits, in precisions with a 16-bit type.
//!
//! In: the kernels of a graph. Out: the same kernels with other element types. A kernel that reads a 16-bit
//! value computes in f32, and one that writes it rounds. Loops and products store results of level `Element`
//! in 16 bits, as do attention and ops that move elements. Invariant: sums (of rows, columns and
//! gradients), the targets of scatters, values that guards and updates read, and all that persists or leaves
//! the program stay in f32, except for sums of gradients over ranks that may be rounded.

use super::{Draft, Lowering};
use gradloom_core::collections::SortedSet;
use gradloom_core::ir::{DType, OpKind, ValueId};
use gradloom_core::kernel::{Access, Kernel, Level, Store};

/// Converts values between kernels to 16 bits, if the precision has a 16-bit type.
pub(super) fn narrow(lowering: &mut Lowering<'_>) {
    let Some(dtype) = lowering.target.half() else { return };
    let (mut narrow, mut wide) = (SortedSet::new(), SortedSet::new());
    let sums = rounded_sums(&lowering.kernels);
    for spec in &lowering.kernels {
        let mut fits = vec![false; spec.writes.len()];
        if !spec.once && !spec.commit {
            mark(&spec.kernel, &mut fits);
        }
        for (write, fits) in spec.writes.iter().zip(fits) {
            let set = if fits && write.dtype == DType::F32 { &mut narrow } else { &mut wide };
            set.insert(write.buffer);
        }
        let kept = if spec.commit { spec.reads.len() } else { kept_reads(&spec.kernel, &spec.reads) };
        let kept = spec.reads[..kept].iter().map(|read| read.buffer);
        let kept = kept.filter(|buffer| !spec.commit || !sums.iter().any(|(_, sum)| sum == buffer));
        kept.for_each(|buffer| _ = wide.insert(buffer));
    }
    lowering.watched().into_iter().for_each(|buffer| _ = wide.insert(buffer));
    // A sum has the type of its operand.
    for (operand, sum) in sums {
        if [operand, sum].iter().any(|buffer| wide.contains(buffer) || !narrow.contains(buffer)) {
            wide.insert(operand);
            wide.insert(sum);
        }
    }
    let is_narrow = |buffer: ValueId| narrow.contains(&buffer) && !wide.contains(&buffer);
    let change = |access: &mut Access| {
        if is_narrow(access.buffer) {
            access.dtype = dtype;
        }
    };
    for Draft { spec, .. } in &mut lowering.kernels {
        spec.reads.iter_mut().chain(&mut spec.writes).for_each(change);
    }
    let values: Vec<ValueId> = lowering.memory.access.keys().copied().collect();
    for value in values {
        lowering.memory.access.get_mut(&value).into_iter().for_each(change);
        if let Some(ty) = lowering.memory.buffers.get_mut(&value).filter(|_| is_narrow(value)) {
            ty.dtype = dtype;
        }
    }
}

/// Returns the operands and results of collective ops that may be summed in 16 bits.
fn rounded_sums(kernels: &[Draft]) -> Vec<(ValueId, ValueId)> {
    let mut sums = Vec::new();
    for spec in kernels {
        if let Kernel::Op(OpKind::Collective { rounded: true, .. }) = spec.kernel {
            sums.extend(spec.reads.iter().zip(&spec.writes).map(|(read, write)| (read.buffer, write.buffer)));
        }
    }
    sums
}

/// Marks the results of a kernel that may be stored in 16 bits.
fn mark(kernel: &Kernel, fits: &mut [bool]) {
    match kernel {
        Kernel::Loop(body) | Kernel::Dot { epilogue: body, .. } => {
            for store in &body.stores {
                if let Store::Value { level: Level::Element, write, .. } = *store {
                    fits[write] = body.elements(Level::Element) > 1;
                }
            }
        }
        Kernel::Group(parts) => {
            parts.iter().for_each(|part| mark(&part.kernel, &mut fits[part.writes.clone()]));
        }
        // The second result, the log-sum-exp, stays in f32.
        Kernel::Op(OpKind::Attention(_)) => fits[0] = true,
        Kernel::Op(
            OpKind::Dot(_)
            | OpKind::AttentionGrad(_)
            | OpKind::Collective { rounded: true, .. }
            | OpKind::Gather { .. }
            | OpKind::Concat { .. }
            | OpKind::Pad { .. }
            | OpKind::DynamicSlice { .. }
            | OpKind::Unary(_)
            | OpKind::Binary(_)
            | OpKind::Select
            | OpKind::Cast { .. },
        ) => fits.fill(true),
        // Does not occur here, because a later pass creates these kernels.
        Kernel::Attention { .. } => {}
        Kernel::Op(_) | Kernel::Copy | Kernel::WriteRegion => {}
    }
}

/// Returns the number of leading operands of a kernel that keep their type: the one that the result
/// overwrites, or all operands of a custom op, of a collective op that must not round, or of a write to a
/// region.
fn kept_reads(kernel: &Kernel, reads: &[Access]) -> usize {
    match kernel {
        Kernel::Op(OpKind::Scatter { .. } | OpKind::DynamicUpdateSlice) => 1,
        Kernel::Op(OpKind::Custom(_) | OpKind::Collective { rounded: false, .. }) | Kernel::WriteRegion => {
            reads.len()
        }
        _ => 0,
    }
}
