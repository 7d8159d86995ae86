//! States: tensors that a program reads and updates, and that persist between runs.

use crate::ir::{DType, Number, Origin, Shape, Type};
use crate::trace::{Tensor, with_scope};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The identity of a state within the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StateId(u64);

/// A tensor that persists between runs and is not trained, such as running statistics, a cache or a counter.
/// A `State` holds no data; the store holds the data once a program is compiled.
///
/// A state is either a field of the model, named by its path like a [`Param`](super::Param), or has a name of
/// its own ([`State::named`]) and can then be used in any program. Programs that share a store and use the
/// same name share the state.
///
/// [`tensor`](State::tensor) always returns the value at the start of the step, and all updates take effect
/// together at its end, whatever the order of the calls. A step that fails changes no state. To use the new
/// value in the same step, use the tensor that was passed to [`set`](State::set).
///
/// ```
/// # mod gradloom { pub use gradloom_core::*; }
/// use gradloom::ir::DType;
/// use gradloom::nn::{Module, State};
/// use gradloom::trace::{Tensor, is_training};
/// # extern crate gradloom_core as gradloom;
///
/// /// Subtracts the mean of the batches seen in training.
/// #[derive(Module)]
/// struct Centre {
///     mean: State,
/// }
///
/// impl Centre {
///     fn new(width: usize) -> Self {
///         Self { mean: State::new([width], DType::F32, 0.0) }
///     }
///
///     fn forward(&self, x: Tensor) -> Tensor {
///         if !is_training() {
///             return x - &self.mean;
///         }
///         let mean = x.mean_axes(0);
///         self.mean.set(self.mean.tensor() * 0.9 + mean * 0.1);
///         x - mean
///     }
/// }
/// ```
///
/// As with a `Param`, [`State::tie`] shares a state, and a clone is a new state.
#[derive(Debug)]
pub struct State {
    shared: Arc<Shared>,
    /// True if several fields of a model may hold the state.
    tied: Arc<AtomicBool>,
}

#[derive(Clone, Debug)]
struct Shared {
    id: StateId,
    name: Option<String>,
    ty: Type,
    init: f64,
    in_place: bool,
}

static NEXT_ID: AtomicU64 = AtomicU64::new(0);

impl State {
    /// Creates a state whose elements all start as `init`, which must be representable in the dtype (0 or 1
    /// for bools).
    pub fn new<const R: usize>(shape: [usize; R], dtype: DType, init: f64) -> State {
        Self::of_type(Type::new(dtype, shape), init)
    }

    /// Creates a state of a type whose rank is not known at compile time.
    pub fn of_type(ty: Type, init: f64) -> State {
        let id = StateId(NEXT_ID.fetch_add(1, Ordering::Relaxed));
        let shared = Shared { id, name: None, ty, init, in_place: false };
        State { shared: Arc::new(shared), tied: Arc::default() }
    }

    /// Gives the state a name of its own, such as `cache.length`, instead of its path in the model.
    #[must_use]
    pub fn named(self, name: impl Into<String>) -> State {
        self.with(|shared| shared.name = Some(name.into()))
    }

    /// Forbids copies of the state: if an update cannot be done in place, or an op needs a copy, compiling
    /// the program fails instead of silently copying.
    #[must_use]
    pub fn in_place(self) -> State {
        self.with(|shared| shared.in_place = true)
    }

    /// Returns the state with another float dtype.
    ///
    /// # Panics
    /// Panics if `dtype` is not a float.
    #[must_use]
    #[track_caller]
    pub fn kept_as(self, dtype: DType) -> State {
        assert!(dtype.is_float(), "a state of {dtype} is to be kept as a float; give f32, f16 or bf16");
        self.with(|shared| shared.ty.dtype = dtype)
    }

    fn with(self, change: impl FnOnce(&mut Shared)) -> State {
        let mut shared = Arc::unwrap_or_clone(self.shared);
        change(&mut shared);
        State { shared: Arc::new(shared), tied: self.tied }
    }

    /// Returns another handle to the state, for a list outside the model.
    pub(crate) fn share(&self) -> State {
        State { shared: Arc::clone(&self.shared), tied: Arc::clone(&self.tied) }
    }

    /// Returns another handle to the state, for another field of the model.
    #[must_use]
    pub fn tie(&self) -> State {
        self.tied.store(true, Ordering::Relaxed);
        self.share()
    }

    /// Returns the identity.
    pub fn id(&self) -> StateId {
        self.shared.id
    }

    /// Returns the name that was set by [`State::named`].
    pub fn name(&self) -> Option<&str> {
        self.shared.name.as_deref()
    }

    /// Returns the element type and shape.
    pub fn ty(&self) -> &Type {
        &self.shared.ty
    }

    /// Returns the shape.
    pub fn shape(&self) -> &Shape {
        &self.shared.ty.shape
    }

    /// Returns the initial value of every element, if the dtype can represent it.
    pub fn init(&self) -> Option<Number> {
        let number = Number::of(self.shared.ty.dtype, self.shared.init);
        let exact = self.shared.ty.dtype.is_float()
            || (number.fits(self.shared.ty.dtype) && number.as_f64() == self.shared.init);
        exact.then_some(number)
    }

    /// Returns `true` if [`State::in_place`] was called.
    pub fn is_in_place(&self) -> bool {
        self.shared.in_place
    }

    /// Returns the tensor of the state in the open trace: its value at the start of the step. No gradient
    /// flows to the state.
    #[track_caller]
    pub fn tensor(&self) -> Tensor {
        let caller = Origin::caller();
        with_scope(|scope| {
            let value = scope.state(self, caller, "tensor");
            scope.tensor(value)
        })
    }

    /// Replaces the whole state, at the end of the step, by a tensor of its dtype and shape. A program may
    /// set a state only once.
    #[track_caller]
    pub fn set(&self, value: Tensor) {
        let caller = Origin::caller();
        if value.is_in_trace() {
            with_scope(|scope| scope.set_state(self, value, caller));
        }
    }

    /// Replaces a window of the state by `value` at the end of the step. The window begins at the given i32
    /// scalars, one for each axis, and has the shape of `value`. Several windows are written in the order of
    /// the calls.
    ///
    /// A window that is not inside the state fails the step before anything is written.
    #[track_caller]
    pub fn update_at(&self, starts: &[Tensor], value: Tensor) {
        let caller = Origin::caller();
        // A loop instead of a closure, so that errors are reported at the caller's line.
        for tensor in starts.iter().chain([&value]) {
            if !tensor.is_in_trace() {
                return;
            }
        }
        with_scope(|scope| scope.update_state_at(self, starts, value, caller));
    }
}

impl Clone for State {
    /// Creates a new state with the same type, initial value and settings, including the name set by
    /// [`State::named`].
    ///
    /// # Panics
    /// Panics if the state is tied and the call is outside [`duplicate`](super::duplicate()).
    fn clone(&self) -> Self {
        let is_tied = self.tied.load(Ordering::Relaxed);
        let new = || {
            let id = StateId(NEXT_ID.fetch_add(1, Ordering::Relaxed));
            let shared = Shared { id, ..(*self.shared).clone() };
            State { shared: Arc::new(shared), tied: Arc::new(AtomicBool::new(is_tied)) }
        };
        super::duplicate::state_in_clone(self.id(), new).unwrap_or_else(|| {
            assert!(
                !is_tied,
                "a state of shape {} is tied, and a clone would lose the tie: clone the model with \
                 `duplicate(&model)`",
                self.shape()
            );
            new()
        })
    }
}
