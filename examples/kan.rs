//! A Kolmogorov-Arnold network finds a formula as sums of learned functions of one variable.
//!
//! `cargo run --release --example kan`
//!
//! Instead of a weight, a layer has a curve for each pair of an input and an output: a straight line plus
//! cubic B-splines (Liu et al., 2024). The data is z = exp(sin(pi x) + y²), and the hidden layer has width 1,
//! so the curves must become sin(pi x), y² and exp, up to shifts and scales. Shows a custom layer made of
//! parameters and `einsum`. Expect a picture of the two curves, each with a correlation of at least 0.99 with
//! its part of the formula, and an error of at most 0.1 (the standard deviation of z is about 1.7).

#[path = "common/random.rs"]
mod random;

use gradloom::prelude::*;
use random::Random;

const BATCH: usize = 256;
/// Number of B-splines in a curve.
const SPLINES: usize = 12;

/// A curve for each pair of an input and an output: a straight line, and splines on an interval around 0.
#[derive(Module)]
struct Curves {
    /// Coefficients of the splines, `[inputs, splines, outputs]`.
    heights: Param,
    /// Slopes of the straight lines, `[inputs, outputs]`.
    slopes: Param,
    reach: f64,
}

impl Curves {
    fn new(inputs: usize, outputs: usize, reach: f64) -> Self {
        Self {
            heights: Param::new([inputs, SPLINES, outputs], Init::Normal { std: 0.1 }),
            slopes: Param::new([inputs, outputs], Init::Xavier { gain: 1.0 }),
            reach,
        }
    }

    /// Evaluates each curve at its input: `[batch, inputs]` to `[batch, inputs, outputs]`.
    fn each(&self, x: Tensor) -> Tensor {
        // Spline centres one unit apart; the outermost ones are one unit outside the interval.
        let scale = (SPLINES - 3) as f64 / (2.0 * self.reach);
        let middles: Vec<f32> = (0..SPLINES).map(|i| i as f32 - (SPLINES - 1) as f32 / 2.0).collect();
        let x = x.unsqueeze(2);
        let away = (x * scale - literal(&middles, [SPLINES])).abs();
        let cube = |x: Tensor| x.relu().square() * x.relu();
        let splines = (cube(2.0 - away) - 4.0 * cube(1.0 - away)) / 6.0;
        einsum("bis,iso->bio", &[splines, self.heights.tensor()]) + x * &self.slopes
    }

    /// Computes the sums of the curves: `[batch, inputs]` to `[batch, outputs]`.
    fn forward(&self, x: Tensor) -> Tensor {
        self.each(x).sum_axes(1)
    }
}

#[derive(Module)]
struct Kan {
    first: Curves,
    last: Curves,
}

impl Kan {
    fn new() -> Self {
        Self { first: Curves::new(2, 1, 1.0), last: Curves::new(1, 1, 2.0) }
    }

    fn forward(&self, x: Tensor) -> Tensor {
        self.last.forward(self.first.forward(x))
    }
}

/// Draws positions `[count, 2]` and computes the formula there, `[count, 1]`.
fn examples(random: &mut Random, count: usize) -> (Vec<f32>, Vec<f32>) {
    let places: Vec<f32> = (0..2 * count).map(|_| 2.0 * random.uniform() - 1.0).collect();
    let formula = |xy: &[f32]| ((std::f32::consts::PI * xy[0]).sin() + xy[1] * xy[1]).exp();
    let values = places.chunks(2).map(formula).collect();
    (places, values)
}

pub(crate) struct Outcome {
    /// Root mean square error at new positions.
    pub error: f32,
    /// Correlations of the curves of x and y with sin(pi x) and y².
    pub correlations: [f32; 2],
    /// Two curves as text.
    pub pictures: [String; 2],
}

pub(crate) fn train(device: &Device, steps: usize) -> Result<Outcome> {
    let mut train = Trainer::new(Kan::new())
        .inputs([f32("places", [BATCH, 2]), f32("values", [BATCH, 1])])
        .loss(|kan, [places, values]| kan.forward(places).mse_loss(values))
        .optimizer(Adam::new(Schedule::warmup_cosine(3e-2, 20, steps as u64, 1e-3)))
        .seed(3)
        .compile(device)?;
    let mut random = Random::new(3);
    for step in 0..steps {
        let (places, values) = examples(&mut random, BATCH);
        let done = train.step([&places, &values])?;
        if step % (steps / 10).max(1) == 0 {
            println!("step {step:>4}  squared error {:.5}", done.loss()?);
        }
    }

    let (places, values) = examples(&mut random, 1000);
    let inputs = [f32("places", [1000, 2]), f32("values", [1000, 1])];
    let mut error = train.infer(inputs, |kan, [x, z]| kan.forward(x).mse_loss(z).sqrt())?;
    let error = error.run([&places, &values])?[0];

    // Both curves at 60 positions.
    let at: Vec<f32> = (0..60).map(|i| (i as f32 + 0.5) / 30.0 - 1.0).collect();
    let curves = train.infer([f32("at", [60])], |kan, [at]| {
        let both = kan.first.each(stack(1, &[at, at]));
        [both.slice(1, 0..1), both.slice(1, 1..2)]
    });
    let curves = curves?.run([&at])?;
    let parts = [
        at.iter().map(|x| (std::f32::consts::PI * x).sin()).collect::<Vec<f32>>(),
        at.iter().map(|y| y * y).collect(),
    ];
    Ok(Outcome {
        error,
        correlations: [0, 1].map(|i| correlation(&curves[i], &parts[i]).abs()),
        pictures: [0, 1].map(|i| picture(&curves[i])),
    })
}

fn correlation(a: &[f32], b: &[f32]) -> f32 {
    let centred = |x: &[f32]| -> Vec<f32> {
        let mean = x.iter().sum::<f32>() / x.len() as f32;
        x.iter().map(|x| x - mean).collect()
    };
    let (a, b) = (centred(a), centred(b));
    let product = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f32>();
    product(&a, &b) / (product(&a, &a) * product(&b, &b)).sqrt()
}

fn picture(curve: &[f32]) -> String {
    let rows = 12;
    let low = curve.iter().copied().fold(f32::INFINITY, f32::min);
    let high = curve.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let mut cells = vec![vec![' '; curve.len()]; rows];
    for (x, y) in curve.iter().enumerate() {
        cells[((high - y) / (high - low) * (rows - 1) as f32).round() as usize][x] = '*';
    }
    let lines: Vec<String> = cells.iter().map(|row| row.iter().collect()).collect();
    lines.join("\n")
}

fn main() -> Result<()> {
    let outcome = train(&Device::auto()?, 2000)?;
    let ([x, y], [of_x, of_y]) = (outcome.pictures, outcome.correlations);
    println!("the curve of x\n{x}\nthe curve of y\n{y}");
    println!("correlated by {of_x:.4} with sin(pi x), by {of_y:.4} with y²");
    println!("the error at new places is {:.3}", outcome.error);
    Ok(())
}
