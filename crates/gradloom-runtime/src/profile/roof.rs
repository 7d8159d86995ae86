//! Measures and caches the roofline of a device.
//!
//! In: a device. Out: its [`Roofline`], from the file `gradloom/roofline.json` in the user's cache folder if
//! that contains one for this device and number of threads. Invariant: a file that is missing, damaged or
//! not writable only costs a measurement.

use super::gpu_roof;
use crate::{regular_file, user_cache};
use gradloom_device::Device;
use gradloom_device::host::Roofline;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::path::Path;

/// Version of the file's format; incremented when the measurement changes.
const FORMAT: u64 = 2;
/// Maximum size of the file in bytes.
const LARGEST: u64 = 1 << 20;

/// Choice of the roofline that kernels are compared with.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Roof {
    /// Cached roofline; measured now if none is cached.
    Kept,
    /// Roofline measured now, even if one is cached.
    Measured,
    Given(Roofline),
    Unknown,
}

/// Contents of the file: rooflines by device and number of threads.
type Machines = BTreeMap<String, Roofline>;

/// Returns the roofline of a device, or `None` if it is unknown, as on a GPU without timestamps.
pub(super) fn of(roof: Roof, device: &Device) -> Option<Roofline> {
    let remeasure = match roof {
        Roof::Given(roof) => return Some(roof),
        Roof::Unknown => return None,
        Roof::Kept => false,
        Roof::Measured => true,
    };
    let file = user_cache::folder().map(|folder| folder.join("roofline.json"));
    kept(file.as_deref(), device, remeasure)
}

fn kept(file: Option<&Path>, device: &Device, remeasure: bool) -> Option<Roofline> {
    // Use at most one thread per core: more threads add no speed, but cost memory and time to measure.
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = device.backend().threads().min(cores);
    let precision = device.precision().name();
    let version = env!("CARGO_PKG_VERSION");
    let key = format!("{}, {threads} threads used, {precision}, gradloom {version}", device.description());
    let mut machines = file.map(read).unwrap_or_default();
    if let Some(roofline) = machines.get(&key).filter(|_| !remeasure) {
        return Some(roofline.clone());
    }
    let roofline = if device.is_gpu() { gpu_roof::measure(device).ok()? } else { Roofline::measure(threads) };
    machines.insert(key, roofline.clone());
    if let Some(file) = file {
        // Ignore errors: a roofline that cannot be cached is measured again next time.
        let _ = write(file, &machines);
    }
    Some(roofline)
}

/// Reads the file; returns no rooflines if it cannot be used.
fn read(file: &Path) -> Machines {
    let text = regular_file::read_to_string(file, LARGEST).unwrap_or_default();
    parsed(&text).unwrap_or_default()
}

#[expect(clippy::disallowed_methods, reason = "the file is our own")]
fn parsed(text: &str) -> Option<Machines> {
    let content: Value = serde_json::from_str(text).ok()?;
    let machines = content["machines"].as_object().filter(|_| content["format"] == FORMAT)?;
    let entry = |(name, machine): (&String, &Value)| Some((name.clone(), measured(machine)?));
    machines.iter().map(entry).collect()
}

fn measured(machine: &Value) -> Option<Roofline> {
    let rate = |value: &Value| value.as_f64().filter(|rate| rate.is_finite() && *rate > 0.0);
    let pair = |pair: &Value| Some((pair[0].as_u64()?, rate(&pair[1])?));
    let bandwidth: Vec<(u64, f64)> =
        machine["bandwidth"].as_array()?.iter().map(pair).collect::<Option<_>>()?;
    let sound = !bandwidth.is_empty() && bandwidth.is_sorted_by_key(|(set, _)| *set);
    let flops = rate(&machine["flops_per_s"]).filter(|_| sound)?;
    let products = match &machine["product_flops_per_s"] {
        Value::Null => None,
        value => Some(rate(value)?),
    };
    let threads = usize::try_from(machine["threads"].as_u64()?).ok()?;
    Some(Roofline { threads, flops, bandwidth, products })
}

fn write(file: &Path, machines: &Machines) -> std::io::Result<()> {
    let entry = |(name, roofline): (&String, &Roofline)| {
        let Roofline { threads, flops, bandwidth, products } = roofline;
        let entry = json!({
            "threads": threads,
            "flops_per_s": flops,
            "product_flops_per_s": products,
            "bandwidth": bandwidth,
        });
        (name.clone(), entry)
    };
    let machines: Map<String, Value> = machines.iter().map(entry).collect();
    let content = json!({ "format": FORMAT, "machines": machines });
    user_cache::write(file, format!("{content:#}\n").as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn measured(products: Option<f64>) -> Roofline {
        let bandwidth = vec![(1 << 20, 5e10), (1 << 28, 1e10)];
        Roofline { threads: 3, flops: 1e11, bandwidth, products }
    }

    #[test]
    fn what_was_written_is_read_and_what_is_damaged_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("deep/er/roofline.json");
        assert!(read(&file).is_empty());
        let mut machines = Machines::new();
        machines.insert("a".into(), measured(None));
        machines.insert("b".into(), measured(Some(3e12)));
        write(&file, &machines).unwrap();
        assert_eq!(read(&file), machines);
        let text = fs::read_to_string(&file).unwrap();
        for (from, to) in
            [("\"format\": 2", "\"format\": 1"), ("100000000000.0", "-1.0"), ("268435456", "1"), ("}", "")]
        {
            let damaged = text.replace(from, to);
            assert_ne!(damaged, text);
            fs::write(&file, damaged).unwrap();
            assert!(read(&file).is_empty(), "{to}");
        }
        assert_eq!(
            fs::read_dir(file.parent().unwrap()).unwrap().count(),
            1,
            "nothing is left beside the file"
        );
    }
}
