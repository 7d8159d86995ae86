//! Evaluation of single ops. The matches in this file must be extended for each new primitive.

use super::error::trap;
use super::{HostData, HostTensor};
use super::{
    attention, collective, convolution, elementwise, index, indices, matmul, movement, reduce, rows,
};
use crate::error::{Error, ErrorKind, Result};
use crate::ir::{BinaryFraction, CustomOp, Graph, OpKind, Type};
use crate::philox::random_word;

/// Computes the results, of these types, of an op that neither is an external leaf nor runs a block. Leaves
/// and ops that run a block are evaluated by `evaluate`. Public for the tests of fusion.
#[doc(hidden)]
pub fn apply(graph: &Graph, kind: &OpKind, x: &[&HostTensor], types: &[&Type]) -> Result<Vec<HostTensor>> {
    let ty = |i: usize| types[i];
    let one = |tensor: HostTensor| Ok(vec![tensor]);
    match kind {
        OpKind::Input { .. } | OpKind::Param { .. } | OpKind::State { .. } | OpKind::Scalar { .. } => {
            unreachable!("the caller gives the value of {}", kind.name())
        }
        OpKind::Repeat { .. } | OpKind::Checkpoint { .. } => {
            unreachable!("the caller runs the block of {}", kind.name())
        }
        OpKind::Constant { ty, data } => one(HostTensor::from_literal(ty, data)),
        OpKind::Iota { ty, axis } => one(iota(ty, *axis)),
        OpKind::RandomBits { site, ones, .. } => one(random_bits(x, *site, *ones, ty(0))),
        OpKind::Barrier => one(x[0].clone()),
        // `Words` is excluded from constant folding, because kernels support no i64 constants.
        OpKind::Words => one(movement::words(x[0], ty(0))),
        OpKind::Cumulate { op, reverse } => one(rows::cumulate(*op, *reverse, x[0])),
        OpKind::Sort { descending, .. } => Ok(rows::sort(*descending, x[0], [ty(0), ty(1)])),
        OpKind::Dequantize { format } => one(movement::dequantize(*format, x[0], ty(0))),
        OpKind::Dot(axes) => one(matmul::dot(axes, x[0], x[1], ty(0))),
        OpKind::Conv(spec) => one(convolution::conv(spec, x[0], x[1], ty(0))),
        OpKind::Attention(spec) => attention::attention(spec, x, [ty(0), ty(1)]),
        OpKind::AttentionGrad(spec) => attention::attention_grad(spec, x),
        OpKind::Collective { op, ranks, .. } => {
            let each = |(i, x): (usize, &&HostTensor)| collective::combine(*op, *ranks, x, ty(i));
            Ok(x.iter().enumerate().map(each).collect())
        }
        OpKind::Custom(id) => custom(&*graph.customs[*id], x, types),
        _ => apply_simple(kind, x, ty(0)).map(|result| vec![result]),
    }
}

/// Returns `true` if an op is elementwise, moves elements, or reduces axes.
pub(crate) fn is_simple(kind: &OpKind) -> bool {
    matches!(
        kind,
        OpKind::Unary(_)
            | OpKind::Composite(_)
            | OpKind::Binary(_)
            | OpKind::Compare(_)
            | OpKind::Select
            | OpKind::Cast { .. }
            | OpKind::Reduce { .. }
            | OpKind::ArgReduce { .. }
            | OpKind::Reshape { .. }
            | OpKind::Permute { .. }
            | OpKind::Broadcast { .. }
            | OpKind::Slice { .. }
            | OpKind::Windows { .. }
            | OpKind::Pad { .. }
            | OpKind::Concat { .. }
            | OpKind::DynamicSlice { .. }
            | OpKind::DynamicUpdateSlice
            | OpKind::Gather { .. }
            | OpKind::Scatter { .. }
    )
}

/// Computes the result of an op for which [`is_simple`] returns `true`. Only these are evaluated at compile
/// time, so the other ops are not included in a compiler that runs in browsers.
pub(crate) fn apply_simple(kind: &OpKind, x: &[&HostTensor], ty: &Type) -> Result<HostTensor> {
    Ok(match kind {
        OpKind::Unary(op) => elementwise::unary(*op, x[0]),
        OpKind::Composite(op) => elementwise::composite(*op, x[0]),
        OpKind::Binary(op) => elementwise::binary(*op, x[0], x[1])?,
        OpKind::Compare(op) => elementwise::compare(*op, x[0], x[1]),
        OpKind::Select => elementwise::select(x[0], x[1], x[2]),
        OpKind::Cast { dtype } => elementwise::cast(x[0], *dtype)?,
        OpKind::Reduce { op, axes } => reduce::reduce(*op, axes, x[0], ty),
        OpKind::ArgReduce { op, axis } => reduce::arg_reduce(*op, *axis, x[0], ty),
        OpKind::Reshape { .. } => HostTensor { ty: ty.clone(), data: x[0].data.clone() },
        OpKind::Permute { perm } => movement::permute(x[0], perm, ty),
        OpKind::Broadcast { .. } => movement::broadcast(x[0], ty),
        OpKind::Windows { step, dilation, .. } => movement::windows(x[0], step, dilation, ty),
        OpKind::Slice { start, limit: _, step } => movement::slice(x[0], start, step, ty),
        OpKind::Pad { low, high: _, interior, value } => movement::pad(x[0], low, interior, *value, ty),
        OpKind::Concat { axis } => movement::concat(x, *axis, ty),
        OpKind::DynamicSlice { .. } => movement::dynamic_slice(x[0], &x[1..], ty)?,
        OpKind::DynamicUpdateSlice => movement::dynamic_update_slice(x[0], x[1], &x[2..])?,
        OpKind::Gather { batch } => index::gather(x[0], x[1], *batch, ty)?,
        OpKind::Scatter { op, batch } => index::scatter(*op, x[0], x[1], x[2], *batch)?,
        kind => unreachable!("{} is no simple op", kind.name()),
    })
}

fn iota(ty: &Type, axis: usize) -> HostTensor {
    let mut values = Vec::with_capacity(ty.elements());
    indices::each_index(&ty.shape, &mut |index| values.push(index[axis] as f64));
    HostTensor::from_f64(ty.clone(), values)
}

fn random_bits(x: &[&HostTensor], site: u32, ones: BinaryFraction, ty: &Type) -> HostTensor {
    let [seed_lo, seed_hi, step] = [0, 1, 2].map(|i| x[i].integer(0) as u32);
    let word = |i| ones.draw(|digit| random_word([seed_lo, seed_hi], step, site, i as u64, digit)).into();
    HostTensor { ty: ty.clone(), data: HostData::Int((0..ty.elements()).map(word).collect()) }
}

fn custom(custom: &dyn CustomOp, x: &[&HostTensor], types: &[&Type]) -> Result<Vec<HostTensor>> {
    let operands: Vec<HostTensor> = x.iter().map(|&x| x.clone()).collect();
    let results = custom.reference(&operands).map_err(trap)?;
    let wrong = |message| {
        let message = format!("the reference of the custom op {:?} {message}", custom.name());
        Error::new(ErrorKind::Verify, message)
    };
    if results.len() != types.len() {
        return Err(wrong(format!("gave {} results, expected {}", results.len(), types.len())));
    }
    for (i, (result, &ty)) in results.iter().zip(types).enumerate() {
        if result.ty != *ty {
            return Err(wrong(format!("gave a {} as result {i}, expected a {ty}", result.ty)));
        }
        result.check().map_err(|message| wrong(format!("gave a malformed result {i}: {message}")))?;
    }
    Ok(results)
}
