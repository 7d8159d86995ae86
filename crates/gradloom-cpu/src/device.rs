//! The CPU as a device.

use crate::program::CpuBackend;
use gradloom_core::error::{Error, ErrorKind, Result};
use gradloom_core::fuse::Fusion;
use gradloom_device::Device;
use gradloom_device::host::InstructionSet;

/// The way in which fused loops run. Both ways give the same bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Loops {
    /// As machine code of their own, where this machine and its system allow that; otherwise interpreted.
    Native,
    /// Instruction by instruction, each a loop over a tile.
    Interpreted,
}

/// Returns whether fused loops become code of their own on such a machine: machine code, or WebAssembly.
pub fn compiles_loops(level: InstructionSet) -> bool {
    level == InstructionSet::Avx512 || cfg!(target_arch = "wasm32")
}

/// Constructors of [`Device`] for the CPU.
///
/// ```
/// use gradloom_cpu::CpuDevice;
/// use gradloom_device::Device;
///
/// assert_eq!(Device::cpu_with_threads(2)?.threads(), 2);
/// # Ok::<(), gradloom_core::error::Error>(())
/// ```
pub trait CpuDevice: Sized {
    /// The CPU, with a thread for each core that the process may use.
    fn cpu() -> Self;

    /// The CPU with a given number of threads, at least 1. Results do not depend on it.
    ///
    /// # Errors
    /// When `threads` is 0 or larger than 1,024.
    fn cpu_with_threads(threads: usize) -> Result<Self>;

    /// The CPU with a given number of threads and, with [`Fusion::Off`], a kernel for each op: slow, to
    /// compare with.
    ///
    /// # Errors
    /// As [`CpuDevice::cpu_with_threads`].
    fn cpu_with_fusion(threads: usize, fusion: Fusion) -> Result<Self>;

    /// The CPU with a given number of threads and, with [`Loops::Interpreted`], no machine code of its own:
    /// the same results, slower.
    ///
    /// # Errors
    /// As [`CpuDevice::cpu_with_threads`].
    fn cpu_with_loops(threads: usize, loops: Loops) -> Result<Self>;
}

impl CpuDevice for Device {
    fn cpu() -> Self {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        Self::new(CpuBackend::new(threads, Fusion::On, Loops::Native))
    }

    fn cpu_with_threads(threads: usize) -> Result<Self> {
        device(threads, Fusion::On, Loops::Native)
    }

    fn cpu_with_fusion(threads: usize, fusion: Fusion) -> Result<Self> {
        device(threads, fusion, Loops::Native)
    }

    fn cpu_with_loops(threads: usize, loops: Loops) -> Result<Self> {
        device(threads, Fusion::On, loops)
    }
}

fn device(threads: usize, fusion: Fusion, loops: Loops) -> Result<Device> {
    if !(1..=1024).contains(&threads) {
        return Err(Error::new(ErrorKind::Device, format!("{threads} threads"))
            .help("give a number from 1 to 1024; the number of cores is usually best"));
    }
    Ok(Device::new(CpuBackend::new(threads, fusion, loops)))
}
