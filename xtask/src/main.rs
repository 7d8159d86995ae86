//! `cargo xtask`: tasks for developers.

mod chains;
mod fuzz;
mod options;
mod worlds;

use gradloom_device::host::InstructionSet;
use std::process::ExitCode;

const USAGE: &str = "\
cargo xtask fuzz [--graphs 2000] [--seed S] [--from K] [--failures 1]
    Draws random graphs and compares every stage with the float64 evaluator, from passes to steps on the CPU.
    A failure prints a graph that is as small as could be found, and what to run to see it again. \
    Ends at as many failures as --failures says.
cargo xtask fuzz --deep 20000 ..
    The same with graphs of 500 to 20,000 ops: \
    long chains, wide sums, blocks in blocks, recurrences with their gradients.
cargo xtask fuzz-text [--texts 10000] [--seed S] [--from K] [--device wgpu --adapter NAME]
    Changes the text of graphs of tests/corpus and of random ones in a few places, \
    and runs what is still a graph: with machine code and
    interpreted, or on a GPU. \
    Nothing may panic, abort, or take more than 10 seconds; build it with --profile fuzz for overflow checks.
cargo xtask fuzz --device wgpu [--adapter NAME] ..
    Runs random training steps on a GPU, before and after the passes, \
    and compares them with the float64 evaluator: on the best adapter whose
    name contains NAME. The built program, target/*/xtask, needs nothing of this folder.
cargo xtask worlds [--three 10] [--drawn 100000] [--every 1] [--seed S] [--threads 2] [--device wgpu --adapter NAME]
    Makes every program of one op on small shapes, every join of two views, every program of two ops on \
    shapes of up to two axes, one in --three of those of three ops on the smallest shapes, \
    and draws --drawn longer ones;
    compares values and gradients with their definition, and prints how many there were. \
    --every N takes one in N of all but the drawn ones. Build it with --profile fuzz.
cargo xtask chains [--only tanh] [--shortest N] [--longest N] [--smallest N] [--largest N] [--threads N]
    Applies each of twelve functions 900 to 20,000 times to 1 to 1,000,000 elements, with the gradient, \
    and compares machine code with the
    interpreter, bit for bit, and both with float64. \
    All of it takes an hour or two; the options leave out lengths and sizes.";

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let command = arguments.next();
    let rest: Vec<String> = arguments.collect();
    if matches!(command.as_deref(), Some("fuzz" | "fuzz-text" | "chains" | "worlds"))
        && gradloom_cpu::compiled_loops(InstructionSet::detect()).is_none()
    {
        eprintln!("note: all loops are interpreted here, so no machine code is tested");
    }
    let result = match command.as_deref() {
        Some("fuzz-text") => fuzz::text::command(&rest),
        Some("chains") => chains::command(&rest),
        Some("fuzz") => fuzz::command(&rest),
        Some("worlds") => worlds::command(&rest),
        Some("help" | "--help") => {
            println!("{USAGE}");
            Ok(())
        }
        _ => Err(format!("no such task\n\n{USAGE}")),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}
