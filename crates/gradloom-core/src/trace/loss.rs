//! Cross-entropy, and gradients inside a trace.

use super::scope::with_scope;
use super::tensor::{placeholder, refused};
use super::{Tensor, TensorGroup, op};
use crate::error::{Error, ErrorKind};
use crate::ir::{DType, Origin, Shape, ValueId};

impl Tensor {
    /// Computes the mean cross-entropy over rows of logits `[B.., classes]`, in nats.
    ///
    /// Targets are class numbers, i32 `[B..]` (one outside `0..classes` fails the step), or rows of
    /// probabilities, f32 with the shape of the logits. A row y of probabilities that does not sum to 1 has
    /// the gradient `sum(y)·softmax - y`; the gradient of a row of zeros is therefore 0, but the row counts
    /// in the mean.
    ///
    /// ```
    /// # use gradloom_core::{ir::DType, reference::eval, trace::*};
    /// let y = eval(|| {
    ///     let x = full(DType::F32, [1, 1], 3.0);
    ///     x.cross_entropy(literal(&[0.0], [1]).cast(DType::I32))
    /// });
    /// assert_eq!(y, [0.0]);
    /// ```
    #[doc(alias = "CrossEntropyLoss")]
    #[op]
    pub fn cross_entropy(self, targets: Tensor) -> Tensor {
        self.cross_entropy_rows(targets).mean()
    }

    /// Computes the cross-entropy of each row, `[B..]`, in nats. See [`Tensor::cross_entropy`].
    ///
    /// ```
    /// # use gradloom_core::{ir::DType, reference::eval, trace::*};
    /// let y = eval(|| {
    ///     let x = full(DType::F32, [2, 1], 3.0);
    ///     x.cross_entropy_rows(literal(&[0.0, 0.0], [2]).cast(DType::I32))
    /// });
    /// assert_eq!(y, [0.0, 0.0]);
    /// ```
    #[op]
    pub fn cross_entropy_rows(self, targets: Tensor) -> Tensor {
        let (shape, given, targets) = (self.shape(), targets.ty(), targets.counted());
        let wanted = targets.ty();
        let lead = Shape::from(&shape[..shape.rank().saturating_sub(1)]);
        let fits = shape.rank() > 0
            && match wanted.dtype {
                dtype if dtype.is_float() => wanted.shape == shape && dtype == self.dtype(),
                DType::I32 => wanted.shape == lead,
                _ => false,
            };
        if !fits {
            let message = format!("`cross_entropy_rows` of logits {shape} with targets {given}");
            let help = match shape.rank() {
                0 => "logits are [.., classes]".to_string(),
                _ => format!(
                    "targets are i32{lead} (class numbers) or {}{shape} (rows of probabilities)",
                    self.dtype()
                ),
            };
            return refused("cross_entropy_rows", message, help, placeholder(DType::F32, lead));
        }
        let (logits, dtype) = (self.cast(DType::F32), self.dtype());
        let shift = logits.max_keep(-1).detach();
        // The shift is never added back, so large logits lose no digits.
        let shifted = logits - shift;
        let normaliser = shifted.exp().sum_axes(-1).log();
        let losses = if wanted.dtype == DType::I32 {
            normaliser - shifted.take_last(targets)
        } else {
            let targets = targets.cast(DType::F32);
            // Replace the logits of classes with a target of 0 by 0: a logit may be `-inf`, and 0 times
            // infinity is NaN.
            let wanted = targets.eq(0.0).select(0.0, shifted);
            targets.sum_axes(-1) * normaliser - (targets * wanted).sum_axes(-1)
        };
        losses.cast(dtype)
    }
}

/// Computes the gradients of a rank-0 f32 `loss` with respect to tensors of the same trace: inputs,
/// parameters or intermediate values. `wrt` is an array, a `Vec` or a tuple of tensors, and the result has
/// the same structure. The gradient of a tensor on which the loss does not depend is zero.
///
/// ```
/// # use gradloom_core::trace::{f32, gradients, trace};
/// # trace(&(), &[f32("x", [4]), f32("y", [4])], true, |inputs| {
/// let [x, y] = [inputs[0], inputs[1]];
/// let loss = (x * y).sum();
/// let [dx, dy] = gradients(loss, [x, y]);
/// let all: Vec<_> = gradients(loss, inputs.to_vec());
/// # (dx + dy + all[0]).sum()
/// # }, |t| vec![t])?;
/// # Ok::<(), gradloom_core::error::Error>(())
/// ```
#[doc(alias = "grad")]
#[op]
pub fn gradients<G: TensorGroup>(loss: Tensor, wrt: G) -> G {
    let caller = Origin::caller();
    let (group, tensors) = super::block::members(wrt);
    for tensor in tensors.iter().chain([&loss]) {
        tensor.is_in_trace();
    }
    let found = gradients_at(loss, &tensors, caller);
    let mut found = found.into_iter();
    group.map(&mut |_| found.next().expect("one gradient for each tensor"))
}

fn gradients_at(loss: Tensor, wrt: &[Tensor], caller: Origin) -> Vec<Tensor> {
    with_scope(|scope| {
        let values: Vec<_> = wrt.iter().map(|&t| scope.checked(t)).collect();
        let loss = scope.checked(loss);
        let origin = scope.origin_of(caller);
        let not_float = values.iter().find(|&&value| !scope.graph.ty(value).dtype.is_float());
        let found = if let Some(&value) = not_float {
            let message = format!("`gradients` with respect to a tensor of {}", scope.graph.ty(value));
            Err(Error::new(ErrorKind::Trace, message).help("only f32 tensors have gradients"))
        } else if !scope.frames.is_empty() {
            Err(Error::new(ErrorKind::Trace, "`gradients` inside `checkpoint` or `scan`")
                .help("return the loss from the closure, and take its gradients outside"))
        } else {
            crate::grad::append(&mut scope.graph, loss, None, &values)
        };
        let found = found.unwrap_or_else(|error| {
            scope.fail(error.at(origin, "gradients"));
            vec![None; values.len()]
        });
        let tensor = |(&value, found): (&ValueId, Option<ValueId>)| {
            let value = found.unwrap_or_else(|| {
                let ty = scope.graph.ty(value).clone();
                scope.placeholder(ty)
            });
            scope.tensor(value)
        };
        values.iter().zip(found).map(tensor).collect()
    })
}
