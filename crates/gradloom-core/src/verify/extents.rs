//! Bounds on extents and related attributes, so that later stages can multiply them without overflow.
//!
//! All such bounds are defined here. Shape rules multiply and add extents without checks, so these functions
//! run before the rules. They guarantee:
//!
//! - A value has at most [`MAX_RANK`] axes. Its number of elements, and that of every part of its shape, is
//!   at most [`MAX_ELEMENTS`], and so are offsets and strides. Bytes are counted in 64 bits on all machines.
//! - The step of a slice is at most the extent. The shape rule checks that start and limit are within the
//!   operand.
//! - The interior padding of a pad is at most the extent of its result, as are the low and high padding.
//! - The number of scores of an attention fits into 64 bits. Heads and depths are at most [`MAX_HEAD`].
//! - The sum of concatenated extents is at most [`MAX_ELEMENTS`].
//!
//! A position, a stride times a step, and a stride times one more than the interior padding are therefore at
//! most twice [`MAX_ELEMENTS`]. Products over several values, such as the operations of a matrix product or
//! the bytes of all values of a step, are not bounded, so code that computes them saturates or checks for
//! overflow.

use crate::ir::{DType, Graph, OpKind, Type, ValueId};

/// Maximum number of elements of a value, where an i64 counts twice: 2^45, or half of the index range on
/// 32-bit machines. With four bytes each, these are 128 TiB, the address space of a process on current
/// machines. The bytes of thousands of values, or of one value for each of thousands of tasks, therefore add
/// up within 64 bits. The device determines how many values fit into memory.
const MAX_ELEMENTS: usize = if usize::BITS == 64 { 1 << 45 } else { isize::MAX as usize };

/// Maximum number of axes of a value, as in NumPy and PyTorch.
const MAX_RANK: usize = 64;

/// Maximum number of scores of an attention.
const MAX_SCORES: u64 = 1 << 45;

/// Maximum number of heads of an attention and of elements of a head's vectors. Kernels need scratch memory
/// for several rows of them per thread.
const MAX_HEAD: usize = 1 << 20;

/// Maximum number of ranks of a world.
const MAX_RANKS: usize = 1 << 20;

/// Returns `true` if the product of the extents and a factor is at most `most`. Each extent counts as at
/// least 1, because the strides and partial products of a shape with a 0 must fit, too.
fn product_fits(extents: &[usize], factor: usize, most: u64) -> bool {
    let times = |product: u64, &n: &usize| product.checked_mul(n.max(1) as u64);
    extents.iter().try_fold(factor as u64, times).is_some_and(|product| product <= most)
}

/// Checks that the number of axes and the number of elements of a value are within the limits.
pub(crate) fn check_type(ty: &Type) -> Result<(), String> {
    // The words of an i64 form an additional axis in kernels, so an i64 value may have one axis less.
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

/// Checks that the shape rule of an op does not overflow. Requires that the operands' types have passed
/// [`check_type`].
pub(crate) fn check_extents(graph: &Graph, kind: &OpKind, operands: &[ValueId]) -> Result<(), String> {
    match kind {
        OpKind::Input { ty, .. }
        | OpKind::Param { ty, .. }
        | OpKind::State { ty, .. }
        | OpKind::Constant { ty, .. }
        | OpKind::Iota { ty, .. } => check_type(ty),
        OpKind::RandomBits { shape, .. } | OpKind::Reshape { shape } | OpKind::Broadcast { shape } => {
            // Use the widest dtype in kernels, or i64 for an i64 operand.
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
            // Bound the number of all scores, which are counted although no target stores their matrix.
            let table =
                spec.extra_positions()[2].and_then(|table| graph.ty(*operands.get(table)?).shape.get(1));
            let blocks = table.copied().unwrap_or(1);
            if !product_fits(&[q[0], q[1], q[2], k[2], blocks], 1, MAX_SCORES) {
                return Err(format!("attention: q {q} and k {k} have more scores than any memory can hold"));
            }
            Ok(())
        }
        OpKind::Collective { op, ranks, .. } if *ranks > MAX_RANKS => {
            Err(format!("{}: {ranks} ranks; there may be {MAX_RANKS} at most", op.name()))
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
