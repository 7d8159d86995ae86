//! Choices for attention that are worth measuring.
//!
//! In: a kernel, its problem, and the limits. Out: choices, starting with that of [`choose`]. Invariant: all
//! choices suit the limits, and no two are equal.

use super::choose::{FEW_ROWS, TILES, choose, own};
use super::{Choice, Kernel, Matrices, Problem, suits};
use crate::limits::Limits;
use gradloom_core::ir::DType;

/// Maximum number of elements of all rows that an invocation of a software device keeps. A larger number
/// takes long to compile.
const OWN: usize = 128;

/// Returns the choices for a kernel on a device with these limits, starting with that of [`choose`]. On a
/// device that computes on a CPU, no other choice uses blocks, because barriers cost more there than sharing
/// saves, and the device's compiler takes minutes for some blocks.
pub fn candidates(
    kernel: Kernel,
    problem: &Problem,
    operands: Option<DType>,
    limits: &Limits,
) -> Vec<Choice> {
    let mut all = vec![choose(kernel, problem, operands, limits)];
    let others = if limits.software { several(problem) } else { blocks(kernel, problem, limits) };
    for choice in others {
        if suits(&choice, kernel, problem, operands, limits) && !all.contains(&choice) {
            all.push(choice);
        }
    }
    all
}

/// Returns choices with a few rows per invocation.
fn several(problem: &Problem) -> Vec<Choice> {
    let width = problem.depth.max(problem.value_depth);
    [1, 2, 4].into_iter().filter(|rows| rows * width <= OWN).map(|rows| Choice::Own { rows }).collect()
}

/// Returns choices with blocks that are at least half full, with one row per invocation, and with matrix
/// instructions.
fn blocks(kernel: Kernel, problem: &Problem, limits: &Limits) -> Vec<Choice> {
    let rows = kernel.rows(problem);
    let tiles =
        TILES.into_iter().chain([FEW_ROWS]).filter(|tile| tile.rows() <= 16 || tile.rows() < 2 * rows);
    let matrices = [16, 32].map(|columns| Choice::Matrices(Matrices { subgroup: 32, columns }));
    tiles.map(Choice::Block).chain([own(kernel, problem, limits)]).chain(matrices).collect()
}
