//! Bounds on extents, so that no later stage has to fear an overflow when it multiplies them.
//!
//! Shape rules multiply and add extents without checks; these functions run before the rules do.

use crate::ir::{DType, Graph, OpKind, Type, ValueId};

/// Bytes that one value may take at most: far beyond any machine, and four of them still fit 64 bits.
const MAX_BYTES: usize = isize::MAX as usize / 8;

fn shape_fits(extents: &[usize], bytes: usize) -> bool {
    // Each extent counts as at least 1: strides and partial products of a shape with a 0 must fit as well.
    let product = extents.iter().try_fold(bytes, |product, &n| product.checked_mul(n.max(1)));
    product.is_some_and(|product| product <= MAX_BYTES)
}

/// Whether the bytes of a value can be counted.
pub(crate) fn check_type(ty: &Type) -> Result<(), String> {
    if shape_fits(&ty.shape, ty.dtype.bytes()) {
        return Ok(());
    }
    Err(format!("{ty} has more elements than any memory can hold"))
}

/// Whether the shape rule of an op can be applied without overflow. The operands' types have passed [`check_type`].
pub(crate) fn check_extents(graph: &Graph, kind: &OpKind, operands: &[ValueId]) -> Result<(), String> {
    match kind {
        OpKind::Input { ty, .. }
        | OpKind::Param { ty, .. }
        | OpKind::State { ty, .. }
        | OpKind::Constant { ty, .. }
        | OpKind::Iota { ty, .. } => check_type(ty),
        OpKind::RandomBits { shape, .. } | OpKind::Reshape { shape } | OpKind::Broadcast { shape } => {
            // The widest dtype: the operand's is not known to be sound yet.
            check_type(&Type::new(DType::F32, shape.clone()))
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
                if extent.is_none_or(|extent| extent > MAX_BYTES) {
                    return Err(format!("pad: axis {axis} of {shape} grows beyond any memory"));
                }
            }
            Ok(())
        }
        OpKind::Concat { axis } => {
            let extents = operands.iter().filter_map(|&v| graph.ty(v).shape.get(*axis));
            let total = extents.copied().try_fold(0_usize, usize::checked_add);
            if total.is_none_or(|total| total > MAX_BYTES) {
                return Err(format!("concat: axis {axis} grows beyond any memory"));
            }
            Ok(())
        }
        _ => Ok(()),
    }
}
