//! `gradloom profile`: the time of each launch of a training step, compared with the bounds of the machine.

use crate::bench::configs::{Config, Variation};
use crate::device::{DeviceArguments, report_tuning};
use crate::failure::{Failure, Result};
use crate::output::{print_line, written};
use crate::world::{self, WorldArguments};
use gradloom::ProfileOptions;
use gradloom::runtime::regular_file;
use std::io::Write;
use std::path::PathBuf;

/// Arguments of `gradloom profile`.
#[derive(clap::Args, Debug)]
#[command(after_long_help = NOTES, allow_negative_numbers = true)]
pub(crate) struct Arguments {
    /// Training step to profile: one of the configurations of `gradloom bench`.
    #[arg(long, value_name = "NAME")]
    config: String,
    #[command(flatten)]
    variation: Variation,
    /// Total number of steps, of which at most half are the warm-up. [default: the configuration's]
    #[arg(long, value_name = "N")]
    steps: Option<u64>,
    #[command(flatten)]
    device: DeviceArguments,
    #[command(flatten)]
    pub(crate) world: WorldArguments,
    /// Maximum number of launches to list, longest first.
    #[arg(long, value_name = "N", default_value_t = 20)]
    top: usize,
    /// Print one JSON object, with every launch, instead of the tables.
    #[arg(long)]
    json: bool,
    /// Write the last steps as a trace that Perfetto (ui.perfetto.dev) and Chrome (chrome://tracing) show.
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Measure the bounds of the device again, instead of reading them from the cache.
    #[arg(long)]
    remeasure: bool,
}

const NOTES: &str = "\
Times are medians over the steps after the warm-up. \
Operations and bytes are the least that a kernel needs: an f32
function of an element counts one operation, each distinct element of operands and results is moved once.

`of roof` is the time that the machine's bounds allow over the time that was taken: \
operations at peak speed or
bytes at the bandwidth of a cache or memory that holds as many, whichever takes longer. \
The bounds are those of
the device, measured once, while it should be quiet, and kept in the user's cache folder. \
In 16 bits, products are
held against a large product, as fast as the device computes it.";

/// Profiles a step and prints the requested output.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let config = Config::find(&arguments.config)?.varied(arguments.variation)?;
    if arguments.steps == Some(0) {
        return Err(Failure::usage("--steps 0: must be at least 1"));
    }
    let world = world::joined()?;
    let device = arguments.device.open()?.in_world(world)?;
    let steps = arguments.steps.unwrap_or(config.steps);
    let mut workload = config.compile(&device, None)?;
    report_tuning(&device);
    let warm = config.warm.min(steps / 2);
    let mut options = ProfileOptions::new(steps - warm).warm_up(warm).named(config.label());
    if arguments.remeasure {
        options = options.measure_roof();
    }
    let profile = workload.profile(options)?;
    if !world.is_first() {
        return Ok(());
    }
    if let Some(path) = &arguments.trace {
        regular_file::write(path, profile.to_perfetto().as_bytes())
            .map_err(|error| Failure::unwritable("--trace", path, &error))?;
    }
    if arguments.json {
        return print_line!("{}", profile.to_json());
    }
    let mut output = std::io::stdout().lock();
    written(output.write_all(profile.table(arguments.top).as_bytes()).and_then(|()| output.flush()))
}
