//! Benchmarks of single kernels of the WGSL backend, timed by the device's own clock.
//!
//! ```text
//! cargo bench -p gradloom-wgpu --bench wgpu_kernels -- \
//!     [--adapter NAME] [--memory BYTES] [--invocations N] [--text] [FILTER]
//! ```
//!
//! `--memory` and `--invocations` restrict the adapter's limits, which changes the tiles; `--text` prints the
//! shaders. Each dispatch runs [`REPEATS`] times in a pass between two timestamps. The reported time is the
//! median over [`ROUNDS`] passes, divided by [`REPEATS`].

mod cases;
mod device;

use cases::{Case, cases};
use device::{Device, Options};
use gradloom_codegen::pipeline::{Precision, Target};
use gradloom_codegen::step::Owner;
use gradloom_codegen::wgsl;
use gradloom_core::fuse::fuse;
use gradloom_core::ir::parse;
use gradloom_core::plan::{self, StoreLayout};

/// Number of dispatches between two timestamps.
const REPEATS: u32 = 10;
/// Number of timed passes.
const ROUNDS: usize = 9;

fn main() {
    let mut options = Options::default();
    let (mut filter, mut text) = (String::new(), false);
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().unwrap_or_else(|| panic!("{argument} needs a value"));
        match argument.as_str() {
            "--bench" => {}
            "--adapter" => options.adapter = value(),
            "--memory" => options.memory = Some(value().parse().expect("bytes")),
            "--invocations" => options.invocations = Some(value().parse().expect("a number")),
            "--text" => text = true,
            _ => filter = argument,
        }
    }
    let Some(device) = Device::open(&options) else {
        println!("no adapter with timestamps whose name contains {:?}", options.adapter);
        return;
    };
    println!("# {}: {:?}", device.name, device.limits);
    println!("{:<28} {:<26} {:>9} {:>12} {:>10} {:>9}", "case", "shader", "groups", "us", "GFLOP/s", "GB/s");
    for case in cases().iter().filter(|case| case.name.contains(&filter)) {
        run(&device, case, text);
    }
}

/// Times each shader of a case.
fn run(device: &Device, case: &Case, text: bool) {
    let graph = parse(&format!("graph {{\n{}\n}}", case.lines)).unwrap_or_else(|error| panic!("{error:?}"));
    let mut store = StoreLayout::default();
    store.extend(&graph).expect("a new store takes any graph");
    let target = Target::wgsl(device.limits, Precision::F32);
    let lowered = target.lower(&graph, fuse(&graph, target.fusion).expect("it can be fused"));
    // Buffers do not share memory, so that repeated launches find their operands unchanged.
    let plan = plan::plan(&graph, lowered, &store, None).expect("it can be planned").without_sharing();
    let memory = device.memory(&plan, case.rows);
    let cuts = wgsl::Cuts::default();
    let context = wgsl::Context { plan: &plan, graph: &graph, limits: &device.limits, cuts: &cuts };
    let mut total = 0.0;
    let units = match wgsl::units(&context) {
        Ok(units) => units,
        Err(error) => return println!("{:<28} {error}", case.name),
    };
    for unit in units.iter().filter(|unit| unit.owner != Owner::Guards) {
        for shader in unit.shaders() {
            if text {
                println!("{}", shader.dispatch.source);
            }
            let time = device.time(&memory, shader.operands, shader.dispatch, REPEATS, ROUNDS);
            let groups: u64 = shader.dispatch.workgroups.iter().map(|&n| u64::from(n)).product();
            println!("{:<28} {:<26} {groups:>9} {time:>12.2}", case.name, shader.dispatch.label);
            total += time;
        }
    }
    let rate = |amount: f64| if amount > 0.0 { format!("{:.0}", amount / total / 1e3) } else { "-".into() };
    println!(
        "{:<28} {:<26} {:>9} {total:>12.2} {:>10} {:>9}",
        case.name,
        "all",
        "",
        rate(case.flops),
        rate(case.bytes)
    );
}
