//! Scaled dot-product attention and its gradient, without a matrix of all scores in memory.
//!
//! In: operands and results in any layout, a [`Choice`] for each kernel. Out: one shader; two for the
//! gradient, the second of which needs what the first left. Blocks of queries and keys meet in workgroup
//! memory; where that does not fit or pay, each invocation has rows of its own. Always holds: sums run over
//! keys (and for dk, dv over queries) in an order that the extents and the choice alone decide; what a query
//! does not see changes nothing, and a query that sees no key gives 0 and a log-sum-exp of -inf.

mod alone;
mod backward;
mod candidates;
mod choose;
mod forward;
mod kernel;
mod problem;
mod record;
mod shares;
mod single;
mod single_grad;
mod tile;

pub(super) use alone::alone;
pub use candidates::candidates;
pub use choose::choose;
pub use kernel::{Choice, Kernel};
pub use problem::Problem;
pub use record::{from_line, to_line};
pub use tile::Tile;

use super::source::Source;
use super::{Choices, Dispatch};
use gradloom_core::ir::{AttentionSpec, OpKind};
use gradloom_core::kernel::{Access, Kernel as LaunchKernel};

/// Bytes of scratch that the gradient needs: a number for each query.
pub(crate) fn grad_workspace(spec: &AttentionSpec, reads: &[Access]) -> usize {
    let shape = |read: usize| &reads[read].layout.shape[..];
    means_bytes(&Problem::new(spec, [shape(0), shape(1), shape(2)], None))
}

fn means_bytes(problem: &Problem) -> usize {
    4 * (problem.pairs() * problem.queries).max(1)
}

/// The kernels of a launch that can be measured.
pub(super) fn problems_of(kernel: &LaunchKernel, reads: &[Access]) -> Vec<(Kernel, Problem)> {
    let (spec, kernels): (_, &[Kernel]) = match kernel {
        LaunchKernel::Op(OpKind::Attention(spec)) => (spec, &[Kernel::Forward]),
        LaunchKernel::Op(OpKind::AttentionGrad(spec)) => (spec, &[Kernel::Queries, Kernel::Keys]),
        _ => return Vec::new(),
    };
    let shape = |read: usize| &reads[read].layout.shape[..];
    let problem = Problem::new(spec, [shape(0), shape(1), shape(2)], spec.extra_positions()[2].map(shape));
    let alone = kernels.iter().filter(|&&kernel| problem.can_run_alone(kernel));
    alone.map(|&kernel| (kernel, problem)).collect()
}

/// The shader of `Attention`.
pub(super) fn attention(source: Source<'_>, spec: &AttentionSpec, choices: &Choices) -> Vec<Dispatch> {
    let problem = Problem::of(spec, &source);
    let choice = choices.attention(Kernel::Forward, &problem, source.limits);
    Kernel::Forward.shader(source, &problem, choice)
}

/// The shaders of `AttentionGrad`.
pub(super) fn attention_grad<'a>(
    source: impl Fn() -> Source<'a>,
    spec: &AttentionSpec,
    choices: &Choices,
) -> Vec<Dispatch> {
    let problem = Problem::of(spec, &source());
    let shader = |kernel: Kernel| {
        let choice = choices.attention(kernel, &problem, source().limits);
        kernel.shader(source(), &problem, choice)
    };
    [Kernel::Queries, Kernel::Keys].into_iter().flat_map(shader).collect()
}
