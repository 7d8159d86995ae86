//! An LSTM observes a sine wave and continues it.
//!
//! `cargo run --release --example lstm`
//!
//! Each wave has its own frequency, amplitude and phase. The network is trained to predict the next value;
//! then it observes 30 values of new waves and generates 20 more, each from its own previous output. Shows a
//! recurrent layer whose state is passed from one run to the next, and gradient clipping. Expect a picture of
//! a wave and its continuation, and a squared error of at most 0.1 times the waves' mean square (always
//! predicting 0 has 1.0).

#[path = "common/random.rs"]
mod random;

use gradloom::prelude::*;
use random::Random;

const HIDDEN: usize = 32;
const BATCH: usize = 32;
const SHOWN: usize = 30;
const LENGTH: usize = 50;

#[derive(Module)]
struct Watcher {
    memory: Lstm,
    change: Linear,
}

impl Watcher {
    fn new() -> Self {
        Self { memory: Lstm::new(1, HIDDEN), change: Linear::new(HIDDEN, 1) }
    }

    /// Returns the next value after each of `[batch, time, 1]`, and the state after the last one.
    fn forward(&self, values: Tensor, state: (Tensor, Tensor)) -> (Tensor, (Tensor, Tensor)) {
        let (seen, state) = self.memory.run(values, state);
        // The network learns the change from one value to the next.
        (values + self.change.forward(seen), state)
    }
}

/// Draws curves `[count, LENGTH]`.
fn curves(random: &mut Random, count: usize) -> Vec<f32> {
    let mut values = Vec::new();
    for _ in 0..count {
        let (pace, height) = (0.2 + 0.3 * random.uniform(), 0.5 + 0.5 * random.uniform());
        let start = std::f32::consts::TAU * random.uniform();
        values.extend((0..LENGTH).map(|t| height * (start + pace * t as f32).sin()));
    }
    values
}

pub(crate) struct Outcome {
    /// Squared error of the continuations relative to the curves' mean square.
    pub error: f64,
    /// A curve and its continuation as text.
    pub picture: String,
}

pub(crate) fn train(device: &Device, steps: usize) -> Result<Outcome> {
    let mut train = Trainer::new(Watcher::new())
        .inputs([f32("curves", [BATCH, LENGTH])])
        .loss(|watcher, [curves]| {
            let (seen, next) = (curves.slice(1, ..LENGTH - 1), curves.slice(1, 1..));
            let zeros = full(DType::F32, [BATCH, HIDDEN], 0.0);
            let (said, _) = watcher.forward(seen.unsqueeze(2), (zeros, zeros));
            // The first values do not determine a curve's frequency.
            said.squeeze(2).slice(1, 5..).mse_loss(next.slice(1, 5..))
        })
        .optimizer(Adam::new(Schedule::warmup_cosine(2e-2, 20, steps as u64, 1e-4)))
        .clip_norm(1.0)
        .seed(2)
        .compile(device)?;
    let mut random = Random::new(2);
    for step in 0..steps {
        let done = train.step([&curves(&mut random, BATCH)])?;
        if step % (steps / 10).max(1) == 0 {
            println!("step {step:>4}  squared error {:.6}", done.loss()?);
        }
    }

    // One value of each curve at a time: first the observed ones, then the network's own.
    let inputs = [f32("values", [BATCH, 1, 1]), f32("hidden", [BATCH, HIDDEN]), f32("cell", [BATCH, HIDDEN])];
    let mut watch =
        train.infer(inputs, |watcher, [values, hidden, cell]| watcher.forward(values, (hidden, cell)))?;
    let curves = curves(&mut random, BATCH);
    let column = |t: usize| -> Vec<f32> { curves.chunks(LENGTH).map(|curve| curve[t]).collect() };
    let (mut hidden, mut cell) = (vec![0.0; BATCH * HIDDEN], vec![0.0; BATCH * HIDDEN]);
    let mut said = Vec::new();
    let (mut first, mut error, mut all) = (Vec::new(), 0.0, 0.0);
    for t in 0..LENGTH {
        let truth = column(t);
        let values = if t < SHOWN { truth.clone() } else { said };
        first.push((truth[0], values[0]));
        if t >= SHOWN {
            for (value, truth) in values.iter().zip(&truth) {
                error += f64::from(value - truth).powi(2);
                all += f64::from(*truth).powi(2);
            }
        }
        (said, (hidden, cell)) = watch.run([&values, &hidden, &cell])?;
    }
    Ok(Outcome { error: error / all, picture: picture(&first) })
}

/// Renders a curve as dots and the network's values as `o`, from left to right.
fn picture(values: &[(f32, f32)]) -> String {
    let rows = 13;
    let row = |value: f32| ((1.0 - value.clamp(-1.0, 1.0)) / 2.0 * (rows - 1) as f32).round() as usize;
    let mut cells = vec![vec![' '; values.len()]; rows];
    for (t, &(truth, said)) in values.iter().enumerate() {
        cells[row(truth)][t] = '.';
        if t >= SHOWN {
            cells[row(said)][t] = 'o';
        }
    }
    let lines: Vec<String> = cells.iter().map(|row| row.iter().collect()).collect();
    lines.join("\n")
}

fn main() -> Result<()> {
    let outcome = train(&Device::auto()?, 1000)?;
    println!("{}", outcome.picture);
    println!("the continuations have {:.4} of the curves' mean square as error", outcome.error);
    Ok(())
}
