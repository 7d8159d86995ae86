//! The [`Device`] type.

use crate::backend::Backend;
use crate::communicator::Communicator;
use crate::null::NullBackend;
use gradloom_codegen::pipeline::{Precision, Target};
use gradloom_core::error::{Error, ErrorKind, Result};
use std::any::Any;
use std::sync::Arc;

/// A device that runs programs. Clones refer to the same device.
#[derive(Clone, Debug)]
pub struct Device {
    backend: Arc<dyn Backend>,
    precision: Precision,
}

impl Device {
    /// Creates a device from a backend.
    pub fn new(backend: impl Backend + 'static) -> Self {
        let precision = backend.target().precision();
        Self { backend: Arc::new(backend), precision }
    }

    /// Returns the backend.
    #[doc(hidden)]
    pub fn backend(&self) -> &Arc<dyn Backend> {
        &self.backend
    }

    /// Returns the backend as a `B`; `None` if it has another type.
    #[doc(hidden)]
    pub fn backend_of<B: Backend + 'static>(&self) -> Option<&B> {
        (&*self.backend as &dyn Any).downcast_ref()
    }

    /// Returns the same device with one kernel per op, whose launches run one by one. This is slow, but makes
    /// every intermediate value observable.
    ///
    /// # Errors
    /// Returns an error if the device does not support it; only the CPU does.
    pub fn op_by_op(&self) -> Result<Self> {
        let backend = self.backend.op_by_op().ok_or_else(|| {
            Error::new(ErrorKind::Device, format!("`{}` does not run ops one by one", self.name()))
                .help("give the CPU: `Device::cpu()`")
        })?;
        Ok(Self { backend, precision: self.precision })
    }

    /// Returns the same device as one rank of a world: the processes that train one model together, each on
    /// its own part of a batch. Programs compiled by a trainer average loss and gradients over all ranks. All
    /// ranks must compile and run the same programs in the same order.
    ///
    /// # Errors
    /// Returns an error if the device cannot communicate; CPUs and NVIDIA GPUs (through CUDA) can.
    pub fn in_world(&self, world: &(impl Communicator + Clone + 'static)) -> Result<Self> {
        if world.size() == 1 {
            return Ok(self.clone());
        }
        Ok(Self { backend: self.backend.in_world(Arc::new(world.clone()))?, precision: self.precision })
    }

    /// Returns the number of ranks of the device's world; 1 if it is not part of a world.
    pub fn ranks(&self) -> usize {
        self.backend.communicator().map_or(1, |communicator| communicator.size())
    }

    /// Returns the device's rank in its world, from 0.
    pub fn rank(&self) -> usize {
        self.backend.communicator().map_or(0, |communicator| communicator.rank())
    }

    /// Returns `true` if `self` and `other` are the same device, so that their programs share memory.
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.backend, &other.backend)
    }

    /// Returns the size in bytes of the compiled kernels found in the user's cache; `None` if the device has
    /// no cache.
    #[doc(hidden)]
    pub fn kept_bytes(&self) -> Option<usize> {
        self.backend.kept_bytes()
    }

    /// Creates a device that compiles and plans for a CPU but runs nothing: results are NaN.
    pub fn null() -> Self {
        Self::null_for(Target::cpu(1))
    }

    /// Creates a device that compiles and plans for `target` but runs nothing.
    pub fn null_for(target: Target) -> Self {
        Self::new(NullBackend { target, communicator: None })
    }

    /// Returns the same device for programs in another precision. Ops that a GPU does not support in that
    /// precision run in f32. On a CPU, programs are loaded in [`Precision::F32`] and [`Precision::Bf16`], and
    /// any other precision is an error.
    ///
    /// Opening a GPU for [`Precision::F16`] fails if it cannot multiply in f16. Kernels are tuned only for
    /// the precision that the GPU was opened for.
    #[must_use]
    pub fn in_precision(&self, precision: Precision) -> Self {
        Self { backend: Arc::clone(&self.backend), precision }
    }

    /// Returns the precision that programs compute in.
    pub fn precision(&self) -> Precision {
        self.precision
    }

    /// Returns `true` if programs are compiled for a GPU, even if that GPU is not present.
    pub fn is_gpu(&self) -> bool {
        self.backend.target().is_gpu()
    }

    /// Returns the target of programs. A null device for this target ([`Device::null_for`]) makes the same
    /// plans.
    pub fn target(&self) -> Target {
        self.backend.target().in_precision(self.precision)
    }

    /// Returns a short name: `cpu`, `wgpu`, `cuda` or `null`.
    pub fn name(&self) -> &'static str {
        self.backend.name()
    }

    /// Returns the model and the instruction set, for display.
    pub fn description(&self) -> String {
        self.backend.description()
    }

    /// Returns the number of threads that run kernels.
    pub fn threads(&self) -> usize {
        self.backend.threads()
    }
}
