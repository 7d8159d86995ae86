//! Tests of all small programs on the CPU, or of some of them on a GPU.
//!
//! In: fractions of each world to test. Out: the numbers of programs that ran, and of those that panicked,
//! were refused or computed a wrong number. The worlds: one op on every shape, joins of two views, two ops on
//! shapes of up to two axes, three ops on the smallest shapes (8,203,159 programs, of which a fraction is
//! tested), and longer random programs.

use crate::fuzz::{catch, hide_caught_panics};
use crate::options::{Slot, devices, read};
use gradloom_core::passes;
use gradloom_runtime::{Device, Program as Compiled};
use gradloom_testing::Random;
use gradloom_testing::worlds::{self, Program};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// Maximum number of failures to print.
const PRINTED: usize = 40;

/// Numbers of programs, and their failures.
#[derive(Default)]
struct Counts {
    /// Number of programs, each run on every device.
    programs: AtomicU64,
    /// Number of programs whose gradients were compared, too.
    gradients: AtomicU64,
    /// Number of programs that failed.
    failed: AtomicU64,
    /// The first failures.
    printed: Mutex<Vec<String>>,
}

/// Runs `cargo xtask worlds`.
///
/// # Errors
/// Returns an error if options are wrong, or if a program fails.
pub(crate) fn command(arguments: &[String]) -> Result<(), String> {
    let (mut every, mut three, mut drawn, mut seed, mut threads) = (1, 10, 100_000, 1, 2);
    let (mut device, mut adapter) = (String::from("cpu"), String::new());
    read(
        arguments,
        &mut [
            ("--every", Slot::Number(&mut every)),
            ("--three", Slot::Number(&mut three)),
            ("--drawn", Slot::Number(&mut drawn)),
            ("--seed", Slot::Number(&mut seed)),
            ("--threads", Slot::Number(&mut threads)),
            ("--device", Slot::Text(&mut device)),
            ("--adapter", Slot::Text(&mut adapter)),
        ],
    )?;
    if every == 0 || three == 0 || threads == 0 {
        return Err("--every, --three and --threads are at least 1".to_string());
    }
    let devices = devices(&device, &adapter)?;
    hide_caught_panics();
    let counts = Arc::new(Counts::default());
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let (counts, devices) = (&counts, &devices);
            scope.spawn(move || {
                let mut number = 0;
                let mut mine = |program: &Program| {
                    number += 1;
                    // Select programs at random, because neighboring ones differ little.
                    if number % threads == thread && Random::new(seed ^ number).next().is_multiple_of(every) {
                        check(program, devices, counts);
                    }
                };
                worlds::all(&mut mine);
                worlds::deep(three, &mut mine);
                for number in (0..drawn).filter(|number| number % threads == thread) {
                    let mut random = Random::new(seed.wrapping_add(number << 20));
                    check(&Program::draw(&mut random), devices, counts);
                }
            });
        }
    });
    report(&counts)
}

fn report(counts: &Counts) -> Result<(), String> {
    let number = |count: &AtomicU64| count.load(Ordering::Relaxed);
    let printed = counts.printed.lock().expect("no thread panics while it holds the list");
    for failure in printed.iter() {
        println!("{failure}\n");
    }
    let (programs, gradients) = (number(&counts.programs), number(&counts.gradients));
    println!("{programs} programs, {gradients} with comparable gradients");
    match number(&counts.failed) {
        0 => Ok(()),
        failed => Err(format!("{failed} programs fail")),
    }
}

fn check(program: &Program, devices: &[(&'static str, Device)], counts: &Counts) {
    let found = catch(|| run(program, devices)).unwrap_or_else(|text| Err(format!("panics: {text}")));
    counts.programs.fetch_add(1, Ordering::Relaxed);
    match found {
        Ok(gradients) => {
            counts.gradients.fetch_add(u64::from(gradients), Ordering::Relaxed);
        }
        Err(message) => {
            counts.failed.fetch_add(1, Ordering::Relaxed);
            let mut printed = counts.printed.lock().expect("no thread panics while it holds the list");
            if printed.len() < PRINTED {
                printed.push(format!("{program:?}\n  {message}"));
            }
        }
    }
}

/// Compiles and runs a program on each device, the last one without optional passes. Returns `true` if
/// gradients were compared.
fn run(program: &Program, devices: &[(&'static str, Device)]) -> Result<bool, String> {
    let expected = program.expected().map_err(|error| error.to_string())?;
    for (number, (name, device)) in devices.iter().enumerate() {
        let graph = match number {
            0 => passes::run(expected.graph.clone()).0,
            _ => passes::expand::expand(&expected.graph),
        };
        let leaves = |kind: &_| expected.leaves.value(kind);
        let at = |message: String| format!("{name}: {message}\n{}", expected.graph);
        let mut compiled = Compiled::standalone(graph, device, &leaves).map_err(|e| at(e.to_string()))?;
        let got = compiled.evaluate(&leaves).map_err(|e| at(e.to_string()))?;
        expected.check(&got).map_err(at)?;
    }
    Ok(expected.gradients)
}
