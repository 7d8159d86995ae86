//! `gradloom inspect`.

mod page;
mod summary;
mod verify;

use crate::failure::{Failure, Result};
use crate::model::{self, Gpt2Train};
use crate::output::print_line;
use crate::run::{STATE, Saved};
use crate::train::options::Options;
use crate::train::settings::Settings;
use gradloom::Device;
use gradloom::runtime::regular_file::{self, Refusal};
use gradloom_models::gpt2::Preset;
use std::path::{Path, PathBuf};

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
    /// Evaluate a shrunk model in float64, before and after the passes, and compare with what the CPU
    /// computes.
    #[arg(long)]
    verify: bool,
    /// How to show it; JSON and HTML show the plan.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// Write to this file instead of the standard output.
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// For people at a terminal
    Text,
    /// For tools: one object with launches, buffers and the memory over time
    Json,
    /// For people with a browser: one page that needs nothing else
    Html,
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
  gradloom inspect small --verify         is what the CPU computes right?
  gradloom inspect gpt2 --format html --output plan.html
                                          kernels and memory over time, as a page";

/// Compiles a training step without running it, and prints what was asked for.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    check(arguments)?;
    let settings = settings(arguments)?;
    if arguments.verify && arguments.stage.is_none() {
        return verify::run(&settings);
    }
    let train = model::compile(&settings, &Device::null())?;
    let text = match arguments.format {
        Format::Text => text(arguments.stage, &settings, &train)?,
        Format::Json => train.plan().to_json(&train.stages().passes),
        Format::Html => page::page(&title(&settings), &train.plan().to_json(&train.stages().passes)),
    };
    match &arguments.output {
        Some(path) => regular_file::write(path, (text + "\n").as_bytes()).map_err(|error| {
            let help = "name a file in a folder that is there and that you may write to";
            Failure::failed(format!("--output {}: cannot be written: {error}", path.display()))
                .help(Refusal::of(&error).map_or(help, Refusal::remedy))
        })?,
        None => print_line!("{text}")?,
    }
    if arguments.verify {
        // The large model makes room for the comparison.
        drop(train);
        print_line!("")?;
        verify::run(&settings)?;
    }
    Ok(())
}

/// Refuses options that exclude each other.
fn check(arguments: &Arguments) -> Result<()> {
    let plan_only = arguments.format != Format::Text;
    if plan_only && !matches!(arguments.stage, None | Some(Stage::Plan)) {
        return Err(Failure::usage("--format json and --format html show the plan, not other stages")
            .help("leave out --stage, or leave out --format"));
    }
    let comparison_alone = arguments.verify && arguments.stage.is_none();
    if arguments.verify && plan_only || comparison_alone && arguments.output.is_some() {
        return Err(Failure::usage("--verify prints text to the standard output")
            .help("leave out --format and --output, or leave out --verify"));
    }
    Ok(())
}

fn title(settings: &Settings) -> String {
    let (batch, context) = (settings.training.batch, settings.model.context);
    format!("{}: a training step of {batch} × {context} tokens", settings.preset)
}

fn text(stage: Option<Stage>, settings: &Settings, train: &Gpt2Train) -> Result<String> {
    let stages = train.stages();
    Ok(match stage {
        Some(Stage::Trace) => stages.trace.to_string(),
        Some(Stage::Grad) => stages.grad.to_string(),
        Some(Stage::Optim) => stages.optim.to_string(),
        Some(Stage::Passes) => stages.passes.to_string(),
        Some(Stage::Fuse) => {
            gradloom::fuse::fuse(&stages.passes, gradloom::fuse::Fusion::On)?.print(&stages.passes)
        }
        Some(Stage::Plan) => train.plan().report(&stages.passes),
        None => summary::of(settings, train),
    })
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
