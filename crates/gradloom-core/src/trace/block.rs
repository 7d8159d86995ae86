//! Blocks: segments that the backward pass recomputes, and loops.

use super::open_block::OpenBlock;
use super::scope::{Frame, Scope, with_scope};
use super::tensor::{fail, refused};
use super::{Tensor, within};
use crate::error::{Error, ErrorKind};
use crate::ir::{Definition, OpKind, Origin, Type, ValueId};

/// Tensors that enter or leave a block: a tensor, `()`, or tuples, arrays and vectors of groups.
pub trait TensorGroup: Sized {
    /// Replaces each tensor `t` of the group by `f(t)`, in order.
    fn map(self, f: &mut dyn FnMut(Tensor) -> Tensor) -> Self;
}

impl TensorGroup for () {
    fn map(self, _: &mut dyn FnMut(Tensor) -> Tensor) {}
}

impl TensorGroup for Tensor {
    fn map(self, f: &mut dyn FnMut(Tensor) -> Tensor) -> Self {
        f(self)
    }
}

impl<T: TensorGroup> TensorGroup for Vec<T> {
    fn map(self, f: &mut dyn FnMut(Tensor) -> Tensor) -> Self {
        self.into_iter().map(|t| t.map(f)).collect()
    }
}

impl<T: TensorGroup, const N: usize> TensorGroup for [T; N] {
    fn map(self, f: &mut dyn FnMut(Tensor) -> Tensor) -> Self {
        <[T; N]>::map(self, |t| TensorGroup::map(t, f))
    }
}

impl<A: TensorGroup, B: TensorGroup> TensorGroup for (A, B) {
    fn map(self, f: &mut dyn FnMut(Tensor) -> Tensor) -> Self {
        let a = self.0.map(f);
        (a, self.1.map(f))
    }
}

impl<A: TensorGroup, B: TensorGroup, C: TensorGroup> TensorGroup for (A, B, C) {
    fn map(self, f: &mut dyn FnMut(Tensor) -> Tensor) -> Self {
        let a = self.0.map(f);
        let b = self.1.map(f);
        (a, b, self.2.map(f))
    }
}

/// Returns the group and the list of its tensors, in order.
pub(super) fn members<G: TensorGroup>(group: G) -> (G, Vec<Tensor>) {
    let mut all = Vec::new();
    let group = group.map(&mut |t| {
        all.push(t);
        t
    });
    (group, all)
}

/// Opens a block whose parameters have the given types: the body of a loop of `rounds` iterations, or a
/// segment if `rounds` is `None`. Returns its guard and its parameters.
fn enter(rounds: Option<usize>, params: &[Type]) -> (OpenBlock, Vec<Tensor>) {
    with_scope(|scope| {
        let guard = OpenBlock::before(scope);
        let block = scope.graph.add_block(params);
        scope.graph.cursor = block;
        scope.frames.push(Frame { block, captured: Vec::new(), rounds, drawn: Vec::new() });
        let params = scope.graph.blocks[block].params.clone();
        scope.own(&params);
        (guard, params.into_iter().map(|v| scope.tensor(v)).collect())
    })
}

/// Adds the block's op at the cursor. If its results are too large for any memory, as in a `scan` of very
/// many steps, records an error of the trace and returns placeholders of the types `likely`.
fn add_op(
    scope: &mut Scope,
    kind: OpKind,
    operands: &[ValueId],
    likely: &[Type],
    caller: Origin,
) -> Vec<Tensor> {
    let token = if matches!(kind, OpKind::Repeat { .. }) { "scan" } else { "checkpoint" };
    let origin = scope.intern(caller);
    let results = match scope.graph.add(kind, operands, Some(origin)) {
        Ok(results) => results,
        Err(problem) => {
            let place = scope.graph.origins.get(origin).expect("just interned").clone();
            scope.fail(
                Error::new(ErrorKind::Trace, format!("`{token}`: {}", problem.message)).at(place, token),
            );
            likely.iter().map(|ty| scope.placeholder(ty.clone())).collect()
        }
    };
    scope.own(&results);
    results.into_iter().map(|v| scope.tensor(v)).collect()
}

/// Marks a segment whose temporaries the backward pass recomputes instead of keeping them: of the tensors
/// that `f` computes, only the results are kept. Gradients are bitwise the same as without the segment.
/// Segments may be nested, and may be inside [`scan`].
///
/// If `f` panics and the panic is caught inside the trace, the trace continues as it was before the segment:
/// ops, random numbers, first uses of parameters and errors of the segment are discarded.
///
/// Chen et al., "Training Deep Nets with Sublinear Memory Cost" (2016).
///
/// ```
/// # mod gradloom { pub use gradloom_core::*; }
/// use gradloom::nn::Linear;
/// use gradloom::trace::{checkpoint, f32, trace};
///
/// let layers: Vec<Linear> = (0..4).map(|_| Linear::new(8, 8)).collect();
/// let loss = |x| layers.iter().fold(x, |x, layer| checkpoint(|| layer.forward(x).tanh())).mean();
/// trace(&layers, &[f32("x", [32, 8])], true, |inputs| loss(inputs[0]), |loss| vec![loss])?;
/// # Ok::<(), gradloom_core::error::Error>(())
/// ```
#[doc(alias = "remat")]
#[track_caller]
pub fn checkpoint<R: TensorGroup>(f: impl FnOnce() -> R) -> R {
    let _place = within();
    let open = OpenCheckpoint::begin();
    let (group, inner) = members(f());
    let mut outer = open.end(&inner).into_iter();
    group.map(&mut |_| outer.next().expect("one result for each tensor"))
}

/// [`checkpoint`] in two calls, for bindings to languages that call closures themselves. Dropping an
/// `OpenCheckpoint` discards the segment.
#[derive(Debug)]
pub struct OpenCheckpoint {
    open: OpenBlock,
    caller: Origin,
}

impl OpenCheckpoint {
    /// Begins a segment.
    #[track_caller]
    pub fn begin() -> Self {
        Self { open: enter(None, &[]).0, caller: Origin::caller() }
    }

    /// Ends the segment with the results `inner`, and returns the corresponding tensors outside it, in order.
    #[must_use]
    pub fn end(self, inner: &[Tensor]) -> Vec<Tensor> {
        let Self { open, caller } = self;
        with_scope(|scope| {
            let results: Vec<ValueId> = inner.iter().map(|&t| scope.checked(t)).collect();
            let likely: Vec<Type> = results.iter().map(|&v| scope.graph.ty(v).clone()).collect();
            let frame = open.close(scope, results);
            let operands: Vec<ValueId> =
                frame.captured.iter().map(|&(outer, _)| visible(scope, outer)).collect();
            add_op(scope, OpKind::Checkpoint { block: frame.block }, &operands, &likely, caller)
        })
    }
}

fn visible(scope: &mut Scope, value: ValueId) -> ValueId {
    let tensor = scope.tensor(value);
    scope.checked(tensor)
}

/// Repeats `f` `trip` times over carried tensors and slices of stacked tensors, which are sliced along their
/// first axis.
///
/// `f` maps (carried, slice of `stacked`) to (next carried, output). The result is (last carried, outputs
/// stacked along a new first axis). Carried tensors keep their types. `f` is traced once.
///
/// Random numbers inside `f`, as for dropout, differ in every iteration.
///
/// A panic of `f` that is caught inside the trace discards the loop, as with [`checkpoint`].
#[doc(alias = "fori_loop")]
#[track_caller]
pub fn scan<C: TensorGroup, S: TensorGroup, O: TensorGroup>(
    trip: usize,
    carried: C,
    stacked: S,
    f: impl FnOnce(C, S) -> (C, O),
) -> (C, O) {
    let _place = within();
    let (carried, initial) = members(carried);
    let (stacked, stacks) = members(stacked);
    let Some((open, inside)) = OpenScan::begin(trip, &initial, &stacks) else {
        // After the error, the shapes of the stacked outputs are unknown: return the results of the body,
        // traced once outside a loop, instead.
        return f(carried, stacked);
    };
    let mut inside = inside.into_iter();
    let mut next = |_| inside.next().expect("one parameter for each tensor");
    let (carried, stacked) = (carried.map(&mut next), stacked.map(&mut next));
    let (last, output) = f(carried, stacked);
    let (last, carried_out) = members(last);
    let (output, outputs) = members(output);
    let Some(results) = open.end(&carried_out, &outputs) else { return (last, output) };
    let mut results = results.into_iter();
    let mut next = |_| results.next().expect("one result for each tensor");
    (last.map(&mut next), output.map(&mut next))
}

/// [`scan`] in two calls, for bindings to languages that call closures themselves. Dropping an `OpenScan`
/// discards the loop.
#[derive(Debug)]
pub struct OpenScan {
    open: OpenBlock,
    caller: Origin,
    trip: usize,
    initial: Vec<Tensor>,
    stacks: Vec<Tensor>,
    params: Vec<Type>,
}

impl OpenScan {
    /// Begins a loop. Returns the loop, and the carried tensors and the slices of the stacked tensors as its
    /// body sees them. Returns `None` after an error of the trace if the first axis of a stacked tensor does
    /// not have extent `trip`.
    #[track_caller]
    pub fn begin(trip: usize, initial: &[Tensor], stacks: &[Tensor]) -> Option<(Self, Vec<Tensor>)> {
        let caller = Origin::caller();
        for stack in stacks {
            if stack.shape().first() != Some(&trip) {
                let message = format!("`scan` of {trip} steps over a stacked tensor {}", stack.shape());
                return refused("scan", message, format!("its first axis must have extent {trip}"), None);
            }
        }
        let slice = |ty: Type| Type::new(ty.dtype, &ty.shape[1..]);
        let params: Vec<Type> =
            initial.iter().map(|t| t.ty()).chain(stacks.iter().map(|t| slice(t.ty()))).collect();
        let (open, inside) = enter(Some(trip), &params);
        let (initial, stacks) = (initial.to_vec(), stacks.to_vec());
        Some((Self { open, caller, trip, initial, stacks, params }, inside))
    }

    /// Ends the loop with the next carried tensors and the outputs of an iteration; returns the last carried
    /// tensors and the stacked outputs. Returns `None` after an error of the trace if the type of a carried
    /// tensor changes.
    #[track_caller]
    pub fn end(self, carried_out: &[Tensor], outputs: &[Tensor]) -> Option<Vec<Tensor>> {
        let Self { open, caller, trip, initial, stacks, params } = self;
        for (i, (before, after)) in params.iter().zip(carried_out).enumerate() {
            if *before != after.ty() {
                let message =
                    format!("`scan`: carried tensor {i} enters as {before} and leaves as {}", after.ty());
                fail("scan", message, "a carried tensor keeps its dtype and shape");
                with_scope(|scope| open.close(scope, Vec::new()));
                return None;
            }
        }
        Some(with_scope(|scope| {
            let mut results: Vec<ValueId> = carried_out.iter().map(|&t| scope.checked(t)).collect();
            let out: Vec<ValueId> = outputs.iter().map(|&t| scope.checked(t)).collect();
            // Captured values are carried unchanged, and random bits are stacked. The order of the parameters
            // is: carried, captured, stacked, random bits. The order of the results is: carried, captured,
            // outputs.
            let captured = scope.frames.last().expect("entered before").captured.clone();
            results.extend(captured.iter().map(|&(_, inner)| inner));
            let split = results.len();
            results.extend(out);
            let likely: Vec<Type> = results.iter().map(|&v| scope.graph.ty(v).clone()).collect();
            let frame = open.close(scope, results);
            let body = &mut scope.graph.blocks[frame.block];
            let (own, extra) = body.params.split_at(params.len());
            let (carried_params, stacked_params) = own.split_at(initial.len());
            let is_drawn = |param: &ValueId| frame.drawn.iter().any(|(_, inner)| inner == param);
            let (drawn, captured_params): (Vec<_>, Vec<_>) = extra.iter().copied().partition(is_drawn);
            body.params = [carried_params, &captured_params, stacked_params, &drawn].concat();
            for (i, &param) in body.params.clone().iter().enumerate() {
                scope.graph.values[param].definition = Definition::BlockParam(frame.block, i);
            }
            let mut operands: Vec<ValueId> = initial.iter().map(|&t| scope.checked(t)).collect();
            operands.extend(captured.iter().map(|&(outer, _)| visible(scope, outer)));
            operands.extend(stacks.iter().map(|&t| scope.checked(t)).collect::<Vec<_>>());
            operands.extend(frame.drawn.iter().map(|&(outer, _)| outer));
            let kind = OpKind::Repeat { block: frame.block, trip, carried: split };
            let mut all = add_op(scope, kind, &operands, &likely, caller);
            all.drain(initial.len()..split);
            all
        }))
    }
}
