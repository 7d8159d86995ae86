//! Experiments on a WebGPU adapter, timed by its own clock.
//!
//! `cargo bench -p gradloom-wgpu --bench wgpu -- [--adapter NAME] EXPERIMENT ..`
//!
//! - `run FILE.wgsl X,Y,Z BYTES,..`: runs a shader's entry point `main` on buffers of test data, bound as
//!   group 0
//! - `products [FILTER]`: times matrix products with the tiles that the rule selects
//! - `tune [FILTER]`: times matrix products with many tiles and split-K factors
//! - `shader NAME`: prints the shaders of a product
//!
//! Times are medians in microseconds: `device` between timestamps at the start and the end of a pass, `host`
//! for encoding and submitting it, `wall` until it is done.

mod device;
mod matrices;
mod products;
mod shader;

use device::Device;

fn main() {
    let mut arguments: Vec<String> = std::env::args().skip(1).filter(|x| x != "--bench").collect();
    let name = match arguments.iter().position(|x| x == "--adapter") {
        Some(at) => {
            arguments.remove(at);
            arguments.remove(at)
        }
        None => String::new(),
    };
    let Some(device) = Device::open(&name) else {
        println!("no adapter with timestamps whose name contains {name:?}");
        return;
    };
    println!("# {}: {:?}, f16 {}", device.adapter, device.limits, device.f16);
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        [] => products::run(&device, &[], false),
        ["products", ref filter @ ..] => products::run(&device, filter, false),
        ["tune", ref filter @ ..] => products::run(&device, filter, true),
        ["shader", name] => products::print(&device, name),
        ["run", file, workgroups, bytes] => shader::run(&device, file, workgroups, bytes),
        _ => println!("unknown experiment {words:?}: see the first lines of benches/wgpu/main.rs"),
    }
}
