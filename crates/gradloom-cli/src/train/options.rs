//! Options of the command line and of TOML files, defined once for both.

use crate::device::{Precision, Target};
use crate::failure::{Failure, Result};
use crate::size::Size;
use gradloom::runtime::regular_file::{self, Refusal};
use serde::de::{SeqAccess, Visitor, value::SeqAccessDeserializer};
use serde::{Deserialize, Deserializer};
use std::fmt;
use std::path::{Path, PathBuf};

/// The flags of `gradloom train` that are also keys of its configuration file.
#[derive(clap::Args, Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Options {
    /// Text to train on: files, folders (all text files below) or patterns such as 'src/**/*.rs'; the last
    /// tenth is held out. [default: a text built into this program]
    #[arg(long, value_name = "PATH", num_args = 1.., help_heading = "Data")]
    #[serde(deserialize_with = "one_or_more")]
    pub(crate) data: Option<Vec<String>>,

    /// Sizes of the model and defaults for its training: tiny, small, gpt2, gpt2-medium, gpt2-large, gpt2-xl.
    /// [default: tiny]
    #[arg(long, value_name = "NAME", help_heading = "Model")]
    pub(crate) preset: Option<String>,
    /// Number of blocks. [default: the preset's, as for the next four]
    #[arg(long, value_name = "N", help_heading = "Model")]
    pub(crate) layers: Option<usize>,
    /// Attention heads in each block; a divisor of the width.
    #[arg(long, value_name = "N", help_heading = "Model")]
    pub(crate) heads: Option<usize>,
    /// Length of the vector that stands for one position.
    #[arg(long, value_name = "N", help_heading = "Model")]
    pub(crate) width: Option<usize>,
    /// Longest text that the model sees at once, in tokens.
    #[arg(long, value_name = "N", help_heading = "Model")]
    pub(crate) context: Option<usize>,
    /// Probability of dropping an element while training.
    #[arg(long, value_name = "P", help_heading = "Model")]
    pub(crate) dropout: Option<f64>,

    /// Number of training steps in all. [tiny: 2000]
    #[arg(long, value_name = "N", help_heading = "Training")]
    pub(crate) steps: Option<u64>,
    /// Texts in each step. [tiny: 8]
    #[arg(long, value_name = "N", help_heading = "Training")]
    pub(crate) batch: Option<usize>,
    /// Highest learning rate; it falls along a cosine to a tenth of it. [tiny: 0.002]
    #[arg(long, value_name = "RATE", help_heading = "Training")]
    pub(crate) lr: Option<f64>,
    /// Steps over which the learning rate rises from 0. [default: a twentieth of the steps]
    #[arg(long, value_name = "STEPS", help_heading = "Training")]
    pub(crate) warmup: Option<u64>,
    /// Weight decay of AdamW, on matrices only. [default: 0.1]
    #[arg(long, value_name = "DECAY", help_heading = "Training")]
    pub(crate) weight_decay: Option<f64>,
    /// Largest norm of all gradients together; 0 for no limit. [default: 1]
    #[arg(long, value_name = "NORM", help_heading = "Training")]
    pub(crate) clip: Option<f64>,
    /// Decides initial weights, batches and dropout. [default: 0]
    #[arg(long, value_name = "N", help_heading = "Training")]
    pub(crate) seed: Option<u64>,
    /// Where it runs. [default: cpu]
    #[arg(long, value_enum, help_heading = "Training")]
    pub(crate) device: Option<Target>,
    /// Take the GPU whose name contains this; `gradloom devices` lists them.
    #[arg(long, value_name = "NAME", help_heading = "Training")]
    pub(crate) adapter: Option<String>,
    /// Type of what GPUs multiply and keep between kernels; the rest is f32 in either case. [default: f32]
    #[arg(long, value_enum, help_heading = "Training")]
    pub(crate) precision: Option<Precision>,
    /// Measure a few ways to compute each of a GPU's matrix products and kernels of attention, and take the
    /// fastest; they are kept in the user's cache folder, so that the next run with this flag measures
    /// nothing. `--tune=false` goes on without. [default: false]
    #[arg(
        long,
        value_name = "BOOL",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        help_heading = "Training"
    )]
    pub(crate) tune: Option<bool>,
    /// CPU threads; the result does not depend on it. [default: one for each core]
    #[arg(long, value_name = "N", help_heading = "Training")]
    pub(crate) threads: Option<usize>,
    /// Bytes that a step may take for everything, such as 512M or 2GiB; values are computed again instead of
    /// kept until it fits, and the result stays the same. 0 for no limit. [default: 0]
    #[arg(long, value_name = "BYTES", help_heading = "Training")]
    pub(crate) memory_budget: Option<Size>,
    /// Steps between measurements of the held-out loss. [default: a twentieth of the steps]
    #[arg(long, value_name = "STEPS", help_heading = "Training")]
    pub(crate) eval_every: Option<u64>,

    /// Folder for what the run leaves behind. [default: runs/PRESET-1, or the next number that is free]
    #[arg(long, value_name = "DIR", help_heading = "Run folder")]
    pub(crate) out: Option<PathBuf>,
    /// Steps between savings of the state, from which --resume goes on. [default: a tenth of the steps]
    #[arg(long, value_name = "STEPS", help_heading = "Run folder")]
    pub(crate) save_every: Option<u64>,
}

/// Most bytes of a configuration file.
const LARGEST: u64 = 1 << 20;

impl Options {
    /// Reads a TOML file whose keys are the flags' names.
    pub(crate) fn from_file(path: &Path) -> Result<Self> {
        let flag = format!("--config {}", path.display());
        let text = regular_file::read_to_string(path, LARGEST).map_err(|error| {
            Failure::usage(format!("{flag}: cannot be read: {error}"))
                .help(Refusal::of(&error).map_or("give a TOML file", Refusal::remedy))
        })?;
        toml::from_str(&text).map_err(|error| {
            let start = error.span().map_or(0, |span| span.start);
            let place = format!("{flag}: line {}", text[..start].matches('\n').count() + 1);
            let message = error.message();
            // The list of all keys belongs into the help, not into the message.
            if let Some((problem, keys)) = message.split_once(", expected one of ") {
                return Failure::usage(format!("{place}: {}", problem.replace("field", "key")))
                    .help(format!("the keys are those of the flags: {}", keys.replace('`', "")));
            }
            if let Some((problem, expected)) = message.split_once(", expected ") {
                let line = text[..start].rfind('\n').map_or(0, |newline| newline + 1);
                let key = text[line..].split('=').next().unwrap_or_default().trim();
                let (_, found) = problem.split_once(": ").unwrap_or(("", problem));
                return Failure::usage(format!("{place}: {key} must be {}, not {found}", in_words(expected)))
                    .help("give the value that the flag of the same name would have");
            }
            Failure::usage(format!("{place}: {}", message.replace('\n', ", ")))
                .help("each line is `key = value`, with the flags' names as keys: lr = 0.001")
        })
    }

    /// These options, and those of `other` where there are none.
    pub(crate) fn or(self, other: Self) -> Self {
        macro_rules! merge {
            ($($field:ident)*) => { Self { $($field: self.$field.or(other.$field)),* } };
        }
        merge!(data preset layers heads width context dropout steps batch lr warmup weight_decay clip seed
               device adapter precision tune threads memory_budget eval_every out save_every)
    }
}

/// The expected value in words, without the names that programs use for it.
fn in_words(expected: &str) -> &str {
    match expected {
        "u64" | "usize" => "a whole number from 0 up",
        "f64" => "a number",
        "a string" | "path string" => "text in quotes",
        other => other,
    }
}

/// A path, or a list of paths.
fn one_or_more<'de, D: Deserializer<'de>>(from: D) -> std::result::Result<Option<Vec<String>>, D::Error> {
    struct Paths;
    impl<'de> Visitor<'de> for Paths {
        type Value = Vec<String>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a path in quotes or a list of them")
        }

        fn visit_str<E>(self, path: &str) -> std::result::Result<Self::Value, E> {
            Ok(vec![path.to_string()])
        }

        fn visit_seq<A: SeqAccess<'de>>(self, paths: A) -> std::result::Result<Self::Value, A::Error> {
            Vec::deserialize(SeqAccessDeserializer::new(paths))
        }
    }
    from.deserialize_any(Paths).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Options> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        Options::from_file(file.path())
    }

    #[test]
    fn flags_win_over_the_file() {
        let file = read("layers = 2\nlr = 0.5\ndata = [\"a\", \"b\"]\nweight-decay = 0.0\n").unwrap();
        let flags = Options { lr: Some(0.1), ..Options::default() };
        let merged = flags.or(file);
        assert_eq!((merged.lr, merged.layers, merged.weight_decay), (Some(0.1), Some(2), Some(0.0)));
        assert_eq!(merged.data.unwrap(), ["a", "b"]);
    }

    #[test]
    fn an_unknown_key_is_named_with_its_line() {
        let failure = format!("{:?}", read("lr = 1.0\nlearning = 2\n").unwrap_err());
        assert!(failure.contains("line 2: unknown key `learning`"), "{failure}");
        assert!(failure.contains("the keys are those of the flags: data, preset, layers"), "{failure}");
    }

    #[test]
    fn a_wrong_value_is_named() {
        for (text, expected) in [
            ("steps = \"many\"", "line 1: steps must be a whole number from 0 up, not string \\\"many\\\""),
            ("\n\nbatch=-1", "line 3: batch must be a whole number from 0 up, not integer `-1`"),
            ("lr = true", "line 1: lr must be a number, not boolean `true`"),
            ("preset = 1", "line 1: preset must be text in quotes, not integer `1`"),
            ("data = 1", "line 1: data must be a path in quotes or a list of them, not integer `1`"),
            ("data = [1]", "line 1: data must be text in quotes, not integer `1`"),
            (
                "memory-budget = \"lots\"",
                "line 1: memory-budget must be a number of bytes such as \\\"512M\\\"",
            ),
            ("memory-budget = -5", "line 1: memory-budget must be a number of bytes such as \\\"512M\\\""),
            ("out = 1", "line 1: out must be text in quotes, not integer `1`"),
            ("lr = ", "line 1: "),
            ("lr 5", "line 1: "),
        ] {
            let failure = format!("{:?}", read(text).unwrap_err());
            assert!(failure.contains(expected), "{failure}");
        }
    }

    #[test]
    fn bytes_are_a_number_or_a_text() {
        assert_eq!(read("memory-budget = 4096").unwrap().memory_budget, Some(Size(4096)));
        assert_eq!(read("memory-budget = \"1.5M\"").unwrap().memory_budget, Some(Size(1_500_000)));
    }

    #[test]
    fn one_path_needs_no_list() {
        assert_eq!(read("data = \"a.txt\"").unwrap().data.unwrap(), ["a.txt"]);
        assert_eq!(read("data = []").unwrap().data.unwrap(), [""; 0]);
    }
}
