//! The shaders of a plan in the order in which they run.
//!
//! In: a plan, and where its memory is cut. Out: for each launch its shaders, with the guards between the
//! phases of a step.

use super::dispatch::{Bound, Context, Dispatch, Shaders};
use super::operands::Operands;
use super::{guards, shaders};
use crate::simt::custom::on_host;
use gradloom_core::error::{Error, Result};
use gradloom_core::ir::Graph;
use gradloom_core::kernel::{Access, Kernel, Launch};
use gradloom_core::plan::{Plan, Region};

/// The part of a program that a shader belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// A launch that runs once, by its number among those.
    Hoisted(usize),
    /// A launch of the step.
    Launch(usize),
    /// The shader that decides whether the step commits.
    Guards,
}

impl Owner {
    fn launch(self, plan: &Plan) -> Option<&Launch> {
        match self {
            Self::Hoisted(i) => Some(&plan.hoisted[i]),
            Self::Launch(i) => Some(&plan.launches[i]),
            Self::Guards => None,
        }
    }

    /// An error of a kernel, with the place in the user's source that it computes.
    pub fn blame(self, plan: &Plan, graph: &Graph, error: Error) -> Error {
        let op = self.launch(plan).map(|launch| &graph.ops[launch.op]);
        match op.and_then(|op| Some((graph.origin(op)?, op))) {
            Some((origin, op)) => error.at(origin.clone(), op.kind.name()),
            None => error,
        }
    }
}

/// Some shaders over the same operands.
#[derive(Clone, Debug, PartialEq)]
pub struct Unit {
    /// What they belong to.
    pub owner: Owner,
    /// In order.
    pub shaders: Shaders,
}

/// One shader of a unit.
#[derive(Clone, Copy, Debug)]
pub struct Shader<'a> {
    /// What it belongs to.
    pub owner: Owner,
    /// What its unit binds.
    pub operands: &'a Operands,
    /// The shader.
    pub dispatch: &'a Dispatch,
}

/// The shaders of a plan: those that run once, then a step's in order, with the guards between its phases. A
/// launch that the host runs has none.
///
/// # Errors
/// When a kernel cannot run on an adapter with these limits.
pub fn units(context: &Context<'_>) -> Result<Vec<Unit>> {
    let plan = context.plan;
    let of = |owner: fn(usize) -> Owner, number: usize, launch: &Launch| -> Result<Vec<Unit>> {
        if on_host(launch, context.graph).is_some() {
            return Ok(Vec::new());
        }
        let shaders = shaders(launch, number, context)?;
        Ok(shaders.into_iter().map(|shaders| Unit { owner: owner(number), shaders }).collect())
    };
    let all = |owner: fn(usize) -> Owner, launches: &[Launch]| -> Result<Vec<Vec<Unit>>> {
        launches.iter().enumerate().map(|(number, launch)| of(owner, number, launch)).collect()
    };
    let hoisted = all(Owner::Hoisted, &plan.hoisted)?;
    let mut step = all(Owner::Launch, &plan.launches)?;
    if let Some(launch) = plan.launches.first()
        && decides(plan, step.iter().flatten())
    {
        let guards = Unit { owner: Owner::Guards, shaders: guards(launch, context)? };
        step.insert(plan.first_commit(), vec![guards]);
    }
    Ok(hoisted.into_iter().chain(step).flatten().collect())
}

impl Unit {
    /// Its shaders, in order.
    pub fn shaders(&self) -> impl Iterator<Item = Shader<'_>> {
        let Self { owner, shaders: Shaders { operands, dispatches } } = self;
        dispatches.iter().map(|dispatch| Shader { owner: *owner, operands, dispatch })
    }
}

/// Whether anything can keep a step from its commit, or from being a success.
fn decides<'a>(plan: &Plan, mut step: impl Iterator<Item = &'a Unit>) -> bool {
    let traps = |shader: Shader<'_>| shader.dispatch.bindings.contains(&Bound::Status { writable: true });
    let windows = |launch: &Launch| launch.kernel == Kernel::WriteRegion;
    !plan.guards.is_empty() || plan.launches.iter().any(windows) || step.any(|unit| unit.shaders().any(traps))
}

/// The number of the first of a step's kernels that is run in a pass of its own, because the store's values
/// from before it are results: guards that are parameters themselves. Their number if there is none.
pub fn pause(plan: &Plan, step: &[Owner]) -> usize {
    let stored = |access: &Access| plan.buffers[plan.buffer_of[&access.buffer]].region == Region::Store;
    if !plan.guards.iter().any(|(_, access)| stored(access)) {
        return step.len();
    }
    let commits = |owner: &Owner| matches!(owner, Owner::Launch(launch) if *launch >= plan.first_commit());
    step.iter().position(commits).unwrap_or(step.len())
}

/// Which bindings of a shader may be written.
pub fn writable(operands: &Operands, dispatch: &Dispatch) -> Vec<bool> {
    let writable = |bound: &Bound| match bound {
        Bound::Operand(i) | Bound::Piece(i, _) => operands.bindings[*i].writable,
        Bound::Workspace(_) => true,
        Bound::Table(_) => false,
        Bound::Status { writable } => *writable,
    };
    dispatch.bindings.iter().map(writable).collect()
}
