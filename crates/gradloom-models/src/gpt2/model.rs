//! The model: embeddings, pre-LayerNorm blocks, and logits through the token embedding.
//!
//! Parameter names are Hugging Face's (`wte.weight`, `h.0.attn.c_attn.weight`, ..), and so are the layouts:
//! linear weights are `[in, out]`.

use super::{ConfigError, Gpt2Config};
use crate::language_model::{Attend, LanguageModel, Sizes, causal};
use gradloom_core::nn::{CausalSelfAttention, Dropout, Embedding, Init, LayerNorm, Linear, Module};
use gradloom_core::trace::{Tensor, checkpoint};

/// GPT-2: a decoder-only transformer. Radford et al. (2019).
///
/// Weights start normal with deviation 0.02, those that end a residual branch scaled down by
/// `1/sqrt(2·layers)`; biases start at 0 and gains at 1. Dropout acts after the embedding and at the end of
/// each residual branch, while a training loss is traced; GPT-2's dropout of attention probabilities is left
/// out, because attention is one op.
#[derive(Debug, Module)]
pub struct Gpt2 {
    /// Token embedding `[vocabulary, width]`; transposed, the output layer, unless there is one apart.
    pub wte: Embedding,
    /// Position embedding `[context, width]`.
    pub wpe: Embedding,
    dropout: Dropout,
    /// The blocks, first to last.
    pub h: Vec<Block>,
    /// The last normalisation.
    pub ln_f: LayerNorm,
    /// An output layer apart, `[vocabulary, width]` as the token embedding.
    pub lm_head: Option<Embedding>,
    #[module(skip)]
    config: Gpt2Config,
    #[module(skip)]
    checkpoint_blocks: bool,
}

/// One block: attention, then an MLP, each on a normalised copy and added to its input.
#[derive(Debug, Module)]
pub struct Block {
    /// Before attention.
    pub ln_1: LayerNorm,
    /// `width -> 3·width`, attention, `width -> width`.
    pub attn: CausalSelfAttention,
    /// Before the MLP.
    pub ln_2: LayerNorm,
    /// `width -> hidden -> width`.
    pub mlp: Mlp,
    dropout: Dropout,
}

/// Two linear layers with the tanh form of GELU between them.
#[derive(Debug, Module)]
pub struct Mlp {
    /// `[width, hidden]`.
    pub c_fc: Linear,
    /// `[hidden, width]`.
    pub c_proj: Linear,
}

/// Deviation of the initial weights.
const DEVIATION: f64 = 0.02;

impl Gpt2 {
    /// Makes a model of these sizes.
    ///
    /// # Errors
    /// When there is no such model; see [`Gpt2Config::validate`].
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

    /// Lets training keep only what goes from block to block, and compute the inside of each block once more
    /// for its gradients: about a third more work for a fraction of the memory. The numbers stay the same,
    /// bit for bit. See [`checkpoint`].
    pub fn checkpoint_blocks(mut self) -> Self {
        self.checkpoint_blocks = true;
        self
    }

    /// Returns the sizes of the model.
    pub fn config(&self) -> &Gpt2Config {
        &self.config
    }

    /// Logits of the token after each position: i32 `[batch, time]` gives `[batch, time, vocabulary]`, with
    /// `time` up to the context.
    #[track_caller]
    pub fn forward(&self, ids: Tensor) -> Tensor {
        LanguageModel::forward(self, ids)
    }

    /// Like [`forward`](Self::forward), for texts, or parts of one, that begin elsewhere: `positions` are
    /// i32 `[time]` or `[batch, time]`, below the context. Positions are learnt vectors and do not decide
    /// which tokens see each other: each sees those before it in its row.
    #[track_caller]
    pub fn forward_at(&self, ids: Tensor, positions: Tensor) -> Tensor {
        self.logits(self.hidden(ids, positions, &mut causal))
    }

    /// Returns the logits of the token after one position: i32 ids `[1, time]` and i32 position `[1]` give
    /// `[1, vocabulary]`.
    ///
    /// Ids after the position have no effect, so a short text may be filled up with anything.
    #[track_caller]
    pub fn logits_at(&self, ids: Tensor, position: Tensor) -> Tensor {
        let hidden = self.hidden_from_start(ids);
        let [_, time, width] = hidden.dims();
        self.logits(hidden.reshape([time, width]).gather_rows(position))
    }

    /// Returns the mean cross-entropy in nats: i32 ids `[batch, time]` and targets, i32 `[batch, time]` or
    /// rows of probabilities f32 `[batch, time, vocabulary]`; see [`Tensor::cross_entropy`].
    #[track_caller]
    pub fn loss(&self, ids: Tensor, targets: Tensor) -> Tensor {
        self.forward(ids).cross_entropy(targets)
    }

    /// Returns the hidden states. Errors here, in the shape or dtype of the ids, point at the caller's
    /// line; the blocks and logits keep their own lines, which tell more in `inspect`.
    #[track_caller]
    fn hidden_from_start(&self, ids: Tensor) -> Tensor {
        let [_, time] = ids.dims();
        self.blocks(self.wte.forward(ids) + self.wpe.weight.tensor().slice(0, 0..time), &mut causal)
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
        Sizes { vocabulary, context, layers, heads, key_heads: heads, depth: width / heads }
    }

    #[track_caller]
    fn hidden(&self, ids: Tensor, positions: Tensor, attend: &mut Attend<'_>) -> Tensor {
        self.blocks(self.wte.forward(ids) + self.wpe.forward(positions), attend)
    }

    fn logits(&self, hidden: Tensor) -> Tensor {
        let output = self.lm_head.as_ref().unwrap_or(&self.wte);
        hidden.matmul(output.weight.tensor().transpose(0, 1))
    }

    #[track_caller]
    fn forward(&self, ids: Tensor) -> Tensor {
        self.logits(self.hidden_from_start(ids))
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
            let inputs = [i32("ids", [3, 5]), i32("one", [1, 6]), i32("position", [1])];
            let traced = trace(&model, &inputs, training, f, |t| vec![t]).unwrap();
            traced.graph.ty(traced.results[0]).shape.to_vec()
        };
        assert_eq!(shape(false, &|x| model.forward(x[0])), [3, 5, 11]);
        assert_eq!(shape(false, &|x| model.logits_at(x[1], x[2])), [1, 11]);
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
        assert_eq!((sources(true), sources(false)), (5, 0));
    }

    /// Returns the file and line that an error points at.
    fn place(error: &gradloom_core::error::Error) -> (&str, u32) {
        let origin = error.origin().expect("a place");
        (&origin.file, origin.line)
    }

    #[test]
    fn wrong_inputs_are_the_callers_mistake() {
        let model = Gpt2::new(&config()).unwrap();
        type Call = fn(&Gpt2, &[Tensor]) -> Tensor;
        let begin = line!() + 2;
        let calls: [Call; 5] = [
            |m, x| m.forward(x[1]),
            |m, x| m.forward(x[2]),
            |m, x| m.loss(x[0], x[1]),
            |m, x| m.loss(x[1], x[0]),
            |m, x| m.logits_at(x[0], x[1]),
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
