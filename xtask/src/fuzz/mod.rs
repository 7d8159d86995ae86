//! Random graphs through every stage.
//!
//! In: a seed and a number of graphs. Out: nothing, or the first graph that some stage gets wrong, shrunk. Each number draws two graphs:
//! one of any primitive, with NaNs, infinities, integers and traps, whose meaning is followed in float64; and a training step with tame
//! numbers, which also runs in float32 and is compared with float64.

mod check;
mod compare;
mod shrink;

use crate::options;
use check::{Devices, Failure, Subject};
use gradloom_testing::{Leaves, Random, generate, training_step};
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// What was looked at, to see that it was something.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    graphs: u64,
    /// Graphs whose evaluation ends in a trap.
    trapped: u64,
    /// Steps in float32 that were compared with float64.
    compared: u64,
    /// Steps whose numbers are too large for that.
    wild: u64,
}

/// `cargo xtask fuzz`.
///
/// # Errors
/// The first failure.
pub(crate) fn command(arguments: &[String]) -> Result<(), String> {
    let (mut graphs, mut seed, mut from) = (2000, 1, 0);
    options::read(arguments, &mut [("--graphs", &mut graphs), ("--seed", &mut seed), ("--from", &mut from)])?;
    let start = std::time::Instant::now();
    // A panic is a failure like others, found again many times while its graph is shrunk.
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if !CAUGHT.get() {
            hook(panic);
        }
    }));
    let counts = run(seed, from..from + graphs)?;
    println!(
        "seed {seed}, graphs {from}..{}: {} graphs agree in every stage ({} of them trap), and so do {} steps in float32 \
         ({} had numbers too large to compare); {:.0} s",
        from + graphs,
        counts.graphs,
        counts.trapped,
        counts.compared,
        counts.wild,
        start.elapsed().as_secs_f64()
    );
    Ok(())
}

fn run(seed: u64, numbers: std::ops::Range<u64>) -> Result<Counts, String> {
    let devices = Devices::new();
    let mut counts = Counts::default();
    for number in numbers {
        // Numbers of one seed are far from those of the next.
        let drawn = Random::new(seed.wrapping_mul(0x1_0000_0001).wrapping_add(number << 32)).next();
        let again = format!("again with: cargo xtask fuzz --graphs 1 --seed {seed} --from {number}");
        // It differentiates and attaches an optimizer, so it can fail, too.
        let step =
            catch(|| training_step(drawn)).map_err(|panic| format!("making a step: {panic}\n{again}"))?;
        let subjects = [
            Subject { graph: generate(drawn), leaves: Leaves::random(drawn), tame: false },
            Subject { graph: step.graph, leaves: step.leaves, tame: true },
        ];
        for subject in subjects {
            let before = counts;
            if let Err(failure) = guarded(&subject, &devices, &mut counts) {
                let fails = |subject: &Subject| {
                    guarded(subject, &devices, &mut before.clone()).is_err_and(|f| f.stage == failure.stage)
                };
                let graph = shrink::shrink(&subject, fails);
                let small = Subject { graph, ..subject.clone() };
                let failure = guarded(&small, &devices, &mut before.clone()).err().unwrap_or(failure);
                return Err(format!(
                    "{}: {}\n{}\nfrom a graph of {} ops; {again}",
                    failure.stage,
                    failure.message,
                    small.graph,
                    subject.graph.entry_ops().count(),
                ));
            }
            counts.graphs += 1;
        }
    }
    Ok(counts)
}

/// The check, with a panic as a failure.
fn guarded(subject: &Subject, devices: &Devices, counts: &mut Counts) -> Result<(), Failure> {
    catch(|| check::check(subject, devices, counts))
        .unwrap_or_else(|message| Err(Failure { stage: "a panic".into(), message }))
}

thread_local! {
    /// Whether a panic of this thread is caught, and need not be printed.
    static CAUGHT: Cell<bool> = const { Cell::new(false) };
}

/// Calls a function; its panic's message is an error.
fn catch<T>(call: impl FnOnce() -> T) -> Result<T, String> {
    CAUGHT.set(true);
    let result = catch_unwind(AssertUnwindSafe(call));
    CAUGHT.set(false);
    result.map_err(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message").to_string()
    })
}

#[cfg(test)]
mod tests {
    use super::run;

    #[test]
    fn three_hundred_random_graphs_agree_in_every_stage() {
        let counts = run(0, 0..150).unwrap_or_else(|message| panic!("{message}"));
        assert_eq!(counts.graphs, 300);
        assert!(counts.trapped < 20, "{counts:?}");
        assert!(counts.compared > 8 * counts.wild && counts.compared > 400, "{counts:?}");
    }
}
