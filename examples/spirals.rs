//! A small network learns which of three spirals a point is on.
//!
//! `cargo run --release --example spirals`
//!
//! Shows classification, shuffled batches with a smaller one at the end, and a program for any number of
//! points. Expect a map of the three regions, and an accuracy above 97% on new points.

#[path = "common/random.rs"]
mod random;

use gradloom::prelude::*;
use random::Random;

#[derive(Module)]
struct Classifier {
    first: Linear,
    second: Linear,
    last: Linear,
}

impl Classifier {
    fn new() -> Self {
        Self { first: Linear::new(2, 32), second: Linear::new(32, 32), last: Linear::new(32, 3) }
    }

    fn forward(&self, x: Tensor) -> Tensor {
        let h = self.first.forward(x).silu();
        self.last.forward(self.second.forward(h).silu())
    }
}

/// Draws points `[count, 2]`, and returns the spiral of each.
fn spirals(seed: u64, count: usize) -> (Vec<f32>, Vec<i32>) {
    let mut random = Random::new(seed);
    let (mut points, mut arms) = (Vec::new(), Vec::new());
    for i in 0..count {
        let (arm, t) = (i % 3, random.uniform());
        let radius = 0.1 + 0.9 * t;
        let angle = 4.5 * t + arm as f32 * std::f32::consts::TAU / 3.0 + 0.1 * random.normal();
        points.extend([radius * angle.cos(), radius * angle.sin()]);
        arms.push(arm as i32);
    }
    (points, arms)
}

pub(crate) struct Outcome {
    /// Fraction of new points classified correctly.
    pub accuracy: f64,
    /// Map of the regions as text.
    pub map: String,
}

pub(crate) fn train(device: &Device, epochs: usize) -> Result<Outcome> {
    let (points, arms) = spirals(1, 500);
    let mut train = Trainer::new(Classifier::new())
        .inputs([f32("points", [64, 2]), i32("arms", [64])])
        .loss_for_any_batch(|model, [points, arms]| model.forward(points).cross_entropy(arms))
        .optimizer(AdamW::new(1e-2))
        .seed(7)
        .compile(device)?;
    println!("{}", train.summary());

    let mut batches = Batches::new(arms.len(), 64).shuffled(7);
    for epoch in 0..epochs {
        let mut loss = 0.0;
        // Seven batches of 64 and one of 52.
        for batch in batches.epoch() {
            loss = train.step((&gather(&points, 2, &batch), &gather(&arms, 1, &batch)))?.loss()?;
        }
        if epoch % (epochs / 10).max(1) == 0 {
            println!("epoch {epoch:>4}  loss {loss:.4}");
        }
    }

    let mut classify = train
        .session()
        .infer_any_batch([f32("points", [1, 2])], |model, [x]| typed::<i32>(model.forward(x).argmax(-1)))?;
    let (points, arms) = spirals(2, 900);
    let found = classify.run([&points])?;
    let right = found.iter().zip(&arms).filter(|(a, b)| a == b).count();

    let (columns, rows) = (60, 30);
    let place = |i: usize, n: usize| 2.2 * (i as f32 + 0.5) / n as f32 - 1.1;
    let grid: Vec<f32> =
        (0..rows).flat_map(|y| (0..columns).flat_map(move |x| [place(x, columns), place(y, rows)])).collect();
    let cells: Vec<char> = classify.run([&grid])?.iter().map(|&arm| ['.', 'o', '#'][arm as usize]).collect();
    let lines: Vec<String> = cells.chunks(columns).map(|row| row.iter().collect()).collect();
    Ok(Outcome { accuracy: right as f64 / arms.len() as f64, map: lines.join("\n") })
}

fn main() -> Result<()> {
    let outcome = train(&Device::auto()?, 60)?;
    println!("{}", outcome.map);
    println!("{:.1}% of new points are put on their spiral", 100.0 * outcome.accuracy);
    Ok(())
}
