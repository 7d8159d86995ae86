//! A transformer that learns to sort, built from the components of current language models.
//!
//! `cargo run --release --example transformer`
//!
//! The model reads six digits and a separator, and writes the digits in order, one by one: `402917>012479`.
//! Shows a custom block with RMS normalization, rotary positions (RoPE), causal attention and a gated MLP
//! (SwiGLU), and an output layer tied to the embedding. Expect some sorted rows, and at least 95% of 200 new
//! rows without a mistake.

#[path = "common/random.rs"]
mod random;

use gradloom::prelude::*;
use random::Random;

const DIGITS: usize = 6;
/// Number of tokens that are read: the digits, the separator, and all sorted digits but the last.
const LENGTH: usize = 2 * DIGITS;
const SIGN: i32 = 10;
const VOCABULARY: usize = 11;
const WIDTH: usize = 32;
const HEADS: usize = 4;
const BATCH: usize = 64;

#[derive(Module)]
struct Block {
    norm1: RmsNorm,
    /// Projection to concatenated queries, keys and values.
    attention: Linear,
    mix: Linear,
    norm2: RmsNorm,
    gate: Linear,
    up: Linear,
    down: Linear,
}

impl Block {
    fn new() -> Self {
        Self {
            norm1: RmsNorm::new(WIDTH),
            attention: Linear::no_bias(WIDTH, 3 * WIDTH),
            mix: Linear::no_bias(WIDTH, WIDTH),
            norm2: RmsNorm::new(WIDTH),
            gate: Linear::no_bias(WIDTH, 2 * WIDTH),
            up: Linear::no_bias(WIDTH, 2 * WIDTH),
            down: Linear::no_bias(2 * WIDTH, WIDTH),
        }
    }

    fn forward(&self, x: Tensor) -> Tensor {
        let [queries, keys, values] =
            self.attention.forward(self.norm1.forward(x)).split::<3>(-1).map(|part| part.split_heads(HEADS));
        let mixed = queries.rope(1e4).attention(keys.rope(1e4), values, AttentionOptions::causal());
        let x = x + self.mix.forward(mixed.merge_heads());
        let normal = self.norm2.forward(x);
        x + self.down.forward(self.gate.forward(normal).silu() * self.up.forward(normal))
    }
}

#[derive(Module)]
struct Sorter {
    table: Embedding,
    blocks: Vec<Block>,
    norm: RmsNorm,
}

impl Sorter {
    fn new() -> Self {
        Self {
            table: Embedding::new(VOCABULARY, WIDTH).init(Init::Normal { std: 0.2 }),
            blocks: (0..2).map(|_| Block::new()).collect(),
            norm: RmsNorm::new(WIDTH),
        }
    }

    /// Returns the logits of the token after each position, `[batch, LENGTH, VOCABULARY]`, for i32 ids
    /// `[batch, LENGTH]`.
    fn forward(&self, ids: Tensor) -> Tensor {
        let mut x = self.table.forward(ids);
        for block in &self.blocks {
            x = block.forward(x);
        }
        // The output layer is tied to the embedding.
        self.norm.forward(x).matmul(self.table.weight.tensor().transpose(0, 1))
    }
}

/// Draws rows of random digits, the separator, and the sorted digits.
fn rows(random: &mut Random, count: usize) -> Vec<[i32; LENGTH + 1]> {
    let row = |_| {
        let mut row = [SIGN; LENGTH + 1];
        let digits: [i32; DIGITS] = [(); DIGITS].map(|()| random.below(10) as i32);
        row[..DIGITS].copy_from_slice(&digits);
        row[DIGITS + 1..].copy_from_slice(&digits);
        row[DIGITS + 1..].sort_unstable();
        row
    };
    (0..count).map(row).collect()
}

pub(crate) struct Outcome {
    /// Fraction of the new rows sorted without a mistake.
    pub sorted: f64,
    /// Some of the rows as text.
    pub examples: Vec<String>,
}

pub(crate) fn train(device: &Device, steps: usize) -> Result<Outcome> {
    let mut train = Trainer::new(Sorter::new())
        .inputs([i32("ids", [BATCH, LENGTH]), i32("targets", [BATCH, DIGITS])])
        .loss(|sorter, [ids, targets]| {
            // The digits before the separator are unpredictable.
            sorter.forward(ids).slice(1, DIGITS..).cross_entropy(targets)
        })
        .optimizer(AdamW::new(Schedule::warmup_cosine(5e-3, 20, steps as u64, 1e-4)))
        .clip_norm(1.0)
        .seed(4)
        .compile(device)?;
    let mut random = Random::new(4);
    for step in 0..steps {
        let rows = rows(&mut random, BATCH);
        let ids: Vec<i32> = rows.iter().flat_map(|row| &row[..LENGTH]).copied().collect();
        let targets: Vec<i32> = rows.iter().flat_map(|row| &row[DIGITS + 1..]).copied().collect();
        let done = train.step([&ids, &targets])?;
        if step % (steps / 10).max(1) == 0 {
            println!("step {step:>4}  loss {:.4} nats a digit", done.loss()?);
        }
    }

    // Each written digit is an input of the next step; the sorted part is hidden at first.
    let mut next = train
        .infer([i32("ids", [200, LENGTH])], |sorter, [ids]| typed::<i32>(sorter.forward(ids).argmax(-1)))?;
    let truth = rows(&mut random, 200);
    let mut written = truth.clone();
    written.iter_mut().for_each(|row| row[DIGITS + 1..].fill(0));
    for place in DIGITS..LENGTH {
        let ids: Vec<i32> = written.iter().flat_map(|row| &row[..LENGTH]).copied().collect();
        let likeliest = next.run([&ids])?;
        for (row, likeliest) in written.iter_mut().zip(likeliest.chunks(LENGTH)) {
            row[place + 1] = likeliest[place];
        }
    }
    let sorted = written.iter().zip(&truth).filter(|(a, b)| a == b).count();
    let text =
        |row: &[i32; LENGTH + 1]| row.iter().map(|&id| char::from(b"0123456789>"[id as usize])).collect();
    Ok(Outcome { sorted: sorted as f64 / 200.0, examples: written[..8].iter().map(text).collect() })
}

fn main() -> Result<()> {
    let outcome = train(&Device::auto()?, 300)?;
    println!("{}", outcome.examples.join("\n"));
    println!("{:.1}% of 200 new rows are sorted without a mistake", 100.0 * outcome.sorted);
    Ok(())
}
