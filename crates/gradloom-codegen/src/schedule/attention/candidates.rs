//! Choices that are worth measuring for attention.
//!
//! In: a kernel, its extents, the limits. Out: choices, the rule's first. Always holds: they fit, and differ.

use super::choose::{FEW_ROWS, TILES, choose, own};
use super::{Choice, Kernel, Matrices, Problem, suits};
use crate::limits::Limits;

/// Elements of its own rows that an invocation of a software device keeps, at most: more take long to
/// compile.
const OWN: usize = 128;

/// Returns the choices for a kernel on an adapter with these limits, the rule's first. Devices that compute
/// on a CPU have no blocks: barriers cost more than sharing saves there, and their compilers take minutes
/// for some.
pub fn candidates(kernel: Kernel, problem: &Problem, half: bool, limits: &Limits) -> Vec<Choice> {
    let mut all = vec![choose(kernel, problem, half, limits)];
    let others = if limits.software { several(problem) } else { blocks(kernel, problem, limits) };
    for choice in others {
        if suits(&choice, kernel, problem, half, limits) && !all.contains(&choice) {
            all.push(choice);
        }
    }
    all
}

/// Returns choices with some rows for each invocation.
fn several(problem: &Problem) -> Vec<Choice> {
    let width = problem.depth.max(problem.value_depth);
    [1, 2, 4].into_iter().filter(|rows| rows * width <= OWN).map(|rows| Choice::Own { rows }).collect()
}

/// Returns choices with blocks of which no more than half is empty, with a row for each invocation, and
/// with matrix instructions.
fn blocks(kernel: Kernel, problem: &Problem, limits: &Limits) -> Vec<Choice> {
    let rows = kernel.rows(problem);
    let tiles =
        TILES.into_iter().chain([FEW_ROWS]).filter(|tile| tile.rows() <= 16 || tile.rows() < 2 * rows);
    let matrices = [16, 32].map(|columns| Choice::Matrices(Matrices { subgroup: 32, columns }));
    tiles.map(Choice::Block).chain([own(kernel, problem, limits)]).chain(matrices).collect()
}
