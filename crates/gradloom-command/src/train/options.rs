//! Options of the command line, of configuration files, and of a run's `config.json`: defined once, with one
//! spelling, for all of them.

use crate::device::{DeviceName, Precision};
use crate::size::Size;
use gradloom_models::any_model::AnyConfig;
use serde::de::{SeqAccess, Visitor, value::SeqAccessDeserializer};
use serde::{Deserialize, Deserializer, Serialize};
use std::fmt;
use std::path::PathBuf;

/// The flags of `gradloom train` that are also keys of configuration files.
#[derive(clap::Args, Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Options {
    /// Text to train on: files, folders (all text files below) or patterns such as 'src/**/*.rs'; the last
    /// tenth is held out. Or tokens that `gradloom prepare`, llm.c or nanoGPT wrote: .bin files, or a folder
    /// with them, which may be larger than memory. [default: a text built into this program]
    #[arg(long, value_name = "PATH", num_args = 1.., help_heading = "Data")]
    #[serde(deserialize_with = "one_or_more")]
    pub(crate) data: Option<Vec<String>>,
    /// What the tokens are: bytes; a tokenizer.json or a folder with one (or with vocab.json and merges.txt);
    /// a GGUF file; or bpe:N, which trains one of N tokens on the text. The model's vocabulary follows from
    /// it. [default: bytes, or the tokenizer in the folder of tokens]
    #[arg(long, value_name = "TOKENIZER", help_heading = "Data")]
    pub(crate) tokenizer: Option<String>,

    /// Sizes of the model and defaults for its training: tiny, small, gpt2, gpt2-medium, gpt2-large, gpt2-xl.
    /// [default: tiny]
    #[arg(long, value_name = "NAME", help_heading = "Model")]
    pub(crate) preset: Option<String>,
    /// Number of blocks. [default: the preset's, as for the next five]
    #[arg(long, value_name = "N", help_heading = "Model")]
    pub(crate) layers: Option<usize>,
    /// Attention heads in each block; a divisor of the width.
    #[arg(long, value_name = "N", help_heading = "Model")]
    pub(crate) heads: Option<usize>,
    /// Length of the vector that stands for one position.
    #[arg(long, value_name = "N", help_heading = "Model")]
    pub(crate) width: Option<usize>,
    /// Length of the vectors between the two products of each MLP. [default: four times the width]
    #[arg(long, value_name = "N", help_heading = "Model")]
    pub(crate) mlp_width: Option<usize>,
    /// Longest text that the model sees at once, in tokens.
    #[arg(long, value_name = "N", help_heading = "Model")]
    pub(crate) context: Option<usize>,
    /// Probability of dropping an element while training; of GPT-2 alone.
    #[arg(long, value_name = "P", help_heading = "Model")]
    pub(crate) dropout: Option<f64>,
    /// Begin from this model instead of random weights: a run, a folder of transformers, or a GGUF file.
    /// Sizes and tokenizer are the model's; flags must not contradict them, but a Llama's context may be
    /// less. Defaults for the training: 1000 steps, batch 8, learning rate 0.0001.
    #[arg(long, value_name = "PATH", help_heading = "Model")]
    pub(crate) init: Option<String>,
    /// With --init: keep the model's weights as they are, and train adapters of this rank beside them (LoRA).
    /// The model that the run leaves has them added to its weights.
    #[arg(long, value_name = "RANK", help_heading = "Model")]
    pub(crate) lora: Option<usize>,
    /// Adapters' results are multiplied by this and divided by their rank. [default: the rank]
    #[arg(long, value_name = "ALPHA", help_heading = "Model")]
    pub(crate) lora_alpha: Option<f64>,
    /// Weights that have adapters: patterns of the names that `gradloom info --tensors` prints. [default: all
    /// products in the blocks]
    #[arg(long, value_name = "PATTERN", num_args = 1.., help_heading = "Model")]
    #[serde(deserialize_with = "one_or_more")]
    pub(crate) lora_targets: Option<Vec<String>>,

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
    pub(crate) device: Option<DeviceName>,
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
    /// Steps between measurements of the held-out loss. [default: a twentieth of the steps, and at least 80,
    /// so that they take a small part of the time]
    #[arg(long, value_name = "STEPS", help_heading = "Training")]
    pub(crate) eval_every: Option<u64>,

    /// Folder for what the run leaves behind. [default: runs/PRESET-1, or the next number that is free]
    #[arg(long, value_name = "DIR", help_heading = "Run folder")]
    #[serde(skip_serializing)]
    pub(crate) out: Option<PathBuf>,
    /// Steps between savings of the state, from which --resume goes on. It is written beside the next steps,
    /// and these wait only if the one before is not written yet. [default: as the time says: 50 times as long
    /// as a saving takes, at least 10 seconds, at most 10 minutes]
    #[arg(long, value_name = "STEPS", help_heading = "Run folder")]
    pub(crate) save_every: Option<u64>,

    /// Contents of a run's `config.json` besides its options; a new run makes its own.
    #[arg(skip)]
    pub(crate) run: Option<Record>,
}

/// Values that are fixed when a run begins, and are no flags.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Record {
    /// Version of the format of `config.json`.
    pub(crate) format: u32,
    /// Name of the tokenizer.
    pub(crate) tokenizer: String,
    /// Its fingerprint, if it has a file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) tokenizer_sha256: Option<String>,
    pub(crate) vocabulary: usize,
    /// The sizes of a model that a run began from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) model: Option<AnyConfig>,
    pub(crate) data_files: usize,
    pub(crate) data_bytes: usize,
    pub(crate) data_sha256: String,
}

impl Options {
    /// Returns these options, with those of `other` where there are none.
    pub(crate) fn or(self, other: Self) -> Self {
        macro_rules! merge {
            ($($field:ident)*) => { Self { $($field: self.$field.or(other.$field)),* } };
        }
        merge!(data tokenizer preset layers heads width mlp_width context dropout init lora lora_alpha lora_targets steps batch lr warmup
               weight_decay clip seed device adapter precision tune threads memory_budget eval_every
               out save_every run)
    }
}

/// Reads a path, or a list of paths.
fn one_or_more<'de, D: Deserializer<'de>>(from: D) -> std::result::Result<Option<Vec<String>>, D::Error> {
    struct Paths;
    impl<'de> Visitor<'de> for Paths {
        type Value = Option<Vec<String>>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a path in quotes or a list of them")
        }

        fn visit_unit<E>(self) -> std::result::Result<Self::Value, E> {
            Ok(None)
        }

        fn visit_str<E>(self, path: &str) -> std::result::Result<Self::Value, E> {
            Ok(Some(vec![path.to_string()]))
        }

        fn visit_seq<A: SeqAccess<'de>>(self, paths: A) -> std::result::Result<Self::Value, A::Error> {
            Vec::deserialize(SeqAccessDeserializer::new(paths)).map(Some)
        }
    }
    from.deserialize_any(Paths)
}
