//! `gradloom bench --requests N`: concurrent requests to a generator. Reports the time to the first token,
//! with and without a cached prefix, and the total throughput in tokens per second.

use super::decode::Keys;
use crate::device::report_tuning;
use crate::failure::Result;
use crate::output::print_line;
use crate::weights::Weights;
use gradloom::nn::store_matrices;
use gradloom::{Device, Session};
use gradloom_models::decoding::Sampling;
use gradloom_models::generator::{Event, Generator, GeneratorOptions, Request};
use gradloom_models::gpt2::{Gpt2, Gpt2Config};
use gradloom_models::language_model::LanguageModel;
use std::time::Instant;

/// Number of tokens that all prompts share.
const COMMON: usize = 512;
/// Number of tokens that are specific to a prompt.
const OWN: usize = 16;
/// Number of tokens that a request generates.
const WRITTEN: usize = 64;
/// Number of tokens in a block.
const BLOCK: usize = 16;
/// Number of measurements of the time to the first token.
const TIMES: usize = 7;

/// Times requests and prints the figures.
pub(super) fn run(device: &Device, count: usize, (weights, keys): (Weights, Keys), json: bool) -> Result<()> {
    let model = Gpt2::new(&Gpt2Config::default()).expect("a published shape");
    if let Some(stored) = weights.stored() {
        store_matrices(&model, stored)?;
    }
    let vocabulary = model.sizes().vocabulary;
    let session = Session::new(model, device, 0)?;
    let own_blocks = (OWN + WRITTEN).div_ceil(BLOCK) + 1;
    let options = GeneratorOptions {
        // Leave room for a text that shares nothing, in addition to all others.
        blocks: 2 * COMMON / BLOCK + (count + TIMES + 2) * own_blocks,
        block_size: BLOCK,
        rows: count,
        dtype: keys.dtype(),
        ..GeneratorOptions::default()
    };
    let mut generator = Generator::new(&session, options)?;
    report_tuning(device);
    let mut number = 0;
    let mut request = |shares: bool, most: usize| {
        let own = (0..OWN).map(|i| {
            number += 1;
            (number * 31 + i * 7) % vocabulary
        });
        let prompt: Vec<i32> =
            (0..COMMON).map(|i| i * 7919 % vocabulary).chain(own).map(|id| id as i32).collect();
        let sampling = Sampling { temperature: 0.0, ..Sampling::default() };
        Request { sampling, shares, ..Request::new(prompt, most) }
    };
    // The warm-up sends two sharing requests: the second one reuses the prefix of the first.
    for shares in [false, true, true] {
        first_token_ms(&mut generator, request(shares, 1))?;
    }
    let mut median = |shares: bool| -> Result<f64> {
        let times = (0..TIMES).map(|_| first_token_ms(&mut generator, request(shares, 1)));
        let mut times = times.collect::<Result<Vec<f64>>>()?;
        times.sort_by(f64::total_cmp);
        Ok(times[TIMES / 2])
    };
    let (without, with) = (median(false)?, median(true)?);
    // Keep the time of the second round, because the first one compiles the programs.
    let mut seconds = 0.0;
    for _ in 0..2 {
        let began = Instant::now();
        for _ in 0..count {
            generator.add(request(true, WRITTEN))?;
        }
        while !generator.is_idle() {
            generator.step()?;
        }
        seconds = began.elapsed().as_secs_f64();
    }
    let tokens = (count * WRITTEN) as f64 / seconds;
    if !json {
        return print_line!(
            "{count} requests: {tokens:.0} tokens/s; first token after {without:.2} ms, with {COMMON} of {} tokens \
             known {with:.2} ms",
            COMMON + OWN
        );
    }
    print_line!(
        "{}",
        serde_json::json!({
            "requests": count,
            "prompt": COMMON + OWN,
            "common": COMMON,
            "written": WRITTEN,
            "kv": format!("{keys:?}").to_lowercase(),
            "weights": format!("{weights:?}").to_lowercase(),
            "tokens_per_s": tokens,
            "first_token_ms": without,
            "first_token_known_prefix_ms": with,
            "device": device.description(),
        })
    )
}

/// Returns the time in milliseconds to the first token of a request that runs alone.
fn first_token_ms(generator: &mut Generator, request: Request) -> Result<f64> {
    let began = Instant::now();
    generator.add(request)?;
    loop {
        let events = generator.step()?;
        if events.iter().any(|event| matches!(event, Event::Token { .. })) {
            return Ok(began.elapsed().as_secs_f64() * 1e3);
        }
    }
}
