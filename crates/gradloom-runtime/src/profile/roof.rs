//! What the machine can do, measured once.
//!
//! In: a device. Out: its [`Roofline`], from the file `gradloom/roofline.json` in the user's cache folder
//! where it is there for this processor and number of threads. Always holds: a file that is missing, damaged
//! or cannot be written costs a measurement, no more.

use crate::backend::Backend;
use crate::cpu::Roofline;
use crate::{regular_file, user_cache};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::path::Path;

/// Rises when the way of measuring changes.
const FORMAT: u64 = 1;
/// Most bytes of the file.
const LARGEST: u64 = 1 << 20;

/// What kernels are held against.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Roof {
    /// What was measured once.
    Kept,
    /// What is measured now.
    Measured,
    Given(Roofline),
    Unknown,
}

/// The content of the file: measured bounds, by processor and number of threads.
type Machines = BTreeMap<String, Measured>;

#[derive(Clone, Debug, PartialEq)]
struct Measured {
    flops: f64,
    /// (working set in bytes, bytes a second).
    bandwidth: Vec<(u64, f64)>,
}

/// The bounds of a device, where they are known: those of a processor are measured, and a GPU must not be
/// held against the processor beside it.
pub(super) fn of(roof: Roof, backend: &dyn Backend) -> Option<Roofline> {
    let remeasure = match roof {
        Roof::Given(roof) => return Some(roof),
        Roof::Kept | Roof::Measured if backend.name() == "cpu" => roof == Roof::Measured,
        Roof::Kept | Roof::Measured | Roof::Unknown => return None,
    };
    let file = user_cache::folder().map(|folder| folder.join("roofline.json"));
    Some(kept(file.as_deref(), backend, remeasure))
}

fn kept(file: Option<&Path>, backend: &dyn Backend, remeasure: bool) -> Roofline {
    // More threads than cores do not make the machine faster; but measuring takes memory and time for each.
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = backend.threads().min(cores);
    let key = format!("{}, {threads} threads used", backend.description());
    let mut machines = file.map(read).unwrap_or_default();
    if let Some(Measured { flops, bandwidth }) = machines.get(&key).filter(|_| !remeasure) {
        return Roofline { threads, flops: *flops, bandwidth: bandwidth.clone() };
    }
    let roofline = Roofline::measure(threads);
    machines.insert(key, Measured { flops: roofline.flops, bandwidth: roofline.bandwidth.clone() });
    if let Some(file) = file {
        // What cannot be kept is measured again.
        let _ = write(file, &machines);
    }
    roofline
}

/// The content of the file, or nothing if it is of no use.
fn read(file: &Path) -> Machines {
    let text = regular_file::read_to_string(file, LARGEST).unwrap_or_default();
    parsed(&text).unwrap_or_default()
}

fn parsed(text: &str) -> Option<Machines> {
    let content: Value = serde_json::from_str(text).ok()?;
    let machines = content["machines"].as_object().filter(|_| content["format"] == FORMAT)?;
    let entry = |(name, machine): (&String, &Value)| Some((name.clone(), measured(machine)?));
    machines.iter().map(entry).collect()
}

fn measured(machine: &Value) -> Option<Measured> {
    let rate = |value: &Value| value.as_f64().filter(|rate| rate.is_finite() && *rate > 0.0);
    let pair = |pair: &Value| Some((pair[0].as_u64()?, rate(&pair[1])?));
    let bandwidth: Vec<(u64, f64)> =
        machine["bandwidth"].as_array()?.iter().map(pair).collect::<Option<_>>()?;
    let sound = !bandwidth.is_empty() && bandwidth.is_sorted_by_key(|(set, _)| *set);
    let flops = rate(&machine["flops_per_s"]).filter(|_| sound)?;
    Some(Measured { flops, bandwidth })
}

fn write(file: &Path, machines: &Machines) -> std::io::Result<()> {
    let entry = |(name, Measured { flops, bandwidth }): (&String, &Measured)| {
        (name.clone(), json!({ "flops_per_s": flops, "bandwidth": bandwidth }))
    };
    let machines: Map<String, Value> = machines.iter().map(entry).collect();
    let content = json!({ "format": FORMAT, "machines": machines });
    user_cache::write(file, format!("{content:#}\n").as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn measured() -> Measured {
        Measured { flops: 1e11, bandwidth: vec![(1 << 20, 5e10), (1 << 28, 1e10)] }
    }

    #[test]
    fn what_was_written_is_read_and_what_is_damaged_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("deep/er/roofline.json");
        assert!(read(&file).is_empty());
        let mut machines = Machines::new();
        machines.insert("a".into(), measured());
        write(&file, &machines).unwrap();
        assert_eq!(read(&file), machines);
        let text = fs::read_to_string(&file).unwrap();
        for (from, to) in
            [("\"format\": 1", "\"format\": 2"), ("100000000000.0", "-1.0"), ("268435456", "1"), ("}", "")]
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
