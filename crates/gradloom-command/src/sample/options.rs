//! The options of `gradloom sample`.

use crate::device::DeviceArguments;
use crate::failure::{Failure, Result};
use gradloom_models::decoding::Sampling;
use std::path::PathBuf;

/// Arguments of `gradloom sample`.
#[derive(clap::Args, Debug)]
#[command(after_long_help = EXAMPLES, allow_negative_numbers = true)]
pub(crate) struct Arguments {
    /// Folder of a run of `gradloom train`, its model.safetensors, a folder of transformers (config.json,
    /// model.safetensors), or a GGUF file.
    #[arg(value_name = "RUN")]
    pub(super) run: PathBuf,
    /// Text that the model goes on from; `-` for the standard input. Of one that is longer than the model's
    /// context the end is read, as much as leaves room for --tokens, but at least half a context.
    #[arg(long, value_name = "TEXT", default_value = "", allow_hyphen_values = true)]
    pub(super) prompt: String,
    /// File with the text that the model goes on from.
    #[arg(long, value_name = "FILE", conflicts_with = "prompt")]
    pub(super) prompt_file: Option<PathBuf>,
    /// File with a prompt on each line, all of which are gone on from side by side; `-` for the standard
    /// input.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["prompt", "prompt_file"])]
    pub(super) prompts: Option<PathBuf>,
    /// Print a JSON object for each text when it is written: prompt, text, tokens, seed.
    #[arg(long)]
    pub(super) json: bool,
    /// How many tokens to write. Beyond the model's context a text goes on from the last half of a context;
    /// with --beams or --draft it ends there.
    #[arg(long, value_name = "N", default_value_t = 200)]
    pub(super) tokens: u64,
    /// How many texts to write from each prompt, with as many seeds in a row.
    #[arg(long, value_name = "N", default_value_t = 1,
        value_parser = clap::value_parser!(u64).range(1..=1024))]
    pub(super) count: u64,
    /// How many texts are written side by side, at most.
    #[arg(long, value_name = "N", default_value_t = 16,
        value_parser = clap::value_parser!(u64).range(1..=256))]
    pub(super) batch: u64,
    /// With --json: the log-probability of each token, and of the N likeliest in its place.
    #[arg(long, value_name = "N", requires = "json")]
    pub(super) logprobs: Option<usize>,
    #[command(flatten)]
    pub(super) choice: Choice,
    /// Search for the likeliest text with N beams, instead of drawing tokens.
    #[arg(
        long,
        value_name = "N",
        value_parser = clap::value_parser!(u64).range(1..=256),
        conflicts_with_all = [
            "prompts", "count", "logprobs", "draft", "stop", "temperature", "top_k", "top_p", "min_p",
            "repetition_penalty", "presence_penalty", "frequency_penalty", "bias", "seed",
        ]
    )]
    pub(super) beams: Option<u64>,
    /// With --beams: above 0 favours longer texts, below 0 shorter ones.
    #[arg(long, value_name = "X", default_value_t = 1.0, requires = "beams")]
    pub(super) length_penalty: f64,
    /// A smaller model with the same tokens, which proposes what this one checks: faster, and drawn from the
    /// same distribution.
    #[arg(long, value_name = "RUN", conflicts_with_all = ["prompts", "count", "logprobs", "stop"])]
    pub(super) draft: Option<PathBuf>,
    /// With --draft: tokens that are proposed at a time.
    #[arg(
        long,
        value_name = "N",
        default_value_t = 4,
        value_parser = clap::value_parser!(u64).range(1..=64),
        requires = "draft"
    )]
    pub(super) drafted: u64,
    #[command(flatten)]
    pub(super) device: DeviceArguments,
}

/// Options that choose tokens and end a text.
#[derive(clap::Args, Debug)]
pub(super) struct Choice {
    /// 0 always takes the likeliest token, 1 follows the model, above 1 gets wilder.
    #[arg(long, value_name = "T", default_value_t = 0.8)]
    temperature: f64,
    /// Choose among the K likeliest tokens only. [default: all]
    #[arg(long, value_name = "K")]
    top_k: Option<usize>,
    /// Choose among the likeliest tokens that together have probability P.
    #[arg(long, value_name = "P", default_value_t = 1.0)]
    top_p: f64,
    /// Choose among tokens that are at least P times as likely as the likeliest one.
    #[arg(long, value_name = "P", default_value_t = 0.0)]
    min_p: f64,
    /// Above 1 makes tokens less likely that the text or the prompt has.
    #[arg(long, value_name = "X", default_value_t = 1.0)]
    repetition_penalty: f64,
    /// Subtracted from the logits of tokens that the text has.
    #[arg(long, value_name = "X", default_value_t = 0.0)]
    presence_penalty: f64,
    /// Subtracted from the logits of tokens as often as the text has them.
    #[arg(long, value_name = "X", default_value_t = 0.0)]
    frequency_penalty: f64,
    /// Add to a token's logit: `198:-inf` excludes token 198. May be given more than once.
    #[arg(long, value_name = "TOKEN:X")]
    bias: Vec<String>,
    /// Another seed, another text.
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// End the text before this string. May be given more than once. `\n` in it is a new line; there are also
    /// `\t`, `\r`, `\xHH` and `\u{HEX}`, and `\\` is a backslash.
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true, value_parser = unescaped)]
    pub(super) stop: Vec<String>,
}

const EXAMPLES: &str = "\
Examples:
  gradloom sample runs/tiny-1 --prompt \"The plan \"
  cat notes.txt | gradloom sample runs/tiny-1 --prompt -
  gradloom sample runs/tiny-1 --tokens 1000 --temperature 0.6 --top-p 0.95 --seed 7
  gradloom sample gpt2 --prompts questions.txt --count 4 --stop \"\\n\" --json
  gradloom sample gpt2-xl --draft gpt2 --prompt \"Once upon a time\"";

impl Arguments {
    /// Returns whether several texts may be written side by side.
    pub(super) fn is_many(&self) -> bool {
        self.prompts.is_some() || self.count > 1 || self.logprobs.is_some()
    }

    /// Returns whether tokens are chosen by more than a draw from the model: by beams, or with a draft.
    pub(super) fn is_search(&self) -> bool {
        self.beams.is_some() || self.draft.is_some()
    }
}

impl Choice {
    /// Returns the settings.
    pub(super) fn sampling(&self) -> Result<Sampling> {
        let sampling = Sampling {
            temperature: self.temperature,
            top_k: self.top_k,
            top_p: self.top_p,
            min_p: self.min_p,
            repetition: self.repetition_penalty,
            presence: self.presence_penalty,
            frequency: self.frequency_penalty,
            bias: self.bias.iter().map(|given| bias(given)).collect::<Result<_>>()?,
            seed: self.seed,
        };
        sampling.validate()?;
        Ok(sampling)
    }
}

/// Returns the text of a flag in which a backslash begins an escape, as shells hand it on as it is.
fn unescaped(given: &str) -> std::result::Result<String, String> {
    let (mut text, mut rest) = (String::new(), given);
    while let Some(at) = rest.find('\\') {
        text.push_str(&rest[..at]);
        let escape = &rest[at + 1..];
        let digits = match escape.chars().next() {
            Some('x') => escape.get(1..3).map(|digits| (digits, 3)),
            Some('u') => {
                escape.strip_prefix("u{").and_then(|hex| hex.split_once('}')).map(|(d, _)| (d, d.len() + 3))
            }
            _ => None,
        };
        let number = |digits: &str| {
            digits.bytes().all(|b| b.is_ascii_hexdigit()).then(|| u32::from_str_radix(digits, 16).ok())?
        };
        let (c, length) = match (escape.chars().next(), digits) {
            (Some('n'), _) => (Some('\n'), 1),
            (Some('t'), _) => (Some('\t'), 1),
            (Some('r'), _) => (Some('\r'), 1),
            (Some('\\'), _) => (Some('\\'), 1),
            // Above ASCII, a byte of two digits would be half a character.
            (Some('x'), Some((digits, length))) => {
                (number(digits).filter(|n| *n < 128).and_then(char::from_u32), length)
            }
            (Some('u'), Some((digits, length))) => (number(digits).and_then(char::from_u32), length),
            _ => (None, 0),
        };
        let Some(c) = c else {
            return Err(format!(
                "\\{} is no escape: there are \\n, \\t, \\r, \\\\, \\xHH up to 7f, and \\u{{HEX}}; write \\\\ for a backslash",
                escape.chars().take(1).collect::<String>()
            ));
        };
        text.push(c);
        rest = &escape[length..];
    }
    text.push_str(rest);
    Ok(text)
}

/// Returns a token and the number that is added to its logit.
fn bias(given: &str) -> Result<(i32, f64)> {
    let parsed = given.split_once(':').and_then(|(id, x)| Some((id.parse().ok()?, x.parse().ok()?)));
    parsed.ok_or_else(|| {
        Failure::usage(format!("--bias {given:?}: this is no token and number"))
            .help("give the number of a token and what to add: --bias 198:-2.5; -inf excludes it")
    })
}
