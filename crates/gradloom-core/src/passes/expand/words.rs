//! Expansion of 64-bit numbers to pairs of words, since kernels do not support them.
//!
//! Ops that move i64 values or convert from or to i64 become ops on i32 with an additional last axis, which
//! contains the low and the high word. The remaining i64 values are leaves, conversions between words and
//! i64, and operands of blocks that are not inlined yet.

use crate::ir::{BinaryOp, Builder, DType, Graph, Literal, Number, OpKind, Shape, Type, ValueId, words_of};

/// Appends the replacement of an op with i64 operands or results. Returns `None` if the op is unchanged.
pub(super) fn expand(b: &mut Builder<'_>, kind: &OpKind, operands: &[ValueId]) -> Option<ValueId> {
    let is_i64 = |b: &Builder<'_>, x: ValueId| b.graph.ty(x).dtype == DType::I64;
    match (kind, operands) {
        (OpKind::Constant { ty, data }, _) if ty.dtype == DType::I64 => {
            let words = constant(b, &ty.shape, data);
            return Some(b.op(OpKind::Words, &[words]));
        }
        // Two inverse conversions cancel, so return the operand of the first.
        (OpKind::Words, &[x]) => return of_words(b, x),
        (OpKind::Cast { dtype: DType::I32 }, &[x]) if is_i64(b, x) => return Some(checked(b, x)),
        (OpKind::Cast { dtype: DType::I64 }, &[x]) => return Some(extended(b, x)),
        (OpKind::Barrier | OpKind::Repeat { .. } | OpKind::Checkpoint { .. }, _) => return None,
        _ if !operands.iter().any(|&x| is_i64(b, x)) => return None,
        _ => {}
    }
    let mut x: Vec<ValueId> = operands.iter().map(|&x| if is_i64(b, x) { words(b, x) } else { x }).collect();
    let with = |list: &[usize], last: usize| [list, &[last]].concat();
    let shape = |shape: &Shape| Shape::from(with(shape, 2));
    let moved = match kind {
        OpKind::Reshape { shape: of } => b.op(OpKind::Reshape { shape: shape(of) }, &x),
        OpKind::Broadcast { shape: of } => b.op(OpKind::Broadcast { shape: shape(of) }, &x),
        OpKind::Permute { perm } => b.op(OpKind::Permute { perm: with(perm, perm.len()) }, &x),
        OpKind::Slice { start, limit, step } => {
            b.op(OpKind::Slice { start: with(start, 0), limit: with(limit, 2), step: with(step, 1) }, &x)
        }
        OpKind::Windows { .. } => {
            // Windows are over the last axes, so move the words to the front.
            let rank = b.shape(x[0]).rank() - 1;
            let first = b.op(OpKind::Permute { perm: [rank].into_iter().chain(0..rank).collect() }, &x);
            let windows = b.op(kind.clone(), &[first]);
            let perm = (1..b.shape(windows).rank()).chain([0]).collect();
            b.op(OpKind::Permute { perm }, &[windows])
        }
        OpKind::Pad { low, high, interior, value } => {
            // XOR with the padding value before and after, so that padding with zeros yields the padding
            // value.
            let number = repeated(b, &b.shape(x[0]), *value);
            let differs = b.binary(BinaryOp::Xor, x[0], number);
            let (low, high, interior) = (with(low, 0), with(high, 0), with(interior, 0));
            let zero = Number::of(DType::I32, 0.0);
            let padded = b.op(OpKind::Pad { low, high, interior, value: zero }, &[differs]);
            let number = repeated(b, &b.shape(padded), *value);
            b.binary(BinaryOp::Xor, padded, number)
        }
        OpKind::Select => {
            let to = b.shape(x[1]);
            let condition = b.reshape(x[0], with(&to[..to.rank() - 1], 1));
            let condition = b.broadcast(condition, &to);
            b.select(condition, x[1], x[2])
        }
        OpKind::DynamicSlice { sizes } => {
            x.push(b.splat(&Type::scalar(DType::I32), 0.0));
            b.op(OpKind::DynamicSlice { sizes: with(sizes, 2) }, &x)
        }
        OpKind::DynamicUpdateSlice => {
            x.push(b.splat(&Type::scalar(DType::I32), 0.0));
            b.op(OpKind::DynamicUpdateSlice, &x)
        }
        // The words are on the last axis, so indices of rows and of concatenated axes are unchanged.
        kind => b.op(kind.clone(), &x),
    };
    Some(b.op(OpKind::Words, &[moved]))
}

/// Replaces region updates of i64 states by whole updates, because a region has a start for each axis of its
/// target but none for the words.
pub(super) fn expand_updates(graph: &mut Graph) {
    let mut whole: Vec<crate::ir::Update> = Vec::new();
    for update in std::mem::take(&mut graph.updates) {
        let target = update.target;
        let (Some(starts), DType::I64) = (&update.region, graph.ty(target).dtype) else {
            whole.push(update);
            continue;
        };
        // Apply regions in order, since later regions overwrite earlier ones.
        let earlier = whole.iter().position(|before| before.target == target);
        let x = earlier.map_or(target, |i| whole[i].value);
        let mut b = Builder::new(graph, None);
        let operands = [&[x, update.value], &starts[..]].concat();
        let value = expand(&mut b, &OpKind::DynamicUpdateSlice, &operands).expect("it moves i64");
        match earlier {
            Some(i) => whole[i].value = value,
            None => whole.push(crate::ir::Update { value, region: None, ..update }),
        }
    }
    graph.updates = whole;
}

/// Returns the operand of the `Words` op that defines `x`, if any.
fn of_words(b: &Builder<'_>, x: ValueId) -> Option<ValueId> {
    b.graph.defining_op(x).filter(|op| op.kind == OpKind::Words).map(|op| op.operands[0])
}

fn words(b: &mut Builder<'_>, x: ValueId) -> ValueId {
    of_words(b, x).unwrap_or_else(|| b.op(OpKind::Words, &[x]))
}

fn constant(b: &mut Builder<'_>, shape: &Shape, data: &Literal) -> ValueId {
    let ty = Type::new(DType::I64, shape.clone()).in_words();
    let numbers = match data {
        Literal::Splat(number) => return repeated(b, &ty.shape, *number),
        Literal::Dense(numbers) => numbers,
    };
    let data = Literal::Dense(numbers.iter().flat_map(|number| words_of(*number)).collect());
    b.op(OpKind::Constant { ty, data }, &[])
}

/// Appends the words of one number, broadcast to a shape whose last axis is that of the words.
fn repeated(b: &mut Builder<'_>, shape: &Shape, number: Number) -> ValueId {
    let words = words_of(number);
    if words[0] == words[1] {
        let ty = Type::new(DType::I32, shape.clone());
        return b.op(OpKind::Constant { ty, data: Literal::Splat(words[0]) }, &[]);
    }
    let mut one = vec![1; shape.rank()];
    one[shape.rank() - 1] = 2;
    let ty = Type::new(DType::I32, one);
    let pair = b.op(OpKind::Constant { ty, data: Literal::Dense(words.into()) }, &[]);
    b.broadcast(pair, shape)
}

/// Appends the conversion of i64 to i32. A number out of range traps: the low word is gathered from a row of
/// one element, at an index that is 0 only if the high word is the sign extension of the low word.
fn checked(b: &mut Builder<'_>, x: ValueId) -> ValueId {
    let (shape, words) = (b.shape(x), words(b, x));
    let half = |b: &mut Builder<'_>, i: usize| {
        let (mut start, mut limit) = (vec![0; shape.rank()], shape.to_vec());
        start.push(i);
        limit.push(i + 1);
        let step = vec![1; limit.len()];
        b.op(OpKind::Slice { start, limit, step }, &[words])
    };
    let (low, high) = (half(b, 0), half(b, 1));
    let (flat, high) = (b.reshape(low, shape.clone()), b.reshape(high, shape.clone()));
    let sign = sign(b, flat);
    let index = b.binary(BinaryOp::Xor, high, sign);
    b.op(OpKind::Gather { batch: shape.rank() }, &[low, index])
}

/// Appends the conversion of i32 or u32 to i64.
fn extended(b: &mut Builder<'_>, x: ValueId) -> ValueId {
    let ty = b.ty(x);
    let low = b.cast(x, DType::I32);
    let high = if ty.dtype == DType::I32 { sign(b, low) } else { b.splat_like(low, 0.0) };
    let axis = ty.shape.rank();
    let halves = [low, high].map(|half| b.reshape(half, [&ty.shape[..], &[1]].concat()));
    let words = b.op(OpKind::Concat { axis }, &halves);
    b.op(OpKind::Words, &[words])
}

/// Appends the sign of each element: all bits are 1 if it is negative, otherwise 0.
fn sign(b: &mut Builder<'_>, x: ValueId) -> ValueId {
    let bits = b.splat_like(x, 31.0);
    b.binary(BinaryOp::Shr, x, bits)
}
