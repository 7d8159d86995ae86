//! Choosing a device on the command line.

use crate::failure::{Failure, Result};
use crate::train::settings::check_threads;
use gradloom::Device;
use serde::{Deserialize, Serialize};

/// Where a program runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Target {
    /// The processor
    #[default]
    Cpu,
    /// A GPU, through Vulkan, Metal or Direct3D 12
    Wgpu,
    /// A GPU if there is one, otherwise the processor
    Auto,
}

/// The flags of commands that run something.
#[derive(clap::Args, Clone, Debug, Default)]
pub(crate) struct DeviceArguments {
    /// Where it runs. [default: cpu]
    #[arg(long, value_enum)]
    pub(crate) device: Option<Target>,
    /// Take the GPU whose name contains this; `gradloom devices` lists them.
    #[arg(long, value_name = "NAME")]
    pub(crate) adapter: Option<String>,
    /// CPU threads; the result does not depend on it. [default: one for each core]
    #[arg(long, value_name = "N")]
    pub(crate) threads: Option<usize>,
}

impl DeviceArguments {
    /// Opens the device.
    pub(crate) fn open(&self) -> Result<Device> {
        open(self.device, self.adapter.as_deref(), self.threads)
    }
}

/// Opens a device. An adapter that is named is a GPU.
pub(crate) fn open(target: Option<Target>, adapter: Option<&str>, threads: Option<usize>) -> Result<Device> {
    check_threads(threads)?;
    let target = target.unwrap_or(if adapter.is_some() { Target::Wgpu } else { Target::Cpu });
    match (target, adapter) {
        (Target::Cpu, Some(_)) => {
            Err(Failure::usage("--adapter: the CPU has none").help("leave it out, or use --device wgpu"))
        }
        (Target::Cpu, None) => cpu(threads),
        (Target::Wgpu, adapter) => gpu(adapter),
        (Target::Auto, adapter) => gpu(adapter).or_else(|_| cpu(threads)),
    }
}

fn cpu(threads: Option<usize>) -> Result<Device> {
    Ok(match threads {
        Some(threads) => Device::cpu_with_threads(threads)?,
        None => Device::cpu(),
    })
}

#[cfg(feature = "wgpu")]
fn gpu(adapter: Option<&str>) -> Result<Device> {
    Ok(match adapter {
        Some(name) => Device::wgpu_named(name)?,
        None => Device::wgpu()?,
    })
}

#[cfg(not(feature = "wgpu"))]
fn gpu(_: Option<&str>) -> Result<Device> {
    Err(Failure::usage("--device wgpu: this build of gradloom has no GPUs")
        .help("install it with `--features wgpu`, or use --device cpu"))
}
