//! Schedules of the rows of a body that reduces.

use crate::limits::Limits;
use gradloom_core::kernel::{Body, RowSchedule, Store};

/// Invocations of a workgroup, at most.
const WORKGROUP: usize = 256;
/// Partial results of a column, at most, of few rows and of many.
const MOST_PARTIALS: [usize; 2] = [128, 256];
/// Rows that a slot takes one after the other, at least, before there are more partial results.
const FEW_STEPS: usize = 16;
/// Positions in a row of an invocation that takes four neighbours at a time, about, if it keeps them.
const KEPT_IN_FOURS: usize = 16;
/// The same of so few rows that most of a device is idle.
const KEPT_OF_FEW: usize = 8;
/// Number of those few rows, at most: on an H200, the next token of GPT-2 124M takes 6% less for 4 and 8
/// texts, 1% less for 32, as long for 64.
const FEW_ROWS: usize = 32;
/// Columns of a ragged row that are worth taking in fours.
const LONG_ROW: usize = 1024;
/// Columns of rows that are read several times, each time from memory unless few rows are under way.
const VERY_LONG_ROW: usize = 16_384;
/// Rows from which on there are invocations enough for each to take four columns.
const MANY_ROWS: usize = 4096;
/// The same on a software device, which has few threads.
const FEW_PARTIALS: usize = 16;
/// Rows from which on an invocation of a software device takes whole ones.
const ROWS_ALONE: usize = 32;
/// Sums of columns that such an invocation keeps, at most: they are in memory of its own, of which there is
/// little.
const SUMS_ALONE: usize = 512;
/// The same of one that shares its row.
const SUMS_OF_A_LANE: usize = 64;
/// Invocations that a software device runs at once: lanes of its vectors.
const VECTOR: usize = 8;
/// Lanes that add up the partial results of a column.
const FINISHING_LANES: usize = 16;

/// Returns how the rows of a body that reduces are shared out.
pub(crate) fn rows(body: &Body, limits: &Limits) -> RowSchedule {
    if !limits.fours {
        return shared_out(body, limits, false);
    }
    let schedule = shared_out(body, limits, true);
    // A group of four that goes beyond a row is not unrolled, and sums of columns are only kept where groups
    // are.
    let ragged = !body.columns.is_multiple_of(4) && schedule.is_unrolled();
    let kept = body.has_column_reductions() && !schedule.is_unrolled();
    if schedule.fours && (ragged || kept) { shared_out(body, limits, false) } else { schedule }
}

/// Returns how the rows are shared out, in groups of four neighbours if `fours` allows that and it is worth
/// it.
fn shared_out(body: &Body, limits: &Limits, fours: bool) -> RowSchedule {
    // A software device runs a workgroup's invocations one after the other, a few at a time, and goes
    // from one to the next at each barrier: there, invocations that share nothing are many times faster,
    // as long as there are some rows for each of its threads.
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
    // Pure column sums need no workgroup barrier. Lanes that meet have sums of columns to keep besides.
    let all = WORKGROUP.min(limits.invocations as usize);
    let kept = if sums { body.columns.div_ceil(SUMS_OF_A_LANE).next_power_of_two() } else { 1 };
    let most = match along {
        true if fours && body.columns >= VERY_LONG_ROW => limits.invocations as usize,
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
        // A lane for each column: what nothing is exchanged for has many workgroups side by side.
        false if apart => body.columns.next_power_of_two().clamp(1, most),
        false => body.columns.div_ceil(4).next_power_of_two().clamp(1, most),
    };
    let slots = if alone { VECTOR } else { limits.sharing().max(lanes) / lanes };
    let turns = body.rows.div_ceil(slots);
    let partials = match limits.software {
        true => FEW_PARTIALS,
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
    RowSchedule { lanes, slots, steps, each, fours, groups, blocks, subgroup, finishing }
}
