//! Draws random graphs that are deep or wide, unlike those of [`generate`](crate::generate()): long chains,
//! wide sums, nested blocks that run many times, and recurrences with their gradients.
//!
//! In: a seed, and the number of ops. Out: a graph that verifies, with outputs. Invariant: numbers stay
//! small, because every repeated function is a contraction; but they are not meant for comparing float32 with
//! float64.

use crate::Random;
use gradloom_core::error::Result;
use gradloom_core::ir::{DType, Graph, Output};
use gradloom_core::trace::{Input, Tensor, checkpoint, f32, gradients, scan, trace};

/// Draws a deep graph of at least 500 ops and at most about `most` ops.
///
/// # Errors
/// Returns an error only if tracing has a bug.
pub fn deep(seed: u64, most: usize) -> Result<Graph> {
    let mut random = Random::new(seed);
    let ops = 500 + random.below(most.saturating_sub(500).max(1));
    let shape = shape(&mut random, ops);
    let kind = random.below(5);
    let leaves = if kind == 1 { 2 + random.below(300) } else { 3 };
    let inputs: Vec<Input> = (0..leaves).map(|i| input(&format!("x{i}"), shape)).collect();
    let results = |x: &[Tensor]| -> Vec<Tensor> {
        let y = match kind {
            0 => chain(&mut random, x, ops),
            1 => wide_sum(&mut random, x, ops),
            2 => rows(&mut random, x, ops),
            3 => blocks(&mut random, x, ops),
            _ => recurrence(&mut random, x, ops / 8),
        };
        // Add gradients to half of the graphs.
        if random.below(2) == 0 {
            let [dx, dp] = gradients(y.sum(), [x[0], x[1]]);
            vec![y, dx, dp]
        } else {
            vec![y]
        }
    };
    let mut traced = trace(&(), &inputs, false, results, |all| all)?;
    for (i, &value) in traced.results.iter().enumerate() {
        traced.graph.outputs.push(Output { name: format!("y{i}"), value });
    }
    Ok(traced.graph)
}

fn input(name: &str, [rows, columns]: [usize; 2]) -> Input {
    f32(name, [rows, columns])
}

/// Draws the numbers of rows and columns, including odd ones, 1, and ones that fill vectors; longer graphs
/// have smaller extents.
fn shape(random: &mut Random, ops: usize) -> [usize; 2] {
    let largest = (200_000 / ops).max(2);
    let extents = [1, 2, 3, 5, 15, 16, 17, 33, 64, 65];
    let mut extent = || random.pick(&extents[..extents.len().min(largest)]).min(largest);
    [extent(), extent()]
}

/// Draws a function of two values that is a contraction.
fn step(random: &mut Random, y: Tensor, x: Tensor) -> Tensor {
    let factor = random.uniform(-0.6, 0.6);
    match random.below(14) {
        0 => (factor * y + x).tanh(),
        1 => (factor * y + 0.3 * x).gelu(),
        2 => (y - x).sigmoid(),
        3 => (factor * y).exp() - x,
        4 => (y.abs() + x.square()).log1p(),
        5 => (y.square() + 1.0).rsqrt() * x,
        6 => y.lt(x).select(factor * y, 0.5 * x),
        7 => y.maximum(x) * factor,
        8 => (y * factor).floor() * 0.1 + x,
        9 => (y * 10.0).cast(DType::I32).cast(DType::F32) * 0.05 - x,
        10 => x / (1.0 + y.square()),
        11 => (factor * y).erf() + 0.1 * x,
        12 => (factor * y + x).sin(),
        _ => factor * y + 0.5 * x,
    }
}

/// Draws a chain of functions, with values that are used long after they are computed.
fn chain(random: &mut Random, x: &[Tensor], ops: usize) -> Tensor {
    let mut recent = vec![x[0], x[1], x[2]];
    for _ in 0..ops / 4 {
        let [y, other] = [0, 0].map(|_| recent[recent.len() - 1 - random.below(recent.len().min(40))]);
        recent.push(step(random, y, other));
    }
    // Sum the last values, some of which nothing else uses.
    recent.iter().rev().take(50).fold(recent[0], |sum, &value| 0.9 * sum + 0.1 * value)
}

fn wide_sum(random: &mut Random, x: &[Tensor], ops: usize) -> Tensor {
    (0..ops / 2).fold(x[0], |sum, i| {
        let (a, b) = (x[i % x.len()], x[random.below(x.len())]);
        sum + 1e-3 * (a * b)
    })
}

/// Draws a chain of functions, with reductions and normalizations of rows in between.
fn rows(random: &mut Random, x: &[Tensor], ops: usize) -> Tensor {
    let mut y = x[0];
    for i in 0..ops / 5 {
        y = match random.below(40) {
            0 => y - y.mean_keep(-1),
            1 => y.softmax(-1) + x[1],
            2 => y * 0.5 + y.max_keep(0) * 0.1,
            3 => y + 0.1 * x[2].sum_keep(-1).tanh(),
            _ => step(random, y, x[i % 3]),
        };
    }
    y
}

/// Draws nested blocks, the outer one with up to 3,000 iterations.
fn blocks(random: &mut Random, x: &[Tensor], ops: usize) -> Tensor {
    let inner = 2 + random.below(6);
    let middle = 1 + random.below(5);
    let outer = (ops / (3 * inner * middle)).clamp(1, 3_000);
    let again = random.below(3);
    let steps: Vec<u64> = (0..inner).map(|_| random.next()).collect();
    let body = |y: Tensor, x: Tensor| steps.iter().fold(y, |y, &seed| step(&mut Random::new(seed), y, x));
    let [a, b] = [x[0], x[1]];
    let (y, ()) = scan(outer, a, (), |y, ()| {
        let run = |y: Tensor| (0..middle).fold(y, |y, _| body(y, b));
        let y = match again {
            0 => checkpoint(|| run(y)),
            1 => checkpoint(|| checkpoint(|| run(y)) + 0.01 * b),
            _ => run(y),
        };
        (y, ())
    });
    y
}

/// Draws a recurrent network over a sequence, with the same weights in each step.
fn recurrence(random: &mut Random, x: &[Tensor], steps: usize) -> Tensor {
    let [_, columns] = x[0].dims();
    let (w, shift) = (x[1].transpose(0, 1), random.uniform(-0.5, 0.5));
    let steps = steps.clamp(1, 40_000 / (columns * columns)).max(2);
    let (last, all) = scan(steps, x[0], (), |h, ()| {
        let next = (0.3 * h.matmul(w).matmul(x[1]) + x[2] + shift).tanh();
        (next, next.mean())
    });
    last + all.sum()
}
