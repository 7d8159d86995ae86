//! A small transformer that learns to add numbers of two digits, character by character: `47+85=132`.
//!
//! In: i32 ids `[batch, 8]`, the first 8 characters of each problem. Out: the loss over the three digits of
//! the sum, and [`problems`] to learn from. The shapes are those of tensorgrad's sample transformer, beside
//! whose counts of kernels and bytes ours are put.

use gradloom_core::nn::{Embedding, Init, LayerNorm, Linear, Module};
use gradloom_core::philox::philox4x32;
use gradloom_core::trace::{AttentionOptions, Tensor};

/// The digits, `+` and `=`.
pub const VOCABULARY: usize = 12;
/// Characters of a problem.
pub const CHARACTERS: usize = 9;
/// Characters that the model sees: all but the last.
pub const SEQUENCE: usize = CHARACTERS - 1;
/// 1 at the positions whose next character is a digit of the sum.
pub const MASK: [f32; SEQUENCE] = [0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0];

const WIDTH: usize = 64;
const HEADS: usize = 4;
const LAYERS: usize = 3;
const PLUS: i32 = 10;
const EQUALS: i32 = 11;

/// The model: embeddings, three pre-LayerNorm blocks, and logits through the token embedding. 150,656
/// parameters in 40 tensors.
#[derive(Debug, Module)]
pub struct AdditionTransformer {
    /// `[12, 64]`; transposed, the output layer.
    pub tokens: Embedding,
    /// `[9, 64]`, of which a problem's first 8 characters use as many rows.
    pub positions: Embedding,
    /// First to last.
    pub blocks: Vec<Block>,
    /// The last normalisation.
    pub norm: LayerNorm,
}

/// One block: attention, then an MLP, each on a normalised copy and added to its input.
#[derive(Debug, Module)]
pub struct Block {
    /// Normalisation before attention.
    pub norm_attention: LayerNorm,
    /// Projection to the queries of all heads, `[64, 64]`, without bias; so are the next three.
    pub query: Linear,
    /// Projection to the keys.
    pub key: Linear,
    /// Projection to the values.
    pub value: Linear,
    /// Projection of the heads, which stand side by side.
    pub output: Linear,
    /// Normalisation before the MLP.
    pub norm_mlp: LayerNorm,
    /// First layer of the MLP, `[64, 256]`, followed by ReLU.
    pub up: Linear,
    /// Second layer of the MLP, `[256, 64]`.
    pub down: Linear,
}

impl Default for AdditionTransformer {
    fn default() -> Self {
        Self::new()
    }
}

impl AdditionTransformer {
    /// Embeddings start normal with deviation 0.02, as in GPT-2; the rest as its layers say.
    pub fn new() -> Self {
        let normal = Init::Normal { std: 0.02 };
        Self {
            tokens: Embedding::new(VOCABULARY, WIDTH).init(normal.clone()),
            positions: Embedding::new(CHARACTERS, WIDTH).init(normal),
            blocks: (0..LAYERS).map(|_| Block::new()).collect(),
            norm: LayerNorm::new(WIDTH),
        }
    }

    /// Logits of the character after each position: i32 `[batch, 8]` gives `[batch, 8, 12]`.
    #[track_caller]
    pub fn forward(&self, ids: Tensor) -> Tensor {
        let [_, time] = ids.dims();
        let mut x = self.tokens.forward(ids) + self.positions.weight.tensor().slice(0, 0..time);
        for block in &self.blocks {
            x = block.forward(x);
        }
        self.norm.forward(x).matmul(self.tokens.weight.tensor().transpose(0, 1))
    }

    /// Mean cross-entropy in nats over the digits of the sum: ids and targets i32 `[batch, 8]`, mask f32
    /// `[8]` ([`MASK`]).
    #[track_caller]
    pub fn loss(&self, ids: Tensor, targets: Tensor, mask: Tensor) -> Tensor {
        let [batch, _] = ids.dims();
        let digits = batch * MASK.iter().filter(|&&weight| weight > 0.0).count();
        (self.forward(ids).cross_entropy_rows(targets) * mask).sum() / digits as f64
    }
}

impl Block {
    fn new() -> Self {
        let square = || Linear::no_bias(WIDTH, WIDTH);
        Self {
            norm_attention: LayerNorm::new(WIDTH),
            query: square(),
            key: square(),
            value: square(),
            output: square(),
            norm_mlp: LayerNorm::new(WIDTH),
            up: Linear::new(WIDTH, 4 * WIDTH),
            down: Linear::new(4 * WIDTH, WIDTH),
        }
    }

    fn forward(&self, x: Tensor) -> Tensor {
        let [batch, time, width] = x.dims();
        let normal = self.norm_attention.forward(x);
        let heads = |projection: &Linear| {
            projection.forward(normal).reshape([batch, time, HEADS, width / HEADS]).permute([0, 2, 1, 3])
        };
        let (keys, values) = (heads(&self.key), heads(&self.value));
        let mixed = heads(&self.query).attention(keys, values, AttentionOptions::causal());
        let x = x + self.output.forward(mixed.permute([0, 2, 1, 3]).reshape([batch, time, width]));
        x + self.down.forward(self.up.forward(self.norm_mlp.forward(x)).relu())
    }
}

/// Random problems: ids and targets, `batch` rows of 8 each, row-major. A target is the character that
/// follows.
///
/// Row r of a step comes from Philox keyed by the seed with counter (step, r): nothing is kept between calls.
pub fn problems(seed: u64, step: u64, batch: usize) -> (Vec<i32>, Vec<i32>) {
    // Apart from the counters of other random numbers under the same seed: the letters of "sums".
    const DOMAIN: u32 = 0x73_75_6d_73;
    let (mut ids, mut targets) = (Vec::new(), Vec::new());
    for row in 0..batch {
        let counter = [step as u32, (step >> 32) as u32, row as u32, DOMAIN];
        let [a, b, ..] =
            philox4x32(counter, [seed as u32, (seed >> 32) as u32]).map(|word| (word % 100) as i32);
        let text = characters(a, b);
        ids.extend_from_slice(&text[..SEQUENCE]);
        targets.extend_from_slice(&text[1..]);
    }
    (ids, targets)
}

/// `47+85=132`, with leading zeros.
fn characters(a: i32, b: i32) -> [i32; CHARACTERS] {
    let sum = a + b;
    [a / 10, a % 10, PLUS, b / 10, b % 10, EQUALS, sum / 100, sum / 10 % 10, sum % 10]
}

#[cfg(test)]
mod tests {
    use super::*;
    use gradloom_core::nn::Visitor;
    use gradloom_core::trace::{f32, i32, trace};

    #[test]
    fn there_are_150_656_parameters_in_40_tensors() {
        let (mut tensors, mut elements) = (0, 0);
        let mut add = |_: &str, param: &gradloom_core::nn::Param| {
            tensors += 1;
            elements += param.shape().iter().product::<usize>();
        };
        AdditionTransformer::new().visit(&mut Visitor::new(&mut add));
        assert_eq!((tensors, elements), (40, 150_656));
    }

    #[test]
    fn the_loss_is_one_number() {
        let model = AdditionTransformer::new();
        let inputs = [i32("ids", [5, SEQUENCE]), i32("targets", [5, SEQUENCE]), f32("mask", [SEQUENCE])];
        let traced =
            trace(&model, &inputs, true, |x| model.loss(x[0], x[1], x[2]), |loss| vec![loss]).unwrap();
        assert_eq!(traced.graph.ty(traced.results[0]).shape.rank(), 0);
    }

    #[test]
    fn problems_are_sums_whose_digits_the_mask_marks() {
        assert_eq!(characters(47, 85), [4, 7, PLUS, 8, 5, EQUALS, 1, 3, 2]);
        assert_eq!(characters(3, 4), [0, 3, PLUS, 0, 4, EQUALS, 0, 0, 7]);
        let (ids, targets) = problems(7, 3, 50);
        for (ids, targets) in ids.chunks(SEQUENCE).zip(targets.chunks(SEQUENCE)) {
            assert_eq!(ids[1..], targets[..SEQUENCE - 1]);
            let marked: Vec<i32> =
                targets.iter().zip(MASK).filter(|(_, m)| *m > 0.0).map(|(t, _)| *t).collect();
            let sum = ids[0] * 10 + ids[1] + ids[3] * 10 + ids[4];
            assert_eq!(marked, [sum / 100, sum / 10 % 10, sum % 10]);
        }
        assert_ne!(problems(7, 3, 50), problems(7, 4, 50));
        assert_eq!(problems(7, 3, 2).0, problems(7, 3, 50).0[..2 * SEQUENCE]);
    }
}
