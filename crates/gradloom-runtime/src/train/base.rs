//! The part of a session that does not depend on the type of its model.
//!
//! In: the parameters of a model, and a device. Out: a store with them, and programs that use it. Invariant:
//! nothing here is generic over the model, so this code is compiled once, and not again in every crate that
//! creates a session.

use super::summary::Summary;
use crate::program::{Program, side_by_side};
use crate::store::{Store, rounded};
use gradloom_core::error::{Error, ErrorKind, Result};
use gradloom_core::fuse::fuse;
use gradloom_core::ir::{Graph, OpKind, Type};
use gradloom_core::nn::ParamId;
use gradloom_core::optim::STATE_PREFIX;
use gradloom_core::plan::{self, Plan};
use gradloom_core::trace::Traced;
use gradloom_core::trace::{ParamTable, ParamUse};
use gradloom_device::Device;
use gradloom_device::elements::zeroed;
use gradloom_device::feed::Data;
use gradloom_device::host::{InitialKey, fill_initial};
#[cfg(feature = "web")]
use std::sync::atomic::AtomicBool;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// Handle to a session's store; clones share it. See [the module](self).
#[derive(Clone, Debug)]
pub(crate) struct Base {
    pub(super) params: Arc<ParamTable>,
    pub(super) seed: Arc<AtomicU64>,
    pub(super) device: Device,
    pub(crate) store: Store,
    /// State of the initial values that are computed on demand; see [`Base::fill`].
    #[cfg(feature = "web")]
    later: Arc<Later>,
    /// Names of the existing training programs.
    trainers: Arc<Mutex<Vec<Weak<str>>>>,
}

/// State of initial values that are computed on demand.
#[cfg(feature = "web")]
#[derive(Debug, Default)]
struct Later {
    is_wanted: AtomicBool,
    is_due: AtomicBool,
}

/// Parameter or state of a model.
#[cfg(feature = "files")]
pub(crate) struct ModelEntry {
    pub(crate) name: String,
    /// Other names of a shared parameter.
    pub(crate) aliases: Vec<String>,
    pub(crate) ty: Type,
    /// True if PyTorch stores the matrix in column-major order.
    pub(crate) transposed_in_torch: bool,
    /// True for a parameter of an adapter.
    pub(crate) of_adapter: bool,
    /// Block format of the parameter, and the shape of the elements that its blocks represent.
    pub(crate) blocks: Option<(gradloom_core::ir::BlockFormat, gradloom_core::ir::Shape)>,
}

impl Base {
    pub(super) fn new(params: ParamTable, device: &Device, seed: u64) -> Self {
        let (params, seed) = (Arc::new(params), Arc::new(AtomicU64::new(seed)));
        Self {
            params,
            seed,
            device: device.clone(),
            store: Store::of(device),
            #[cfg(feature = "web")]
            later: Arc::default(),
            trainers: Arc::default(),
        }
    }

    /// Returns the same base on a device with another precision.
    pub(super) fn on(&self, device: &Device) -> Self {
        Self { device: device.clone(), ..self.clone() }
    }

    /// Reserves a name for a training program until the returned name is dropped.
    ///
    /// # Errors
    /// Returns an error if another training program has the name.
    pub(super) fn take_name(&self, name: &str) -> Result<Arc<str>> {
        // Names need not be unique in the npm package, where each session has one training program.
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

    pub(super) fn reset_states(&self, path: &str) -> Result<()> {
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

    pub(super) fn set(&self, name: &str, elements: &Data<'_>) -> Result<()> {
        self.materialize()?;
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

    pub(super) fn materialize(&self) -> Result<()> {
        let layout = self.store.layout();
        let params = self.params.iter().map(|used| {
            let (name, ty) = (used.name.clone(), used.param.ty());
            Some(OpKind::Param { name, ty })
        });
        let states = self.params.states().map(|used| {
            let (name, ty) = (used.name.clone(), used.state.ty().clone());
            Some(OpKind::State { name, ty, init: used.state.init()?, whole: Vec::new() })
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
        let backend = self.device.backend();
        let initial = |name: &str, ty: &Type, elements: &mut [f32]| self.initial(name, ty, elements);
        let mut growth = self.store.grow(&graph)?;
        growth.allocate(&|bytes| backend.allocate(bytes), &initial)?;
        growth.commit();
        Ok(())
    }

    /// Returns the model's parameters and states, with the information needed for files.
    #[cfg(feature = "files")]
    pub(crate) fn model_entries(&self) -> Result<Vec<ModelEntry>> {
        self.materialize()?;
        let params = self.params.iter().map(|used| ModelEntry {
            name: used.name.clone(),
            aliases: used.aliases.clone(),
            ty: used.param.ty(),
            transposed_in_torch: used.param.is_transposed_in_torch(),
            of_adapter: used.param.is_of_adapter(),
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
            blocks: None,
        });
        Ok(params.chain(states).collect())
    }

    pub(super) fn compile(&self, graph: Graph) -> Result<Program> {
        Program::load(graph, &self.device, &self.store, |name, ty, elements| self.initial(name, ty, elements))
    }

    /// Checks that every parameter in a trace existed in the model when the session was created.
    pub(super) fn check_knows(&self, traced: &Traced) -> Result<()> {
        // Skip the check in the npm package, where each trace creates its parameters anew, and the store
        // finds them by name.
        if cfg!(target_family = "wasm") {
            return Ok(());
        }
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

    /// Returns the model's parameters, those of adapters last, so that adapters do not change the random
    /// initial values of the others.
    fn in_order_of_keys(&self) -> impl Iterator<Item = &ParamUse> {
        let of_adapter = |used: &&ParamUse| used.param.is_of_adapter();
        let own = self.params.iter().filter(move |used| !of_adapter(used));
        own.chain(self.params.iter().filter(of_adapter))
    }

    /// Overwrites zeros with the initial values of a parameter.
    fn initial(&self, name: &str, ty: &Type, elements: &mut [f32]) -> Result<()> {
        let (number, used) =
            self.in_order_of_keys().enumerate().find(|(_, used)| used.name == name).ok_or_else(|| {
                Error::new(ErrorKind::Internal, format!("`{name}` is not a parameter of the model"))
            })?;
        // Skip parameters in blocks, which are loaded from a file; until then, zero blocks represent zeros.
        if ty.dtype == gradloom_core::ir::DType::U8 {
            return Ok(());
        }
        // Defer the computation, except for values given by the user, which must be checked now.
        #[cfg(feature = "web")]
        if self.later.is_wanted.load(Ordering::Relaxed)
            && !matches!(used.param.init(), gradloom_core::nn::Init::Values(_))
        {
            self.later.is_due.store(true, Ordering::Relaxed);
            return Ok(());
        }
        let key = InitialKey { seed: self.seed(), parameter: number as u32 };
        fill_initial(used.param.init(), &ty.shape, key, elements, &self.device.backend().pool())
            .map_err(|message| Error::new(ErrorKind::Trace, format!("parameter `{name}`: {message}")))
    }

    #[cfg(feature = "web")]
    pub(super) fn fill_later(&self) {
        self.later.is_wanted.store(true, Ordering::Relaxed);
    }

    #[cfg(feature = "web")]
    pub(super) fn fill(&self, is_given: bool) -> Result<()> {
        self.later.is_wanted.store(false, Ordering::Relaxed);
        let is_due = self.later.is_due.swap(false, Ordering::Relaxed);
        if is_due && !is_given { self.reset_parameters() } else { Ok(()) }
    }

    pub(super) fn reset_parameters(&self) -> Result<()> {
        let entries = self.store.entries();
        // Compute the values of one parameter at a time, because a WebAssembly module may not have the memory
        // for all of them.
        if cfg!(target_family = "wasm") {
            for entry in entries.iter().filter(|entry| entry.init.is_none()) {
                let mut elements = zeroed(entry.ty.elements(), &"initial values")?;
                self.initial(&entry.name, &entry.ty, &mut elements)?;
                self.store.write(&[(&entry.name, &entry.ty, &rounded(entry, &elements)?)])?;
            }
            return Ok(());
        }
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

    /// Plans a graph with the session's store, without allocating memory or checking limits.
    pub(super) fn plan(&self, graph: &Graph) -> Result<Plan> {
        let mut layout = self.store.layout();
        layout.extend(graph).map_err(|message| Error::new(ErrorKind::Store, message))?;
        let backend = self.device.backend();
        let fused = fuse(graph, backend.target().fusion)?;
        let lowered = backend.target_of(graph, &fused, self.device.precision()).lower(graph, fused);
        let plan = plan::plan(graph, lowered, &layout, None)?;
        Ok(side_by_side(plan, &**backend, |_| true))
    }

    pub(super) fn summary(&self) -> Summary {
        Summary::of(&self.params, |used| !used.param.is_frozen())
    }

    /// Sets the seed of all later random numbers.
    #[cfg(feature = "files")]
    pub(super) fn set_seed(&self, seed: u64) {
        self.seed.store(seed, Ordering::Relaxed);
    }

    pub(super) fn seed(&self) -> u64 {
        self.seed.load(Ordering::Relaxed)
    }
}
