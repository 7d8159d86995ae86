//! The stages of a training program up to its passes.

use super::Clock;
use gradloom_core::error::{Error, ErrorKind, Result};
use gradloom_core::grad;
use gradloom_core::ir::{Builder, DType, Graph, Guard, Output, Type, ValueId};
use gradloom_core::optim::{self, Optimizer, Trainable};
use gradloom_core::passes;
use gradloom_core::plan::Plan;
use gradloom_core::trace::{ParamTable, Traced};

/// Name of the loss among the outputs and guards.
pub const LOSS: &str = "loss";

/// What a user sets for a training program, and what its device asks for.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Largest norm of all gradients together.
    pub clip_norm: Option<f64>,
    /// Bytes of the whole step.
    pub memory_budget: Option<usize>,
    /// What the loss is multiplied by before its gradient is taken, which is divided by as much afterwards: a
    /// power of two.
    pub loss_scale: f64,
}

impl Default for Options {
    fn default() -> Self {
        Self { clip_norm: None, memory_budget: None, loss_scale: 1.0 }
    }
}

/// The graphs of a training program.
#[derive(Clone, Debug)]
pub struct TrainingGraph {
    /// As traced: inputs, parameters, the loss, captures.
    pub trace: Graph,
    /// With the backward pass.
    pub grad: Graph,
    /// With the optimizer.
    pub optim: Graph,
    /// Simplified, within the memory budget; what is lowered.
    pub passes: Graph,
    /// The report of each pass.
    pub reports: Vec<passes::PassReport>,
}

/// The stages from a traced loss up to the passes; `plan` plans a graph as it would be loaded, for the memory
/// budget.
///
/// # Errors
/// When the loss is no f32 number, a parameter has no gradient, a setting is out of range, or the budget is
/// too small.
pub fn training(
    traced: &Traced,
    params: &ParamTable,
    optimizer: &dyn Optimizer,
    options: Options,
    clock: &mut Clock,
    plan: &mut dyn FnMut(&Graph) -> Result<Plan>,
) -> Result<TrainingGraph> {
    let Options { clip_norm, memory_budget, loss_scale } = options;
    // A number out of range is an error now, not at the first step.
    let mut numbers = optimizer.hyperparameters();
    numbers.insert("lr".into(), optimizer.schedule().at(0));
    optimizer.derive(&mut numbers)?;
    if let Some(norm) = clip_norm {
        numbers.insert("max_norm".into(), norm);
        optim::check_max_norm(&numbers)?;
    }
    let trace = clock.stage("trace", || {
        let trace = with_loss(traced)?;
        // In every build: the verifier bounds the time and memory of the later stages.
        verified(&trace, "trace").map(|()| trace)
    })?;
    let (grad, trainables) = clock.stage("grad", || {
        let made = differentiate_scaled(&trace, traced, params, loss_scale)?;
        verified_in_debug(&made.0, "grad").map(|()| made)
    })?;
    let optim = clock.stage("optim", || {
        let made = optim::attach(grad.clone(), &trainables, optimizer, clip_norm.is_some())?;
        verified_in_debug(&made, "optim").map(|()| made)
    })?;
    let (passes, reports) = clock.stage("passes", || {
        let (mut passes, mut reports) = passes::run(optim.clone());
        if let Some(budget) = memory_budget {
            passes = passes::pipeline::run_last(passes, &mut reports, "remat", |graph| {
                let loss = graph.output(LOSS).ok_or_else(no_loss)?;
                passes::remat::fit(graph, loss, budget, plan)
            })?;
        }
        // Verified where it is loaded, in every build.
        Ok((passes, reports))
    })?;
    Ok(TrainingGraph { trace, grad, optim, passes, reports })
}

fn no_loss() -> Error {
    Error::new(ErrorKind::Internal, "there is no loss")
}

/// The verifier's verdict on what a stage made.
fn verified(graph: &Graph, stage: &str) -> Result<()> {
    gradloom_core::verify::verify(graph)
        .map_err(|error| Error::new(ErrorKind::Verify, format!("after the stage `{stage}`: {error}")))
}

fn verified_in_debug(graph: &Graph, stage: &str) -> Result<()> {
    if cfg!(debug_assertions) { verified(graph, stage) } else { Ok(()) }
}

/// The traced graph with its result as output and guard `loss`.
fn with_loss(traced: &Traced) -> Result<Graph> {
    let mut graph = traced.graph.clone();
    let loss = traced.results[0];
    let ty = graph.ty(loss).clone();
    if ty != Type::scalar(DType::F32) {
        let mut error = Error::new(ErrorKind::Trace, format!("the loss is {ty}, not f32[]"))
            .help("reduce it to one number, as with `.mean()`");
        if let Some(origin) = graph.defining_op(loss).and_then(|op| graph.origin(op)) {
            error = error.at(origin.clone(), graph.defining_op(loss).map_or("", |op| op.kind.name()));
        }
        return Err(error);
    }
    graph.outputs.insert(0, Output { name: LOSS.into(), value: loss });
    graph.guards.push(Guard { name: LOSS.into(), value: loss });
    Ok(graph)
}

/// Appends the backward pass of the output `loss`; gives what there is to train.
///
/// # Errors
/// When a parameter that is not frozen has no gradient, or an op on the way has none.
pub fn differentiate(graph: &Graph, traced: &Traced, params: &ParamTable) -> Result<(Graph, Vec<Trainable>)> {
    differentiate_scaled(graph, traced, params, 1.0)
}

/// Like [`differentiate`], with the gradient of `scale` times the loss, divided by `scale` afterwards.
fn differentiate_scaled(
    graph: &Graph,
    traced: &Traced,
    params: &ParamTable,
    scale: f64,
) -> Result<(Graph, Vec<Trainable>)> {
    let mut graph = graph.clone();
    let loss = graph.output(LOSS).ok_or_else(no_loss)?;
    let mut wanted: Vec<(&str, ValueId, Option<bool>)> = Vec::new();
    let mut unused = Vec::new();
    for used in params.iter().filter(|used| !used.param.is_frozen()) {
        match traced.params.iter().find(|(_, _, id)| *id == used.param.id()) {
            Some((name, value, _)) => wanted.push((name, *value, used.param.decay())),
            None => unused.push(used.name.as_str()),
        }
    }
    if let Some(first) = unused.first() {
        let mut error =
            Error::new(ErrorKind::MissingGradient, format!("the loss does not use the parameter `{first}`"))
                .help("use it in the loss, freeze it with `Param::freeze`, or remove it from the model");
        if unused.len() > 1 {
            error = error.note(format!("nor: {}", unused[1..].join(", ")));
        }
        return Err(error);
    }
    let values: Vec<ValueId> = wanted.iter().map(|(_, value, _)| *value).collect();
    let origin = graph.defining_op(loss).and_then(|op| op.origin);
    let seed = (scale != 1.0).then(|| Builder::new(&mut graph, origin).number(scale));
    let gradients = grad::append(&mut graph, loss, seed, &values)?;
    let named: Vec<(&str, ValueId)> = wanted.iter().map(|(name, value, _)| (*name, *value)).collect();
    grad::coverage(&graph, &named, &gradients)?;
    let trainables = wanted
        .into_iter()
        .zip(gradients)
        .map(|((name, value, decay), gradient)| Trainable {
            name: name.to_string(),
            value,
            gradient: unscaled(&mut graph, gradient.expect("coverage was checked"), scale),
            decay,
        })
        .collect();
    Ok((graph, trainables))
}

/// A gradient divided by the loss's scale.
fn unscaled(graph: &mut Graph, gradient: ValueId, scale: f64) -> ValueId {
    if scale == 1.0 {
        return gradient;
    }
    let origin = graph.defining_op(gradient).and_then(|op| op.origin);
    Builder::new(graph, origin).mul_number(gradient, 1.0 / scale)
}

#[cfg(test)]
mod tests {
    use super::*;
    use gradloom_core::nn::Linear;
    use gradloom_core::reference::evaluate;
    use gradloom_core::trace::{f32, trace};
    use gradloom_testing::Leaves;

    #[test]
    fn a_scaled_loss_has_the_gradients_of_the_loss() {
        let model = [Linear::new(3, 4), Linear::new(4, 2)];
        let loss =
            |x: &[gradloom_core::trace::Tensor]| model[1].forward(model[0].forward(x[0]).tanh()).mean();
        let traced = trace(&model, &[f32("x", [5, 3])], true, loss, |loss| vec![loss]).unwrap();
        let params = ParamTable::of(&model).unwrap();
        let gradients = |scale| {
            let loss = with_loss(&traced).unwrap();
            let (mut graph, trainables) = differentiate_scaled(&loss, &traced, &params, scale).unwrap();
            let seeds = graph.to_string().matches("1024").count();
            graph.outputs =
                trainables.into_iter().map(|t| Output { name: t.name, value: t.gradient }).collect();
            let leaves = Leaves::random(3);
            let values = evaluate(&graph, &|kind| leaves.value(kind)).unwrap().outputs;
            (seeds, values.into_iter().map(|(name, value)| (name, value.to_f64())).collect::<Vec<_>>())
        };
        let ((none, plain), (seeds, scaled)) = (gradients(1.0), gradients(1024.0));
        assert_eq!((none, seeds), (0, 1));
        // Powers of two round nothing.
        assert_eq!(plain, scaled);
        assert_eq!(plain.len(), 4);
    }
}
