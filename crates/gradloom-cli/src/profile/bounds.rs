//! The bounds of the machine, measured once.
//!
//! In: a device. Out: its [`Roofline`], from the file `gradloom/roofline.json` in the user's cache folder
//! where it is there for this processor and number of threads. Always holds: a file that is missing, damaged
//! or cannot be written costs a measurement, no more.

use gradloom::Device;
use gradloom::runtime::cpu::Roofline;
use gradloom::runtime::{regular_file, user_cache};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;

/// Rises when the way of measuring changes.
const FORMAT: u32 = 1;
/// Most bytes of the file.
const LARGEST: u64 = 1 << 20;

/// The content of the cache file.
#[derive(Debug, Serialize, Deserialize)]
struct Cache {
    format: u32,
    /// Measured bounds, by processor and number of threads.
    machines: BTreeMap<String, Measured>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Measured {
    flops_per_s: f64,
    /// (working set in bytes, bytes a second).
    bandwidth: Vec<(u64, f64)>,
}

impl Default for Cache {
    fn default() -> Self {
        Self { format: FORMAT, machines: BTreeMap::new() }
    }
}

/// The bounds of a device of the CPU.
pub(super) fn of(device: &Device, remeasure: bool) -> Roofline {
    let file = user_cache::folder().map(|folder| folder.join("roofline.json"));
    kept(file.as_deref(), device, remeasure)
}

fn kept(file: Option<&Path>, device: &Device, remeasure: bool) -> Roofline {
    // More threads than cores do not make the machine faster; but measuring takes memory and time for each.
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = device.threads().min(cores);
    let key = format!("{}, {threads} threads used", device.description());
    let mut cache = file.map(read).unwrap_or_default();
    if let Some(Measured { flops_per_s, bandwidth }) = cache.machines.get(&key).filter(|_| !remeasure) {
        return Roofline { threads, flops: *flops_per_s, bandwidth: bandwidth.clone() };
    }
    let roofline = Roofline::measure(threads);
    let measured = Measured { flops_per_s: roofline.flops, bandwidth: roofline.bandwidth.clone() };
    cache.machines.insert(key, measured);
    if let Some(file) = file {
        // What cannot be kept is measured again.
        let _ = write(file, &cache);
    }
    roofline
}

/// The content of the file, or nothing if it is of no use.
fn read(file: &Path) -> Cache {
    let text = regular_file::read_to_string(file, LARGEST).unwrap_or_default();
    let cache: Cache = serde_json::from_str(&text).unwrap_or_default();
    let positive = |rate: f64| rate.is_finite() && rate > 0.0;
    let sound = |measured: &Measured| {
        positive(measured.flops_per_s)
            && !measured.bandwidth.is_empty()
            && measured.bandwidth.is_sorted_by_key(|(set, _)| *set)
            && measured.bandwidth.iter().all(|(_, rate)| positive(*rate))
    };
    let sound = cache.format == FORMAT && cache.machines.values().all(sound);
    if sound { cache } else { Cache::default() }
}

fn write(file: &Path, cache: &Cache) -> std::io::Result<()> {
    let text = serde_json::to_string_pretty(cache).expect("numbers are plain data") + "\n";
    user_cache::write(file, text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn measured() -> Measured {
        Measured { flops_per_s: 1e11, bandwidth: vec![(1 << 20, 5e10), (1 << 28, 1e10)] }
    }

    #[test]
    fn what_was_written_is_read_and_what_is_damaged_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("deep/er/roofline.json");
        assert!(read(&file).machines.is_empty());
        let mut cache = Cache::default();
        cache.machines.insert("a".into(), measured());
        write(&file, &cache).unwrap();
        assert_eq!(read(&file).machines, cache.machines);
        let text = fs::read_to_string(&file).unwrap();
        for (from, to) in
            [("\"format\": 1", "\"format\": 2"), ("100000000000.0", "-1.0"), ("268435456", "1"), ("}", "")]
        {
            let damaged = text.replace(from, to);
            assert_ne!(damaged, text);
            fs::write(&file, damaged).unwrap();
            assert!(read(&file).machines.is_empty(), "{to}");
        }
        assert_eq!(
            fs::read_dir(file.parent().unwrap()).unwrap().count(),
            1,
            "nothing is left beside the file"
        );
    }
}
