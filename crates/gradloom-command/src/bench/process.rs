//! Memory and age of the process.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

static START: OnceLock<Instant> = OnceLock::new();

/// Notes the start of the process; the first thing that `main` does.
pub fn started() {
    START.get_or_init(Instant::now);
}

/// Returns the time since [`started`].
pub(super) fn age() -> Duration {
    START.get_or_init(Instant::now).elapsed()
}

/// Returns the largest resident memory so far in bytes, where the system tells (Linux).
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
