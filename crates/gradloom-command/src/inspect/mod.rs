//! `gradloom inspect`: shows the stages of compiling a training step.

mod verify;

use crate::device::Precision;
use crate::failure::{Failure, Result};
use crate::format::thousands;
use crate::model::{self, ModelTrain, Smaller};
use crate::output::print_line;
use crate::run::{STATE, Saved};
use crate::size::Size;
use crate::train::options::Options;
use crate::train::settings::Settings;
use gradloom::Device;
use gradloom::communicator::Planned;
use gradloom::runtime::Limits;
use gradloom::runtime::pipeline::{Target, Text};
use gradloom::runtime::regular_file;
use gradloom_models::gpt2::Preset;
use serde_json::{Map, Value};
use std::path::{Path, PathBuf};

/// Arguments of `gradloom inspect`.
#[derive(clap::Args, Debug)]
#[command(after_long_help = EXAMPLES, allow_negative_numbers = true)]
pub(crate) struct Arguments {
    /// A preset (tiny, small, gpt2, gpt2-medium, gpt2-large, gpt2-xl) or the folder of a run.
    #[arg(value_name = "PRESET|RUN")]
    target: String,
    /// Device to compile for, which need not be present.
    #[arg(long = "target", value_name = "TARGET", value_enum, default_value_t = For::Cpu)]
    target_device: For,
    /// Type of the values that a GPU multiplies and keeps between kernels; all others are f32.
    #[arg(long, value_enum, default_value_t)]
    precision: Precision,
    /// Print the output of this stage of the compiler, as text.
    #[arg(long, value_enum)]
    stage: Option<Stage>,
    /// With `--stage kernels` or `emit`, print only the kernels of this launch, by its number in `--stage
    /// plan`.
    #[arg(long, value_name = "N")]
    launch: Option<usize>,
    /// Number of texts in the step. [default: the preset's or the run's]
    #[arg(long, value_name = "N")]
    batch: Option<usize>,
    /// Number of tokens of each text. [default: the preset's]
    #[arg(long, value_name = "N")]
    context: Option<usize>,
    /// Probability of dropping an element while training. [default: the preset's]
    #[arg(long, value_name = "P")]
    dropout: Option<f64>,
    /// Maximum memory of the step, such as 512M or 2GiB; values are recomputed instead of kept until it fits.
    /// [default: the run's, or no limit]
    #[arg(long, value_name = "BYTES")]
    memory_budget: Option<Size>,
    /// Compile for one of N ranks that train together, each on its part of the batch.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    world: u32,
    /// With --world, keep on each rank only its shard of the optimizer's states (ZeRO, stage 1).
    #[arg(long)]
    pub(crate) shard_states: bool,
    /// Evaluate a shrunk model in float64, before and after the passes, and compare the results with the
    /// CPU's.
    #[arg(long)]
    verify: bool,
    /// Output format; JSON and HTML show the plan.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// Print one JSON object: the summary, or the plan with `--stage plan`.
    #[arg(long, conflicts_with_all = ["format", "verify"])]
    json: bool,
    /// Write to this file instead of the standard output.
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// For a terminal
    Text,
    /// For tools: one object with launches, buffers and memory over time
    Json,
    /// For a browser: one self-contained page
    Html,
}

/// Device that a program is compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum For {
    /// The CPU
    Cpu,
    /// A desktop GPU through WebGPU
    Wgsl,
    /// NVIDIA GPUs of compute capability 8.0 or higher
    Cuda,
    /// NVIDIA GPUs of compute capability 9.0, such as the H100 and H200
    CudaSm90,
}

impl For {
    /// Returns the target for a precision.
    ///
    /// # Errors
    /// Returns an error if the target does not support the precision.
    fn target(self, of: Precision) -> Result<Target> {
        let precision = of.into();
        let refused = |why: &str, help: &str| {
            Err(Failure::usage(format!("--precision {}: {why}", of.name())).help(help.to_string()))
        };
        match (self, of) {
            (Self::Cpu, Precision::F32 | Precision::Bf16) => Ok(Target::cpu(1).in_precision(precision)),
            (Self::Cpu, _) => refused("the CPU computes in f32 or bf16", "use --target cuda or wgsl"),
            (Self::Wgsl, Precision::F32 | Precision::F16) => {
                let limits = Limits { f16: of == Precision::F16, ..Limits::desktop() };
                Ok(Target::wgsl(limits, precision))
            }
            (Self::Wgsl, _) => refused("WebGPU has no such type", "use --target cuda"),
            // Compile for a machine with cuBLASLt.
            (Self::Cuda, _) => Ok(Target::cuda(Limits::cuda().with_library(), precision)),
            (Self::CudaSm90, _) => Ok(Target::cuda(Limits::cuda_of((9, 0)).with_library(), precision)),
        }
    }
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Stage {
    /// The traced loss of the model
    Trace,
    /// With the backward pass
    Grad,
    /// With the optimizer
    Optim,
    /// After the rewrites
    Passes,
    /// Device-independent kernels: what each computes, reads and writes
    Fuse,
    /// Launches for the target: how each is divided, and its scratch memory
    Lower,
    /// Launches in order, and the memory of every buffer
    Plan,
    /// Kernels of a GPU in the representation that all GPUs share
    Kernels,
    /// Source text of all kernels; for the CPU, their loops over tiles
    Emit,
}

const EXAMPLES: &str = "\
Examples:
  gradloom inspect tiny                   operations, kernels, memory in short
  gradloom inspect tiny --json            the same for a program
  gradloom inspect gpt2-xl --batch 1      what a step would take: it runs nothing
  gradloom inspect gpt2 --memory-budget 8GB
                                          the same within a limit
  gradloom inspect tiny --stage passes    the graph that is turned into kernels
  gradloom inspect small --target cuda --stage emit
                                          the kernels for NVIDIA GPUs, as CUDA C
  gradloom inspect small --target cuda --stage emit --launch 7
                                          those of one launch
  gradloom inspect gpt2 --target cuda --precision bf16
                                          the same step with values of 16 bits
  gradloom inspect gpt2 --target cuda --world 8
                                          a step of one of eight GPUs
  gradloom inspect small --verify         is what the CPU computes right?
  gradloom inspect gpt2 --format html --output plan.html
                                          kernels and memory over time, as a page";

/// Compiles a training step without running it, and prints the requested view.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    check(arguments)?;
    let settings = settings(arguments)?;
    if arguments.verify && arguments.stage.is_none() {
        return verify::run(&settings);
    }
    let target = arguments.target_device.target(arguments.precision)?;
    let world = Planned { ranks: arguments.world as usize };
    settings.check_ranks(world.ranks)?;
    let device = Device::null_for(target).in_world(&world).map_err(|_| no_world(arguments))?;
    let train = model::compile(&settings, &device, SMALLER)?;
    let text = match arguments.format {
        Format::Text if arguments.json && arguments.stage.is_none() => summary_as_json(&settings, &train),
        Format::Text if !arguments.json => text(arguments, &settings, &train)?,
        Format::Text | Format::Json => train.inspect().plan().to_json(),
        Format::Html => train.inspect().titled(title(&settings)).to_html(),
    };
    match &arguments.output {
        Some(path) => regular_file::write(path, (text + "\n").as_bytes())
            .map_err(|error| Failure::unwritable("--output", path, &error))?,
        None => print_line!("{text}")?,
    }
    if arguments.verify {
        // Free the large model before the comparison.
        drop(train);
        print_line!("")?;
        verify::run(&settings)?;
    }
    Ok(())
}

fn no_world(arguments: &Arguments) -> Failure {
    Failure::usage(format!("--world {}: WebGPU has no connection to other ranks", arguments.world))
        .help("use --target cuda or cpu")
}

/// Remedies for a step that does not fit in memory.
const SMALLER: Smaller = Smaller {
    step: "lower --batch or --context, or take a smaller preset",
    budgeted: "raise --memory-budget, lower --batch or --context, or take a smaller model",
};

/// Returns an error for contradictory options.
fn check(arguments: &Arguments) -> Result<()> {
    if arguments.launch.is_some() && !matches!(arguments.stage, Some(Stage::Kernels | Stage::Emit)) {
        return Err(Failure::usage("--launch chooses among kernels").help("add --stage emit, or kernels"));
    }
    if matches!((arguments.stage, arguments.target_device), (Some(Stage::Kernels), For::Cpu)) {
        return Err(Failure::usage("--stage kernels shows the kernels of GPUs")
            .help("add --target wgsl or cuda; `--stage emit` shows the processor's loops"));
    }
    if arguments.json && !matches!(arguments.stage, None | Some(Stage::Plan)) {
        return Err(Failure::usage("--json shows the summary or the plan, not other stages")
            .help("leave out --json: other stages are texts that gradloom reads back"));
    }
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
    let (batch, context) = (settings.training.batch, settings.model.context());
    format!("{}: a training step of {batch} × {context} tokens", settings.preset)
}

fn text(arguments: &Arguments, settings: &Settings, train: &ModelTrain) -> Result<String> {
    let stages = train.stages();
    Ok(match arguments.stage {
        Some(Stage::Trace) => stages.trace.to_string(),
        Some(Stage::Grad) => stages.grad.to_string(),
        Some(Stage::Optim) => stages.optim.to_string(),
        Some(Stage::Passes) => stages.passes.to_string(),
        Some(Stage::Fuse) => stages.back.fused.print(&stages.passes),
        Some(Stage::Lower) => stages.back.lowered.print(&stages.passes),
        Some(Stage::Plan) => train.inspect().plan().to_string(),
        Some(Stage::Kernels) => texts(arguments.launch, train, train.inspect().common_kernels()?)?,
        Some(Stage::Emit) => texts(arguments.launch, train, train.inspect().kernels()?)?,
        None => summary(settings, train),
    })
}

fn summary(settings: &Settings, train: &ModelTrain) -> String {
    let (batch, context) = (settings.training.batch, settings.model.context());
    format!(
        "{}: {} parameters; a step of {batch} × {context} = {} tokens\n\n{}",
        settings.preset,
        thousands(settings.model.parameters() as u64),
        thousands((batch * context) as u64),
        train.inspect()
    )
}

#[expect(clippy::disallowed_methods, reason = "the text is our own")]
fn summary_as_json(settings: &Settings, train: &ModelTrain) -> String {
    let json = train.inspect().to_json();
    let mut object: Map<String, Value> = serde_json::from_str(&json).expect("an inspection is an object");
    object.insert("preset".into(), settings.preset.clone().into());
    object.insert("parameters".into(), settings.model.parameters().into());
    object.insert("batch".into(), settings.training.batch.into());
    object.insert("context".into(), settings.model.context().into());
    Value::Object(object).to_string()
}

/// Returns the text of each kernel, or of those of one launch, each after a line that names its launch.
fn texts(only: Option<usize>, train: &ModelTrain, kernels: Vec<Text>) -> Result<String> {
    let launches = train.plan().launches.len();
    if let Some(number) = only.filter(|number| *number >= launches) {
        return Err(Failure::usage(format!("--launch {number}: the step has {launches} launches"))
            .help("`--stage plan` lists them with their numbers, from 0"));
    }
    let mut text = String::new();
    for Text { launch, is_hoisted, label, source } in kernels {
        if only.is_some_and(|number| number != launch || is_hoisted) {
            continue;
        }
        let once = if is_hoisted { "constant " } else { "" };
        text.push_str(&format!("// {once}launch {launch}: {label}\n{}\n\n", source.trim_end()));
    }
    if let Some(number) = only.filter(|_| text.is_empty()) {
        text = format!("// launch {number} has no kernel of its own");
    }
    Ok(text.trim_end().to_string())
}

fn settings(arguments: &Arguments) -> Result<Settings> {
    let target = &arguments.target;
    let &Arguments { batch, context, dropout, memory_budget, .. } = arguments;
    let options = Options { batch, context, dropout, memory_budget, ..Options::default() };
    if Preset::find(target).is_some() {
        return Settings::resolve(&Options { preset: Some(target.clone()), ..options });
    }
    let folder = Path::new(target);
    let state = folder.join(STATE);
    if !state.exists() {
        let presets = format!("the presets are {}", Preset::names());
        let what = match folder.metadata() {
            Err(_) => "neither a preset nor the folder of a run".to_string(),
            Ok(found) if !found.is_dir() => "this is a file, and not the folder of a run".to_string(),
            Ok(_) => format!("the folder is not that of a run: it has no {STATE}"),
        };
        return Err(Failure::usage(format!("{target}: {what}")).help(presets));
    }
    for (flag, is_given) in [("--context", context.is_some()), ("--dropout", dropout.is_some())] {
        if is_given {
            return Err(Failure::usage(format!("{flag}: {target} is a run, whose model has its own"))
                .help("leave it out, or name a preset"));
        }
    }
    let mut settings = Saved::open(&state)?.settings;
    settings.change(&options)?;
    Ok(settings)
}

#[cfg(all(test, feature = "cuda"))]
mod tests {
    use super::*;
    use gradloom::CudaOptions;

    #[test]
    fn what_is_shown_for_cuda_is_the_devices_target() {
        for precision in [Precision::F32, Precision::F16, Precision::Bf16, Precision::Tf32, Precision::Tf32x3]
        {
            let shown = For::Cuda.target(precision).ok().unwrap();
            assert_eq!(shown, CudaOptions::default().precision(precision.into()).target());
        }
    }
}
