//! The kernels of a plan in the order in which they run.
//!
//! In: a plan, and where its memory is cut. Out: for each launch its kernels, with the guards between the
//! phases of a step.

use super::guards::guards;
use super::launch::{CudaKernel, kernels};
use crate::step::{Owner, can_fail};
use crate::wgsl::Cuts;
use gradloom_core::error::Result;
use gradloom_core::ir::Graph;
use gradloom_core::kernel::Launch;
use gradloom_core::plan::Plan;

/// A kernel, and what it belongs to.
#[derive(Clone, Debug, PartialEq)]
pub struct CudaUnit {
    /// What it belongs to.
    pub owner: Owner,
    /// The kernel.
    pub kernel: CudaKernel,
}

/// The kernels of a plan: those that run once, then a step's in order, with the guards between its phases. A
/// launch that the host runs has none.
///
/// # Errors
/// When an op has no kernel for GPUs.
pub fn units(plan: &Plan, graph: &Graph, cuts: &Cuts) -> Result<Vec<CudaUnit>> {
    let all =
        |owner: fn(usize) -> Owner, launches: &[Launch], scratch: &[u64]| -> Result<Vec<Vec<CudaUnit>>> {
            let of = |(number, launch): (usize, &Launch)| {
                let scratch = scratch.get(number).copied().unwrap_or(0);
                let made = kernels(launch, number, scratch, plan, graph, cuts)?;
                Ok(made.into_iter().map(|kernel| CudaUnit { owner: owner(number), kernel }).collect())
            };
            launches.iter().enumerate().map(of).collect()
        };
    let hoisted = all(Owner::Hoisted, &plan.hoisted, &[])?;
    let mut step = all(Owner::Launch, &plan.launches, &plan.scratch)?;
    let traps = step.iter().flatten().any(|unit| unit.kernel.spans.traps);
    if !plan.launches.is_empty() && (can_fail(plan) || traps) {
        step.insert(plan.first_commit(), vec![CudaUnit { owner: Owner::Guards, kernel: guards(plan) }]);
    }
    Ok(hoisted.into_iter().chain(step).flatten().collect())
}
