//! Choosing a device on the command line.

use crate::failure::{Failure, Result};
#[cfg(feature = "wgpu")]
use crate::format::count;
#[cfg(feature = "wgpu")]
use crate::output::tell;
use crate::train::settings::check_threads;
use gradloom::CpuDevice as _;
#[cfg(feature = "cuda")]
use gradloom::CudaDevice as _;
#[cfg(feature = "cuda")]
use gradloom::CudaOptions;
use gradloom::Device;
#[cfg(feature = "wgpu")]
use gradloom::WgpuDevice as _;
#[cfg(feature = "wgpu")]
use gradloom::WgpuOptions;
use serde::{Deserialize, Serialize};

/// Device that a program runs on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum DeviceName {
    /// The processor
    #[default]
    Cpu,
    /// A GPU, through Vulkan, Metal or Direct3D 12
    Wgpu,
    /// An NVIDIA GPU, through CUDA
    Cuda,
    /// A GPU if there is one, through CUDA if that can be, otherwise the processor
    Auto,
}

/// Type that programs compute in on GPUs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Precision {
    /// 32 bits
    #[default]
    F32,
    /// 16 bits between kernels and in products, sums in 32: on GPUs that have them
    F16,
    /// 16 bits with the range of f32, likewise: with CUDA
    Bf16,
    /// f32 between kernels, 11 of its bits in products: with CUDA
    Tf32,
    /// The same thrice for each product, nearly as exact as f32: with CUDA
    Tf32x3,
}

impl Precision {
    /// Returns the name on the command line.
    pub(crate) fn name(self) -> &'static str {
        gradloom::Precision::from(self).name()
    }
}

impl From<Precision> for gradloom::Precision {
    fn from(precision: Precision) -> Self {
        match precision {
            Precision::F32 => Self::F32,
            Precision::F16 => Self::F16,
            Precision::Bf16 => Self::Bf16,
            Precision::Tf32 => Self::Tf32,
            Precision::Tf32x3 => Self::Tf32x3,
        }
    }
}

/// The flags of commands that run something.
#[derive(clap::Args, Clone, Debug, Default)]
pub(crate) struct DeviceArguments {
    /// Where it runs. [default: cpu]
    #[arg(long, value_enum)]
    pub(crate) device: Option<DeviceName>,
    /// Take the GPU whose name contains this, with --device cuda that of this number; `gradloom devices`
    /// lists them.
    #[arg(long, value_name = "NAME")]
    pub(crate) adapter: Option<String>,
    /// Type of what GPUs multiply and keep between kernels; the rest is f32 in either case. [default: f32]
    #[arg(long, value_enum)]
    pub(crate) precision: Option<Precision>,
    /// Measure a few ways to compute each of a GPU's matrix products and kernels of attention, and take the
    /// fastest; they are kept in the user's cache folder, so that the next run with this flag measures
    /// nothing.
    #[arg(long)]
    pub(crate) tune: bool,
    /// CPU threads; the result does not depend on it. [default: one for each core]
    #[arg(long, value_name = "N")]
    pub(crate) threads: Option<usize>,
    /// Set for the flags of a run, which keeps them.
    #[arg(skip)]
    pub(crate) of_run: bool,
}

impl DeviceArguments {
    /// Opens the device. An adapter that is named is a GPU.
    pub(crate) fn open(&self) -> Result<Device> {
        check_threads(self.threads)?;
        let target =
            self.device.unwrap_or(if self.adapter.is_some() { DeviceName::Wgpu } else { DeviceName::Cpu });
        match target {
            DeviceName::Cpu => self.cpu(),
            DeviceName::Wgpu => self.gpu(),
            DeviceName::Cuda => self.cuda(),
            DeviceName::Auto => {
                let gpu =
                    || if self.adapter.is_none() { self.cuda() } else { self.gpu() }.or_else(|_| self.gpu());
                // A processor does not do what was asked for.
                if self.reduced().is_some() { gpu() } else { gpu().or_else(|_| self.cpu()) }
            }
        }
    }

    /// Returns the precision, if it is not f32.
    fn reduced(&self) -> Option<Precision> {
        self.precision.filter(|precision| *precision != Precision::F32)
    }

    fn cpu(&self) -> Result<Device> {
        if self.device == Some(DeviceName::Cpu) && self.adapter.is_some() {
            return Err(
                Failure::usage("--adapter: the CPU has none").help("leave it out, or use --device wgpu")
            );
        }
        if let Some(precision) = self.reduced() {
            let message = format!("--precision {}: the CPU multiplies in f32", precision.name());
            return Err(Failure::usage(message).help("use --precision f32, or a GPU: --device auto"));
        }
        if self.tune && self.device != Some(DeviceName::Auto) {
            return Err(Failure::usage("--tune: the CPU has nothing to choose from").help(
                match self.of_run {
                    true => "leave it out (a run that began with it: --tune=false), or use --device wgpu",
                    false => "leave it out, or use --device wgpu",
                },
            ));
        }
        Ok(match self.threads {
            Some(threads) => with_all_threads(Device::cpu_with_threads(threads)?, threads)?,
            None => Device::cpu(),
        })
    }

    #[cfg(feature = "wgpu")]
    fn gpu(&self) -> Result<Device> {
        let mut options = WgpuOptions::default();
        if let Some(name) = &self.adapter {
            options = options.adapter(name);
        }
        match self.reduced() {
            None => {}
            Some(Precision::F16) => options = options.precision(gradloom::Precision::F16),
            Some(precision) => {
                let message = format!("--precision {}: WebGPU has no such type", precision.name());
                return Err(Failure::usage(message).help("use --precision f16, or --device cuda"));
            }
        }
        if self.tune {
            let folder = gradloom::runtime::user_cache::folder().ok_or_else(|| {
                Failure::usage("--tune: this user has no cache folder to keep the choices in")
                    .help("set XDG_CACHE_HOME to a folder, or leave it out")
            })?;
            options = options.tuned(folder.join("tuning"));
        }
        Device::wgpu_with(&options).map_err(|error| in_our_words(&error))
    }

    #[cfg(feature = "cuda")]
    fn cuda(&self) -> Result<Device> {
        let mut options = CudaOptions::default();
        if let Some(number) = &self.adapter {
            let wrong = || {
                Failure::usage(format!("--adapter {number}: with --device cuda it is a number, from 0"))
                    .help("`gradloom devices` lists them")
            };
            options = options.index(number.parse().map_err(|_| wrong())?);
        }
        if let Some(precision) = self.reduced() {
            options = options.precision(precision.into());
        }
        if self.tune && self.device == Some(DeviceName::Cuda) {
            return Err(Failure::usage("--tune: with --device cuda a rule chooses").help("leave it out"));
        }
        Device::cuda_with(&options).map_err(|error| {
            Failure::failed(error.message().to_string()).help(
                "`gradloom devices` tells what is there; --device wgpu needs no CUDA, --device cpu no GPU",
            )
        })
    }

    #[cfg(not(feature = "cuda"))]
    fn cuda(&self) -> Result<Device> {
        Err(Failure::usage("--device cuda: this build of gradloom has no CUDA")
            .help("install it with cargo's feature `cuda`, or use --device wgpu or cpu"))
    }

    #[cfg(not(feature = "wgpu"))]
    fn gpu(&self) -> Result<Device> {
        Err(Failure::usage("--device wgpu: this build of gradloom has no GPUs")
            .help("install it with cargo's feature `wgpu`, or use --device cpu"))
    }
}

/// Returns the error of a GPU that could not be had, with flags instead of functions.
#[cfg(feature = "wgpu")]
fn in_our_words(error: &gradloom::Error) -> Failure {
    let notes: Vec<&str> = error.notes().collect();
    let notes = if notes.is_empty() { String::new() } else { format!(" ({})", notes.join("; ")) };
    let software = gradloom::adapters().into_iter().find(|gpu| gpu.kind == "software");
    let name = software.and_then(|gpu| gpu.name.split(' ').next().map(str::to_string));
    let try_it = name.map(|name| format!("; --adapter {name} computes on the CPU, to try"));
    Failure::failed(format!("{}{notes}", error.message())).help(format!(
        "`gradloom devices` lists what each adapter offers; --device cpu is fast everywhere{}",
        try_it.unwrap_or_default()
    ))
}

/// Returns the device, if it got all threads that were asked for by number: such a caller counts on them.
fn with_all_threads(device: Device, wanted: usize) -> Result<Device> {
    let started = device.threads();
    if started >= wanted {
        return Ok(device);
    }
    let message = format!("--threads {wanted}: the system lets this process start {started} of them");
    Err(Failure::failed(message).help(format!(
        "give --threads {started} or fewer, or raise the limit of processes (ulimit -u) or of memory \
         (ulimit -v)"
    )))
}

/// Tells on the standard error what measuring came to so far, if anything was to be measured.
#[cfg(feature = "wgpu")]
pub(crate) fn report_tuning(device: &Device) {
    let Some(tuning) = device.tuning() else { return };
    for note in &tuning.notes {
        tell!("warning: {note}");
    }
    let (measured, read) = (count(tuning.measured, "kernel"), count(tuning.read, "kernel"));
    tell!(
        "tuned   {measured} measured in {:.1} s, {read} read from {}",
        tuning.took.as_secs_f64(),
        tuning.file.display()
    );
}

/// Prints nothing: kernels are not measured on the CPU.
#[cfg(not(feature = "wgpu"))]
pub(crate) fn report_tuning(_: &Device) {}
