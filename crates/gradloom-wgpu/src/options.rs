//! Options of a GPU.

use crate::testing::WgpuOverrides;
use gradloom_codegen::pipeline::Precision;
use std::path::PathBuf;
use std::time::Duration;

/// Options for [`WgpuDevice::wgpu_with`](crate::WgpuDevice::wgpu_with). By default, the best GPU is opened,
/// and it multiplies in f32.
#[derive(Clone, Debug, Default)]
pub struct WgpuOptions {
    pub(super) adapter: Option<String>,
    pub(super) precision: Precision,
    pub(super) tuning: Option<PathBuf>,
    pub(super) software: bool,
    pub(super) watchdog: Option<Duration>,
    pub(crate) overrides: WgpuOverrides,
}

impl WgpuOptions {
    /// Selects the best GPU whose name contains `name`, ignoring case. Software adapters such as `llvmpipe`
    /// and `SwiftShader` are included.
    pub fn adapter(mut self, name: impl Into<String>) -> Self {
        self.adapter = Some(name.into());
        self
    }

    /// Sets the default precision of programs on the device; see [`Precision`]. With [`Precision::F16`],
    /// opening fails if the adapter cannot multiply f16 matrices.
    pub fn precision(mut self, precision: Precision) -> Self {
        self.precision = precision;
        self
    }

    /// Selects kernels by measurement instead of by rule. When a program is compiled, several variants of
    /// each matrix product and of each kernel of attention and its gradient are timed, and the fastest
    /// variant with correct results is used. The choices are stored in `folder`, which is created if
    /// necessary, in a separate file for each combination of adapter, driver, limits and precision. Later
    /// runs read them instead of measuring, and compute the same bits.
    /// [`WgpuDevice::tuning`](crate::WgpuDevice::tuning) returns a report.
    ///
    /// Measuring uses a second device on the same adapter, which allocates memory for the operands of one
    /// kernel at a time. The rule still selects kernels with fewer than about a million multiplications,
    /// attention over block tables, and the gradient of attention with an offset or a length.
    pub fn tuned(mut self, folder: impl Into<PathBuf>) -> Self {
        self.tuning = Some(folder.into());
        self
    }

    /// Treats the device as lost once a wait for a step has taken `limit`. The wait and all later operations
    /// on the device then fail with [`ErrorKind::Lost`](gradloom_core::error::ErrorKind::Lost). Up to four
    /// steps are queued, and a wait for the last of them includes all. By default there is no limit, and a
    /// wait for a device that hangs lasts until its driver gives up.
    ///
    /// ```
    /// # mod gradloom { pub use gradloom_device::*; pub use gradloom_wgpu::*; }
    /// use gradloom::WgpuOptions;
    /// use std::time::Duration;
    ///
    /// let options = WgpuOptions::default().watchdog(Duration::from_secs(60));
    /// ```
    pub fn watchdog(mut self, limit: Duration) -> Self {
        self.watchdog = Some(limit);
        self
    }

    /// Includes software adapters.
    #[doc(hidden)]
    pub fn software(mut self) -> Self {
        self.software = true;
        self
    }
}
