//! Enumeration and opening of NVIDIA GPUs.

use super::algorithms::Algorithms;
use super::driver::{Driver, Failure, GpuLink, Properties};
use super::gpu::Gpu;
use super::kept::Kept;
use super::kernels::{Kernels, no_compiler};
use super::nvidia::Nvidia;
use super::options::CudaOptions;
use gradloom_codegen::cuda::nvrtc::Nvrtc;
use gradloom_core::error::{Error, ErrorKind, Result};
use gradloom_device::user_cache;
use std::sync::Arc;

/// Version of the oldest supported driver, that of CUDA 12.
const OLDEST_DRIVER: i32 = 12_000;
/// Oldest compute capability that kernels are compiled for, that of Ampere.
const OLDEST_CAPABILITY: (i32, i32) = (8, 0);

/// Description of an NVIDIA GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CudaReport {
    /// Index of the GPU, for [`CudaOptions::index`].
    pub index: usize,
    /// Model name.
    pub name: String,
    /// Compute capability as (major, minor), such as (9, 0).
    pub capability: (i32, i32),
    /// Size of the GPU's memory in bytes.
    pub memory_bytes: usize,
    /// Number of multiprocessors.
    pub multiprocessors: u32,
    /// CUDA version of the driver as (major, minor), such as (13, 0).
    pub driver: (i32, i32),
    /// Connections to the other GPUs, the fastest first, each with the other's index; those that the driver
    /// does not know are left out.
    pub links: Vec<(usize, GpuLink)>,
}

/// Returns the NVIDIA GPUs of this machine that CUDA can use, in the driver's order; empty if there is no
/// driver.
///
/// # Errors
/// Returns an error if the driver does not initialize, or there are GPUs but no NVRTC. The error contains the
/// remedy.
pub fn cuda_devices() -> Result<Vec<CudaReport>> {
    let Some(driver) = Nvidia::open() else { return Ok(Vec::new()) };
    let driver = driver.map_err(|failure| not_started(&failure))?;
    let mut reports = reports(&driver)?;
    let count = reports.len();
    for report in &mut reports {
        let others = (0..count).filter(|other| *other != report.index);
        // A driver that does not know a connection is no reason to refuse the GPU.
        let link = |other| Some((driver.link(report.index, other).ok()?, other));
        let mut links: Vec<_> = others.filter_map(link).collect();
        links.sort_unstable();
        report.links = links.into_iter().map(|(link, other)| (other, link)).collect();
    }
    if !reports.is_empty() && Nvrtc::open().is_none() {
        return Err(no_compiler());
    }
    Ok(reports)
}

fn reports(driver: &dyn Driver) -> Result<Vec<CudaReport>> {
    let asked = |failure: Failure| not_started(&failure);
    let version = driver.version().map_err(asked)?;
    let count = driver.device_count().map_err(asked)?;
    let report = |index: usize| {
        let Properties { name, capability, bytes, multiprocessors } =
            driver.properties(index).map_err(asked)?;
        let version = (version / 1000, version % 1000 / 10);
        let (memory_bytes, links) = (bytes, Vec::new());
        Ok(CudaReport { index, name, capability, memory_bytes, multiprocessors, driver: version, links })
    };
    (0..count).map(report).collect()
}

fn not_started(failure: &Failure) -> Error {
    let help = match failure.code {
        100 => "the driver finds no GPU: `nvidia-smi` and CUDA_VISIBLE_DEVICES tell more",
        803 | 804 | 999 => {
            "the driver's library and its kernel module do not suit each other: restart the machine, or \
                            install the driver anew"
        }
        _ => "`nvidia-smi` tells more",
    };
    Error::new(ErrorKind::Device, format!("NVIDIA's driver does not start: {failure}")).help(help)
}

/// Opens the GPU selected by the options.
///
/// # Errors
/// Returns an error if there is no driver or no compiler, the driver is too old, or the GPU does not exist,
/// is too old or cannot be opened.
pub(super) fn open(options: &CudaOptions) -> Result<Gpu> {
    let driver: Arc<dyn Driver> = match &options.overrides.driver {
        Some(driver) => Arc::clone(driver),
        None => {
            let driver = Nvidia::open().ok_or_else(|| {
                Error::new(ErrorKind::Device, "there is no NVIDIA driver on this machine").help(
                    "install NVIDIA's driver for a GPU of theirs, or use `Device::wgpu()` or `Device::cpu()`; \
                     `Device::auto()` takes what there is",
                )
            })?;
            Arc::new(driver.map_err(|failure| not_started(&failure))?)
        }
    };
    let reports = reports(&*driver)?;
    let Some(report) = reports.get(options.index) else {
        let message = format!("there is no NVIDIA GPU {}: there are {}", options.index, reports.len());
        return Err(Error::new(ErrorKind::Device, message)
            .help("they are numbered from 0; CUDA_VISIBLE_DEVICES may hide some"));
    };
    let (major, minor) = report.driver;
    if major * 1000 + minor * 10 < OLDEST_DRIVER {
        let message = format!("NVIDIA's driver is of CUDA {major}.{minor}, which is too old");
        return Err(Error::new(ErrorKind::Device, message).help("install a driver of CUDA 12 or newer"));
    }
    if report.capability < OLDEST_CAPABILITY {
        let (major, minor) = report.capability;
        let message = format!("{} has compute capability {major}.{minor}, which is too old", report.name);
        return Err(Error::new(ErrorKind::Device, message)
            .help("8.0 (Ampere) is the oldest that works; `Device::wgpu()` can use older ones"));
    }
    let known = || user_cache::folder().map(|folder| folder.join("cubins"));
    let folder = options.overrides.cache.clone().or_else(known).filter(|_| !options.overrides.no_cache);
    let kept = Kept { folder };
    let kernels = Kernels::new(kept.clone(), options.overrides.compiler.clone());
    // Check here, so that `Device::auto` uses another GPU if the compiler is missing.
    kernels.check_compiler()?;
    Gpu::open(driver, options.index, kernels, Algorithms::new(kept), options.watchdog)
}
