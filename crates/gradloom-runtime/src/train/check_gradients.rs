//! Compares gradients with finite differences, in float64.
//!
//! In: a model, data, and a loss. Out: the error of each parameter's derived gradient, relative to the slope
//! of the loss. Both are computed by the reference evaluator, so that rounding hides no mistake. This checks
//! the differentiation (and user-defined ops), not a device's kernels.

use super::Session;
use crate::program::host_tensor;
use gradloom_codegen::pipeline::{LOSS, differentiate};
use gradloom_core::error::{Error, ErrorKind, Result};
use gradloom_core::ir::{Graph, OpKind, Output, Type};
use gradloom_core::nn::Module;
use gradloom_core::reference::{HostData, HostTensor, evaluate};
use gradloom_core::trace::{Input, Tensor, trace};
use gradloom_device::feed::{Feed, check_all};
use std::collections::BTreeMap;

/// Maximum number of elements of each parameter that are checked.
const TRIED: usize = 8;
/// Step of the central differences. In float64, both the rounding error and the truncation error, which is
/// proportional to the third derivative, are small for this step.
const STEP: f64 = 1e-5;

/// Result of [`Session::check_gradients`].
#[derive(Clone, Debug, Default)]
pub struct GradientCheck {
    /// Number of elements that were checked.
    pub tried: usize,
    /// Element with the largest error.
    pub worst: Option<Mistake>,
}

/// Element of a gradient, and the corresponding slope of the loss.
#[derive(Clone, Debug, PartialEq)]
pub struct Mistake {
    /// Name of the parameter.
    pub parameter: String,
    /// Row-major index of the element.
    pub index: usize,
    /// Derived gradient.
    pub gradient: f64,
    /// Slope of the loss, as a central difference.
    pub slope: f64,
    /// Absolute difference, divided by the larger magnitude if that exceeds 1.
    pub error: f64,
}

impl GradientCheck {
    /// Checks that the largest error is at most `tolerance`. Use about 1e-6, or 1e-3 near a kink of the loss.
    ///
    /// # Errors
    /// Returns an error that names the worst element if its error exceeds `tolerance` or is NaN.
    pub fn within(&self, tolerance: f64) -> Result<()> {
        match &self.worst {
            Some(worst) if worst.error.is_nan() || worst.error > tolerance => {
                let Mistake { parameter, index, gradient, slope, error } = worst;
                let message =
                    format!("the gradient of `{parameter}` is wrong: {error:.1e} off at element {index}");
                Err(Error::new(ErrorKind::Verify, message)
                    .note(format!("the gradient is {gradient}, the loss rises by {slope}"))
                    .help("look at the gradients of custom ops, and whether the loss has a kink there"))
            }
            _ => Ok(()),
        }
    }
}

impl<M: Module> Session<M> {
    /// Compares the gradient of a loss with finite differences, in up to eight elements of each parameter.
    /// Dropout is disabled. This is slow, so use small models and batches.
    ///
    /// # Errors
    /// Returns the first error of the closure, or an error if data does not have the declared dtype or size,
    /// or if a trap occurs.
    #[track_caller]
    pub fn check_gradients<'a, const K: usize>(
        &self,
        inputs: [Input; K],
        data: impl Feed<'a, K>,
        loss: impl FnOnce(&M, [Tensor; K]) -> Tensor,
    ) -> Result<GradientCheck> {
        let data = data.feed();
        check_all(&inputs, &data, 1, self.device().backend())?;
        let array = |tensors: &[Tensor]| <[Tensor; K]>::try_from(tensors).expect("K inputs were declared");
        let traced =
            trace(self.model(), &inputs, false, |x| loss(self.model(), array(x)), |loss| vec![loss])?;
        let mut forward = traced.graph.clone();
        forward.outputs = vec![Output { name: LOSS.into(), value: traced.results[0] }];
        let (mut graph, trainables) = differentiate(&forward, &traced, self.params())?;
        graph.outputs.extend(
            trainables.iter().map(|t| Output { name: format!("gradient.{}", t.name), value: t.gradient }),
        );
        self.materialize()?;
        let mut values = BTreeMap::new();
        for (entry, bytes) in self.store().read_all()? {
            values.insert(entry.name.clone(), host_tensor(entry.ty.clone(), &bytes));
        }
        for (input, data) in inputs.iter().zip(&data) {
            values.insert(format!("input {}", input.name), host_tensor(input.ty.clone(), &data.bytes()?));
        }
        let gradients = run(&graph, &values)?;
        let mut check = GradientCheck::default();
        for trainable in &trainables {
            let gradient = gradients.output(&format!("gradient.{}", trainable.name));
            let gradient = gradient.map(HostTensor::to_f64).unwrap_or_default();
            let count = gradient.len();
            for index in (0..count.min(TRIED)).map(|i| i * count / count.min(TRIED)) {
                let mut at = |change: f64| -> Result<f64> {
                    let kept = values[&trainable.name].clone();
                    if let Some(HostTensor { data: HostData::Float(floats), .. }) =
                        values.get_mut(&trainable.name)
                    {
                        floats[index] += change;
                    }
                    let loss =
                        run(&forward, &values)?.output(LOSS).map(HostTensor::to_f64).unwrap_or_default();
                    values.insert(trainable.name.clone(), kept);
                    Ok(loss[0])
                };
                let slope = (at(STEP)? - at(-STEP)?) / (2.0 * STEP);
                let error = (gradient[index] - slope).abs() / gradient[index].abs().max(slope.abs()).max(1.0);
                check.tried += 1;
                if check.worst.as_ref().is_none_or(|worst| error > worst.error || error.is_nan()) {
                    let (parameter, gradient) = (trainable.name.clone(), gradient[index]);
                    check.worst = Some(Mistake { parameter, index, gradient, slope, error });
                }
            }
        }
        Ok(check)
    }
}

/// Evaluates a graph; `values` has the leaves by name.
fn run(graph: &Graph, values: &BTreeMap<String, HostTensor>) -> Result<gradloom_core::reference::Evaluation> {
    let leaf = |kind: &OpKind| match kind {
        OpKind::Input { name, .. } => values.get(&format!("input {name}")).cloned(),
        OpKind::Param { name, .. } | OpKind::State { name, .. } => values.get(name).cloned(),
        // The scalars are the keys of the random numbers, which may have any value.
        OpKind::Scalar { dtype, .. } => Some(HostTensor::from_f64(Type::scalar(*dtype), [0.0])),
        _ => None,
    };
    evaluate(graph, &leaf)
}
