//! `gradloom train`: trains a model in a run folder.

mod aside;
mod begin;
pub(crate) mod config_file;
mod data;
mod follow;
pub(crate) mod init;
pub(crate) mod interrupt;
pub(crate) mod options;
mod progress;
mod rate;
mod saving;
pub(crate) mod settings;
mod steps;
#[cfg(test)]
mod tests;

use crate::failure::{Failure, Result};
use crate::output::leave_to_a_program;
use crate::run::RunFolder;
use crate::world::{self, WorldArguments};
use options::Options;
use std::path::PathBuf;

/// Arguments of `gradloom train`.
#[derive(clap::Args, Debug)]
#[command(after_long_help = EXAMPLES, allow_negative_numbers = true)]
pub(crate) struct Arguments {
    #[command(flatten)]
    options: Options,

    #[command(flatten)]
    pub(crate) world: WorldArguments,

    /// TOML file with any of these flags as keys (lr = 0.001, data = ["notes/"]), or the config.json of a run
    /// to repeat; flags take precedence.
    #[arg(long, value_name = "FILE", help_heading = "Run folder")]
    config: Option<PathBuf>,

    /// Resume the run in this folder, with its own settings. The result is that of the uninterrupted run, bit
    /// for bit. Steps, batch, rates and data may be changed.
    #[arg(
        long,
        value_name = "DIR",
        help_heading = "Run folder",
        conflicts_with_all = [
            "config", "tokenizer", "preset", "layers", "heads", "width", "mlp_width", "context", "dropout",
            "init", "lora", "lora_alpha", "lora_targets", "seed", "out",
        ]
    )]
    resume: Option<PathBuf>,

    /// If --out already has a run, resume it, with its own settings, instead of reporting an error. A
    /// launcher that starts failed processes again, such as torchrun with --max-restarts, then goes on from
    /// the last saved state.
    #[arg(long, help_heading = "Run folder", conflicts_with = "resume")]
    auto_resume: bool,

    /// When a loss or a gradient is not finite, run the step again, op by op, and name the op of the model
    /// with the first infinity or NaN. This takes memory for every value of the step.
    #[arg(long, help_heading = "Training")]
    debug_nan: bool,

    /// Print only the events of the run to the standard output, one JSON object per line as in its
    /// events.jsonl.
    #[arg(long, help_heading = "Run folder")]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  gradloom train                                a tiny model on the built-in text
  gradloom train --data notes/ --preset small   your own text, a larger model
  gradloom train --data 'src/**/*.rs' --steps 500 --out runs/rust
  gradloom train --data notes/ --tokenizer bpe:4096
  gradloom train --data notes/ --init models/gpt2   go on from a published model
  gradloom train --resume runs/tiny-1           go on after Ctrl-C or a crash
  gradloom train --resume runs/tiny-1 --steps 4000

Ctrl-C finishes the step, saves, and says how to go on; a second one stops at
once, and loses only what came after the last saving.

Exit codes: 0 done, or stopped by Ctrl-C and saved; 1 failed; 2 the command line
is wrong, or names what is not there or of another kind.";

/// Runs `gradloom train`.
pub(crate) fn run(arguments: Arguments) -> Result<()> {
    let mut options = arguments.options;
    if let Some(file) = &arguments.config {
        options = options.or(config_file::read(file)?);
    }
    if arguments.json {
        leave_to_a_program();
    }
    interrupt::listen()?;
    if arguments.auto_resume && options.out.is_none() {
        return Err(
            Failure::usage("--auto-resume: there is no --out").help("name the run's folder with --out")
        );
    }
    let is_first = world::joined()?.is_first();
    world::agree_on_options(arguments.resume.is_some(), arguments.auto_resume)?;
    let resume = match &options.out {
        Some(folder) if arguments.auto_resume => {
            world::first_says(RunFolder::has_run(folder))?.then(|| folder.clone())
        }
        _ => arguments.resume,
    };
    if !is_first {
        return follow::follow(resume.as_deref(), &options);
    }
    let run = match &resume {
        Some(folder) => begin::resume(folder, &options, arguments.json)?,
        None => begin::create(&options, arguments.json)?,
    };
    steps::train(run, arguments.debug_nan)
}
