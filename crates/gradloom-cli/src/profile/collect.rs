//! Runs the steps and puts times and costs together.

use crate::bench::configs::Workload;
use crate::failure::Result;
use gradloom::plan::{Cost, cost};
use gradloom::runtime::LaunchSpan;
use gradloom::runtime::cpu::Roofline;
use std::time::{Duration, Instant};

/// Steps that a trace shows.
const TRACED: usize = 5;

/// Measurements of one launch.
#[derive(Clone, Debug)]
pub(super) struct Row {
    /// Kind of kernel.
    pub(super) kernel: &'static str,
    /// The op that asked for it.
    pub(super) op: &'static str,
    /// The place of that op in the source.
    pub(super) place: Option<String>,
    /// Whether it runs in the commit.
    pub(super) commits: bool,
    pub(super) cost: Cost,
    /// Median over the steps.
    pub(super) seconds: f64,
    /// Least time that the machine's bounds allow.
    pub(super) bound: f64,
}

/// A step as it ran.
#[derive(Clone, Debug)]
pub(super) struct TracedStep {
    pub(super) began: Instant,
    pub(super) took: Duration,
    pub(super) spans: Vec<LaunchSpan>,
}

/// Everything that was found out.
#[derive(Clone, Debug)]
pub(super) struct Profile {
    pub(super) config: &'static str,
    pub(super) device: String,
    pub(super) threads: usize,
    pub(super) bounds: Roofline,
    /// Steps that were timed.
    pub(super) steps: u64,
    /// Median time of a step.
    pub(super) step: f64,
    /// Median of the time that a step spends outside launches.
    pub(super) host: f64,
    /// One row for each launch, in the order of the plan.
    pub(super) rows: Vec<Row>,
    /// The last steps.
    pub(super) traced: Vec<TracedStep>,
}

impl Profile {
    /// Makes so many steps, of which the first ones are not timed.
    pub(super) fn collect(
        config: &'static str,
        workload: &mut dyn Workload,
        (steps, warm): (u64, u64),
        bounds: Roofline,
    ) -> Result<Self> {
        workload.start_profiling();
        let mut times: Vec<Vec<f64>> = vec![Vec::new(); workload.plan().launches.len()];
        let (mut whole, mut host, mut traced) = (Vec::new(), Vec::new(), Vec::new());
        for number in 0..steps {
            let began = Instant::now();
            workload.step()?;
            let took = began.elapsed();
            if number < warm {
                continue;
            }
            let spans = workload.spans();
            spans.iter().for_each(|span| times[span.launch].push(span.took.as_secs_f64()));
            let kernels: Duration = spans.iter().map(|span| span.took).sum();
            whole.push(took.as_secs_f64());
            host.push(took.saturating_sub(kernels).as_secs_f64());
            if steps - number <= TRACED as u64 {
                traced.push(TracedStep { began, took, spans: spans.to_vec() });
            }
        }
        let (plan, graph) = (workload.plan(), workload.graph());
        let row = |(i, launch): (usize, &gradloom::kernel::Launch)| {
            let (op, cost) = (&graph.ops[launch.op], cost(plan, launch));
            Row {
                kernel: launch.kernel.name(),
                op: op.kind.name(),
                place: graph.origin(op).map(ToString::to_string),
                commits: launch.phase == gradloom::kernel::Phase::Commit,
                cost,
                seconds: median(&mut times[i]),
                bound: bounds.seconds(cost.flops, cost.bytes()),
            }
        };
        let rows = plan.launches.iter().enumerate().map(row).collect();
        Ok(Self {
            config,
            device: workload.device().description(),
            threads: workload.device().threads(),
            steps: steps - warm,
            step: median(&mut whole),
            host: median(&mut host),
            rows,
            traced,
            bounds,
        })
    }
}

/// The middle of the values, or of the two in the middle; 0 if there are none.
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
