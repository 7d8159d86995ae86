//! Adversarial training of two networks: one generates points, the other distinguishes them from real ones,
//! which form eight clusters around a circle.
//!
//! `cargo run --release --example gan`
//!
//! Shows two trainers of one session, each for a part of the model with its own optimizer; random numbers
//! that are drawn inside the program; and a gradient penalty, which is differentiated again (R1: Mescheder,
//! Geiger, Nowozin, 2018). Expect a picture of eight clusters, each with at least 5% of the points, and at
//! least 80% of the points in a cluster (about 99% of the real ones are).

#[path = "common/random.rs"]
mod random;

use gradloom::prelude::*;
use random::Random;
use std::f32::consts::TAU;

const HEAPS: usize = 8;
/// Standard deviation of the points of a cluster around its centre. The circle has radius 1.
const SPREAD: f32 = 0.08;
const NOISE: usize = 4;
const BATCH: usize = 128;

#[derive(Module)]
struct Gan {
    generator: Network,
    critic: Network,
}

#[derive(Module)]
struct Network {
    first: Linear,
    second: Linear,
    last: Linear,
}

impl Network {
    fn new(inputs: usize, outputs: usize) -> Self {
        Self { first: Linear::new(inputs, 64), second: Linear::new(64, 64), last: Linear::new(64, outputs) }
    }

    fn forward(&self, x: Tensor) -> Tensor {
        let h = self.first.forward(x).leaky_relu(0.2);
        self.last.forward(self.second.forward(h).leaky_relu(0.2))
    }
}

impl Gan {
    fn new() -> Self {
        Self { generator: Network::new(NOISE, 2), critic: Network::new(2, 1) }
    }

    /// Generates points `[count, 2]` from noise.
    fn make(&self, count: usize) -> Tensor {
        self.generator.forward(randn([count, NOISE]))
    }
}

fn real_points(random: &mut Random, count: usize) -> Vec<f32> {
    let mut points = Vec::new();
    for _ in 0..count {
        let angle = TAU * random.below(HEAPS) as f32 / HEAPS as f32;
        points.extend([angle.cos() + SPREAD * random.normal(), angle.sin() + SPREAD * random.normal()]);
    }
    points
}

pub(crate) struct Outcome {
    /// Fraction of the generated points within three standard deviations of a cluster's centre.
    pub in_a_heap: f64,
    /// Fraction of the generated points in the smallest cluster.
    pub least: f64,
    /// Generated points as text.
    pub picture: String,
}

pub(crate) fn train(device: &Device, steps: usize) -> Result<Outcome> {
    let session = Session::new(Gan::new(), device, 3)?;
    let adam = || Adam::new(1e-3).betas(0.5, 0.99);
    let mut critic = session
        .trainer()
        .named("critic")
        .only("critic.*")
        .inputs([f32("real", [BATCH, 2])])
        .loss(|gan, [real]| {
            let (of_real, of_made) = (gan.critic.forward(real), gan.critic.forward(gan.make(BATCH)));
            // Penalize the critic's gradient at the real points.
            let [slope] = gradients(of_real.sum(), [real]);
            let penalty = slope.square().sum_axes(-1).mean();
            (-of_real).softplus().mean() + of_made.softplus().mean() + 0.005 * penalty
        })
        .optimizer(adam())
        .compile(device)?;
    let mut generator = session
        .trainer()
        .named("generator")
        .only("generator.*")
        .inputs([])
        .loss(|gan, []| (-gan.critic.forward(gan.make(BATCH))).softplus().mean())
        .optimizer(adam())
        .compile(device)?;

    let mut random = Random::new(3);
    for step in 0..steps {
        let of_critic = critic.step([&real_points(&mut random, BATCH)])?;
        let of_generator = generator.step(())?;
        if step % (steps / 10).max(1) == 0 {
            println!(
                "step {step:>5}  loss of the critic {:.3}, of the generator {:.3}",
                of_critic.loss()?,
                of_generator.loss()?
            );
        }
    }

    let points = session.infer([], |gan, []| gan.make(1000))?.run(())?;
    let mut counts = [0; HEAPS];
    for point in points.chunks(2) {
        let heap = (0..HEAPS).find(|&heap| {
            let angle = TAU * heap as f32 / HEAPS as f32;
            (point[0] - angle.cos()).hypot(point[1] - angle.sin()) < 3.0 * SPREAD
        });
        heap.into_iter().for_each(|heap| counts[heap] += 1);
    }
    let part = |count: usize| count as f64 / 1000.0;
    Ok(Outcome {
        in_a_heap: part(counts.iter().sum()),
        least: part(counts.into_iter().min().unwrap_or(0)),
        picture: picture(&points),
    })
}

fn picture(points: &[f32]) -> String {
    let (columns, rows) = (60, 30);
    let mut cells = vec![vec![0usize; columns]; rows];
    let place = |x: f32, n: usize| (((x + 1.4) / 2.8).clamp(0.0, 0.999) * n as f32) as usize;
    points.chunks(2).for_each(|p| cells[place(-p[1], rows)][place(p[0], columns)] += 1);
    let shade = |&count: &usize| [' ', '.', 'o', '#'][count.min(3)];
    let lines: Vec<String> = cells.iter().map(|row| row.iter().map(shade).collect()).collect();
    lines.join("\n")
}

fn main() -> Result<()> {
    let outcome = train(&Device::auto()?, 4500)?;
    println!("{}", outcome.picture);
    println!(
        "{:.1}% of the points are in a heap; the smallest heap has {:.1}%",
        100.0 * outcome.in_a_heap,
        100.0 * outcome.least
    );
    Ok(())
}
