//! Bounds on extents and on the attributes beside them, so that later stages multiply them without overflow.
//!
//! This is the one place where they are stated. Shape rules multiply and add extents without checks; these
//! functions run before the rules do. What they let through:
//!
//! - A value has at most [`MAX_RANK`] axes. Its elements, and those of every part of its shape, are at most
//!   [`MAX_ELEMENTS`]: offsets and strides are, too. Bytes are counted in 64 bits on every machine.
//! - A slice's start and limit lie in its operand (the shape rule sees to that), and its step is at most the
//!   extent.
//! - A pad's gap is at most the extent of its result, as are the amounts before and after.
//! - An attention's scores are countable in 64 bits; heads and depths are at most [`MAX_HEAD`].
//! - Extents that are joined add up to at most [`MAX_ELEMENTS`].
//!
//! So a position, or a stride times a step or times a gap and 1, is at most twice that. Products over values,
//! as operations of a matrix product or bytes of all values of a step, are not bounded: code that counts them
//! saturates or checks.

use crate::ir::{DType, Graph, OpKind, Type, ValueId};

/// Elements that one value may have at most, an i64 counting twice: 2^45, or, where indices have 32 bits,
/// half of what these count. Four bytes each are all that a process can address on today's machines, 128 TiB;
/// so the bytes of thousands of values, or of one for each of thousands of tasks, add up within 64 bits. How
/// many of them there is memory for is the device's to say.
const MAX_ELEMENTS: usize = if usize::BITS == 64 { 1 << 45 } else { isize::MAX as usize };

/// Axes of a value at most, as in NumPy and PyTorch.
const MAX_RANK: usize = 64;

/// Scores of an attention at most.
const MAX_SCORES: u64 = 1 << 45;

/// Heads of an attention, and elements of a head's vectors, at most: kernels have scratch for some rows of
/// them for each thread.
const MAX_HEAD: usize = 1 << 20;

/// Returns whether the product of the extents and a factor is at most `most`. Each extent counts as at least
/// 1: strides and partial products of a shape with a 0 must fit as well.
fn product_fits(extents: &[usize], factor: usize, most: u64) -> bool {
    let times = |product: u64, &n: &usize| product.checked_mul(n.max(1) as u64);
    extents.iter().try_fold(factor as u64, times).is_some_and(|product| product <= most)
}

/// Checks that the axes of a value are few, and that its bytes can be counted.
pub(crate) fn check_type(ty: &Type) -> Result<(), String> {
    // The words of an i64 are one more axis.
    let (rank, most) = (ty.shape.rank(), MAX_RANK - usize::from(ty.dtype == DType::I64));
    if rank > most {
        return Err(format!("a value has {rank} axes; {most} are the most"));
    }
    let words = if ty.dtype == DType::I64 { 2 } else { 1 };
    if product_fits(&ty.shape, words, MAX_ELEMENTS as u64) {
        return Ok(());
    }
    let counters = if usize::BITS == 64 { "any memory can hold" } else { "the indices of 32 bits count" };
    Err(format!("{ty} has more elements than {counters}"))
}

/// Checks that the shape rule of an op can be applied without overflow. The operands' types have passed
/// [`check_type`].
pub(crate) fn check_extents(graph: &Graph, kind: &OpKind, operands: &[ValueId]) -> Result<(), String> {
    match kind {
        OpKind::Input { ty, .. }
        | OpKind::Param { ty, .. }
        | OpKind::State { ty, .. }
        | OpKind::Constant { ty, .. }
        | OpKind::Iota { ty, .. } => check_type(ty),
        OpKind::RandomBits { shape, .. } | OpKind::Reshape { shape } | OpKind::Broadcast { shape } => {
            // The widest dtype of those that kernels see, or wider.
            let dtype = operands.first().map_or(DType::F32, |&x| graph.ty(x).dtype);
            let dtype = if dtype == DType::I64 { dtype } else { DType::F32 };
            check_type(&Type::new(dtype, shape.clone()))
        }
        OpKind::Slice { step, .. } => {
            let Some(&x) = operands.first() else { return Ok(()) };
            let shape = &graph.ty(x).shape;
            for (axis, (&step, &n)) in step.iter().zip(shape.iter()).enumerate() {
                if step > n.max(1) {
                    return Err(format!(
                        "slice: the step {step} is larger than axis {axis} of {shape}; {} picks the same \
                         element",
                        n.max(1)
                    ));
                }
            }
            Ok(())
        }
        OpKind::Conv(spec) => {
            match [&spec.low, &spec.high].into_iter().flatten().find(|&&n| n > MAX_ELEMENTS) {
                Some(pad) => Err(format!("conv: a padding of {pad} elements grows beyond any memory")),
                None => Ok(()),
            }
        }
        OpKind::Pad { low, high, interior, .. } => {
            let Some(&x) = operands.first() else { return Ok(()) };
            let shape = &graph.ty(x).shape;
            let amounts = low.iter().zip(high).zip(interior).zip(shape.iter());
            for (axis, (((&low, &high), &interior), &n)) in amounts.enumerate() {
                let gaps = n.saturating_sub(1).checked_mul(interior);
                let extent = gaps
                    .and_then(|gaps| gaps.checked_add(n))
                    .and_then(|extent| extent.checked_add(low))
                    .and_then(|extent| extent.checked_add(high));
                let Some(extent) = extent.filter(|&extent| extent <= MAX_ELEMENTS) else {
                    return Err(format!("pad: axis {axis} of {shape} grows beyond any memory"));
                };
                if interior > extent {
                    return Err(format!(
                        "pad: axis {axis} of {shape} has gaps of {interior}, but no two elements to stand \
                         between; use 0"
                    ));
                }
            }
            Ok(())
        }
        OpKind::Attention(spec) | OpKind::AttentionGrad(spec) => {
            let shape =
                |i: usize| operands.get(i).map(|&v| &graph.ty(v).shape).filter(|shape| shape.rank() == 4);
            let (Some(q), Some(k), Some(v)) = (shape(0), shape(1), shape(2)) else { return Ok(()) };
            for (what, extent) in
                [("query heads", q[1]), ("elements of a key", k[3]), ("elements of a value", v[3])]
            {
                if extent > MAX_HEAD {
                    return Err(format!("attention: {extent} {what}; there may be {MAX_HEAD} at most"));
                }
            }
            // No target makes the matrix of all scores, but each counts in it.
            let table =
                spec.extra_positions()[2].and_then(|table| graph.ty(*operands.get(table)?).shape.get(1));
            let blocks = table.copied().unwrap_or(1);
            if !product_fits(&[q[0], q[1], q[2], k[2], blocks], 1, MAX_SCORES) {
                return Err(format!("attention: q {q} and k {k} have more scores than any memory can hold"));
            }
            Ok(())
        }
        OpKind::Concat { axis } => {
            let extents = operands.iter().filter_map(|&v| graph.ty(v).shape.get(*axis));
            let total = extents.copied().try_fold(0_usize, usize::checked_add);
            if total.is_none_or(|total| total > MAX_ELEMENTS) {
                return Err(format!("concat: axis {axis} grows beyond any memory"));
            }
            Ok(())
        }
        _ => Ok(()),
    }
}
