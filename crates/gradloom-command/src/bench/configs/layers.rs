//! Convolutions and recurrent layers.

use super::workload::{Compiled, Elements, Workload};
use crate::failure::Result;
use gradloom::nn::{Conv2d, Linear, Lstm, Module};
use gradloom::optim::Optimizer;
use gradloom::{AdamW, ConvOptions, Device, PoolOptions, Sgd, Tensor, Trainer, f32, i32};
use std::time::Instant;

/// Returns numbers evenly spread over 0..1: multiples of the golden ratio with 24 bits, which a float32 holds
/// exactly.
fn spread(count: usize) -> Vec<f32> {
    (0..count as u32).map(|i| (i.wrapping_mul(2_654_435_769) >> 8) as f32 / (1 << 24) as f32).collect()
}

/// Compiles a step with one f32 input, whose loss is the mean square of the output.
fn mean_square<M: Module + 'static>(
    device: &Device,
    shape: &[usize],
    model: M,
    optimizer: impl Optimizer,
    forward: impl Fn(&M, Tensor) -> Tensor + Send + Sync + 'static,
) -> Result<Box<dyn Workload>> {
    let began = Instant::now();
    let input =
        gradloom::Input { ty: gradloom::ir::Type::new(gradloom::DType::F32, shape), name: "x".into() };
    let train = Trainer::new(model)
        .inputs([input])
        .loss(move |model, [x]| forward(model, x).square().mean())
        .optimizer(optimizer)
        .compile(device)?;
    let data = [Elements::F32(spread(shape.iter().product()))];
    Ok(Box::new(Compiled { train, data, compile_time: began.elapsed(), tokens: None }))
}

/// Compiles two 3 x 3 convolutions over 32 images of 32 x 32 pixels, from 3 to 32 to 64 channels.
pub(super) fn convolutions(device: &Device) -> Result<Box<dyn Workload>> {
    let options = || ConvOptions::new().padding(1);
    let model = (Conv2d::new(3, 32, 3, options()), Conv2d::new(32, 64, 3, options()));
    mean_square(device, &[32, 3, 32, 32], model, Sgd::new(1e-3), |(first, second), x| {
        second.forward(first.forward(x).relu())
    })
}

/// Compiles an LSTM of width 256 over 32 sequences of 64 steps.
pub(super) fn lstm(device: &Device) -> Result<Box<dyn Workload>> {
    mean_square(device, &[32, 64, 256], Lstm::new(256, 256), Sgd::new(1e-3), |lstm, x| lstm.forward(x))
}

/// Compiles tensorgrad's sample: 64 images of 28 x 28 pixels through 3 x 3 convolutions, from 1 to 16 to 32
/// channels, each followed by ReLU and 2 x 2 max pooling, then linear layers from 1568 to 64 to 10. The step
/// clips gradients to norm 1 and uses AdamW.
pub(super) fn digits(device: &Device) -> Result<Box<dyn Workload>> {
    const BATCH: usize = 64;
    let began = Instant::now();
    let options = || ConvOptions::new().padding(1);
    let convolutions = (Conv2d::new(1, 16, 3, options()), Conv2d::new(16, 32, 3, options()));
    let linear = (Linear::new(32 * 7 * 7, 64), Linear::new(64, 10));
    let train = Trainer::new((convolutions, linear))
        .inputs([f32("pixels", [BATCH, 1, 28, 28]), i32("classes", [BATCH])])
        .loss(|((first, second), (hidden, last)), [pixels, classes]| {
            let pooled = |x: Tensor| x.relu().max_pool2d(2, PoolOptions::new());
            let seen = pooled(second.forward(pooled(first.forward(pixels))));
            let features = hidden.forward(seen.reshape([BATCH, 32 * 7 * 7])).relu();
            last.forward(features).cross_entropy(classes)
        })
        .optimizer(AdamW::new(1e-3))
        .clip_norm(1.0)
        .compile(device)?;
    let classes = (0..BATCH).map(|row| (row % 10) as i32).collect();
    let data = [Elements::F32(spread(BATCH * 28 * 28)), Elements::I32(classes)];
    Ok(Box::new(Compiled { train, data, compile_time: began.elapsed(), tokens: None }))
}
