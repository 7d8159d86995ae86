//! The rule that chooses how to compute attention if nothing was measured.

use super::{Choice, Kernel, Lanes, Matrices, Problem, Tile, fits, suits};
use crate::limits::Limits;
use gradloom_core::ir::DType;

/// Tiles, best first. The first two need many workgroups.
pub(super) const TILES: [Tile; 8] = [
    Tile::new(4, 4, 16, 8),
    Tile::new(8, 4, 8, 8),
    Tile::new(2, 4, 16, 8),
    Tile::new(2, 4, 8, 8),
    Tile::new(2, 4, 8, 4),
    Tile::new(1, 4, 8, 4),
    Tile::new(1, 2, 8, 4),
    Tile::new(1, 2, 4, 4),
];
/// Tile for few rows, with twice as many threads along the columns as along the rows.
pub(super) const FEW_ROWS: Tile = Tile::new(1, 4, 8, 16);
/// Tile for problems in which blocks of 32 rows would leave multiprocessors of a large CUDA device idle. On
/// an H100, a step of S takes 2% less time with it.
const FEW_BLOCKS: Tile = Tile::new(2, 4, 8, 16);
/// Number of workgroups that keep a large GPU busy.
pub(super) const MANY: usize = 256;
/// Maximum number of keys (or queries) that one invocation processes faster than a workgroup that shares
/// them.
const FEW: usize = 16;

/// Maximum number of queries per text for lanes of subgroups, which process one query at a time.
const FEW_QUERIES: usize = 4;

/// Returns the choice for a kernel on a device with these limits. `operands` is the type to which operands
/// of matrix instructions may be rounded.
pub fn choose(kernel: Kernel, problem: &Problem, operands: Option<DType>, limits: &Limits) -> Choice {
    let by_matrices = [32, 16].map(|columns| Choice::Matrices(Matrices { subgroup: 32, columns }));
    if operands.is_some()
        && problem.queries.min(problem.keys) >= Matrices::ROWS / 2
        && let Some(choice) =
            by_matrices.into_iter().find(|choice| suits(choice, kernel, problem, operands, limits))
    {
        return choice;
    }
    if limits.branches
        && problem.queries <= FEW_QUERIES
        && problem.keys >= 4 * FEW
        && let Some(choice) = lanes(kernel, problem, operands, limits)
    {
        return choice;
    }
    tile(kernel, problem, limits).map_or_else(|| own(kernel, problem, limits), Choice::Block)
}

/// Returns the choice of lanes of subgroups, with as many invocations per query as keep a large GPU busy. On
/// an H200, the next token of GPT-2 124M for 32 texts, which need 384 workgroups, takes 0.508 ms with 256
/// invocations and 0.535 ms with 128.
fn lanes(kernel: Kernel, problem: &Problem, operands: Option<DType>, limits: &Limits) -> Option<Choice> {
    let groups = problem.batch * problem.key_heads * problem.queries;
    let most = match groups {
        _ if groups <= MANY / 2 => 512,
        _ if groups <= 2 * MANY => 256,
        _ => 128,
    };
    let choices = [512, 256, 128, 64, 32].into_iter().filter(|threads| *threads <= most);
    let mut choices = choices.map(|threads| Choice::Lanes(Lanes { threads, each: Lanes::FOUR }));
    choices.find(|choice| suits(choice, kernel, problem, operands, limits))
}

/// Returns the tile of blocks, or `None` if each invocation should compute whole rows.
fn tile(kernel: Kernel, problem: &Problem, limits: &Limits) -> Option<Tile> {
    let (rows, pairs) = (kernel.rows(problem), kernel.pairs(problem));
    let extents = [rows, pairs, problem.queries, problem.keys, problem.depth, problem.value_depth];
    let few = problem.keys.max(problem.queries) <= FEW;
    if limits.software || few || extents.contains(&0) {
        return None;
    }
    let fits = |tile: &&Tile| fits(kernel, problem, tile, limits);
    if rows <= FEW_ROWS.rows() && fits(&&FEW_ROWS) {
        return Some(FEW_ROWS);
    }
    if limits.branches && pairs * rows.div_ceil(32) <= MANY / 2 && fits(&&FEW_BLOCKS) {
        return Some(FEW_BLOCKS);
    }
    let fills = |tile: &&Tile| tile.rows() <= 32 || pairs * rows.div_ceil(tile.rows()) >= MANY;
    TILES.iter().filter(fits).find(fills).copied()
}

/// Returns the choice of rows per invocation. On a software device, where loads are expensive, an invocation
/// computes several rows if they fit in the CPU's registers and compile quickly.
pub(super) fn own(kernel: Kernel, problem: &Problem, limits: &Limits) -> Choice {
    let rows = match problem.depth.max(problem.value_depth) {
        _ if !limits.software || kernel.rows(problem) <= 8 => 1,
        ..=32 => 4,
        33..=64 => 2,
        _ => 1,
    };
    Choice::Own { rows }
}
