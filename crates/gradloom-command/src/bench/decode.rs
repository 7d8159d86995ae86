//! `gradloom bench --decode ROWS`: the cost of the next token of many texts.
//!
//! GPT-2 with 124 million parameters generates one more token of each text, greedily, with `cached` positions
//! of each text already in paged memory. The values of weights and texts do not affect the time. On a GPU, a
//! step is also queued before the tokens of the previous one are read, as a generator does.

use crate::device::report_tuning;
use crate::failure::Result;
use crate::output::print_line;
use crate::weights::Weights;
use gradloom::ir::DType;
use gradloom::nn::store_matrices;
use gradloom::{Device, Infer, ProfileOptions, Session, Tensor, i32};
use gradloom_models::decoding::LastTokens;
use gradloom_models::gpt2::{Gpt2, Gpt2Config};
use gradloom_models::kv::{PagedBatch, PagedKeyValues};
use gradloom_models::language_model::LanguageModel;
use std::time::Instant;

const BLOCK: usize = 16;
/// Maximum number of launches that are listed.
const LONGEST: usize = 40;

/// Type of the cached keys and values.
#[derive(Clone, Copy, Debug, PartialEq, clap::ValueEnum)]
pub(super) enum Keys {
    /// 32 bits
    F32,
    /// 16 bits
    F16,
    /// 16 bits with the range of f32
    Bf16,
}

impl Keys {
    pub(super) fn dtype(self) -> DType {
        match self {
            Self::F32 => DType::F32,
            Self::F16 => DType::F16,
            Self::Bf16 => DType::BF16,
        }
    }
}

/// A measurement of the time to compute the next token.
pub(super) struct Decode {
    /// Number of texts.
    pub(super) rows: usize,
    /// Number of positions of each text in memory.
    pub(super) cached: usize,
    pub(super) weights: Weights,
    pub(super) keys: Keys,
    pub(super) steps: u64,
}

impl Decode {
    /// Times the step and prints the figures, including the time of each launch if `launches` is set.
    pub(super) fn run(&self, device: &Device, json: bool, launches: bool) -> Result<()> {
        let &Self { rows, cached, weights, keys, steps } = self;
        let model = Gpt2::new(&Gpt2Config::default()).expect("a published shape");
        if let Some(stored) = weights.stored() {
            store_matrices(&model, stored)?;
        }
        let sizes = model.sizes();
        let session = Session::new(model, device, 0)?;
        let blocks_of_row = sizes.context / BLOCK;
        let used = (cached + 1).div_ceil(BLOCK).min(blocks_of_row);
        let pool = PagedKeyValues::new(sizes, rows * used, BLOCK, "pool").kept_as(keys.dtype());
        let inputs = [
            i32("ids", [rows, 1]),
            i32("tables", [rows, blocks_of_row]),
            i32("starts", [rows]),
            i32("lengths", [rows]),
        ];
        let last = LastTokens::new(rows, "last");
        let began = Instant::now();
        let mut program: Infer<4, Tensor> =
            session.infer(inputs, |model, [ids, tables, starts, lengths]| {
                let hidden = pool.extend(model, last.resolve(ids), PagedBatch { tables, starts, lengths });
                let [rows, _, width] = hidden.dims();
                let next = model.logits(hidden.reshape([rows, width])).argmax(-1);
                last.keep(next);
                next
            })?;
        let compile_s = began.elapsed().as_secs_f64();
        report_tuning(device);
        let table =
            |row: usize| (0..blocks_of_row).map(move |block| (row * used + block.min(used - 1)) as i32);
        let tables: Vec<i32> = (0..rows).flat_map(table).collect();
        let (starts, lengths) = (vec![cached as i32; rows], vec![cached as i32 + 1; rows]);
        let mut ids: Vec<i32> = (0..rows as i32).collect();
        // The first fifth of the steps is the warm-up, which is not timed.
        let warm_up = steps / 5;
        program.set_step_timing(true);
        let (mut awaited, mut on_device) = (Vec::new(), Vec::new());
        for step in 0..steps {
            let began = Instant::now();
            let next = program.run((&ids, &tables, &starts, &lengths))?;
            let elapsed = began.elapsed().as_secs_f64() * 1e3;
            ids = next.iter().map(|&token| token as i32).collect();
            if step >= warm_up {
                awaited.push(elapsed);
                on_device.extend(program.step_time()?.map(|time| time.as_secs_f64() * 1e3));
            }
        }
        program.set_step_timing(false);
        let mut ahead = Vec::new();
        if device.is_gpu() {
            let of_last = vec![LastTokens::ID; rows];
            let mut queue =
                || program.queue(&[(&of_last).into(), (&tables).into(), (&starts).into(), (&lengths).into()]);
            let mut under_way = queue()?;
            for step in 0..steps {
                let began = Instant::now();
                let before = std::mem::replace(&mut under_way, queue()?);
                before.result()?;
                if step >= warm_up {
                    ahead.push(began.elapsed().as_secs_f64() * 1e3);
                }
            }
            under_way.result()?;
        }
        let median = |times: &mut Vec<f64>| {
            times.sort_by(f64::total_cmp);
            times.get(times.len() / 2).copied()
        };
        let ms = median(&mut awaited).unwrap_or(f64::NAN);
        let (ahead_ms, device_ms) = (median(&mut ahead), median(&mut on_device));
        let tokens = rows as f64 / ahead_ms.unwrap_or(ms) * 1e3;
        if !json {
            let other =
                |ms: Option<f64>, how: &str| ms.map_or(String::new(), |ms| format!(", {ms:.3} {how}"));
            let (ahead, of_device) = (other(ahead_ms, "queued ahead"), other(device_ms, "on the device"));
            print_line!("{rows} rows, {cached} cached: {ms:.3} ms{ahead}{of_device}, {tokens:.0} tokens/s")?;
            if launches {
                let options = ProfileOptions::new(steps).named("the next token");
                let profile = program.profile(options, (&ids, &tables, &starts, &lengths))?;
                print_line!("{}", profile.table(LONGEST))?;
            }
            return Ok(());
        }
        print_line!(
            "{}",
            serde_json::json!({
                "rows": rows,
                "cached": cached,
                "weights": format!("{weights:?}").to_lowercase(),
                "kv": format!("{keys:?}").to_lowercase(),
                "ms": ms,
                "ahead_ms": ahead_ms,
                "device_ms": device_ms,
                "tokens_per_s": tokens,
                "compile_s": compile_s,
                "launches": program.plan().launches.len(),
                "device": device.description(),
            })
        )
    }
}
