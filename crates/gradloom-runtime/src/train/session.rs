//! A model whose parameters are on a device, and for which programs can be compiled.

use super::base::Base;
use super::summary::Summary;
use super::{Infer, Trainer};
use crate::store::Store;
use gradloom_core::error::Result;
use gradloom_core::ir::Shape;
use gradloom_core::nn::Module;
use gradloom_core::trace::{Input, ParamTable, Tensor, Traced, trace};
use gradloom_device::Device;
use gradloom_device::DeviceTensor;
use gradloom_device::feed::Data;
use gradloom_device::outputs::Outputs;
use std::sync::Arc;

/// Model, store and device. Training, evaluation and generation are programs of one session, and share its
/// parameters without copies.
///
/// A [`Train`](super::Train) contains a session. Create one directly to run a model without training it:
///
/// ```
/// # mod gradloom { pub use gradloom_core::*; pub use gradloom_runtime::*; }
/// # use gradloom_cpu::CpuDevice as _;
/// use gradloom::{nn::Linear, trace::f32};
/// use gradloom::{Device, Session};
///
/// let session = Session::new(Linear::new(3, 2), &Device::cpu(), 7)?;
/// let mut forward = session.infer([f32("x", [1, 3])], |layer, [x]| layer.forward(x))?;
/// assert_eq!(forward.run([&[0.0f32; 3]])?, session.store().read_f32("bias")?);
/// # Ok::<(), gradloom_core::error::Error>(())
/// ```
///
/// A session is a handle: clones share the model and its parameters. Several training programs can use a
/// session concurrently, each with a separate loss, optimizer and set of parameters:
///
/// ```
/// # mod gradloom { pub use gradloom_core::*; pub use gradloom_runtime::*; }
/// # use gradloom_cpu::CpuDevice as _;
/// use gradloom::{nn::Linear, optim::Adam, trace::f32};
/// use gradloom::{Device, Session};
///
/// let device = Device::cpu();
/// let session = Session::new([Linear::new(1, 1), Linear::new(1, 1)], &device, 7)?;
/// let mut first = session
///     .trainer()
///     .named("first")
///     .only("0.*")
///     .inputs([f32("x", [4, 1])])
///     .loss(|[first, second], [x]| second.forward(first.forward(x)).square().mean())
///     .optimizer(Adam::new(0.1))
///     .compile(&device)?;
/// let mut second = session
///     .trainer()
///     .named("second")
///     .only("1.*")
///     .inputs([f32("x", [4, 1])])
///     .loss(|[first, second], [x]| -second.forward(first.forward(x)).square().mean())
///     .optimizer(Adam::new(0.01))
///     .compile(&device)?;
/// first.step([&[1.0f32; 4]])?;
/// second.step([&[1.0f32; 4]])?;
/// # Ok::<(), gradloom_core::error::Error>(())
/// ```
#[derive(Debug)]
pub struct Session<M> {
    model: Arc<M>,
    base: Base,
}

impl<M> Clone for Session<M> {
    fn clone(&self) -> Self {
        Self { model: Arc::clone(&self.model), base: self.base.clone() }
    }
}

impl<M: Module> Session<M> {
    /// Creates a session with an empty store. The first program that uses a parameter initializes it, with
    /// random numbers keyed by `seed`.
    ///
    /// # Errors
    /// Returns an error if two parameters of the model have the same name.
    pub fn new(model: M, device: &Device, seed: u64) -> Result<Self> {
        let base = Base::new(ParamTable::of(&model)?, device, seed);
        Ok(Self { model: Arc::new(model), base })
    }

    /// Returns a trainer for the session's parameters. If there are several, name each with
    /// [`Trainer::named`] to separate the states of their optimizers.
    pub fn trainer(&self) -> Trainer<M> {
        Trainer::over(self.clone())
    }

    /// Returns the session on a device with another precision.
    pub(super) fn on(&self, device: &Device) -> Self {
        Self { model: Arc::clone(&self.model), base: self.base.on(device) }
    }

    /// Compiles a forward program that uses the session's parameters. Dropout is disabled.
    ///
    /// # Errors
    /// Returns the first error of the closure, or an error if there is not enough memory.
    #[track_caller]
    pub fn infer<const K: usize, R: Outputs>(
        &self,
        inputs: [Input; K],
        f: impl FnOnce(&M, [Tensor; K]) -> R,
    ) -> Result<Infer<K, R>> {
        Infer::compile(self, inputs, f)
    }

    /// Like [`Session::infer`], but for any batch size. The batch is the first axis of the first input, and
    /// of every input whose first axis has the same declared extent. A program is compiled for each batch
    /// size that occurs; the last eight programs are kept.
    ///
    /// # Errors
    /// Returns the same errors as [`Session::infer`]. Also returns an error if the first input has no axis.
    /// Later runs return compilation errors for other batch sizes.
    #[track_caller]
    pub fn infer_any_batch<const K: usize, R: Outputs>(
        &self,
        inputs: [Input; K],
        f: impl Fn(&M, [Tensor; K]) -> R + Send + 'static,
    ) -> Result<Infer<K, R>>
    where
        M: Send + Sync + 'static,
    {
        Infer::of_any_batch(self, inputs, f)
    }

    /// Like [`Session::infer`], but for a number of inputs that is not known at compile time. Pass the data
    /// of a run to [`Infer::queue`].
    ///
    /// # Errors
    /// Returns the first error of the closure, or an error if there is not enough memory.
    #[track_caller]
    pub fn infer_over(
        &self,
        inputs: Vec<Input>,
        f: impl FnOnce(&M, &[Tensor]) -> Vec<Tensor>,
    ) -> Result<Infer<0, ()>> {
        let traced = trace(&self.model, &inputs, false, |x| f(&self.model, x), |results| results)?;
        Infer::of_trace(&self.base, inputs, traced)
    }

    /// Compiles a [recorded](gradloom_core::trace::Recording) forward program, with the inputs that were
    /// declared for the recording. Run it with [`Infer::queue`].
    ///
    /// # Errors
    /// Returns an error if there is not enough memory.
    pub fn infer_recorded(&self, inputs: Vec<Input>, traced: Traced) -> Result<Infer<0, ()>> {
        Infer::of_trace(&self.base, inputs, traced)
    }

    /// Resets the states under a path to their initial values: `cache` matches `cache` and `cache.h.0.keys`,
    /// and the empty path matches all states. The optimizer's states are kept;
    /// [`Train::reset_optimizer`](super::Train::reset_optimizer) resets those.
    ///
    /// # Errors
    /// Returns an error if no program compiled so far has a state under the path, or on the null device,
    /// which keeps no states.
    pub fn reset_states(&self, path: &str) -> Result<()> {
        self.base.reset_states(path)
    }

    /// Returns the elements of a floating-point parameter or state, even before a program is compiled.
    ///
    /// # Errors
    /// Returns the same errors as [`Store::read_f32`]. Also returns an error on the null device.
    pub fn get(&self, name: &str) -> Result<Vec<f32>> {
        self.materialize()?;
        self.base.store.read_f32(name)
    }

    /// Sets the elements of a parameter or state, row-major, even before a program is compiled.
    ///
    /// # Errors
    /// Returns an error if the name is unknown, if the elements have another dtype or number, or on the null
    /// device.
    pub fn set<'a>(&self, name: &str, elements: impl Into<Data<'a>>) -> Result<()> {
        self.base.set(name, &elements.into())
    }

    /// Copies row-major elements to the device, where they can be used by any number of steps: see
    /// [`DeviceTensor`].
    ///
    /// ```
    /// # mod gradloom { pub use gradloom_core::*; pub use gradloom_runtime::*; }
    /// # use gradloom_cpu::CpuDevice as _;
    /// use gradloom::{nn::Linear, trace::f32};
    /// use gradloom::{Device, Session};
    ///
    /// let session = Session::new(Linear::new(3, 2), &Device::cpu(), 7)?;
    /// let mut forward = session.infer([f32("x", [1, 3])], |layer, [x]| layer.forward(x))?;
    /// let x = session.upload(&[0.5f32; 3], [1, 3])?;
    /// assert_eq!(forward.run([&x])?, forward.run([&[0.5f32; 3]])?);
    /// # Ok::<(), gradloom_core::error::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns the same errors as [`Device::upload`].
    pub fn upload<'a>(&self, data: impl Into<Data<'a>>, shape: impl Into<Shape>) -> Result<DeviceTensor> {
        self.base.device.upload(data, shape)
    }

    /// Initializes all parameters and states of the model that no program has used yet.
    ///
    /// # Errors
    /// Returns an error if there is not enough memory.
    pub fn materialize(&self) -> Result<()> {
        self.base.materialize()
    }

    /// Returns the part of the session that does not depend on the model's type.
    pub(crate) fn base(&self) -> &Base {
        &self.base
    }

    /// Leaves new parameters at 0 until [`Session::fill`], because their values may be set before that.
    #[cfg(feature = "web")]
    pub fn fill_later(&self) {
        self.base.fill_later();
    }

    /// Computes the deferred initial values, unless all parameters have been set (`is_given`).
    ///
    /// # Errors
    /// Returns the same errors as [`Session::reset_parameters`].
    #[cfg(feature = "web")]
    pub fn fill(&self, is_given: bool) -> Result<()> {
        self.base.fill(is_given)
    }

    /// Resets every parameter to its initial value, which depends on the seed.
    ///
    /// # Errors
    /// Returns an error on the null device, which keeps no bytes, or on a device that is lost.
    pub fn reset_parameters(&self) -> Result<()> {
        self.base.reset_parameters()
    }

    /// Returns a summary of the model's parameters and states, with their sizes.
    pub fn summary(&self) -> Summary {
        self.base.summary()
    }

    /// Returns the model.
    pub fn model(&self) -> &M {
        &self.model
    }

    /// Returns the model's parameters with their names.
    pub fn params(&self) -> &ParamTable {
        &self.base.params
    }

    /// Returns a shared handle to the store with the parameters and states.
    pub fn store(&self) -> Store {
        self.base.store.clone()
    }

    /// Returns the device.
    pub fn device(&self) -> &Device {
        &self.base.device
    }

    /// Returns the seed of all random numbers.
    pub fn seed(&self) -> u64 {
        self.base.seed()
    }
}
