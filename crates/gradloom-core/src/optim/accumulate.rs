//! Gradient accumulation over several micro-batches in one step.
//!
//! In: a graph with the gradients of a micro-batch. Out: a graph that runs several micro-batches and has the
//! means of their gradients. Invariant: the computation of a micro-batch waits for the gradients of the
//! previous one, so that the temporaries of only one micro-batch are in memory. Each micro-batch reads the
//! states that the previous one updated.

use super::Trainable;
use crate::error::{Error, ErrorKind, Result};
use crate::grad::expand_blocks;
use crate::ir::{Builder, DType, Graph, Id, Op, OpKind, Output, Type, Update, ValueId};
use crate::trace::Input;
use crate::verify::MAX_EXPANDED_OPS;

/// Returns inputs for the data of all micro-batches: the first axis is `micro_batches` times as long. All
/// micro-batches share an input of rank 0.
pub fn of_all_batches(mut inputs: Vec<Input>, micro_batches: usize) -> Vec<Input> {
    inputs.iter_mut().for_each(|input| input.ty = of_all(&input.ty, micro_batches));
    inputs
}

fn of_all(ty: &Type, micro_batches: usize) -> Type {
    let mut shape = ty.shape.to_vec();
    if let Some(first) = shape.first_mut() {
        *first = first.saturating_mul(micro_batches);
    }
    Type::new(ty.dtype, shape)
}

/// Returns a graph of `micro_batches` micro-batches, each like the given graph, and the parameters to train
/// in it. Its inputs are those of [`of_all_batches`]. An f32 output of rank 0 becomes the mean over the
/// micro-batches, and any other output of rank 0 becomes that of the last micro-batch. Outputs of higher rank
/// are concatenated along the first axis.
///
/// # Errors
/// Returns an error if `micro_batches` is 0, if the micro-batches have more than 2^18 ops in total, or if the
/// model updates a part of a state or a state that must be updated in place.
pub fn accumulate(
    graph: &Graph,
    parameters: &[Trainable],
    micro_batches: usize,
) -> Result<(Graph, Vec<Trainable>)> {
    let refuse = |message: String| Error::new(ErrorKind::Trace, message);
    if micro_batches == 0 {
        return Err(refuse("a step of 0 micro-batches has no gradient".into()).help("accumulate 1 or more"));
    }
    let mut source = graph.clone();
    expand_blocks(&mut source);
    let ops = source.entry_ops().count();
    if ops.saturating_mul(micro_batches) > MAX_EXPANDED_OPS {
        let message = format!(
            "{micro_batches} micro-batches of {ops} ops each: more than {MAX_EXPANDED_OPS} ops in a step"
        );
        return Err(refuse(message).help("accumulate fewer, larger micro-batches"));
    }
    if source.updates.iter().any(|update| update.region.is_some() || update.must_alias) {
        return Err(refuse("micro-batches cannot update a part of a state".into())
            .help("update the whole state, or train without `.accumulate(..)`"));
    }
    let mut made = Batches::new(&source, parameters, micro_batches);
    (0..micro_batches).for_each(|number| made.add(number));
    Ok(made.finish())
}

struct Batches<'g> {
    source: &'g Graph,
    parameters: &'g [Trainable],
    count: usize,
    target: Graph,
    /// Values of the current micro-batch, by their ids in `source`.
    values: Vec<Option<ValueId>>,
    /// Values that all micro-batches share: parameters, whole inputs and constants.
    common: Vec<Option<ValueId>>,
    /// Number of random sites of a micro-batch.
    sites: u32,
    /// Sum of each parameter's gradients so far.
    gradients: Vec<Option<ValueId>>,
    guards: Vec<ValueId>,
    outputs: Vec<Vec<ValueId>>,
    /// Value for which the next micro-batch waits.
    last: Option<ValueId>,
}

impl<'g> Batches<'g> {
    fn new(source: &'g Graph, parameters: &'g [Trainable], count: usize) -> Self {
        let site = |op: &Op| if let OpKind::RandomBits { site, .. } = op.kind { site + 1 } else { 0 };
        let target =
            Graph { origins: source.origins.clone(), customs: source.customs.clone(), ..Graph::new() };
        Self {
            source,
            parameters,
            count,
            target,
            values: vec![None; source.values.len()],
            common: vec![None; source.values.len()],
            sites: source.entry_ops().map(|(_, op)| site(op)).max().unwrap_or(0),
            gradients: vec![None; parameters.len()],
            guards: Vec::new(),
            outputs: vec![Vec::new(); source.outputs.len()],
            last: None,
        }
    }

    fn of(&self, value: ValueId) -> ValueId {
        self.values[value.index()].expect("operands come before what uses them")
    }

    fn add(&mut self, number: usize) {
        // The micro-batch reads the states that the previous one updated.
        let states: Vec<(ValueId, ValueId)> = match number {
            0 => Vec::new(),
            _ => self.source.updates.iter().map(|update| (update.target, self.of(update.value))).collect(),
        };
        self.values.clone_from(&self.common);
        for (state, value) in states {
            self.values[state.index()] = Some(value);
        }
        for (_, op) in self.source.entry_ops() {
            self.op(op, number);
            op.results.iter().for_each(|&result| self.add_gradient(result));
        }
        let guards: Vec<_> = self.source.guards.iter().map(|guard| self.of(guard.value)).collect();
        add_all(&mut self.target, &mut self.guards, guards);
        for (i, output) in self.source.outputs.iter().enumerate() {
            let value = self.of(output.value);
            self.outputs[i].push(value);
        }
        // The next micro-batch waits for the gradient that is computed last, which is that of the first layer
        // in a chain of layers.
        let last = self.parameters.iter().enumerate().max_by_key(|(_, p)| p.gradient.index());
        self.last = last.and_then(|(i, _)| self.gradients[i]);
    }

    fn op(&mut self, op: &Op, number: usize) {
        let is_known = op.results.iter().all(|result| self.values[result.index()].is_some());
        let is_common = op.operands.is_empty() && !matches!(op.kind, OpKind::RandomBits { .. });
        match &op.kind {
            OpKind::Input { name, ty } => return self.input(op, name, ty, number),
            _ if is_common && is_known => return,
            _ => {}
        }
        let mut kind = op.kind.clone();
        if let OpKind::RandomBits { site, .. } = &mut kind {
            *site += self.sites * number as u32;
        }
        let operands: Vec<ValueId> = op.operands.iter().map(|&operand| self.of(operand)).collect();
        let results = Builder::new(&mut self.target, op.origin).all(kind, &operands);
        for (&old, new) in op.results.iter().zip(results) {
            self.values[old.index()] = Some(new);
            if is_common {
                self.common[old.index()] = Some(new);
            }
        }
    }

    /// Adds a value to the gradient sum of each parameter whose gradient it is, right after the op that
    /// computes the value, so that the operands of that op need not be kept. A barrier makes the addition
    /// wait for the last gradient of the previous micro-batch.
    fn add_gradient(&mut self, value: ValueId) {
        let now = self.of(value);
        let mut b = Builder::new(&mut self.target, None);
        for (parameter, sum) in self.parameters.iter().zip(&mut self.gradients) {
            if parameter.gradient == value {
                let mut next = now;
                if let (Some(before), Some(last)) = (*sum, self.last) {
                    let before = b.op(OpKind::Barrier, &[before, last]);
                    next = b.add(before, now);
                }
                *sum = Some(next);
            }
        }
    }

    /// Appends the slice of an input that belongs to a micro-batch.
    fn input(&mut self, op: &Op, name: &str, ty: &Type, number: usize) {
        let result = op.results[0];
        let mut b = Builder::new(&mut self.target, op.origin);
        let whole = *self.common[result.index()].get_or_insert_with(|| {
            let ty = of_all(ty, self.count);
            b.op(OpKind::Input { name: name.to_string(), ty }, &[])
        });
        let mut value = whole;
        if let Some(&rows) = ty.shape.first() {
            let mut start = vec![0; ty.shape.rank()];
            let mut limit = ty.shape.to_vec();
            (start[0], limit[0]) = (number * rows, (number + 1) * rows);
            let step = vec![1; ty.shape.rank()];
            value = b.op(OpKind::Slice { start, limit, step }, &[value]);
        }
        if let Some(last) = self.last {
            value = b.op(OpKind::Barrier, &[value, last]);
        }
        self.values[result.index()] = Some(value);
    }

    fn finish(mut self) -> (Graph, Vec<Trainable>) {
        for update in &self.source.updates {
            let target = self.common[update.target.index()].expect("a state is the same for all");
            let update = Update { target, value: self.of(update.value), ..update.clone() };
            self.target.updates.push(update);
        }
        let share = 1.0 / self.count as f64;
        let mut b = Builder::new(&mut self.target, None);
        let outputs = self.source.outputs.iter().zip(&self.outputs).map(|(output, values)| {
            let ty = b.ty(values[0]);
            let value = match ty.shape.rank() {
                0 if ty.dtype == DType::F32 => {
                    let sum =
                        values.iter().copied().reduce(|a, c| b.add(a, c)).expect("there is a micro-batch");
                    b.mul_number(sum, share)
                }
                0 => *values.last().expect("there is a micro-batch"),
                _ => b.op(OpKind::Concat { axis: 0 }, values),
            };
            Output { name: output.name.clone(), value }
        });
        let outputs: Vec<_> = outputs.collect();
        let parameters = self.parameters.iter().zip(&self.gradients).map(|(parameter, sum)| {
            let sum = sum.expect("each gradient is computed");
            let sum = self.last.map_or(sum, |last| b.op(OpKind::Barrier, &[sum, last]));
            let value = self.common[parameter.value.index()].expect("a parameter is the same for all");
            Trainable { value, gradient: b.mul_number(sum, share), ..parameter.clone() }
        });
        let parameters = parameters.collect();
        self.target.outputs = outputs;
        self.target.guards = self.source.guards.clone();
        for (guard, value) in self.target.guards.iter_mut().zip(self.guards) {
            guard.value = value;
        }
        (self.target, parameters)
    }
}

/// Adds values to sums. If `sums` is empty, the values become the sums.
fn add_all(graph: &mut Graph, sums: &mut Vec<ValueId>, values: Vec<ValueId>) {
    if sums.is_empty() {
        *sums = values;
        return;
    }
    let mut b = Builder::new(graph, None);
    sums.iter_mut().zip(values).for_each(|(sum, value)| *sum = b.add(*sum, value));
}
