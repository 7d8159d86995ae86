//! GPT-2 on random weights and tokens, or on weights and tokens that other programs start from too.

use super::peers::{self, Shape};
use super::workload::{Compiled, Elements, Workload};
use crate::failure::Result;
use crate::train::settings::invalid_model;
use crate::world;
use gradloom::{AdamW, Device, Trainer, i32};
use gradloom_models::data::Batches;
use gradloom_models::gpt2::{Gpt2, Gpt2Config};
use std::path::Path;
use std::time::Instant;

/// Compiles a step that trains on one batch with AdamW, without a schedule or clipping. All parameters are
/// decayed.
pub(super) fn compile(
    name: &str,
    config: &Gpt2Config,
    batch: usize,
    device: &Device,
    data: Option<&Path>,
) -> Result<Box<dyn Workload>> {
    let given =
        data.map(|folder| peers::load(folder, name, &Shape { model: config.clone(), batch })).transpose()?;
    let shape = [batch, config.context];
    let began = Instant::now();
    let trainer = Trainer::new(Gpt2::new(config).map_err(|error| invalid_model(&error))?)
        .inputs([i32("ids", shape), i32("targets", shape)])
        .loss(|model, [ids, targets]| model.loss(ids, targets))
        .optimizer(AdamW::new(3e-4).betas(0.9, 0.999).epsilon(1e-8).weight_decay(0.01).decay_everything());
    let train = world::configured(trainer).compile(device)?;
    let compile_time = began.elapsed();
    let (ids, targets) = match &given {
        Some(given) => {
            given.restore(&train.store())?;
            given.batch()
        }
        None => {
            let vocabulary = config.vocabulary as u32;
            let token = |i: u32| (i.wrapping_mul(2_654_435_761) >> 8) % vocabulary;
            let tokens: Vec<i32> = (0..65_536).map(|i| token(i) as i32).collect();
            Batches::new(1234, batch, config.context).draw(0, &tokens.into())?
        }
    };
    let data = [Elements::I32(ids), Elements::I32(targets)];
    Ok(Box::new(Compiled { train, data, compile_time, tokens: Some(batch * config.context) }))
}
