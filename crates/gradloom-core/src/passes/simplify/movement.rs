//! Views and data movement: identities, and merging of consecutive ops.

use super::super::definition;
use super::super::rewriter::Candidate;
use super::emit;
use crate::ir::{Builder, DotAxes, Id, OpKind, Shape, ValueId};

/// Simplifies a reduction over no axes or over axes of extent 1, which only removes axes.
pub(super) fn reduce(b: &mut Builder<'_>, axes: &[usize], x: ValueId) -> Option<ValueId> {
    let shape = b.shape(x);
    let trivial = axes.iter().all(|&axis| shape[axis] == 1);
    trivial.then(|| emit(b, OpKind::Reshape { shape: shape.without(axes) }, &[x]))
}

pub(super) fn reshape(b: &mut Builder<'_>, shape: &Shape, x: ValueId) -> Option<ValueId> {
    if b.graph.ty(x).shape == *shape {
        return Some(x);
    }
    match definition(b.graph, x)? {
        (OpKind::Reshape { .. }, inner) => {
            let inner = inner[0];
            Some(emit(b, OpKind::Reshape { shape: shape.clone() }, &[inner]))
        }
        _ => None,
    }
}

pub(super) fn permute(b: &mut Builder<'_>, perm: &[usize], x: ValueId) -> Option<ValueId> {
    if perm.is_sorted() {
        return Some(x);
    }
    let shape = b.shape(x);
    if perm.iter().filter(|&&axis| shape[axis] != 1).is_sorted() {
        // The order of elements is unchanged, so a reshape suffices.
        let shape = perm.iter().map(|&axis| shape[axis]).collect::<Vec<_>>().into();
        return Some(emit(b, OpKind::Reshape { shape }, &[x]));
    }
    match definition(b.graph, x)? {
        (OpKind::Permute { perm: first }, inner) => {
            let (perm, inner) = (perm.iter().map(|&axis| first[axis]).collect(), inner[0]);
            Some(emit(b, OpKind::Permute { perm }, &[inner]))
        }
        _ => None,
    }
}

/// Simplifies the transpose of a product that has no other use to the product of the swapped operands. This
/// allows the gradient of a table that is also an output layer to be added row by row to the table's other
/// gradient.
pub(super) fn transposed_dot(b: &mut Builder<'_>, uses: &[usize], op: &Candidate<'_>) -> Option<ValueId> {
    let OpKind::Permute { perm } = op.kind else { return None };
    let (OpKind::Dot(axes), x) = definition(b.graph, op.operands[0])? else { return None };
    if uses[op.old.operands[0].index()] != 1 {
        return None;
    }
    let batch = axes.lhs_batch.len();
    let rank = perm.len();
    let rows =
        batch + DotAxes::free(b.graph.ty(x[0]).shape.rank(), &axes.lhs_batch, &axes.lhs_contract).len();
    let swapped = (0..batch).chain(rows..rank).chain(batch..rows);
    if !perm.iter().copied().eq(swapped) {
        return None;
    }
    let DotAxes { lhs_batch, rhs_batch, lhs_contract, rhs_contract } = axes.clone();
    let axes = DotAxes {
        lhs_batch: rhs_batch,
        rhs_batch: lhs_batch,
        lhs_contract: rhs_contract,
        rhs_contract: lhs_contract,
    };
    let operands = [x[1], x[0]];
    Some(b.op(OpKind::Dot(axes), &operands))
}

pub(super) fn broadcast(b: &mut Builder<'_>, shape: &Shape, x: ValueId) -> Option<ValueId> {
    if b.graph.ty(x).shape == *shape {
        return Some(x);
    }
    match definition(b.graph, x)? {
        (OpKind::Broadcast { .. }, inner) => {
            let inner = inner[0];
            Some(emit(b, OpKind::Broadcast { shape: shape.clone() }, &[inner]))
        }
        _ => None,
    }
}

pub(super) fn slice(b: &mut Builder<'_>, [start, limit, step]: [&[usize]; 3], x: ValueId) -> Option<ValueId> {
    let shape = b.shape(x);
    let whole = |a: usize| start[a] == 0 && limit[a] == shape[a] && (step[a] == 1 || shape[a] <= 1);
    if (0..shape.rank()).all(whole) {
        return Some(x);
    }
    match definition(b.graph, x)? {
        // Element i of the outer slice is element start + i · step of the inner one.
        (OpKind::Slice { start: start1, step: step1, .. }, inner) => {
            let inner = inner[0];
            let axes = 0..shape.rank();
            let count = |a: usize| (limit[a] - start[a]).div_ceil(step[a]);
            let (mut starts, mut limits, mut steps) = (start1.clone(), start1.clone(), vec![1; shape.rank()]);
            // An empty slice starts where the inner one does, which is in range.
            for a in axes.filter(|&a| count(a) > 0) {
                starts[a] = start1[a] + start[a] * step1[a];
                // The last element is within the operand, so this cannot overflow. A step between fewer than
                // two elements might.
                if count(a) > 1 {
                    steps[a] = step[a] * step1[a];
                }
                limits[a] = starts[a] + (count(a) - 1) * steps[a] + 1;
            }
            Some(emit(b, OpKind::Slice { start: starts, limit: limits, step: steps }, &[inner]))
        }
        // If the slice reads only one of the concatenated tensors, slice that tensor instead.
        (OpKind::Concat { axis }, parts) => {
            let axis = *axis;
            let mut offset = 0;
            let part = *parts.iter().find(|&&part| {
                let end = offset + b.graph.ty(part).shape[axis];
                let is_first = start[axis] < end;
                offset = if is_first { offset } else { end };
                is_first
            })?;
            if limit[axis] > offset + b.graph.ty(part).shape[axis] {
                return None;
            }
            let (mut start, mut limit) = (start.to_vec(), limit.to_vec());
            start[axis] -= offset;
            limit[axis] -= offset;
            Some(emit(b, OpKind::Slice { start, limit, step: step.to_vec() }, &[part]))
        }
        _ => None,
    }
}

pub(super) fn pad(b: &mut Builder<'_>, [low, high, interior]: [&[usize]; 3], x: ValueId) -> Option<ValueId> {
    let shape = b.shape(x);
    let nothing = |a: usize| low[a] == 0 && high[a] == 0 && (interior[a] == 0 || shape[a] <= 1);
    (0..shape.rank()).all(nothing).then_some(x)
}

/// Maximum number of operands of a concatenation after merging nested ones. This avoids quadratic time for a
/// chain of concatenations and exponential growth for repeated doubling.
const MOST_PARTS: usize = 256;

pub(super) fn concat(b: &mut Builder<'_>, axis: usize, x: &[ValueId]) -> Option<ValueId> {
    // Flatten nested concatenations, and omit empty parts.
    let mut parts = Vec::with_capacity(x.len());
    for &value in x {
        match definition(b.graph, value) {
            Some((OpKind::Concat { axis: inner }, values))
                if *inner == axis && parts.len() + values.len() <= MOST_PARTS =>
            {
                parts.extend(values);
            }
            _ => parts.push(value),
        }
    }
    parts.retain(|&part| b.graph.ty(part).shape[axis] > 0);
    if parts.is_empty() {
        return Some(x[0]);
    }
    if let [part] = parts[..] {
        return Some(part);
    }
    if let Some(whole) = split_of(b, axis, &parts).or_else(|| concat_of_stack(b, axis, &parts)) {
        return Some(whole);
    }
    (parts != x).then(|| emit(b, OpKind::Concat { axis }, &parts))
}

/// Simplifies a stack, whose parts were reshaped to have an additional outer axis. The parts are concatenated
/// along their own outermost axis and then reshaped, so that other concatenations of them can share the
/// result.
fn concat_of_stack(b: &mut Builder<'_>, axis: usize, parts: &[ValueId]) -> Option<ValueId> {
    let mut inner = Vec::with_capacity(parts.len());
    let mut shape = b.shape(parts[0]).to_vec();
    shape[axis] = 0;
    for &part in parts {
        let (OpKind::Reshape { .. }, x) = definition(b.graph, part)? else { return None };
        inner.push(x[0]);
        shape[axis] += b.graph.ty(part).shape[axis];
    }
    let outermost = shape[..axis].iter().all(|&extent| extent == 1);
    let rows = |value: ValueId| b.graph.ty(value).shape.get(1..);
    let alike = rows(inner[0]).is_some() && inner.iter().all(|&x| rows(x) == rows(inner[0]));
    (outermost && alike).then(|| {
        let joined = emit(b, OpKind::Concat { axis: 0 }, &inner);
        emit(b, OpKind::Reshape { shape: shape.into() }, &[joined])
    })
}

/// Returns the tensor that was split into exactly these parts in this order, if any.
fn split_of(b: &Builder<'_>, axis: usize, parts: &[ValueId]) -> Option<ValueId> {
    let mut whole = None;
    let mut reached = 0;
    for &part in parts {
        let (OpKind::Slice { start, limit, step }, x) = definition(b.graph, part)? else { return None };
        let shape = &b.graph.ty(x[0]).shape;
        let full = |a: usize| start[a] == 0 && limit[a] == shape[a];
        let fits = (0..shape.rank()).all(|a| step[a] == 1 && (a == axis || full(a)));
        if *whole.get_or_insert(x[0]) != x[0] || !fits || start[axis] != reached {
            return None;
        }
        reached = limit[axis];
    }
    whole.filter(|&x| b.graph.ty(x).shape[axis] == reached)
}
