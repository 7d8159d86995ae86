//! Tests of random graphs in every stage, or on a GPU.
//!
//! In: a seed and a number of graphs. Out: nothing, or the graphs that fail in some stage, shrunk. Each
//! number draws two graphs: one with any primitives, with NaN, infinities, integers and traps, which is
//! evaluated in float64; and a training step with moderate numbers, which also runs in float32 and is
//! compared with float64. On a GPU only the training step is tested, since WGSL guarantees little about NaN.

mod check;
mod on_device;
mod shrink;
pub(crate) mod text;

use crate::options::{self, Slot};
use check::{Devices, Failure, Subject};
use gradloom_runtime::Device;
use gradloom_testing::float32::Compared;
use gradloom_testing::{Leaves, Random, deep, generate, training_step};
use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

/// Time between two reports of progress.
const PROGRESS: Duration = Duration::from_secs(10);

/// Statistics of the checked graphs, which show that they were not trivial.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    graphs: u64,
    /// Number of graphs whose evaluation traps.
    trapped: u64,
    /// Comparisons of steps in float32.
    compared: Compared,
    /// Number of graphs that failed.
    failed: u64,
}

impl std::fmt::Display for Counts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { graphs, trapped, compared, failed } = self;
        let Compared { steps, sensitive, wild } = compared;
        write!(
            f,
            "{graphs} graphs agree ({trapped} of them trap), and so do {steps} steps in float32 ({sensitive} \
             of them magnify \
             rounding; {wild} more had numbers too large to compare); {failed} graphs fail"
        )
    }
}

/// Number of draws after which a GPU is opened again, since it keeps the compiled kernels of all programs.
const RENEWED: u64 = 100;

/// The code under test.
enum Target {
    /// All stages, including programs on the CPU.
    Stages(Devices),
    /// All stages, with graphs of up to this many ops.
    Deep(Devices, usize),
    /// Programs on one GPU.
    Gpu(Gpu),
}

/// A GPU that can be reopened.
struct Gpu {
    device: RefCell<Device>,
    open: Box<dyn Fn() -> Result<Device, String>>,
    /// Options that selected the GPU.
    options: String,
}

impl Gpu {
    fn new(open: impl Fn() -> Result<Device, String> + 'static, options: String) -> Result<Self, String> {
        Ok(Self { device: RefCell::new(open()?), open: Box::new(open), options })
    }
}

impl Target {
    /// Returns the target that the options request.
    ///
    /// # Errors
    /// Returns an error if there is no such device.
    fn new(device: &str, adapter: &str, deep: u64) -> Result<Self, String> {
        match device {
            "cpu" if adapter.is_empty() && deep > 0 => {
                let ops = usize::try_from(deep).map_err(|_| "--deep: that many ops fit no graph")?;
                Ok(Self::Deep(Devices::new(), ops))
            }
            "cpu" if adapter.is_empty() => Ok(Self::Stages(Devices::new())),
            "cpu" => Err("--adapter chooses a GPU: it goes with --device wgpu".into()),
            "wgpu" => {
                let named = if adapter.is_empty() { String::new() } else { format!(" --adapter {adapter}") };
                let adapter = adapter.to_string();
                let open = move || options::gpu(&adapter);
                Ok(Self::Gpu(Gpu::new(open, format!(" --device wgpu{named}"))?))
            }
            other => Err(format!("--device {other}: there are cpu and wgpu")),
        }
    }

    /// Generates the graphs that are tested for the random number `drawn`.
    fn subjects(&self, drawn: u64) -> Vec<Subject> {
        if let Self::Deep(_, ops) = self {
            let graph = deep(drawn, *ops).expect("deep graphs can be traced");
            return vec![Subject { graph, leaves: Leaves::random(drawn), tame: false }];
        }
        let step = training_step(drawn);
        let step = Subject { graph: step.graph, leaves: step.leaves, tame: true };
        match self {
            Self::Stages(_) | Self::Deep(..) => {
                vec![Subject { graph: generate(drawn), leaves: Leaves::random(drawn), tame: false }, step]
            }
            Self::Gpu(..) => vec![step],
        }
    }

    /// Runs the check; a panic is a failure.
    fn check(&self, subject: &Subject, counts: &mut Counts) -> Result<(), Failure> {
        let checked = catch(|| match self {
            Self::Stages(devices) | Self::Deep(devices, _) => check::check(subject, devices, counts),
            Self::Gpu(gpu) => on_device::check(subject, &gpu.device.borrow(), counts),
        });
        checked.unwrap_or_else(|message| Err(Failure { stage: "a panic".into(), message }))
    }

    fn options(&self) -> String {
        match self {
            Self::Stages(_) => String::new(),
            Self::Deep(_, ops) => format!(" --deep {ops}"),
            Self::Gpu(gpu) => gpu.options.clone(),
        }
    }

    /// Opens the GPU again. If that fails, the old one stays, and the next graph fails.
    fn renew(&self) {
        if let Self::Gpu(gpu) = self
            && let Ok(device) = (gpu.open)()
        {
            *gpu.device.borrow_mut() = device;
        }
    }
}

/// Runs `cargo xtask fuzz`.
///
/// # Errors
/// Returns an error if a graph fails; the failures are printed.
pub(crate) fn command(arguments: &[String]) -> Result<(), String> {
    let (mut graphs, mut seed, mut from, mut failures) = (2000, 1, 0, 1);
    let (mut device, mut adapter, mut deep) = ("cpu".to_string(), String::new(), 0);
    let known = &mut [
        ("--graphs", Slot::Number(&mut graphs)),
        ("--seed", Slot::Number(&mut seed)),
        ("--from", Slot::Number(&mut from)),
        ("--failures", Slot::Number(&mut failures)),
        ("--device", Slot::Text(&mut device)),
        ("--adapter", Slot::Text(&mut adapter)),
        ("--deep", Slot::Number(&mut deep)),
    ];
    options::read(arguments, known)?;
    let target = Target::new(&device, &adapter, deep)?;
    if let Target::Gpu(gpu) = &target {
        println!("on {}", gpu.device.borrow().description());
    }
    let start = Instant::now();
    hide_caught_panics();
    let (mut said, mut found) = (Instant::now(), 0);
    let mut report = |event: Event<'_>| match event {
        Event::Drawn(number, counts) => {
            if said.elapsed() >= PROGRESS {
                println!("graph {number}: {counts}; {:.0} s", start.elapsed().as_secs_f64());
                said = Instant::now();
            }
            true
        }
        Event::Shrinking(message) => {
            println!("{message}\nlooking for a smaller graph that fails so");
            true
        }
        Event::Failed(message) => {
            println!("{message}");
            found += 1;
            found < failures
        }
    };
    let counts = run(&target, seed, from..from.saturating_add(graphs), &mut report);
    println!("seed {seed}, from graph {from} on: {counts}; {:.0} s", start.elapsed().as_secs_f64());
    if counts.failed == 0 { Ok(()) } else { Err(format!("{} graphs fail", counts.failed)) }
}

/// An event of a run.
enum Event<'a> {
    /// The graphs of a number were checked.
    Drawn(u64, &'a Counts),
    /// A graph failed; the text has its seed, the graph and the failure.
    Shrinking(&'a str),
    /// A failing graph was shrunk; the text has its seed, the smallest graph and the failure.
    Failed(&'a str),
}

/// Checks the graphs of these numbers, until `report` returns `false` because enough failures were found.
fn run(
    target: &Target,
    seed: u64,
    numbers: std::ops::Range<u64>,
    report: &mut dyn FnMut(Event<'_>) -> bool,
) -> Counts {
    let mut counts = Counts::default();
    for number in numbers {
        // Different pairs of a seed and a number lead to distant states of the generator.
        let drawn = Random::new(seed.wrapping_mul(0x1_0000_0001).wrapping_add(number << 32)).next();
        let options = target.options();
        let again = format!("again with: cargo xtask fuzz{options} --graphs 1 --seed {seed} --from {number}");
        // Creating a step differentiates and attaches an optimizer, so it can fail, too.
        let failed = match catch(|| target.subjects(drawn)) {
            Ok(subjects) => check_all(target, &subjects, &again, &mut counts, report),
            Err(panic) => Some(format!("making a step: {panic}\n{again}")),
        };
        if let Some(message) = failed {
            counts.failed += 1;
            if !report(Event::Failed(&message)) {
                return counts;
            }
        }
        report(Event::Drawn(number, &counts));
        if (number + 1).is_multiple_of(RENEWED) {
            target.renew();
        }
    }
    counts
}

/// Checks graphs in turn, and returns the failure of the first that fails.
fn check_all(
    target: &Target,
    subjects: &[Subject],
    again: &str,
    counts: &mut Counts,
    report: &mut dyn FnMut(Event<'_>) -> bool,
) -> Option<String> {
    for subject in subjects {
        let before = *counts;
        if let Err(failure) = target.check(subject, counts) {
            report(Event::Shrinking(&format!(
                "{}: {}\n{}\n{again}",
                failure.stage, failure.message, subject.graph
            )));
            // Open the GPU again, because the failure may have lost it.
            target.renew();
            let fails = |subject: &Subject| {
                target.check(subject, &mut before.clone()).is_err_and(|f| f.stage == failure.stage)
            };
            let graph = shrink::shrink(subject, fails);
            let small = Subject { graph, ..subject.clone() };
            let failure = target.check(&small, &mut before.clone()).err().unwrap_or(failure);
            return Some(format!(
                "{}: {}\n{}\nfrom a graph of {} ops; {again}",
                failure.stage,
                failure.message,
                small.graph,
                subject.graph.entry_ops().count(),
            ));
        }
        counts.graphs += 1;
    }
    None
}

thread_local! {
    /// True if panics of this thread are caught and must not be printed.
    static CAUGHT: Cell<bool> = const { Cell::new(false) };
}

/// Hides the messages of panics that are caught. Such a panic is a failure like others, and is repeated many
/// times while its graph is shrunk.
pub(crate) fn hide_caught_panics() {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if !CAUGHT.get() {
            hook(panic);
        }
    }));
}

/// Calls a function, and turns a panic into an error with its message.
pub(crate) fn catch<T>(call: impl FnOnce() -> T) -> Result<T, String> {
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
    use super::check::Devices;
    use super::{Event, Gpu, Target, run};
    use gradloom_runtime::Device;

    #[test]
    fn three_hundred_random_graphs_agree_in_every_stage() {
        let counts = run(&Target::Stages(Devices::new()), 0, 0..150, &mut |event| match event {
            Event::Failed(message) => panic!("{message}"),
            Event::Drawn(..) | Event::Shrinking(_) => true,
        });
        assert_eq!(counts.graphs, 300);
        assert!(counts.trapped < 20, "{counts:?}");
        let compared = counts.compared;
        assert!(compared.steps > 8 * compared.wild && compared.steps > 400, "{counts:?}");
        assert!(compared.sensitive < 10, "{counts:?}");
    }

    #[test]
    fn a_failure_is_shrunk_and_says_how_to_see_it_again() {
        let mut said = Vec::new();
        // Use a device that produces no numbers, so that every graph fails.
        let gpu = Gpu::new(|| Ok(Device::null()), " --device null".into());
        let target = Target::Gpu(gpu.expect("it is always there"));
        let counts = run(&target, 3, 7..20, &mut |event| {
            if let Event::Failed(message) = event {
                said.push(message.to_string());
            }
            said.len() < 2
        });
        assert_eq!((counts.failed, said.len()), (2, 2));
        assert!(said[0].contains("xtask fuzz --device null --graphs 1 --seed 3 --from 7"), "{}", said[0]);
        let ops = said[0].lines().filter(|line| line.trim_start().starts_with('%')).count();
        assert!(ops < 4, "{}", said[0]);
    }
}
