//! Options of an NVIDIA GPU.

use super::driver::Driver;
use super::kernels::Compiler;
use gradloom_codegen::cuda::LARGE_PRODUCT;
use gradloom_codegen::pipeline::{Limits, Precision, Target};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Options for [`CudaDevice::cuda_with`](crate::CudaDevice::cuda_with). By default it opens the first GPU,
/// computes in f32, and replays steps as graphs.
#[derive(Clone, Debug)]
pub struct CudaOptions {
    pub(super) index: usize,
    pub(super) precision: Precision,
    pub(super) mode: Mode,
    /// Multiplications from which on cuBLASLt computes products on tensor cores; none if it never does.
    pub(super) library: Option<usize>,
    pub(super) watchdog: Option<Duration>,
    pub(super) overrides: Overrides,
}

/// Mode in which steps run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mode {
    /// True to run them as graphs of their kernels.
    pub(super) captured: bool,
    /// True to fill arena and scratch with NaN before each step, to show that the step relies on nothing
    /// in them.
    pub(super) poisoned: bool,
}

/// Replacements for tests.
#[derive(Clone, Debug, Default)]
pub(super) struct Overrides {
    pub(super) driver: Option<Arc<dyn Driver>>,
    pub(super) compiler: Option<Arc<dyn Compiler>>,
    /// Folder for compiled kernels, instead of the user's cache folder.
    pub(super) cache: Option<PathBuf>,
    /// True for no folder at all.
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
    /// Returns the target of programs for such a GPU.
    pub fn target(&self) -> Target {
        Target::cuda(Limits { library: self.library, ..Limits::cuda() }, self.precision)
    }

    /// Takes the GPU of this number, from 0, in the driver's order: [`cuda_devices`](crate::cuda_devices)
    /// lists them, and `CUDA_VISIBLE_DEVICES` changes which there are.
    pub fn index(mut self, index: usize) -> Self {
        self.index = index;
        self
    }

    /// Sets the precision of programs on the device that do not set their own: see [`Precision`].
    pub fn precision(mut self, precision: Precision) -> Self {
        self.precision = precision;
        self
    }

    /// Launches the kernels of each step one by one instead of replaying a graph of them: the same kernels
    /// with the same results, slower. To compare with, and for tools that look at single launches.
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

    /// Computes all products by gradloom's own kernels, none by cuBLASLt, which otherwise takes large ones
    /// where it is installed. `GRADLOOM_CUBLASLT` names the library's file if it is in none of the
    /// usual places.
    pub fn without_cublaslt(mut self) -> Self {
        self.library = None;
        self
    }

    /// Fills a program's arena and scratch with NaN before each of its steps, which must not matter.
    #[doc(hidden)]
    pub fn poisoned(mut self) -> Self {
        self.mode.poisoned = true;
        self
    }

    /// Counts the device as lost when something that waits for a step has waited so long: the wait ends with
    /// an error of the kind [`ErrorKind::Lost`](gradloom_core::error::ErrorKind::Lost), and so does whatever
    /// is asked of the device later. Without it, which is the default, a device that hangs is waited for.
    pub fn watchdog(mut self, limit: Duration) -> Self {
        self.watchdog = Some(limit);
        self
    }
}
