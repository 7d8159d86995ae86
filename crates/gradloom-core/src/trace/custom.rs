//! Users' own ops in a trace.

use super::Tensor;
use super::scope::with_scope;
use super::tensor::emit_all;
use crate::ir::{CustomOp, OpKind};
use std::sync::Arc;

impl Tensor {
    /// Applies a user's op; returns all its results.
    #[track_caller]
    pub fn custom<const N: usize>(op: impl CustomOp, inputs: [Tensor; N]) -> Vec<Tensor> {
        let results = {
            let types: Vec<_> = inputs.iter().map(|t| t.ty()).collect();
            op.infer(&types).map_or(1, |types| types.len())
        };
        let id = with_scope(|scope| {
            scope.graph.customs.push(Arc::new(op));
            scope.graph.customs.len() - 1
        });
        emit_all(OpKind::Custom(id), &inputs, "custom", results)
    }
}
