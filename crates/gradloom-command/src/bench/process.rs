//! Memory and age of the process.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

static START: OnceLock<Instant> = OnceLock::new();

/// Records the start of the process; `main` calls it first.
pub fn started() {
    START.get_or_init(Instant::now);
}

/// Returns the time since [`started`].
pub(super) fn age() -> Duration {
    START.get_or_init(Instant::now).elapsed()
}

/// Returns the peak resident memory in bytes, or `None` on systems other than Linux.
pub(super) fn peak_resident_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kib| kib * 1024)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn linux_tells_the_resident_memory() {
        let before = peak_resident_bytes().unwrap();
        let block = std::hint::black_box(vec![1u8; 64 << 20]);
        assert!(peak_resident_bytes().unwrap() >= before.max(block.len() as u64));
    }
}
