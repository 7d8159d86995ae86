//! The first elements of rows in sorted order, and their indices.
//!
//! Elements are packed with their indices into numbers ([`super::keys`]). A few of many elements are selected
//! in each piece of a row, then among the selected ones. Short rows are sorted on a task's stack. Long rows
//! are sorted digit by digit by all tasks, starting with the lowest digit, as in Knuth, The Art of Computer
//! Programming, volume 3, section 5.2.5.

use super::keys::{Element, pack_body, unpacked};
use super::select::select_body;
use super::{Call, Prepared, Source, Trap};
use crate::InstructionSet;
use crate::multiversion;
use crate::work::GRAIN;
use gradloom_codegen::cpu::{DIGITS, MOST_SELECTED, PIECE, Rows, SHORT_ROW, SortPlan};
use gradloom_core::ir::DType;
use gradloom_core::kernel::Launch;

multiversion! {
    fn pack<E: Element>(
        from: (*const E, usize), first: usize, count: usize, flip: u32, to: *mut u64,
    ) = pack_body;
}

multiversion! {
    fn select<E: Element>(
        from: (*const E, usize), range: [usize; 2], flip: u32, keep: usize, to: *mut u64,
    ) = select_body;
}

/// Maximum number of elements that are sorted by comparison.
const COMPARED: usize = 256;

/// Returns a kernel for a `Sort` launch.
pub(crate) fn prepare(
    launch: &Launch,
    count: usize,
    descending: bool,
    level: InstructionSet,
) -> Box<dyn Prepared> {
    fn of<E: Element>(launch: &Launch, count: usize, flip: u32, level: InstructionSet) -> Box<dyn Prepared> {
        let rows = Rows::of(&launch.reads[0]);
        Box::new(Sort::<E> {
            rows,
            source: Source::new(&launch.reads[0]),
            count,
            flip,
            plan: SortPlan::new(rows, count),
            results: [0, 1].map(|write| launch.writes[write].layout.offset),
            pack: pack::<E>(level),
            select: select::<E>(level),
        })
    }
    let flip = if descending { u32::MAX } else { 0 };
    match launch.reads[0].dtype {
        DType::F32 => of::<f32>(launch, count, flip, level),
        DType::I32 => of::<i32>(launch, count, flip, level),
        DType::U32 => of::<u32>(launch, count, flip, level),
        dtype @ (DType::Bool | DType::F16 | DType::BF16 | DType::U8 | DType::I64) => {
            panic!("gradloom launched sort on {dtype} elements; please report this")
        }
    }
}

struct Sort<E> {
    rows: Rows,
    source: Source,
    /// Number of elements of a row to return.
    count: usize,
    /// Mask that inverts keys, for descending order.
    flip: u32,
    plan: SortPlan,
    /// Offsets of the results: elements and indices.
    results: [usize; 2],
    pack: unsafe fn((*const E, usize), usize, usize, u32, *mut u64),
    select: unsafe fn((*const E, usize), [usize; 2], u32, usize, *mut u64),
}

impl<E: Element> Prepared for Sort<E> {
    fn run(&self, call: &Call<'_>) -> Result<(), Trap> {
        match self.plan {
            SortPlan::Whole => self.whole_rows(call),
            SortPlan::Select { piece } => self.selections(call, piece),
            SortPlan::Digits => (0..self.rows.rows).for_each(|row| self.by_digits(call, row)),
        }
        Ok(())
    }
}

impl<E: Element> Sort<E> {
    fn row(&self, call: &Call<'_>, row: usize) -> (*const E, usize) {
        (self.source.row(call, row), self.source.stride)
    }

    /// Writes the results of a row from `first` on.
    ///
    /// # Safety
    /// `numbers` must be packed elements of the row. No other thread may write these results.
    unsafe fn put(&self, call: &Call<'_>, row: usize, first: usize, numbers: &[u64]) {
        let (from, stride) = self.row(call, row);
        let start = row * self.count + first;
        let [values, indices] = self.results;
        let values = call.write::<E>(0, values + start);
        let indices = call.write::<i32>(1, indices + start);
        for (i, &number) in numbers.iter().enumerate() {
            let (key, index) = unpacked(number);
            // SAFETY: guaranteed by the caller; an index is below the row's extent, which fits i32.
            unsafe {
                *values.add(i) = E::of_key(key ^ self.flip).unwrap_or_else(|| *from.add(index * stride));
                *indices.add(i) = index as i32;
            }
        }
    }

    /// Sorts whole rows; each task sorts some rows on its stack.
    fn whole_rows(&self, call: &Call<'_>) {
        let Rows { rows, extent } = self.rows;
        let together = (GRAIN / 8 / extent).max(1);
        call.pool.run(rows.div_ceil(together), &|task| {
            let (mut a, mut b) = ([0; SHORT_ROW], [0; SHORT_ROW]);
            let (a, b) = (&mut a[..extent], &mut b[..extent]);
            for row in task * together..rows.min((task + 1) * together) {
                // SAFETY: the row lies in the operand, and no other task writes its results.
                unsafe {
                    (self.pack)(self.row(call, row), 0, extent, self.flip, a.as_mut_ptr());
                    let sorted = sorted(a, b);
                    self.put(call, row, 0, &sorted[..self.count]);
                }
            }
        });
    }

    /// Selects in two phases: first from each piece of a row, then from the selected elements of each row.
    fn selections(&self, call: &Call<'_>, piece: usize) {
        let Rows { rows, extent } = self.rows;
        let (pieces, keep) = (extent.div_ceil(piece), self.count);
        let together = (GRAIN / extent).max(1);
        if pieces == 1 {
            call.pool.run(rows.div_ceil(together), &|task| {
                let mut found = [0; MOST_SELECTED];
                for row in task * together..rows.min((task + 1) * together) {
                    // SAFETY: the row lies in the operand, and no other task writes its results.
                    unsafe {
                        (self.select)(self.row(call, row), [0, extent], self.flip, keep, found.as_mut_ptr());
                        found[..keep].sort_unstable();
                        self.put(call, row, 0, &found[..keep]);
                    }
                }
            });
            return;
        }
        let found = Numbers(call.scratch.cast());
        call.pool.run(rows * pieces, &|task| {
            let first = task % pieces * piece;
            let range = [first, piece.min(extent - first)];
            // SAFETY: the piece lies in the operand, and each task has its own part of the scratch.
            unsafe {
                let to = found.list(task * keep, keep).as_mut_ptr();
                (self.select)(self.row(call, task / pieces), range, self.flip, keep, to);
            }
        });
        call.pool.run(rows, &|row| {
            // SAFETY: the tasks have written the list; no other task writes the row's results.
            unsafe {
                let all = found.list(row * pieces * keep, pieces * keep);
                all.select_nth_unstable(keep - 1);
                all[..keep].sort_unstable();
                self.put(call, row, 0, &all[..keep]);
            }
        });
    }

    /// Sorts a row digit by digit, with all tasks.
    fn by_digits(&self, call: &Call<'_>, row: usize) {
        let (extent, pieces) = (self.rows.extent, self.rows.pieces());
        let scratch = call.scratch;
        let mut lists = [0, 8 * extent].map(|start| Numbers(scratch.wrapping_add(start).cast()));
        let counts = Counts(scratch.wrapping_add(16 * extent).cast());
        let length = |piece: usize| PIECE.min(extent - piece * PIECE);
        let from = &lists[0];
        call.pool.run(pieces, &|piece| {
            // SAFETY: the piece lies in the operand, and each task has its own part of the scratch.
            unsafe {
                let to = from.list(piece * PIECE, length(piece)).as_mut_ptr();
                (self.pack)(self.row(call, row), piece * PIECE, length(piece), self.flip, to);
            }
        });
        for digit in 0..4 {
            let [from, to] = &lists;
            call.pool.run(pieces, &|piece| {
                // SAFETY: tasks access disjoint parts.
                let (numbers, counts) =
                    unsafe { (from.list(piece * PIECE, length(piece)), counts.of(piece)) };
                counts.fill(0);
                numbers.iter().for_each(|&number| counts[digit_of(number, digit)] += 1);
            });
            // SAFETY: no task is running.
            if unsafe { !counts.start(pieces, extent) } {
                continue;
            }
            call.pool.run(pieces, &|piece| {
                // SAFETY: tasks read disjoint parts and write to disjoint places, which were computed from
                // the number of occurrences of each digit in each part.
                unsafe {
                    let numbers = from.list(piece * PIECE, length(piece));
                    place(numbers, digit, counts.of(piece), to.0);
                }
            });
            lists.swap(0, 1);
        }
        let sorted = &lists[0];
        call.pool.run(self.count.div_ceil(PIECE), &|piece| {
            let first = piece * PIECE;
            // SAFETY: no other task writes the results of the piece.
            unsafe { self.put(call, row, first, sorted.list(first, PIECE.min(self.count - first))) };
        });
    }
}

/// Returns bits `8·digit` to `8·digit + 7` of a number's key.
#[inline(always)]
fn digit_of(number: u64, digit: u32) -> usize {
    (number >> (32 + 8 * digit)) as usize % DIGITS
}

/// Writes each number to the next place of its digit, and increments that place.
///
/// # Safety
/// For each number, `to` must be valid for a write at the next place of its digit.
#[inline(always)]
unsafe fn place(numbers: &[u64], digit: u32, places: &mut [u32], to: *mut u64) {
    for &number in numbers {
        let place = &mut places[digit_of(number, digit)];
        // SAFETY: guaranteed by the caller.
        unsafe { *to.add(*place as usize) = number };
        *place += 1;
    }
}

/// Returns a list's numbers in sorted order, in the list itself or in `other`, which must have the same
/// length.
fn sorted<'l>(list: &'l mut [u64], other: &'l mut [u64]) -> &'l [u64] {
    if list.len() <= COMPARED {
        list.sort_unstable();
        return list;
    }
    let mut counts = [[0u32; DIGITS]; 4];
    for &number in &*list {
        for (digit, counts) in (0..).zip(&mut counts) {
            counts[digit_of(number, digit)] += 1;
        }
    }
    let (mut from, mut to) = (list, other);
    for (digit, counts) in (0..).zip(&mut counts) {
        if counts.iter().any(|&count| count as usize == from.len()) {
            continue;
        }
        let mut next = 0;
        for count in counts.iter_mut() {
            (*count, next) = (next, next + *count);
        }
        // SAFETY: the numbers' places are those of the list, each exactly once.
        unsafe { place(from, digit, counts, to.as_mut_ptr()) };
        (from, to) = (to, from);
    }
    from
}

/// Packed numbers in scratch memory.
struct Numbers(*mut u64);

// SAFETY: tasks access disjoint parts, and runs of the pool do not overlap.
unsafe impl Sync for Numbers {}

impl Numbers {
    /// Returns `count` numbers from `start` on.
    ///
    /// # Safety
    /// `start + count` must not exceed the length of the scratch memory in numbers, and no other reference to
    /// these numbers may be alive.
    #[allow(clippy::mut_from_ref)]
    unsafe fn list(&self, start: usize, count: usize) -> &mut [u64] {
        // SAFETY: guaranteed by the caller; every bit pattern is a valid number.
        unsafe { std::slice::from_raw_parts_mut(self.0.add(start), count) }
    }
}

/// Number of occurrences of each digit in each piece of a row, or the position of the next number with that
/// digit.
struct Counts(*mut u32);

// SAFETY: same as for `Numbers`.
unsafe impl Sync for Counts {}

impl Counts {
    /// Returns the counts of a piece.
    ///
    /// # Safety
    /// `self` must have counts for `piece`, and no other reference to them may be alive.
    #[allow(clippy::mut_from_ref)]
    unsafe fn of(&self, piece: usize) -> &mut [u32] {
        // SAFETY: guaranteed by the caller.
        unsafe { std::slice::from_raw_parts_mut(self.0.add(piece * DIGITS), DIGITS) }
    }

    /// Converts counts to places: numbers with the same digit are contiguous, in the order of the pieces.
    /// Returns `false` if all numbers have the same digit.
    ///
    /// # Safety
    /// `self` must have counts for `pieces` pieces, and no other reference to them may be alive.
    unsafe fn start(&self, pieces: usize, extent: usize) -> bool {
        let mut next = 0;
        for digit in 0..DIGITS {
            let first = next;
            for piece in 0..pieces {
                // SAFETY: guaranteed by the caller.
                let count = unsafe { &mut self.of(piece)[digit] };
                (*count, next) = (next, next + *count);
            }
            if (next - first) as usize == extent {
                return false;
            }
        }
        true
    }
}
