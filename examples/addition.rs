//! A transformer learns to add by reading sums: `47+85=` is followed by `132`.
//!
//! `cargo run --release --example addition`
//!
//! Shows the library's transformer block with causal attention, learned positions, and generation of one
//! character at a time. Half of all sums of two-digit numbers are held out. The sum is written with its last
//! digit first (`231` for 132), in the order in which digits are carried. Expect some sums, and at least 95%
//! of 500 held-out sums without a mistake.

#[path = "common/random.rs"]
mod random;

use gradloom::prelude::*;
use random::Random;

/// The digits, `+` and `=`.
const CHARACTERS: [char; 12] = ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9', '+', '='];
/// Number of characters in a problem, and in its sum.
const PROBLEM: usize = 6;
const SUM: usize = 3;
/// Number of characters that are read: all but the last.
const LENGTH: usize = PROBLEM + SUM - 1;
const WIDTH: usize = 32;
const BATCH: usize = 64;

#[derive(Module)]
struct Adder {
    characters: Embedding,
    positions: Param,
    blocks: Vec<TransformerBlock>,
    norm: LayerNorm,
    next: Linear,
}

impl Adder {
    fn new() -> Self {
        Self {
            characters: Embedding::new(CHARACTERS.len(), WIDTH),
            positions: Param::new([LENGTH, WIDTH], Init::Normal { std: 1.0 }),
            blocks: (0..2).map(|_| TransformerBlock::new(WIDTH, 4).causal()).collect(),
            norm: LayerNorm::new(WIDTH),
            next: Linear::new(WIDTH, CHARACTERS.len()),
        }
    }

    /// Returns the logits of the character after each of the ids, i32 `[batch, LENGTH]`.
    fn forward(&self, ids: Tensor) -> Tensor {
        let mut x = self.characters.forward(ids) + &self.positions;
        for block in &self.blocks {
            x = block.forward(x);
        }
        self.next.forward(self.norm.forward(x))
    }
}

/// Returns the ids of a line such as `47+85=231`.
fn characters(a: usize, b: usize) -> [i32; PROBLEM + SUM] {
    let sum = a + b;
    [a / 10, a % 10, 10, b / 10, b % 10, 11, sum % 10, sum / 10 % 10, sum / 100].map(|id| id as i32)
}

/// Draws two numbers whose sum is in the training set if `shown`, or held out otherwise.
fn numbers(random: &mut Random, shown: bool) -> [i32; PROBLEM + SUM] {
    loop {
        let (a, b) = (random.below(100), random.below(100));
        if ((a * 7 + b * 13) % 16 < 8) == shown {
            return characters(a, b);
        }
    }
}

pub(crate) struct Outcome {
    /// Fraction of the held-out sums without a mistake.
    pub right: f64,
    /// Some of the sums as text.
    pub examples: Vec<String>,
}

pub(crate) fn train(device: &Device, steps: usize) -> Result<Outcome> {
    let mut train = Trainer::new(Adder::new())
        .inputs([i32("ids", [BATCH, LENGTH]), i32("targets", [BATCH, SUM])])
        .loss(|adder, [ids, targets]| adder.forward(ids).slice(1, PROBLEM - 1..).cross_entropy(targets))
        .optimizer(AdamW::new(Schedule::warmup_cosine(5e-3, 50, steps as u64, 1e-4)))
        .clip_norm(1.0)
        .seed(5)
        .compile(device)?;
    let mut random = Random::new(5);
    for step in 0..steps {
        let rows: Vec<_> = (0..BATCH).map(|_| numbers(&mut random, true)).collect();
        let ids: Vec<i32> = rows.iter().flat_map(|row| &row[..LENGTH]).copied().collect();
        let targets: Vec<i32> = rows.iter().flat_map(|row| &row[PROBLEM..]).copied().collect();
        let done = train.step([&ids, &targets])?;
        if step % (steps / 10).max(1) == 0 {
            println!("step {step:>5}  loss {:.4} nats a digit", done.loss()?);
        }
    }

    let mut next = train
        .infer([i32("ids", [500, LENGTH])], |adder, [ids]| typed::<i32>(adder.forward(ids).argmax(-1)))?;
    let truth: Vec<_> = (0..500).map(|_| numbers(&mut random, false)).collect();
    let mut written = truth.clone();
    written.iter_mut().for_each(|row| row[PROBLEM..].fill(0));
    for place in PROBLEM..PROBLEM + SUM {
        let ids: Vec<i32> = written.iter().flat_map(|row| &row[..LENGTH]).copied().collect();
        let likeliest = next.run([&ids])?;
        for (row, likeliest) in written.iter_mut().zip(likeliest.chunks(LENGTH)) {
            row[place] = likeliest[place - 1];
        }
    }
    let right = written.iter().zip(&truth).filter(|(a, b)| a == b).count();
    let text = |row: &[i32; PROBLEM + SUM]| {
        // The sum in the usual order of digits.
        let (problem, sum) = row.split_at(PROBLEM);
        problem.iter().chain(sum.iter().rev()).map(|&id| CHARACTERS[id as usize]).collect()
    };
    Ok(Outcome { right: right as f64 / 500.0, examples: written[..8].iter().map(text).collect() })
}

fn main() -> Result<()> {
    let outcome = train(&Device::auto()?, 1300)?;
    println!("{}", outcome.examples.join("\n"));
    println!("{:.1}% of 500 sums that were not shown are right", 100.0 * outcome.right);
    Ok(())
}
