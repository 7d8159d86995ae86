//! Schedules of the rows of loops with reductions.

use crate::limits::Limits;
use crate::product::is_in_fours;
use gradloom_core::ir::DType;
use gradloom_core::kernel::{Access, Body, Level, NodeId, NodeKind, RowSchedule, Store};
use std::collections::HashSet;

/// Maximum number of invocations of a workgroup, except for very long rows.
const WORKGROUP: usize = 256;
/// Maximum number of partial results per column, for few and for many rows.
const MOST_PARTIALS: [usize; 2] = [128, 256];
/// Maximum number of partial results per column if rows are reduced, too. Slots then add up so few rows that
/// one level of sums is enough, and half as many registers.
const MANY_PARTIALS: usize = 1024;
/// Minimum number of rows per slot and partial result for which the larger maximum of partial results
/// applies.
const FEW_STEPS: usize = 16;
/// Approximate number of positions of a row that an invocation keeps, if it loads four neighbors at a time.
const KEPT_IN_FOURS: usize = 16;
/// Approximate number of positions of a row that an invocation keeps, if there are so few rows that most of a
/// device is idle.
const KEPT_OF_FEW: usize = 8;
/// Maximum number of rows for which [`KEPT_OF_FEW`] applies. On an H200, it reduces the time of the next
/// token of GPT-2 124M by 6% for 4 and 8 texts, by 1% for 32, and not at all for 64.
const FEW_ROWS: usize = 32;
/// Minimum number of columns for loading rows in groups of four if their length is not a multiple of four.
const LONG_ROW: usize = 1024;
/// Minimum number of columns for the largest workgroups, which keep fewer rows in progress. A row is read
/// several times, each time from memory if too many rows are in progress.
const VERY_LONG_ROW: usize = 16_384;
/// Minimum number of rows for which each invocation can compute four columns without leaving the device idle.
const MANY_ROWS: usize = 4096;
/// Maximum number of partial results per column on a software device, which has few threads.
const FEW_PARTIALS: usize = 16;
/// Minimum number of rows for which an invocation of a software device computes whole rows.
const ROWS_ALONE: usize = 32;
/// Maximum number of sums of columns that an invocation of a software device keeps in private memory, which
/// is small, if it computes whole rows.
const SUMS_ALONE: usize = 512;
/// Maximum number of sums of columns that an invocation of a software device keeps if it shares its row.
const SUMS_OF_A_LANE: usize = 64;
/// Number of invocations that a software device runs in parallel: the lanes of its vectors.
const VECTOR: usize = 8;
/// Size of an element of an array in workgroup memory in bytes.
const ELEMENT: usize = 4;
/// Number of lanes that add up the partial results of a column.
const FINISHING_LANES: usize = 16;
/// Number of rows of a body with reductions of columns alone that an invocation loads before it stores the
/// first, so that enough bytes are on their way from memory.
const AHEAD: usize = 2;

/// Returns the schedule of the rows of a body with reductions.
pub(crate) fn rows(body: &Body, limits: &Limits) -> RowSchedule {
    if !limits.fours {
        return shared_out(body, limits, false);
    }
    let schedule = shared_out(body, limits, true);
    // Do not use groups of four in two cases: an unrolled group cannot cross the end of a row, and sums of
    // columns are only kept if groups are unrolled.
    let ragged = !body.columns.is_multiple_of(4) && schedule.is_unrolled();
    let kept = body.has_column_reductions() && !schedule.is_unrolled();
    if schedule.fours && (ragged || kept) { shared_out(body, limits, false) } else { schedule }
}

/// Returns the operand whose row a workgroup should keep in workgroup memory: one that several passes over
/// the row load, four elements at a time. Two such rows fit in the memory of a multiprocessor.
pub(super) fn kept(body: &Body, schedule: &RowSchedule, reads: &[Access], limits: &Limits) -> Option<usize> {
    let memory = limits.large_memory? as usize / 2;
    if schedule.is_unrolled() || !schedule.fours || schedule.slots > 1 || !body.has_row_reductions() {
        return None;
    }
    let passes = passes(body);
    let is_read = |nodes: &Vec<NodeId>, read: usize| {
        nodes
            .iter()
            .any(|&id| body.node(id).kind == NodeKind::Load(read) && body.node(id).level == Level::Element)
    };
    let fits = |read: &Access| is_in_fours(body, read) && body.columns * read.dtype.bytes() <= memory;
    (0..reads.len())
        .find(|&read| passes.iter().filter(|nodes| is_read(nodes, read)).count() > 1 && fits(&reads[read]))
}

/// Returns the nodes that each pass over a row computes: one for the reductions of each depth, and the last
/// one for the results.
fn passes(body: &Body) -> Vec<Vec<NodeId>> {
    let depths = body.reduction_depths();
    let most = depths.iter().max().copied().unwrap_or(0);
    let mut wanted: Vec<Vec<NodeId>> = vec![Vec::new(); most + 1];
    for id in body.ids() {
        if let NodeKind::Reduce(_, operand) = body.node(id).kind {
            wanted[depths[id.index()] - 1].push(operand);
        }
    }
    wanted[most].extend(body.stores.iter().map(Store::node));
    for nodes in &mut wanted {
        let mut next = 0;
        while let Some(&id) = nodes.get(next) {
            if !matches!(body.node(id).kind, NodeKind::Reduce(..)) {
                let operands = body.node(id).kind.operands();
                operands.iter().for_each(|operand| {
                    if !nodes.contains(operand) {
                        nodes.push(*operand);
                    }
                });
            }
            next += 1;
        }
    }
    wanted
}

/// Returns the maximum size of a workgroup whose reductions along rows fit in workgroup memory: there, each
/// reduction of two consecutive depths has an element per invocation, and so do the sums of columns.
fn most_that_fit(body: &Body, limits: &Limits) -> usize {
    let depths = body.reduction_depths();
    let mut arrays = [HashSet::new(), HashSet::new()];
    let mut counts = vec![0; body.nodes.len() + 1];
    for id in body.ids() {
        let (node, depth) = (body.node(id), depths[id.index()]);
        if matches!(node.kind, NodeKind::Reduce(..)) {
            arrays[depth % 2].insert((node.dtype, counts[depth]));
            counts[depth] += 1;
        }
    }
    let sums = body.stores.iter().filter(|store| matches!(store, Store::ColumnReduce { .. }));
    let sums: HashSet<DType> = sums.map(|store| body.node(store.node()).dtype).collect();
    let arrays = (arrays[0].len() + arrays[1].len() + sums.len()).max(1);
    let most = limits.workgroup_memory as usize / (arrays * ELEMENT);
    most.checked_ilog2().map_or(1, |bits| 1 << bits)
}

/// Returns the schedule of the rows, in groups of four neighbors if `fours` is true and the groups pay off.
fn shared_out(body: &Body, limits: &Limits, fours: bool) -> RowSchedule {
    // A software device runs the invocations of a workgroup one after the other, a few at a time, and
    // switches between them at each barrier. Invocations that share nothing are many times faster there, as
    // long as there are some rows for each thread of the device.
    let sums = body.has_column_reductions();
    let along = body.has_row_reductions();
    let long = sums && body.columns > SUMS_ALONE;
    let apart = !limits.software && !along;
    let alone = limits.software && along && body.rows >= ROWS_ALONE && !long;
    let fours = fours
        && match body.columns % 4 {
            0 => body.columns > 0 && (along || body.rows >= MANY_ROWS),
            _ => along && !sums && body.columns >= LONG_ROW,
        };
    // Sums of columns alone need no workgroup barrier, so workgroups may have their full size. Otherwise,
    // there must be enough lanes per row to keep its sums of columns.
    let fits = most_that_fit(body, limits);
    let all = WORKGROUP.min(limits.invocations as usize).min(fits);
    let kept = if sums { body.columns.div_ceil(SUMS_OF_A_LANE).next_power_of_two() } else { 1 };
    let most = match along {
        true if fours && body.columns >= VERY_LONG_ROW => fits.min(limits.invocations as usize),
        true => limits.sharing().max(kept).min(all),
        false => all,
    };
    let lanes = match alone {
        true => 1,
        false if fours && apart => body.columns.div_ceil(4).next_power_of_two().clamp(1, most),
        false if fours => {
            let kept = if body.rows <= FEW_ROWS { KEPT_OF_FEW } else { KEPT_IN_FOURS };
            body.columns.div_ceil(kept).next_power_of_two().clamp(32.min(most), most)
        }
        // Uses a lane per column. Without exchange between lanes, many workgroups can run side by side.
        false if apart => body.columns.next_power_of_two().clamp(1, most),
        false => body.columns.div_ceil(4).next_power_of_two().clamp(1, most),
    };
    let slots = if alone { VECTOR } else { limits.sharing().min(fits).max(lanes) / lanes };
    let turns = body.rows.div_ceil(slots);
    let partials = match limits.software {
        true => FEW_PARTIALS,
        false if along && turns >= FEW_STEPS * MANY_PARTIALS => MANY_PARTIALS,
        false if turns >= FEW_STEPS * MOST_PARTIALS[1] => MOST_PARTIALS[1],
        false => MOST_PARTIALS[0],
    };
    let steps = if sums { turns.div_ceil(partials).max(1) } else { 1 };
    let groups = turns.div_ceil(steps);
    let whole = |store: &Store| matches!(store, Store::ColumnReduce { parts: 1, .. });
    let finishes = groups != 1 && body.stores.iter().any(whole);
    let finishing = finishes.then(|| limits.column_sharing(FINISHING_LANES));
    let subgroup = limits.subgroup_of(lanes * slots).filter(|_| along && lanes > 1);
    let width = if fours { 4 } else { 1 };
    let each = body.columns.div_ceil(lanes * width);
    let [each, blocks] = if apart && each > 1 { [1, each] } else { [each, 1] };
    let each = each * width;
    let is_whole = slots * steps * groups == body.rows;
    let schedule = RowSchedule {
        lanes,
        slots,
        steps,
        ahead: 1,
        each,
        fours,
        groups,
        blocks,
        subgroup,
        finishing,
        kept: None,
    };
    let reads_ahead = apart && is_whole && steps.is_multiple_of(AHEAD) && schedule.is_unrolled();
    RowSchedule { ahead: if reads_ahead { AHEAD } else { 1 }, ..schedule }
}
