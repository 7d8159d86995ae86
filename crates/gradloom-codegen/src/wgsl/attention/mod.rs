//! Scaled dot-product attention and its gradient, without a matrix of all scores in memory.
//!
//! In: operands and results in any layout. Out: one shader; two for the gradient, the second of which needs what the first left. Blocks of
//! queries and keys meet in workgroup memory; where that does not fit or pay, each invocation has a query of its own.
//! Always holds: sums run over keys (and for dk, dv over queries) in an order that the extents and the limits alone decide; what a query does not
//! see changes nothing, and a query that sees no key gives 0 and a log-sum-exp of -inf.

mod backward;
mod forward;
mod problem;
mod shares;
mod single;
mod single_grad;
mod tile;

use super::source::Source;
use super::{Dispatch, Limits, Operands};
use gradloom_core::ir::AttentionSpec;
use gradloom_core::kernel::Access;
use problem::Problem;
use tile::Tile;

/// Bytes of scratch that the gradient needs: a number for each query.
pub(crate) fn grad_workspace(spec: &AttentionSpec, reads: &[Access]) -> usize {
    let shape = |read: usize| &reads[read].layout.shape[..];
    means_bytes(&Problem::new(spec, [shape(0), shape(1), shape(2)], None))
}

fn means_bytes(problem: &Problem) -> usize {
    4 * (problem.pairs() * problem.queries).max(1)
}

/// The shader of `Attention`.
pub(crate) fn attention(source: Source<'_>, spec: &AttentionSpec) -> Vec<Dispatch> {
    let problem = Problem::of(spec, &source);
    let label = "attention";
    match choose(&problem, source.limits, problem.queries, problem.pairs(), forward::bytes) {
        Some(tile) => forward::forward(source, &problem, tile, label),
        None => single::forward(source, &problem, label),
    }
}

/// The shaders of `AttentionGrad`.
pub(crate) fn attention_grad(
    operands: &Operands,
    limits: &Limits,
    gated: bool,
    launch: usize,
    spec: &AttentionSpec,
) -> Vec<Dispatch> {
    let source = || Source::new(operands, limits, gated, launch);
    let problem = Problem::of(spec, &source());
    let label = "attention_grad: queries";
    let mut shaders = match choose(&problem, limits, problem.queries, problem.pairs(), backward::query_bytes)
    {
        Some(tile) => backward::queries(source(), &problem, tile, label),
        None => single_grad::queries(source(), &problem, label),
    };
    let label = "attention_grad: keys";
    let key_pairs = problem.batch * problem.key_heads;
    shaders.extend(match choose(&problem, limits, problem.keys, key_pairs, backward::key_bytes) {
        Some(tile) => backward::keys(source(), &problem, tile, label),
        None => single_grad::keys(source(), &problem, label),
    });
    shaders
}

/// Tiles, the best first; the first two want many workgroups.
const TILES: [Tile; 8] = [
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
const FEW_ROWS: Tile = Tile::new(1, 4, 8, 16);
/// Workgroups that keep a large GPU busy.
const MANY: usize = 256;
/// Keys (or queries) that one invocation goes through faster than a workgroup shares them.
const FEW: usize = 16;

/// The tile for blocks of `rows` out of each of `pairs`, or none if each invocation has a row of its own.
fn choose(
    problem: &Problem,
    limits: &Limits,
    rows: usize,
    pairs: usize,
    bytes: impl Fn(&Problem, &Tile) -> usize,
) -> Option<Tile> {
    let extents = [rows, pairs, problem.queries, problem.keys, problem.depth, problem.value_depth];
    let few = problem.keys.max(problem.queries) <= FEW;
    if limits.software || few || extents.contains(&0) {
        return None;
    }
    let fits = |tile: &&Tile| {
        tile.threads() <= limits.invocations as usize
            && bytes(problem, tile) <= limits.workgroup_memory as usize
    };
    if rows <= FEW_ROWS.rows() && fits(&&FEW_ROWS) {
        return Some(FEW_ROWS);
    }
    let fills = |tile: &&Tile| tile.rows() <= 32 || pairs * rows.div_ceil(tile.rows()) >= MANY;
    TILES.iter().filter(fits).find(fills).copied()
}
