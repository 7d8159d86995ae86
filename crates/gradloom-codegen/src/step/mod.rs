//! Steps on a GPU, in any dialect of kernels: the part of the program that a kernel belongs to, what can
//! keep the step from its commit, and the words in which the device says so.
//!
//! In: a plan. Out: [`Owner`]s, windows, [`Status`].

pub(crate) mod status;

pub use status::{ACKNOWLEDGED, Failure, STATUS_WORDS, STEP_WORDS, Status, Verdict};

use crate::simt::custom::on_host;
use gradloom_core::error::Error;
use gradloom_core::ir::Graph;
use gradloom_core::kernel::{Access, Kernel, Launch, Phase};
use gradloom_core::plan::{Plan, Region};

/// The part of a program that a kernel belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// A launch that runs once, by its number among those.
    Hoisted(usize),
    /// A launch of the step.
    Launch(usize),
    /// The kernel that decides whether the step commits.
    Guards,
}

impl Owner {
    /// Returns the number of the launch, by which it reports faults; 0 of the guards, which report none.
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

    /// Returns an error of a kernel, with the place in the user's source that it computes.
    pub fn blame(self, plan: &Plan, graph: &Graph, error: Error) -> Error {
        let op = self.launch(plan).map(|launch| &graph.ops[launch.op]);
        match op.and_then(|op| Some((graph.origin(op)?, op))) {
            Some((origin, op)) => error.at(origin.clone(), op.kind.name()),
            None => error,
        }
    }
}

/// The start along one axis of a window that the commit replaces: one that does not fit is a trap.
#[derive(Clone, Copy, Debug)]
pub struct Window<'p> {
    /// Number of the launch that replaces it.
    pub launch: usize,
    /// The axis.
    pub axis: usize,
    /// The largest start that fits.
    pub room: usize,
    /// The start, an i32.
    pub start: &'p Access,
}

/// Returns the windows of a plan's commit, axis by axis.
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

/// Returns true if a plan's guards or windows can keep a step from its commit; so can a kernel that traps.
pub(crate) fn can_fail(plan: &Plan) -> bool {
    let windows = |launch: &Launch| launch.kernel == Kernel::WriteRegion;
    !plan.guards.is_empty() || plan.launches.iter().any(windows)
}

/// Returns the number of the first of a step's kernels that is run in a pass of its own, because the
/// store's values from before it are results (guards that are parameters themselves); the number of all
/// kernels if there is none.
pub fn pause(plan: &Plan, step: &[Owner]) -> usize {
    let stored = |access: &Access| plan.buffers[plan.buffer_of[&access.buffer]].region == Region::Store;
    if !plan.guards.iter().any(|(_, access)| stored(access)) {
        return step.len();
    }
    let commits = |owner: &Owner| matches!(owner, Owner::Launch(launch) if *launch >= plan.first_commit());
    step.iter().position(commits).unwrap_or(step.len())
}

/// Returns the launches of a step that the host runs, in order, each with the number of the step's kernel
/// before which it runs.
pub fn host_steps(graph: &Graph, plan: &Plan, step: &[Owner]) -> Vec<(usize, usize)> {
    let is_hosted = |(_, launch): &(usize, &Launch)| on_host(launch, graph).is_some();
    let hosted = plan.launches.iter().enumerate().filter(is_hosted).map(|(number, _)| number);
    let before = |number: usize| {
        step.partition_point(|step| match *step {
            Owner::Launch(other) => other < number,
            // A user's op can trap, so it is never part of the commit.
            Owner::Guards => false,
            Owner::Hoisted(_) => true,
        })
    };
    hosted.map(|number| (number, before(number))).collect()
}
