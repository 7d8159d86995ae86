//! Fits sin(x) with a small network: `cargo run --release --example mlp`.

use gradloom::prelude::*;

#[derive(Module)]
struct Mlp {
    l1: Linear,
    l2: Linear,
    l3: Linear,
}

impl Mlp {
    fn new() -> Self {
        Self { l1: Linear::new(1, 64), l2: Linear::new(64, 64), l3: Linear::new(64, 1) }
    }

    fn forward(&self, x: Tensor) -> Tensor {
        let h = self.l1.forward(x).relu();
        self.l3.forward(self.l2.forward(h).relu())
    }
}

fn main() -> Result<()> {
    let steps: u64 = std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(1_000);
    let xs: Vec<f32> = (0..256).map(|i| (i as f32 / 255.0 - 0.5) * std::f32::consts::TAU).collect();
    let ys: Vec<f32> = xs.iter().map(|x| x.sin()).collect();

    let mut train = Trainer::new(Mlp::new())
        .inputs([f32("x", [256, 1]), f32("y", [256, 1])])
        .loss(|m, [x, y]| (m.forward(x) - y).square().mean())
        .optimizer(Adam::new(5e-3))
        .compile(&Device::auto()?)?;

    for i in 0..steps {
        let step = train.step([&xs, &ys])?;
        if i % (steps / 10).max(1) == 0 {
            println!("step {i:>6}  loss {:.6}", step.loss()?);
        }
    }

    // Shares the parameters with the training program.
    let mut predict = train.infer([f32("x", [1, 1])], |m, [x]| m.forward(x))?;
    for x in [-2.0f32, 0.5, 3.0] {
        println!("sin({x:>4}) = {:>7.4}, the network says {:>7.4}", x.sin(), predict.run([&[x]])?[0]);
    }
    Ok(())
}
