//! Devices.

use crate::backend::Backend;
use crate::null::NullBackend;
use gradloom_codegen::pipeline::{Precision, Target};
use gradloom_core::error::{Error, ErrorKind, Result};
use std::any::Any;
use std::sync::Arc;

/// A device that programs run on. Clones are the same device.
#[derive(Clone, Debug)]
pub struct Device {
    backend: Arc<dyn Backend>,
    precision: Precision,
}

impl Device {
    /// A device with a backend.
    pub fn new(backend: impl Backend + 'static) -> Self {
        let precision = backend.target().precision();
        Self { backend: Arc::new(backend), precision }
    }

    /// Returns the backend.
    #[doc(hidden)]
    pub fn backend(&self) -> &Arc<dyn Backend> {
        &self.backend
    }

    /// Returns the backend as one of this type; `None` if it is of another.
    #[doc(hidden)]
    pub fn backend_of<B: Backend + 'static>(&self) -> Option<&B> {
        (&*self.backend as &dyn Any).downcast_ref()
    }

    /// Returns the same device with a kernel for each op, whose launches run one by one: slow, to look at
    /// every value.
    ///
    /// # Errors
    /// When the device cannot: only the CPU can.
    pub fn op_by_op(&self) -> Result<Self> {
        let backend = self.backend.op_by_op().ok_or_else(|| {
            Error::new(ErrorKind::Device, format!("`{}` does not run ops one by one", self.name()))
                .help("give the CPU: `Device::cpu()`")
        })?;
        Ok(Self { backend, precision: self.precision })
    }

    /// Returns whether programs of the two share memory.
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.backend, &other.backend)
    }

    /// Returns the bytes of compiled kernels that were found in the user's cache; `None` where the device
    /// keeps none.
    #[doc(hidden)]
    pub fn kept_bytes(&self) -> Option<usize> {
        self.backend.kept_bytes()
    }

    /// Compiles and plans for a CPU, and runs nothing: results are NaN.
    pub fn null() -> Self {
        Self::null_for(Target::cpu(1))
    }

    /// The same for any target: plans are those of such a device.
    pub fn null_for(target: Target) -> Self {
        Self::new(NullBackend { target })
    }

    /// The same device for programs of another precision. What it cannot do in that type it does in f32, and
    /// so does a CPU everything.
    ///
    /// A GPU that was opened for [`Precision::F16`] is sure to multiply so, or was an
    /// error; kernels are measured for the precision that it was opened for alone.
    #[must_use]
    pub fn in_precision(&self, precision: Precision) -> Self {
        Self { backend: Arc::clone(&self.backend), precision }
    }

    /// Returns the precision that programs compute in, where the device can.
    pub fn precision(&self) -> Precision {
        self.precision
    }

    /// Returns whether programs are compiled for a GPU, which may be one that is not at hand.
    pub fn is_gpu(&self) -> bool {
        self.backend.target().is_gpu()
    }

    /// Returns the target of programs: [`Device::null_for`] makes the same plans of it.
    pub fn target(&self) -> Target {
        self.backend.target().in_precision(self.precision)
    }

    /// Returns a short name: `cpu`, `wgpu`, `cuda` or `null`.
    pub fn name(&self) -> &'static str {
        self.backend.name()
    }

    /// Returns the model and the instruction set, for reports.
    pub fn description(&self) -> String {
        self.backend.description()
    }

    /// Returns the number of threads that compute.
    pub fn threads(&self) -> usize {
        self.backend.threads()
    }
}
