//! The kernels of attention, and the ways to compute each.

use super::problem::Problem;
use super::tile::Tile;
use super::{backward, forward, single, single_grad};
use crate::wgsl::source::Source;
use crate::wgsl::{Dispatch, Limits};

/// A shader of attention or of its gradient.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kernel {
    /// Output and log-sum-exp.
    Forward,
    /// Of the gradient: dq, and for the next one the product of each query's output with its cotangent.
    Queries,
    /// Of the gradient: dk and dv.
    Keys,
}

impl Kernel {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Forward, Self::Queries, Self::Keys];

    /// What its dispatches are called.
    pub fn label(self) -> &'static str {
        match self {
            Self::Forward => "attention",
            Self::Queries => "attention_grad: queries",
            Self::Keys => "attention_grad: keys",
        }
    }

    /// The rows that are shared out: of queries, or of keys, out of each sequence and head.
    pub(super) fn rows(self, problem: &Problem) -> usize {
        match self {
            Self::Forward | Self::Queries => problem.queries,
            Self::Keys => problem.keys,
        }
    }

    /// Sequences times heads that have such rows.
    pub(super) fn pairs(self, problem: &Problem) -> usize {
        match self {
            Self::Forward | Self::Queries => problem.pairs(),
            Self::Keys => problem.batch * problem.key_heads,
        }
    }

    /// Bytes of workgroup memory that blocks take.
    fn bytes(self, problem: &Problem, tile: &Tile) -> usize {
        match self {
            Self::Forward => forward::bytes(problem, tile),
            Self::Queries => backward::query_bytes(problem, tile),
            Self::Keys => backward::key_bytes(problem, tile),
        }
    }

    /// Whether a workgroup can have such blocks on an adapter with these limits.
    pub(super) fn fits(self, problem: &Problem, tile: &Tile, limits: &Limits) -> bool {
        tile.threads() <= limits.invocations as usize
            && self.bytes(problem, tile) <= limits.workgroup_memory as usize
    }

    /// The shader; none if there is nothing to compute.
    pub(super) fn shader(self, source: Source<'_>, problem: &Problem, choice: Choice) -> Vec<Dispatch> {
        let label = self.label();
        match (choice, self) {
            (Choice::Block(tile), Self::Forward) => forward::forward(source, problem, tile, label),
            (Choice::Block(tile), Self::Queries) => backward::queries(source, problem, tile, label),
            (Choice::Block(tile), Self::Keys) => backward::keys(source, problem, tile, label),
            (Choice::Own { rows }, Self::Forward) => single::forward(source, problem, rows, label),
            (Choice::Own { rows }, Self::Queries) => single_grad::queries(source, problem, rows, label),
            (Choice::Own { rows }, Self::Keys) => single_grad::keys(source, problem, rows, label),
        }
    }
}

/// How rows are shared out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// A workgroup has a block of them, which meets blocks of the others in workgroup memory.
    Block(Tile),
    /// An invocation has so many of its own: more than one only on devices that compute on a CPU.
    Own {
        /// Rows of an invocation.
        rows: usize,
    },
}

/// What a tile may have, at most: a shader's text grows with the rows and columns of a thread.
const MOST_EACH: usize = 16;
/// Rows of an invocation, at most.
const MOST_OWN: usize = 8;

impl Choice {
    /// Whether a kernel can be computed so on an adapter with these limits.
    pub fn suits(&self, kernel: Kernel, problem: &Problem, limits: &Limits) -> bool {
        match self {
            Choice::Block(tile) => {
                let Tile { rows_each, columns_each, row_threads, column_threads } = *tile;
                let Problem { batch, heads, key_heads, queries, keys, depth, value_depth, .. } = *problem;
                let extents = [batch, heads, key_heads, queries, keys, depth, value_depth];
                let sane = (1..=MOST_EACH).contains(&rows_each)
                    && [2, 4].contains(&columns_each)
                    && [row_threads, column_threads]
                        .iter()
                        .all(|&threads| (1..=limits.invocations as usize).contains(&threads));
                sane && !extents.contains(&0) && kernel.fits(problem, tile, limits)
            }
            Choice::Own { rows } => (1..=MOST_OWN).contains(rows) && (limits.software || *rows == 1),
        }
    }
}
