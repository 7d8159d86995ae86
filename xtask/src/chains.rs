//! Tests of long chains of elementwise functions on the CPU: machine code against interpreted loops, bit for
//! bit, and against float64.
//!
//! In: lengths and sizes. Out: a line for each chain, or the first wrong one. Each program computes a chain
//! and its gradient.

use crate::options::{self, Slot};
use gradloom_core::reference::evaluate;
use gradloom_cpu::CpuDevice as _;
use gradloom_cpu::Loops;
use gradloom_device::host::InstructionSet;
use gradloom_runtime::{Device, run_once};
use gradloom_testing::Leaves;
use gradloom_testing::chains::{CHAINS, element, graph};
use std::time::Instant;

const LENGTHS: [usize; 5] = [900, 1_500, 2_300, 5_000, 20_000];
const SIZES: [usize; 3] = [1, 5_000, 1_000_000];
/// Number of elements that are compared with float64.
const SAMPLES: usize = 101;
/// Maximum difference between float32 and float64, relative to the number, or absolute below 1.
const TOLERANCE: f64 = 1e-3;

/// Runs `cargo xtask chains`.
///
/// # Errors
/// Returns an error if a chain is wrong.
pub(crate) fn command(arguments: &[String]) -> Result<(), String> {
    let (mut longest, mut largest, mut only) = (u64::MAX, u64::MAX, String::new());
    let (mut shortest, mut smallest, mut threads) = (0, 0, 2);
    let known = &mut [
        ("--shortest", Slot::Number(&mut shortest)),
        ("--longest", Slot::Number(&mut longest)),
        ("--smallest", Slot::Number(&mut smallest)),
        ("--largest", Slot::Number(&mut largest)),
        ("--threads", Slot::Number(&mut threads)),
        ("--only", Slot::Text(&mut only)),
    ];
    options::read(arguments, known)?;
    let threads = usize::try_from(threads).map_err(|_| "--threads is too large".to_owned())?;
    let device = |loops| Device::cpu_with_loops(threads, loops).map_err(|error| error.to_string());
    let devices = [device(Loops::Native)?, device(Loops::Interpreted)?];
    println!("function   length  elements   native s  interpreted s  largest difference from float64");
    let mut checked = 0;
    for elements in SIZES.into_iter().filter(|&n| (smallest..=largest).contains(&(n as u64))) {
        for length in LENGTHS.into_iter().filter(|&n| (shortest..=longest).contains(&(n as u64))) {
            for (name, step) in CHAINS.into_iter().filter(|(name, _)| only.is_empty() || *name == only) {
                let fail = |what: String| format!("{name}, {length} times, {elements} elements: {what}");
                let line = check(step, length, elements, &devices).map_err(fail)?;
                println!("{name:<10} {length:>6} {elements:>9} {line}");
                checked += 1;
            }
        }
    }
    let native = if gradloom_cpu::compiled_loops(InstructionSet::detect()).is_some() {
        "machine code and interpreter agree"
    } else {
        "two runs agree"
    };
    println!("{checked} chains: {native} in every bit, and with float64");
    Ok(())
}

fn check(
    step: fn(gradloom_core::trace::Tensor, gradloom_core::trace::Tensor) -> gradloom_core::trace::Tensor,
    length: usize,
    elements: usize,
    devices: &[Device; 2],
) -> Result<String, String> {
    let text = |error: gradloom_core::error::Error| error.to_string();
    let x: Vec<f32> = (0..elements).map(element).collect();
    let mut seconds = Vec::new();
    let mut results = Vec::new();
    for device in devices {
        let start = Instant::now();
        results.push(
            run_once(graph(step, length, elements).map_err(text)?, device, std::slice::from_ref(&x))
                .map_err(text)?,
        );
        seconds.push(start.elapsed().as_secs_f64());
    }
    for (output, (native, interpreted)) in ["y", "dx"].iter().zip(results[0].iter().zip(&results[1])) {
        if let Some(at) = (0..elements).find(|&i| native[i].to_bits() != interpreted[i].to_bits()) {
            let (a, b) = (native[at], interpreted[at]);
            return Err(format!("{output}[{at}] is {a} in machine code and {b} interpreted"));
        }
    }
    let samples: Vec<usize> =
        (0..SAMPLES.min(elements)).map(|i| i * elements / SAMPLES.min(elements)).collect();
    let values: Vec<f64> = samples.iter().map(|&i| x[i].into()).collect();
    let leaves = Leaves::random(0).with("x", gradloom_core::ir::DType::F32, &[samples.len()], &values);
    let small = graph(step, length, samples.len()).map_err(text)?;
    let want = evaluate(&small, &|kind| leaves.value(kind)).map_err(|error| error.to_string())?;
    let mut worst: f64 = 0.0;
    for ((name, want), got) in want.outputs.iter().zip(&results[0]) {
        for (&i, want) in samples.iter().zip(want.to_f64()) {
            let difference = (f64::from(got[i]) - want).abs() / want.abs().max(1.0);
            if difference.is_nan() || difference > TOLERANCE {
                return Err(format!("{name}[{i}] is {}, not {want}", got[i]));
            }
            worst = worst.max(difference);
        }
    }
    Ok(format!("{:>10.2} {:>14.2}  {worst:.1e}", seconds[0], seconds[1]))
}
