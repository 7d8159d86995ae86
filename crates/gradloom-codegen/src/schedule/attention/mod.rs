//! Schedules of attention: blocks of queries and keys in workgroup memory, matrix instructions, lanes of
//! subgroups, or whole rows per invocation.
//!
//! In: extents and limits. Out: an [`AttentionSchedule`], and the choices worth measuring.
//! This module also defines the exceptions for devices that compute on a CPU.

mod candidates;
mod choose;

pub use candidates::candidates;
pub use choose::choose;
pub use gradloom_core::kernel::{
    AttentionChoice as Choice, AttentionKernel as Kernel, AttentionLanes as Lanes,
    AttentionMatrices as Matrices, AttentionProblem as Problem, AttentionTile as Tile,
    AttentionWarpgroups as Warpgroups,
};

use crate::limits::Limits;
use crate::product::rows_are_groups;
use choose::MANY;
use gradloom_core::ir::{AttentionSpec, DType, OpKind};
use gradloom_core::kernel::{self, Access, AttentionSchedule, MATRIX};

/// Workgroup size of kernels whose invocations compute whole rows. Heads with at least this many rows do not
/// share a workgroup.
const OWN: usize = 64;
/// The same workgroup size on a device that computes on a CPU: the lanes of its vectors.
const VECTOR: usize = 8;
/// Maximum number of rows per thread of a tile. The size of a kernel's source grows with it.
const MOST_EACH: usize = 16;
/// Maximum number of elements of a query, key or value for matrix instructions.
const MOST_WIDTH: usize = 64;
/// Maximum number of elements of a query, key or value for products of warpgroups.
const MOST_WARPGROUP_WIDTH: usize = 128;
/// Maximum number of rows per invocation.
const MOST_OWN: usize = 8;

/// Returns the kernels of an op, if it is attention or its gradient.
fn kernels_of(op: &OpKind) -> Option<(&AttentionSpec, &'static [Kernel])> {
    match op {
        OpKind::Attention(spec) => Some((spec, &[Kernel::Forward])),
        OpKind::AttentionGrad(spec) => Some((spec, &[Kernel::Queries, Kernel::Keys])),
        _ => None,
    }
}

fn problem_of(spec: &AttentionSpec, reads: &[Access]) -> Problem {
    let shape = |read: usize| &reads[read].layout.shape[..];
    Problem::new(spec, [shape(0), shape(1), shape(2)], spec.extra_positions()[2].map(shape))
}

/// Returns the schedule of attention or of its gradient, with a choice for each kernel. Returns `None` for
/// other ops.
pub(crate) fn schedule(
    op: &OpKind,
    reads: &[Access],
    half: DType,
    limits: &Limits,
    choose: impl Fn(Kernel, &Problem) -> Choice,
) -> Option<AttentionSchedule> {
    let (spec, kernels) = kernels_of(op)?;
    let problem = problem_of(spec, reads);
    let choice = |&kernel: &Kernel| {
        let chosen = widened(choose(kernel, &problem), &problem, reads);
        (kernel, by_warpgroups(chosen, kernel, &problem, (reads, half), limits))
    };
    Some(schedule_with(problem, kernels.iter().map(choice).collect(), half, limits))
}

/// Makes each lane load 16 bytes of 16-bit keys and values at a time, unless the sums of the queries that
/// share a key leave too few registers.
fn widened(choice: Choice, problem: &Problem, reads: &[Access]) -> Choice {
    let are_eights = |read: &Access| read.dtype.bytes() == 2 && rows_are_groups(&read.layout, 8);
    match choice {
        Choice::Lanes(lanes) if Lanes::has_few(problem) && reads[1..3].iter().all(are_eights) => {
            Choice::Lanes(Lanes { each: 2 * Lanes::FOUR, ..lanes })
        }
        _ => choice,
    }
}

/// Replaces matrix instructions with products of warpgroups if the device has them, and the operands are 16
/// bits wide in memory. They replace blocks, too, if rows are too wide for matrix instructions.
fn by_warpgroups(
    choice: Choice,
    kernel: Kernel,
    problem: &Problem,
    (reads, half): (&[Access], DType),
    limits: &Limits,
) -> Choice {
    let is_replaced = match choice {
        Choice::Matrices(_) => true,
        Choice::Block(_) => {
            problem.depth.max(problem.value_depth) > MOST_WIDTH
                && problem.queries.min(problem.keys) >= Matrices::ROWS / 2
        }
        _ => false,
    };
    if !is_replaced {
        return choice;
    }
    let is_copied = |(_, read): (&str, &Access)| read.dtype == half && rows_are_groups(&read.layout, 8);
    if half.bytes() != 2 || !copied(kernel, problem, reads).all(is_copied) {
        return choice;
    }
    // The gradient of keys needs so many registers that three workgroups of one warpgroup overlap better than
    // one of two. Two warpgroups read each block of the other operand once, but need enough rows.
    let pairs_of_blocks = kernel.pairs(problem) * kernel.rows(problem).div_ceil(2 * Warpgroups::ROWS);
    let most = if kernel == Kernel::Keys || pairs_of_blocks < MANY { 1 } else { 2 };
    let mut choices = (1..=most).rev().map(|warpgroups| Warpgroups { warpgroups });
    let fits = |warpgroups: &Warpgroups| warpgroups_fit(kernel, problem, warpgroups, limits);
    choices.find(fits).map_or(choice, Choice::Warpgroups)
}

/// Returns the operands that a kernel by products of warpgroups copies, with their names.
fn copied<'r>(
    kernel: Kernel,
    problem: &Problem,
    reads: &'r [Access],
) -> impl Iterator<Item = (&'static str, &'r Access)> {
    let cotangent = (kernel != Kernel::Forward).then(|| &reads[3 + problem.spec.extra_operands() + 2]);
    let own = ["queries", "keys", "values"].into_iter().zip(&reads[..3]);
    own.chain(cotangent.map(|read| ("gradients of the output", read)))
}

/// Returns the reason why attention does not use products of warpgroups. Returns `None` if it uses them, if
/// the device lacks them, or if other kernels are faster for so few queries or keys.
pub(crate) fn obstacle(
    schedule: &AttentionSchedule,
    reads: &[Access],
    half: DType,
    limits: &Limits,
) -> Option<String> {
    let problem = &schedule.problem;
    let is_general =
        |(_, choice): &(Kernel, Choice)| !matches!(choice, Choice::Warpgroups(_) | Choice::Lanes(_));
    if !limits.warpgroups
        || half.bytes() != 2
        || problem.queries.min(problem.keys) < Matrices::ROWS / 2
        || !schedule.kernels.iter().any(is_general)
    {
        return None;
    }
    let widths = [problem.depth, problem.value_depth];
    if let Some(width) = widths.iter().find(|width| !is_warpgroup_width(**width)) {
        return Some(format!(
            "rows have {width} elements, not a multiple of {MATRIX} that is at most {MOST_WARPGROUP_WIDTH}"
        ));
    }
    if problem.spec.scale <= 0.0 {
        return Some("the scale of the scores is not positive".to_string());
    }
    let of_operand = |(name, read): (&str, &Access)| match () {
        () if read.dtype != half => Some(format!("the {name} are {} in memory", read.dtype)),
        () if !rows_are_groups(&read.layout, 8) => {
            Some(format!("rows of the {name} do not start at multiples of 16 bytes"))
        }
        () => None,
    };
    copied(schedule.kernels[0].0, problem, reads).find_map(of_operand)
}

/// Returns `true` if products of warpgroups can have rows of `width` elements.
fn is_warpgroup_width(width: usize) -> bool {
    width.is_multiple_of(MATRIX) && (1..=MOST_WARPGROUP_WIDTH).contains(&width)
}

/// Returns `true` if products of warpgroups can compute a kernel with this choice.
fn warpgroups_fit(kernel: Kernel, problem: &Problem, warpgroups: &Warpgroups, limits: &Limits) -> bool {
    let Problem { batch, heads, key_heads, queries, keys, depth, value_depth, .. } = *problem;
    limits.warpgroups
        && limits.large_memory.is_some_and(|most| warpgroups.bytes(kernel, problem) <= most as usize)
        && limits.subgroup == Some(32)
        && ![batch, heads, key_heads, queries, keys].contains(&0)
        // Strips and their sums must fit in registers.
        && is_warpgroup_width(depth)
        && is_warpgroup_width(value_depth)
        // Maxima are computed before scaling.
        && problem.spec.scale > 0.0
}

/// Returns the schedule of kernels with these choices. `half` is the type to which matrix instructions round
/// operands.
pub(crate) fn schedule_with(
    problem: Problem,
    kernels: Vec<(Kernel, Choice)>,
    half: DType,
    limits: &Limits,
) -> AttentionSchedule {
    let (workgroup, together_from) = if limits.software { (VECTOR, 0) } else { (OWN, OWN) };
    let means_apart = limits.subgroup.filter(|_| limits.branches && kernels.len() > 1);
    let fragments = limits.fragments;
    AttentionSchedule { problem, kernels, half, fragments, means_apart, workgroup, together_from }
}

/// Returns the kernels of a launch that can be measured, with their problems.
pub(crate) fn problems_of(launch: &kernel::Kernel, reads: &[Access]) -> Vec<(Kernel, Problem)> {
    let kernel::Kernel::Op(op) = launch else { return Vec::new() };
    let Some((spec, kernels)) = kernels_of(op) else { return Vec::new() };
    let problem = problem_of(spec, reads);
    let alone = kernels.iter().filter(|&&kernel| can_run_alone(kernel, &problem));
    alone.map(|&kernel| (kernel, problem)).collect()
}

/// Returns `true` if a kernel can be measured separately. Only a program can fill a block table, and the
/// gradient may have no extra operands, because it already binds as many as every device supports.
fn can_run_alone(kernel: Kernel, problem: &Problem) -> bool {
    !problem.spec.block_table
        && problem.spec.dropout.is_none()
        && (kernel == Kernel::Forward || problem.spec.extra_operands() == 0)
}

/// Returns `true` if the blocks of a tile fit a workgroup of a device with these limits.
fn fits(kernel: Kernel, problem: &Problem, tile: &Tile, limits: &Limits) -> bool {
    tile.threads() <= limits.invocations as usize
        && tile.bytes(kernel, problem) <= limits.workgroup_memory as usize
}

/// Returns `true` if matrix instructions can compute a kernel with this choice.
fn matrices_fit(
    kernel: Kernel,
    problem: &Problem,
    matrices: &Matrices,
    (operands, limits): (DType, &Limits),
) -> bool {
    let Problem { batch, heads, key_heads, queries, keys, depth, value_depth, .. } = *problem;
    let extents = [batch, heads, key_heads, queries, keys, depth, value_depth];
    limits.cooperative
        && limits.subgroup_of(matrices.threads()) == u32::try_from(matrices.subgroup).ok()
        && matrices.threads() <= limits.invocations as usize
        // With this size, each lane holds four elements of each of two rows.
        && matrices.subgroup == 32
        && [16, 32, 64].contains(&matrices.columns)
        && !extents.contains(&0)
        // Strips and their sums must fit in registers.
        && [depth, value_depth].iter().all(|width| width.is_multiple_of(MATRIX) && *width <= MOST_WIDTH)
        && matrices.bytes(kernel, problem, (operands, limits.fragments)) <= limits.workgroup_memory as usize
        // Kernels whose scores pass through memory round them to 16 bits.
        && (operands.bytes() == 2 || limits.fragments && problem.spec.scale > 0.0)
}

/// Returns `true` if lanes of subgroups can compute the forward kernel with this choice.
fn lanes_fit(problem: &Problem, lanes: &Lanes, limits: &Limits) -> bool {
    let Problem { batch, heads, key_heads, queries, keys, depth, value_depth, .. } = *problem;
    let per_key = lanes.lanes(problem);
    limits.branches
        && problem.spec.dropout.is_none()
        && limits.subgroup == Some(Lanes::SUBGROUP)
        && ![batch, heads, key_heads, queries, keys, depth, value_depth].contains(&0)
        && per_key <= Lanes::SUBGROUP as usize
        && lanes.threads.is_multiple_of(Lanes::SUBGROUP as usize)
        && lanes.threads <= limits.invocations as usize
        && problem.sharing() * per_key <= lanes.threads
        && lanes.bytes(problem) <= limits.workgroup_memory as usize
}

/// Returns `true` if a device with these limits can compute a kernel with this choice. `operands` is
/// the type to which operands of matrix instructions may be rounded.
pub fn suits(
    choice: &Choice,
    kernel: Kernel,
    problem: &Problem,
    operands: Option<DType>,
    limits: &Limits,
) -> bool {
    match choice {
        Choice::Block(tile) => {
            let Tile { rows_each, columns_each, row_threads, column_threads } = *tile;
            let Problem { batch, heads, key_heads, queries, keys, depth, value_depth, .. } = *problem;
            let extents = [batch, heads, key_heads, queries, keys, depth, value_depth];
            let sane = (1..=MOST_EACH).contains(&rows_each)
                && [2, 4].contains(&columns_each)
                && [row_threads, column_threads]
                    .iter()
                    .all(|&threads| (1..=limits.invocations as usize).contains(&threads));
            sane && !extents.contains(&0) && fits(kernel, problem, tile, limits)
        }
        Choice::Matrices(matrices) => {
            operands.is_some_and(|operands| matrices_fit(kernel, problem, matrices, (operands, limits)))
        }
        // These depend on the operands, too, and replace matrices when a launch is scheduled.
        Choice::Warpgroups(_) => false,
        Choice::Lanes(lanes) => kernel == Kernel::Forward && lanes_fit(problem, lanes, limits),
        Choice::Own { rows } => (1..=MOST_OWN).contains(rows) && (limits.software || *rows == 1),
    }
}
