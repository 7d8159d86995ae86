//! Runs a shader from a file.

use crate::device::Device;
use std::time::Duration;

fn numbers(text: &str) -> Vec<u64> {
    text.split(',').map(|x| x.trim().parse().unwrap_or_else(|_| panic!("{x:?} is no number"))).collect()
}

/// Runs the entry point `main` of a file and prints its times.
pub(crate) fn run(device: &Device, file: &str, workgroups: &str, bytes: &str) {
    let source = std::fs::read_to_string(file).unwrap_or_else(|error| panic!("{file}: {error}"));
    let pipeline = device.pipeline(&source, None).unwrap_or_else(|error| panic!("{file}: {error}"));
    let values = |bytes: u64| -> Vec<u8> {
        (0..bytes.div_ceil(4)).flat_map(|i| ((i % 1021) as f32 / 1021.0).to_le_bytes()).collect()
    };
    let buffers: Vec<wgpu::Buffer> = numbers(bytes).into_iter().map(|n| device.upload(&values(n))).collect();
    let group = device.group(&pipeline.get_bind_group_layout(0), &buffers.iter().collect::<Vec<_>>());
    let mut counts = numbers(workgroups);
    counts.resize(3, 1);
    let timing = device.measure(Duration::from_millis(200), 20, |pass| {
        pass.set_pipeline(&pipeline);
        pass.set_bind_group(0, &group, &[]);
        pass.dispatch_workgroups(counts[0] as u32, counts[1] as u32, counts[2] as u32);
    });
    println!("{file}: device {:.1} host {:.1} wall {:.1}", timing.device, timing.host, timing.wall);
}
