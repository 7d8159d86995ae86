//! Names and layouts of tensors in Hugging Face's files.
//!
//! In: names in a GGUF file. Out: the names that the same tensors have in the safetensors files of
//! transformers' `GPT2LMHeadModel` (without the prefix `transformer.`) and `LlamaForCausalLM`, and where the
//! elements lie otherwise. Always holds: different names stay different.

use super::Gguf;
use super::error::{error, unread};
use gradloom_core::error::Result;

/// A kind of model that is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Architecture {
    /// GPT-2: `gpt2`.
    Gpt2,
    /// Llama 1 to 3 and models of their form, such as Mistral 7B: `llama`.
    Llama,
}

/// Layout of a tensor's elements in a GGUF file, compared with Hugging Face's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// The same layout.
    Same,
    /// The transposed matrix: GPT-2's linear layers are `[in, out]` at Hugging Face, and `[out, in]` in
    /// GGUF.
    Transposed,
    /// Another order of the rows of each query head: Hugging Face has the first halves of the pairs that a
    /// position rotates, then the second halves; llama.cpp has pair after pair.
    QueryPairs,
    /// The same for the heads of the keys.
    KeyPairs,
}

use Layout::{KeyPairs, QueryPairs, Same, Transposed};

const GPT2: [(&str, &str, Layout); 3] = [
    ("token_embd.weight", "wte.weight", Same),
    ("position_embd.weight", "wpe.weight", Same),
    ("output.weight", "lm_head.weight", Same),
];

/// Parts of GPT-2's blocks: names without `.weight` and `.bias`, and the layout of the weight.
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

    /// Returns the name in the metadata, which is also Hugging Face's `model_type`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Gpt2 => "gpt2",
            Self::Llama => "llama",
        }
    }

    /// Returns the name in Hugging Face's files of a tensor of a GGUF file, and its layout; `None` if there
    /// is no such tensor.
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
        // `00` would be a second name of block 0.
        let number = block.parse::<u32>().ok().filter(|number| number.to_string() == block)?;
        let (_, to, layout) = parts.iter().find(|(from, ..)| *from == part)?;
        let layout = if (*layout, kind) == (Transposed, "bias") { Same } else { *layout };
        Some((format!("{blocks}.{number}.{to}.{kind}"), layout))
    }
}

impl Gguf {
    /// Returns the kind of the model.
    ///
    /// # Errors
    /// When it is another than those that are read, or the file is one of several that have a model together.
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
