//! Evaluation of a graph: leaves, ops in order, blocks, and the results of a step.

use super::error::in_op;
use super::{HostTensor, movement, op, update};
use crate::collections::IdMap;
use crate::error::{Error, ErrorKind, Result};
use crate::ir::{Block, BlockId, Graph, Op, OpKind, Shape, Type, ValueId};
use crate::verify::verify;

/// A function that returns the value of an input, parameter, state or scalar.
pub type Leaves<'a> = dyn Fn(&OpKind) -> Option<HostTensor> + 'a;

/// The results of a step: outputs, guards and next values.
#[derive(Clone, Debug, PartialEq)]
pub struct Evaluation {
    /// Names and values of the outputs, in the graph's order.
    pub outputs: Vec<(String, HostTensor)>,
    /// Names and values of the guards, in the graph's order.
    pub guards: Vec<(String, HostTensor)>,
    /// Name of the first guard with a non-finite element, if any. In that case, no update takes effect.
    pub not_finite: Option<String>,
    /// Names and values after the step of all updated parameters and states, each once. If a guard is not
    /// finite, these are the values before the step.
    pub next: Vec<(String, HostTensor)>,
}

impl Evaluation {
    /// Returns the output with this name.
    pub fn output(&self, name: &str) -> Option<&HostTensor> {
        find(&self.outputs, name)
    }

    /// Returns the first guard with this name.
    pub fn guard(&self, name: &str) -> Option<&HostTensor> {
        find(&self.guards, name)
    }

    /// Returns the value after the step of the parameter or state with this name, if any update targets it.
    pub fn next(&self, name: &str) -> Option<&HostTensor> {
        find(&self.next, name)
    }

    /// Returns `true` if the updates took effect.
    pub fn committed(&self) -> bool {
        self.not_finite.is_none()
    }
}

fn find<'a>(list: &'a [(String, HostTensor)], name: &str) -> Option<&'a HostTensor> {
    list.iter().find(|(n, _)| n == name).map(|(_, tensor)| tensor)
}

/// The values of the entry block.
#[derive(Clone, Debug)]
pub struct EntryValues {
    values: IdMap<ValueId, HostTensor>,
}

impl EntryValues {
    /// Returns the tensor of a value of the entry block.
    pub fn get(&self, value: ValueId) -> Option<&HostTensor> {
        self.values.get(&value)
    }
}

impl std::ops::Index<ValueId> for EntryValues {
    type Output = HostTensor;

    fn index(&self, value: ValueId) -> &HostTensor {
        &self.values[&value]
    }
}

/// Runs one step of a graph in float64.
///
/// `leaves` returns the value of each input, parameter, state and scalar. A state for which it returns `None`
/// starts as its `init`.
///
/// # Errors
/// Returns an error if the graph is invalid, if the value of a leaf is missing or has another type, or if an
/// op or an update traps. No update takes effect in that case.
pub fn evaluate(graph: &Graph, leaves: &Leaves<'_>) -> Result<Evaluation> {
    finish(graph, evaluate_values(graph, leaves)?.values)
}

/// Returns the results of a step, given the values that it computed. Public for the tests of fusion.
#[doc(hidden)]
pub fn finish(graph: &Graph, values: IdMap<ValueId, HostTensor>) -> Result<Evaluation> {
    let values = EntryValues { values };
    let outputs = graph.outputs.iter().map(|o| (o.name.clone(), values[o.value].clone())).collect();
    let guards: Vec<_> = graph.guards.iter().map(|g| (g.name.clone(), values[g.value].clone())).collect();
    let finite = |tensor: &HostTensor| tensor.to_f64().iter().all(|v| v.is_finite());
    let not_finite = guards.iter().find(|(_, tensor)| !finite(tensor)).map(|(name, _)| name.clone());
    let next = update::next_values(graph, &values, not_finite.is_none())?;
    Ok(Evaluation { outputs, guards, not_finite, next })
}

/// Runs the ops of a graph in float64 and returns all values of the entry block. Updates are not performed.
///
/// # Errors
/// Returns an error if the graph is invalid, if the value of a leaf is missing or has another type, or if an
/// op traps.
pub fn evaluate_values(graph: &Graph, leaves: &Leaves<'_>) -> Result<EntryValues> {
    verify(graph)?;
    let values = run_ops(graph, &graph.blocks[graph.entry], IdMap::new(), leaves)?;
    Ok(EntryValues { values })
}

fn run_ops(
    graph: &Graph,
    block: &Block,
    mut values: IdMap<ValueId, HostTensor>,
    leaves: &Leaves<'_>,
) -> Result<IdMap<ValueId, HostTensor>> {
    for &id in &block.ops {
        let op = &graph.ops[id];
        let operands: Vec<&HostTensor> = op.operands.iter().map(|v| &values[v]).collect();
        let results = run_op(graph, op, &operands, leaves).map_err(|error| in_op(error, graph, id))?;
        values.extend(op.results.iter().copied().zip(results));
    }
    Ok(values)
}

fn run_op(graph: &Graph, op: &Op, operands: &[&HostTensor], leaves: &Leaves<'_>) -> Result<Vec<HostTensor>> {
    let types: Vec<&Type> = op.results.iter().map(|&v| graph.ty(v)).collect();
    match &op.kind {
        kind if kind.is_external_leaf() => Ok(vec![leaf_value(kind, types[0], leaves)?]),
        OpKind::Repeat { block, trip, carried } => {
            repeat(graph, *block, *trip, *carried, operands, &types, leaves)
        }
        OpKind::Checkpoint { block } => {
            run_block(graph, *block, operands.iter().map(|&x| x.clone()).collect(), leaves)
        }
        kind => op::apply(graph, kind, operands, &types),
    }
}

/// Returns the value of a leaf from `leaves`, or the initial value of a state.
fn leaf_value(kind: &OpKind, ty: &Type, leaves: &Leaves<'_>) -> Result<HostTensor> {
    let name = Graph::leaf_name(kind).unwrap_or_default();
    let fail = |message| Err(Error::new(ErrorKind::Feed, message));
    let tensor = match (leaves(kind), kind) {
        (Some(tensor), _) => tensor,
        (None, OpKind::State { init, .. }) => {
            HostTensor::from_numbers(ty.clone(), std::iter::repeat_n(*init, ty.elements()))
        }
        (None, _) => return fail(format!("the {} {name:?} has no value", kind.name())),
    };
    if tensor.ty != *ty {
        return fail(format!("the {} {name:?} is {ty}, but its value is {}", kind.name(), tensor.ty));
    }
    match tensor.check() {
        Ok(()) => Ok(tensor),
        Err(message) => fail(format!("the {} {name:?}: {message}", kind.name())),
    }
}

fn run_block(
    graph: &Graph,
    block: BlockId,
    arguments: Vec<HostTensor>,
    leaves: &Leaves<'_>,
) -> Result<Vec<HostTensor>> {
    let block = &graph.blocks[block];
    let values = run_ops(graph, block, block.params.iter().copied().zip(arguments).collect(), leaves)?;
    Ok(block.results.iter().map(|v| values[v].clone()).collect())
}

fn repeat(
    graph: &Graph,
    block: BlockId,
    trip: usize,
    carried: usize,
    operands: &[&HostTensor],
    types: &[&Type],
    leaves: &Leaves<'_>,
) -> Result<Vec<HostTensor>> {
    let mut current: Vec<HostTensor> = operands[..carried].iter().map(|&x| x.clone()).collect();
    let mut stacked: Vec<Vec<HostTensor>> = vec![Vec::new(); types.len() - carried];
    for turn in 0..trip {
        let slices = operands[carried..].iter().map(|&x| turn_of(x, turn));
        let arguments = current.into_iter().chain(slices).collect();
        let mut results = run_block(graph, block, arguments, leaves)?;
        for (stack, result) in stacked.iter_mut().zip(results.split_off(carried)) {
            stack.push(result);
        }
        current = results;
    }
    let stacks = stacked.iter().zip(&types[carried..]).map(|(stack, &ty)| {
        let elements = stack.iter().flat_map(|x| (0..x.len()).map(|i| x.get(i)));
        HostTensor::from_numbers(ty.clone(), elements)
    });
    Ok(current.into_iter().chain(stacks).collect())
}

/// Returns the slice of a stacked operand for one iteration.
fn turn_of(x: &HostTensor, turn: usize) -> HostTensor {
    let ty = Type::new(x.ty.dtype, Shape::from(&x.ty.shape[1..]));
    movement::strided(x, &ty, turn * ty.elements(), &ty.shape.strides())
}
