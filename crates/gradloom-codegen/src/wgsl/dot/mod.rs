//! Matrix products for WebGPU.
//!
//! In: a [`DotKernel`], a [`Choice`] of tiles and the adapter's [`Limits`]. Out: one shader, or two where the
//! sums are cut into parts, as WGSL text.
//!
//! What always holds: every result goes through the epilogue exactly once; nothing outside of the operands'
//! elements is read; sums are in `f32`, and their order is a function of the choice alone, so that equal runs
//! give equal bits.

mod candidates;
mod choose;
mod cooperative;
mod grid;
mod portable;
mod problem;
mod record;
mod scalar;
mod split;
mod staged;
#[cfg(test)]
mod tests;
mod tile;

pub use candidates::candidates;
pub use choose::{choose, lanes};
pub use problem::{DotKernel, Element, Epilogue, Operand, Scalar, Stage, fold_batch, workspace_item};
pub use record::{from_line, to_line};
pub use tile::{Choice, CooperativeTile, Method, Staging, Tile};

use super::{Limits, Shader};
use crate::cpu::{BatchAxis, DotProblem, MatrixView};

/// The shaders of a product.
#[derive(Clone, Debug)]
pub struct DotShaders {
    /// The product.
    pub product: Shader,
    /// Adds the parts of the sums, where there are several.
    pub sum: Option<Shader>,
    /// Elements (`f32`) of the workspace between both; 0 without a second shader.
    pub workspace: usize,
}

/// The shaders that compute a product.
///
/// # Panics
/// If the choice does not fit the limits (see [`Tile::fits`]), if an epilogue takes four lanes of rows that
/// are not whole fours, or if operands or results have 2^32 elements or more.
pub fn generate(kernel: &DotKernel<'_>, choice: &Choice, limits: &Limits) -> DotShaders {
    let problem = kernel.problem;
    let choice = &choice.without_empty_parts(problem.k);
    let results = problem.batch_count() * problem.m * problem.n;
    assert!(kernel.epilogue.lanes == 1 || problem.n.is_multiple_of(4), "rows of whole fours");
    assert!(results * choice.parts as usize <= u32::MAX as usize, "results are counted in 32 bits");
    assert!(
        last_elements(problem).iter().all(|&last| last <= u32::MAX as usize),
        "elements are counted in 32 bits"
    );
    let product = match &choice.method {
        Method::Portable(tile) => {
            assert!(tile.fits(limits), "{tile:?} does not fit {limits:?}");
            match limits.scalar && scalar::suits(kernel, tile, choice) {
                true => scalar::product(kernel, tile, limits),
                false => portable::product(kernel, tile, choice, limits),
            }
        }
        Method::Cooperative(tile) => {
            assert!(tile.fits(limits), "{tile:?} does not fit {limits:?}");
            cooperative::product(kernel, tile, choice, limits)
        }
    };
    let split = choice.parts > 1;
    DotShaders {
        product,
        sum: split.then(|| split::sum(kernel, choice.parts, limits)),
        workspace: if split { results * choice.parts as usize } else { 0 },
    }
}

/// The last elements of both operands.
pub(super) fn last_elements(problem: &DotProblem) -> [usize; 2] {
    let last = |view: &MatrixView, free: usize, stride: fn(&BatchAxis) -> usize| {
        let batch =
            problem.batch.iter().map(|axis| axis.extent.saturating_sub(1) * stride(axis)).sum::<usize>();
        let (free, contract) = (free.saturating_sub(1), problem.k.saturating_sub(1));
        view.offset + free * view.free_stride + contract * view.contract_stride + batch
    };
    [
        last(&problem.lhs, problem.m, |axis| axis.lhs_stride),
        last(&problem.rhs, problem.n, |axis| axis.rhs_stride),
    ]
}
