//! Shaders of a plan, in execution order.
//!
//! In: a plan, and the positions at which its memory is cut. Out: the shaders of each launch, with the guards
//! between the phases of a step.

use super::dispatch::{Bound, Context, Dispatch};
use super::operands::Operands;
use super::print::print;
use crate::kernels::{self, Program};
use crate::simt::Kernel;
use crate::step::Owner;
use gradloom_core::error::Result;

/// Shaders on the same operands.
#[derive(Clone, Debug, PartialEq)]
pub struct Unit {
    /// Part of the program to which the shaders belong.
    pub owner: Owner,
    /// Memory that the shaders bind.
    pub operands: Operands,
    /// Shaders in execution order; empty if there is nothing to compute.
    pub dispatches: Vec<Dispatch>,
}

/// One shader of a unit.
#[derive(Clone, Copy, Debug)]
pub struct Shader<'a> {
    /// Part of the program to which the shader belongs.
    pub owner: Owner,
    /// Bindings of the shader's unit.
    pub operands: &'a Operands,
    /// The shader.
    pub dispatch: &'a Dispatch,
}

/// Returns the shaders of a plan: first those that run only once, then those of a step in order, with the
/// guards between its phases. Launches that run on the host have none.
///
/// # Errors
/// Returns an error if a kernel cannot run on an adapter with these limits.
pub fn units(context: &Context<'_>) -> Result<Vec<Unit>> {
    let units = kernels::units(context.program(), context)?;
    Ok(units.into_iter().map(|unit| printed(unit, context)).collect())
}

fn printed(unit: kernels::Unit<Operands>, context: &Context<'_>) -> Unit {
    let number = unit.owner.number();
    let print = |kernel: &Kernel| {
        let mut dispatch = print(kernel, &unit.operands, context.limits, number);
        for bound in &mut dispatch.bindings {
            if let Bound::Workspace(bytes) = bound {
                *bytes = bytes.start + unit.scratch.start..bytes.end + unit.scratch.start;
            }
        }
        debug_assert_eq!(dispatch.bindings.len(), unit.operands.count(kernel, context.limits), "{kernel}");
        dispatch
    };
    let dispatches = unit.kernels().iter().map(print).collect();
    Unit { owner: unit.owner, operands: unit.operands, dispatches }
}

impl<'c> Context<'c> {
    fn program(&self) -> Program<'c> {
        Program { plan: self.plan, graph: self.graph }
    }
}

impl Unit {
    /// Returns the unit's shaders, in order.
    pub fn shaders(&self) -> impl Iterator<Item = Shader<'_>> {
        let Self { owner, operands, dispatches } = self;
        dispatches.iter().map(|dispatch| Shader { owner: *owner, operands, dispatch })
    }
}

/// Returns, for each binding of a shader, `true` if it may be written.
pub fn writable(operands: &Operands, dispatch: &Dispatch) -> Vec<bool> {
    let writable = |bound: &Bound| match bound {
        Bound::Operand(i) | Bound::Piece(i, _) => operands.bindings[*i].writable,
        Bound::Workspace(_) => true,
        Bound::Table(_) => false,
        Bound::Status { writable } => *writable,
    };
    dispatch.bindings.iter().map(writable).collect()
}
