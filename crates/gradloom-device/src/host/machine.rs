//! Detection of the machine and its instruction sets.
//!
//! In: an environment variable. Out: the instruction set that kernels use ([`InstructionSet`]), and a
//! human-readable description ([`Machine`]). Invariant: the machine supports the level that
//! [`InstructionSet::detect`] returns.

use std::fmt;
use std::sync::OnceLock;

/// An instruction set for which variants of kernels are compiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum InstructionSet {
    /// The instruction set that the crate was compiled for: SSE2 on x86-64, NEON on AArch64.
    Baseline,
    /// x86-64 with AVX2 and FMA.
    Avx2,
    /// x86-64 with AVX-512 F, BW, DQ and VL.
    Avx512,
    /// AVX-512 with products of bf16 (AVX512_BF16).
    Avx512Bf16,
    /// As above, with products of bf16 matrices in tile registers (AMX_BF16) that the system lets the process
    /// use.
    AmxBf16,
}

impl InstructionSet {
    /// Returns the level that kernels use: that of [`Self::chosen`], or the widest one that this machine
    /// supports if the choice is an error.
    pub fn detect() -> Self {
        Self::chosen().unwrap_or_else(|_| Self::available().pop().unwrap_or(InstructionSet::Baseline))
    }

    /// Returns the widest level that this machine supports, or the one that the environment variable
    /// `GRADLOOM_INSTRUCTIONS` names (`baseline`, `avx2`, `avx512`, `avx512-bf16` or `amx`), for measurements
    /// of other levels.
    ///
    /// # Errors
    /// Returns a message if the variable names no level that this machine supports.
    pub fn chosen() -> Result<Self, String> {
        static CHOSEN: OnceLock<Result<InstructionSet, String>> = OnceLock::new();
        let choose = || {
            let wanted = std::env::var_os("GRADLOOM_INSTRUCTIONS");
            Self::among(&Self::available(), wanted.as_ref().map(|name| name.to_string_lossy()).as_deref())
        };
        CHOSEN.get_or_init(choose).clone()
    }

    /// Returns the widest of some levels, or the one that is wanted, or a message if it is not among them.
    fn among(levels: &[Self], wanted: Option<&str>) -> Result<Self, String> {
        let Some(wanted) = wanted else {
            return Ok(levels.last().copied().unwrap_or(InstructionSet::Baseline));
        };
        levels.iter().copied().find(|level| level.key() == wanted).ok_or_else(|| {
            let keys: Vec<&str> = levels.iter().map(|level| level.key()).collect();
            format!("GRADLOOM_INSTRUCTIONS is `{wanted}`; this machine has {}", keys.join(", "))
        })
    }

    /// Returns the name in the environment variable of [`Self::chosen`].
    fn key(self) -> &'static str {
        match self {
            InstructionSet::Baseline => "baseline",
            InstructionSet::Avx2 => "avx2",
            InstructionSet::Avx512 => "avx512",
            InstructionSet::Avx512Bf16 => "avx512-bf16",
            InstructionSet::AmxBf16 => "amx",
        }
    }

    /// Returns all levels that this machine supports, narrowest first.
    pub fn available() -> Vec<Self> {
        #[allow(unused_mut)]
        let mut levels = vec![InstructionSet::Baseline];
        #[cfg(target_arch = "x86_64")]
        {
            if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
                levels.push(InstructionSet::Avx2);
                if is_x86_feature_detected!("avx512f")
                    && is_x86_feature_detected!("avx512bw")
                    && is_x86_feature_detected!("avx512dq")
                    && is_x86_feature_detected!("avx512vl")
                {
                    levels.push(InstructionSet::Avx512);
                    if is_x86_feature_detected!("avx512bf16") {
                        levels.push(InstructionSet::Avx512Bf16);
                        if Tiles::detect() == Tiles::Usable {
                            levels.push(InstructionSet::AmxBf16);
                        }
                    }
                }
            }
        }
        levels
    }

    /// Returns the display name.
    pub fn name(self) -> &'static str {
        match self {
            InstructionSet::Baseline if cfg!(target_arch = "x86_64") => "SSE2",
            InstructionSet::Baseline if cfg!(target_arch = "aarch64") => "NEON",
            InstructionSet::Baseline => "baseline",
            InstructionSet::Avx2 => "AVX2",
            InstructionSet::Avx512 => "AVX-512",
            InstructionSet::Avx512Bf16 => "AVX-512 with bf16",
            InstructionSet::AmxBf16 => "AVX-512 with AMX",
        }
    }

    /// Returns a description of how kernels multiply operands that are rounded to bf16.
    pub fn bf16_products(self) -> &'static str {
        match self {
            InstructionSet::AmxBf16 => "bf16 by AMX",
            InstructionSet::Avx512Bf16 => match Tiles::detect() {
                Tiles::Refused => "bf16 by AVX512_BF16; the system does not let this process use AMX",
                _ => "bf16 by AVX512_BF16",
            },
            _ => "bf16 operands, f32 arithmetic",
        }
    }
}

/// Availability of the tile registers of AMX with products of bf16.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    not(all(target_arch = "x86_64", target_os = "linux")),
    allow(dead_code, reason = "tiles are used on Linux alone")
)]
enum Tiles {
    /// The processor has none, or the target is not Linux on x86-64.
    Absent,
    /// The processor has them, but the system does not let this process use them.
    Refused,
    Usable,
}

impl Tiles {
    /// Detects the tile registers, and asks the system to let this process use them: their state is large, so
    /// Linux saves it only for processes that ask. See `Documentation/arch/x86/xstate.rst` in its sources.
    #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
    fn detect() -> Self {
        static DETECTED: OnceLock<Tiles> = OnceLock::new();
        const ARCH_REQ_XCOMP_PERM: libc::c_long = 0x1023;
        const XFEATURE_XTILEDATA: libc::c_long = 18;
        *DETECTED.get_or_init(|| {
            if !has_tiles() {
                return Self::Absent;
            }
            // SAFETY: the call has two numbers as arguments, and changes the process's permissions only.
            let answer =
                unsafe { libc::syscall(libc::SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) };
            if answer == 0 { Self::Usable } else { Self::Refused }
        })
    }

    #[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
    fn detect() -> Self {
        Self::Absent
    }
}

/// Returns `true` if the processor has products of bf16 in eight tiles of 16 rows of 64 bytes. See Intel,
/// "Architecture Instruction Set Extensions Programming Reference", chapter 3.
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
fn has_tiles() -> bool {
    use std::arch::x86_64::{__cpuid, __cpuid_count};
    const AMX_BF16_AND_TILE: u32 = 1 << 22 | 1 << 24;
    if __cpuid(0).eax < 0x1d || __cpuid_count(7, 0).edx & AMX_BF16_AND_TILE != AMX_BF16_AND_TILE {
        return false;
    }
    let palette = __cpuid_count(0x1d, 1);
    (palette.ebx & 0xffff, palette.ebx >> 16, palette.ecx & 0xffff) == (64, 8, 16)
}

/// Description of a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// Model name of the processor, if the system reports it.
    pub model: Option<String>,
    /// Number of hardware threads available to the process, within the limits of its container.
    pub cores: usize,
    /// Instruction set that kernels use.
    pub level: InstructionSet,
}

impl Machine {
    /// Detects the properties of the current machine.
    pub fn detect() -> Self {
        let information = text_of("/proc/cpuinfo").unwrap_or_default();
        Self {
            model: model_name(&information),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            level: InstructionSet::detect(),
        }
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let model = self.model.as_deref().unwrap_or("CPU");
        let plural = if self.cores == 1 { "" } else { "s" };
        write!(f, "{model}, {} core{plural}, {}", self.cores, self.level.name())
    }
}

/// Returns the model name in the text of `/proc/cpuinfo`; Linux on AArch64 reports none.
fn model_name(information: &str) -> Option<String> {
    information.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == "model name" && !value.trim().is_empty()).then(|| value.trim().to_string())
    })
}

/// Returns the total size of main memory and swap in bytes, an upper bound for any program, if the system
/// reports it (Linux). A WebAssembly module has 4 GiB.
pub fn memory() -> Option<u64> {
    if cfg!(target_arch = "wasm32") {
        return Some(1 << 32);
    }
    let text = text_of("/proc/meminfo")?;
    let kilobytes = |name: &str| -> Option<u64> {
        text.lines().find_map(|line| line.strip_prefix(name))?.split_whitespace().next()?.parse().ok()
    };
    kilobytes("MemTotal:")?.checked_add(kilobytes("SwapTotal:").unwrap_or(0))?.checked_mul(1024)
}

/// Returns the size of the largest cache in bytes if the system reports it (Linux), otherwise 32 MiB.
pub fn last_level_cache() -> usize {
    static BYTES: OnceLock<usize> = OnceLock::new();
    *BYTES.get_or_init(|| {
        let of = |level: usize| {
            let path = format!("/sys/devices/system/cpu/cpu0/cache/index{level}/size");
            kilobytes(&text_of(&path)?)?.checked_mul(1024)
        };
        (0..5).filter_map(of).max().unwrap_or(32 << 20)
    })
}

/// Returns the text of a system file; `None` if it cannot be read or the target has no files.
fn text_of(path: &str) -> Option<String> {
    if cfg!(target_family = "wasm") { None } else { std::fs::read_to_string(path).ok() }
}

/// Parses a number of kilobytes such as `32768K`.
fn kilobytes(text: &str) -> Option<usize> {
    text.trim().strip_suffix('K')?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_detected_level_is_the_last_available() {
        let levels = InstructionSet::available();
        assert!(levels.is_sorted() && levels[0] == InstructionSet::Baseline);
        assert_eq!(levels.last().copied(), InstructionSet::among(&levels, None).ok());
    }

    #[test]
    fn a_level_is_chosen_by_its_name() {
        let levels = [InstructionSet::Baseline, InstructionSet::Avx2];
        assert_eq!(InstructionSet::among(&levels, Some("avx2")), Ok(InstructionSet::Avx2));
        assert_eq!(InstructionSet::among(&levels, Some("baseline")), Ok(InstructionSet::Baseline));
        let error = "GRADLOOM_INSTRUCTIONS is `avx512`; this machine has baseline, avx2";
        assert_eq!(InstructionSet::among(&levels, Some("avx512")), Err(error.into()));
    }

    #[test]
    fn a_machine_describes_itself() {
        let text = "processor\t: 0\nmodel name\t: Example 9000 @ 3.0GHz\nflags\t: a b\n";
        assert_eq!(model_name(text).as_deref(), Some("Example 9000 @ 3.0GHz"));
        assert_eq!(model_name("processor : 0\nmodel name :\n"), None);
        let machine = Machine { model: model_name(text), cores: 2, level: InstructionSet::Avx2 };
        assert_eq!(machine.to_string(), "Example 9000 @ 3.0GHz, 2 cores, AVX2");
        assert!(Machine::detect().cores >= 1);
    }
}
