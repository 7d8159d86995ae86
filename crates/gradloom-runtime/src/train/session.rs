//! A model with its parameters on a device, over which programs are compiled.

use super::summary::Summary;
use super::{Infer, Trainer};
use crate::cpu::{InitialKey, fill_initial};
use crate::device::Device;
#[cfg(not(target_family = "wasm"))]
use crate::device_tensor::DeviceTensor;
use crate::feed::Data;
use crate::outputs::Outputs;
use crate::program::{Program, side_by_side};
use crate::store::{Store, rounded};
use gradloom_core::error::{Error, ErrorKind, Result};
use gradloom_core::fuse::fuse;
#[cfg(not(target_family = "wasm"))]
use gradloom_core::ir::Shape;
use gradloom_core::ir::{Graph, OpKind, Type};
use gradloom_core::nn::Module;
#[cfg(not(target_family = "wasm"))]
use gradloom_core::nn::ParamId;
use gradloom_core::optim::STATE_PREFIX;
use gradloom_core::plan::{self, Plan};
use gradloom_core::trace::{Input, ParamTable, ParamUse, Tensor, Traced, trace};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// A model, its store, and a device: training, evaluation and generation are programs over one session,
/// without copies.
///
/// A [`Train`](super::Train) has a session inside; make one yourself to run a model that is not trained:
///
/// ```
/// # mod gradloom { pub use gradloom_core::*; pub use gradloom_runtime::*; }
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
    params: Arc<ParamTable>,
    seed: Arc<AtomicU64>,
    device: Device,
    store: Store,
    /// Names of the training programs that there are.
    trainers: Arc<Mutex<Vec<Weak<str>>>>,
}

impl<M> Clone for Session<M> {
    fn clone(&self) -> Self {
        Self {
            model: Arc::clone(&self.model),
            params: Arc::clone(&self.params),
            seed: Arc::clone(&self.seed),
            device: self.device.clone(),
            store: self.store.clone(),
            trainers: Arc::clone(&self.trainers),
        }
    }
}

/// A parameter or a state of a model.
#[cfg(feature = "files")]
pub(crate) struct ModelEntry {
    pub(crate) name: String,
    /// Further names of a parameter that several places share.
    pub(crate) aliases: Vec<String>,
    pub(crate) ty: Type,
    /// Whether PyTorch keeps the matrix by columns.
    pub(crate) transposed_in_torch: bool,
    /// Whether it is a part of an adapter.
    pub(crate) of_adapter: bool,
    /// The blocks that it is kept in, and the extents of what they stand for.
    #[cfg(not(target_family = "wasm"))]
    pub(crate) blocks: Option<(gradloom_core::ir::BlockFormat, gradloom_core::ir::Shape)>,
}

impl<M: Module> Session<M> {
    /// A session with an empty store. Parameters come into being, keyed by `seed`, with the first program
    /// that uses them.
    ///
    /// # Errors
    /// When two parameters of the model have one name.
    pub fn new(model: M, device: &Device, seed: u64) -> Result<Self> {
        let params = Arc::new(ParamTable::of(&model)?);
        let store = Store::of(device);
        let (model, seed, trainers) = (Arc::new(model), Arc::new(AtomicU64::new(seed)), Arc::default());
        Ok(Self { model, params, seed, device: device.clone(), store, trainers })
    }

    /// A trainer over the session's parameters. Where there are several, [`Trainer::named`] tells their
    /// optimizers' states apart.
    pub fn trainer(&self) -> Trainer<M> {
        Trainer::over(self.clone())
    }

    /// The session, on a device of another precision.
    pub(super) fn on(&self, device: &Device) -> Self {
        Self { device: device.clone(), ..self.clone() }
    }

    /// Takes a name for a training program, which keeps it for as long as it lives.
    ///
    /// # Errors
    /// When another has it.
    pub(super) fn take_name(&self, name: &str) -> Result<Arc<str>> {
        // A page's sessions have one training program each.
        if cfg!(target_family = "wasm") {
            return Ok(name.into());
        }
        if name.contains(['/', '.']) {
            return Err(Error::new(
                ErrorKind::Trace,
                format!("a training program cannot be called `{name}`"),
            )
            .help("give it a name without `/` and `.`"));
        }
        let mut taken = self.trainers.lock().unwrap_or_else(PoisonError::into_inner);
        taken.retain(|known| known.strong_count() > 0);
        if taken.iter().filter_map(Weak::upgrade).any(|known| *known == *name) {
            let message = match name {
                "" => "the session has a training program already".to_string(),
                name => format!("the session has a training program called `{name}` already"),
            };
            return Err(Error::new(ErrorKind::Trace, message).help(
                "give each a name of its own with `.named(..)`, under which its optimizer's states are kept, \
                 or drop the other one first",
            ));
        }
        let name: Arc<str> = name.into();
        taken.push(Arc::downgrade(&name));
        Ok(name)
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
        Infer::of_trace(self, inputs, traced)
    }

    /// Compiles a forward program that was [recorded](gradloom_core::trace::Recording), with the inputs that
    /// were declared then. It is run by [`Infer::queue`].
    ///
    /// # Errors
    /// Memory.
    pub fn infer_recorded(&self, inputs: Vec<Input>, traced: Traced) -> Result<Infer<0, ()>> {
        Infer::of_trace(self, inputs, traced)
    }

    /// Sets the states under a path to their initial values: `cache` stands for `cache` and `cache.h.0.keys`,
    /// the empty path for all. States of the optimizer are left alone;
    /// [`Train::reset_optimizer`](super::Train::reset_optimizer) clears those.
    ///
    /// # Errors
    /// When no program compiled so far has a state under the path; on the null device, which keeps no states.
    pub fn reset_states(&self, path: &str) -> Result<()> {
        let under = |name: &str| {
            let rest = name.strip_prefix(path);
            path.is_empty() || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        let count = self.store.reset_states_where(|name| !name.starts_with(STATE_PREFIX) && under(name))?;
        if count == 0 && !path.is_empty() {
            let message = format!("no program of the session has a state under `{path}`");
            return Err(Error::new(ErrorKind::Store, message).help(
                "states are named like parameters, by the path of their field, and exist from the first \
                 program on that uses them",
            ));
        }
        Ok(())
    }

    /// The elements of a parameter or a state of floats, before a program is compiled too.
    ///
    /// # Errors
    /// As [`Store::read_f32`]; on the null device.
    pub fn get(&self, name: &str) -> Result<Vec<f32>> {
        self.materialize()?;
        self.store.read_f32(name)
    }

    /// Sets the elements of a parameter or a state, row-major, before a program is compiled too.
    ///
    /// # Errors
    /// When there is none of that name, or the elements are not of its dtype and number; on the null device.
    pub fn set<'a>(&self, name: &str, elements: impl Into<Data<'a>>) -> Result<()> {
        self.materialize()?;
        let elements = elements.into();
        let ty = self.store.ty(name)?;
        if elements.dtype() != ty.dtype || elements.len() != ty.elements() {
            let message = format!(
                "`{name}` is {ty} with {} elements, got {} of {}",
                ty.elements(),
                elements.len(),
                elements.dtype()
            );
            return Err(Error::new(ErrorKind::Store, message).help("pass as many elements of its dtype"));
        }
        self.store.write(&[(name, &ty, &elements.bytes()?)])
    }

    /// Copies elements, row-major, to the device, where they stay for any number of steps: see
    /// [`DeviceTensor`].
    ///
    /// ```
    /// # mod gradloom { pub use gradloom_core::*; pub use gradloom_runtime::*; }
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
    #[cfg(not(target_family = "wasm"))]
    pub fn upload<'a>(&self, data: impl Into<Data<'a>>, shape: impl Into<Shape>) -> Result<DeviceTensor> {
        self.device.upload(data, shape)
    }

    /// Lets parameters and states of the model come into being that no program has needed yet.
    ///
    /// # Errors
    /// Memory.
    pub fn materialize(&self) -> Result<()> {
        let layout = self.store.layout();
        let params = self.params.iter().map(|used| {
            let (name, ty) = (used.name.clone(), used.param.ty());
            Some(OpKind::Param { name, ty })
        });
        let states = self.params.states().map(|used| {
            let (name, ty) = (used.name.clone(), used.state.ty().clone());
            Some(OpKind::State { name, ty, init: used.state.init()? })
        });
        let is_missing =
            |leaf: &OpKind| Graph::leaf_name(leaf).is_some_and(|name| layout.get(name).is_none());
        let missing: Vec<OpKind> = params.chain(states).flatten().filter(is_missing).collect();
        if missing.is_empty() {
            return Ok(());
        }
        let mut graph = Graph::new();
        for leaf in missing {
            graph.add(leaf, &[], None).map_err(|error| Error::new(ErrorKind::Internal, error.message))?;
        }
        let backend = &self.device.backend;
        let initial = |name: &str, ty: &Type, elements: &mut [f32]| self.initial(name, ty, elements);
        self.store.extend(&graph, &|bytes| backend.allocate(bytes), |_| Ok(()), initial, |(), _| Ok(()))
    }

    /// The model's parameters and states, with what files need to know of them.
    #[cfg(feature = "files")]
    pub(crate) fn model_entries(&self) -> Result<Vec<ModelEntry>> {
        self.materialize()?;
        let params = self.params.iter().map(|used| ModelEntry {
            name: used.name.clone(),
            aliases: used.aliases.clone(),
            ty: used.param.ty(),
            transposed_in_torch: used.param.is_transposed_in_torch(),
            of_adapter: cfg_select! {
                target_family = "wasm" => false,
                _ => used.param.is_of_adapter(),
            },
            #[cfg(not(target_family = "wasm"))]
            blocks: match used.param.stored() {
                Some(gradloom_core::nn::Stored::Blocks(format)) => Some((format, used.param.shape().clone())),
                _ => None,
            },
        });
        let states = self.params.states().map(|used| ModelEntry {
            name: used.name.clone(),
            aliases: Vec::new(),
            ty: used.state.ty().clone(),
            transposed_in_torch: false,
            of_adapter: false,
            #[cfg(not(target_family = "wasm"))]
            blocks: None,
        });
        Ok(params.chain(states).collect())
    }

    /// The seed, as it changes.
    pub(super) fn shared_seed(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.seed)
    }

    /// Keys random numbers from now on.
    #[cfg(feature = "files")]
    pub(crate) fn set_seed(&self, seed: u64) {
        self.seed.store(seed, Ordering::Relaxed);
    }

    /// Loads a graph over the session's store.
    pub(super) fn compile(&self, graph: Graph) -> Result<Program> {
        Program::load(graph, &self.device, &self.store, |name, ty, elements| self.initial(name, ty, elements))
    }

    /// An error if a trace uses a parameter that the model did not have when the session was made.
    #[cfg(not(target_family = "wasm"))]
    pub(super) fn check_knows(&self, traced: &Traced) -> Result<()> {
        let is_new = |id: &ParamId| self.params.iter().all(|used| used.param.id() != *id);
        match traced.params.iter().find(|(.., id)| is_new(id)) {
            None => Ok(()),
            Some((name, ..)) => {
                let message = format!("the model got the parameter `{name}` after its session was made");
                let help = "attach adapters to a model before its session or its trainer is made";
                Err(Error::new(ErrorKind::Trace, message).help(help))
            }
        }
    }

    /// The model's parameters; those of adapters come last, so that its own start as they do without.
    fn in_order_of_keys(&self) -> impl Iterator<Item = &ParamUse> {
        #[cfg(not(target_family = "wasm"))]
        {
            let of_adapter = |used: &&ParamUse| used.param.is_of_adapter();
            let own = self.params.iter().filter(move |used| !of_adapter(used));
            own.chain(self.params.iter().filter(of_adapter))
        }
        #[cfg(target_family = "wasm")]
        self.params.iter()
    }

    /// The initial values of a parameter, into elements that are 0.
    fn initial(&self, name: &str, ty: &Type, elements: &mut [f32]) -> Result<()> {
        let (number, used) =
            self.in_order_of_keys().enumerate().find(|(_, used)| used.name == name).ok_or_else(|| {
                Error::new(ErrorKind::Internal, format!("`{name}` is not a parameter of the model"))
            })?;
        // Blocks of zeros stand for zeros: such parameters are loaded.
        if ty.dtype == gradloom_core::ir::DType::U8 {
            return Ok(());
        }
        let key = InitialKey { seed: self.seed(), parameter: number as u32 };
        fill_initial(used.param.init(), &ty.shape, key, elements, &self.device.backend.pool())
            .map_err(|message| Error::new(ErrorKind::Trace, format!("parameter `{name}`: {message}")))
    }

    /// Gives every parameter its initial value again, which the seed decides.
    ///
    /// # Errors
    /// On the null device, which keeps no bytes; on a device that is lost.
    pub fn reset_parameters(&self) -> Result<()> {
        let entries = self.store.entries();
        let mut initial = Vec::new();
        for entry in entries.iter().filter(|entry| entry.init.is_none()) {
            let mut elements = vec![0.0; entry.ty.elements()];
            self.initial(&entry.name, &entry.ty, &mut elements)?;
            initial.push((entry, elements));
        }
        let bytes =
            initial.iter().map(|(entry, elements)| rounded(entry, elements)).collect::<Result<Vec<_>>>()?;
        let all: Vec<_> = initial
            .iter()
            .zip(&bytes)
            .map(|((entry, _), bytes)| (entry.name.as_str(), &entry.ty, &bytes[..]))
            .collect();
        self.store.write(&all)
    }

    /// The plan that a graph would have over the session's store; nothing is allocated, and no limit is
    /// applied.
    pub(super) fn plan(&self, graph: &Graph) -> Result<Plan> {
        let mut layout = self.store.layout();
        layout.extend(graph).map_err(|message| Error::new(ErrorKind::Store, message))?;
        let backend = &self.device.backend;
        let lowered = backend.lower(graph, fuse(graph, backend.fusion())?, self.device.precision)?;
        let plan = plan::plan(graph, lowered, &layout, None)?;
        Ok(side_by_side(plan, &**backend, |_| true))
    }

    /// The model's parameters and states with their sizes.
    pub fn summary(&self) -> Summary {
        Summary::of(&self.params, |used| !used.param.is_frozen())
    }

    /// The model.
    pub fn model(&self) -> &M {
        &self.model
    }

    /// The model's parameters with their names.
    pub fn params(&self) -> &ParamTable {
        &self.params
    }

    /// Parameters and states: a shared handle.
    pub fn store(&self) -> Store {
        self.store.clone()
    }

    /// The device.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// The seed of all random numbers.
    pub fn seed(&self) -> u64 {
        self.seed.load(Ordering::Relaxed)
    }
}
