//! Generated matrix products against sums in f64, on an adapter: lavapipe in CI, any adapter elsewhere.
//!
//! Without an adapter, these tests report that and pass, unless `GRADLOOM_NEEDS_ADAPTER` is set.
//! `gradloom-codegen` tests the kernels without an adapter.

#[allow(dead_code)]
#[path = "../benches/wgpu/device.rs"]
mod device;
#[allow(dead_code)]
#[path = "../benches/wgpu/matrices.rs"]
mod matrices;

use device::Device;
use gradloom_codegen::pipeline::Precision;
use gradloom_codegen::schedule::product::{choose, fits};
use gradloom_codegen::wgsl::tuning::Alone;
use gradloom_core::ir::DType;
use gradloom_core::kernel::{CooperativeTile, Method, ProductChoice, Staging, Tile};
use gradloom_testing::adapter;
use matrices::Matrices;
use std::time::Duration;

/// Maximum error, divided by the square root of the number of summands, that rounding explains.
const TOLERANCE: f64 = 1e-5;

fn device() -> Option<Device> {
    let device = Device::open("");
    if adapter::skipped(device.is_none()) { None } else { device }
}

/// Returns the source code of the shaders, for error messages.
fn texts(made: &Alone) -> String {
    made.dispatches.iter().map(|dispatch| dispatch.source.as_str()).collect()
}

/// Runs a product whose results were filled with NaN before, and checks the results.
fn check(device: &Device, shape: &Matrices, choice: &ProductChoice) {
    let operands = shape.operands(device);
    let shaders = shape.shaders(choice, device);
    let prepared = shape
        .prepare(device, &operands, &shaders)
        .unwrap_or_else(|error| panic!("{shape:?} {choice:?}: {error}\n{}", texts(&shaders)));
    let [m, n, _] = shape.extents;
    let bytes = 4 * (shape.batch * m * n) as u64;
    device.queue.write_buffer(&operands.result, 0, &vec![0xff; bytes as usize]);
    device.measure(Duration::ZERO, 1, |pass| prepared.encode(pass));
    let error = shape.error(&operands, &device.read(&operands.result, bytes), usize::MAX);
    assert!(error < TOLERANCE, "{shape:?} {choice:?}: error {error:e}\n{}", texts(&shaders));
}

/// Returns methods for the tests' products. Their operands are exactly representable in `f16`, so cooperative
/// matrices are as accurate as f32.
fn methods(device: &Device) -> Vec<Method> {
    let staged = Tile { m: 16, n: 32, k: 16, thread_m: 4, thread_n: 4, staging: Staging::Workgroup(1) };
    let portable = [
        staged,
        Tile { m: 32, n: 64, k: 8, thread_m: 8, thread_n: 8, staging: Staging::Workgroup(2) },
        Tile { m: 8, thread_m: 2, ..staged },
        Tile { m: 16, n: 16, k: 4, thread_m: 4, thread_n: 4, staging: Staging::Registers },
        Tile { m: 8, n: 32, k: 4, thread_m: 1, thread_n: 8, staging: Staging::Registers },
    ];
    let mut methods = portable.map(Method::Portable).to_vec();
    let cooperative = CooperativeTile { m: 64, n: 64, k: 32, subgroup_m: 32, subgroup_n: 32, buffers: 2 };
    let large = CooperativeTile { m: 128, n: 128, k: 64, subgroup_m: 64, subgroup_n: 32, buffers: 1 };
    let matrices = [cooperative, large].map(Method::Cooperative);
    methods.extend(
        matrices.into_iter().filter(|&method| device.f16 && fits(method, DType::F16, &device.limits)),
    );
    methods
}

#[test]
fn products_of_any_extents_and_layouts_are_right() {
    let Some(device) = device() else { return };
    for extents in [[1, 1, 1], [7, 65, 33], [64, 32, 48], [20, 36, 100], [5, 3, 0], [1, 1000, 7]] {
        for by_columns in [[false, false], [false, true], [true, false], [true, true]] {
            let shape = Matrices::new("shape", 1, extents, by_columns, Precision::F32);
            for method in methods(&device) {
                check(&device, &shape, &ProductChoice { method, parts: 1 });
            }
            for operands in [None, device.f16.then_some(DType::F16)] {
                check(&device, &shape, &choose(&shape.problem(), operands, &device.limits));
            }
        }
    }
}

/// Tests loads of single elements, as on devices that split vectors into scalars, and thin matrices.
#[test]
fn scalar_products_are_right() {
    let Some(mut device) = device() else { return };
    (device.limits.software, device.limits.scalar) = (true, true);
    let extents = [
        [1, 1, 1],
        [17, 2, 3],
        [2, 17, 1],
        [3, 5, 0],
        [1, 300, 20],
        [300, 1, 20],
        [40, 40, 33],
        [200, 130, 128],
    ];
    for (batch, extents) in [1, 3].into_iter().flat_map(|batch| extents.map(|extents| (batch, extents))) {
        for by_columns in [[false, false], [false, true], [true, false], [true, true]] {
            let shape = Matrices::new("shape", batch, extents, by_columns, Precision::F32);
            let choice = choose(&shape.problem(), None, &device.limits);
            assert!(!texts(&shape.shaders(&choice, &device)).contains("vec4"), "{shape:?} {choice:?}");
            check(&device, &shape, &choice);
        }
    }
}

#[test]
fn batches_and_split_sums_are_right() {
    let Some(device) = device() else { return };
    for (batch, extents) in [(3, [17, 12, 70]), (2, [8, 9, 64]), (1, [4, 8, 1000])] {
        let shape = Matrices::new("shape", batch, extents, [true, false], Precision::F32);
        for method in methods(&device) {
            // Some of these sums have fewer than seven tiles along k.
            for parts in [1, 3, 7] {
                check(&device, &shape, &ProductChoice { method, parts });
            }
        }
    }
}
