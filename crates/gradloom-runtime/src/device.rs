//! Devices, and their selection.

use crate::backend::Backend;
use crate::cpu::{CpuBackend, Loops};
#[cfg(feature = "cuda")]
use crate::cuda::{CudaBackend, CudaOptions};
use crate::null::NullBackend;
#[cfg(feature = "wgpu")]
use crate::wgpu::{Tuning, WgpuBackend, WgpuOptions};
use gradloom_codegen::pipeline::{Precision, Target};
use gradloom_core::error::{Error, ErrorKind, Result};
use gradloom_core::fuse::Fusion;
use std::sync::Arc;

/// A device that programs run on. Clones are the same device.
#[derive(Clone, Debug)]
pub struct Device {
    pub(crate) backend: Arc<dyn Backend>,
    pub(crate) precision: Precision,
}

impl Device {
    /// The best device of this machine and this build: an NVIDIA GPU through CUDA, another GPU that is not
    /// one in name only, otherwise the CPU.
    ///
    /// # Errors
    /// When there is none; the CPU is always there.
    pub fn auto() -> Result<Self> {
        #[cfg(feature = "cuda")]
        if let Ok(gpu) = Self::cuda() {
            return Ok(gpu);
        }
        #[cfg(feature = "wgpu")]
        if let Ok(gpu) = Self::wgpu() {
            return Ok(gpu);
        }
        Ok(Self::cpu())
    }

    /// Whether programs of the two share memory.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.backend, &other.backend)
    }

    /// The CPU, with a thread for each core that the process may use.
    pub fn cpu() -> Self {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        Self::with(CpuBackend::new(threads, Fusion::On, Loops::Native))
    }

    /// The CPU with a given number of threads, at least 1. Results do not depend on it.
    ///
    /// # Errors
    /// When `threads` is 0 or larger than 1,024.
    pub fn cpu_with_threads(threads: usize) -> Result<Self> {
        Self::cpu_with(threads, Fusion::On, Loops::Native)
    }

    /// The CPU with a given number of threads and, with [`Fusion::Off`], a kernel for each op: slow, to
    /// compare with.
    ///
    /// # Errors
    /// As [`Device::cpu_with_threads`].
    pub fn cpu_with_fusion(threads: usize, fusion: Fusion) -> Result<Self> {
        Self::cpu_with(threads, fusion, Loops::Native)
    }

    /// The CPU with a given number of threads and, with [`Loops::Interpreted`], no machine code of its own:
    /// the same results, slower.
    ///
    /// # Errors
    /// As [`Device::cpu_with_threads`].
    pub fn cpu_with_loops(threads: usize, loops: Loops) -> Result<Self> {
        Self::cpu_with(threads, Fusion::On, loops)
    }

    fn cpu_with(threads: usize, fusion: Fusion, loops: Loops) -> Result<Self> {
        if !(1..=1024).contains(&threads) {
            return Err(Error::new(ErrorKind::Device, format!("{threads} threads"))
                .help("give a number from 1 to 1024; the number of cores is usually best"));
        }
        Ok(Self::with(CpuBackend::new(threads, fusion, loops)))
    }

    /// The best GPU of this machine that WebGPU can use: through Vulkan, Metal or Direct3D 12. Adapters that
    /// compute on the CPU are not taken; see [`Device::wgpu_named`].
    ///
    /// Where the driver allows it, compiled kernels are kept in `gradloom/pipelines` in the user's cache
    /// folder, which can be deleted at any time.
    ///
    /// WGSL lets a driver compute as if there were neither NaN nor infinity. Functions, comparisons and
    /// reductions tell them by their bits, and `x - x` and `x * 0.0` do; but a driver may still make a number
    /// of longer formulas whose terms cancel, as `x + 1.0 - x` of an infinite x.
    ///
    /// # Errors
    /// When there is none, or it cannot be opened.
    #[cfg(feature = "wgpu")]
    pub fn wgpu() -> Result<Self> {
        Self::wgpu_with(&WgpuOptions::default())
    }

    /// The best GPU whose name contains `name`, in any case; one that computes on the CPU too (`llvmpipe`,
    /// `SwiftShader`).
    ///
    /// # Errors
    /// As [`Device::wgpu`].
    #[cfg(feature = "wgpu")]
    pub fn wgpu_named(name: &str) -> Result<Self> {
        Self::wgpu_with(&WgpuOptions::default().adapter(name).software())
    }

    /// A build without GPUs has none.
    ///
    /// # Errors
    /// Always: it says which feature is missing.
    #[cfg(not(feature = "wgpu"))]
    pub fn wgpu() -> Result<Self> {
        let message = "this build of gradloom has no GPUs: its feature `wgpu` is off";
        Err(Error::new(ErrorKind::Device, message).help(
            "depend on it with `features = [\"wgpu\"]`, or use `Device::cpu()`; `Device::auto()` takes what \
             there is",
        ))
    }

    /// As [`Device::wgpu`].
    ///
    /// # Errors
    /// As [`Device::wgpu`].
    #[cfg(not(feature = "wgpu"))]
    pub fn wgpu_named(_: &str) -> Result<Self> {
        Self::wgpu()
    }

    /// A GPU with options: which one, in which type it multiplies, and whether products are measured.
    ///
    /// ```no_run
    /// # mod gradloom { pub use gradloom_core::*; pub use gradloom_runtime::*; }
    /// use gradloom::{Device, Precision, WgpuOptions};
    ///
    /// let device = Device::wgpu_with(&WgpuOptions::default().precision(Precision::F16))?;
    /// # Ok::<(), gradloom_core::error::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Device::wgpu`]; when the adapter lacks what an option needs, naming it.
    #[cfg(feature = "wgpu")]
    pub fn wgpu_with(options: &WgpuOptions) -> Result<Self> {
        Ok(Self::with(WgpuBackend::new(options)?))
    }

    /// The first NVIDIA GPU of this machine, through CUDA. Its driver and NVIDIA's compiler, NVRTC, are
    /// looked for now; nothing of CUDA is needed to build.
    ///
    /// Compiled kernels are kept in `gradloom/cubins` in the user's cache folder, which can be deleted at any
    /// time.
    ///
    /// # Errors
    /// When there is none, or it cannot be opened.
    #[cfg(feature = "cuda")]
    pub fn cuda() -> Result<Self> {
        Self::cuda_with(&CudaOptions::default())
    }

    /// A build without CUDA has none.
    ///
    /// # Errors
    /// Always: it says which feature is missing.
    #[cfg(not(feature = "cuda"))]
    pub fn cuda() -> Result<Self> {
        let message = "this build of gradloom has no CUDA: its feature `cuda` is off";
        Err(Error::new(ErrorKind::Device, message).help(
            "depend on it with `features = [\"cuda\"]`, or use `Device::cpu()`; `Device::auto()` takes what \
             there is",
        ))
    }

    /// An NVIDIA GPU with options: which one, what it computes in, how its steps run.
    ///
    /// ```no_run
    /// # mod gradloom { pub use gradloom_core::*; pub use gradloom_runtime::*; }
    /// use gradloom::{CudaOptions, Device};
    ///
    /// let second = Device::cuda_with(&CudaOptions::default().index(1))?;
    /// # Ok::<(), gradloom_core::error::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Device::cuda`].
    #[cfg(feature = "cuda")]
    pub fn cuda_with(options: &CudaOptions) -> Result<Self> {
        Ok(Self::with(CudaBackend::new(options)?))
    }

    /// Bytes of compiled kernels that were found in the user's cache; none where the device does not keep
    /// them.
    #[doc(hidden)]
    pub fn kept_bytes(&self) -> Option<usize> {
        self.backend.kept_bytes()
    }

    /// The GPU of a page, as a script offers it: with what limits, and with how many bytes a buffer has at
    /// most.
    #[cfg(feature = "web")]
    pub fn web(
        host: Arc<dyn crate::web::WebHost>,
        limits: gradloom_codegen::pipeline::Limits,
        buffer_bytes: u64,
    ) -> Self {
        Self::with(crate::web::WebBackend::new(host, limits, buffer_bytes))
    }

    /// Compiles and plans for a CPU, and runs nothing: results are NaN.
    pub fn null() -> Self {
        Self::null_for(Target::cpu(1))
    }

    /// The same for any target: plans are those of such a device.
    pub fn null_for(target: Target) -> Self {
        Self::with(NullBackend { target })
    }

    pub(crate) fn with(backend: impl Backend + 'static) -> Self {
        let precision = backend.target().precision();
        Self { backend: Arc::new(backend), precision }
    }

    /// The same device for programs of another precision. What it cannot do in that type it does in f32, and
    /// so does a CPU everything.
    ///
    /// A GPU that was opened for [`Precision::F16`] ([`Device::wgpu_with`]) is sure to multiply so, or was an
    /// error; kernels are measured for the precision that it was opened for alone.
    #[must_use]
    pub fn in_precision(&self, precision: Precision) -> Self {
        Self { backend: Arc::clone(&self.backend), precision }
    }

    /// What programs compute in, where the device can.
    pub fn precision(&self) -> Precision {
        self.precision
    }

    /// Whether programs are compiled for a GPU, which may be one that is not at hand.
    pub fn is_gpu(&self) -> bool {
        self.backend.target().is_gpu()
    }

    /// The target of programs: [`Device::null_for`] makes the same plans of it.
    pub fn target(&self) -> Target {
        self.backend.target().in_precision(self.precision)
    }

    /// `cpu`, `wgpu`, `cuda` or `null`.
    pub fn name(&self) -> &'static str {
        self.backend.name()
    }

    /// Model and instruction set, for reports.
    pub fn description(&self) -> String {
        self.backend.description()
    }

    /// What measuring products and attention came to so far; none of a device that does not: see
    /// [`WgpuOptions::tuned`].
    #[cfg(feature = "wgpu")]
    pub fn tuning(&self) -> Option<Tuning> {
        self.backend.tuning()
    }

    /// Threads that compute.
    pub fn threads(&self) -> usize {
        self.backend.threads()
    }
}
