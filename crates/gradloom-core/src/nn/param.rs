//! Parameters, which have a type, an identity and a rule for their initial values.

use super::Init;
use super::low_rank::Adapter;
use crate::ir::{DType, Origin, Shape, Type};
use crate::trace::{Tensor, with_scope};
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};

/// The identity of a parameter within the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ParamId(u64);

/// A trainable tensor of a model, whose elements are f32 by default. A `Param` holds no data; the store holds
/// the data once a program is compiled.
///
/// To tie weights, use the same parameter in two places with [`Param::tie`]. A clone is a new parameter with
/// the same shape, initial values and settings, so `vec![layer; 4]` is four layers. A tied parameter can only
/// be cloned by [`duplicate`](super::duplicate()), which keeps ties.
///
/// In a trace, `&Param` is an operand of arithmetic operators, on either side:
///
/// ```
/// # mod gradloom { pub use gradloom_core::*; }
/// use gradloom::nn::{Init, Module, Param, Visitor};
/// use gradloom::trace::{Tensor, f32, trace};
///
/// struct Affine {
///     scale: Param,
///     shift: Param,
/// }
///
/// impl Affine {
///     fn forward(&self, x: Tensor) -> Tensor {
///         &self.scale * x + &self.shift
///     }
/// }
/// # impl Module for Affine {
/// #     fn visit(&self, v: &mut Visitor<'_>) {
/// #         v.field("scale", &self.scale);
/// #         v.field("shift", &self.shift);
/// #     }
/// # }
///
/// let affine = Affine { scale: Param::new([3], Init::Ones), shift: Param::new([3], Init::Zeros) };
/// let penalty = |m: &Affine| (&m.scale - 1.0).square().mean() + (-&m.shift / 2.0).abs().mean();
/// let loss = |x: Tensor| affine.forward(x).mean() + penalty(&affine);
/// trace(&affine, &[f32("x", [8, 3])], true, |inputs| loss(inputs[0]), |loss| vec![loss])?;
/// # Ok::<(), gradloom_core::error::Error>(())
/// ```
#[derive(Debug)]
pub struct Param {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    id: ParamId,
    ty: Type,
    init: Init,
    frozen: AtomicBool,
    /// Weight decay: 0 if it depends on the rank, 1 if it never applies, 2 if it always does.
    decay: AtomicU8,
    transposed_in_torch: AtomicBool,
    /// True if several fields of a model may hold the parameter.
    tied: AtomicBool,
    /// Format in the store; empty if the parameter is stored in its own dtype.
    stored: OnceLock<super::Stored>,
    /// Adapter whose product is added to products with the parameter.
    adapter: OnceLock<Adapter>,
    /// True if the parameter belongs to an adapter.
    is_of_adapter: AtomicBool,
}

static NEXT_ID: AtomicU64 = AtomicU64::new(0);

impl Param {
    /// Creates an f32 parameter of the given shape.
    pub fn new<const R: usize>(shape: [usize; R], init: Init) -> Param {
        Self::of_shape(shape, init)
    }

    /// Creates an f32 parameter of a shape whose rank is not known at compile time.
    pub fn of_shape(shape: impl Into<Shape>, init: Init) -> Param {
        Self::of_type(Type::new(DType::F32, shape), init)
    }

    /// Creates a parameter of the given type. With a 16-bit dtype, it takes half the memory, but updates
    /// smaller than the rounding error of its elements are lost. To compute in 16 bits with f32 parameters,
    /// set the precision of the device.
    ///
    /// A parameter of u8 holds weights in [quantized blocks](Tensor::dequantize), and is frozen.
    ///
    /// # Panics
    /// Panics if its elements are neither floats nor u8.
    #[track_caller]
    pub fn of_type(ty: Type, init: Init) -> Param {
        let frozen = ty.dtype == DType::U8;
        assert!(
            ty.dtype.is_float() || frozen,
            "a parameter of {ty}: only floats are trained; keep others in a `State`"
        );
        let id = ParamId(NEXT_ID.fetch_add(1, Ordering::Relaxed));
        let shared = Shared {
            id,
            ty,
            init,
            frozen: AtomicBool::new(frozen),
            decay: AtomicU8::new(0),
            transposed_in_torch: AtomicBool::new(false),
            tied: AtomicBool::new(false),
            stored: OnceLock::new(),
            adapter: OnceLock::new(),
            is_of_adapter: AtomicBool::new(false),
        };
        Param { shared: Arc::new(shared) }
    }

    /// Returns another handle to the parameter, for a list outside the model.
    pub(crate) fn share(&self) -> Param {
        Param { shared: Arc::clone(&self.shared) }
    }

    /// Returns another handle to the parameter, for another field of the model.
    #[must_use]
    pub fn tie(&self) -> Param {
        self.shared.tied.store(true, Ordering::Relaxed);
        self.share()
    }

    /// Freezes the parameter: programs compiled from now on do not train it.
    pub fn freeze(&self) {
        self.shared.frozen.store(true, Ordering::Relaxed);
    }

    /// Returns `true` if the parameter is frozen.
    pub fn is_frozen(&self) -> bool {
        self.shared.frozen.load(Ordering::Relaxed)
    }

    /// Sets whether weight decay applies. By default, it applies to parameters of rank 2 or higher (matrices,
    /// but not biases and gains).
    pub fn set_decay(&self, decay: bool) {
        self.shared.decay.store(1 + u8::from(decay), Ordering::Relaxed);
    }

    /// Returns the value that was set by [`Param::set_decay`], if any.
    pub fn decay(&self) -> Option<bool> {
        match self.shared.decay.load(Ordering::Relaxed) {
            0 => None,
            said => Some(said == 2),
        }
    }

    /// Marks the parameter as a matrix whose transpose PyTorch's files contain, such as the weight of a
    /// linear layer.
    #[must_use]
    pub fn transposed_in_torch(self) -> Self {
        self.shared.transposed_in_torch.store(true, Ordering::Relaxed);
        self
    }

    /// Returns `true` if [`Param::transposed_in_torch`] was called.
    pub fn is_transposed_in_torch(&self) -> bool {
        self.shared.transposed_in_torch.load(Ordering::Relaxed)
    }

    /// Returns the adapter that [`LowRank::attach`](super::LowRank::attach) attached, if any. Its product is
    /// added to products with the parameter.
    pub fn adapter(&self) -> Option<&Adapter> {
        self.shared.adapter.get()
    }

    /// Sets the adapter unless the parameter already has one.
    pub(super) fn set_adapter(&self, adapter: Adapter) {
        self.shared.adapter.get_or_init(|| adapter);
    }

    /// Marks the parameter as belonging to an adapter.
    pub(super) fn of_adapter(self) -> Self {
        self.shared.is_of_adapter.store(true, Ordering::Relaxed);
        self
    }

    /// Returns `true` if the parameter belongs to an [`Adapter`].
    pub fn is_of_adapter(&self) -> bool {
        self.shared.is_of_adapter.load(Ordering::Relaxed)
    }

    /// Returns the identity.
    pub fn id(&self) -> ParamId {
        self.shared.id
    }

    /// Returns the shape.
    pub fn shape(&self) -> &Shape {
        &self.shared.ty.shape
    }

    /// Returns the dtype and shape in the store.
    pub fn ty(&self) -> Type {
        self.stored_type(&self.shared.ty)
    }

    /// Returns the rule for the initial values.
    pub fn init(&self) -> &Init {
        &self.shared.init
    }

    pub(super) fn stored_cell(&self) -> &OnceLock<super::Stored> {
        &self.shared.stored
    }

    /// Returns the tensor of the parameter in the open trace: its value at the start of the step.
    #[track_caller]
    pub fn tensor(&self) -> Tensor {
        self.read(self.kept())
    }

    /// Returns the tensor of the parameter in the open trace, in its stored format.
    #[track_caller]
    pub(super) fn kept(&self) -> Tensor {
        let caller = Origin::caller();
        with_scope(|scope| {
            let value = scope.param(self, caller);
            scope.tensor(value)
        })
    }
}

impl Clone for Param {
    /// Creates a new parameter with the same shape, initial values and settings.
    ///
    /// # Panics
    /// Panics if the parameter is tied and the call is outside [`duplicate`](super::duplicate()).
    fn clone(&self) -> Self {
        let Shared { ty, init, frozen, decay, tied, transposed_in_torch, .. } = &*self.shared;
        let is_tied = tied.load(Ordering::Relaxed);
        let new = || {
            let made = Param::of_type(ty.clone(), init.clone());
            made.shared.frozen.store(frozen.load(Ordering::Relaxed), Ordering::Relaxed);
            made.shared.decay.store(decay.load(Ordering::Relaxed), Ordering::Relaxed);
            made.shared.tied.store(is_tied, Ordering::Relaxed);
            let transposed = transposed_in_torch.load(Ordering::Relaxed);
            made.shared.transposed_in_torch.store(transposed, Ordering::Relaxed);
            made.shared.is_of_adapter.store(self.is_of_adapter(), Ordering::Relaxed);
            if let Some(stored) = self.stored() {
                made.stored_cell().get_or_init(|| stored);
            }
            made
        };
        let made = super::duplicate::param_in_clone(self.id(), new).unwrap_or_else(|| {
            assert!(
                !is_tied,
                "a parameter of shape {} is tied, and a clone would lose the tie: clone the model with \
                 `duplicate(&model)`",
                ty.shape
            );
            new()
        });
        // Within `duplicate`, the first clone of a tied parameter has already set the adapter.
        if let Some(adapter) = self.adapter().filter(|_| made.adapter().is_none()) {
            made.set_adapter(adapter.clone());
        }
        made
    }
}
