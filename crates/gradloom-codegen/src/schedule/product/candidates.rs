//! Choices for a product that are worth measuring.
//!
//! In: a problem and the limits. Out: choices, starting with that of [`choose()`]. Invariant: all choices
//! suit the limits, and no two are equal. Each cooperative tile has been compiled on a device before, because
//! a tile that a driver fails to compile can cause the loss of the device.

use super::{choose, of_operands, suits};
use crate::limits::Limits;
use crate::product::DotProblem;
use crate::schedule::precision::Precision;
use gradloom_core::kernel::{CooperativeTile, Method, ProductChoice, Staging, Tile};

const fn tile([m, n, k, thread_m, thread_n]: [u32; 5], staging: Staging) -> Tile {
    Tile { m, n, k, thread_m, thread_n, staging }
}

const ONE: Staging = Staging::Workgroup(1);
const NONE: Staging = Staging::Registers;

const STAGED: [Tile; 11] = [
    tile([32, 32, 32, 2, 4], ONE),
    tile([32, 32, 32, 4, 4], ONE),
    tile([64, 64, 16, 8, 4], ONE),
    tile([64, 64, 32, 8, 4], ONE),
    tile([128, 64, 16, 8, 8], ONE),
    tile([128, 128, 16, 8, 8], ONE),
    tile([128, 128, 32, 8, 8], ONE),
    tile([32, 32, 32, 4, 4], Staging::Sliced(4)),
    tile([32, 32, 32, 4, 4], Staging::Sliced(2)),
    tile([32, 32, 4, 4, 4], NONE),
    tile([64, 64, 4, 8, 8], NONE),
];

/// Tiles for devices that compute on a CPU.
const SOFTWARE: [Tile; 5] = [
    tile([64, 64, 4, 8, 8], NONE),
    tile([32, 32, 4, 8, 8], NONE),
    tile([32, 64, 4, 4, 8], NONE),
    tile([32, 32, 4, 4, 4], NONE),
    tile([16, 32, 4, 4, 8], NONE),
];

const fn matrices([m, n, k, subgroup_m, subgroup_n, buffers]: [u32; 6]) -> CooperativeTile {
    CooperativeTile { m, n, k, subgroup_m, subgroup_n, buffers }
}

const COOPERATIVE: [CooperativeTile; 6] = [
    matrices([64, 64, 64, 32, 32, 1]),
    matrices([64, 64, 64, 32, 32, 2]),
    matrices([128, 64, 64, 32, 32, 1]),
    matrices([128, 128, 32, 64, 64, 1]),
    matrices([128, 128, 32, 64, 32, 2]),
    matrices([128, 128, 64, 64, 32, 1]),
];

/// Minimum number of terms of a part.
const TERMS: usize = 64;
/// Maximum number of workgroups of all parts.
const MANY: usize = 800;
/// Minimum number of workgroups for which uncut sums are tried.
const ENOUGH: usize = 32;

/// Returns the choices for a product on a device with these limits, starting with that of [`choose()`].
pub fn candidates(problem: &DotProblem, precision: Precision, limits: &Limits) -> Vec<ProductChoice> {
    let rule = choose(problem, limits.operands(precision), limits).without_empty_parts(problem.k);
    let mut methods: Vec<Method> = match limits.software {
        true => SOFTWARE.map(|tile| Method::Portable(for_device(tile, limits))).to_vec(),
        false => STAGED.map(Method::Portable).to_vec(),
    };
    let operands = limits.operands(precision);
    methods.extend(COOPERATIVE.map(|tile| Method::Cooperative(of_operands(tile, operands))));
    let mut all = vec![rule];
    for method in methods {
        let (m, n, _) = ProductChoice { method, parts: 1 }.extents();
        // Skips larger tiles of which half or more would be empty.
        let large = |tile: u32, extent: usize| tile > 32 && tile as usize >= 2 * extent;
        if large(m, problem.m) || large(n, problem.n) {
            continue;
        }
        let tiles = problem.batch_count() * problem.m.div_ceil(m as usize) * problem.n.div_ceil(n as usize);
        for parts in cuts(tiles, problem.k, limits) {
            let choice = ProductChoice { method, parts }.without_empty_parts(problem.k);
            if suits(&choice, problem, precision, limits) && !all.contains(&choice) {
                all.push(choice);
            }
        }
    }
    all
}

/// Returns a register tile with the staging for the device's loads.
fn for_device(tile: Tile, limits: &Limits) -> Tile {
    if limits.scalar { Tile { staging: Staging::Scalars, ..tile } } else { tile }
}

/// Returns the numbers of parts to try for sums of length `k`: the two largest that suit the device, and 1 if
/// there are enough tiles or no larger number suits.
fn cuts(tiles: usize, k: usize, limits: &Limits) -> Vec<u32> {
    let fits = |&parts: &u32| {
        let parts = parts as usize;
        !limits.software && k / parts >= TERMS && tiles * parts <= MANY
    };
    let cut: Vec<u32> = [16, 8, 4, 2].into_iter().filter(fits).take(2).collect();
    let whole = tiles >= ENOUGH || cut.is_empty();
    whole.then_some(1).into_iter().chain(cut).collect()
}
