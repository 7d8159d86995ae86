//! Tests the total cost of a plan's launches, independently of how ops are fused into kernels.

#[allow(dead_code, reason = "shared with the bench, and not all of it needed here")]
#[path = "../../gradloom-command/src/bench/configs/models.rs"]
mod models;

use gradloom::plan::{Cost, cost};
use gradloom::{AdamW, Device, Trainer, f32, i32};
use models::{AdditionTransformer, SEQUENCE};

#[test]
fn a_transformers_step_costs_its_products_and_little_more() {
    const BATCH: usize = 128;
    let shape = [BATCH, SEQUENCE];
    let train = Trainer::new(AdditionTransformer::new())
        .inputs([i32("ids", shape), i32("targets", shape), f32("mask", [SEQUENCE])])
        .loss(|model, [ids, targets, mask]| model.loss(ids, targets, mask))
        .optimizer(AdamW::new(1e-3))
        .clip_norm(1.0)
        .compile(&Device::null())
        .unwrap();
    let plan = train.plan();
    let total = plan.launches.iter().fold(Cost::default(), |sum, launch| sum + cost(plan, launch));

    // Count three blocks with four 64x64 and two 64x256 products each, and the logits; the backward pass has
    // two products for each product of the forward pass.
    let tokens = (BATCH * SEQUENCE) as u64;
    let products = 3 * 2 * tokens * (3 * (4 * 64 * 64 + 2 * 64 * 256) + 64 * 12);
    // Count two products in the forward pass and five in the backward pass for each pair of positions that
    // causal attention covers, with depth 16 and 4 heads.
    let attention = 3 * 7 * 2 * 16 * (BATCH as u64 * 4 * 36);
    let least = products + attention;
    assert!((least..least * 11 / 10).contains(&total.flops), "{total:?}, products {least}");

    // At least every parameter and moment is read and written. One kernel per op would move 201 MB.
    let store = 3 * 4 * 150_656;
    assert!(total.bytes_read >= store && total.bytes_written >= store, "{total:?}");
    assert!(total.bytes() < 210_000_000, "{total:?}");
}
