//! The CPU as a device.

use crate::program::CpuBackend;
use gradloom_codegen::cpu::loops::Machine;
use gradloom_codegen::cpu::machine::VectorIsa;
use gradloom_core::error::{Error, ErrorKind, Result};
use gradloom_core::fuse::Fusion;
use gradloom_device::Device;
use gradloom_device::host::InstructionSet;

/// Execution mode of fused loops. Both modes compute the same bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Loops {
    /// Compiled, if this machine and its system support that; otherwise interpreted.
    Native,
    /// Interpreted one instruction at a time, each as a loop over a tile.
    Interpreted,
}

/// Returns the instruction set that fused loops are compiled for on a machine with this instruction set, or
/// `None` if they are interpreted.
pub fn compiled_loops(level: InstructionSet) -> Option<VectorIsa> {
    match level {
        _ if cfg!(target_arch = "wasm32") => Some(VectorIsa::Simd128),
        InstructionSet::Baseline => None,
        InstructionSet::Avx2 => Some(VectorIsa::Avx2),
        InstructionSet::Avx512 | InstructionSet::Avx512Bf16 | InstructionSet::AmxBf16 => {
            Some(VectorIsa::Avx512)
        }
    }
}

/// Checks the environment variable `GRADLOOM_INSTRUCTIONS`, which chooses the instruction set of kernels.
///
/// # Errors
/// Returns an error if it names no instruction set of this machine.
pub fn check_environment() -> Result<()> {
    let help = "unset the variable, or give it one of these names";
    InstructionSet::chosen().map(drop).map_err(|message| Error::new(ErrorKind::Device, message).help(help))
}

/// Returns the machine that fused loops are compiled for.
pub(crate) fn machine(level: InstructionSet, loops: Loops) -> Machine {
    Machine {
        isa: compiled_loops(level).filter(|_| loops == Loops::Native),
        last_level_cache: gradloom_device::host::last_level_cache(),
    }
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
    /// Creates a CPU device with one thread per core available to the process.
    ///
    /// # Panics
    /// Panics if the environment variable `GRADLOOM_INSTRUCTIONS` names no instruction set of this machine.
    fn cpu() -> Self;

    /// Creates a CPU device with `threads` threads. Results do not depend on the number of threads.
    ///
    /// # Errors
    /// Returns an error if `threads` is 0 or greater than 1,024.
    fn cpu_with_threads(threads: usize) -> Result<Self>;

    /// Creates a CPU device with `threads` threads. [`Fusion::Off`] gives each op its own kernel, which is
    /// slow but useful for comparison.
    ///
    /// # Errors
    /// Same as [`CpuDevice::cpu_with_threads`].
    fn cpu_with_fusion(threads: usize, fusion: Fusion) -> Result<Self>;

    /// Creates a CPU device with `threads` threads. With [`Loops::Interpreted`], fused loops are not
    /// compiled; results are the same, but slower to compute.
    ///
    /// # Errors
    /// Same as [`CpuDevice::cpu_with_threads`].
    fn cpu_with_loops(threads: usize, loops: Loops) -> Result<Self>;
}

impl CpuDevice for Device {
    fn cpu() -> Self {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        check_environment().unwrap_or_else(|error| panic!("{error}"));
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

/// Creates a CPU device that uses all of `threads` threads even for steps that are faster on one. Meant for
/// tests.
#[doc(hidden)]
pub fn always_waking(threads: usize) -> Device {
    Device::new(CpuBackend::new(threads, Fusion::On, Loops::Native).always_waking())
}

fn device(threads: usize, fusion: Fusion, loops: Loops) -> Result<Device> {
    if !(1..=1024).contains(&threads) {
        return Err(Error::new(ErrorKind::Device, format!("{threads} threads"))
            .help("give a number from 1 to 1024; the number of cores is usually best"));
    }
    check_environment()?;
    Ok(Device::new(CpuBackend::new(threads, fusion, loops)))
}
