//! Rewrites that preserve the meaning of a graph: the same outputs, updates and guards from the same leaves.
//!
//! Passes run after differentiation and the optimizer and reduce the amount of work. A pass keeps the inputs,
//! the names of leaves and outputs, and the origins and order of the remaining ops. It renumbers values.
//! [`pipeline`] contains the ordered list of passes.

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

/// Returns the kind and operands of the op that defines a value.
fn definition(graph: &Graph, value: ValueId) -> Option<(&OpKind, &[ValueId])> {
    graph.defining_op(value).map(|op| (&op.kind, op.operands.as_slice()))
}

/// Returns the value of all elements of a splat constant, or `None` for other values.
fn splat_of(graph: &Graph, value: ValueId) -> Option<Number> {
    match &graph.defining_op(value)?.kind {
        OpKind::Constant { data: Literal::Splat(number), .. } => Some(*number),
        _ => None,
    }
}
