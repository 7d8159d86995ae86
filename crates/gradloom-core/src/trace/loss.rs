//! Losses, and gradients inside a trace.

use super::Tensor;
use super::scope::with_scope;
use super::tensor::{fail, placeholder};
use crate::error::{Error, ErrorKind};
use crate::ir::{DType, Origin, Shape};

impl Tensor {
    /// Mean cross-entropy over rows, in nats: `self` holds logits `[B.., classes]`.
    ///
    /// Targets are class numbers, i32 `[B..]` (one outside `0..classes` fails the step), or rows of
    /// probabilities, f32 of the logits' shape. A row of probabilities that does not sum to 1 has the
    /// gradient `sum(y)·softmax - y`: a row of zeros gives none, but counts in the mean.
    #[track_caller]
    pub fn cross_entropy(self, targets: Tensor) -> Tensor {
        self.cross_entropy_rows(targets).mean()
    }

    /// Cross-entropy of each row, in nats: `[B..]`. See [`Tensor::cross_entropy`].
    #[track_caller]
    pub fn cross_entropy_rows(self, targets: Tensor) -> Tensor {
        let targets = targets.counted();
        let (shape, wanted) = (self.shape(), targets.ty());
        let lead = Shape::from(&shape[..shape.rank().saturating_sub(1)]);
        let fits = shape.rank() > 0
            && match wanted.dtype {
                dtype if dtype.is_float() => wanted.shape == shape && dtype == self.dtype(),
                DType::I32 => wanted.shape == lead,
                _ => false,
            };
        if !fits {
            fail(
                "cross_entropy",
                format!("`cross_entropy` of logits {shape} with targets {wanted}"),
                Some(format!(
                    "targets are i32{lead} (class numbers) or {}{shape} (rows of probabilities)",
                    self.dtype()
                )),
            );
            return placeholder(DType::F32, lead);
        }
        let (logits, dtype) = (self.cast(DType::F32), self.dtype());
        let shift = logits.max_keep(-1).detach();
        // Large logits lose no digits: the shift is never added back.
        let shifted = logits - shift;
        let normaliser = shifted.exp().sum_axes(-1).log();
        let losses = if wanted.dtype == DType::I32 {
            normaliser - shifted.take_last(targets)
        } else {
            let targets = targets.cast(DType::F32);
            targets.sum_axes(-1) * normaliser - (targets * shifted).sum_axes(-1)
        };
        losses.cast(dtype)
    }
}

/// Gradients of a rank-0 f32 `loss` with respect to tensors of the same trace: inputs, parameters, anything
/// between. A tensor that the loss does not depend on gets zeros.
#[track_caller]
pub fn gradients<const N: usize>(loss: Tensor, wrt: [Tensor; N]) -> [Tensor; N] {
    let all = gradients_of(loss, &wrt);
    std::array::from_fn(|i| all[i])
}

/// [`gradients`] with respect to as many tensors as a list has.
#[track_caller]
pub fn gradients_of(loss: Tensor, wrt: &[Tensor]) -> Vec<Tensor> {
    let caller = Origin::caller();
    for tensor in wrt.iter().chain([&loss]) {
        tensor.assert_in_trace();
    }
    with_scope(|scope| {
        let values: Vec<_> = wrt.iter().map(|&t| scope.checked(t)).collect();
        let loss = scope.checked(loss);
        let origin = scope.origin_of(caller);
        let not_float = values.iter().find(|&&value| !scope.graph.ty(value).dtype.is_float());
        let found = if let Some(&value) = not_float {
            let message = format!("`gradients` with respect to a tensor of {}", scope.graph.ty(value));
            Err(Error::new(ErrorKind::Trace, message).help("only f32 tensors have gradients"))
        } else if !scope.frames.is_empty() {
            Err(Error::new(ErrorKind::Trace, "`gradients` inside `checkpoint` or `scan`"))
        } else {
            crate::grad::append(&mut scope.graph, loss, None, &values)
        };
        let found = found.unwrap_or_else(|error| {
            scope.fail(error.at(origin, "gradients"));
            vec![None; values.len()]
        });
        let tensors = values.iter().zip(found).map(|(&value, found)| {
            let found = found.unwrap_or_else(|| {
                let ty = scope.graph.ty(value).clone();
                scope.placeholder(ty)
            });
            scope.tensor(found)
        });
        tensors.collect()
    })
}
