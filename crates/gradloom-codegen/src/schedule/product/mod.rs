//! Tiles of matrix products.
//!
//! In: a [`DotProblem`] and the limits of a device. Out: a [`ProductChoice`] by rule, and the choices worth
//! measuring.

mod candidates;
mod choose;
#[cfg(test)]
mod tests;

pub use candidates::candidates;
pub use choose::{choose, lanes};
pub(crate) use choose::{reads_once, streamed_parts};

use crate::limits::Limits;
use crate::product::{Along, DotProblem, Side};
use crate::schedule::precision::Precision;
use gradloom_core::ir::DType;
use gradloom_core::kernel::{CooperativeTile, Method, ProductChoice, ProductSchedule, Staging};

/// Returns the tile for operands of this type. A tile of f32 operands processes half as many terms at a time
/// as one of 16-bit operands, so that they take as many bytes.
pub(crate) fn of_operands(tile: CooperativeTile, operands: Option<DType>) -> CooperativeTile {
    match operands {
        Some(DType::F32) => CooperativeTile { k: (tile.k / 2).max(16), ..tile },
        _ => tile,
    }
}

/// Returns `true` if a tile is well formed and a device with these limits can run it. `operands` is the type
/// of operands in matrix instructions.
pub fn fits(method: Method, operands: DType, limits: &Limits) -> bool {
    match method {
        Method::Portable(tile) => {
            tile.is_well_formed()
                && (limits.scalar || tile.staging != Staging::Scalars)
                && tile.threads() <= limits.invocations
                && tile.workgroup_memory() <= limits.workgroup_memory
        }
        Method::Cooperative(tile) => {
            let Some(subgroup) = limits.subgroup else { return false };
            limits.cooperative
                && tile.is_well_formed()
                && tile.subgroups() * subgroup <= limits.invocations
                && tile.workgroup_memory(operands) <= limits.workgroup_memory
        }
    }
}

/// Returns `true` if the operands of a product can be loaded directly into the registers of matrix
/// instructions: the left one in groups of four terms, and the right one in groups of four along either axis.
fn streams(tile: &CooperativeTile, problem: &DotProblem, limits: &Limits) -> bool {
    let [left, right] = Side::both(problem);
    limits.fragments
        && problem.k > 0
        && problem.k.is_multiple_of(tile.k as usize)
        && left.has_fours
        && left.along == Along::Contract
        && right.has_fours
        // The last group of columns is moved back to stay in bounds, so there must be enough columns for a
        // whole group.
        && problem.n >= tile.n as usize
}

/// Returns `true` if a device with these limits can compute a product with this choice in this precision.
pub fn suits(choice: &ProductChoice, problem: &DotProblem, precision: Precision, limits: &Limits) -> bool {
    let allowed = match choice.method {
        Method::Portable(tile) if matches!(tile.staging, Staging::Lanes(_)) => {
            let contiguous = Side::both(problem)[1].along == Along::Contract;
            // If terms are contiguous, each subgroup computes whole columns, so there must be as many slices
            // as lanes.
            let fits = !contiguous || tile.slices() == 32;
            choice.parts == 1 && problem.k > 0 && fits && limits.subgroup == Some(32)
        }
        // Each group of threads must process the same number of whole tiles of terms.
        Method::Portable(tile) if tile.slices() > 1 => {
            choice.parts == 1 && problem.k > 0 && problem.k.is_multiple_of((tile.slices() * tile.k) as usize)
        }
        // Parts of sums are stored as vectors of four columns, so each thread must compute a multiple of four
        // columns.
        Method::Portable(tile) => choice.parts == 1 || tile.thread_n.is_multiple_of(4),
        Method::Cooperative(tile) if tile.is_streamed() => {
            choice.parts == 1 && limits.half(precision).is_some() && streams(&tile, problem, limits)
        }
        Method::Cooperative(_) => limits.operands(precision).is_some(),
    };
    // The size of the results may exceed `usize` on a 32-bit host.
    let extents = problem.batch.iter().map(|axis| axis.extent).chain([problem.m, problem.n]);
    let results = extents.fold(1, |product: u64, extent| product.saturating_mul(extent as u64));
    let bytes = results.saturating_mul(4).saturating_mul(choice.parts.into());
    let scratch = choice.parts == 1 || bytes <= limits.binding_bytes && bytes / 4 <= u32::MAX.into();
    let operands = limits.operands(precision).unwrap_or(DType::F16);
    allowed && fits(choice.method, operands, limits) && (1..=64).contains(&choice.parts) && scratch
}

/// Returns the schedule of a product with this choice. `operands` is the type of operands in matrix
/// instructions.
///
/// # Panics
/// Panics if the choice does not fit the limits.
pub(crate) fn schedule(
    problem: &DotProblem,
    choice: ProductChoice,
    operands: DType,
    limits: &Limits,
) -> ProductSchedule {
    assert!(fits(choice.method, operands, limits), "{choice:?} does not fit {limits:?}");
    let choice = choice.without_empty_parts(problem.k);
    let parts = choice.parts as usize;
    ProductSchedule {
        choice,
        operands,
        splits: false,
        workspace: if parts > 1 { 4 * problem.results() as u64 * parts as u64 } else { 0 },
        subgroup: limits.subgroup.unwrap_or(1),
        adding: limits.invocations.min(if limits.software { 64 } else { 128 }),
    }
}
