//! The GPT-2 model: embeddings, pre-LayerNorm blocks, and an output layer.
//!
//! Parameter names (`wte.weight`, `h.0.attn.c_attn.weight`, ..) and layouts are Hugging Face's: linear
//! weights are `[in, out]`.

use super::{ConfigError, Gpt2Config};
use crate::language_model::{Attend, LanguageModel, Sizes, causal};
use gradloom_core::nn::{CausalSelfAttention, Dropout, Embedding, Init, LayerNorm, Linear, Module};
use gradloom_core::trace::{Tensor, checkpoint};

/// GPT-2, a decoder-only transformer: Radford et al. (2019).
///
/// Weights are initialized from a normal distribution with standard deviation 0.02, scaled by
/// `1/sqrt(2·layers)` for the last layer of each residual branch; biases are 0 and gains 1. During training,
/// dropout is applied after the embedding, to the attention weights, and at the end of each residual branch.
#[derive(Debug, Module)]
pub struct Gpt2 {
    /// Token embedding `[vocabulary, width]`. Its transpose is the output layer unless `lm_head` is present.
    pub wte: Embedding,
    /// Position embedding `[context, width]`.
    pub wpe: Embedding,
    dropout: Dropout,
    /// Transformer blocks in order.
    pub h: Vec<Block>,
    /// Final layer normalization.
    pub ln_f: LayerNorm,
    /// Separate output layer `[vocabulary, width]`, if the model is not tied.
    pub lm_head: Option<Embedding>,
    #[module(skip)]
    config: Gpt2Config,
    #[module(skip)]
    checkpoint_blocks: bool,
}

/// A transformer block: normalization and attention, then normalization and an MLP, with a residual
/// connection around each of the two pairs.
#[derive(Debug, Module)]
pub struct Block {
    /// Layer normalization before attention.
    pub ln_1: LayerNorm,
    /// Attention: a projection `width -> 3·width`, attention, and a projection `width -> width`.
    pub attn: CausalSelfAttention,
    /// Layer normalization before the MLP.
    pub ln_2: LayerNorm,
    /// MLP: `width -> hidden -> width`.
    pub mlp: Mlp,
    dropout: Dropout,
}

/// Two linear layers with the tanh approximation of GELU between them.
#[derive(Debug, Module)]
pub struct Mlp {
    /// First layer `[width, hidden]`.
    pub c_fc: Linear,
    /// Second layer `[hidden, width]`.
    pub c_proj: Linear,
}

/// Standard deviation of the initial weights.
const DEVIATION: f64 = 0.02;

impl Gpt2 {
    /// Creates a model.
    ///
    /// # Errors
    /// Returns an error if the configuration is invalid; see [`Gpt2Config::validate`].
    pub fn new(config: &Gpt2Config) -> Result<Self, ConfigError> {
        config.validate()?;
        let normal = Init::Normal { std: DEVIATION };
        Ok(Self {
            wte: Embedding::new(config.vocabulary, config.width).init(normal.clone()),
            wpe: Embedding::new(config.context, config.width).init(normal.clone()),
            dropout: Dropout::new(config.dropout),
            h: (0..config.layers).map(|_| Block::new(config)).collect(),
            ln_f: LayerNorm { epsilon: config.epsilon, ..LayerNorm::new(config.width) },
            lm_head: (!config.tied)
                .then(|| Embedding::new(config.vocabulary, config.width).init(normal.clone())),
            config: config.clone(),
            checkpoint_blocks: false,
        })
    }

    /// Checkpoints every block: training stores only the blocks' inputs and recomputes the rest for the
    /// gradients.
    ///
    /// This takes about a third more computation for a fraction of the memory. The results are bit-identical.
    /// See [`checkpoint`].
    pub fn checkpoint_blocks(mut self) -> Self {
        self.checkpoint_blocks = true;
        self
    }

    /// Returns the model's configuration.
    pub fn config(&self) -> &Gpt2Config {
        &self.config
    }

    /// Returns the logits of the token after each position, `[batch, time, vocabulary]`, for i32 ids
    /// `[batch, time]`, where `time` is at most the context length.
    #[track_caller]
    pub fn forward(&self, ids: Tensor) -> Tensor {
        LanguageModel::forward(self, ids)
    }

    /// Returns the mean cross-entropy in nats. `ids` is i32 `[batch, time]`; `targets` is either i32
    /// `[batch, time]` or rows of probabilities, f32 `[batch, time, vocabulary]`. See
    /// [`Tensor::cross_entropy`].
    #[track_caller]
    pub fn loss(&self, ids: Tensor, targets: Tensor) -> Tensor {
        self.forward(ids).cross_entropy(targets)
    }

    fn blocks(&self, embedded: Tensor, attend: &mut Attend<'_>) -> Tensor {
        let blocks = self.h.iter().enumerate();
        let mixed = blocks.fold(self.dropout.forward(embedded), |x, (layer, block)| {
            let mut forward = || block.forward(x, |parts| attend(layer, parts));
            if self.checkpoint_blocks { checkpoint(forward) } else { forward() }
        });
        self.ln_f.forward(mixed)
    }
}

impl LanguageModel for Gpt2 {
    fn sizes(&self) -> Sizes {
        let Gpt2Config { vocabulary, context, width, heads, layers, .. } = self.config;
        Sizes { vocabulary, context, layers, heads, key_heads: heads, depth: width / heads, window: None }
    }

    #[track_caller]
    fn hidden(&self, ids: Tensor, positions: Tensor, attend: &mut Attend<'_>) -> Tensor {
        self.blocks(self.wte.forward(ids) + self.wpe.forward(positions), attend)
    }

    fn logits(&self, hidden: Tensor) -> Tensor {
        let output = self.lm_head.as_ref().unwrap_or(&self.wte);
        hidden.matmul(output.weight.tensor().transpose(0, 1))
    }

    /// Reports errors in the shape or dtype of the ids at the caller's line, whereas ops of the blocks keep
    /// their own lines, which are more informative in `inspect`.
    #[track_caller]
    fn forward(&self, ids: Tensor) -> Tensor {
        let [_, time] = ids.dims();
        let embedded = self.wte.forward(ids) + self.wpe.weight.tensor().slice(0, 0..time);
        self.logits(self.blocks(embedded, &mut causal(None, self.config.dropout)))
    }
}

impl Block {
    fn new(config: &Gpt2Config) -> Self {
        let normal = Init::Normal { std: DEVIATION };
        let residual = Init::Normal { std: DEVIATION / libm::sqrt(2.0 * config.layers as f64) };
        let (width, hidden) = (config.width, config.mlp_width());
        let norm = || LayerNorm { epsilon: config.epsilon, ..LayerNorm::new(width) };
        Self {
            ln_1: norm(),
            attn: CausalSelfAttention::new(width, config.heads).init(normal.clone(), residual.clone()),
            ln_2: norm(),
            mlp: Mlp {
                c_fc: Linear::new(width, hidden).init(normal),
                c_proj: Linear::new(hidden, width).init(residual),
            },
            dropout: Dropout::new(config.dropout),
        }
    }

    fn forward(&self, x: Tensor, attend: impl FnOnce([Tensor; 3]) -> Tensor) -> Tensor {
        let x = x + self.dropout.forward(self.attn.forward_by(self.ln_1.forward(x), attend));
        x + self.dropout.forward(self.mlp.forward(self.ln_2.forward(x)))
    }
}

impl Mlp {
    fn forward(&self, x: Tensor) -> Tensor {
        self.c_proj.forward(self.c_fc.forward(x).gelu_tanh())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gradloom_core::nn::Visitor;
    use gradloom_core::trace::{f32, i32, trace};
    use std::collections::BTreeMap;

    fn config() -> Gpt2Config {
        Gpt2Config {
            vocabulary: 11,
            context: 6,
            width: 8,
            heads: 2,
            layers: 2,
            dropout: 0.1,
            ..Gpt2Config::default()
        }
    }

    fn parameters(model: &Gpt2) -> BTreeMap<String, (Vec<usize>, Init)> {
        let mut found = BTreeMap::new();
        let mut add = |name: &str, param: &gradloom_core::nn::Param| {
            let before = found.insert(name.to_string(), (param.shape().to_vec(), param.init().clone()));
            assert!(before.is_none(), "{name} comes twice");
        };
        model.visit(&mut Visitor::new(&mut add));
        found
    }

    #[test]
    fn names_and_shapes_are_hugging_faces() {
        let found = parameters(&Gpt2::new(&config()).unwrap());
        let shapes: Vec<_> = found
            .iter()
            .filter(|(name, _)| !name.starts_with("h.1."))
            .map(|(name, (shape, _))| (name.as_str(), shape.as_slice()))
            .collect();
        let expected: [(&str, &[usize]); 16] = [
            ("h.0.attn.c_attn.bias", &[24]),
            ("h.0.attn.c_attn.weight", &[8, 24]),
            ("h.0.attn.c_proj.bias", &[8]),
            ("h.0.attn.c_proj.weight", &[8, 8]),
            ("h.0.ln_1.bias", &[8]),
            ("h.0.ln_1.weight", &[8]),
            ("h.0.ln_2.bias", &[8]),
            ("h.0.ln_2.weight", &[8]),
            ("h.0.mlp.c_fc.bias", &[32]),
            ("h.0.mlp.c_fc.weight", &[8, 32]),
            ("h.0.mlp.c_proj.bias", &[8]),
            ("h.0.mlp.c_proj.weight", &[32, 8]),
            ("ln_f.bias", &[8]),
            ("ln_f.weight", &[8]),
            ("wpe.weight", &[6, 8]),
            ("wte.weight", &[11, 8]),
        ];
        assert_eq!(shapes, expected);
        let elements: usize = found.values().map(|(shape, _)| shape.iter().product::<usize>()).sum();
        assert_eq!(elements, config().parameters());
    }

    #[test]
    fn initial_values_are_gpt2s() {
        for (name, (_, init)) in parameters(&Gpt2::new(&config()).unwrap()) {
            let expected = if name.ends_with("bias") {
                Init::Zeros
            } else if name.contains("ln_") {
                Init::Ones
            } else if name.ends_with("c_proj.weight") {
                Init::Normal { std: 0.01 }
            } else {
                Init::Normal { std: 0.02 }
            };
            assert_eq!(init, expected, "{name}");
        }
    }

    #[test]
    fn shapes_of_results() {
        let model = Gpt2::new(&config()).unwrap();
        let shape = |training, f: &dyn Fn(&[Tensor]) -> Tensor| {
            let inputs = [i32("ids", [3, 5])];
            let traced = trace(&model, &inputs, training, f, |t| vec![t]).unwrap();
            traced.graph.ty(traced.results[0]).shape.to_vec()
        };
        assert_eq!(shape(false, &|x| model.forward(x[0])), [3, 5, 11]);
        assert_eq!(shape(true, &|x| model.loss(x[0], x[0])), [0usize; 0]);
        assert_eq!(shape(true, &|x| model.loss(x[0], model.forward(x[0]).softmax(-1))), [0usize; 0]);
    }

    #[test]
    fn dropout_acts_in_training_alone() {
        let model = Gpt2::new(&config()).unwrap();
        let sources = |training| {
            let traced =
                trace(&model, &[i32("ids", [3, 5])], training, |x| model.loss(x[0], x[0]), |t| vec![t])
                    .unwrap();
            traced.graph.entry_ops().filter(|(_, op)| op.kind.name() == "random_bits").count()
        };
        // The embedding, and attention and two branches of each of the two layers.
        assert_eq!((sources(true), sources(false)), (7, 0));
    }

    /// Returns the file and line at which an error is reported.
    fn place(error: &gradloom_core::error::Error) -> (&str, u32) {
        let origin = error.origin().expect("a place");
        (&origin.file, origin.line)
    }

    #[test]
    fn wrong_inputs_are_the_callers_mistake() {
        let model = Gpt2::new(&config()).unwrap();
        type Call = fn(&Gpt2, &[Tensor]) -> Tensor;
        let begin = line!() + 2;
        let calls: [Call; 4] = [
            |m, x| m.forward(x[1]),
            |m, x| m.forward(x[2]),
            |m, x| m.loss(x[0], x[1]),
            |m, x| m.loss(x[1], x[0]),
        ];
        for (i, call) in (0..).zip(calls) {
            let inputs = [i32("ids", [1, 5]), f32("wrong", [1, 4]), i32("flat", [5])];
            let traced = trace(&model, &inputs, false, |x| call(&model, x), |t| vec![t]);
            assert_eq!(place(&traced.unwrap_err()), (file!(), begin + i), "call {i}");
        }
    }

    #[test]
    fn a_text_longer_than_the_context_is_an_error_of_the_trace() {
        let model = Gpt2::new(&config()).unwrap();
        let traced = trace(&model, &[i32("ids", [1, 7])], false, |x| model.forward(x[0]), |t| vec![t]);
        assert_eq!(place(&traced.unwrap_err()), (file!(), line!() - 1));
        let zero = Gpt2Config { heads: 3, ..config() };
        assert!(matches!(Gpt2::new(&zero), Err(ConfigError::HeadsDoNotDivideWidth { .. })));
    }
}
