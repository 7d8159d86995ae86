//! Models of the configurations other than GPT-2: a perceptron, and a small transformer that learns to add
//! two-digit numbers character by character (`47+85=132`). The transformer has the shapes of tensorgrad's
//! sample, with which we compare the numbers of kernels and bytes.

use gradloom::nn::{Embedding, Init, LayerNorm, Linear, Module};
use gradloom::{AttentionOptions, Tensor};

/// A perceptron: linear layers with biases and ReLU between them.
#[derive(Debug, Module)]
pub(crate) struct Mlp {
    layers: Vec<Linear>,
}

impl Mlp {
    /// Creates a perceptron with these layer widths, including those of the inputs and the outputs.
    pub(crate) fn new(widths: &[usize]) -> Self {
        Self { layers: widths.windows(2).map(|pair| Linear::new(pair[0], pair[1])).collect() }
    }

    /// Computes the outputs: `[.., first width] -> [.., last width]`.
    pub(crate) fn forward(&self, x: Tensor) -> Tensor {
        let (last, inner) = self.layers.split_last().expect("there are two widths at least");
        last.forward(inner.iter().fold(x, |x, layer| layer.forward(x).relu()))
    }
}

/// Number of tokens: the ten digits, `+` and `=`.
const VOCABULARY: usize = 12;
/// Number of characters of a problem.
const CHARACTERS: usize = 9;
/// Number of characters that the model reads: all but the last.
pub(crate) const SEQUENCE: usize = CHARACTERS - 1;
/// 1 at positions whose next character is a digit of the sum, 0 elsewhere.
pub(crate) const MASK: [f32; SEQUENCE] = [0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0];

const WIDTH: usize = 64;
const HEADS: usize = 4;
const LAYERS: usize = 3;
const PLUS: i32 = 10;
const EQUALS: i32 = 11;

/// A transformer that adds: embeddings, three pre-LayerNorm blocks, and logits through the token embedding;
/// 150,656 parameters in 40 tensors.
#[derive(Debug, Module)]
pub(crate) struct AdditionTransformer {
    /// Token embedding, `[12, 64]`; its transpose is the output layer.
    tokens: Embedding,
    /// Position embedding, `[9, 64]`; the model reads 8 characters, so the last row is unused.
    positions: Embedding,
    /// Blocks, first to last.
    blocks: Vec<Block>,
    /// Final LayerNorm.
    norm: LayerNorm,
}

/// A block: attention, then an MLP. Each is applied to a normalized copy of its input, and the result is
/// added to the input.
#[derive(Debug, Module)]
struct Block {
    /// Normalization before attention.
    norm_attention: LayerNorm,
    /// Projection to the queries of all heads, `[64, 64]`, without bias.
    query: Linear,
    /// Projection to the keys of all heads, `[64, 64]`, without bias.
    key: Linear,
    /// Projection to the values of all heads, `[64, 64]`, without bias.
    value: Linear,
    /// Projection of the concatenated heads, `[64, 64]`, without bias.
    output: Linear,
    /// Normalization before the MLP.
    norm_mlp: LayerNorm,
    /// First layer of the MLP, `[64, 256]`, followed by ReLU.
    up: Linear,
    /// Second layer of the MLP, `[256, 64]`.
    down: Linear,
}

impl AdditionTransformer {
    /// Creates the model. Embeddings are initialized from a normal distribution with standard deviation 0.02,
    /// as in GPT-2; other parameters have their layer's default.
    pub(crate) fn new() -> Self {
        let normal = Init::Normal { std: 0.02 };
        Self {
            tokens: Embedding::new(VOCABULARY, WIDTH).init(normal.clone()),
            positions: Embedding::new(CHARACTERS, WIDTH).init(normal),
            blocks: (0..LAYERS).map(|_| Block::new()).collect(),
            norm: LayerNorm::new(WIDTH),
        }
    }

    /// Computes the logits of the character after each position: i32 `[batch, 8]` to `[batch, 8, 12]`.
    pub(crate) fn forward(&self, ids: Tensor) -> Tensor {
        let [_, time] = ids.dims();
        let mut x = self.tokens.forward(ids) + self.positions.weight.tensor().slice(0, 0..time);
        for block in &self.blocks {
            x = block.forward(x);
        }
        self.norm.forward(x).matmul(self.tokens.weight.tensor().transpose(0, 1))
    }

    /// Returns the mean cross-entropy in nats over the digits of the sum. Ids and targets are i32
    /// `[batch, 8]`; the mask is f32 `[8]` ([`MASK`]).
    pub(crate) fn loss(&self, ids: Tensor, targets: Tensor, mask: Tensor) -> Tensor {
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

/// Returns `count` problems as ids and targets, both row-major with rows of 8. A target is the character that
/// follows.
pub(crate) fn problems(count: u32) -> (Vec<i32>, Vec<i32>) {
    // Spread the numbers evenly: they are multiples of the golden ratio.
    let number = |i: u32| ((i.wrapping_mul(2_654_435_769) >> 8) % 100) as i32;
    let all: Vec<_> = (0..count).map(|row| characters(number(2 * row), number(2 * row + 1))).collect();
    let part = |from: usize| all.iter().flat_map(|text| text[from..from + SEQUENCE].to_vec()).collect();
    (part(0), part(1))
}

/// Returns the characters of a problem, with leading zeros: `47+85=132`.
fn characters(a: i32, b: i32) -> [i32; CHARACTERS] {
    let sum = a + b;
    [a / 10, a % 10, PLUS, b / 10, b % 10, EQUALS, sum / 100, sum / 10 % 10, sum % 10]
}

#[cfg(test)]
mod tests {
    use super::*;
    use gradloom::nn::Visitor;

    /// Counts the tensors and the elements of a model's parameters.
    fn parameters(model: &impl Module) -> (usize, usize) {
        let mut counts = (0, 0);
        let mut add = |_: &str, param: &gradloom::Param| {
            counts = (counts.0 + 1, counts.1 + param.shape().iter().product::<usize>());
        };
        model.visit(&mut Visitor::new(&mut add));
        counts
    }

    #[test]
    fn models_are_as_large_as_they_are_said_to_be() {
        assert_eq!(parameters(&AdditionTransformer::new()), (40, 150_656));
        assert_eq!(parameters(&Mlp::new(&[1, 64, 64, 1])), (6, 4_353));
        assert_eq!(parameters(&Mlp::new(&[784, 256, 10])), (4, 203_530));
    }

    #[test]
    fn problems_are_sums_whose_digits_the_mask_marks() {
        assert_eq!(characters(47, 85), [4, 7, PLUS, 8, 5, EQUALS, 1, 3, 2]);
        assert_eq!(characters(3, 4), [0, 3, PLUS, 0, 4, EQUALS, 0, 0, 7]);
        let (ids, targets) = problems(50);
        for (ids, targets) in ids.chunks(SEQUENCE).zip(targets.chunks(SEQUENCE)) {
            assert_eq!(ids[1..], targets[..SEQUENCE - 1]);
            let marked: Vec<i32> =
                targets.iter().zip(MASK).filter(|(_, m)| *m > 0.0).map(|(t, _)| *t).collect();
            let sum = ids[0] * 10 + ids[1] + ids[3] * 10 + ids[4];
            assert_eq!(marked, [sum / 100, sum / 10 % 10, sum % 10]);
        }
        let distinct: std::collections::BTreeSet<_> = ids.chunks(SEQUENCE).collect();
        assert!(distinct.len() > 45, "{}", distinct.len());
    }
}
