//! The Llama model: a token embedding, pre-norm blocks, and an output layer.
//!
//! Parameter names are Hugging Face's (`model.layers.0.self_attn.q_proj.weight`, ..). Linear weights are
//! `[in, out]` here and `[out, in]` in Hugging Face files.

use super::LlamaConfig;
use super::rotary::Turns;
use crate::gpt2::ConfigError;
use crate::language_model::{Attend, LanguageModel, Sizes};
use gradloom_core::nn::{Embedding, Init, Linear, Module, RmsNorm};
use gradloom_core::trace::{Tensor, checkpoint};

/// A decoder-only transformer with RMS normalization, rotary embeddings, grouped-query attention and gated
/// MLPs: Touvron et al., "LLaMA" (2023).
///
/// Weights are initialized from a normal distribution with standard deviation 0.02.
#[derive(Debug, Module)]
pub struct Llama {
    /// All layers except the output layer.
    pub model: Layers,
    /// Output layer `[width, vocabulary]`, unless it is tied to the token embedding.
    pub lm_head: Option<Linear>,
    #[module(skip)]
    config: LlamaConfig,
    #[module(skip)]
    checkpoint_blocks: bool,
}

/// The token embedding, the transformer blocks and the final normalization.
#[derive(Debug, Module)]
pub struct Layers {
    /// Token embedding `[vocabulary, width]`.
    pub embed_tokens: Embedding,
    /// Transformer blocks in order.
    pub layers: Vec<Block>,
    /// Final normalization.
    pub norm: RmsNorm,
}

/// A transformer block: normalization and attention, then normalization and an MLP, with a residual
/// connection around each of the two pairs.
#[derive(Debug, Module)]
pub struct Block {
    /// Normalization before attention.
    pub input_layernorm: RmsNorm,
    /// Causal self-attention.
    pub self_attn: Attention,
    /// Normalization before the MLP.
    pub post_attention_layernorm: RmsNorm,
    /// MLP: `width -> mlp_width -> width`.
    pub mlp: Mlp,
}

/// Attention with rotary embedding of queries and keys.
#[derive(Debug, Module)]
pub struct Attention {
    /// Query projection `[width, heads · depth]`.
    pub q_proj: Linear,
    /// Key projection `[width, key heads · depth]`.
    pub k_proj: Linear,
    /// Value projection `[width, key heads · depth]`.
    pub v_proj: Linear,
    /// Output projection `[heads · depth, width]`.
    pub o_proj: Linear,
    #[module(skip)]
    heads: usize,
    #[module(skip)]
    key_heads: usize,
}

/// A gated MLP, `down(silu(gate(x)) · up(x))`: Shazeer, "GLU Variants Improve Transformer" (2020).
#[derive(Debug, Module)]
pub struct Mlp {
    /// Gate projection `[width, mlp_width]`.
    pub gate_proj: Linear,
    /// Up projection `[width, mlp_width]`.
    pub up_proj: Linear,
    /// Down projection `[mlp_width, width]`.
    pub down_proj: Linear,
}

const INIT: Init = Init::Normal { std: 0.02 };

fn linear(inputs: usize, outputs: usize, bias: bool) -> Linear {
    let layer = if bias { Linear::new(inputs, outputs) } else { Linear::no_bias(inputs, outputs) };
    layer.init(INIT)
}

impl Llama {
    /// Creates a model.
    ///
    /// # Errors
    /// Returns an error if the configuration is invalid; see [`LlamaConfig::validate`].
    pub fn new(config: &LlamaConfig) -> Result<Self, ConfigError> {
        config.validate()?;
        let model = Layers {
            embed_tokens: Embedding::new(config.vocabulary, config.width).init(INIT),
            layers: (0..config.layers).map(|_| Block::new(config)).collect(),
            norm: norm(config),
        };
        let lm_head = (!config.tied).then(|| linear(config.width, config.vocabulary, false));
        Ok(Self { model, lm_head, config: config.clone(), checkpoint_blocks: false })
    }

    /// Checkpoints every block: training stores only the blocks' inputs and recomputes the rest. See
    /// [`checkpoint`].
    #[must_use]
    pub fn checkpoint_blocks(mut self) -> Self {
        self.checkpoint_blocks = true;
        self
    }

    /// Returns the model's configuration.
    pub fn config(&self) -> &LlamaConfig {
        &self.config
    }

    /// Returns the mean cross-entropy in nats. `ids` is i32 `[batch, time]`; `targets` is either i32
    /// `[batch, time]` or rows of probabilities, f32 `[batch, time, vocabulary]`. See
    /// [`Tensor::cross_entropy`].
    #[track_caller]
    pub fn loss(&self, ids: Tensor, targets: Tensor) -> Tensor {
        self.forward(ids).cross_entropy(targets)
    }
}

impl LanguageModel for Llama {
    fn sizes(&self) -> Sizes {
        let LlamaConfig { vocabulary, context, layers, heads, key_heads, depth, window, .. } = self.config;
        Sizes { vocabulary, context, layers, heads, key_heads, depth, window }
    }

    #[track_caller]
    fn hidden(&self, ids: Tensor, positions: Tensor, attend: &mut Attend<'_>) -> Tensor {
        let turns = self.config.rotary.turns(positions, self.config.depth);
        let blocks = self.model.layers.iter().enumerate();
        let mixed = blocks.fold(self.model.embed_tokens.forward(ids), |x, (layer, block)| {
            let mut forward = || block.forward(x, turns, |parts| attend(layer, parts));
            if self.checkpoint_blocks { checkpoint(forward) } else { forward() }
        });
        self.model.norm.forward(mixed)
    }

    fn logits(&self, hidden: Tensor) -> Tensor {
        match &self.lm_head {
            Some(head) => head.forward(hidden),
            None => hidden.matmul(self.model.embed_tokens.weight.tensor().transpose(0, 1)),
        }
    }
}

fn norm(config: &LlamaConfig) -> RmsNorm {
    RmsNorm { epsilon: config.epsilon, ..RmsNorm::new(config.width) }
}

impl Block {
    fn new(config: &LlamaConfig) -> Self {
        let LlamaConfig { width, mlp_width, heads, key_heads, depth, .. } = *config;
        let attention = |inputs, outputs| linear(inputs, outputs, config.attention_bias);
        let mlp = |inputs, outputs| linear(inputs, outputs, config.mlp_bias);
        Self {
            input_layernorm: norm(config),
            self_attn: Attention {
                q_proj: attention(width, heads * depth),
                k_proj: attention(width, key_heads * depth),
                v_proj: attention(width, key_heads * depth),
                o_proj: attention(heads * depth, width),
                heads,
                key_heads,
            },
            post_attention_layernorm: norm(config),
            mlp: Mlp {
                gate_proj: mlp(width, mlp_width),
                up_proj: mlp(width, mlp_width),
                down_proj: mlp(mlp_width, width),
            },
        }
    }

    fn forward(&self, x: Tensor, turns: Turns, attend: impl FnOnce([Tensor; 3]) -> Tensor) -> Tensor {
        let x = x + self.self_attn.forward(self.input_layernorm.forward(x), turns, attend);
        x + self.mlp.forward(self.post_attention_layernorm.forward(x))
    }
}

impl Attention {
    fn forward(&self, x: Tensor, turns: Turns, attend: impl FnOnce([Tensor; 3]) -> Tensor) -> Tensor {
        let q = turns.of(self.q_proj.forward(x).split_heads(self.heads));
        let k = turns.of(self.k_proj.forward(x).split_heads(self.key_heads));
        let v = self.v_proj.forward(x).split_heads(self.key_heads);
        self.o_proj.forward(attend([q, k, v]).merge_heads())
    }
}

impl Mlp {
    fn forward(&self, x: Tensor) -> Tensor {
        self.down_proj.forward(self.gate_proj.forward(x).silu() * self.up_proj.forward(x))
    }
}
