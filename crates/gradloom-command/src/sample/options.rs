//! Options of `gradloom sample`.

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
    /// Text to continue; `-` reads it from the standard input. A text longer than the model's context is cut
    /// to its end, which leaves room for --tokens but is at least half a context.
    #[arg(long, value_name = "TEXT", default_value = "", allow_hyphen_values = true)]
    pub(super) prompt: String,
    /// File with the text to continue.
    #[arg(long, value_name = "FILE", conflicts_with = "prompt")]
    pub(super) prompt_file: Option<PathBuf>,
    /// File with a prompt on each line, which are continued in parallel; `-` for the standard input.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["prompt", "prompt_file"])]
    pub(super) prompts: Option<PathBuf>,
    /// Print a JSON object for each finished text: prompt, text, tokens, seed.
    #[arg(long)]
    pub(super) json: bool,
    /// Number of tokens to generate. Beyond the model's context, a text is continued from the last half of a
    /// context; with --beams or --draft it ends there.
    #[arg(long, value_name = "N", default_value_t = 200)]
    pub(super) tokens: u64,
    /// Number of texts to generate from each prompt, with consecutive seeds.
    #[arg(long, value_name = "N", default_value_t = 1,
        value_parser = clap::value_parser!(u64).range(1..=1024))]
    pub(super) count: u64,
    /// Maximum number of texts that are generated in parallel.
    #[arg(long, value_name = "N", default_value_t = 16,
        value_parser = clap::value_parser!(u64).range(1..=256))]
    pub(super) batch: u64,
    /// With --json, print the log-probability of each token, and of the N most likely in its place.
    #[arg(long, value_name = "N", requires = "json")]
    pub(super) logprobs: Option<usize>,
    #[command(flatten)]
    pub(super) choice: Choice,
    /// Search for the most likely text with N beams, instead of drawing tokens.
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
    /// With --beams, favour longer texts if above 0, and shorter ones if below.
    #[arg(long, value_name = "X", default_value_t = 1.0, requires = "beams")]
    pub(super) length_penalty: f64,
    /// Smaller model with the same tokens, which proposes tokens for this one to check: faster, and drawn
    /// from the same distribution.
    #[arg(long, value_name = "RUN", conflicts_with_all = ["prompts", "count", "logprobs", "stop"])]
    pub(super) draft: Option<PathBuf>,
    /// With --draft, the number of tokens to propose at a time.
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
    /// Sampling temperature: 0 always takes the most likely token, 1 follows the model, more is more random.
    #[arg(long, value_name = "T", default_value_t = 0.8)]
    temperature: f64,
    /// Draw only from the K most likely tokens. [default: all]
    #[arg(long, value_name = "K")]
    top_k: Option<usize>,
    /// Draw only from the most likely tokens whose probabilities add up to P.
    #[arg(long, value_name = "P", default_value_t = 1.0)]
    top_p: f64,
    /// Draw only from tokens at least P times as likely as the most likely one.
    #[arg(long, value_name = "P", default_value_t = 0.0)]
    min_p: f64,
    /// Penalty that makes tokens in the text or the prompt less likely if above 1.
    #[arg(long, value_name = "X", default_value_t = 1.0)]
    repetition_penalty: f64,
    /// Number that is subtracted from the logits of tokens in the text.
    #[arg(long, value_name = "X", default_value_t = 0.0)]
    presence_penalty: f64,
    /// Number that is subtracted from the logit of a token for each time that it is in the text.
    #[arg(long, value_name = "X", default_value_t = 0.0)]
    frequency_penalty: f64,
    /// Number that is added to a token's logit: `198:-inf` excludes token 198. May be repeated.
    #[arg(long, value_name = "TOKEN:X")]
    bias: Vec<String>,
    /// Seed of the random numbers.
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// End the text before this string. May be repeated. The escapes `\n`, `\t`, `\r`, `\\`, `\xHH` and
    /// `\u{HEX}` are supported.
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
    /// Returns `true` if several texts may be generated in parallel.
    pub(super) fn is_many(&self) -> bool {
        self.prompts.is_some() || self.count > 1 || self.logprobs.is_some()
    }

    /// Returns `true` if tokens are chosen by a beam search or with a draft model.
    pub(super) fn is_search(&self) -> bool {
        self.beams.is_some() || self.draft.is_some()
    }
}

impl Choice {
    /// Returns the checked sampling settings.
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

/// Replaces the escapes in the text of a flag, since shells pass backslashes on.
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
            // Accept only ASCII, because a byte above it would be only a part of a character.
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

/// Parses a token and the number to add to its logit.
fn bias(given: &str) -> Result<(i32, f64)> {
    let parsed = given.split_once(':').and_then(|(id, x)| Some((id.parse().ok()?, x.parse().ok()?)));
    parsed.ok_or_else(|| {
        Failure::usage(format!("--bias {given:?}: this is no token and number"))
            .help("give the number of a token and what to add: --bias 198:-2.5; -inf excludes it")
    })
}
