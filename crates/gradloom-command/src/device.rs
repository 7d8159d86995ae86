//! Choice of a device on the command line.

use crate::failure::{Failure, Result};
#[cfg(feature = "wgpu")]
use crate::format::count;
use crate::output::tell;
use crate::train::settings::check_threads;
use crate::world;
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
    /// The CPU
    #[default]
    Cpu,
    /// A GPU, through Vulkan, Metal or Direct3D 12
    Wgpu,
    /// An NVIDIA GPU, through CUDA
    Cuda,
    /// A GPU if there is one, through CUDA if possible, otherwise the CPU
    Auto,
}

/// Type in which programs compute.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Precision {
    /// 32 bits
    #[default]
    F32,
    /// 16 bits between kernels and in products, 32 in sums; on GPUs that support it
    F16,
    /// As f16, but with the range of f32; CUDA, and in products on the CPU
    Bf16,
    /// f32 between kernels, 11 significant bits in products; CUDA only
    Tf32,
    /// Three tf32 products for each, nearly as accurate as f32; CUDA only
    Tf32x3,
}

impl Precision {
    /// Returns the name used on the command line.
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

/// Options of commands that run a program.
#[derive(clap::Args, Clone, Debug, Default)]
pub(crate) struct DeviceArguments {
    /// Device to run on. [default: cpu]
    #[arg(long, value_enum)]
    pub(crate) device: Option<DeviceName>,
    /// Use the GPU whose name contains this, or with --device cuda the GPU of this number; `gradloom devices`
    /// lists them.
    #[arg(long, value_name = "NAME")]
    pub(crate) adapter: Option<String>,
    /// Type of the values that are multiplied and that GPUs keep between kernels; all others are f32. The CPU
    /// has f32 and bf16. [default: f32]
    #[arg(long, value_enum)]
    pub(crate) precision: Option<Precision>,
    /// Measure several kernels for each matrix product and attention on a GPU, and use the fastest. The
    /// choices are kept in the user's cache folder, so that the next run with this flag measures nothing.
    #[arg(long)]
    pub(crate) tune: bool,
    /// Number of CPU threads; the result does not depend on it. [default: one for each core]
    #[arg(long, value_name = "N")]
    pub(crate) threads: Option<usize>,
    /// True for the options of a training run, which stores them.
    #[arg(skip)]
    pub(crate) of_run: bool,
}

impl DeviceArguments {
    /// Opens the device. If only an adapter is named, the device is a GPU.
    ///
    /// # Errors
    /// Returns an error if there is no such device, or it does not support an option.
    pub(crate) fn open(&self) -> Result<Device> {
        check_threads(self.threads)?;
        let target = self.target()?;
        if world::rounds_sums() && !(target == DeviceName::Cuda && self.has_16_bits()) {
            return Err(Failure::usage("--round-sums: sums have 16 bits on CUDA in bf16 or f16 alone")
                .help("leave it out, or use --device cuda --precision bf16"));
        }
        match target {
            DeviceName::Cpu => self.cpu(),
            DeviceName::Wgpu => self.gpu(),
            DeviceName::Cuda => self.cuda(),
            DeviceName::Auto => {
                let gpu =
                    || if self.adapter.is_none() { self.cuda() } else { self.gpu() }.or_else(|_| self.gpu());
                match self.reduced() {
                    None | Some(Precision::Bf16) => gpu().or_else(|_| self.cpu()),
                    // The CPU computes in no other precision, so it is not an alternative.
                    Some(_) => gpu(),
                }
            }
        }
    }

    /// Returns the device to open.
    fn target(&self) -> Result<DeviceName> {
        match (world::gpus(), self.device) {
            (Some(_), None | Some(DeviceName::Cuda | DeviceName::Auto)) => Ok(DeviceName::Cuda),
            (Some(gpus), Some(DeviceName::Cpu | DeviceName::Wgpu)) => {
                let message = format!("--gpus {gpus}: the device is not cuda");
                Err(Failure::usage(message)
                    .help(format!("add --device cuda, or use --ranks {gpus} for processes on the CPU")))
            }
            (None, Some(device)) => Ok(device),
            (None, None) if self.adapter.is_some() => Ok(DeviceName::Wgpu),
            (None, None) => Ok(DeviceName::Cpu),
        }
    }

    fn has_16_bits(&self) -> bool {
        matches!(self.precision, Some(Precision::Bf16 | Precision::F16))
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
        let precision = self.precision.unwrap_or_default();
        if !matches!(precision, Precision::F32 | Precision::Bf16) {
            let message = format!("--precision {}: the CPU computes in f32 or bf16", precision.name());
            return Err(Failure::usage(message).help("use --precision bf16, or a GPU: --device auto"));
        }
        if self.tune && self.device != Some(DeviceName::Auto) {
            return Err(Failure::usage("--tune: the CPU has nothing to choose from").help(
                match self.of_run {
                    true => "leave it out (a run that began with it: --tune=false), or use --device wgpu",
                    false => "leave it out, or use --device wgpu",
                },
            ));
        }
        let device = match self.threads {
            Some(threads) => with_all_threads(Device::cpu_with_threads(threads)?, threads)?,
            None => Device::cpu_with_threads(world::cores())?,
        };
        if precision == Precision::Bf16 && world::is_first() {
            tell!("cpu     {}", gradloom::cpu::bf16_products());
        }
        Ok(device.in_precision(precision.into()))
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
            if world::local_rank() > 0 {
                return Err(Failure::usage(format!(
                    "--adapter {number}: each rank takes the GPU of its number"
                ))
                .help("leave it out; CUDA_VISIBLE_DEVICES chooses GPUs and their order"));
            }
        } else {
            // A launcher may show each rank its own GPU alone.
            let rank = world::local_rank();
            let is_alone = || gradloom::cuda_devices().is_ok_and(|all| all.len() == 1);
            let sees_own = rank > 0 && !world::is_started_by_ranks() && is_alone();
            options = options.index(if sees_own { 0 } else { rank });
        }
        if let Some(precision) = self.reduced() {
            options = options.precision(precision.into());
        }
        if self.tune && self.device != Some(DeviceName::Auto) {
            return Err(Failure::usage("--tune: with --device cuda a rule chooses").help("leave it out"));
        }
        Device::cuda_with(&options).map_err(|error| {
            let others = match world::gpus() {
                Some(gpus) => format!("--ranks {gpus} starts as many processes on the CPU"),
                None => "--device wgpu needs no CUDA, --device cpu no GPU".to_string(),
            };
            Failure::failed(error.message().to_string())
                .help(format!("`gradloom devices` tells what is there; {others}"))
        })
    }

    #[cfg(not(feature = "cuda"))]
    fn cuda(&self) -> Result<Device> {
        let (option, others) = match world::gpus() {
            Some(gpus) => (format!("--gpus {gpus}"), format!("--ranks {gpus} for processes on the CPU")),
            None => ("--device cuda".to_string(), "--device wgpu or cpu".to_string()),
        };
        Err(Failure::usage(format!("{option}: this build of gradloom has no CUDA"))
            .help(format!("install it with cargo's feature `cuda`, or use {others}")))
    }

    #[cfg(not(feature = "wgpu"))]
    fn gpu(&self) -> Result<Device> {
        Err(Failure::usage("--device wgpu: this build of gradloom has no GPUs")
            .help("install it with cargo's feature `wgpu`, or use --device cpu"))
    }
}

/// Rewords the error of a GPU that cannot be opened, naming options instead of functions.
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

/// Returns the device, or an error if it has fewer threads than `--threads` requested.
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

/// Prints the number of kernels measured so far to the standard error if tuning is on.
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

/// Prints nothing, since kernels are not tuned on the CPU.
#[cfg(not(feature = "wgpu"))]
pub(crate) fn report_tuning(_: &Device) {}
