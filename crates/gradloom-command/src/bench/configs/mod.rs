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
const CONFIGS: [Config; 11] = [
    Config { name: "S", steps: 60, warm: 10, kind: gpt2([256, 128, 4, 4, 128], 8) },
    Config { name: "M", steps: 16, warm: 4, kind: gpt2([8192, 384, 6, 6, 256], 4) },
    Config { name: "mlp-sin", steps: 1000, warm: 100, kind: Kind::Sine },
    Config { name: "gpt2-124m", steps: 6, warm: 2, kind: gpt2([50257, 768, 12, 12, 1024], 4) },
    Config { name: "gpt2-124m-b16", steps: 6, warm: 2, kind: gpt2([50257, 768, 12, 12, 1024], 16) },
    Config { name: "tg-transformer", steps: 100, warm: 10, kind: Kind::Transformer },
    Config { name: "tg-mlp", steps: 1000, warm: 100, kind: Kind::Sine },
    Config { name: "mnist-mlp", steps: 1000, warm: 100, kind: Kind::Digits },
    Config { name: "conv", steps: 60, warm: 10, kind: Kind::Convolutions },
    Config { name: "mnist-cnn", steps: 200, warm: 20, kind: Kind::Cnn },
    Config { name: "lstm", steps: 40, warm: 5, kind: Kind::Lstm },
];

impl Config {
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
    use std::collections::BTreeSet;

    /// Returns the distinct kernels of a configuration as CUDA C.
    fn kernels(config: &Config, precision: Precision) -> BTreeSet<String> {
        let target = Target::cuda(Limits::cuda(), precision);
        let workload = config.compile(&Device::null_for(target.clone()), None).unwrap();
        let texts = target.emit(workload.graph(), workload.plan()).unwrap();
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

    #[test]
    fn kernels_of_all_configurations_are_cuda_c() {
        let library = nvrtc::library();
        let mut all = BTreeSet::new();
        // Skip the LSTM, whose thousands of launches run kernels that other configurations contain, too, and
        // the larger batch, for the same reason.
        for config in CONFIGS.iter().filter(|config| !["lstm", "gpt2-124m-b16"].contains(&config.name)) {
            for precision in Precision::ALL {
                let made = kernels(config, precision);
                assert!(made.len() > 5, "{}: {} kernels", config.name, made.len());
                all.extend(made);
            }
        }
        for dtype in ["f16", "bf16", "tf32"] {
            let multiplies = |text: &String| text.contains(&format!("f32.{dtype}.{dtype}.f32"));
            assert!(all.iter().any(multiplies), "products in {dtype} use matrix instructions");
        }
        if let Some(library) = library {
            nvrtc::check(&library, all.iter().map(String::as_str));
            eprintln!("{} kernels compiled", all.len());
        }
    }
}
