//! Initial values of parameters: `cargo bench -p gradloom-device --bench initial_values`.
//!
//! Prints the best time of several runs for the parameters of a small and a large model, on one core and on
//! all.

use gradloom_core::nn::Init;
use gradloom_device::host::{InitialKey, Machine, Pool, fill_initial};
use std::time::Instant;

fn main() {
    let machine = Machine::detect();
    println!("{machine}");
    for threads in [1, machine.cores] {
        let pool = Pool::new(threads);
        for (name, init) in [("normal", Init::Normal { std: 0.02 }), ("uniform", Init::FanIn)] {
            for elements in [842_000, 124_000_000] {
                // Initialize with a nonzero value, so that the system maps the pages before the measurement.
                let mut out = vec![1.0; elements];
                let mut fill = || {
                    let key = InitialKey { seed: 7, parameter: 0 };
                    let start = Instant::now();
                    fill_initial(&init, &[elements].into(), key, &mut out, &pool)
                        .expect("as many as the shape has");
                    start.elapsed().as_secs_f64()
                };
                let rounds = if elements < 1_000_000 { 20 } else { 3 };
                let seconds = (0..rounds).map(|_| fill()).fold(f64::INFINITY, f64::min);
                let each = seconds * 1e9 / elements as f64;
                println!(
                    "{threads} threads, {elements:>9} {name}: {:9.3} ms, {each:.2} ns each",
                    seconds * 1e3
                );
            }
        }
    }
}
