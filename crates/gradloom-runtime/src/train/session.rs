//! A model with its parameters on a device, over which programs are compiled.

use super::Infer;
use crate::cpu::{InitialKey, fill_initial};
use crate::device::Device;
use crate::outputs::Outputs;
use crate::program::Program;
use crate::store::{Store, rounded};
use gradloom_core::error::{Error, ErrorKind, Result};
use gradloom_core::fuse::fuse;
use gradloom_core::ir::{Graph, Type};
use gradloom_core::nn::Module;
use gradloom_core::optim::STATE_PREFIX;
use gradloom_core::plan::{self, Plan};
use gradloom_core::trace::{Input, ParamTable, Tensor, Traced, trace};

/// A model, its store, and a device: training, evaluation and generation are programs over one session,
/// without copies.
///
/// A [`Train`](super::Train) has a session inside; make one yourself to run a model that is not trained:
///
/// ```
/// use gradloom_core::{nn::Linear, trace::f32};
/// use gradloom_runtime::{Device, Session};
///
/// let session = Session::new(Linear::new(3, 2), &Device::cpu(), 7)?;
/// let mut forward = session.infer([f32("x", [1, 3])], |layer, [x]| layer.forward(x))?;
/// assert_eq!(forward.run([&[0.0f32; 3]])?, session.store().read_f32("bias")?);
/// # Ok::<(), gradloom_core::error::Error>(())
/// ```
#[derive(Debug)]
pub struct Session<M> {
    model: M,
    params: ParamTable,
    seed: u64,
    device: Device,
    store: Store,
}

impl<M: Module> Session<M> {
    /// A session with an empty store. Parameters come into being, keyed by `seed`, with the first program
    /// that uses them.
    ///
    /// # Errors
    /// When two parameters of the model have one name.
    pub fn new(model: M, device: &Device, seed: u64) -> Result<Self> {
        let params = ParamTable::of(&model)?;
        let store = Store::of(device);
        Ok(Self { model, params, seed, device: device.clone(), store })
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

    /// [`Session::infer`] where the number of inputs is not known before the program runs. A run takes data by
    /// [`Infer::queue`].
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

    /// Loads a graph over the session's store.
    pub(super) fn load(&self, graph: Graph) -> Result<Program> {
        Program::load(graph, &self.device, &self.store, |name, ty, elements| self.initial(name, ty, elements))
    }

    /// The initial values of a parameter, into elements that are 0.
    fn initial(&self, name: &str, ty: &Type, elements: &mut [f32]) -> Result<()> {
        let (number, used) =
            self.params.iter().enumerate().find(|(_, used)| used.name == name).ok_or_else(|| {
                Error::new(ErrorKind::Internal, format!("`{name}` is not a parameter of the model"))
            })?;
        let key = InitialKey { seed: self.seed, parameter: number as u32 };
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
        plan::plan(graph, lowered, &layout, None)
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
        self.seed
    }
}
