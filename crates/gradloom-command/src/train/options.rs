//! Options of the command line, of configuration files, and of a run's `config.json`, defined once for all of
//! them with the same names.

use crate::device::{DeviceName, Precision};
use crate::size::Size;
use gradloom_models::any_model::AnyConfig;
use serde::de::{SeqAccess, Visitor, value::SeqAccessDeserializer};
use serde::{Deserialize, Deserializer, Serialize};
use std::fmt;
use std::path::PathBuf;

/// Flags of `gradloom train` that are also keys of configuration files.
#[derive(clap::Args, Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Options {
    /// Text to train on: files, folders (all text files below) or patterns such as 'src/**/*.rs'; the last
    /// tenth is held out. Or tokens written by `gradloom prepare`, llm.c or nanoGPT: .bin files, or a folder
    /// of them, which may be larger than memory. [default: a text built into this program]
    #[arg(long, value_name = "PATH", num_args = 1.., help_heading = "Data")]
    #[serde(deserialize_with = "one_or_more")]
    pub(crate) data: Option<Vec<String>>,
    /// Tokenizer: bytes; a tokenizer.json or a folder with one (or with vocab.json and merges.txt); a GGUF
    /// file; or bpe:N, which trains one of N tokens on the text. It determines the model's vocabulary.
    /// [default: bytes, or the tokenizer in the folder of tokens]
    #[arg(long, value_name = "TOKENIZER", help_heading = "Data")]
    pub(crate) tokenizer: Option<String>,

    /// Sizes of the model and defaults for its training: tiny, small, gpt2, gpt2-medium, gpt2-large, gpt2-xl.
    /// [default: tiny]
    #[arg(long, value_name = "NAME", help_heading = "Model")]
    pub(crate) preset: Option<String>,
    /// Number of blocks. [default: the preset's, also for the next five options]
    #[arg(long, value_name = "N", help_heading = "Model")]
    pub(crate) layers: Option<usize>,
    /// Number of attention heads in each block, a divisor of the width.
    #[arg(long, value_name = "N", help_heading = "Model")]
    pub(crate) heads: Option<usize>,
    /// Length of the vector for each position.
    #[arg(long, value_name = "N", help_heading = "Model")]
    pub(crate) width: Option<usize>,
    /// Length of the vectors between the two products of each MLP. [default: four times the width]
    #[arg(long, value_name = "N", help_heading = "Model")]
    pub(crate) mlp_width: Option<usize>,
    /// Maximum number of tokens that the model reads at a time.
    #[arg(long, value_name = "N", help_heading = "Model")]
    pub(crate) context: Option<usize>,
    /// Probability of dropping an element in training; GPT-2 only.
    #[arg(long, value_name = "P", help_heading = "Model")]
    pub(crate) dropout: Option<f64>,
    /// Start from this model instead of random weights: a run, a folder of transformers, or a GGUF file.
    /// Sizes and tokenizer are the model's; flags must not contradict them, but a Llama's context may be
    /// reduced. Defaults for the training: 1000 steps, batch 8, learning rate 0.0001.
    #[arg(long, value_name = "PATH", help_heading = "Model")]
    pub(crate) init: Option<String>,
    /// With --init, freeze the model's weights and train adapters of this rank (LoRA). In the model that the
    /// run writes, they are added to its weights.
    #[arg(long, value_name = "RANK", help_heading = "Model")]
    pub(crate) lora: Option<usize>,
    /// Factor of the adapters' results, which are divided by their rank. [default: the rank]
    #[arg(long, value_name = "ALPHA", help_heading = "Model")]
    pub(crate) lora_alpha: Option<f64>,
    /// Weights that get adapters: patterns of the names that `gradloom info --tensors` prints. [default: all
    /// products in the blocks]
    #[arg(long, value_name = "PATTERN", num_args = 1.., help_heading = "Model")]
    #[serde(deserialize_with = "one_or_more")]
    pub(crate) lora_targets: Option<Vec<String>>,

    /// Total number of training steps. [tiny: 2000]
    #[arg(long, value_name = "N", help_heading = "Training")]
    pub(crate) steps: Option<u64>,
    /// Number of texts in each step. [tiny: 8]
    #[arg(long, value_name = "N", help_heading = "Training")]
    pub(crate) batch: Option<usize>,
    /// Maximum learning rate; it falls along a cosine to a tenth of it. [tiny: 0.002]
    #[arg(long, value_name = "RATE", help_heading = "Training")]
    pub(crate) lr: Option<f64>,
    /// Number of steps in which the learning rate rises from 0. [default: a twentieth of the steps]
    #[arg(long, value_name = "STEPS", help_heading = "Training")]
    pub(crate) warmup: Option<u64>,
    /// Weight decay of AdamW, on matrices only. [default: 0.1]
    #[arg(long, value_name = "DECAY", help_heading = "Training")]
    pub(crate) weight_decay: Option<f64>,
    /// Maximum norm of all gradients together; 0 for no limit. [default: 1]
    #[arg(long, value_name = "NORM", help_heading = "Training")]
    pub(crate) clip: Option<f64>,
    /// Seed of the initial weights, batches and dropout. [default: 0]
    #[arg(long, value_name = "N", help_heading = "Training")]
    pub(crate) seed: Option<u64>,
    /// Device to run on. [default: cpu]
    #[arg(long, value_enum, help_heading = "Training")]
    pub(crate) device: Option<DeviceName>,
    /// Use the GPU whose name contains this; `gradloom devices` lists them.
    #[arg(long, value_name = "NAME", help_heading = "Training")]
    pub(crate) adapter: Option<String>,
    /// Type of the values that are multiplied and that GPUs keep between kernels; all others are f32. The CPU
    /// has f32 and bf16. [default: f32]
    #[arg(long, value_enum, help_heading = "Training")]
    pub(crate) precision: Option<Precision>,
    /// Measure several kernels for each matrix product and attention on a GPU, and use the fastest. The
    /// choices are kept in the user's cache folder, so that the next run with this flag measures nothing.
    /// `--tune=false` turns it off. [default: false]
    #[arg(
        long,
        value_name = "BOOL",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        help_heading = "Training"
    )]
    pub(crate) tune: Option<bool>,
    /// Number of CPU threads; the result does not depend on it. [default: one for each core]
    #[arg(long, value_name = "N", help_heading = "Training")]
    pub(crate) threads: Option<usize>,
    /// Maximum memory of a step, such as 512M or 2GiB; values are recomputed instead of kept until it fits.
    /// Sums may differ in their last bits. 0 for no limit. [default: 0]
    #[arg(long, value_name = "BYTES", help_heading = "Training")]
    pub(crate) memory_budget: Option<Size>,
    /// Number of steps between measurements of the held-out loss. [default: a twentieth of the steps, and at
    /// least 80, so that they take a small part of the time]
    #[arg(long, value_name = "STEPS", help_heading = "Training")]
    pub(crate) eval_every: Option<u64>,

    /// Folder for the files of the run. [default: runs/PRESET-1, or the next number that is free]
    #[arg(long, value_name = "DIR", help_heading = "Run folder")]
    #[serde(skip_serializing)]
    pub(crate) out: Option<PathBuf>,
    /// Number of steps between saves of the state, from which --resume continues. It is written in parallel
    /// with the next steps, which wait only if the previous state is still being written. [default: by time,
    /// 50 times as long as a save takes, at least 10 seconds, at most 10 minutes]
    #[arg(long, value_name = "STEPS", help_heading = "Run folder")]
    pub(crate) save_every: Option<u64>,

    /// Contents of a run's `config.json` other than its options; a new run has its own.
    #[arg(skip)]
    pub(crate) run: Option<Record>,
}

/// Values that are fixed when a run starts and have no flags.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Record {
    /// Version of the format of `config.json`.
    pub(crate) format: u32,
    pub(crate) tokenizer: String,
    /// Fingerprint of the tokenizer, if it has a file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) tokenizer_sha256: Option<String>,
    pub(crate) vocabulary: usize,
    /// Sizes of the model that a run started from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) model: Option<AnyConfig>,
    pub(crate) data_files: usize,
    pub(crate) data_bytes: usize,
    pub(crate) data_sha256: String,
}

impl Options {
    /// Returns these options, with missing ones taken from `other`.
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
