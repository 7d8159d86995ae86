//! Runs steps, and combines the measured times with the costs of the launches.

use super::figures::Figures;
use super::gpu_roof::multiplies;
use super::{ProfileOptions, report, roof, trace};
use crate::program::Program;
use gradloom_core::error::{Error, ErrorKind, Result};
use gradloom_core::kernel::Phase;
use gradloom_core::plan::{Cost, LaunchView};
use gradloom_device::feed::Data;
use gradloom_device::host::Roofline;
use gradloom_device::regular_file;
use gradloom_device::regular_file::unwritable;
use gradloom_device::spans::LaunchSpan;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

/// Maximum number of steps in a trace.
const TRACED: u64 = 5;

/// Measurements of one launch.
#[derive(Clone, Debug, PartialEq)]
pub struct LaunchProfile {
    /// Name of the kernel with its size: `row [1024 x 128]`.
    pub name: String,
    /// Kind of kernel.
    pub kernel: &'static str,
    /// Op for which the kernel was created.
    pub op: &'static str,
    /// Source location of that op.
    pub place: Option<String>,
    /// True if the launch runs in the commit.
    pub commits: bool,
    /// True if the launch communicates with other ranks.
    pub communicates: bool,
    /// Minimum number of operations and bytes.
    pub cost: Cost,
    /// Median time over the steps in seconds; 0 on a device that does not time launches.
    pub seconds: f64,
    /// Minimum time in seconds according to the roofline; `None` if the roofline is unknown.
    pub bound: Option<f64>,
    /// Reason why a general kernel runs although the device has a faster one; `None` if none is known.
    pub obstacle: Option<String>,
}

/// Measurements of one step.
#[derive(Clone, Debug)]
pub struct TracedStep {
    /// Start of the step.
    pub began: Instant,
    /// Duration of the step.
    pub took: Duration,
    /// Launches of the step, in order.
    pub spans: Vec<LaunchSpan>,
}

/// Breakdown of the time of a program, measured by [`Train::profile`](crate::Train::profile) and
/// [`Infer::profile`](crate::Infer::profile).
///
/// `Display` prints the tables of `gradloom profile`: the kinds of kernels, then the 20 longest launches.
#[derive(Clone, Debug)]
pub struct Profile {
    /// Name of the profiled program.
    pub name: String,
    /// Model and instruction set of the device.
    pub device: String,
    /// Number of threads that computed.
    pub threads: usize,
    /// Roofline of the device; `None` if it is unknown, as on a GPU without timestamps.
    pub roof: Option<Roofline>,
    /// Number of timed steps.
    pub steps: u64,
    /// Median time of a step in seconds.
    pub seconds: f64,
    /// Median time per step outside launches, in seconds.
    pub host_seconds: f64,
    /// Median time in seconds of a step as it is trained, whose launches are not timed and may run side by
    /// side; `None` if the program does not communicate with other ranks.
    pub overlapped_seconds: Option<f64>,
    /// Measurements of each launch, in the order of the plan.
    pub launches: Vec<LaunchProfile>,
    /// Last timed steps, at most five.
    pub traced: Vec<TracedStep>,
}

/// Object that holds a program and runs its steps.
pub(crate) trait Profiled {
    fn first_program(&mut self) -> &mut Program;

    /// Runs a step on this data and waits for it.
    fn run_step(&mut self, data: &[Data<'_>]) -> Result<()>;
}

impl Profile {
    /// Profiles the program of `subject` by running its steps, all on the same data.
    pub(crate) fn collect(
        subject: &mut dyn Profiled,
        data: &[Data<'_>],
        options: ProfileOptions,
    ) -> Result<Self> {
        let ProfileOptions { steps, warm_up, name, roof } = options;
        if steps == 0 {
            return Err(Error::new(ErrorKind::Feed, "a profile of no steps").help("time at least one step"));
        }
        let device = subject.first_program().device().clone();
        let backend = device.backend();
        if backend.name() == "null" {
            return Err(Error::new(ErrorKind::Device, "the null device runs nothing that could be timed")
                .help(
                    "compile for `Device::cpu()` or a GPU; `inspect()` shows a program that does not run",
                ));
        }
        let (description, threads) = (device.description(), backend.threads());
        let roof = roof::of(roof, &device);
        let mut times: Vec<Vec<f64>> = vec![Vec::new(); subject.first_program().plan().launches.len()];
        let (mut whole, mut host, mut traced) = (Vec::new(), Vec::new(), Vec::new());
        subject.first_program().set_profiling(true);
        for number in 0..warm_up + steps {
            let began = Instant::now();
            let outcome = subject.run_step(data);
            let took = began.elapsed();
            if outcome.is_err() {
                subject.first_program().set_profiling(false);
            }
            outcome?;
            if number < warm_up {
                continue;
            }
            let spans = subject.first_program().spans();
            spans.iter().for_each(|span| times[span.launch].push(span.took.as_secs_f64()));
            let kernels: Duration = spans.iter().map(|span| span.took).sum();
            whole.push(took.as_secs_f64());
            host.push(took.saturating_sub(kernels).as_secs_f64());
            if warm_up + steps - number <= TRACED {
                traced.push(TracedStep { began, took, spans: spans.to_vec() });
            }
        }
        subject.first_program().set_profiling(false);
        let mut overlapped = Vec::new();
        if subject.first_program().plan().launches.iter().any(|launch| launch.kernel.is_collective()) {
            // The first step is not counted, because the ranks come to it at different times.
            for number in 0..=steps {
                let began = Instant::now();
                subject.run_step(data)?;
                overlapped.extend((number > 0).then(|| began.elapsed().as_secs_f64()));
            }
        }
        let program = subject.first_program();
        let target = backend.target().in_precision(device.precision());
        let measured = |(launch, times): (LaunchView<'_>, &mut Vec<f64>)| {
            let cost = launch.cost();
            LaunchProfile {
                name: launch.name(),
                kernel: launch.launch().kernel.name(),
                op: launch.op().kind.name(),
                place: launch.origin().map(ToString::to_string),
                commits: launch.phase() == Phase::Commit,
                communicates: launch.launch().kernel.is_collective(),
                cost,
                seconds: median(times),
                obstacle: target.obstacle(launch.launch()),
                bound: roof.as_ref().map(|roof| {
                    match multiplies(&launch.launch().kernel, device.precision()) {
                        true => roof.product_seconds(cost.flops, cost.bytes()),
                        false => roof.seconds(cost.flops, cost.bytes()),
                    }
                }),
            }
        };
        let view = program.plan().view(program.graph());
        let launches = view.launches().zip(&mut times).map(measured).collect();
        Ok(Self {
            name: name.unwrap_or_default(),
            device: description,
            threads,
            steps,
            seconds: median(&mut whole),
            host_seconds: median(&mut host),
            overlapped_seconds: (!overlapped.is_empty()).then(|| median(&mut overlapped)),
            launches,
            traced,
            roof,
        })
    }

    /// Returns the time in seconds of a step that communication with other ranks takes and other launches do
    /// not hide, including waiting for the other ranks; `None` if the program does not communicate.
    pub fn unhidden_seconds(&self) -> Option<f64> {
        let others = self.launches.iter().filter(|launch| !launch.communicates);
        let others: f64 = others.map(|launch| launch.seconds).sum();
        self.overlapped_seconds.map(|overlapped| overlapped - others - self.host_seconds)
    }

    /// Returns the sums over all launches.
    pub fn total(&self) -> Figures {
        Figures::of(&self.launches)
    }

    /// Returns the sums over each kind of kernel, longest time first.
    ///
    /// ```
    /// # use gradloom_cpu::CpuDevice as _;
    /// # use gradloom_core::{nn::Linear, trace::f32};
    /// # use gradloom_runtime::{Device, ProfileOptions, Session};
    /// # let session = Session::new(Linear::new(8, 2), &Device::cpu(), 0)?;
    /// # let mut infer = session.infer([f32("x", [4, 8])], |layer, [x]| layer.forward(x).relu())?;
    /// let profile = infer.profile(ProfileOptions::new(5).without_roof(), [&[1.0f32; 32]])?;
    /// for (kernel, figures) in profile.kernels() {
    ///     println!("{kernel}: {} launches, {:.1} GFLOP/s", figures.launches, figures.gflops_per_second());
    /// }
    /// # Ok::<(), gradloom_core::error::Error>(())
    /// ```
    pub fn kernels(&self) -> Vec<(&'static str, Figures)> {
        let mut kinds: BTreeMap<&'static str, Vec<&LaunchProfile>> = BTreeMap::new();
        self.launches.iter().for_each(|launch| kinds.entry(launch.kernel).or_default().push(launch));
        let mut kinds: Vec<_> =
            kinds.into_iter().map(|(name, launches)| (name, Figures::of(launches))).collect();
        kinds.sort_by(|a, b| b.1.seconds.total_cmp(&a.1.seconds));
        kinds
    }

    /// Returns the launches with their indices in the plan, longest time first.
    pub fn longest(&self) -> Vec<(usize, &LaunchProfile)> {
        let mut launches: Vec<(usize, &LaunchProfile)> = self.launches.iter().enumerate().collect();
        launches.sort_by(|a, b| b.1.seconds.total_cmp(&a.1.seconds));
        launches
    }

    /// Returns the tables that `Display` prints, with the given number of longest launches.
    pub fn table(&self, longest: usize) -> String {
        report::text(self, longest)
    }

    /// Returns the profile as one JSON object on one line, with all launches, longest time first. Keys may be
    /// added, but are never renamed. `config` is the name of the program; values that are relative to the
    /// roofline are null if it is unknown.
    pub fn to_json(&self) -> String {
        report::json(self)
    }

    /// Returns the last steps in the Trace Event Format, which [Perfetto](https://ui.perfetto.dev) and
    /// chrome://tracing can display.
    pub fn to_perfetto(&self) -> String {
        trace::json(self)
    }

    /// Writes [`Profile::to_perfetto`] to a file.
    ///
    /// ```no_run
    /// # use gradloom_cpu::CpuDevice as _;
    /// # use gradloom_core::{nn::Linear, trace::f32};
    /// # use gradloom_runtime::{Device, Session};
    /// # let session = Session::new(Linear::new(8, 2), &Device::cpu(), 0)?;
    /// # let mut infer = session.infer([f32("x", [4, 8])], |layer, [x]| layer.forward(x).relu())?;
    /// infer.profile(100, [&[1.0f32; 32]])?.write_perfetto("run.json")?;
    /// # Ok::<(), gradloom_core::error::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns an error if the file cannot be written.
    pub fn write_perfetto(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        regular_file::write(path, self.to_perfetto().as_bytes())
            .map_err(|error| unwritable(&path.display().to_string(), &error))
    }
}

/// Returns the median, which is the mean of the two middle values for an even number of values; 0 if there
/// are none.
fn median(values: &mut [f64]) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    match values.len() {
        0 => 0.0,
        n => (values[(n - 1) / 2] + values[n / 2]) / 2.0,
    }
}

#[cfg(test)]
mod tests {
    use super::median;

    #[test]
    fn medians() {
        assert_eq!(median(&mut []), 0.0);
        assert_eq!(median(&mut [3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&mut [4.0, 1.0, 3.0, 2.0]), 2.5);
    }
}
