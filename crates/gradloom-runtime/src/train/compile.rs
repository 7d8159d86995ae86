//! The stages of a training program: each a function from one public value to the next.

use super::Session;
use crate::program::{Program, verify_stage};
use gradloom_core::error::{Error, ErrorKind, Result};
use gradloom_core::grad;
use gradloom_core::ir::{DType, Graph, Guard, Output, Type, ValueId};
use gradloom_core::nn::Module;
use gradloom_core::optim::{self, Optimizer, Trainable};
use gradloom_core::passes;
use gradloom_core::trace::{ParamTable, Traced};

/// Name of the loss among the outputs and guards.
pub(super) const LOSS: &str = "loss";

/// The graph after each stage.
#[derive(Clone, Debug)]
pub struct Stages {
    /// As traced: inputs, parameters, the loss, captures.
    pub trace: Graph,
    /// With the backward pass.
    pub grad: Graph,
    /// With the optimizer.
    pub optim: Graph,
    /// Simplified, within the memory budget; what is lowered.
    pub passes: Graph,
    /// What each pass did.
    pub reports: Vec<passes::PassReport>,
}

/// Bounds that the user set.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Limits {
    /// Largest norm of all gradients together.
    pub(super) clip_norm: Option<f64>,
    /// Bytes of the whole step.
    pub(super) memory_budget: Option<usize>,
}

pub(super) struct Compiled {
    pub(super) program: Program,
    pub(super) stages: Stages,
}

/// Trace to loaded program.
pub(super) fn training<M: Module>(
    session: &Session<M>,
    traced: &Traced,
    optimizer: &dyn Optimizer,
    limits: Limits,
) -> Result<Compiled> {
    let Limits { clip_norm, memory_budget } = limits;
    // A number out of range is an error now, not at the first step.
    let mut numbers = optimizer.hyperparameters();
    numbers.insert("lr".into(), optimizer.schedule().at(0));
    optimizer.derive(&mut numbers)?;
    if let Some(norm) = clip_norm {
        numbers.insert("max_norm".into(), norm);
        optim::check_max_norm(&numbers)?;
    }
    let trace = with_loss(traced)?;
    verify_stage(&trace, "trace")?;
    let (grad, trainables) = differentiate(&trace, traced, session.params())?;
    verify_stage(&grad, "grad")?;
    let optim = optim::attach(grad.clone(), &trainables, optimizer, clip_norm.is_some())?;
    verify_stage(&optim, "optim")?;
    let (mut passes, mut reports) = passes::run(optim.clone());
    if let Some(budget) = memory_budget {
        passes = passes::pipeline::run_last(passes, &mut reports, "remat", |graph| {
            let loss =
                graph.output(LOSS).ok_or_else(|| Error::new(ErrorKind::Internal, "there is no loss"))?;
            passes::remat::fit(graph, loss, budget, &mut |graph| session.plan(graph))
        })?;
    }
    let program = session.load(passes.clone())?;
    Ok(Compiled { program, stages: Stages { trace, grad, optim, passes, reports } })
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
    let mut graph = graph.clone();
    let loss = graph.output(LOSS).ok_or_else(|| Error::new(ErrorKind::Internal, "there is no loss"))?;
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
    let gradients = grad::append(&mut graph, loss, None, &values)?;
    let named: Vec<(&str, ValueId)> = wanted.iter().map(|(name, value, _)| (*name, *value)).collect();
    grad::coverage(&graph, &named, &gradients)?;
    let trainables = wanted
        .into_iter()
        .zip(gradients)
        .map(|((name, value, decay), gradient)| Trainable {
            name: name.to_string(),
            value,
            gradient: gradient.expect("coverage was checked"),
            decay,
        })
        .collect();
    Ok((graph, trainables))
}
