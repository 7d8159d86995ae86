//! Scaled dot-product attention and its gradient, without a matrix of all scores in memory.
//!
//! In: operands and results in any layout. Out: one shader; two for the gradient, the second of which needs what the first left. Blocks of
//! queries and keys meet in workgroup memory; where that does not fit or pay, each invocation has a query of its own.
//! Always holds: sums run over keys (and for dk, dv over queries) in an order that the extents and the limits alone decide; what a query does not
//! see changes nothing, and a query that sees no key gives 0 and a log-sum-exp of -inf.

mod problem;
mod single;
mod single_grad;

use super::source::Source;
use super::{Dispatch, Limits, Operands};
use gradloom_core::ir::AttentionSpec;
use gradloom_core::kernel::Access;
use problem::Problem;

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
    single::forward(source, &problem, "attention")
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
    let mut shaders = single_grad::queries(source(), &problem, "attention_grad: queries");
    shaders.extend(single_grad::keys(source(), &problem, "attention_grad: keys"));
    shaders
}
