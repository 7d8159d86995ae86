//! Tests memory that is larger than a buffer of the device.

use super::{Model, compiled, data, device, not_webgpu, parameters};
use gradloom::fuse::Fusion;
use gradloom::nn::Linear;
use gradloom::testing::WgpuOverrides;
use gradloom::{Device, ErrorKind, Retention, Session, Train, f32, i32};

/// Returns the device under test, with buffers of at most `buffer_bytes` bytes.
fn small(buffer_bytes: u64) -> Device {
    let name = gradloom_testing::adapter::name();
    let overrides = WgpuOverrides { buffer_bytes: Some(buffer_bytes), ..WgpuOverrides::default() };
    gradloom::testing::wgpu_overriding(&name, overrides, Fusion::SumsApart).unwrap()
}

/// Size in bytes of the model's largest value.
const BYTES: u64 = 1536;

#[test]
fn arena_and_parameters_in_many_buffers_give_the_same_bits() {
    if not_webgpu() {
        return;
    }
    let (mut cut, mut whole) = (compiled(&small(BYTES)), compiled(&device()));
    let plan = cut.plan();
    assert!(plan.totals.step > BYTES && cut.store().bytes() > BYTES, "{:?}", plan.totals);
    // No value spans two buffers.
    for buffer in plan.buffers.iter().filter(|b| b.bytes > 0 && b.region == gradloom::plan::Region::Step) {
        assert_eq!(buffer.offset / BYTES, (buffer.offset + buffer.bytes - 1) / BYTES, "{}", buffer.value);
    }
    let program = cut.program();
    let planned = plan.totals.constants + plan.totals.step + plan.totals.workspace;
    assert_eq!(program.allocated(), planned + program.work().unwrap().extra_bytes);

    let step = |train: &mut Train<Model, 2>, i: usize| {
        let (ids, y) = data(i);
        train.step((&ids, &y)).unwrap()
    };
    let mut losses = Vec::new();
    for i in 0..6 {
        losses.push([&mut cut, &mut whole].map(|train| step(train, i)));
    }
    for [a, b] in &losses {
        assert_eq!(a.loss().unwrap().to_bits(), b.loss().unwrap().to_bits());
    }
    assert_eq!(parameters(&cut), parameters(&whole));

    // Another program, and launches one by one with separate bytes for every value.
    let forward = |train: &Train<Model, 2>| {
        let mut program = train
            .infer([i32("ids", [2])], |model, [ids]| model.inner.forward(model.table.forward(ids)).tanh())
            .unwrap();
        program.run([&[3, 4]]).unwrap()
    };
    assert_eq!(forward(&cut), forward(&whole));
    let (ids, y) = data(6);
    let [a, b] = [&cut, &whole].map(|train| {
        let mut run = train.debug_run((&ids, &y), Retention::EveryValue).unwrap();
        run.run(0..run.plan().launches.len()).unwrap();
        run.output("loss").unwrap().to_f64()
    });
    assert_eq!(a, b);
}

#[test]
fn a_value_larger_than_a_buffer_is_named() {
    if not_webgpu() {
        return;
    }
    let device = small(1024);
    let session = Session::new(Linear::new(4, 4), &device, 1).unwrap();
    let compiled = session.infer([f32("x", [200, 4])], |layer, [x]| layer.forward(x).sum());
    let error = compiled.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Plan, "{error}");
    let text = error.to_string();
    assert!(text.contains("a value takes 3200 bytes, a buffer of the device at most 1024"), "{text}");
    assert!(text.contains("f32[200, 4]") && text.contains("make the batch"), "{text}");
    // The store has not grown, and a smaller batch fits.
    assert!(session.store().entries().is_empty());
    let mut fits = session.infer([f32("x", [20, 4])], |layer, [x]| layer.forward(x).sum()).unwrap();
    assert!(fits.run([&[0.0f32; 80]]).unwrap()[0].is_finite());
}

#[test]
fn a_parameter_larger_than_a_buffer_is_named() {
    if not_webgpu() {
        return;
    }
    let session = Session::new(Linear::new(40, 10), &small(1024), 1).unwrap();
    let compiled = session.infer([f32("x", [2, 40])], |layer, [x]| layer.forward(x));
    let text = compiled.unwrap_err().to_string();
    assert!(text.contains("`weight` takes 1600 bytes, a buffer of the device at most 1024"), "{text}");
    assert!(session.store().entries().is_empty());
}
