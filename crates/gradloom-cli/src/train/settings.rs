//! Everything that decides a run, resolved and checked; the run folder's `config.json`.

use super::options::Options;
use crate::failure::{Failure, Result};
use gradloom_models::gpt2::{ConfigError, Gpt2Config, Preset};
use serde::{Deserialize, Serialize};

/// What a run does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Settings {
    /// Version of this format.
    pub(crate) format: u32,
    /// Preset that the sizes began from.
    pub(crate) preset: String,
    pub(crate) model: Gpt2Config,
    /// Name of the tokenizer.
    pub(crate) tokenizer: String,
    pub(crate) data: DataSource,
    pub(crate) training: Training,
}

/// Where the text comes from, and its fingerprint.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct DataSource {
    /// Absolute paths and patterns; none for the built-in text.
    pub(crate) paths: Vec<String>,
    pub(crate) bytes: usize,
    pub(crate) sha256: String,
}

/// Numbers of the training.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Training {
    pub(crate) steps: u64,
    pub(crate) batch: usize,
    pub(crate) lr: f64,
    pub(crate) warmup: u64,
    pub(crate) weight_decay: f64,
    /// 0 for none.
    pub(crate) clip: f64,
    pub(crate) seed: u64,
    /// `None`: as many as there are cores.
    pub(crate) threads: Option<usize>,
    pub(crate) eval_every: u64,
    pub(crate) save_every: u64,
}

/// The current version of `config.json`.
const FORMAT: u32 = 1;

/// Steps, batch and learning rate that suit a preset.
fn defaults(preset: &str) -> (u64, usize, f64) {
    match preset {
        "tiny" => (2000, 8, 2e-3),
        "small" => (5000, 32, 1e-3),
        _ => (10_000, 8, 3e-4),
    }
}

impl Settings {
    /// Settings of a new run; the data's fingerprint comes later.
    pub(crate) fn resolve(options: &Options) -> Result<Self> {
        let name = options.preset.as_deref().unwrap_or("tiny");
        let preset = Preset::find(name).ok_or_else(|| {
            Failure::usage(format!("--preset {name}: there is no preset of this name"))
                .help(format!("the presets are {}", Preset::names()))
        })?;
        let mut model = preset.config.clone();
        set(&mut model.layers, options.layers);
        set(&mut model.heads, options.heads);
        set(&mut model.width, options.width);
        set(&mut model.context, options.context);
        set(&mut model.dropout, options.dropout);
        model.validate().map_err(|error| invalid_model(&error))?;
        let (steps, batch, lr) = defaults(name);
        let steps = options.steps.unwrap_or(steps);
        let mut settings = Self {
            format: FORMAT,
            preset: name.to_string(),
            model,
            tokenizer: "bytes".to_string(),
            data: DataSource::default(),
            training: Training {
                steps,
                batch,
                lr,
                warmup: steps / 20,
                weight_decay: 0.1,
                clip: 1.0,
                seed: options.seed.unwrap_or(0),
                threads: None,
                eval_every: (steps / 20).max(1),
                save_every: (steps / 10).max(1),
            },
        };
        settings.change(options)?;
        Ok(settings)
    }

    /// Applies what may change between one part of a run and the next, and checks it.
    pub(crate) fn change(&mut self, options: &Options) -> Result<()> {
        let training = &mut self.training;
        set(&mut training.steps, options.steps);
        set(&mut training.batch, options.batch);
        set(&mut training.lr, options.lr);
        set(&mut training.warmup, options.warmup);
        set(&mut training.weight_decay, options.weight_decay);
        set(&mut training.clip, options.clip);
        set(&mut training.eval_every, options.eval_every);
        set(&mut training.save_every, options.save_every);
        training.threads = options.threads.or(training.threads);
        if let Some(paths) = &options.data {
            self.data.paths = paths.iter().map(|path| absolute(path)).collect();
        }
        self.training.check()?;
        self.check_batch()
    }

    /// The largest tensor of a step must be countable, with room for the rest of the arithmetic on sizes.
    fn check_batch(&self) -> Result<()> {
        let (batch, model) = (self.training.batch, &self.model);
        let widest = model.vocabulary.max(model.mlp_width()).max(model.context);
        let elements = batch.checked_mul(model.context).and_then(|n| n.checked_mul(widest));
        match elements {
            Some(n) if n <= 1 << 40 => Ok(()),
            _ => Err(Failure::usage(format!("--batch {batch}: too large for this model"))
                .help("halve it until the step fits into memory")),
        }
    }

    /// Reads settings back.
    pub(crate) fn parse(text: &str) -> std::result::Result<Self, String> {
        let settings: Self = serde_json::from_str(text).map_err(|error| error.to_string())?;
        if settings.format != FORMAT {
            return Err(format!("format {} is not the {FORMAT} of this gradloom", settings.format));
        }
        settings.model.validate().map_err(|error| error.to_string())?;
        Ok(settings)
    }

    /// The text of `config.json`.
    pub(crate) fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("settings are plain data") + "\n"
    }
}

impl Training {
    fn check(&self) -> Result<()> {
        let counts = [
            ("--steps", self.steps),
            ("--batch", self.batch as u64),
            ("--threads", self.threads.map_or(1, |n| n as u64)),
            ("--eval-every", self.eval_every),
            ("--save-every", self.save_every),
        ];
        if let Some((flag, _)) = counts.into_iter().find(|(_, n)| *n == 0) {
            return Err(Failure::usage(format!("{flag} 0: must be at least 1")));
        }
        const MOST_THREADS: usize = 1024;
        if let Some(threads) = self.threads.filter(|n| *n > MOST_THREADS) {
            return Err(Failure::usage(format!("--threads {threads}: more than {MOST_THREADS}"))
                .help("leave it out to use every core"));
        }
        // The step computes in float32.
        if !(self.lr > 0.0 && (self.lr as f32).is_finite()) {
            return Err(Failure::usage(format!("--lr {}: must be above 0, and less than 1e38", self.lr))
                .help("try 0.001"));
        }
        for (flag, value) in [("--weight-decay", self.weight_decay), ("--clip", self.clip)] {
            if !(value >= 0.0 && value.is_finite()) {
                return Err(
                    Failure::usage(format!("{flag} {value}: must be 0 or more")).help("0 turns it off")
                );
            }
        }
        Ok(())
    }
}

fn set<T: Copy>(value: &mut T, given: Option<T>) {
    if let Some(given) = given {
        *value = given;
    }
}

/// Paths are kept absolute, so that a run can be resumed from another folder.
fn absolute(path: &str) -> String {
    std::path::absolute(path)
        .ok()
        .and_then(|p| p.into_os_string().into_string().ok())
        .unwrap_or_else(|| path.to_string())
}

/// A wrong size, told by its flags.
pub(crate) fn invalid_model(error: &ConfigError) -> Failure {
    let flags = match error {
        ConfigError::Zero { field } => format!("--{field} 0"),
        ConfigError::HeadsDoNotDivideWidth { width, heads } => format!("--width {width} --heads {heads}"),
        ConfigError::Dropout { dropout } => format!("--dropout {dropout}"),
        ConfigError::TooLarge { .. } => "--layers, --width, --context".to_string(),
    };
    Failure::usage(format!("{flags}: {error}")).help(error.remedy())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_round_trips_to_the_last_bit() {
        for lr in [0.1 + 0.2, 3e-4, f64::MIN_POSITIVE, 1.0 / 3.0] {
            let options = Options { lr: Some(lr), data: Some(vec!["/x y/ä".into()]), ..Options::default() };
            let settings = Settings::resolve(&options).unwrap();
            assert_eq!(Settings::parse(&settings.to_json()).unwrap(), settings);
        }
    }

    #[test]
    fn another_format_or_key_is_refused() {
        let json = Settings::resolve(&Options::default()).unwrap().to_json();
        let newer = json.replace("\"format\": 1", "\"format\": 2");
        assert_eq!(Settings::parse(&newer).unwrap_err(), "format 2 is not the 1 of this gradloom");
        let other = json.replace("\"clip\"", "\"clap\"");
        assert!(Settings::parse(&other).unwrap_err().contains("unknown field `clap`"));
    }

    #[test]
    fn wrong_numbers_name_their_flag() {
        let message = |options: Options| format!("{:?}", Settings::resolve(&options).unwrap_err());
        let none = Options::default;
        assert!(message(Options { steps: Some(0), ..none() }).contains("--steps 0: must be at least 1"));
        assert!(message(Options { lr: Some(-1.0), ..none() }).contains("--lr -1: must be above 0"));
        assert!(message(Options { clip: Some(f64::NAN), ..none() }).contains("--clip NaN"));
        assert!(message(Options { threads: Some(9999), ..none() }).contains("--threads 9999"));
        assert!(message(Options { batch: Some(usize::MAX), ..none() }).contains("too large for this model"));
        assert!(message(Options { preset: Some("huge".into()), ..none() }).contains("tiny, small, gpt2"));
        let odd = message(Options { width: Some(10), heads: Some(4), ..none() });
        assert!(odd.contains("--width 10 --heads 4: width 10 is not divisible by 4 heads"), "{odd}");
    }
}
