//! A model with its parameters on a device, over which programs are compiled.

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

/// A model, its store, and a device: training, evaluation and generation are programs over one session,
/// without copies.
///
/// A [`Train`](super::Train) has a session inside; make one yourself to run a model that is not trained:
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
/// A session is a handle: clones have the same model and the same parameters. Several training programs can
/// go on over it side by side, each with its own loss, optimizer and part of the parameters:
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
    /// Creates a session with an empty store. Parameters come into being, keyed by `seed`, with the first
    /// program that uses them.
    ///
    /// # Errors
    /// When two parameters of the model have one name.
    pub fn new(model: M, device: &Device, seed: u64) -> Result<Self> {
        let base = Base::new(ParamTable::of(&model)?, device, seed);
        Ok(Self { model: Arc::new(model), base })
    }

    /// Returns a trainer over the session's parameters. Where there are several, [`Trainer::named`] tells
    /// their optimizers' states apart.
    pub fn trainer(&self) -> Trainer<M> {
        Trainer::over(self.clone())
    }

    /// Returns the session on a device of another precision.
    pub(super) fn on(&self, device: &Device) -> Self {
        Self { model: Arc::clone(&self.model), base: self.base.on(device) }
    }

    /// Compiles a forward program over the session's parameters. Dropout does not act in it.
    ///
    /// # Errors
    /// The first error of the closure; memory.
    #[track_caller]
    pub fn infer<const K: usize, R: Outputs>(
        &self,
        inputs: [Input; K],
        f: impl FnOnce(&M, [Tensor; K]) -> R,
    ) -> Result<Infer<K, R>> {
        Infer::compile(self, inputs, f)
    }

    /// Like [`Session::infer`], with inputs whose first axis, the batch, may have any extent where it is that
    /// of the first input. A program is compiled for each extent that comes, and the last eight are kept.
    ///
    /// # Errors
    /// As [`Session::infer`], and when the first input has no axis. A later run has the errors of compiling.
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

    /// [`Session::infer`] where the number of inputs is not known before the program runs. A run takes data
    /// by [`Infer::queue`].
    ///
    /// # Errors
    /// The first error of the closure; memory.
    #[track_caller]
    pub fn infer_over(
        &self,
        inputs: Vec<Input>,
        f: impl FnOnce(&M, &[Tensor]) -> Vec<Tensor>,
    ) -> Result<Infer<0, ()>> {
        let traced = trace(&self.model, &inputs, false, |x| f(&self.model, x), |results| results)?;
        Infer::of_trace(&self.base, inputs, traced)
    }

    /// Compiles a forward program that was [recorded](gradloom_core::trace::Recording), with the inputs that
    /// were declared then. It is run by [`Infer::queue`].
    ///
    /// # Errors
    /// Memory.
    pub fn infer_recorded(&self, inputs: Vec<Input>, traced: Traced) -> Result<Infer<0, ()>> {
        Infer::of_trace(&self.base, inputs, traced)
    }

    /// Sets the states under a path to their initial values: `cache` stands for `cache` and `cache.h.0.keys`,
    /// the empty path for all. States of the optimizer are left alone;
    /// [`Train::reset_optimizer`](super::Train::reset_optimizer) clears those.
    ///
    /// # Errors
    /// When no program compiled so far has a state under the path; on the null device, which keeps no states.
    pub fn reset_states(&self, path: &str) -> Result<()> {
        self.base.reset_states(path)
    }

    /// Returns the elements of a parameter or a state of floats, before a program is compiled too.
    ///
    /// # Errors
    /// As [`Store::read_f32`]; on the null device.
    pub fn get(&self, name: &str) -> Result<Vec<f32>> {
        self.materialize()?;
        self.base.store.read_f32(name)
    }

    /// Sets the elements of a parameter or a state, row-major, before a program is compiled too.
    ///
    /// # Errors
    /// When there is none of that name, or the elements are not of its dtype and number; on the null device.
    pub fn set<'a>(&self, name: &str, elements: impl Into<Data<'a>>) -> Result<()> {
        self.base.set(name, &elements.into())
    }

    /// Copies elements, row-major, to the device, where they stay for any number of steps: see
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
    /// As [`Device::upload`].
    pub fn upload<'a>(&self, data: impl Into<Data<'a>>, shape: impl Into<Shape>) -> Result<DeviceTensor> {
        self.base.device.upload(data, shape)
    }

    /// Lets parameters and states of the model come into being that no program has needed yet.
    ///
    /// # Errors
    /// Memory.
    pub fn materialize(&self) -> Result<()> {
        self.base.materialize()
    }

    /// Returns the part of the session that does not depend on the model's type.
    pub(crate) fn base(&self) -> &Base {
        &self.base
    }

    /// Leaves the initial values of parameters out, which are 0, until [`Session::fill`]: they may be given
    /// soon.
    #[cfg(feature = "web")]
    pub fn fill_later(&self) {
        self.base.fill_later();
    }

    /// Makes the initial values that were left out, unless all of them are given now.
    ///
    /// # Errors
    /// As [`Session::reset_parameters`].
    #[cfg(feature = "web")]
    pub fn fill(&self, is_given: bool) -> Result<()> {
        self.base.fill(is_given)
    }

    /// Gives every parameter its initial value again, which the seed decides.
    ///
    /// # Errors
    /// On the null device, which keeps no bytes; on a device that is lost.
    pub fn reset_parameters(&self) -> Result<()> {
        self.base.reset_parameters()
    }

    /// Returns the model's parameters and states with their sizes.
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

    /// Returns the store with parameters and states: a shared handle.
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
