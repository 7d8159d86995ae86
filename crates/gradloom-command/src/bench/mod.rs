//! `gradloom bench`: named training steps, timed the same way in every version.

pub(crate) mod configs;
mod decode;
mod host;
mod process;
mod report;
mod requests;
mod timing;

use crate::device::{DeviceArguments, DeviceName, Precision, report_tuning};
use crate::failure::{Failure, Result};
use crate::output::print_line;
use crate::weights::Weights;
use crate::world::{self, WorldArguments};
use configs::{Config, Variation};
use gradloom::Device;
pub use process::started;
use report::Report;
use std::path::PathBuf;
use timing::{measure, measure_queued};

/// Arguments of `gradloom bench`.
#[derive(clap::Args, Debug)]
#[command(after_long_help = NOTES, allow_negative_numbers = true)]
pub(crate) struct Arguments {
    /// Training step to time: S, M, mlp-sin, gpt2-124m, gpt2-355m, gpt2-xl, tg-transformer, tg-mlp,
    /// mnist-mlp, conv, mnist-cnn, lstm.
    #[arg(long, value_name = "NAME", required_unless_present_any = ["host_cost", "decode", "requests"])]
    config: Option<String>,
    /// Instead of timing a training step, measure the cost of a step outside of kernels with 100 to 10,000
    /// launches, and the cost of compiling with 12 to 48 layers of GPT-2.
    #[arg(long,
        conflicts_with_all = ["config", "decode", "requests", "device", "steps", "threads", "data_dir", "gpus", "ranks"])]
    host_cost: bool,
    /// Instead of a training step, time the next token of ROWS texts with GPT-2 of 124 million parameters and
    /// `--cached` positions in paged memory.
    #[arg(long, value_name = "ROWS", conflicts_with_all = ["config", "data_dir"],
        value_parser = clap::value_parser!(u32).range(1..=1024))]
    decode: Option<u32>,
    /// Instead of a training step, time N simultaneous requests to a generator over GPT-2 with 124 million
    /// parameters. Their prompts of 528 tokens share a prefix, and each request generates 64 tokens.
    #[arg(long, value_name = "N", conflicts_with_all = ["config", "decode", "data_dir", "steps"],
        value_parser = clap::value_parser!(u32).range(1..=256))]
    requests: Option<u32>,
    /// Number of positions of each text before the next token.
    #[arg(long, value_name = "N", default_value_t = 512, requires = "decode",
        value_parser = clap::value_parser!(u32).range(..1024))]
    cached: u32,
    /// Type of the stored weights.
    #[arg(long, value_name = "TYPE", value_enum, default_value_t = Weights::F32, conflicts_with = "config")]
    weights: Weights,
    /// Type of the cached keys and values.
    #[arg(long, value_name = "TYPE", value_enum, default_value_t = decode::Keys::F32,
        conflicts_with = "config")]
    kv: decode::Keys,
    /// Print the time of each launch of a next token, as `gradloom profile` does.
    #[arg(long, requires = "decode", conflicts_with = "json")]
    launches: bool,
    /// Device to run on; null compiles and plans only. [default: cpu]
    #[arg(long, value_enum)]
    device: Option<BenchTarget>,
    /// Use the GPU whose name contains this; `gradloom devices` lists them.
    #[arg(long, value_name = "NAME")]
    adapter: Option<String>,
    /// Type of the values that are multiplied and that GPUs keep between kernels; all others are f32. The CPU
    /// has f32 and bf16. [default: f32]
    #[arg(long, value_enum)]
    precision: Option<Precision>,
    /// Measure several kernels for each matrix product and attention on a GPU, and use the fastest. The
    /// choices are kept in the user's cache folder, so that the next run with this flag measures nothing. A
    /// summary is printed to the standard error.
    #[arg(long)]
    tune: bool,
    /// Total number of steps, including the warm-up. [default: the configuration's]
    #[arg(long, value_name = "N")]
    steps: Option<u64>,
    #[command(flatten)]
    pub(crate) world: WorldArguments,
    /// Number of CPU threads. [default: one for each core]
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
    /// Start from the weights and tokens in this folder: NAME.json, NAME.w.bin, NAME.tok.bin. [default:
    /// random ones]
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    #[command(flatten)]
    variation: Variation,
    /// Print one JSON object instead of the line.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, clap::ValueEnum)]
enum BenchTarget {
    Cpu,
    Wgpu,
    Cuda,
    Auto,
    Null,
}

const NOTES: &str = "\
The line is
  gradloom NAME ms_per_step tokens_per_s rss_mb first_step_s final_loss
where
  ms_per_step   median of the steps after the warm-up, the loss read after each
  first_step_s  compiling and the first step
  rss_mb        the largest resident memory of the process
The JSON object has more. Of a GPU:
  queued_ms_per_step  mean of steps in a row whose losses are not read
  encode_us           time of the host to queue a step
  device_ms           time of the GPU for a step, by its own clock
A value without meaning is nan in the line and null in the JSON object.";

/// Times a step and prints the figures.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    if let Some(rows) = arguments.decode {
        let decode = decode::Decode {
            rows: rows as usize,
            cached: arguments.cached as usize,
            weights: arguments.weights,
            keys: arguments.kv,
            steps: arguments.steps.unwrap_or(50).max(1),
        };
        return decode.run(&open(arguments)?, arguments.json, arguments.launches);
    }
    if let Some(count) = arguments.requests {
        let kept = (arguments.weights, arguments.kv);
        return requests::run(&open(arguments)?, count as usize, kept, arguments.json);
    }
    let Some(config) = &arguments.config else { return host::run(arguments.json) };
    let config = Config::find(config)?.varied(arguments.variation)?;
    if arguments.steps == Some(0) {
        return Err(Failure::usage("--steps 0: must be at least 1"));
    }
    let world = world::joined()?;
    let device = open(arguments)?.in_world(world)?;
    let steps = arguments.steps.unwrap_or(config.steps);
    let mut workload = config.compile(&device, arguments.data_dir.as_deref())?;
    report_tuning(&device);
    let mut timing = measure(steps, config.warm.min(steps - 1), || Ok(workload.step()?.loss()?))?;
    if workload.program().work().is_some() {
        timing.queued = Some(measure_queued(steps, &mut *workload)?);
    }
    let report = Report::new(config.label(), &*workload, &timing);
    match world.is_first() {
        true => print_line!("{}", if arguments.json { report.json() } else { report.line() }),
        false => Ok(()),
    }
}

fn open(arguments: &Arguments) -> Result<Device> {
    let target = match arguments.device {
        None => None,
        Some(BenchTarget::Cpu) => Some(DeviceName::Cpu),
        Some(BenchTarget::Wgpu) => Some(DeviceName::Wgpu),
        Some(BenchTarget::Cuda) => Some(DeviceName::Cuda),
        Some(BenchTarget::Auto) => Some(DeviceName::Auto),
        Some(BenchTarget::Null) if !matches!(arguments.precision, None | Some(Precision::F32)) => {
            let name = arguments.precision.map_or("", Precision::name);
            return Err(Failure::usage(format!("--precision {name}: the null device does not multiply"))
                .help("use --precision f32, or --device wgpu"));
        }
        Some(BenchTarget::Null) if arguments.tune => {
            return Err(Failure::usage("--tune: the null device computes nothing")
                .help("leave it out, or use --device wgpu"));
        }
        Some(BenchTarget::Null) if world::gpus().is_some() || world::rounds_sums() => {
            return Err(Failure::usage("--gpus and --round-sums: the null device is no GPU")
                .help("leave them out, or use --device cuda"));
        }
        Some(BenchTarget::Null) => return Ok(Device::null()),
    };
    let &Arguments { precision, tune, threads, .. } = arguments;
    let adapter = arguments.adapter.clone();
    DeviceArguments { device: target, adapter, precision, tune, threads, of_run: false }.open()
}
