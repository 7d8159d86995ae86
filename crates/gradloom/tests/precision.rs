//! Tests the precision of a trainer, and the loss scale that f16 needs.

use gradloom::prelude::*;
use gradloom::runtime::Limits;
use gradloom::runtime::pipeline::Target;
use gradloom::{ErrorKind, Step};
use gradloom_cpu::always_waking;

#[derive(Module)]
struct Net {
    first: Linear,
    norm: BatchNorm,
    last: Linear,
}

/// Compiles a training program with a precision for a device.
fn net(precision: Precision, device: &Device, micro_batches: usize) -> Train<Net, 2> {
    let net = Net { first: Linear::new(6, 16), norm: BatchNorm::new(16), last: Linear::new(16, 3) };
    Trainer::new(net)
        .inputs([f32("x", [8, 6]), i32("class", [8])])
        .loss(|net, [x, class]| {
            net.last.forward(net.norm.forward(net.first.forward(x)).tanh()).cross_entropy(class)
        })
        .optimizer(AdamW::new(1e-2))
        .clip_norm(0.5)
        .accumulate(micro_batches)
        .precision(precision)
        .compile(device)
        .unwrap_or_else(|error| panic!("{error}"))
}

fn losses(train: &mut Train<Net, 2>, rows: usize) -> Vec<f32> {
    let x: Vec<f32> = (0..rows * 6).map(|i| ((i * 37 % 101) as f32 - 50.0) / 40.0).collect();
    let class: Vec<i32> = (0..rows as i32).map(|i| i * i % 3).collect();
    (0..20).map(|_| train.step((&x, &class)).unwrap().loss().unwrap()).collect()
}

fn bits(train: &Train<impl Module, 2>) -> Vec<(String, Vec<u8>)> {
    let store = train.store();
    let names = store.entries().into_iter().map(|entry| entry.name);
    let names = names.filter(|name| !name.starts_with("optim.loss_scale"));
    names.map(|name| (name.clone(), store.read(&name).unwrap())).collect()
}

/// Returns a simulated GPU that lacks f16 and bf16, so that it computes in f32 instead.
fn without_16_bits() -> Device {
    gradloom_grid::device(Target::wgsl(Limits::portable(), Precision::F32))
}

#[test]
fn a_gpu_without_the_type_computes_in_f32_and_a_power_of_two_rounds_nothing() {
    for micro_batches in [1, 2] {
        let train = |precision| {
            let mut train = net(precision, &without_16_bits(), micro_batches);
            let losses = losses(&mut train, 8 * micro_batches);
            (losses, bits(&train), train.loss_scale().unwrap())
        };
        let (losses, states, scale) = train(Precision::F32);
        assert_eq!(scale, None);
        assert_eq!(train(Precision::Bf16), (losses.clone(), states.clone(), None));
        assert_eq!(train(Precision::F16), (losses, states, Some(1024.0)));
    }
}

#[test]
fn a_cpu_trains_in_bf16_with_the_same_bits_on_any_number_of_threads() {
    for micro_batches in [1, 2] {
        let train = |precision, threads| {
            let mut train = net(precision, &always_waking(threads), micro_batches);
            (losses(&mut train, 8 * micro_batches), bits(&train))
        };
        let (whole, rounded) = (train(Precision::F32, 1), train(Precision::Bf16, 1));
        assert_ne!(whole.1, rounded.1, "nothing was rounded");
        for (whole, rounded) in whole.0.iter().zip(&rounded.0) {
            assert!((whole - rounded).abs() < 0.02 * whole, "{rounded} in bf16, {whole} in f32");
        }
        for threads in [2, 3, 8, 16] {
            assert!(train(Precision::Bf16, threads) == rounded, "other bits on {threads} threads");
        }
    }
}

#[test]
fn a_cpu_refuses_what_it_does_not_compute_in() {
    for precision in [Precision::F16, Precision::Tf32, Precision::Tf32x3] {
        for device in [Device::cpu(), Device::null()] {
            let trainer = Trainer::new(Linear::new(3, 1))
                .inputs([f32("x", [8, 3])])
                .loss(|layer, [x]| layer.forward(x).square().mean())
                .optimizer(Sgd::new(0.1))
                .precision(precision);
            let error = trainer.compile(&device).unwrap_err();
            assert!(matches!(error.kind(), ErrorKind::Device), "{error}");
            assert_eq!(error.message(), format!("the CPU does not compute in {}", precision.name()));
            assert!(error.remedies().any(|help| help.contains("Precision::Bf16")), "{error}");
        }
    }
}

#[test]
fn what_is_compiled_later_computes_in_the_precision_of_the_trainer() {
    let device = Device::cpu();
    let train = net(Precision::Bf16, &device, 1);
    assert_eq!((device.precision(), train.session().device().precision()), (Precision::F32, Precision::Bf16));
}

/// Returns the training of a product. An intermediate gradient is infinite if `scale * before` is; the final
/// one is not.
fn product(precision: Precision, device: &Device) -> Train<(Param,), 2> {
    Trainer::new((Param::new([4], Init::Ones),))
        .inputs([f32("after", [4]), f32("before", [4])])
        .loss(|(w,), [after, before]| ((w.tensor() * after) * before).sum())
        .optimizer(AdamW::new(0.1))
        .precision(precision)
        .compile(device)
        .unwrap_or_else(|error| panic!("{error}"))
}

fn step(train: &mut Train<(Param,), 2>, before: f32) -> Step {
    train.step([&[1e-30f32; 4], &[before; 4]]).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn a_step_that_overflows_changes_nothing_but_the_scale() {
    let mut train = product(Precision::F16, &without_16_bits());
    assert!(step(&mut train, 1e30).is_applied().unwrap());
    let before = bits(&train);
    for scale in [512.0, 256.0] {
        let step = step(&mut train, 1e36);
        assert!(!step.is_applied().unwrap());
        assert!(step.loss().unwrap() > 3e6);
        assert_eq!(bits(&train), before);
        assert_eq!(train.loss_scale().unwrap(), Some(scale));
    }
    assert_eq!(train.applied_steps().unwrap(), 1);
    assert!(step(&mut train, 1e36).is_applied().unwrap());
    assert_eq!((train.applied_steps().unwrap(), train.loss_scale().unwrap()), (2, Some(256.0)));
    train.reset_optimizer().unwrap();
    assert_eq!(train.loss_scale().unwrap(), Some(1024.0));
}

#[test]
fn an_overflow_that_no_scale_mends_is_an_error() {
    let mut train = product(Precision::F16, &without_16_bits());
    let too_large = [f32::INFINITY; 4];
    let small = [0.0f32; 4];
    // The loss is NaN in every step, which is an error at any scale.
    let error = train.step([&small, &too_large]).unwrap().loss().unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::NotFinite { .. }), "{error}");
    assert_eq!(train.loss_scale().unwrap(), Some(1024.0));

    let step = |train: &mut Train<(Param,), 2>| {
        let (after, before) = ([1e-38f32; 4], [3e38f32; 4]);
        train.step([&after, &before]).unwrap().is_applied()
    };
    let before = bits(&train);
    for skipped in 0..10 {
        assert!(!step(&mut train).unwrap(), "skipped {skipped}");
    }
    assert_eq!(train.loss_scale().unwrap(), Some(1.0));
    assert_eq!(bits(&train), before);
    assert!(step(&mut train).unwrap(), "3e38 is an f32");

    // The norm of these gradients is infinite at any scale.
    let error = train.step([&[1e20f32; 4], &[1.0; 4]]).unwrap().loss().unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::NotFinite { .. }), "{error}");
    assert!(error.to_string().contains("gradient norm"), "{error}");
    assert_eq!(train.loss_scale().unwrap(), Some(1.0));
}

#[test]
fn the_scale_doubles_after_2000_steps_without_overflow() {
    let mut train = product(Precision::F16, &without_16_bits());
    for _ in 0..1999 {
        step(&mut train, 1e30);
    }
    assert_eq!(train.loss_scale().unwrap(), Some(1024.0));
    step(&mut train, 1e30);
    assert_eq!(train.loss_scale().unwrap(), Some(2048.0));
    for _ in 0..2000 {
        step(&mut train, 1e30);
    }
    assert_eq!(train.loss_scale().unwrap(), Some(4096.0));
}

/// Values between kernels have 16 bits only if the device supports f16.
#[test]
fn a_plan_for_a_gpu_with_f16_has_narrow_values() {
    let narrow = |f16: bool, precision: Precision| {
        let limits = Limits { f16, ..Limits::portable() };
        let device = Device::null_for(Target::wgsl(limits, Precision::F32));
        let train = net(precision, &device, 1);
        train.plan().buffers.iter().filter(|buffer| buffer.ty.dtype == DType::F16).count()
    };
    assert!(narrow(true, Precision::F16) > 3);
    for (f16, precision) in
        [(true, Precision::F32), (true, Precision::Bf16), (false, Precision::F32), (false, Precision::F16)]
    {
        assert_eq!(narrow(f16, precision), 0, "{precision:?}, f16 in shaders: {f16}");
    }
}

/// CUDA also supports bf16, which has the range of f32, so that the loss is not scaled.
#[test]
fn a_plan_for_cuda_has_values_of_the_precision() {
    let narrow = |precision: Precision, dtype: DType| {
        let device = Device::null_for(Target::cuda(Limits::cuda(), Precision::F32));
        let train = net(precision, &device, 1);
        let mut states = train.store().entries().into_iter();
        let scales = states.any(|entry| entry.name.starts_with("optim.loss_scale"));
        assert_eq!(scales, precision == Precision::F16);
        train.plan().buffers.iter().filter(|buffer| buffer.ty.dtype == dtype).count()
    };
    for (precision, own, other) in
        [(Precision::F16, DType::F16, DType::BF16), (Precision::Bf16, DType::BF16, DType::F16)]
    {
        assert!(narrow(precision, own) > 3, "{precision:?}");
        assert_eq!(narrow(precision, other), 0, "{precision:?}");
    }
    for precision in [Precision::Tf32, Precision::Tf32x3] {
        assert_eq!(narrow(precision, DType::F16) + narrow(precision, DType::BF16), 0, "{precision:?}");
    }
}

/// On an adapter with f16 values between kernels, gradients overflow above 65,504.
#[cfg(feature = "wgpu")]
#[test]
fn gradients_that_f16_does_not_have_are_skipped_on_a_gpu() {
    use gradloom::WgpuOptions;
    if gradloom_testing::adapter::skipped(gradloom::adapters().is_empty()) {
        return;
    }
    let options = WgpuOptions::default().adapter(gradloom_testing::adapter::name()).software();
    let device = match gradloom_testing::adapter::is_cuda() {
        true => Device::cuda(),
        false => Device::wgpu_with(&options),
    };
    let device = device.unwrap_or_else(|error| panic!("{error}"));
    let mut train = Trainer::new([Linear::new(24, 16), Linear::new(16, 16)])
        .inputs([f32("x", [32, 24]), f32("factor", [])])
        .loss(|[first, last], [x, factor]| {
            let hidden = first.forward(x).tanh();
            (last.forward(hidden).square().mean()) * factor
        })
        .optimizer(Sgd::new(1e-6))
        .precision(Precision::F16)
        .compile(&device)
        .unwrap_or_else(|error| panic!("{error}"));
    let x: Vec<f32> = (0..32 * 24).map(|i| ((i * 37 % 101) as f32 - 50.0) / 40.0).collect();
    let before = train.store().read_f32("0.weight").unwrap();
    let mut skipped = 0;
    while !train.step((&x, &[1e5f32])).unwrap().is_applied().unwrap() {
        assert_eq!(train.store().read_f32("0.weight").unwrap(), before);
        skipped += 1;
    }
    let scale = train.loss_scale().unwrap().unwrap();
    assert_eq!(scale, 1024.0 / f32::powi(2.0, skipped));
    assert_ne!(train.store().read_f32("0.weight").unwrap(), before);
    let is_this = |a: &gradloom::AdapterReport| a.limits.f16 && device.description().contains(&a.name);
    let narrow = gradloom_testing::adapter::is_cuda() || gradloom::adapters().iter().any(is_this);
    assert_eq!(skipped > 0, narrow, "{skipped} steps skipped on {}", device.description());
}
