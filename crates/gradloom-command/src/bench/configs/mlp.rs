//! Multilayer perceptrons, whose kernels are so small that launch overhead dominates the time.

use super::models::Mlp;
use super::workload::{Compiled, Elements, Workload};
use crate::failure::Result;
use gradloom::{Adam, Device, Trainer, f32, i32};
use std::time::Instant;

/// Compiles a 1-64-64-1 perceptron that learns sin on 256 points: 4,353 parameters in 6 tensors.
pub(super) fn sine(device: &Device) -> Result<Box<dyn Workload>> {
    const POINTS: usize = 256;
    let xs: Vec<f32> = (0..POINTS).map(|i| (i as f32 / 255.0 - 0.5) * 6.0).collect();
    let ys: Vec<f32> = xs.iter().map(|x| libm::sinf(*x)).collect();
    let began = Instant::now();
    let train = Trainer::new(Mlp::new(&[1, 64, 64, 1]))
        .inputs([f32("x", [POINTS, 1]), f32("y", [POINTS, 1])])
        .loss(|model, [x, y]| (model.forward(x) - y).square().mean())
        .optimizer(Adam::new(5e-3))
        .compile(device)?;
    let data = [Elements::F32(xs), Elements::F32(ys)];
    Ok(Box::new(Compiled { train, data, compile_time: began.elapsed(), tokens: None }))
}

/// Compiles a 784-256-10 perceptron that classifies 128 synthetic digits: 203,530 parameters in 4 tensors.
/// Pixels are uniform in 0..1; classes repeat from 0 to 9.
pub(super) fn digits(device: &Device) -> Result<Box<dyn Workload>> {
    const BATCH: usize = 128;
    const PIXELS: usize = 28 * 28;
    const CLASSES: usize = 10;
    // Spread the pixels evenly: they are multiples of the golden ratio with 24 bits, which a float32 holds
    // exactly.
    let pixel = |i: u32| (i.wrapping_mul(2_654_435_769) >> 8) as f32 / (1 << 24) as f32;
    let pixels = (0..(BATCH * PIXELS) as u32).map(pixel).collect();
    let classes = (0..BATCH).map(|row| (row % CLASSES) as i32).collect();
    let began = Instant::now();
    let train = Trainer::new(Mlp::new(&[PIXELS, 256, CLASSES]))
        .inputs([f32("pixels", [BATCH, PIXELS]), i32("classes", [BATCH])])
        .loss(|model, [pixels, classes]| model.forward(pixels).cross_entropy(classes))
        .optimizer(Adam::new(1e-3))
        .compile(device)?;
    let data = [Elements::F32(pixels), Elements::I32(classes)];
    Ok(Box::new(Compiled { train, data, compile_time: began.elapsed(), tokens: None }))
}
