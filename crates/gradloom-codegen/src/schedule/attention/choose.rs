//! The rule that shares rows out where nothing was measured.

use super::{Choice, Kernel, Lanes, Matrices, Problem, Tile, fits, suits};
use crate::limits::Limits;

/// Tiles, the best first; the first two want many workgroups.
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
/// For a few rows: all threads on the columns.
pub(super) const FEW_ROWS: Tile = Tile::new(1, 4, 8, 16);
/// For blocks of 32 rows that leave multiprocessors of a large CUDA device idle. On an H100, a step of S
/// takes 2% less with it.
const FEW_BLOCKS: Tile = Tile::new(2, 4, 8, 16);
/// Workgroups that keep a large GPU busy.
const MANY: usize = 256;
/// Keys (or queries) that one invocation goes through faster than a workgroup shares them.
const FEW: usize = 16;

/// Queries of a text that lanes of subgroups take one by one.
const FEW_QUERIES: usize = 4;

/// Returns the choice for a kernel on an adapter with these limits; `half` says that operands may be
/// rounded to 16 bits.
pub fn choose(kernel: Kernel, problem: &Problem, half: bool, limits: &Limits) -> Choice {
    let by_matrices = [32, 16].map(|columns| Choice::Matrices(Matrices { subgroup: 32, columns }));
    if half
        && problem.queries.min(problem.keys) >= Matrices::ROWS / 2
        && let Some(choice) =
            by_matrices.into_iter().find(|choice| suits(choice, kernel, problem, half, limits))
    {
        return choice;
    }
    if limits.branches
        && problem.queries <= FEW_QUERIES
        && problem.keys >= 4 * FEW
        && let Some(choice) = lanes(kernel, problem, half, limits)
    {
        return choice;
    }
    tile(kernel, problem, limits).map_or_else(|| own(kernel, problem, limits), Choice::Block)
}

/// Returns the choice of lanes of subgroups: as many for each query as keep a large GPU busy. On an H200,
/// the next token of GPT-2 124M takes 0.508 ms by 256 and 0.535 by 128 for 32 texts, which have 384
/// workgroups.
fn lanes(kernel: Kernel, problem: &Problem, half: bool, limits: &Limits) -> Option<Choice> {
    let groups = problem.batch * problem.key_heads * problem.queries;
    let most = match groups {
        _ if groups <= MANY / 2 => 512,
        _ if groups <= 2 * MANY => 256,
        _ => 128,
    };
    let choices = [512, 256, 128, 64, 32].into_iter().filter(|threads| *threads <= most);
    let mut choices = choices.map(|threads| Choice::Lanes(Lanes { threads, each: Lanes::FOUR }));
    choices.find(|choice| suits(choice, kernel, problem, half, limits))
}

/// Returns the tile of blocks, unless each invocation is to have rows of its own.
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

/// Returns the choice of rows for each invocation: a few on a device where loads are dear, while they fit
/// in a CPU's registers and compile soon.
pub(super) fn own(kernel: Kernel, problem: &Problem, limits: &Limits) -> Choice {
    let rows = match problem.depth.max(problem.value_depth) {
        _ if !limits.software || kernel.rows(problem) <= 8 => 1,
        ..=32 => 4,
        33..=64 => 2,
        _ => 1,
    };
    Choice::Own { rows }
}
