//! Flow matching: a network learns the drift that turns noise into two moons.
//!
//! `cargo run --release --example flow`
//!
//! The network is trained to predict the direction of the straight line from a point of noise to a point of
//! the data, at any position and time. Following its predictions from noise leads to the data (Lipman et al.,
//! 2022). Shows noise and times that are drawn inside the loss, and a program that follows the drift with
//! `scan`, with all steps in one run. Expect three pictures of the way from noise to moons, and at least 90%
//! of the points within 0.15 of a moon.

#[path = "common/random.rs"]
mod random;

use gradloom::prelude::*;
use random::Random;
use std::f32::consts::PI;

const BATCH: usize = 256;
/// Number of steps from noise to the data.
const STEPS: usize = 40;
const POINTS: usize = 800;

#[derive(Module)]
struct Flow {
    first: Linear,
    second: Linear,
    third: Linear,
    last: Linear,
}

impl Flow {
    fn new() -> Self {
        Self {
            first: Linear::new(3, 64),
            second: Linear::new(64, 64),
            third: Linear::new(64, 64),
            last: Linear::new(64, 2),
        }
    }

    /// Returns the drift at points `[batch, 2]` and times `[batch, 1]`, from 0 (noise) to 1 (data).
    fn forward(&self, points: Tensor, times: Tensor) -> Tensor {
        let h = self.first.forward(concat(-1, &[points, times])).silu();
        let h = self.third.forward(self.second.forward(h).silu()).silu();
        self.last.forward(h)
    }

    fn loss(&self, data: Tensor) -> Tensor {
        let (noise, times) = (randn([BATCH, 2]), uniform([BATCH, 1]));
        let points = noise.lerp(data, times);
        self.forward(points, times).mse_loss(data - noise)
    }
}

/// Returns the point on the centre line of a moon at a fraction of its length.
fn moon(which: usize, part: f32) -> [f32; 2] {
    let (sin, cos) = (PI * part).sin_cos();
    if which == 0 { [cos - 0.5, sin - 0.25] } else { [0.5 - cos, 0.25 - sin] }
}

fn moons(random: &mut Random, count: usize) -> Vec<f32> {
    let mut points = Vec::new();
    for _ in 0..count {
        let middle = moon(random.below(2), random.uniform());
        points.extend(middle.map(|x| x + 0.03 * random.normal()));
    }
    points
}

pub(crate) struct Outcome {
    /// Fraction of the points within 0.15 of the centre line of a moon.
    pub on_a_moon: f64,
    /// Points at the start, in the middle and at the end of the flow, as text.
    pub pictures: [String; 3],
}

pub(crate) fn train(device: &Device, steps: usize) -> Result<Outcome> {
    let mut train = Trainer::new(Flow::new())
        .inputs([f32("data", [BATCH, 2])])
        .loss(|flow, [data]| flow.loss(data))
        .optimizer(Adam::new(Schedule::warmup_cosine(1e-2, 20, steps as u64, 1e-4)))
        .seed(6)
        .compile(device)?;
    let mut random = Random::new(6);
    for step in 0..steps {
        let done = train.step([&moons(&mut random, BATCH)])?;
        if step % (steps / 10).max(1) == 0 {
            println!("step {step:>4}  loss {:.4}", done.loss()?);
        }
    }

    let mut follow = train.infer([f32("times", [STEPS])], |flow, [times]| {
        let start = randn([POINTS, 2]);
        let (end, way) = scan(STEPS, start, times, |points: Tensor, time: Tensor| {
            let times = time.broadcast_to([POINTS, 1]);
            let next = points + flow.forward(points, times) / STEPS as f64;
            (next, next)
        });
        [start, way.slice(0, STEPS / 2..STEPS / 2 + 1), end]
    })?;
    let times: Vec<f32> = (0..STEPS).map(|i| i as f32 / STEPS as f32).collect();
    let way = follow.run([&times])?;
    let on = way[2].chunks(2).filter(|point| {
        (0..200).any(|i| {
            let [x, y] = moon(i % 2, (i / 2) as f32 / 99.0);
            (point[0] - x).hypot(point[1] - y) < 0.15
        })
    });
    Ok(Outcome { on_a_moon: on.count() as f64 / POINTS as f64, pictures: way.map(|points| picture(&points)) })
}

fn picture(points: &[f32]) -> String {
    let (columns, rows) = (60, 20);
    let mut cells = vec![vec![0usize; columns]; rows];
    let place =
        |x: f32, reach: f32, n: usize| (((x / reach + 1.0) / 2.0).clamp(0.0, 0.999) * n as f32) as usize;
    points.chunks(2).for_each(|p| cells[place(-p[1], 1.5, rows)][place(p[0], 2.0, columns)] += 1);
    let shade = |&count: &usize| [' ', '.', 'o', '#'][count.min(3)];
    let lines: Vec<String> = cells.iter().map(|row| row.iter().map(shade).collect()).collect();
    lines.join("\n")
}

fn main() -> Result<()> {
    let outcome = train(&Device::auto()?, 4000)?;
    println!("{}", outcome.pictures.join("\n---\n"));
    println!("{:.1}% of the points are on a moon", 100.0 * outcome.on_a_moon);
    Ok(())
}
