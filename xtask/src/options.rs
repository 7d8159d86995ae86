//! Options of tasks: `--name value`; and the devices that they name.

use gradloom_cpu::CpuDevice as _;
use gradloom_cpu::Loops;
use gradloom_runtime::Device;
use gradloom_wgpu::WgpuDevice as _;

/// Destination of an option's value.
pub(crate) enum Slot<'a> {
    Number(&'a mut u64),
    Text(&'a mut String),
}

/// Reads options into the variables with their names.
///
/// # Errors
/// Returns an error if an option is unknown or has no value, or if its value should be a number and is not.
pub(crate) fn read(arguments: &[String], known: &mut [(&str, Slot<'_>)]) -> Result<(), String> {
    for pair in arguments.chunks(2) {
        let names = || known.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
        let Some(at) = known.iter().position(|(name, _)| *name == pair[0]) else {
            return Err(format!("the option {} is unknown; there are {}", pair[0], names()));
        };
        let value = pair.get(1);
        match &mut known[at].1 {
            Slot::Number(number) => {
                let read = value.and_then(|text| text.parse().ok());
                **number = read.ok_or_else(|| format!("{} needs a number", pair[0]))?;
            }
            Slot::Text(text) => {
                **text = value.ok_or_else(|| format!("{} needs a value", pair[0]))?.clone();
            }
        }
    }
    Ok(())
}

/// Opens the devices of `--device`, with their names: machine code and interpreted loops of `cpu`, or the GPU
/// of `wgpu`.
///
/// # Errors
/// Returns an error if there is no such device.
pub(crate) fn devices(device: &str, adapter: &str) -> Result<Vec<(&'static str, Device)>, String> {
    match device {
        "cpu" => [("machine code", Loops::Native), ("interpreted", Loops::Interpreted)]
            .into_iter()
            .map(|(name, loops)| Ok((name, Device::cpu_with_loops(1, loops).map_err(|e| e.to_string())?)))
            .collect(),
        "wgpu" => Ok(vec![("wgpu", gpu(adapter)?)]),
        other => Err(format!("--device {other}: there are cpu and wgpu")),
    }
}

/// Opens the GPU whose name contains `adapter`, or the best one if that is empty.
///
/// # Errors
/// Returns an error if there is no such GPU.
pub(crate) fn gpu(adapter: &str) -> Result<Device, String> {
    let device = if adapter.is_empty() { Device::wgpu() } else { Device::wgpu_named(adapter) };
    device.map_err(|error| error.to_string())
}
