//! Tests that a long run allocates no more than planned on a device, and does not increase the memory of the
//! process. It is a separate test program, because it measures the whole process.
#![cfg(target_os = "linux")]

mod common;

use gradloom::prelude::*;

/// Number of steps in which pools fill, drivers finish compilation, and allocators reach their final size.
const EARLY: usize = 1_000;
/// Number of measured steps.
const STEPS: usize = 900;
/// Number of measured steps if `GRADLOOM_LONG_RUN` is set.
const LONG: usize = 9_000;
/// Maximum growth of the process in bytes during the measured steps.
const GROWTH: usize = 5 << 20;

/// Returns the resident memory of this process in bytes.
fn resident() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("Linux has it");
    let pages: usize = statm.split_whitespace().nth(1).and_then(|n| n.parse().ok()).expect("a number");
    pages * 4096
}

#[test]
fn a_long_run_grows_neither_the_device_nor_the_process() {
    let Some(device) = common::gpu() else { return };
    let (a, b) = (Linear::new(1, 64), Linear::new(64, 1));
    let mut train = Trainer::new((a, b))
        .inputs([f32("x", [64, 1]), f32("y", [64, 1])])
        .loss(|m, [x, y]| (m.1.forward(m.0.forward(x).relu()) - y).square().mean())
        .optimizer(Adam::new(1e-3))
        .compile(&device)
        .unwrap();
    let xs: Vec<f32> = (0..64).map(|i| i as f32 / 10.0 - 3.2).collect();
    let ys: Vec<f32> = xs.iter().map(|x| x.sin()).collect();
    let mut losses = Vec::new();
    // In the first half, every second step is read, so that results are both awaited and dropped. In the
    // second half, only the last step is read, so that nothing waits.
    let mut run = |steps: usize| {
        for step in 0..steps {
            let done = train.step([&xs, &ys]).unwrap();
            if (step < steps / 2 && step % 2 == 1) || step + 1 == steps {
                losses.push(done.loss().unwrap());
            }
        }
        let extra = train.program().work().expect("a device beside the host").extra_bytes;
        let planned = train.plan().totals.peak() + extra;
        assert_eq!(train.allocated_bytes(), planned, "{extra} bytes of them beyond the plan");
        (train.allocated_bytes(), resident())
    };
    let began = run(1);
    let early = run(EARLY - 1);
    let steps = if std::env::var_os("GRADLOOM_LONG_RUN").is_some() { LONG } else { STEPS };
    let late = run(steps);
    println!(
        "{} bytes on the device; resident bytes after 1 step: {}, {EARLY}: {}, {}: {}",
        late.0,
        began.1,
        early.1,
        EARLY + steps,
        late.1
    );
    assert_eq!((began.0, early.0), (late.0, late.0), "bytes on the device");
    let grown = late.1.saturating_sub(early.1);
    assert!(grown < GROWTH, "the process grew by {grown} bytes in {steps} steps");
    assert!(losses.last() < losses.first(), "it learns");
}
