//! The stages of a training program up to its passes.

use super::Clock;
use gradloom_core::error::{Error, ErrorKind, Result};
use gradloom_core::grad;
use gradloom_core::ir::{BinaryOp, Builder, DType, Graph, Guard, Op, OpKind, Output, Type, ValueId};
use gradloom_core::nn::{Param, Pattern};
use gradloom_core::optim::{self, Optimizer, Replicas, STATE_PREFIX, Settings, Trainable};
use gradloom_core::passes;
use gradloom_core::plan::Plan;
use gradloom_core::trace::{ParamTable, Traced};

/// Name of the loss among the outputs and guards.
pub const LOSS: &str = "loss";

/// Settings of a training program.
#[derive(Clone, Debug)]
pub struct Options {
    /// Treatment of gradients and parameters in addition to the optimizer's update rule.
    pub settings: Settings,
    /// Parameters that are not trained.
    pub frozen: Vec<Pattern>,
    /// Parameters to train; if empty, all are trained.
    pub trained: Vec<Pattern>,
    /// Parameters whose gradients become outputs, named `gradient.NAME`.
    pub shown_gradients: Vec<Pattern>,
    /// Name that distinguishes this program's optimizer states from those of other programs with the same
    /// store (see [`optimizer_state`]).
    pub name: String,
    /// True if parameters that the loss does not depend on are left unchanged instead of causing an error.
    pub allows_unused: bool,
    /// Number of micro-batches per step (see [`optim::accumulate`]).
    pub micro_batches: usize,
    /// Number of ranks whose gradients are averaged (see [`optim::average_over_ranks`]).
    pub ranks: usize,
    /// True if gradients may be summed over the ranks in the 16-bit type of the precision.
    pub rounds_sums: bool,
    /// True if each rank keeps and updates only its part of the optimizer's states.
    pub shards_states: bool,
    /// Memory budget of the whole step, in bytes.
    pub memory_budget: Option<u64>,
    /// True if the loss is multiplied by an adaptive scale before differentiation, and the gradients are
    /// divided by it afterwards (see [`optim::loss_scale`]).
    pub scales_loss: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            settings: Settings::default(),
            frozen: Vec::new(),
            trained: Vec::new(),
            shown_gradients: Vec::new(),
            name: String::new(),
            allows_unused: false,
            micro_batches: 1,
            ranks: 1,
            rounds_sums: false,
            shards_states: false,
            memory_budget: None,
            scales_loss: false,
        }
    }
}

/// The graphs of a training program.
#[derive(Clone, Debug)]
pub struct TrainingGraph {
    /// The traced graph: inputs, parameters, the loss, captures.
    pub trace: Graph,
    /// The graph with the backward pass.
    pub grad: Graph,
    /// The graph with the optimizer.
    pub optim: Graph,
    /// The simplified graph within the memory budget, which is lowered.
    pub passes: Graph,
    /// Parameters that the loss does not depend on, which are therefore not trained.
    pub unused: Vec<String>,
    /// The report of each pass.
    pub reports: Vec<passes::PassReport>,
}

/// Runs the stages from a traced loss up to the passes. With a memory budget, `plan` must return the plan
/// with which a graph would be loaded.
///
/// # Errors
/// Returns an error if the loss is not an f32 scalar, a parameter has no gradient, a pattern matches no
/// parameter, a setting is out of range, or the budget is too small.
pub fn training(
    traced: &Traced,
    params: &ParamTable,
    optimizer: &dyn Optimizer,
    options: &Options,
    clock: &mut Clock,
    plan: &mut dyn FnMut(&Graph) -> Result<Plan>,
) -> Result<TrainingGraph> {
    // Reports numbers that are out of range here rather than at the first step.
    let mut numbers = optimizer.hyperparameters();
    optimizer.set_rates(&mut numbers, 0);
    optimizer.derive(&mut numbers)?;
    numbers.extend(options.settings.numbers());
    options.settings.derive(&mut numbers)?;
    let trace = clock.stage("trace", || {
        let trace = with_loss(traced)?;
        // Verifies in release builds too, because the verifier bounds the time and memory of the later
        // stages.
        verified(&trace, "trace").map(|()| trace)
    })?;
    let (grad, trainables, unused) = clock.stage("grad", || {
        let (mut graph, mut trainables, unused) = differentiate_with(&trace, traced, params, options)?;
        if options.micro_batches != 1 {
            (graph, trainables) = optim::accumulate(&graph, &trainables, options.micro_batches)?;
        }
        if options.ranks != 1 {
            let sharded =
                |parameter: &Trainable| options.shards_states && optimizer.is_elementwise(&parameter.name);
            let replicas = Replicas { ranks: options.ranks, rounded: options.rounds_sums, sharded: &sharded };
            optim::average_over_ranks(&mut graph, &mut trainables, replicas);
        }
        show_gradients(&mut graph, &trainables, &options.shown_gradients)?;
        verified_in_debug(&graph, "grad").map(|()| (graph, trainables, unused))
    })?;
    let optim = clock.stage("optim", || {
        let mut made = optim::attach(grad.clone(), &trainables, optimizer, &options.settings)?;
        rename_states(&mut made, &options.name);
        verified_in_debug(&made, "optim").map(|()| made)
    })?;
    let (passes, reports) = clock.stage("passes", || {
        let (mut passes, mut reports) = passes::run(optim.clone());
        if let Some(budget) = options.memory_budget {
            passes = passes::pipeline::run_last(passes, &mut reports, "remat", |graph| {
                let loss = graph.output(LOSS).ok_or_else(no_loss)?;
                passes::remat::fit(graph, loss, budget, plan)
            })?;
        }
        // Verification is not repeated here, because the graph is verified in every build when it is loaded.
        Ok((passes, reports))
    })?;
    Ok(TrainingGraph { trace, grad, optim, passes, unused, reports })
}

/// Returns the name of an optimizer's state in the store. `program` is the name of the program, or empty.
pub fn optimizer_state(program: &str, state: &str) -> String {
    match (program, state.strip_prefix(STATE_PREFIX)) {
        ("", _) | (_, None) => state.to_string(),
        // No field of a model has a slash in its name, so the names cannot collide.
        (program, Some(state)) => format!("{STATE_PREFIX}{program}/{state}"),
    }
}

fn rename_states(graph: &mut Graph, program: &str) {
    let ids: Vec<_> = graph.ops.iter().map(|(id, _)| id).collect();
    for id in ids {
        if let OpKind::State { name, .. } = &mut graph.ops[id].kind {
            *name = optimizer_state(program, name);
        }
    }
}

/// Adds the unscaled gradients of the matching parameters to the outputs.
fn show_gradients(graph: &mut Graph, trainables: &[Trainable], shown: &[Pattern]) -> Result<()> {
    let names = trainables.iter().map(|trainable| trainable.name.as_str());
    shown.iter().try_for_each(|pattern| pattern.expect_any(names.clone()))?;
    for trainable in trainables.iter().filter(|t| shown.iter().any(|pattern| pattern.matches(&t.name))) {
        let name = format!("gradient.{}", trainable.name);
        let mut value = trainable.whole_gradient(&mut Builder::new(graph, None));
        let is_scale = |op: &Op| matches!(&op.kind, OpKind::State { name, .. } if name == optim::LOSS_SCALE);
        let scale = graph.entry_ops().find(|(_, op)| is_scale(op)).map(|(_, op)| op.results[0]);
        if let Some(scale) = scale {
            let mut builder = Builder::new(graph, None);
            let shape = builder.shape(value);
            let scale = builder.broadcast(scale, &shape);
            value = builder.binary(BinaryOp::Div, value, scale);
        }
        graph.outputs.push(Output { name, value });
    }
    Ok(())
}

fn no_loss() -> Error {
    Error::new(ErrorKind::Internal, "there is no loss")
}

/// Verifies the graph that a stage has produced.
fn verified(graph: &Graph, stage: &str) -> Result<()> {
    gradloom_core::verify::verify(graph)
        .map_err(|error| Error::new(ErrorKind::Verify, format!("after the stage `{stage}`: {error}")))
}

fn verified_in_debug(graph: &Graph, stage: &str) -> Result<()> {
    if cfg!(debug_assertions) { verified(graph, stage) } else { Ok(()) }
}

/// Returns the traced graph with its result as output and guard `loss`.
fn with_loss(traced: &Traced) -> Result<Graph> {
    let mut graph = traced.graph.clone();
    let loss = traced.results[0];
    let ty = graph.ty(loss).clone();
    if ty != Type::scalar(DType::F32) {
        let help = match ty.shape.rank() {
            0 if ty.dtype.is_float() => "convert it with .cast(DType::F32)",
            0 => "integers and bools have no gradient: compute the loss from floats",
            _ => "reduce it to one number, as with `.mean()`",
        };
        let error = Error::new(ErrorKind::Trace, format!("the loss is {ty}, not f32[]")).help(help);
        return Err(graph.blame(graph.defining_op(loss), error));
    }
    graph.outputs.insert(0, Output { name: LOSS.into(), value: loss });
    graph.guards.push(Guard { name: LOSS.into(), value: loss });
    Ok(graph)
}

/// Appends the backward pass of the output `loss`, and returns the graph with its trainable parameters.
///
/// # Errors
/// Returns an error if a parameter that is not frozen has no gradient, or an op between the loss and a
/// parameter has none.
pub fn differentiate(graph: &Graph, traced: &Traced, params: &ParamTable) -> Result<(Graph, Vec<Trainable>)> {
    let (graph, trainables, _) = differentiate_with(graph, traced, params, &Options::default())?;
    Ok((graph, trainables))
}

/// Differentiates the possibly scaled loss with respect to the parameters that `options` trains. Also returns
/// the names of the parameters that the loss does not depend on.
fn differentiate_with(
    graph: &Graph,
    traced: &Traced,
    params: &ParamTable,
    options: &Options,
) -> Result<(Graph, Vec<Trainable>, Vec<String>)> {
    let names = params.iter().map(|used| used.name.as_str());
    let Options { frozen, trained, .. } = options;
    frozen.iter().chain(trained).try_for_each(|pattern| pattern.expect_any(names.clone()))?;
    let is_frozen = |name: &str, param: &Param| {
        param.is_frozen()
            || frozen.iter().any(|pattern| pattern.matches(name))
            || !trained.is_empty() && !trained.iter().any(|pattern| pattern.matches(name))
    };
    let mut graph = graph.clone();
    let loss = graph.output(LOSS).ok_or_else(no_loss)?;
    let mut wanted: Vec<(&str, ValueId, Option<bool>)> = Vec::new();
    let mut unused = Vec::new();
    for used in params.iter().filter(|used| !is_frozen(&used.name, &used.param)) {
        match traced.params.iter().find(|(_, _, id)| *id == used.param.id()) {
            Some((name, value, _)) => wanted.push((name, *value, used.param.decay())),
            None => unused.push(used.name.clone()),
        }
    }
    if let (Some(first), false) = (unused.first(), options.allows_unused) {
        let mut error = Error::new(
            ErrorKind::MissingGradient,
            format!("the loss does not use the parameter `{first}`"),
        )
        .help(
            "use it in the loss, freeze it with `Param::freeze` or `Trainer::freeze`, or let it be with \
                     `Trainer::allow_unused`",
        );
        if unused.len() > 1 {
            error = error.note(format!("nor: {}", unused[1..].join(", ")));
        }
        return Err(error);
    }
    let values: Vec<ValueId> = wanted.iter().map(|(_, value, _)| *value).collect();
    let origin = graph.defining_op(loss).and_then(|op| op.origin);
    let seed = seed(&mut Builder::new(&mut graph, origin), options);
    let mut gradients = grad::append(&mut graph, loss, seed, &values)?;
    if options.allows_unused {
        let has_gradient: Vec<bool> = gradients.iter().map(Option::is_some).collect();
        let without = wanted.iter().zip(&has_gradient).filter(|(_, has)| !**has);
        unused.extend(without.map(|((name, ..), _)| name.to_string()));
        let mut has = has_gradient.iter();
        wanted.retain(|_| has.next() == Some(&true));
        gradients.retain(Option::is_some);
    }
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
            shard: None,
        })
        .collect();
    Ok((graph, trainables, unused))
}

/// Appends the number with which the backward pass begins; `None` stands for 1.
fn seed(b: &mut Builder<'_>, options: &Options) -> Option<ValueId> {
    let share = 1.0 / options.ranks as f64;
    match (options.scales_loss.then(|| optim::loss_scale(b)), options.ranks) {
        (scale, 1) => scale,
        (Some(scale), _) => Some(b.mul_number(scale, share)),
        (None, _) => Some(b.number(share)),
    }
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
        let gradients = |scales_loss| {
            let loss = with_loss(&traced).unwrap();
            let options = Options { scales_loss, ..Options::default() };
            let (mut graph, trainables, _) = differentiate_with(&loss, &traced, &params, &options).unwrap();
            let seeds = graph.to_string().matches(optim::LOSS_SCALE).count();
            graph.outputs =
                trainables.into_iter().map(|t| Output { name: t.name, value: t.gradient }).collect();
            let leaves = Leaves::random(3).with(optim::LOSS_SCALE, DType::F32, &[], &[1024.0]);
            let values = evaluate(&graph, &|kind| leaves.value(kind)).unwrap().outputs;
            (seeds, values.into_iter().map(|(name, value)| (name, value.to_f64())).collect::<Vec<_>>())
        };
        let ((none, plain), (seeds, scaled)) = (gradients(false), gradients(true));
        assert_eq!((none, seeds), (0, 1));
        // Compare exactly, because scaling by a power of two does not round.
        let times = |values: &Vec<f64>| values.iter().map(|x| x * 1024.0).collect::<Vec<_>>();
        let plain: Vec<_> = plain.iter().map(|(name, values)| (name.clone(), times(values))).collect();
        assert_eq!(plain, scaled);
        assert_eq!(plain.len(), 4);
    }
}
