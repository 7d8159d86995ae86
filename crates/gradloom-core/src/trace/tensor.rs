//! The tensor handle, and the functions that add operations to the graph.

use super::scope::{remedy, with_scope, with_scope_of};
use crate::decimal::Decimal;
use crate::error::{Error, ErrorKind};
use crate::ir::{DType, Graph, Literal, Number, OpKind, Origin, Shape, Type, ValueId};
use std::marker::PhantomData;

/// A value of the open trace: an id without data, which is cheap to copy.
///
/// A tensor is valid only inside the closure that created it. Operators combine tensors with tensors and
/// numbers, and broadcast as in NumPy: shapes are aligned on the right, and extents must be equal or 1.
#[derive(Clone, Copy)]
pub struct Tensor {
    value: ValueId,
    generation: u32,
    // Makes the handle `!Send`, as a trace belongs to one thread.
    not_send: PhantomData<*const ()>,
}

/// Formats the tensor for `dbg!(x)` in a model: dtype and shape, the number of its value in the graph, the op
/// that computes it, and the source line of the call.
///
/// ```
/// # mod gradloom { pub use gradloom_core::*; }
/// use gradloom::trace::*;
///
/// let loss = |x: Tensor| {
///     let hidden = x.exp();
///     let text = format!("{hidden:?}");
///     assert!(text.starts_with("Tensor(f32[8, 3], %1 = exp, "), "{text}");
///     assert_eq!(format!("{x:?}"), r#"Tensor(f32[8, 3], %0 = input "x")"#);
///     hidden.mean()
/// };
/// trace(&(), &[f32("x", [8, 3])], true, |x| loss(x[0]), |loss| vec![loss])?;
/// # Ok::<(), gradloom_core::error::Error>(())
/// ```
impl std::fmt::Debug for Tensor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let value = self.value;
        let mut text = format!("{value} of a trace that is closed");
        with_scope_of(self.generation, |scope| {
            let graph = &scope.graph;
            text = format!("{}, {value}", graph.ty(value));
            // A parameter of a block has no op, so the text ends with its type and number.
            let Some(op) = graph.defining_op(value) else { return };
            text += &format!(" = {}", op.kind.name());
            if let Some(name) = Graph::leaf_name(&op.kind) {
                text += &format!(" {name:?}");
            }
            if let Some(origin) = graph.origin(op) {
                text += &format!(", {}:{}", origin.file, origin.line);
            }
        });
        write!(f, "Tensor({text})")
    }
}

impl Tensor {
    pub(super) fn new(value: ValueId, generation: u32) -> Self {
        Self { value, generation, not_send: PhantomData }
    }

    /// Returns the value in the graph under construction.
    pub fn value(self) -> ValueId {
        self.value
    }

    pub(super) fn generation(self) -> u32 {
        self.generation
    }

    /// Returns the element type and shape. For a tensor of another trace, records an error and returns f32 of
    /// rank 0.
    ///
    /// ```
    /// # use gradloom_core::{ir::DType, reference::eval, trace::*};
    /// # eval(|| {
    /// let x = full(DType::F32, [2, 3], 0.0);
    /// assert_eq!(x.ty().to_string(), "f32[2, 3]");
    /// # x
    /// # });
    /// ```
    #[track_caller]
    pub fn ty(self) -> Type {
        let caller = Origin::caller();
        with_scope(|scope| match scope.belongs(self, caller) {
            true => scope.graph.ty(self.value).clone(),
            false => Type::scalar(DType::F32),
        })
    }

    /// Returns `true` if the handle belongs to the open trace; otherwise, records an error at the caller's
    /// location.
    #[track_caller]
    pub(crate) fn is_in_trace(self) -> bool {
        let caller = Origin::caller();
        with_scope(|scope| scope.belongs(self, caller))
    }

    /// Returns the shape.
    ///
    /// ```
    /// # use gradloom_core::{ir::DType, reference::eval, trace::*};
    /// # eval(|| {
    /// let x = full(DType::F32, [2, 3], 0.0);
    /// assert_eq!(x.shape()[..], [2, 3]);
    /// # x
    /// # });
    /// ```
    #[track_caller]
    pub fn shape(self) -> Shape {
        self.ty().shape
    }

    /// Returns the element type.
    ///
    /// ```
    /// # use gradloom_core::{ir::DType, reference::eval, trace::*};
    /// # eval(|| {
    /// let x = full(DType::F32, [2, 3], 0.0);
    /// assert_eq!(x.dtype(), DType::F32);
    /// # x
    /// # });
    /// ```
    #[track_caller]
    pub fn dtype(self) -> DType {
        self.ty().dtype
    }

    /// Returns the number of axes.
    ///
    /// ```
    /// # use gradloom_core::{ir::DType, reference::eval, trace::*};
    /// # eval(|| {
    /// let x = full(DType::F32, [2, 3], 0.0);
    /// assert_eq!(x.rank(), 2);
    /// # x
    /// # });
    /// ```
    #[doc(alias = "ndim")]
    #[doc(alias = "dim")]
    #[track_caller]
    pub fn rank(self) -> usize {
        self.ty().shape.rank()
    }

    /// Returns the extents as an array, as in `let [batch, time, width] = x.dims();`. If the rank is not `R`,
    /// records an error of the trace and returns extents of 1.
    ///
    /// ```
    /// # use gradloom_core::{ir::DType, reference::eval, trace::*};
    /// # eval(|| {
    /// let x = full(DType::F32, [2, 3], 0.0);
    /// let [rows, columns] = x.dims();
    /// assert_eq!((rows, columns), (2, 3));
    /// # x
    /// # });
    /// ```
    #[doc(alias = "size")]
    #[track_caller]
    pub fn dims<const R: usize>(self) -> [usize; R] {
        let shape = self.shape();
        // A `match` instead of a closure, so that the error is reported at the caller's line.
        match <[usize; R]>::try_from(&shape[..]) {
            Ok(extents) => extents,
            Err(_) => {
                let message = format!("`dims` wants {R} axes, the tensor is {shape} (rank {})", shape.rank());
                let help = format!(
                    "a tensor of {R} axes is wanted here: reshape it, or look where {shape} comes from"
                );
                refused("dims", message, help, [1; R])
            }
        }
    }

    /// Makes the tensor readable under `name` after each step, and returns it.
    ///
    /// ```
    /// # use gradloom_core::trace::*;
    /// let loss = |x: Tensor| x.exp().capture("hidden").mean();
    /// let traced = trace(&(), &[f32("x", [4])], true, |x| loss(x[0]), |loss| vec![loss])?;
    /// assert_eq!(traced.graph.outputs[0].name, "hidden");
    /// # Ok::<(), gradloom_core::error::Error>(())
    /// ```
    #[track_caller]
    pub fn capture(self, name: impl Into<String>) -> Tensor {
        let caller = Origin::caller();
        if self.is_in_trace() {
            with_scope(|scope| {
                let value = scope.checked(self);
                scope.capture(name.into(), value, caller);
            });
        }
        self
    }

    /// Returns `true` if the elements are u8 or i64, dtypes that no op computes with.
    #[track_caller]
    fn is_data(self) -> bool {
        matches!(self.dtype(), DType::U8 | DType::I64)
    }

    /// Converts u8 and i64 to i32, the dtype in which ops compute with them or use them as indices.
    #[track_caller]
    pub(super) fn counted(self) -> Tensor {
        if self.is_data() { self.cast(DType::I32) } else { self }
    }

    /// Returns the same elements, through which no gradient flows.
    ///
    /// ```
    /// # use gradloom_core::{reference::eval, trace::*};
    /// assert_eq!(eval(|| literal(&[1.0], [1]).detach()), [1.0]);
    /// ```
    #[doc(alias = "stop_gradient")]
    #[track_caller]
    #[must_use]
    pub fn detach(self) -> Tensor {
        if self.is_data() {
            return self;
        }
        emit(OpKind::Unary(crate::ir::UnaryOp::Detach), &[self], "detach")
    }
}

/// Records an error of the open trace at the caller's location, with a remedy unless `help` is empty.
#[track_caller]
pub(crate) fn fail(token: &str, message: impl Into<String>, help: impl Into<String>) {
    fail_at(Origin::caller(), token, message.into(), help.into());
}

fn fail_at(caller: Origin, token: &str, message: String, help: String) {
    with_scope(|scope| {
        let origin = scope.origin_of(caller);
        let (token, message) = scope.as_called(token, message);
        let error = Error::new(ErrorKind::Trace, message).at(origin, token);
        scope.fail(if help.is_empty() { error } else { error.help(help) });
    });
}

/// Records an error as [`fail`] does, and returns `instead`, with which tracing continues.
#[track_caller]
pub(crate) fn refused<T>(token: &str, message: impl Into<String>, help: impl Into<String>, instead: T) -> T {
    fail(token, message, help);
    instead
}

/// Returns `true` if the elements are floats; otherwise, records an error of the op named `token`.
#[track_caller]
pub(crate) fn has_floats(token: &str, x: Tensor) -> bool {
    let ty = x.ty();
    if !ty.dtype.is_float() {
        let message = format!("`{token}` of {ty}: the elements must be f32");
        fail(token, message, "convert the tensor with .cast(DType::F32)");
    }
    ty.dtype.is_float()
}

/// Returns a placeholder of a likely type, with which tracing continues after an error.
#[track_caller]
pub(super) fn placeholder(dtype: DType, shape: impl Into<Shape>) -> Tensor {
    let ty = Type::new(dtype, shape);
    placeholder_of(ty)
}

fn placeholder_of(ty: Type) -> Tensor {
    with_scope(|scope| {
        let value = scope.placeholder(ty);
        scope.tensor(value)
    })
}

/// Adds an op and returns its results; after a type error, each result is a placeholder with the type of the
/// first operand.
#[track_caller]
pub(super) fn emit_all(kind: OpKind, operands: &[Tensor], token: &str, results: usize) -> Vec<Tensor> {
    let caller = Origin::caller();
    // Records errors of the operands at the caller's location.
    for operand in operands {
        operand.is_in_trace();
    }
    let name = kind.name();
    let counted = counted_from(&kind);
    if operands[counted.min(operands.len())..].iter().any(|t| t.is_data()) {
        let mut operands = operands.to_vec();
        // A loop instead of a closure, so that the conversion is recorded at the caller's line.
        for operand in &mut operands[counted..] {
            *operand = operand.counted();
        }
        return emit_all(kind, &operands, token, results);
    }
    if let Some(dtype) = narrow_of(&kind, operands) {
        let mut wide = operands.to_vec();
        for operand in &mut wide {
            *operand = widened(*operand);
        }
        let mut results = emit_all(kind, &wide, token, results);
        for result in &mut results {
            if result.dtype() == DType::F32 {
                *result = result.cast(dtype);
            }
        }
        return results;
    }
    with_scope(|scope| {
        let origin = scope.intern(caller);
        scope.here = scope.graph.origins.get(origin).cloned();
        let values: Vec<ValueId> = operands.iter().map(|&t| scope.checked(t)).collect();
        scope.here = None;
        match scope.graph.add(kind, &values, Some(origin)) {
            Ok(results) => {
                scope.own(&results);
                results.into_iter().map(|v| scope.tensor(v)).collect()
            }
            Err(problem) => {
                let place = scope.graph.origins.get(origin).expect("just interned").clone();
                let help = remedy(&problem);
                let message = match problem.message.strip_prefix(name) {
                    Some(rest) if rest.starts_with([' ', ':']) => format!("`{token}`{rest}"),
                    _ => problem.message,
                };
                let (token, message) = scope.as_called(token, message);
                let mut error = Error::new(ErrorKind::Trace, message).at(place, token);
                if let Some(help) = help {
                    error = error.help(help);
                }
                scope.fail(error);
                let ty = values.first().map_or(Type::scalar(DType::F32), |&v| scope.graph.ty(v).clone());
                (0..results)
                    .map(|_| {
                        let value = scope.placeholder(ty.clone());
                        scope.tensor(value)
                    })
                    .collect()
            }
        }
    })
}

/// Returns the index of the first operand that an op computes with or uses as an index. This operand and the
/// later ones are converted to i32 if they are u8 or i64.
fn counted_from(kind: &OpKind) -> usize {
    match kind {
        OpKind::Gather { .. } | OpKind::DynamicSlice { .. } => 1,
        // Operand 1 is the update, which has the dtype of operand 0 and is not converted either.
        OpKind::DynamicUpdateSlice => 2,
        kind if kind.moves_elements() => usize::MAX,
        _ => 0,
    }
}

/// Returns the 16-bit dtype of all float operands if the op must run in f32, because it computes or because
/// it moves a value that was computed in the same call by the user.
#[track_caller]
fn narrow_of(kind: &OpKind, operands: &[Tensor]) -> Option<DType> {
    let mut floats = operands.iter().map(|t| t.dtype()).filter(|dtype| dtype.is_float());
    let first = floats.next().filter(|dtype| dtype.is_for_memory())?;
    // Return `None` for mixed dtypes, which the op's shape rule reports.
    if !floats.all(|dtype| dtype == first) {
        return None;
    }
    // These take 16 bits as they are. So do blocks and barriers, which are not emitted here.
    if matches!(kind, OpKind::Cast { .. } | OpKind::Dequantize { .. } | OpKind::Custom(_)) {
        return None;
    }
    let mut wide = !kind.moves_elements();
    // If an op writes to a tensor, only that tensor decides: a 16-bit cache of keys is not widened for the
    // newest key.
    let written = matches!(kind, OpKind::Scatter { .. } | OpKind::DynamicUpdateSlice);
    let telling = if written { &operands[..1] } else { operands };
    // A loop instead of a closure, so that the caller's location is known.
    for operand in telling {
        wide = wide || unrounded(*operand).is_some();
    }
    wide.then_some(first)
}

/// Converts a tensor of 16-bit floats to f32. If the tensor was computed in the same call by the user,
/// returns its value before rounding, so that the result of the call is rounded only once, at its end.
#[track_caller]
fn widened(t: Tensor) -> Tensor {
    if !t.dtype().is_for_memory() {
        return t;
    }
    let from = unrounded(t).unwrap_or(t);
    match from.dtype() {
        DType::F32 => from,
        _ => emit(OpKind::Cast { dtype: DType::F32 }, &[from], "cast"),
    }
}

/// Returns the f32 tensor from which a tensor of 16-bit floats was rounded in the current call by the user,
/// if any.
#[track_caller]
fn unrounded(t: Tensor) -> Option<Tensor> {
    if !t.dtype().is_for_memory() || !t.dtype().is_float() {
        return None;
    }
    let caller = Origin::caller();
    with_scope(|scope| {
        let origin = scope.intern(caller);
        let value = scope.checked(t);
        let op = scope.graph.defining_op(value)?;
        let is_rounded = matches!(op.kind, OpKind::Cast { .. }) && op.origin == Some(origin);
        let from = *op.operands.first().filter(|_| is_rounded)?;
        Some(scope.tensor(from)).filter(|_| !scope.graph.ty(from).dtype.is_for_memory())
    })
}

/// Adds an op with one result.
#[track_caller]
pub(super) fn emit(kind: OpKind, operands: &[Tensor], token: &str) -> Tensor {
    emit_all(kind, operands, token, 1)[0]
}

/// Returns a tensor whose elements are all `value`.
///
/// ```
/// # use gradloom_core::{ir::DType, reference::eval, trace::*};
/// assert_eq!(eval(|| full(DType::F32, [2], 7.0)), [7.0, 7.0]);
/// ```
#[doc(alias = "zeros")]
#[doc(alias = "ones")]
#[track_caller]
#[must_use]
pub fn full(dtype: DType, shape: impl Into<Shape>, value: f64) -> Tensor {
    let ty = Type::new(dtype, shape);
    let number = Number::of(dtype, value);
    let exact = dtype.is_float() || (number.as_f64() == value && number.fits(dtype));
    if !exact {
        let message = format!("`full` of {}, which is not a number of {dtype}", Decimal::from(value));
        let help = match dtype {
            DType::Bool => "bools are 0 and 1".to_string(),
            _ => format!("{dtype} has whole numbers from {} to {}", dtype.range().0, dtype.range().1),
        };
        return refused("full", message, help, placeholder(dtype, ty.shape));
    }
    emit(OpKind::Constant { data: Literal::Splat(number), ty }, &[], "full")
}

/// Returns a constant f32 tensor with these elements in row-major order.
///
/// ```
/// # use gradloom_core::{reference::eval, trace::*};
/// assert_eq!(eval(|| literal(&[1.0, 2.0], [2])), [1.0, 2.0]);
/// ```
#[doc(alias = "tensor")]
#[track_caller]
#[must_use]
pub fn literal(elements: &[f32], shape: impl Into<Shape>) -> Tensor {
    literal_of(elements, Type::new(DType::F32, shape))
}

#[track_caller]
fn literal_of(elements: &[f32], ty: Type) -> Tensor {
    let elements: Vec<f64> = elements.iter().map(|&element| element.into()).collect();
    constant(&elements, ty)
}

/// Returns a constant tensor of floats with these elements in row-major order; devices round them to the
/// dtype.
#[track_caller]
pub(super) fn constant(elements: &[f64], ty: Type) -> Tensor {
    if ty.elements() != elements.len() {
        let message = format!("`literal` of {} elements as {}", elements.len(), ty.shape);
        let help = format!("this shape has {} elements", ty.elements());
        return refused("literal", message, help, placeholder(DType::F32, ty.shape));
    }
    let data = elements.iter().map(|&element| Number::Float(element)).collect();
    emit(OpKind::Constant { data: Literal::Dense(data), ty }, &[], "literal")
}

/// Returns a constant i32 vector of indices.
#[track_caller]
pub(super) fn indices(indices: &[usize]) -> Tensor {
    let data = indices.iter().map(|&index| Number::Int(index as i64)).collect();
    let ty = Type::new(DType::I32, [indices.len()]);
    emit(OpKind::Constant { data: Literal::Dense(data), ty }, &[], "indices")
}

/// Returns `true` if the dtype can represent every index along an axis. Floats and bools are not checked.
fn counts_to(ty: &Type, axis: usize) -> bool {
    let last = ty.shape[axis].saturating_sub(1);
    !ty.dtype.is_integer() || Number::Int(last as i64).fits(ty.dtype)
}

/// Returns a tensor of the given shape in which each element is its index along `axis`:
/// `iota(DType::I32, [context], 0)` returns the positions 0, 1, ..
///
/// ```
/// # use gradloom_core::{ir::DType, reference::eval, trace::*};
/// assert_eq!(eval(|| iota(DType::I32, [2, 3], -1)), [0.0, 1.0, 2.0, 0.0, 1.0, 2.0]);
/// ```
#[doc(alias = "arange")]
#[track_caller]
#[must_use]
pub fn iota(dtype: DType, shape: impl Into<Shape>, axis: isize) -> Tensor {
    let ty = Type::new(dtype, shape);
    match super::reduce::resolve_axis("iota", axis, &ty.shape) {
        Some(axis) if !counts_to(&ty, axis) => {
            let message = format!("`iota` of {ty}: axis {axis} has more elements than {dtype} has numbers");
            let help = format!("the last of them is {}: take fewer", dtype.range().1);
            refused("iota", message, help, placeholder(dtype, Shape::scalar()))
        }
        Some(axis) => emit(OpKind::Iota { ty, axis }, &[], "iota"),
        None => placeholder(dtype, ty.shape),
    }
}
