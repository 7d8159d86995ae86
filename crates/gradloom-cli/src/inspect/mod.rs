//! `gradloom inspect`.

mod summary;
mod verify;

use crate::failure::{Failure, Result};
use crate::model;
use crate::output::print_line;
use crate::run::{STATE, Saved};
use crate::train::options::Options;
use crate::train::settings::Settings;
use gradloom::Device;
use gradloom_models::gpt2::Preset;
use std::path::Path;

/// What `gradloom inspect` takes.
#[derive(clap::Args, Debug)]
#[command(after_long_help = EXAMPLES, allow_negative_numbers = true)]
pub(crate) struct Arguments {
    /// A preset (tiny, small, gpt2, gpt2-medium, gpt2-large, gpt2-xl) or the folder of a run.
    #[arg(value_name = "PRESET|RUN")]
    target: String,
    /// Print what this stage of the compiler makes, as text.
    #[arg(long, value_enum)]
    stage: Option<Stage>,
    /// Texts in the step. [default: the preset's or the run's]
    #[arg(long, value_name = "N")]
    batch: Option<usize>,
    /// Evaluate a shrunk model in float64, before and after the passes, and compare with what the CPU computes.
    #[arg(long)]
    verify: bool,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Stage {
    /// The model's loss as it was traced
    Trace,
    /// With the backward pass
    Grad,
    /// With the optimizer
    Optim,
    /// After the rewrites
    Passes,
    /// Kernels for no device in particular: what each computes, reads and writes
    Fuse,
    /// Kernels in order, and where every byte lives
    Plan,
}

const EXAMPLES: &str = "\
Examples:
  gradloom inspect tiny                   operations, kernels, memory in short
  gradloom inspect gpt2-xl --batch 1      what a step would take: it runs nothing
  gradloom inspect tiny --stage passes    the graph that is turned into kernels
  gradloom inspect small --verify         is what the CPU computes right?";

/// Compiles a training step without running it, and prints what was asked for.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let settings = settings(arguments)?;
    if arguments.verify && arguments.stage.is_none() {
        return verify::run(&settings);
    }
    let train = model::compile(&settings, &Device::null())?;
    let stages = train.stages();
    match arguments.stage {
        Some(Stage::Trace) => print_line!("{}", stages.trace),
        Some(Stage::Grad) => print_line!("{}", stages.grad),
        Some(Stage::Optim) => print_line!("{}", stages.optim),
        Some(Stage::Passes) => print_line!("{}", stages.passes),
        Some(Stage::Fuse) => {
            let fused = gradloom::fuse::fuse(&stages.passes, gradloom::fuse::Fusion::On)?;
            print_line!("{}", fused.print(&stages.passes))
        }
        Some(Stage::Plan) => print_line!("{}", train.plan().report(&stages.passes)),
        None => print_line!("{}", summary::of(&settings, &train)),
    }?;
    if arguments.verify {
        // The large model makes room for the comparison.
        drop(train);
        print_line!("")?;
        verify::run(&settings)?;
    }
    Ok(())
}

fn settings(arguments: &Arguments) -> Result<Settings> {
    let target = &arguments.target;
    let options = Options { batch: arguments.batch, ..Options::default() };
    if Preset::find(target).is_some() {
        return Settings::resolve(&Options { preset: Some(target.clone()), ..options });
    }
    let state = Path::new(target).join(STATE);
    if !state.exists() {
        return Err(Failure::usage(format!("{target}: neither a preset nor the folder of a run"))
            .help(format!("the presets are {}", Preset::names())));
    }
    let mut settings = Saved::open(&state)?.settings;
    settings.change(&options)?;
    Ok(settings)
}
