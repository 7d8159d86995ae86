//! Options of an NVIDIA GPU.

use super::driver::Driver;
use super::kernels::Compiler;
use gradloom_codegen::cuda::LARGE_PRODUCT;
use gradloom_codegen::pipeline::{Limits, Precision, Target};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Options for [`CudaDevice::cuda_with`](crate::CudaDevice::cuda_with). By default, the first GPU is opened,
/// programs compute in f32, and steps are replayed as graphs.
#[derive(Clone, Debug)]
pub struct CudaOptions {
    pub(super) index: usize,
    pub(super) precision: Precision,
    pub(super) mode: Mode,
    /// Number of multiplications from which cuBLASLt computes a product on tensor cores; `None` for never.
    pub(super) library: Option<usize>,
    pub(super) watchdog: Option<Duration>,
    pub(super) overrides: Overrides,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Mode {
    /// True if steps run as graphs of their kernels.
    pub(super) captured: bool,
    /// True if arena and scratch are filled with NaN before each step, to test that the step does not depend
    /// on their previous contents.
    pub(super) poisoned: bool,
}

/// Replacements for tests.
#[derive(Clone, Debug, Default)]
pub(super) struct Overrides {
    pub(super) driver: Option<Arc<dyn Driver>>,
    pub(super) compiler: Option<Arc<dyn Compiler>>,
    /// Cache folder for compiled kernels, instead of the one in the user's cache folder.
    pub(super) cache: Option<PathBuf>,
    /// True to disable the cache.
    pub(super) no_cache: bool,
}

impl Default for CudaOptions {
    fn default() -> Self {
        Self {
            index: 0,
            precision: Precision::F32,
            mode: Mode { captured: true, poisoned: false },
            library: Some(LARGE_PRODUCT),
            watchdog: None,
            overrides: Overrides::default(),
        }
    }
}

impl CudaOptions {
    /// Returns the target of programs for a GPU with these options.
    pub fn target(&self) -> Target {
        Target::cuda(Limits { library: self.library, ..Limits::cuda() }, self.precision)
    }

    /// Selects the GPU by its index, from 0, in the driver's order. [`cuda_devices`](crate::cuda_devices)
    /// lists the GPUs, and `CUDA_VISIBLE_DEVICES` restricts the list.
    pub fn index(mut self, index: usize) -> Self {
        self.index = index;
        self
    }

    /// Sets the default precision of programs on the device; see [`Precision`].
    pub fn precision(mut self, precision: Precision) -> Self {
        self.precision = precision;
        self
    }

    /// Launches the kernels of each step one by one instead of replaying a graph. The kernels and their
    /// results are the same, but steps are slower. This is useful for comparison, and for tools that inspect
    /// single launches.
    ///
    /// ```
    /// # mod gradloom { pub use gradloom_device::*; pub use gradloom_cuda::*; }
    /// use gradloom::CudaOptions;
    ///
    /// let options = CudaOptions::default().index(1).uncaptured();
    /// ```
    pub fn uncaptured(mut self) -> Self {
        self.mode.captured = false;
        self
    }

    /// Disables cuBLASLt, so that gradloom's own kernels compute all products. By default, cuBLASLt computes
    /// large ones if it is installed. `GRADLOOM_CUBLASLT` specifies the path of the library if it is not in
    /// one of the usual places.
    pub fn without_cublaslt(mut self) -> Self {
        self.library = None;
        self
    }

    /// Fills a program's arena and scratch with NaN before each of its steps, which must not affect results.
    #[doc(hidden)]
    pub fn poisoned(mut self) -> Self {
        self.mode.poisoned = true;
        self
    }

    /// Treats the device as lost once a wait for a step has taken `limit`. The wait and all later operations
    /// on the device then fail with [`ErrorKind::Lost`](gradloom_core::error::ErrorKind::Lost). By default
    /// there is no limit, and a wait for a device that hangs does not end.
    pub fn watchdog(mut self, limit: Duration) -> Self {
        self.watchdog = Some(limit);
        self
    }
}
