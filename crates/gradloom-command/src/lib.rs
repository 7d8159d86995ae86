//! The `gradloom` command as a library: cargo compiles a library alongside its dependencies, but a binary
//! only after them.
//!
//! In: a command line. Out: text, files in a run folder, an exit code (0 done, 1 failed, 2 the command line
//! must be changed; see `failure`). Invariant: a failure prints one message, with the given value and the
//! remedy, and loses nothing that was saved before.

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests read what they write"))]

mod bench;
mod device;
mod devices;
#[cfg(test)]
mod documentation;
mod drivers;
mod eval;
mod export;
mod failure;
mod format;
mod import;
mod info;
mod inspect;
mod model;
#[cfg(test)]
mod mutations;
mod new_folder;
mod output;
mod panics;
mod place;
mod prepare;
mod profile;
mod run;
mod sample;
mod size;
mod source;
mod tokenize;
mod tokenizer;
mod train;
mod weights;
mod world;

pub use bench::started;

use clap::{CommandFactory, Parser, Subcommand};
use std::process::ExitCode;

/// Train a GPT from scratch, generate text with it, and inspect how the compiler translates it.
///
/// gradloom compiles a whole training step (forward, backward, optimizer) once and then replays it over a
/// fixed memory plan.
#[derive(Debug, Parser)]
#[command(name = "gradloom", version, max_term_width = 100, after_long_help = EXAMPLES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
    /// Show messages of GPU drivers, too.
    #[arg(short, long, global = true)]
    verbose: bool,
}

const EXAMPLES: &str = "\
First steps:
  gradloom train                 train a tiny GPT on the built-in text (minutes)
  gradloom sample runs/tiny-1    let it write
  gradloom inspect tiny          see the graph, kernels and memory of a step

Exit codes: 0 done; 1 failed; 2 the command line is wrong, or names what is not there or of another kind.";

#[derive(Debug, Subcommand)]
enum Command {
    /// Train a GPT on text and keep the results in a run folder
    Train(Box<train::Arguments>),
    /// Generate text with a trained model
    Sample(Box<sample::Arguments>),
    /// Measure how well a model predicts: perplexity of a text, multiple-choice questions
    Eval(eval::Arguments),
    /// Encode text as files of tokens, to train on more of it than memory holds
    Prepare(prepare::Arguments),
    /// Show how a tokenizer splits text into tokens, or decode tokens
    Tokenize(tokenize::Arguments),
    /// Show how the compiler translates a training step, stage by stage
    Inspect(inspect::Arguments),
    /// Show the contents of a model's file or folder: sizes, parameters, types, data
    Info(info::Arguments),
    /// Write a published model as the folder of a run
    Import(import::Arguments),
    /// Write a model as a folder that transformers loads
    Export(export::Arguments),
    /// List the devices that gradloom can run on
    Devices(devices::Arguments),
    /// Time a named training step
    Bench(bench::Arguments),
    /// Show the time of each kernel of a named training step
    Profile(profile::Arguments),
    /// Print a script with which a shell completes commands and flags
    Completions {
        /// Shell to write the script for.
        shell: clap_complete::Shell,
    },
}

/// Runs the command with the process's arguments.
pub fn run() -> ExitCode {
    panics::told(run_command)
}

fn run_command() -> ExitCode {
    let Cli { command, verbose } = Cli::parse();
    if !verbose {
        drivers::keep_quiet();
    }
    if let Err(error) = gradloom::cpu::check_environment() {
        return failure::Failure::from(error).report();
    }
    let ranks = match &command {
        Command::Train(arguments) => arguments.world,
        Command::Bench(arguments) => arguments.world,
        Command::Profile(arguments) => arguments.world,
        Command::Inspect(arguments) => world::WorldArguments::planned(arguments.shard_states),
        _ => world::WorldArguments::default(),
    };
    match ranks.start() {
        Ok(None) => {}
        Ok(Some(code)) => return code,
        Err(failure) => return failure.report(),
    }
    let result = match command {
        Command::Train(arguments) => train::run(*arguments),
        Command::Sample(arguments) => sample::run(&arguments),
        Command::Eval(arguments) => eval::run(&arguments),
        Command::Prepare(arguments) => prepare::run(&arguments),
        Command::Tokenize(arguments) => tokenize::run(&arguments),
        Command::Inspect(arguments) => inspect::run(&arguments),
        Command::Info(arguments) => info::run(&arguments),
        Command::Import(arguments) => import::run(&arguments),
        Command::Export(arguments) => export::run(&arguments),
        Command::Devices(arguments) => devices::run(&arguments),
        Command::Bench(arguments) => bench::run(&arguments),
        Command::Profile(arguments) => profile::run(&arguments),
        Command::Completions { shell } => {
            clap_complete::generate(shell, &mut Cli::command(), "gradloom", &mut std::io::stdout());
            Ok(())
        }
    };
    match result {
        Ok(()) => {
            world::leave();
            ExitCode::SUCCESS
        }
        Err(failure) if world::tells(&failure) => failure.report(),
        Err(failure) => failure.exit_code(),
    }
}
