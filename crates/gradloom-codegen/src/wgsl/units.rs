//! The shaders of a plan in the order in which they run.
//!
//! In: a plan, and where its memory is cut. Out: for each launch its shaders, with the guards between the
//! phases of a step.

use super::dispatch::{Bound, Context, Dispatch, Shaders};
use super::operands::Operands;
use super::{guards, shaders};
use crate::simt::custom::on_host;
use crate::step::{Owner, can_fail};
use gradloom_core::error::Result;
use gradloom_core::kernel::Launch;
use gradloom_core::plan::Plan;

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
    can_fail(plan) || step.any(|unit| unit.shaders().any(traps))
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
