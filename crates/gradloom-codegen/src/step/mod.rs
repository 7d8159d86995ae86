//! Steps on a GPU, independent of the dialect: owners of kernels, conditions that prevent a commit, and the
//! device's status words.
//!
//! In: a plan. Out: [`Owner`]s, windows, and [`Status`].

pub(crate) mod status;

pub use status::{ACKNOWLEDGED, Failure, STATUS_WORDS, STEP_WORDS, Status, Verdict};

use crate::simt::custom::on_host;
use gradloom_core::error::Error;
use gradloom_core::ir::Graph;
use gradloom_core::kernel::{Access, Kernel, Launch, Phase};
use gradloom_core::plan::{Plan, Region};

/// Part of a program to which a kernel belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// Launch that runs only once, with its index in [`Plan::hoisted`].
    Hoisted(usize),
    /// Launch of the step, with its index in [`Plan::launches`].
    Launch(usize),
    /// Kernel that decides whether the step commits.
    Guards,
}

impl Owner {
    /// Returns the index of the launch, which a kernel records with a fault; 0 for the guards, whose kernel
    /// does not use it.
    pub fn number(self) -> usize {
        match self {
            Self::Hoisted(number) | Self::Launch(number) => number,
            Self::Guards => 0,
        }
    }

    fn launch(self, plan: &Plan) -> Option<&Launch> {
        match self {
            Self::Hoisted(i) => Some(&plan.hoisted[i]),
            Self::Launch(i) => Some(&plan.launches[i]),
            Self::Guards => None,
        }
    }

    /// Adds to an error the location, in the user's source, of the op that the kernel computes.
    pub fn blame(self, plan: &Plan, graph: &Graph, error: Error) -> Error {
        graph.blame(self.launch(plan).map(|launch| &graph.ops[launch.op]), error)
    }
}

/// Start of a window that the commit replaces, along one axis. A start out of range is a trap.
#[derive(Clone, Copy, Debug)]
pub struct Window<'p> {
    /// Index of the launch that replaces the window.
    pub launch: usize,
    /// Axis of the start.
    pub axis: usize,
    /// Largest start that is in range.
    pub room: usize,
    /// Access to the start, an i32.
    pub start: &'p Access,
}

/// Returns the windows that a plan's commit replaces, axis by axis.
pub(crate) fn windows(plan: &Plan) -> impl Iterator<Item = Window<'_>> {
    let replaces = |launch: &Launch| launch.phase == Phase::Commit && launch.kernel == Kernel::WriteRegion;
    let launches = plan.launches.iter().enumerate().filter(move |(_, launch)| replaces(launch));
    launches.flat_map(|(number, launch)| {
        let (window, whole) = (&launch.reads[0].layout.shape, &launch.writes[0].layout.shape);
        launch.reads[1..].iter().enumerate().map(move |(axis, start)| Window {
            launch: number,
            axis,
            room: whole[axis] - window[axis],
            start,
        })
    })
}

/// Returns `true` if a plan's guards or windows can prevent a step from committing. Other kernels that may
/// trap are not considered.
pub(crate) fn can_fail(plan: &Plan) -> bool {
    let windows = |launch: &Launch| launch.kernel == Kernel::WriteRegion;
    !plan.guards.is_empty() || plan.launches.iter().any(windows)
}

/// Returns the index of the first kernel of a step's commit if a guard is in the store, where the commit may
/// overwrite it. The host must read the results before that kernel runs, so it starts a separate pass.
/// Without such guards, returns the number of kernels.
pub fn pause(plan: &Plan, step: &[Owner]) -> usize {
    let stored = |access: &Access| plan.buffers[plan.buffer_of[&access.buffer]].region == Region::Store;
    if !plan.guards.iter().any(|(_, access)| stored(access)) {
        return step.len();
    }
    let commits = |owner: &Owner| matches!(owner, Owner::Launch(launch) if *launch >= plan.first_commit());
    step.iter().position(commits).unwrap_or(step.len())
}

/// Returns the launches of a step that run on the host, in order, each with the index of the step's kernel
/// before which it runs.
pub fn host_steps(graph: &Graph, plan: &Plan, step: &[Owner]) -> Vec<(usize, usize)> {
    let is_hosted = |(_, launch): &(usize, &Launch)| on_host(launch, graph).is_some();
    let hosted = plan.launches.iter().enumerate().filter(is_hosted).map(|(number, _)| number);
    let before = |number: usize| {
        step.partition_point(|step| match *step {
            Owner::Launch(other) => other < number,
            // A user-defined op can trap, and is therefore never part of the commit, so it runs before the
            // guards.
            Owner::Guards => false,
            Owner::Hoisted(_) => true,
        })
    };
    hosted.map(|number| (number, before(number))).collect()
}
