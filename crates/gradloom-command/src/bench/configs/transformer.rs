//! tensorgrad's sample transformer, which adds two-digit numbers.

use super::models::{AdditionTransformer, MASK, SEQUENCE, problems};
use super::workload::{Compiled, Elements, Workload};
use crate::failure::Result;
use gradloom::{AdamW, Device, Schedule, Trainer, f32, i32};
use std::time::Instant;

/// Compiles a step on 128 problems of 8 characters, with gradients clipped to norm 1 and AdamW, whose weight
/// decay excludes biases and norms as tensorgrad's does.
pub(super) fn addition(device: &Device) -> Result<Box<dyn Workload>> {
    const BATCH: usize = 128;
    let shape = [BATCH, SEQUENCE];
    let (ids, targets) = problems(BATCH as u32);
    // Within 9 MB, the backward pass recomputes values such as normalized inputs. A GPU has a larger budget,
    // because the additional launches cost more than the memory traffic that they save.
    let budget = if device.is_gpu() { 14_000_000 } else { 9_000_000 };
    let began = Instant::now();
    let train = Trainer::new(AdditionTransformer::new())
        .inputs([i32("ids", shape), i32("targets", shape), f32("mask", [SEQUENCE])])
        .loss(|model, [ids, targets, mask]| model.loss(ids, targets, mask))
        .optimizer(AdamW::new(Schedule::Linear { from: 0.005, to: 0.0005, steps: 1500 }).weight_decay(0.01))
        .clip_norm(1.0)
        .memory_budget(budget)
        .compile(device)?;
    let data = [Elements::I32(ids), Elements::I32(targets), Elements::F32(MASK.to_vec())];
    let compile_time = began.elapsed();
    Ok(Box::new(Compiled { train, data, compile_time, tokens: Some(BATCH * SEQUENCE) }))
}
