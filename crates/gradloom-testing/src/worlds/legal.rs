//! Enumerates every legal next step of a program: each op with each legal argument, on each existing value.

use super::op::{Function, Op, Pair, Reduction, Sliding, broadcast_shape};
use super::{Operand, Step};

/// Maximum extent in parameters, reshapes and broadcasts.
const EXTENT: usize = 3;
/// Maximum number of elements of a result.
const ELEMENTS: usize = 64;
/// Maximum rank of a result.
const RANK: usize = 4;

/// Returns every shape of a rank with extents from 0 to `extent`.
pub(super) fn shapes(rank: usize, extent: usize) -> Vec<Vec<usize>> {
    let mut all = Vec::new();
    super::dual::each_index(&vec![extent + 1; rank], |index| all.push(index.to_vec()));
    all
}

/// Returns every legal step on values of these shapes, of which the last is the newest.
pub(super) fn steps(shapes: &[Vec<usize>]) -> Vec<Step> {
    let mut all = Vec::new();
    for (number, shape) in shapes.iter().enumerate() {
        let value = Operand::Value(number);
        let mut ops = movement(shape);
        ops.extend(reductions(shape));
        ops.extend([Function::Triple, Function::Tanh, Function::Exp, Function::Relu].map(Op::Unary));
        ops.extend(pools(shape));
        all.extend(ops.into_iter().map(|op| Step { op, operands: vec![value.clone()] }));
        for (op, fresh) in with_parameter(shape) {
            all.push(Step { op, operands: vec![value.clone(), Operand::Fresh(fresh)] });
        }
        // Both orders of two values occur, because the outer loop visits each value.
        for (other, second) in shapes.iter().enumerate() {
            for op in pairs(shape, second) {
                all.push(Step { op, operands: vec![value.clone(), Operand::Value(other)] });
            }
        }
    }
    all.retain(|step| {
        let operands: Vec<&[usize]> = step.operands.iter().map(|operand| operand.shape(shapes)).collect();
        let result = result_shape(&step.op, &operands);
        result.len() <= RANK && result.iter().product::<usize>() <= ELEMENTS
    });
    all
}

pub(super) fn result_shape(op: &Op, operands: &[&[usize]]) -> Vec<usize> {
    let mut shape = operands[0].to_vec();
    match op {
        Op::Reshape(to) | Op::Broadcast(to) => return to.clone(),
        Op::Permute(order) => return order.iter().map(|&axis| shape[axis]).collect(),
        &Op::Slice { axis, start, end, step } => shape[axis] = (end - start).div_ceil(step),
        &Op::Pad { axis, low, high } => shape[axis] += low + high,
        &Op::Unfold { axis, size, step } => {
            shape[axis] = (shape[axis] - size) / step + 1;
            shape.push(size);
        }
        Op::Binary(_) => {
            return broadcast_shape(operands[0], operands[1]).expect("only legal pairs are made");
        }
        Op::Reduce { axes, .. } => {
            let mut axis = 0;
            shape.retain(|_| {
                axis += 1;
                !axes.contains(&(axis - 1))
            });
        }
        Op::Matmul => *shape.last_mut().expect("matrices") = operands[1][operands[1].len() - 1],
        &Op::Concat(axis) => shape[axis] += operands[1][axis],
        &Op::Stack(axis) => shape.insert(axis, 2),
        Op::IndexSelect { axis, index } => shape[*axis] = index.len(),
        Op::Conv(window) | Op::MaxPool(window) | Op::MeanPool(window) => {
            let lead = shape.len() - window.axes;
            for extent in &mut shape[lead..] {
                *extent = window.count(*extent).expect("only legal windows are made");
            }
            if matches!(op, Op::Conv(_)) {
                shape[1] = operands[1][0];
            }
        }
        Op::Flip(_)
        | Op::Roll { .. }
        | Op::Unary(_)
        | Op::CumulativeSum(_)
        | Op::Softmax(_)
        | Op::ScatterAdd { .. }
        | Op::Scatter { .. } => {}
    }
    shape
}

fn movement(shape: &[usize]) -> Vec<Op> {
    let (rank, elements) = (shape.len(), shape.iter().product::<usize>());
    let mut ops = Vec::new();
    // Of the many shapes without elements, include only a few.
    let few = [vec![0], vec![0, 2], vec![3, 0], vec![1, 0, 1]];
    let reshaped = (0..=3).flat_map(|rank| shapes(rank, EXTENT)).chain([vec![elements]]);
    let fits = |to: &Vec<usize>| {
        to.iter().product::<usize>() == elements && (elements > 0 || few.contains(to)) && to != shape
    };
    ops.extend(reshaped.filter(fits).map(Op::Reshape));
    ops.extend(permutations(rank).into_iter().skip(1).map(Op::Permute));
    if rank < RANK {
        ops.extend([0, 1, 2].map(|extent| Op::Broadcast([&[extent], shape].concat())));
    }
    let ones: Vec<usize> = (0..rank).filter(|&axis| shape[axis] == 1).collect();
    for extent in [0, 2, 3] {
        for &axis in &ones {
            let mut to = shape.to_vec();
            to[axis] = extent;
            ops.push(Op::Broadcast(to));
        }
    }
    if ones.len() > 1 {
        ops.push(Op::Broadcast(shape.iter().map(|&n| if n == 1 { 2 } else { n }).collect()));
    }
    for (axis, &n) in shape.iter().enumerate() {
        for start in 0..=n {
            for end in start..=n {
                let steps = 1..=(end - start).max(1);
                let whole = |step: usize| end - start == n && step == 1;
                let sliced = steps.filter(|&step| !whole(step));
                ops.extend(sliced.map(|step| Op::Slice { axis, start, end, step }));
            }
        }
        ops.extend([(1, 0), (0, 2), (1, 1)].map(|(low, high)| Op::Pad { axis, low, high }));
        for size in 1..=n {
            ops.extend((1..=n).map(|step| Op::Unfold { axis, size, step }));
        }
        if n > 0 {
            ops.push(Op::Flip(axis));
            ops.extend([-1, 2].map(|shift| Op::Roll { axis, shift }));
        }
        ops.extend(index_lists(n).into_iter().map(|index| Op::IndexSelect { axis, index }));
    }
    ops
}

/// Returns lists of indices along an axis: none, the first, the last before the first, and one index twice.
fn index_lists(extent: usize) -> Vec<Vec<usize>> {
    match extent {
        0 => vec![vec![]],
        1 => vec![vec![], vec![0], vec![0, 0]],
        n => vec![vec![], vec![0], vec![n - 1, 0], vec![0, n - 1, 0]],
    }
}

fn reductions(shape: &[usize]) -> Vec<Op> {
    let rank = shape.len();
    let mut ops = Vec::new();
    for mask in 1..1_usize << rank {
        let axes: Vec<usize> = (0..rank).filter(|axis| mask & (1 << axis) != 0).collect();
        ops.push(Op::Reduce { op: Reduction::Sum, axes: axes.clone() });
        if axes.len() == 1 || axes.len() == rank {
            let others = [Reduction::Mean, Reduction::Prod, Reduction::Max];
            ops.extend(others.map(|op| Op::Reduce { op, axes: axes.clone() }));
        }
    }
    ops.extend((0..rank).map(Op::CumulativeSum));
    ops.extend((0..rank).map(Op::Softmax));
    ops
}

/// Returns the windows that fit the last `axes` axes of a shape.
fn windows(shape: &[usize], axes: usize, dilations: usize) -> Vec<Sliding> {
    let mut all = Vec::new();
    let spatial = &shape[shape.len() - axes..];
    for size in 1..=EXTENT {
        for (stride, padding) in (1..=EXTENT).flat_map(|stride| (0..=1).map(move |p| (stride, p))) {
            for dilation in 1..=dilations.min(size) {
                let window = Sliding { axes, size, stride, padding, dilation };
                if spatial.iter().all(|&n| window.count(n).is_some()) {
                    all.push(window);
                }
            }
        }
    }
    all
}

fn pools(shape: &[usize]) -> Vec<Op> {
    let mut ops = Vec::new();
    for axes in 1..=shape.len().min(2) {
        // Exclude windows of which more than half is padding.
        let sound = windows(shape, axes, 1).into_iter().filter(|window| window.padding <= window.size / 2);
        ops.extend(sound.flat_map(|window| [Op::MaxPool(window), Op::MeanPool(window)]));
    }
    ops
}

/// Returns the ops that take a new parameter, with the shape of the parameter.
fn with_parameter(shape: &[usize]) -> Vec<(Op, Vec<usize>)> {
    let rank = shape.len();
    let mut all = Vec::new();
    for pair in [Pair::Add, Pair::Mul] {
        let mut operands = vec![shape.to_vec(), vec![]];
        if let Some((&last, lead)) = shape.split_last() {
            operands.extend([vec![last], [lead, &[1]].concat()]);
        }
        operands.sort();
        operands.dedup();
        all.extend(operands.into_iter().map(|operand| (Op::Binary(pair), operand)));
    }
    if rank >= 2 {
        all.extend((0..=EXTENT).map(|columns| (Op::Matmul, vec![shape[rank - 1], columns])));
    }
    for axis in 0..rank {
        let mut one = shape.to_vec();
        one[axis] = 1;
        all.push((Op::Concat(axis), one));
        for index in index_lists(shape[axis]).into_iter().filter(|index| index.len() != 1) {
            let mut updates = shape.to_vec();
            updates[axis] = index.len();
            all.push((Op::ScatterAdd { axis, index: index.clone() }, updates.clone()));
            all.push((Op::Scatter { axis, index }, updates));
        }
    }
    for axes in [1, 2].into_iter().filter(|axes| axes + 2 == rank) {
        for window in windows(shape, axes, 2) {
            let kernel = vec![window.size; axes];
            all.extend(
                [1, 2].map(|outputs| (Op::Conv(window), [&[outputs, shape[1]], &kernel[..]].concat())),
            );
        }
    }
    all
}

/// Returns the ops of two existing values.
fn pairs(a: &[usize], b: &[usize]) -> Vec<Op> {
    let mut ops = Vec::new();
    if broadcast_shape(a, b).is_some() {
        ops.extend([Pair::Add, Pair::Sub, Pair::Mul, Pair::Max].map(Op::Binary));
    }
    if a.len() >= 2 && b.len() >= 2 && a[a.len() - 1] == b[b.len() - 2] {
        let batches = a.len() == b.len() && a[..a.len() - 2] == b[..b.len() - 2];
        if b.len() == 2 || batches {
            ops.push(Op::Matmul);
        }
    }
    ops.extend(concats(a, b));
    if a == b {
        ops.extend((0..=a.len()).map(Op::Stack));
    }
    ops
}

/// Returns the concatenations of two values along one of their axes.
pub(super) fn concats(a: &[usize], b: &[usize]) -> Vec<Op> {
    let others_agree = |axis: usize| (0..a.len()).all(|other| other == axis || a[other] == b[other]);
    let axes = if a.len() == b.len() { a.len() } else { 0 };
    (0..axes).filter(|&axis| others_agree(axis)).map(Op::Concat).collect()
}

/// Returns every view and every sum of one value.
pub(super) fn views(value: &Operand, shape: &[usize]) -> Vec<Step> {
    let mut ops = movement(shape);
    ops.retain(|op| !matches!(op, Op::IndexSelect { .. }));
    ops.extend(
        reductions(shape).into_iter().filter(|op| matches!(op, Op::Reduce { op: Reduction::Sum, .. })),
    );
    ops.into_iter().map(|op| Step { op, operands: vec![value.clone()] }).collect()
}

/// Returns the permutations of `rank` axes, the identity first.
fn permutations(rank: usize) -> Vec<Vec<usize>> {
    if rank == 0 {
        return vec![vec![]];
    }
    let mut all = Vec::new();
    for shorter in permutations(rank - 1) {
        for place in (0..rank).rev() {
            let mut order = shorter.clone();
            order.insert(place, rank - 1);
            all.push(order);
        }
    }
    all
}
