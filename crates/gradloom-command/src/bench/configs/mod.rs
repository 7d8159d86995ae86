//! The named configurations, one file for each family of models.
//!
//! In: a name and a device. Out: a [`Workload`], a compiled training step with its data.

mod gpt2;
mod layers;
mod mlp;
mod models;
mod peers;
mod transformer;
mod workload;

use crate::failure::{Failure, Result};
use gradloom::Device;
use gradloom_models::gpt2::Gpt2Config;
use std::path::Path;
pub(crate) use workload::Workload;

/// A named training step. The meaning of a name never changes: a different step gets a new name.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    pub(crate) name: &'static str,
    /// Total number of steps.
    pub(crate) steps: u64,
    /// Number of warm-up steps, which count towards `steps` but are not timed.
    pub(crate) warm: u64,
    kind: Kind,
    /// Variation that was given, which `kind` has too.
    variation: Variation,
}

#[derive(Clone, Debug)]
enum Kind {
    Gpt2 { model: Gpt2Config, batch: usize },
    Sine,
    Digits,
    Transformer,
    Convolutions,
    Cnn,
    Lstm,
}

const fn gpt2(sizes: [usize; 5], batch: usize) -> Kind {
    let [vocabulary, width, heads, layers, context] = sizes;
    Kind::Gpt2 {
        model: Gpt2Config { vocabulary, context, width, heads, layers, ..Gpt2Config::DEFAULT },
        batch,
    }
}

/// All configurations. `tg-mlp` is the step of `mlp-sin` under the name of tensorgrad's sample, with which it
/// is compared.
const CONFIGS: [Config; 12] = [
    config("S", [60, 10], gpt2([256, 128, 4, 4, 128], 8)),
    config("M", [16, 4], gpt2([8192, 384, 6, 6, 256], 4)),
    config("mlp-sin", [1000, 100], Kind::Sine),
    config("gpt2-124m", [6, 2], gpt2([50257, 768, 12, 12, 1024], 4)),
    config("gpt2-355m", [6, 2], gpt2([50257, 1024, 16, 24, 1024], 4)),
    config("gpt2-xl", [6, 2], gpt2([50257, 1600, 25, 48, 1024], 1)),
    config("tg-transformer", [100, 10], Kind::Transformer),
    config("tg-mlp", [1000, 100], Kind::Sine),
    config("mnist-mlp", [1000, 100], Kind::Digits),
    config("conv", [60, 10], Kind::Convolutions),
    config("mnist-cnn", [200, 20], Kind::Cnn),
    config("lstm", [40, 5], Kind::Lstm),
];

const fn config(name: &'static str, [steps, warm]: [u64; 2], kind: Kind) -> Config {
    Config { name, steps, warm, kind, variation: Variation::NONE }
}

/// Changes to a GPT-2 configuration; `None` keeps what it has.
#[derive(clap::Args, Clone, Copy, Debug)]
pub(crate) struct Variation {
    /// Number of rows of a batch of GPT-2. [default: the configuration's]
    #[arg(long, value_name = "N", requires = "config", value_parser = clap::value_parser!(u32).range(1..))]
    batch: Option<u32>,
    /// Number of tokens of each row of GPT-2, for which the model has positions. [default: the
    /// configuration's]
    #[arg(long, value_name = "N", requires = "config", value_parser = clap::value_parser!(u32).range(1..))]
    context: Option<u32>,
    /// Probability of dropping an element of GPT-2. [default: 0]
    #[arg(long, value_name = "P", requires = "config")]
    dropout: Option<f64>,
}

impl Variation {
    const NONE: Self = Self { batch: None, context: None, dropout: None };

    /// Returns the first flag that was given, with its number.
    fn flag(self) -> Option<String> {
        let Self { batch, context, dropout } = self;
        let flags = [
            batch.map(|rows| format!("--batch {rows}")),
            context.map(|tokens| format!("--context {tokens}")),
            dropout.map(|p| format!("--dropout {p}")),
        ];
        flags.into_iter().flatten().next()
    }
}

impl Config {
    /// Returns the name with the variation that was given, such as `gpt2-124m-b16-t512`.
    pub(crate) fn label(&self) -> String {
        let Variation { batch, context, dropout } = self.variation;
        let batch = batch.map_or_else(String::new, |rows| format!("-b{rows}"));
        let context = context.map_or_else(String::new, |tokens| format!("-t{tokens}"));
        let dropout = dropout.map_or_else(String::new, |p| format!("-d{p}"));
        format!("{}{batch}{context}{dropout}", self.name)
    }

    /// Returns a variation of the configuration.
    ///
    /// # Errors
    /// Returns an error if the configuration is not of GPT-2 and anything varies.
    pub(crate) fn varied(mut self, variation: Variation) -> Result<Self> {
        let Some(flag) = variation.flag() else { return Ok(self) };
        let Kind::Gpt2 { model, batch } = &mut self.kind else {
            let message = format!("{flag}: the configuration {} has no variations", self.name);
            return Err(Failure::usage(message).help("leave it out, or take a configuration of GPT-2"));
        };
        let size = |given: Option<u32>, own| given.map_or(own, |given| given as usize);
        *batch = size(variation.batch, *batch);
        model.context = size(variation.context, model.context);
        model.dropout = variation.dropout.unwrap_or(model.dropout);
        Ok(Self { variation, ..self })
    }

    /// Returns the configuration with this name.
    ///
    /// # Errors
    /// Returns an error that lists the names if no configuration has this name.
    pub(crate) fn find(name: &str) -> Result<Config> {
        CONFIGS.into_iter().find(|config| config.name == name).ok_or_else(|| {
            let names = CONFIGS.map(|config| config.name).join(", ");
            Failure::usage(format!("--config {name}: there is no configuration of this name"))
                .help(format!("the configurations are {names}"))
        })
    }

    /// Compiles the step.
    ///
    /// # Errors
    /// Returns an error if `data`, a folder of weights and tokens, does not fit the configuration, or if the
    /// step does not fit the device.
    pub(crate) fn compile(&self, device: &Device, data: Option<&Path>) -> Result<Box<dyn Workload>> {
        match &self.kind {
            Kind::Gpt2 { model, batch } => gpt2::compile(self.name, model, *batch, device, data),
            _ if data.is_some() => {
                Err(Failure::usage(format!("--data-dir: the configuration {} takes no data", self.name))
                    .help("leave it out"))
            }
            Kind::Sine => mlp::sine(device),
            Kind::Digits => mlp::digits(device),
            Kind::Transformer => transformer::addition(device),
            Kind::Convolutions => layers::convolutions(device),
            Kind::Cnn => layers::digits(device),
            Kind::Lstm => layers::lstm(device),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gradloom::runtime::pipeline::{Target, Text};
    use gradloom::runtime::{Limits, Precision};
    use gradloom_testing::nvrtc;
    use std::collections::{BTreeMap, BTreeSet};

    /// Returns the distinct kernels of a configuration as CUDA C for a GPU of a compute capability.
    fn kernels(config: &Config, precision: Precision, capability: (i32, i32)) -> BTreeSet<String> {
        let target = Target::cuda(Limits::cuda_of(capability), precision);
        let workload = config.compile(&Device::null_for(target.clone()), None).unwrap();
        let texts = target.emit(workload.graph(), workload.program().plan()).unwrap();
        // Remove names and launch numbers, so that equal kernels have equal texts.
        let plain = |text: &Text| {
            let (before, name) = text.source.split_once("__launch_bounds__(").expect("a kernel has bounds");
            let (bounds, name) = name.split_once(") ").expect("bounds end");
            let (_, parameters) = name.split_once('(').expect("a function has parameters");
            let parameters = parameters.replace(&format!("(status, {}u", text.launch + 1), "(status, 1u");
            format!("{before}__launch_bounds__({bounds}) kernel({parameters}")
        };
        texts.iter().map(plain).collect()
    }

    /// Returns a text without its numbers and those of its variables: that of a kernel for any extents. The
    /// digits of other words, such as types and instructions, remain.
    fn without_numbers(text: &str) -> String {
        let words = text.split_inclusive(|c: char| !c.is_ascii_alphanumeric());
        let is_number = |word: &str| {
            let number = word.strip_prefix(['a', 'i', 'l', 'v', 'x']).unwrap_or(word);
            number.starts_with(|c: char| c.is_ascii_digit())
        };
        words.map(|word| if is_number(word) { &word[word.len() - 1..] } else { word }).collect()
    }

    #[test]
    fn kernels_of_all_configurations_are_cuda_c() {
        let library = nvrtc::library();
        // Compile one of the kernels that differ in nothing but numbers.
        let mut all = BTreeMap::new();
        // Skip the LSTM, whose thousands of launches run kernels that other configurations contain, too, and
        // the larger GPT-2s, for the same reason.
        let skipped = ["lstm", "gpt2-355m", "gpt2-xl"];
        for config in CONFIGS.iter().filter(|config| !skipped.contains(&config.name)) {
            let older = Precision::ALL.map(|precision| (precision, (8, 0)));
            for (precision, capability) in older.into_iter().chain([(Precision::Bf16, (9, 0))]) {
                let made = kernels(config, precision, capability);
                assert!(made.len() > 5, "{}: {} kernels", config.name, made.len());
                all.extend(made.into_iter().map(|text| (without_numbers(&text), text)));
            }
        }
        assert!(all.values().any(|text| text.contains("wgmma")), "attention uses products of warpgroups");
        for dtype in ["f16", "bf16", "tf32"] {
            let multiplies = |text: &String| text.contains(&format!("f32.{dtype}.{dtype}.f32"));
            assert!(all.values().any(multiplies), "products in {dtype} use matrix instructions");
        }
        if let Some(library) = library {
            nvrtc::check(&library, all.values().map(String::as_str));
            eprintln!("{} kernels compiled", all.len());
        }
    }
}
