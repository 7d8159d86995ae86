//! Rewrites that keep a graph's meaning: the same outputs, updates and guards from the same leaves.
//!
//! In: a graph after differentiation and the optimizer. Out: a graph with less work. Always holds: a pass
//! keeps the inputs, the names of leaves and outputs, the origins of what stays, and the order of what stays;
//! it renames values. [`pipeline`] is the ordered list.

pub mod cse;
pub mod dce;
pub mod expand;
pub mod fold;
pub mod pipeline;
pub mod remat;
pub mod simplify;
pub mod sums;

mod rewriter;

pub use pipeline::{PIPELINE, Pass, PassReport, now, run};

use crate::ir::{Graph, Literal, Number, OpKind, ValueId};

/// Returns the kind and operands of the op behind a value.
fn definition(graph: &Graph, value: ValueId) -> Option<(&OpKind, &[ValueId])> {
    graph.defining_op(value).map(|op| (&op.kind, op.operands.as_slice()))
}

/// Returns the number that all elements of a value are, if the value is a constant of one number.
fn splat_of(graph: &Graph, value: ValueId) -> Option<Number> {
    match &graph.defining_op(value)?.kind {
        OpKind::Constant { data: Literal::Splat(number), .. } => Some(*number),
        _ => None,
    }
}
