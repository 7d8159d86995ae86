//! Settings of a run, resolved and checked, and the run folder's `config.json`.

use super::config_file;
use super::options::{Options, Record};
use crate::device::{DeviceName, Precision};
use crate::failure::{Failure, Result};
use crate::format::number;
use crate::size::Size;
use crate::tokenizer::{AnyTokenizer, BYTES, FILE};
use crate::world;
use gradloom::nn::{LowRank, Module};
use gradloom::optim::LARGEST_RATE;
use gradloom_models::any_model::AnyConfig;
use gradloom_models::gpt2::{ConfigError, Preset};
use serde::Deserialize;

/// The settings of a run.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Settings {
    /// Preset that determined the sizes, or [`INIT`].
    pub(crate) preset: String,
    /// Absolute path of the model that the run started from, if any.
    pub(crate) init: Option<String>,
    pub(crate) model: AnyConfig,
    pub(crate) tokenizer: TokenizerSource,
    pub(crate) data: DataSource,
    pub(crate) training: Training,
    /// Adapters to train in place of the weights.
    pub(crate) lora: Option<Lora>,
}

/// Low-rank adapters.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Lora {
    pub(crate) rank: usize,
    pub(crate) alpha: f64,
    pub(crate) targets: Vec<String>,
}

impl Lora {
    /// Returns the adapters that the options request for a model of these sizes.
    fn of(options: &Options, model: &AnyConfig) -> Result<Option<Self>> {
        let Options { init, lora, lora_alpha, lora_targets, .. } = options;
        let Some(rank) = *lora else {
            let flag = lora_alpha.map(|_| "--lora-alpha");
            return match flag.or(lora_targets.as_ref().map(|_| "--lora-targets")) {
                Some(flag) => Err(Failure::usage(format!("{flag}: there are no adapters"))
                    .help("give their rank: --lora 8")),
                None => Ok(None),
            };
        };
        if init.is_none() {
            return Err(Failure::usage(format!("--lora {rank}: there is no model to adapt"))
                .help("name it: --init PATH"));
        }
        let products: &[&str] = match model {
            AnyConfig::Gpt2(_) => &["*.c_attn.weight", "*.c_proj.weight", "*.c_fc.weight"],
            AnyConfig::Llama(_) => &["*_proj.weight"],
        };
        let targets =
            lora_targets.clone().unwrap_or_else(|| products.iter().map(|name| name.to_string()).collect());
        Ok(Some(Self { rank, alpha: lora_alpha.unwrap_or(rank as f64), targets }))
    }

    /// Adds the adapters to a model.
    pub(crate) fn attach(&self, model: &impl Module) -> Result<()> {
        let adapters = LowRank::new(self.rank).alpha(self.alpha);
        let adapters = self.targets.iter().fold(adapters, |all, target| all.targets(target.as_str()));
        adapters.attach(model).map(drop).map_err(|error| {
            let help = error.remedies().collect::<Vec<_>>().join("; ");
            Failure::usage(format!("--lora: {}", error.message())).help(help)
        })
    }
}

/// The tokenizer of a run.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TokenizerSource {
    /// Name that the user gave; `None` if it depends on the data.
    pub(crate) given: Option<String>,
    /// `bytes`, or the name of the tokenizer's file in the run's folder.
    pub(crate) name: String,
    /// Fingerprint of a tokenizer with a file.
    pub(crate) sha256: Option<String>,
}

/// Source of the text, with its fingerprint.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct DataSource {
    /// Absolute paths and patterns; empty for the built-in text.
    pub(crate) paths: Vec<String>,
    pub(crate) files: usize,
    pub(crate) bytes: usize,
    pub(crate) sha256: String,
}

/// Hyperparameters and devices of the training.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Training {
    pub(crate) steps: u64,
    pub(crate) batch: usize,
    pub(crate) lr: f64,
    pub(crate) warmup: u64,
    pub(crate) weight_decay: f64,
    /// Maximum norm of all gradients; 0 for no clipping.
    pub(crate) clip: f64,
    pub(crate) seed: u64,
    /// Device to run on; `None` is the CPU.
    pub(crate) device: Option<DeviceName>,
    /// Part of the name of a GPU.
    pub(crate) adapter: Option<String>,
    /// Type of matrix operands; `None` is f32.
    pub(crate) precision: Option<Precision>,
    /// True if kernels are tuned; `None` is false.
    pub(crate) tune: Option<bool>,
    /// Number of threads; `None` is one for each core.
    pub(crate) threads: Option<usize>,
    /// Maximum memory of a step in bytes; `None` for no limit.
    pub(crate) memory_budget: Option<usize>,
    pub(crate) eval_every: u64,
    /// Number of steps between saves; `None` to save by time.
    pub(crate) save_every: Option<u64>,
}

/// Current version of `config.json`.
const FORMAT: u32 = 2;

/// Minimum number of steps between evaluations, unless the user set it. An evaluation has at most eight
/// forward passes, as long as about three steps, so evaluations take a small part of the time. Their number
/// does not depend on a clock.
const LEAST_EVAL_EVERY: u64 = 80;

/// Name in place of the preset for a run that started from a model.
pub(crate) const INIT: &str = "init";

/// Returns the default steps, batch and learning rate of a preset.
fn defaults(preset: &str) -> (u64, usize, f64) {
    match preset {
        "tiny" => (2000, 8, 2e-3),
        "small" => (5000, 32, 1e-3),
        // Higher rates would destroy the learned weights.
        INIT => (1000, 8, 1e-4),
        _ => (10_000, 8, 3e-4),
    }
}

/// Returns the default learning rate of a preset.
pub(crate) fn default_lr(preset: &str) -> f64 {
    defaults(preset).2
}

impl Settings {
    /// Checks that the batch divides among the ranks, and that the part of one is not too large.
    pub(crate) fn check_ranks(&self, ranks: usize) -> Result<()> {
        let batch = self.training.batch;
        if batch.is_multiple_of(ranks) {
            return self.check_size(batch / ranks, 1 << 40);
        }
        Err(Failure::usage(format!("--batch {batch}: the texts do not divide among {ranks} ranks"))
            .help("give a multiple of the number of ranks"))
    }

    /// Resolves the settings of a new run; the data's fingerprint is added later.
    pub(crate) fn resolve(options: &Options) -> Result<Self> {
        Self::of(options, from_preset(options)?)
    }

    /// Resolves the settings of a new run that starts from a model of these sizes.
    pub(crate) fn begun_from(options: &Options, model: &AnyConfig) -> Result<Self> {
        Self::of(options, super::init::sizes(options, model.clone())?)
    }

    /// Resolves the settings with a model of these sizes.
    fn of(options: &Options, model: AnyConfig) -> Result<Self> {
        model.validate().map_err(|error| invalid_model(&error))?;
        let name = match &options.init {
            Some(_) => INIT,
            None => options.preset.as_deref().unwrap_or("tiny"),
        };
        let (steps, batch, lr) = defaults(name);
        let steps = options.steps.unwrap_or(steps);
        let mut settings = Self {
            lora: Lora::of(options, &model)?,
            preset: name.to_string(),
            init: options.init.as_deref().map(absolute),
            model,
            tokenizer: TokenizerSource { given: None, name: BYTES.to_string(), sha256: None },
            data: DataSource::default(),
            training: Training {
                steps,
                batch,
                lr,
                warmup: steps / 20,
                weight_decay: 0.1,
                clip: 1.0,
                seed: options.seed.unwrap_or(0),
                eval_every: (steps / 20).max(LEAST_EVAL_EVERY),
                ..Training::default()
            },
        };
        if let Some(given) = &options.tokenizer {
            let is_path = given != BYTES
                && AnyTokenizer::trained_size(given)
                    .transpose()
                    .map_err(|failure| failure.under("--tokenizer"))?
                    .is_none();
            settings.tokenizer.given = Some(if is_path { absolute(given) } else { given.clone() });
        }
        settings.change(options)?;
        Ok(settings)
    }

    /// Sets the tokenizer, and the model's vocabulary to the tokenizer's. The vocabulary is unchanged for a
    /// model of `--init`, and for a preset if tokens are bytes because the user named no tokenizer.
    pub(crate) fn use_tokenizer(&mut self, tokenizer: &AnyTokenizer) -> Result<()> {
        let (name, sha256) = tokenizer.name_and_sha256();
        if self.init.is_none() && (name != BYTES || self.tokenizer.given.is_some()) {
            self.model = self.model.clone().with_vocabulary(tokenizer.get().vocabulary());
        }
        self.tokenizer = TokenizerSource { name: name.to_string(), sha256, ..self.tokenizer.clone() };
        self.model.validate().map_err(|error| invalid_model(&error))?;
        self.check_batch()
    }

    /// Returns the unit of losses, `byte` or `token`.
    pub(crate) fn token_name(&self) -> &'static str {
        if self.tokenizer.name == BYTES { "byte" } else { "token" }
    }

    /// Applies and checks the options that may change when a run is resumed.
    pub(crate) fn change(&mut self, options: &Options) -> Result<()> {
        let training = &mut self.training;
        macro_rules! change {
            ($($set:ident)*; $($optional:ident)*) => {
                $(set(&mut training.$set, options.$set);)*
                $(training.$optional = options.$optional.clone().or(training.$optional.take());)*
            };
        }
        change!(steps batch lr warmup weight_decay clip eval_every; adapter precision tune threads save_every);
        let of_gpus = world::gpus().map(|_| DeviceName::Cuda);
        training.device = options.device.or(of_gpus).or(training.device);
        if let Some(Size(bytes)) = options.memory_budget {
            training.memory_budget = (bytes > 0).then_some(bytes);
        }
        if let Some(paths) = &options.data {
            if paths.is_empty() {
                return Err(Failure::usage("--data: the list is empty")
                    .help("name a file or folder, or leave it out for the built-in text"));
            }
            self.data.paths = paths.iter().map(|path| absolute(path)).collect();
        }
        self.training.check()?;
        self.check_batch()
    }

    /// Checks that the sizes of a step do not overflow in the arithmetic on them.
    fn check_batch(&self) -> Result<()> {
        self.check_size(self.training.batch, 1 << 48)
    }

    /// Checks that a step's largest tensor has at most `most` elements.
    fn check_size(&self, batch: usize, most: usize) -> Result<()> {
        let model = &self.model;
        let widest = model.vocabulary().max(model.mlp_width()).max(model.context());
        let elements = batch.checked_mul(model.context()).and_then(|n| n.checked_mul(widest));
        match elements {
            Some(n) if n <= most => Ok(()),
            _ => Err(Failure::usage(format!(
                "a step of {batch} texts of {} tokens is too large",
                model.context()
            ))
            .help("lower one of them until the step fits into memory")),
        }
    }

    /// Parses the settings of a `config.json`.
    pub(crate) fn parse(text: &str) -> std::result::Result<Self, String> {
        if let Some(found) = format_of(text).filter(|found| *found != FORMAT) {
            return Err(format!("format {found} is not the {FORMAT} of this gradloom"));
        }
        let options = config_file::parse(text, true).map_err(|problem| problem.in_short())?;
        let run = options.run.clone().ok_or("it names no format")?;
        if ![BYTES, FILE].contains(&run.tokenizer.as_str()) {
            return Err(format!("it names another tokenizer than {BYTES} and {FILE}"));
        }
        let model = match &run.model {
            Some(model) if options.init.is_some() => Ok(model.clone()),
            _ if options.init.is_some() => return Err("it has no sizes of its model".into()),
            _ => from_preset(&options).map(|model| model.with_vocabulary(run.vocabulary)),
        };
        let settings = model.and_then(|model| Self::of(&options, model));
        // Keys have the names of options without dashes.
        let mut settings = settings.map_err(|failure| failure.message().replace("--", ""))?;
        settings.data = settings.recorded(&run);
        settings.tokenizer.name = run.tokenizer;
        settings.tokenizer.sha256 = run.tokenizer_sha256;
        Ok(settings)
    }

    /// Returns the data as a run recorded it.
    pub(crate) fn recorded(&self, run: &Record) -> DataSource {
        DataSource {
            paths: self.data.paths.clone(),
            files: run.data_files,
            bytes: run.data_bytes,
            sha256: run.data_sha256.clone(),
        }
    }

    /// Returns the text of `config.json`: every option, or `null` if it is unset.
    pub(crate) fn to_json(&self) -> String {
        serde_json::to_string_pretty(&self.options()).expect("settings are plain data") + "\n"
    }

    /// Returns the names and values of the settings that all ranks of a world have in common. What a host may
    /// have for itself is left out: paths, the GPU, the number of threads.
    pub(crate) fn common(&self) -> Vec<(String, String)> {
        let mut options = self.options();
        let record = options.run.take();
        let options =
            Options { data: None, tokenizer: None, init: None, adapter: None, threads: None, ..options };
        let serde_json::Value::Object(values) = serde_json::json!(options) else {
            unreachable!("options have names")
        };
        let flags =
            values.iter().map(|(name, value)| (format!("--{}", name.replace('_', "-")), value.to_string()));
        let files = record.into_iter().flat_map(|record| {
            let tokenizer = record.tokenizer_sha256.unwrap_or(record.tokenizer);
            [("SHA-256 of the data", record.data_sha256), ("tokenizer", tokenizer)]
        });
        flags.chain(files.map(|(name, value)| (name.to_string(), value))).collect()
    }

    /// Returns the options that resolve to these settings.
    fn options(&self) -> Options {
        let Self { preset, init, model, data, training, tokenizer, lora } = self.clone();
        let gpt2 = if let (AnyConfig::Gpt2(model), None) = (&model, &init) { Some(model) } else { None };
        Options {
            data: (!data.paths.is_empty()).then_some(data.paths),
            tokenizer: tokenizer.given,
            // A model from `--init` has its own sizes, so no preset, layers, heads or widths are recorded.
            preset: init.is_none().then_some(preset),
            layers: gpt2.map(|model| model.layers),
            heads: gpt2.map(|model| model.heads),
            width: gpt2.map(|model| model.width),
            mlp_width: gpt2.and_then(|model| model.mlp_width),
            context: Some(model.context()),
            dropout: if let AnyConfig::Gpt2(model) = &model { Some(model.dropout) } else { None },
            init: init.clone(),
            lora: lora.as_ref().map(|lora| lora.rank),
            lora_alpha: lora.as_ref().map(|lora| lora.alpha),
            lora_targets: lora.map(|lora| lora.targets),
            steps: Some(training.steps),
            batch: Some(training.batch),
            lr: Some(training.lr),
            warmup: Some(training.warmup),
            weight_decay: Some(training.weight_decay),
            clip: Some(training.clip),
            seed: Some(training.seed),
            device: training.device,
            adapter: training.adapter,
            precision: training.precision,
            tune: training.tune,
            threads: training.threads,
            memory_budget: training.memory_budget.map(Size),
            eval_every: Some(training.eval_every),
            save_every: training.save_every,
            out: None,
            run: Some(Record {
                format: FORMAT,
                tokenizer: tokenizer.name,
                tokenizer_sha256: tokenizer.sha256,
                vocabulary: model.vocabulary(),
                model: init.is_some().then_some(model),
                data_files: data.files,
                data_bytes: data.bytes,
                data_sha256: data.sha256,
            }),
        }
    }
}

/// Returns the format version of a text, which any version of the format has.
fn format_of(text: &str) -> Option<u32> {
    #[derive(Deserialize)]
    struct Version {
        format: Option<u32>,
        run: Option<Run>,
    }
    #[derive(Deserialize)]
    struct Run {
        format: u32,
    }
    #[expect(clippy::disallowed_methods, reason = "a run's configuration is our own")]
    let version: Version = serde_json::from_str(text).ok()?;
    version.run.map(|run| run.format).or(version.format)
}

impl Training {
    fn check(&self) -> Result<()> {
        let counts = [
            ("--steps", self.steps),
            ("--batch", self.batch as u64),
            ("--eval-every", self.eval_every),
            ("--save-every", self.save_every.unwrap_or(1)),
        ];
        if let Some((flag, _)) = counts.into_iter().find(|(_, n)| *n == 0) {
            return Err(Failure::usage(format!("{flag} 0: must be at least 1")));
        }
        check_threads(self.threads)?;
        // These settings become 32-bit numbers in the step, where a finite nonzero value could overflow to
        // infinity or underflow to 0.
        let numbers = [
            ("--lr", self.lr, "try 0.001"),
            ("--weight-decay", self.weight_decay, "0 turns it off"),
            ("--clip", self.clip, "0 turns it off"),
        ];
        for (flag, value, help) in numbers {
            let most = if flag == "--clip" { f32::MAX.into() } else { LARGEST_RATE };
            let problem = match value as f32 {
                _ if flag == "--lr" && value <= 0.0 => "must be above 0".to_string(),
                _ if value < 0.0 => "must be 0 or more".to_string(),
                _ if value.is_nan() => "must be a number".to_string(),
                _ if value > most => format!("too large: must be at most {}", number(most)),
                small if value > 0.0 && small < f32::MIN_POSITIVE => {
                    format!("too small: must be at least {:.1e}", f32::MIN_POSITIVE)
                }
                _ => continue,
            };
            return Err(Failure::usage(format!("{flag} {}: {problem}", number(value))).help(help));
        }
        Ok(())
    }
}

/// Checks the number of threads of `--threads`.
pub(crate) fn check_threads(threads: Option<usize>) -> Result<()> {
    const MOST: usize = 1024;
    let problem = match threads {
        Some(0) => "must be at least 1".to_string(),
        Some(threads) if threads > MOST => format!("more than {MOST}"),
        _ => return Ok(()),
    };
    let given = threads.unwrap_or(0);
    Err(Failure::usage(format!("--threads {given}: {problem}")).help("leave it out to use every core"))
}

fn set<T: Copy>(value: &mut T, given: Option<T>) {
    if let Some(given) = given {
        *value = given;
    }
}

/// Returns an absolute path, so that a run can be resumed from another folder.
pub(crate) fn absolute(path: &str) -> String {
    std::path::absolute(path)
        .ok()
        .and_then(|p| p.into_os_string().into_string().ok())
        .unwrap_or_else(|| path.to_string())
}

/// Returns the sizes of a preset, modified by flags.
fn from_preset(options: &Options) -> Result<AnyConfig> {
    let name = options.preset.as_deref().unwrap_or("tiny");
    let preset = Preset::find(name).ok_or_else(|| {
        Failure::usage(format!("--preset {name}: there is no preset of this name"))
            .help(format!("the presets are {}", Preset::names()))
    })?;
    let mut model = preset.config.clone();
    set(&mut model.layers, options.layers);
    set(&mut model.heads, options.heads);
    set(&mut model.width, options.width);
    model.mlp_width = options.mlp_width.or(model.mlp_width);
    set(&mut model.context, options.context);
    set(&mut model.dropout, options.dropout);
    model.validate().map_err(|error| invalid_model(&error))?;
    Ok(AnyConfig::Gpt2(model))
}

/// Returns the failure for invalid sizes, named by their flags.
pub(crate) fn invalid_model(error: &ConfigError) -> Failure {
    let flag = |(field, size): &(&str, usize)| {
        let has_flag = ["layers", "heads", "width", "mlp_width", "context"].contains(field);
        has_flag.then(|| format!("--{} {size}", field.replace('_', "-")))
    };
    let (sizes, help) = match error {
        ConfigError::Zero { field } => (vec![(*field, 0)], error.remedy()),
        ConfigError::HeadsDoNotDivideWidth { width, heads } => {
            (vec![("width", *width), ("heads", *heads)], error.remedy())
        }
        ConfigError::TooLarge { sizes, .. } => (sizes.clone(), "take a smaller one".to_string()),
        ConfigError::TooDeep { layers } => (vec![("layers", *layers)], error.remedy()),
        ConfigError::Dropout { dropout } => {
            return Failure::usage(format!("--dropout {dropout}: {error}")).help(error.remedy());
        }
        ConfigError::NotPositive { name, value } => {
            return Failure::usage(format!("{name} {value}: {error}")).help(error.remedy());
        }
        ConfigError::KeyHeads { .. } | ConfigError::OddDepth(_) => (Vec::new(), error.remedy()),
    };
    let flags: Vec<String> = sizes.iter().filter_map(flag).collect();
    let flags = if flags.is_empty() { "these sizes make no model".to_string() } else { flags.join(" ") };
    Failure::usage(format!("{flags}: {error}")).help(help)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_round_trips_to_the_last_bit() {
        for lr in [0.1 + 0.2, 3e-4, f64::from(f32::MIN_POSITIVE), 1.0 / 3.0] {
            let options = Options { lr: Some(lr), data: Some(vec!["/x y/ä".into()]), ..Options::default() };
            let settings = Settings::resolve(&options).unwrap();
            assert_eq!(Settings::parse(&settings.to_json()).unwrap(), settings);
        }
    }

    #[test]
    fn another_format_or_key_is_refused() {
        let json = Settings::resolve(&Options::default()).unwrap().to_json();
        let newer = json.replace("\"format\": 2", "\"format\": 3");
        assert_eq!(Settings::parse(&newer).unwrap_err(), "format 3 is not the 2 of this gradloom");
        let older = "{\"format\": 1, \"preset\": \"tiny\", \"model\": {}}";
        assert_eq!(Settings::parse(older).unwrap_err(), "format 1 is not the 2 of this gradloom");
        let other = json.replace("\"clip\"", "\"clap\"");
        assert!(Settings::parse(&other).unwrap_err().contains("unknown field `clap`"));
        assert_eq!(Settings::parse("{}").unwrap_err(), "it names no format");
    }

    #[test]
    fn wrong_numbers_name_their_flag() {
        let message = |options: Options| format!("{:?}", Settings::resolve(&options).unwrap_err());
        let none = Options::default;
        assert!(message(Options { steps: Some(0), ..none() }).contains("--steps 0: must be at least 1"));
        assert!(message(Options { lr: Some(-1.0), ..none() }).contains("--lr -1: must be above 0"));
        for (lr, expected) in [
            (0.0, "--lr 0: must be above 0"),
            (f64::NAN, "--lr NaN: must be a number"),
            (f64::INFINITY, "--lr inf: too large: must be at most 1e18"),
            (1e39, "--lr 1e39: too large: must be at most 1e18"),
            (1e-40, "--lr 1e-40: too small: must be at least 1.2e-38"),
        ] {
            let found = message(Options { lr: Some(lr), ..none() });
            assert!(found.contains(expected), "{found}");
        }
        assert!(message(Options { weight_decay: Some(1e39), ..none() }).contains("--weight-decay 1e39: too"));
        assert!(message(Options { clip: Some(-1.0), ..none() }).contains("--clip -1: must be 0 or more"));
        assert!(message(Options { data: Some(Vec::new()), ..none() }).contains("--data: the list is empty"));
        assert!(message(Options { clip: Some(f64::NAN), ..none() }).contains("--clip NaN"));
        assert!(message(Options { threads: Some(9999), ..none() }).contains("--threads 9999"));
        assert!(
            message(Options { batch: Some(usize::MAX), ..none() })
                .contains("a step of 18446744073709551615 texts")
        );
        let deep = message(Options { layers: Some(1_000_000_000), ..none() });
        assert!(deep.contains("--layers 1000000000: 1000000000 layers are more than"), "{deep}");
        let wide = message(Options { width: Some(100_000_000), ..none() });
        assert!(wide.contains("--width 100000000: the MLP of this configuration is too large"), "{wide}");
        assert!(message(Options { preset: Some("huge".into()), ..none() }).contains("tiny, small, gpt2"));
        let odd = message(Options { width: Some(10), heads: Some(4), ..none() });
        assert!(odd.contains("--width 10 --heads 4: width 10 is not divisible by 4 heads"), "{odd}");
    }
}
