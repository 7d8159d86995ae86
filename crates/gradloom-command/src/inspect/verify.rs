//! `--verify`: compares the compiler's graphs with each other in float64, and the CPU's results with float64.

use crate::failure::{Failure, Result};
use crate::format::count;
use crate::model::compile;
use crate::output::print_line;
use crate::train::settings::Settings;
use gradloom::CpuDevice as _;
use gradloom::Device;
use gradloom_models::any_model::AnyConfig;
use gradloom_models::data::Batches;

/// Verifies a step of a shrunk model.
pub(super) fn run(settings: &Settings) -> Result<()> {
    let settings = shrunk(settings);
    let model = &settings.model;
    print_line!(
        "shrunk to {}, {}, width {}, context {}, {} tokens of vocabulary, batch {}\n",
        count(model.layers(), "layer"),
        count(model.heads(), "head"),
        model.width(),
        model.context(),
        model.vocabulary(),
        settings.training.batch
    )?;
    let train = compile(&settings, &Device::cpu(), super::SMALLER)?;
    let tokens: Vec<i32> = (0..4096u32)
        .map(|i| (i.wrapping_mul(2_654_435_761) >> 16) as i32 % model.vocabulary() as i32)
        .collect();
    let (ids, targets) = Batches::new(1, settings.training.batch, model.context()).draw(0, &tokens.into())?;
    let verification = train.verify((&ids, &targets))?;
    print_line!("{}", verification.to_string().trim_end())?;
    print_line!("")?;
    if verification.check().is_ok() {
        return print_line!("all within the tolerance");
    }
    Err(Failure::failed("values differ by more than the tolerance")
        .help("this is a fault of gradloom: please report it with the preset and the processor"))
}

/// Returns settings that are small enough for the reference evaluator and keep every part of the model.
fn shrunk(settings: &Settings) -> Settings {
    let mut settings = settings.clone();
    match &mut settings.model {
        AnyConfig::Gpt2(model) => {
            model.layers = model.layers.min(2);
            model.heads = model.heads.min(3);
            model.width = model.heads * 8;
            model.context = model.context.min(12);
            model.vocabulary = model.vocabulary.min(61);
        }
        AnyConfig::Llama(model) => {
            // Keep the number of query heads per key head, but at most 2.
            let shared = (model.heads / model.key_heads).min(2);
            model.layers = model.layers.min(2);
            (model.key_heads, model.depth) = (model.key_heads.min(2), 8);
            model.heads = shared * model.key_heads;
            (model.width, model.mlp_width) = (24, 32);
            model.context = model.context.min(12);
            model.vocabulary = model.vocabulary.min(61);
        }
    }
    settings.training.batch = settings.training.batch.min(2);
    settings.training.threads = None;
    settings
}
