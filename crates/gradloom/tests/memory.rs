//! Tests that a long run does not increase the memory of the process.
#![cfg(target_os = "linux")]

use gradloom::prelude::*;

/// Returns the resident memory of this process in bytes.
fn resident() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: usize = statm.split_whitespace().nth(1).unwrap().parse().unwrap();
    pages * 4096
}

#[test]
fn ten_thousand_steps_do_not_grow_the_process() {
    let (a, b) = (Linear::new(1, 64), Linear::new(64, 1));
    let mut train = Trainer::new((a, b))
        .inputs([f32("x", [64, 1]), f32("y", [64, 1])])
        .loss(|m, [x, y]| (m.1.forward(m.0.forward(x).relu()) - y).square().mean())
        .optimizer(Adam::new(1e-3))
        .compile(&Device::cpu())
        .unwrap();
    let xs: Vec<f32> = (0..64).map(|i| i as f32 / 10.0 - 3.2).collect();
    let ys: Vec<f32> = xs.iter().map(|x| x.sin()).collect();
    let mut run = |steps: usize| {
        for _ in 0..steps {
            train.step([&xs, &ys]).unwrap().loss().unwrap();
        }
        resident()
    };
    let early = run(500);
    let late = run(10_000);
    assert!(late <= early + (1 << 20), "{} bytes more after 10,000 steps", late - early);
}
