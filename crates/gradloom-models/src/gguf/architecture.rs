//! Names and layouts of tensors in Hugging Face files.
//!
//! In: names in a GGUF file. Out: the names of the same tensors in the safetensors files of transformers'
//! `GPT2LMHeadModel` (without the prefix `transformer.`) and `LlamaForCausalLM`, and differences in layout.
//! Invariant: different names map to different names.

use super::Gguf;
use super::error::{error, unread};
use gradloom_core::error::Result;

/// A supported model architecture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Architecture {
    /// GPT-2: `gpt2`.
    Gpt2,
    /// Llama 1 to 3 and models with the same architecture, such as Mistral 7B: `llama`.
    Llama,
}

/// Layout of a tensor in a GGUF file relative to Hugging Face's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// The same layout.
    Same,
    /// Transposed matrix: GPT-2's linear layers are `[in, out]` in Hugging Face files and `[out, in]` in
    /// GGUF.
    Transposed,
    /// Permuted rows within each query head. Rotary embeddings rotate pairs of rows: Hugging Face stores the
    /// first elements of all pairs, then the second ones; llama.cpp stores pair after pair.
    QueryPairs,
    /// Permuted rows within each key head, like [`Layout::QueryPairs`].
    KeyPairs,
}

use Layout::{KeyPairs, QueryPairs, Same, Transposed};

const GPT2: [(&str, &str, Layout); 3] = [
    ("token_embd.weight", "wte.weight", Same),
    ("position_embd.weight", "wpe.weight", Same),
    ("output.weight", "lm_head.weight", Same),
];

/// Tensors of GPT-2's layers: GGUF name and Hugging Face name, both without `.weight` and `.bias`, and the
/// layout of the weight.
const GPT2_PARTS: [(&str, &str, Layout); 6] = [
    ("attn_norm", "ln_1", Same),
    ("attn_qkv", "attn.c_attn", Transposed),
    ("attn_output", "attn.c_proj", Transposed),
    ("ffn_norm", "ln_2", Same),
    ("ffn_up", "mlp.c_fc", Transposed),
    ("ffn_down", "mlp.c_proj", Transposed),
];

const LLAMA: [(&str, &str, Layout); 3] = [
    ("token_embd.weight", "model.embed_tokens.weight", Same),
    ("output_norm.weight", "model.norm.weight", Same),
    ("output.weight", "lm_head.weight", Same),
];

const LLAMA_PARTS: [(&str, &str, Layout); 9] = [
    ("attn_norm", "input_layernorm", Same),
    ("attn_q", "self_attn.q_proj", QueryPairs),
    ("attn_k", "self_attn.k_proj", KeyPairs),
    ("attn_v", "self_attn.v_proj", Same),
    ("attn_output", "self_attn.o_proj", Same),
    ("ffn_norm", "post_attention_layernorm", Same),
    ("ffn_gate", "mlp.gate_proj", Same),
    ("ffn_up", "mlp.up_proj", Same),
    ("ffn_down", "mlp.down_proj", Same),
];

impl Architecture {
    /// All supported architectures.
    pub const ALL: [Self; 2] = [Self::Gpt2, Self::Llama];

    /// Returns the architecture's name in the metadata, which equals Hugging Face's `model_type`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Gpt2 => "gpt2",
            Self::Llama => "llama",
        }
    }

    /// Returns the Hugging Face name and the layout of a tensor in a GGUF file, or `None` if the architecture
    /// has no such tensor.
    pub fn hugging_face_name(self, name: &str) -> Option<(String, Layout)> {
        let (singles, parts, blocks) = match self {
            Self::Gpt2 => (&GPT2[..], &GPT2_PARTS[..], "h"),
            Self::Llama => (&LLAMA[..], &LLAMA_PARTS[..], "model.layers"),
        };
        if let Some((_, to, layout)) = singles.iter().find(|(from, ..)| *from == name) {
            return Some((to.to_string(), *layout));
        }
        let (part, kind) = name.rsplit_once('.').filter(|(_, kind)| matches!(*kind, "weight" | "bias"))?;
        if (self, part) == (Self::Gpt2, "output_norm") {
            return Some((format!("ln_f.{kind}"), Same));
        }
        let (block, part) = part.strip_prefix("blk.")?.split_once('.')?;
        // Reject numbers such as `00`, which would be a second name for layer 0.
        let number = block.parse::<u32>().ok().filter(|number| number.to_string() == block)?;
        let (_, to, layout) = parts.iter().find(|(from, ..)| *from == part)?;
        let layout = if (*layout, kind) == (Transposed, "bias") { Same } else { *layout };
        Some((format!("{blocks}.{number}.{to}.{kind}"), layout))
    }
}

impl Gguf {
    /// Returns the model's architecture.
    ///
    /// # Errors
    /// Returns an error if the architecture is not supported, or the file is one part of a split model.
    pub fn architecture(&self) -> Result<Architecture> {
        let name: &str = self.require("general.architecture")?;
        let found = Architecture::ALL.into_iter().find(|architecture| architecture.name() == name);
        let Some(architecture) = found else {
            let read = Architecture::ALL.map(Architecture::name).join(" and ");
            let message = format!("the model's architecture is `{name}`, of which none but {read} are read");
            return Err(unread(&self.name, message));
        };
        match self.get::<u32>("split.count")? {
            None | Some(0 | 1) => Ok(architecture),
            Some(count) => {
                Err(error(&self.name, format_args!("the file has one part of {count} of a model"))
                    .help("join the parts with llama.cpp's llama-gguf-split"))
            }
        }
    }
}
