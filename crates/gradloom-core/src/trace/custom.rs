//! User-defined ops in a trace.

use super::Tensor;
use super::scope::with_scope;
use super::tensor::emit_all;
use crate::ir::{CustomOp, OpKind};
use std::sync::Arc;

impl Tensor {
    /// Applies a user-defined op and returns all its results.
    ///
    /// ```
    /// # use gradloom_core::{ir::*, reference::{HostTensor, eval}, trace::*};
    /// /// The elements in reverse.
    /// #[derive(Debug)]
    /// struct Reverse;
    ///
    /// impl CustomOp for Reverse {
    ///     fn name(&self) -> &str {
    ///         "reverse"
    ///     }
    ///     fn infer(&self, operands: &[Type]) -> Result<Vec<Type>, TypeError> {
    ///         Ok(operands.to_vec())
    ///     }
    ///     fn reference(&self, operands: &[HostTensor]) -> Result<Vec<HostTensor>, String> {
    ///         let from = &operands[0];
    ///         Ok(vec![HostTensor::from_f64(from.ty.clone(), from.to_f64().into_iter().rev())])
    ///     }
    ///     fn run_on_host(&self, operands: &[Slice<'_>], results: &mut [SliceMut<'_>])
    ///     -> Result<(), String> {
    ///         let (Slice::F32(from), SliceMut::F32(to)) = (&operands[0], &mut results[0]) else {
    ///             return Err("it is for f32".into());
    ///         };
    ///         to.iter_mut().zip(from.iter().rev()).for_each(|(to, from)| *to = *from);
    ///         Ok(())
    ///     }
    /// }
    /// let y = eval(|| Tensor::custom(Reverse, [literal(&[1.0, 2.0, 3.0], [3])])[0]);
    /// assert_eq!(y, [3.0, 2.0, 1.0]);
    /// ```
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
