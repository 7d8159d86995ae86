//! The open trace: a thread-local stack of graphs under construction.

use super::{Input, ParamTable, Tensor};
use crate::collections::{IdMap, SortedMap};
use crate::error::{Error, ErrorKind, Result};
use crate::ir::{
    BinaryFraction, BlockId, DType, Definition, Graph, Id, Literal, Number, OpKind, Origin, OriginId, Output,
    Shape, Type, TypeError, ValueId,
};
use crate::nn::{Module, Param, ParamId, StateId};
use std::cell::RefCell;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU32, Ordering};

/// Per-step scalars that key random numbers: low and high word of the seed, and the number of the attempted
/// step.
pub(crate) const RNG_SCALARS: [&str; 3] = ["rng.seed_lo", "rng.seed_hi", "rng.step"];

/// The result of tracing.
#[derive(Clone, Debug)]
pub struct Traced {
    /// Graph of the inputs, the parameters and states that were used, ops, captures and updates of states.
    pub graph: Graph,
    /// Values of the tensors that the closure returned.
    pub results: Vec<ValueId>,
    /// Name, leaf and identity of each used parameter, in the order of the model's fields.
    pub params: Vec<(String, ValueId, ParamId)>,
}

/// A block under construction, opened by `checkpoint` or `scan`.
#[derive(Debug)]
pub(super) struct Frame {
    pub(super) block: BlockId,
    /// Outer values that the block uses, each with its block parameter, in the order of first use.
    pub(super) captured: Vec<(ValueId, ValueId)>,
    /// Trip count, if the block is the body of a loop.
    pub(super) rounds: Option<usize>,
    /// Random bits of a loop: the outer value with the bits of all iterations, and the block parameter with
    /// those of one iteration.
    pub(super) drawn: Vec<(ValueId, ValueId)>,
}

#[derive(Debug)]
pub(crate) struct Scope {
    pub(crate) graph: Graph,
    generation: u32,
    pub(crate) training: bool,
    pub(super) table: ParamTable,
    used: SortedMap<ParamId, ValueId>,
    /// Leaf of each state that was read or updated.
    pub(super) used_states: SortedMap<StateId, ValueId>,
    pub(super) error: Option<Error>,
    /// Number of sources of random bits so far.
    pub(super) sites: u32,
    /// Location of the `.loss(..)` or `.infer(..)` call, to which errors point if the op's own location is
    /// inside a library.
    pub(super) root: Origin,
    /// Source location of the current op in another language; see [`Recording::at`].
    pub(super) foreign: Option<Origin>,
    /// Name of the outermost method in progress that the user called, if any; see [`super::acting`].
    pub(super) acting: Option<&'static str>,
    /// Locations of the user's calls in progress, innermost last: see [`super::acting`].
    pub(super) places: Vec<Origin>,
    /// Location of the op that is being added, for errors of its operands.
    pub(super) here: Option<Origin>,
    /// Last parameter that was used, and the location of the use.
    last_param: Option<(ValueId, Origin)>,
    pub(super) frames: Vec<Frame>,
    /// Block of each value that is not in the entry block.
    pub(super) owners: IdMap<ValueId, BlockId>,
}

thread_local! {
    static SCOPES: RefCell<Vec<Scope>> = const { RefCell::new(Vec::new()) };
}

static GENERATIONS: AtomicU32 = AtomicU32::new(1);

/// Runs `f` on the innermost open trace. `f` must not call this function, as the trace is mutably borrowed.
#[track_caller]
pub(crate) fn with_scope<R>(f: impl FnOnce(&mut Scope) -> R) -> R {
    // Assert outside the closure, so that the panic is reported at the user's line.
    assert!(
        SCOPES.with(|scopes| !scopes.borrow().is_empty()),
        "no trace is open on this thread: tensors exist only inside the closures given to `.loss(..)` and \
         `.infer(..)`"
    );
    SCOPES.with(|scopes| f(scopes.borrow_mut().last_mut().expect("just looked")))
}

/// Returns a remedy for an op that was refused, if one is known.
pub(super) fn remedy(problem: &TypeError) -> Option<String> {
    let is_too_large = ["any memory", "any memory can hold"].iter().any(|end| problem.message.ends_with(end));
    problem.help.clone().or_else(|| is_too_large.then(|| "make its extents smaller".to_string()))
}

/// Runs `f` on the open trace with this generation number, if there is one.
pub(super) fn with_scope_of(generation: u32, f: impl FnOnce(&mut Scope)) {
    // Use `try_with`, because `with` panics while the thread's locals are being destroyed.
    let _ = SCOPES.try_with(|scopes| {
        let mut scopes = scopes.borrow_mut();
        if let Some(scope) = scopes.iter_mut().rev().find(|scope| scope.generation == generation) {
            f(scope);
        }
    });
}

/// Returns `true` if a training loss is being traced; dropout is active only then.
#[track_caller]
pub fn is_training() -> bool {
    with_scope(|scope| scope.training)
}

/// Error message for a handle that is used outside its trace.
const OTHER_TRACE: &str = "this tensor belongs to another trace";
const OTHER_TRACE_HELP: &str = "a tensor lives inside the closure in which it was made: make it anew here, \
                                or keep its elements in a `Param`, a `State` or an input";

/// Returns `true` if training or forward programs add an output of this name themselves.
fn is_reserved(name: &str) -> bool {
    name == "loss" || name == crate::optim::GRADIENT_NORM || name.starts_with("result.")
}

/// Traces `f` over declared inputs.
///
/// # Errors
/// Returns the first error of an operation, with its location in the source, or an error of
/// [`Recording::open`] or [`Recording::input`].
#[track_caller]
pub fn trace<R>(
    model: &dyn Module,
    inputs: &[Input],
    training: bool,
    f: impl FnOnce(&[Tensor]) -> R,
    results: impl FnOnce(R) -> Vec<Tensor>,
) -> Result<Traced> {
    let recording = Recording::open(model, training)?;
    let tensors = recording.inputs(inputs)?;
    let returned = results(f(&tensors));
    recording.finish(&returned)
}

/// An open trace, to which ops are added one by one. It is for callers that cannot pass a closure because the
/// model is written in another language; other callers use [`trace`].
///
/// Recordings of one thread must end in the reverse order of their beginning. Dropping a recording, even
/// during a panic, discards it.
///
/// ```
/// # mod gradloom { pub use gradloom_core::*; }
/// use gradloom::ir::Origin;
/// use gradloom::trace::{Recording, f32};
///
/// let recording = Recording::open(&(), false)?;
/// let x = recording.input(&f32("x", [2, 3]))?;
/// recording.at(Some(Origin { file: "model.ts".into(), line: 7, column: 12 }));
/// let wrong = x.matmul(x);
/// let error = recording.finish(&[wrong]).unwrap_err();
/// assert_eq!(error.origin().unwrap().to_string(), "model.ts:7:12");
/// # Ok::<(), gradloom_core::error::Error>(())
/// ```
#[derive(Debug)]
pub struct Recording {
    // Makes the recording `!Send`, as a trace belongs to one thread.
    not_send: PhantomData<*const ()>,
}

impl Recording {
    /// Opens a trace of `model`. Until it ends, all operations on tensors of this thread belong to it.
    ///
    /// # Errors
    /// Returns an error if two parameters or states of the model have the same name, or if one has no name or
    /// a name reserved for the optimizer.
    #[track_caller]
    pub fn open(model: &dyn Module, training: bool) -> Result<Self> {
        let root = Origin::caller();
        let scope = Scope::new(ParamTable::of(model)?, training, root);
        SCOPES.with(|scopes| scopes.borrow_mut().push(scope));
        Ok(Self { not_send: PhantomData })
    }

    /// Declares each input, as [`Recording::input`] does. A separate function, so that it is compiled once
    /// and not for each pair of closures of [`trace`].
    fn inputs(&self, inputs: &[Input]) -> Result<Vec<Tensor>> {
        inputs.iter().map(|input| self.input(input)).collect()
    }

    /// Declares an input and returns its tensor.
    ///
    /// # Errors
    /// Returns an error if the name is empty or another input has the same name.
    pub fn input(&self, input: &Input) -> Result<Tensor> {
        with_scope(|scope| {
            let same = |kind: &OpKind| matches!(kind, OpKind::Input { name, .. } if *name == input.name);
            if scope.graph.entry_ops().any(|(_, op)| same(&op.kind)) {
                return Err(Error::new(ErrorKind::Trace, format!("two inputs are called `{}`", input.name))
                    .at(scope.root.clone(), "inputs")
                    .help("give each input a name of its own"));
            }
            if input.name.is_empty() {
                return Err(Error::new(ErrorKind::Trace, format!("an input of {} has no name", input.ty))
                    .at(scope.root.clone(), "inputs")
                    .help("name it where it is declared, as `f32(\"x\", [8, 64])`"));
            }
            let value = scope.add_leaf(OpKind::Input { name: input.name.clone(), ty: input.ty.clone() });
            Ok(scope.tensor(value))
        })
    }

    /// Sets the source location of the following ops; with `None`, it is the location of their callers.
    pub fn at(&self, origin: Option<Origin>) {
        with_scope(|scope| scope.foreign = origin);
    }

    /// Returns the first error so far. Tracing continues after an error, with placeholders, but yields no
    /// result.
    pub fn error(&self) -> Option<Error> {
        with_scope(|scope| scope.error.clone())
    }

    /// Ends the trace and returns its graph.
    ///
    /// # Errors
    /// Returns the first error of an operation.
    pub fn finish(self, results: &[Tensor]) -> Result<Traced> {
        let results: Vec<ValueId> = results.iter().map(|t| with_scope(|s| s.checked(*t))).collect();
        // Replace the scope instead of popping it: dropping the recording pops the empty scope.
        let scope = with_scope(|scope| {
            let empty = Scope::new(ParamTable::default(), scope.training, scope.root.clone());
            std::mem::replace(scope, empty)
        });
        if let Some(error) = scope.error {
            return Err(error);
        }
        let params = scope
            .table
            .iter()
            .filter_map(|p| scope.used.get(&p.param.id()).map(|&v| (p.name.clone(), v, p.param.id())))
            .collect();
        Ok(Traced { graph: scope.graph, results, params })
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        SCOPES.with(|scopes| scopes.borrow_mut().pop());
    }
}

impl Scope {
    fn new(table: ParamTable, training: bool, root: Origin) -> Self {
        Self {
            graph: Graph::new(),
            generation: GENERATIONS.fetch_add(1, Ordering::Relaxed),
            training,
            table,
            used: SortedMap::new(),
            used_states: SortedMap::new(),
            error: None,
            sites: 0,
            root,
            foreign: None,
            acting: None,
            places: Vec::new(),
            here: None,
            last_param: None,
            frames: Vec::new(),
            owners: IdMap::new(),
        }
    }

    /// Adds an op without operands to the entry block, regardless of the cursor.
    pub(crate) fn add_leaf(&mut self, kind: OpKind) -> ValueId {
        let cursor = std::mem::replace(&mut self.graph.cursor, self.graph.entry);
        let added = self.graph.add(kind, &[], None);
        self.graph.cursor = cursor;
        match added {
            Ok(values) => values[0],
            Err(problem) => {
                let help = remedy(&problem);
                let mut error = Error::new(ErrorKind::Trace, problem.message).at(self.root.clone(), "");
                if let Some(help) = help {
                    error = error.help(help);
                }
                self.fail(error);
                self.placeholder(Type::scalar(crate::ir::DType::F32))
            }
        }
    }

    pub(crate) fn tensor(&self, value: ValueId) -> Tensor {
        Tensor::new(value, self.generation)
    }

    /// Returns the value of a handle as seen from the block under construction; for a handle of another
    /// trace, records an error and returns a placeholder.
    pub(super) fn checked(&mut self, tensor: Tensor) -> ValueId {
        if tensor.generation() != self.generation {
            let error = Error::new(ErrorKind::Trace, OTHER_TRACE).at(self.root.clone(), "");
            self.fail(error.help(OTHER_TRACE_HELP));
            return self.placeholder(Type::scalar(DType::F32));
        }
        self.reach(tensor.value(), self.frames.len())
    }

    /// Returns `true` if a handle belongs to this trace; otherwise, records an error at the caller's
    /// location.
    pub(super) fn belongs(&mut self, tensor: Tensor, caller: Origin) -> bool {
        let belongs = tensor.generation() == self.generation;
        if !belongs {
            let origin = self.origin_of(caller);
            let error =
                Error::new(ErrorKind::Trace, OTHER_TRACE).at(origin, self.called().unwrap_or_default());
            self.fail(error.help(OTHER_TRACE_HELP));
        }
        belongs
    }

    /// Returns the block to which new ops are added.
    pub(super) fn innermost(&self) -> BlockId {
        self.frames.last().map_or(self.graph.entry, |frame| frame.block)
    }

    /// Forgets the leaves of parameters and states whose value index is `first` or greater.
    pub(super) fn forget_leaves_from(&mut self, first: usize) {
        self.used.retain(|value| value.index() < first);
        self.used_states.retain(|value| value.index() < first);
    }

    /// Returns the generation number of the trace, which its handles store.
    pub(super) fn generation(&self) -> u32 {
        self.generation
    }

    /// Returns the value as seen from the block at `depth`, where 0 is the entry block: outer values are
    /// passed in through block parameters.
    pub(super) fn reach(&mut self, value: ValueId, depth: usize) -> ValueId {
        let owner = self.owners.get(&value).copied().unwrap_or(self.graph.entry);
        let current = if depth == 0 { self.graph.entry } else { self.frames[depth - 1].block };
        if owner == current {
            return value;
        }
        if depth == 0 {
            let message = "a tensor made inside `checkpoint` or `scan` is used outside of it";
            let place = self.here.clone().unwrap_or_else(|| self.root.clone());
            let error = Error::new(ErrorKind::Trace, message).at(place, "");
            self.fail(error.help("return the tensor from the closure"));
            return self.placeholder(self.graph.ty(value).clone());
        }
        if let Some(&(_, inner)) = self.frames[depth - 1].captured.iter().find(|(outer, _)| *outer == value) {
            return inner;
        }
        self.reach(value, depth - 1);
        let inner = self.add_param(self.graph.ty(value).clone(), depth);
        self.frames[depth - 1].captured.push((value, inner));
        inner
    }

    /// Adds a parameter to the block at `depth`, which is at least 1.
    fn add_param(&mut self, ty: Type, depth: usize) -> ValueId {
        let block = self.frames[depth - 1].block;
        let index = self.graph.blocks[block].params.len();
        let definition = Definition::BlockParam(block, index);
        let param = self.graph.values.push(crate::ir::Value { ty, definition });
        self.graph.blocks[block].params.push(param);
        self.owners.insert(param, block);
        param
    }

    /// Records the error if it is the first, with notes about its location: the parameter used there, because
    /// the line does not identify a layer in a `Vec`, and the tensor that was converted to i32 there.
    pub(crate) fn fail(&mut self, mut error: Error) {
        if self.error.is_some() {
            return;
        }
        if let Some(origin) = error.origin().cloned() {
            if let Some((param, _)) = self.last_param.as_ref().filter(|(_, at)| *at == origin)
                && let Some(OpKind::Param { name, ty }) = self.graph.defining_op(*param).map(|op| &op.kind)
            {
                error = error.note(format!("the parameter `{name}` here is {ty}"));
            }
            if let Some(ty) = self.counted_at(&origin) {
                error = error.note(format!("the {ty} here takes part as i32, as u8 and i64 do in all ops"));
            }
        }
        self.error = Some(error);
    }

    /// Returns the type of the u8 or i64 tensor that was last converted to i32 at this location.
    fn counted_at(&self, origin: &Origin) -> Option<Type> {
        let block = &self.graph.blocks[self.graph.cursor];
        let ops = block.ops.iter().rev().map(|&op| &self.graph.ops[op]);
        // Skip placeholders, which have no location.
        let located = ops.filter_map(|op| Some((op, self.graph.origin(op)?)));
        // The ops of a call are adjacent, so stop at the first op of another call.
        let mut here = located.take_while(|(_, at)| *at == origin);
        here.find_map(|(op, _)| match op.kind {
            OpKind::Cast { dtype: DType::I32 } => {
                Some(self.graph.ty(op.operands[0])).filter(|ty| ty.dtype.computed() == DType::I32).cloned()
            }
            _ => None,
        })
        .filter(|ty| ty.dtype.is_for_memory())
    }

    /// Returns the name of the outermost method in progress that the user called, if any.
    pub(super) fn called(&self) -> Option<&'static str> {
        self.acting
    }

    /// Returns the token that the caret in the error marks, and the message of an op. If the user called a
    /// method that is in progress, its name replaces that of the op in both.
    pub(super) fn as_called<'t>(&self, token: &'t str, message: String) -> (&'t str, String) {
        match self.called() {
            Some(called) if called != token && !token.is_empty() => {
                (called, message.replacen(&format!("`{token}`"), &format!("`{called}`"), 1))
            }
            Some(called) => (called, message),
            None => (token, message),
        }
    }

    /// Returns a value with which to continue after an error: zeros of this type, or a scalar if the type is
    /// too large.
    pub(crate) fn placeholder(&mut self, ty: Type) -> ValueId {
        let splat = |ty: Type| OpKind::Constant { data: Literal::Splat(Number::of(ty.dtype, 0.0)), ty };
        let scalar = Type::scalar(ty.dtype);
        // The type may be too large for any memory, so fall back to a scalar.
        let added =
            self.graph.add(splat(ty), &[], None).or_else(|_| self.graph.add(splat(scalar), &[], None));
        let value = added.expect("a scalar is always possible")[0];
        self.own(&[value]);
        value
    }

    /// Records that values belong to the block under construction.
    pub(super) fn own(&mut self, values: &[ValueId]) {
        if let Some(frame) = self.frames.last() {
            let block = frame.block;
            self.owners.extend(values.iter().map(|&v| (v, block)));
        }
    }

    pub(crate) fn intern(&mut self, caller: Origin) -> OriginId {
        let origin = self.origin_of(caller);
        self.graph.origins.intern(origin)
    }

    /// Returns the leaf of a parameter as seen from the block under construction, creating the leaf at the
    /// first use.
    pub(crate) fn param(&mut self, param: &Param, caller: Origin) -> ValueId {
        let origin = self.origin_of(caller);
        if let Some(&value) = self.used.get(&param.id()) {
            self.last_param = Some((value, origin));
            return self.reach(value, self.frames.len());
        }
        let ty = param.ty();
        let Some(known) = self.table.get(param.id()) else {
            self.fail(
                Error::new(
                    ErrorKind::Trace,
                    format!("a parameter of shape {} is not part of the model", ty.shape),
                )
                .at(origin, "tensor")
                .help("make it a field of the model, so that `#[derive(Module)]` finds it"),
            );
            return self.placeholder(ty);
        };
        let kind = OpKind::Param { name: known.name.clone(), ty };
        let value = self.add_leaf(kind);
        self.used.insert(param.id(), value);
        self.last_param = Some((value, origin));
        self.reach(value, self.frames.len())
    }

    /// Returns the leaf of a per-step scalar, creating it at the first use.
    fn scalar(&mut self, name: &str, dtype: DType) -> ValueId {
        let kind = OpKind::Scalar { name: name.to_string(), dtype };
        let known = self.graph.entry_ops().find(|(_, op)| op.kind == kind).map(|(_, op)| op.results[0]);
        known.unwrap_or_else(|| self.add_leaf(kind))
    }

    /// Adds random bits for the block under construction, with a new site. The bits for all iterations of a
    /// loop are drawn outside the loop, and each iteration reads one slice.
    pub(super) fn random_bits(
        &mut self,
        shape: &Shape,
        ones: BinaryFraction,
        origin: OriginId,
    ) -> std::result::Result<ValueId, TypeError> {
        let rounds: Vec<usize> = self.frames.iter().filter_map(|frame| frame.rounds).collect();
        let depth = self.frames.iter().position(|frame| frame.rounds.is_some()).unwrap_or(self.frames.len());
        let key = RNG_SCALARS.map(|name| {
            let scalar = self.scalar(name, DType::U32);
            self.reach(scalar, depth)
        });
        let kind = OpKind::RandomBits { shape: [&rounds[..], shape].concat().into(), site: self.sites, ones };
        self.sites += 1;
        let block = if depth == 0 { self.graph.entry } else { self.frames[depth - 1].block };
        let cursor = std::mem::replace(&mut self.graph.cursor, block);
        let made = self.graph.add(kind, &key, Some(origin));
        self.graph.cursor = cursor;
        let mut value = made?[0];
        self.owners.insert(value, block);
        for depth in depth + 1..=self.frames.len() {
            if self.frames[depth - 1].rounds.is_none() {
                value = self.reach(value, depth);
                continue;
            }
            let ty = self.graph.ty(value);
            let inner = self.add_param(Type::new(ty.dtype, &ty.shape[1..]), depth);
            self.frames[depth - 1].drawn.push((value, inner));
            value = inner;
        }
        Ok(value)
    }

    /// Adds an output, which makes a value readable under a name after each step.
    pub(crate) fn capture(&mut self, name: String, value: ValueId, caller: Origin) {
        let origin = self.origin_of(caller);
        let problem = if name.is_empty() {
            "a capture has no name".to_string()
        } else if is_reserved(&name) {
            format!("the name `{name}` is gradloom's own")
        } else if self.graph.outputs.iter().any(|o| o.name == name) {
            format!("the name `{name}` is captured twice")
        } else if !self.frames.is_empty() {
            format!("`{name}` is captured inside `checkpoint` or `scan`")
        } else {
            self.graph.outputs.push(Output { name, value });
            return;
        };
        self.fail(Error::new(ErrorKind::Trace, problem).at(origin, "capture").help(
            "captures need distinct names, outside of blocks, other than `loss`, `gradient_norm` \
             and `result.N`",
        ));
    }
}
