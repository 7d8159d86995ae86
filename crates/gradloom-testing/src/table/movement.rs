//! Draws views, windows, gathers and scatters.

use super::{Instance, Operand, any_shape, floats, indices};
use crate::random::Random;
use gradloom_core::ir::{ConvSpec, DType, Number, OpKind, ScatterOp};

pub(super) fn reshape(r: &mut Random) -> Instance {
    let from = any_shape(r);
    let elements: usize = from.iter().product();
    // The same extents in another order, one axis, or additional axes of extent 1.
    let shape: Vec<usize> = match r.below(3) {
        0 => r.order(from.len()).into_iter().map(|axis| from[axis]).collect(),
        1 => vec![elements],
        _ => from.iter().flat_map(|&n| [1, n]).collect(),
    };
    Instance { kind: OpKind::Reshape { shape: shape.into() }, operands: vec![floats(r, &from)] }
}

pub(super) fn permute(r: &mut Random) -> Instance {
    let shape = any_shape(r);
    Instance { kind: OpKind::Permute { perm: r.order(shape.len()) }, operands: vec![floats(r, &shape)] }
}

pub(super) fn broadcast(r: &mut Random) -> Instance {
    let shape = any_shape(r);
    let from: Vec<_> = shape.iter().map(|&n| r.pick(&[1, n])).collect();
    Instance { kind: OpKind::Broadcast { shape: shape.into() }, operands: vec![floats(r, &from)] }
}

pub(super) fn slice(r: &mut Random) -> Instance {
    let rank = 1 + r.below(3);
    let shape: Vec<_> = (0..rank).map(|_| r.below(7)).collect();
    let start: Vec<_> = shape.iter().map(|&n| r.below(n + 1)).collect();
    let limit = shape.iter().zip(&start).map(|(&n, &start)| start + r.below(n - start + 1)).collect();
    let step = shape.iter().map(|_| 1 + r.below(3)).collect();
    Instance { kind: OpKind::Slice { start, limit, step }, operands: vec![floats(r, &shape)] }
}

pub(super) fn windows(r: &mut Random) -> Instance {
    let axes = r.below(3);
    let lead = r.below(2);
    let mut shape = r.shape(lead);
    let (mut size, mut step, mut dilation) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..axes {
        let (elements, apart) = (1 + r.below(3), 1 + r.below(2));
        size.push(elements);
        dilation.push(apart);
        step.push(1 + r.below(3));
        shape.push((elements - 1) * apart + 1 + r.below(4));
    }
    Instance { kind: OpKind::Windows { size, step, dilation }, operands: vec![floats(r, &shape)] }
}

pub(super) fn conv(r: &mut Random) -> Instance {
    let axes = 1 + r.below(2);
    let groups = 1 + r.below(2);
    let (channels, outputs) = (1 + r.below(2), 1 + r.below(2));
    let mut draw = |low: usize, count: usize| (0..axes).map(|_| low + r.below(count)).collect::<Vec<_>>();
    let (stride, low, high, dilation) = (draw(1, 3), draw(0, 3), draw(0, 3), draw(1, 2));
    let (places, room) = (draw(1, 3), draw(0, 4));
    let extents: Vec<usize> = (0..axes)
        .map(|i| ((places[i] - 1) * dilation[i] + 1 + room[i]).saturating_sub(low[i] + high[i]).max(1))
        .collect();
    let batch = r.below(3);
    let x = floats(r, &[&[batch, channels * groups], &extents[..]].concat());
    let weights = floats(r, &[&[outputs * groups, channels], &places[..]].concat());
    let spec = ConvSpec { stride, low, high, dilation, groups };
    Instance { kind: OpKind::Conv(spec), operands: vec![x, weights] }
}

pub(super) fn pad(r: &mut Random) -> Instance {
    let shape = any_shape(r);
    let mut amounts = || shape.iter().map(|_| r.below(3)).collect::<Vec<_>>();
    let (low, high, interior) = (amounts(), amounts(), amounts());
    let value = Number::Float(1.5);
    Instance { kind: OpKind::Pad { low, high, interior, value }, operands: vec![floats(r, &shape)] }
}

pub(super) fn concat(r: &mut Random) -> Instance {
    let rank = 1 + r.below(3);
    let shape = r.shape(rank);
    let axis = r.below(rank);
    let parts = 1 + r.below(3);
    let mut part = || {
        let mut shape = shape.clone();
        shape[axis] = r.below(4);
        floats(r, &shape)
    };
    let operands = (0..parts).map(|_| part()).collect();
    Instance { kind: OpKind::Concat { axis }, operands }
}

/// Draws the shape of a tensor, the sizes of a window in it, and the window's start along each axis.
fn window(r: &mut Random) -> (Vec<usize>, Vec<usize>, Vec<Operand>) {
    let shape = any_shape(r);
    let sizes: Vec<_> = shape.iter().map(|&n| r.below(n + 1)).collect();
    let starts = shape.iter().zip(&sizes).map(|(&n, &size)| indices(r, &[], n - size + 1)).collect();
    (shape, sizes, starts)
}

pub(super) fn dynamic_slice(r: &mut Random) -> Instance {
    let (shape, sizes, starts) = window(r);
    let operands = [vec![floats(r, &shape)], starts].concat();
    Instance { kind: OpKind::DynamicSlice { sizes }, operands }
}

pub(super) fn dynamic_update_slice(r: &mut Random) -> Instance {
    let (shape, sizes, starts) = window(r);
    let operands = [vec![floats(r, &shape), floats(r, &sizes)], starts].concat();
    Instance { kind: OpKind::DynamicUpdateSlice, operands }
}

/// Draws the shape of a table, an operand of indices into it, and the shape of the rows that they select.
fn rows(r: &mut Random) -> (usize, Vec<usize>, Operand, Vec<usize>) {
    let (batch, count, rest) = (r.below(3), r.below(3), r.below(3));
    let [batch_shape, mut index_shape, rest] = [r.shape(batch), r.shape(count), r.shape(rest)];
    let rows = r.below(4);
    if rows == 0 {
        // Draw no index, because nothing can be read from an empty table.
        index_shape.push(0);
    }
    let table = [&batch_shape[..], &[rows], &rest].concat();
    let index = indices(r, &[&batch_shape[..], &index_shape].concat(), rows.max(1));
    let found = [&index.0.shape[..], &rest].concat();
    (batch, table, index, found)
}

pub(super) fn gather(r: &mut Random) -> Instance {
    let (batch, table, index, _) = rows(r);
    Instance { kind: OpKind::Gather { batch }, operands: vec![floats(r, &table), index] }
}

pub(super) fn scatter(r: &mut Random, op: ScatterOp) -> Instance {
    let (batch, table, index, found) = rows(r);
    assert_eq!(index.0.dtype, DType::I32);
    let operands = vec![floats(r, &table), index, floats(r, &found)];
    Instance { kind: OpKind::Scatter { op, batch }, operands }
}
