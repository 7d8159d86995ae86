//! Iteration over the indices of tensors.

/// Calls `visit` with the index of each element of a tensor with these extents, in row-major order. A tensor
/// of rank 0 has one element with an empty index.
pub(super) fn each_index(extents: &[usize], visit: &mut dyn FnMut(&[usize])) {
    if extents.contains(&0) {
        return;
    }
    let mut index = vec![0; extents.len()];
    loop {
        visit(&index);
        let Some(axis) = (0..extents.len()).rev().find(|&axis| index[axis] + 1 < extents[axis]) else {
            return;
        };
        index[axis] += 1;
        index[axis + 1..].fill(0);
    }
}

/// Returns the position of an index, given the strides.
pub(super) fn position(index: &[usize], strides: &[usize]) -> usize {
    index.iter().zip(strides).map(|(i, stride)| i * stride).sum()
}

/// Returns the positions of all elements along the given axes, in row-major order.
pub(super) fn positions(extents: &[usize], strides: &[usize], axes: &[usize]) -> Vec<usize> {
    let pick = |values: &[usize]| axes.iter().map(|&axis| values[axis]).collect::<Vec<_>>();
    let strides = pick(strides);
    let mut all = Vec::new();
    each_index(&pick(extents), &mut |index| all.push(position(index, &strides)));
    all
}
