//! Runs a compiled body on rectangles of positions.
//!
//! In: base addresses, and a rectangle. Out: the elements that the body stores at those positions, and
//! partial results of its columns. A rectangle is processed in strips of rows, and each strip in tiles of
//! columns, whose values stay in the first-level cache. Invariant: nothing is allocated once a thread has
//! run the largest of its programs.

use super::faults::Faults;
use super::lines::{LINE, Lines};
use super::native::Native;
use super::prefetch::{Ahead, WORTHWHILE};
use super::program::Program;
use gradloom_codegen::cpu::LEAF_ROWS;
use gradloom_codegen::cpu::loops::{Grid, Positions, Slot, SlotPlace};
use std::cell::Cell;
use std::ops::Range;

/// Address and strides of a slot's elements in a task.
#[derive(Clone, Copy)]
pub(super) struct Address {
    pub(super) base: *mut u8,
    /// Stride in bytes between rows of the body; 0 if every tile uses the same address.
    pub(super) row_step: usize,
    /// Stride in bytes between columns of the body; 0 if every tile uses the same address.
    pub(super) column_step: usize,
    /// Stride in bytes between rows of a tile.
    pub(super) row_stride: usize,
    pub(super) repeated: bool,
    pub(super) bytes: usize,
}

/// A thread's memory, which is kept between tasks.
#[derive(Default)]
pub(super) struct Memory {
    lines: Lines,
    pub(super) addresses: Vec<Address>,
}

thread_local! {
    static MEMORY: Cell<Memory> = Cell::default();
}

/// A running task: its program, its addresses, and the thread's registers.
pub(crate) struct Task<'a> {
    pub(super) program: &'a Program,
    pub(super) reads: &'a [*const u8],
    pub(super) writes: &'a [*mut u8],
    pub(super) faults: &'a Faults,
    pub(super) memory: Memory,
    /// The frame passed to compiled segments.
    pub(super) frame: *mut u8,
}

/// A rectangle of positions.
pub(crate) struct Rectangle {
    pub(crate) rows: Range<usize>,
    pub(crate) columns: Range<usize>,
    /// Address of the product's element at the first row and column, and the row stride in elements; present
    /// only for an epilogue.
    pub(crate) accumulator: Option<(*const f32, usize)>,
    /// Partial results of the rectangle's panel of rows; unused if the body has none.
    pub(crate) partials: *mut u8,
}

/// The positions on which instructions run.
pub(super) struct Tile {
    pub(super) row: usize,
    pub(super) rows: usize,
    pub(super) column: usize,
    pub(super) columns: usize,
    pub(super) partials: *mut u8,
    /// Number of elements in a row of the body.
    pub(super) body_columns: usize,
}

impl Program {
    /// Returns `true` if running the program can trap.
    pub(crate) fn can_trap(&self) -> bool {
        self.can_trap
    }

    /// Computes the uniform nodes, then calls `run` with this thread's registers.
    ///
    /// # Safety
    /// The machine must support the program's instruction set. `reads` and `writes` must meet the
    /// requirements documented on [`Call`](crate::Call) for the launch that the program was compiled from.
    pub(crate) unsafe fn with_task<R>(
        &self,
        reads: &[*const u8],
        writes: &[*mut u8],
        faults: &Faults,
        run: impl FnOnce(&mut Task<'_>) -> R,
    ) -> R {
        let mut task =
            Task { program: self, reads, writes, faults, memory: MEMORY.take(), frame: std::ptr::null_mut() };
        self.place(&mut task);
        let one =
            Tile { row: 0, rows: 1, column: 0, columns: 1, partials: std::ptr::null_mut(), body_columns: 1 };
        let steps = self.native.as_ref().map(|native| &native.steps.uniform[..]);
        // SAFETY: guaranteed by the caller; uniform slots have one element.
        unsafe { task.run_list(&self.uniform, steps, Positions::Rows, &one) };
        let result = run(&mut task);
        MEMORY.set(task.memory);
        result
    }

    /// Assigns an address to every slot.
    fn place(&self, task: &mut Task<'_>) {
        let line = |elements: usize| (4 * elements).next_multiple_of(LINE);
        let (tile_register, row_register) = (line(self.capacity), line(self.most_rows));
        let rows_at = self.registers * tile_register;
        let uniforms_at = rows_at + self.row_registers * row_register;
        let (kept_at, kept) = (uniforms_at + line(self.uniforms), line(self.columns));
        let frame_at = kept_at + self.kept * kept;
        let frame = self.native.as_ref().map_or(0, |native| native.frame_bytes);
        let lines = (frame_at + frame).div_ceil(LINE);
        let memory = task.memory.lines.at_least(lines);
        task.frame = memory.wrapping_add(frame_at);
        task.memory.addresses.clear();
        task.memory.addresses.extend(self.slots.iter().map(|slot| {
            let bytes = slot.bytes;
            let still = |base, row_stride, repeated| Address {
                base,
                row_step: 0,
                column_step: 0,
                row_stride,
                repeated,
                bytes,
            };
            let moving = |base: *mut u8, grid: &Grid| Address {
                base: base.wrapping_add(grid.offset * bytes),
                row_step: grid.row_stride * bytes,
                column_step: if grid.repeated { 0 } else { bytes },
                row_stride: grid.row_stride * bytes,
                repeated: grid.repeated,
                bytes,
            };
            match &slot.place {
                SlotPlace::Register(register) => {
                    still(memory.wrapping_add(register * tile_register), 0, false)
                }
                SlotPlace::Kept(number) => {
                    let base = memory.wrapping_add(kept_at + number * kept);
                    Address { column_step: bytes, ..still(base, 0, false) }
                }
                SlotPlace::RowRegister(register) => {
                    still(memory.wrapping_add(rows_at + register * row_register), bytes, true)
                }
                SlotPlace::Uniform(number) => still(memory.wrapping_add(uniforms_at + 4 * number), 0, true),
                SlotPlace::Constant(number) => {
                    still((&raw const self.constants[*number]).cast_mut().cast(), 0, true)
                }
                SlotPlace::Read(read, grid) => moving(task.reads[*read].cast_mut(), grid),
                SlotPlace::Write(write, grid) => moving(task.writes[*write], grid),
                // `run_block` sets this address.
                SlotPlace::Accumulator => still(std::ptr::null_mut(), 0, false),
                SlotPlace::Pending => unreachable!("a program was left unfinished"),
            }
        }));
    }

    /// Evaluates the body on a rectangle. The rectangles of a launch cover each position exactly once, and
    /// one of them starts at row and column 0. Rectangles that start at column 0 write the results of level
    /// `Row`; [`Program::finish`] writes those of level `Uniform` and of columns.
    ///
    /// # Safety
    /// Same as [`Program::with_task`]. `block` must lie in the body and, if rows are reduced, have all
    /// columns. No other thread may be processing a rectangle that shares positions with `block`, or columns
    /// of the same partial results. [`Program::start_partials`] must have initialized the columns of `block`
    /// in its partial results.
    pub(crate) unsafe fn run_block(&self, task: &mut Task<'_>, block: Rectangle) {
        let Rectangle { rows, columns, accumulator, partials } = block;
        let keeps_totals = self.column_results.iter().any(|result| result.total.is_some());
        if rows.start == 0 && columns.start == 0 {
            for result in &self.uniform_results {
                let from = task.memory.addresses[result.operand as usize].base;
                // SAFETY: a uniform slot has one element; the partial results have room for it.
                unsafe { std::ptr::copy_nonoverlapping(from, partials.add(result.offset), result.bytes) };
            }
        }
        // Do not use machine code that reduces columns for a single column, which is reduced in a different
        // order than several columns.
        let native = self.native.as_ref().filter(|native| !(native.reduces_columns && columns.len() == 1));
        let any_size = native.is_some_and(|native| native.any_size);
        let width = match self.cuts_columns && !any_size {
            true if columns.len() > self.capacity => columns
                .len()
                .div_ceil(columns.len().div_ceil(self.capacity))
                .next_multiple_of(LINE)
                .min(self.capacity),
            _ => columns.len(),
        };
        // Limit tiles to one row if values are kept, because there is room for only one row of them.
        let most_rows = if self.kept > 0 { 1 } else { self.most_rows };
        let height = match any_size {
            true => rows.len(),
            false => (self.capacity / width.max(1)).clamp(1, most_rows),
        };
        // A single column has longer leaves, because it is summed in vectors of rows, while several columns
        // are summed row by row.
        let leaf = if columns.len() == 1 { LEAF_ROWS * LEAF_ROWS } else { LEAF_ROWS };
        for (slot, address) in self.slots.iter().zip(&mut task.memory.addresses) {
            match slot.place {
                SlotPlace::Register(_) => address.row_stride = width * address.bytes,
                SlotPlace::Accumulator => {
                    let (start, stride) = accumulator.expect("an epilogue runs on a product's block");
                    let before = rows.start * stride + columns.start;
                    address.base = start.cast_mut().wrapping_sub(before).cast();
                    address.row_stride = stride * address.bytes;
                    address.row_step = address.row_stride;
                    address.column_step = address.bytes;
                }
                _ => {}
            }
        }
        let walk = Walk { rows, columns, width, height, native };
        let mut row = walk.rows.start;
        while row < walk.rows.end {
            let end = if keeps_totals { (row / leaf + 1) * leaf } else { walk.rows.end }.min(walk.rows.end);
            let mut tile = Tile {
                row,
                rows: height.min(end - row),
                column: walk.columns.start,
                columns: 0,
                partials,
                body_columns: self.columns,
            };
            // SAFETY: guaranteed by the caller; the tile has at most as many positions as registers have
            // elements.
            unsafe { self.run_strip(task, &mut tile, &walk) };
            row += tile.rows;
            if keeps_totals && row.is_multiple_of(leaf) {
                // SAFETY: guaranteed by the caller.
                unsafe { self.add_to_totals(partials, &walk.columns) };
            }
        }
    }

    /// # Safety
    /// Same as [`Program::run_block`], for the tile's rows.
    unsafe fn run_strip(&self, task: &mut Task<'_>, tile: &mut Tile, walk: &Walk<'_>) {
        // With one pass, each tile prefetches the next tile; with several, all passes over a strip together
        // prefetch the next strip.
        let strips = self.passes.len() > 1;
        let instructions: usize = self.passes.iter().map(|pass| pass.tile.len()).sum();
        let tiles = if strips { walk.columns.len().div_ceil(walk.width.max(1)) } else { 1 };
        let mut ahead = None;
        // SAFETY: guaranteed by the caller.
        unsafe {
            let native = walk.native;
            task.run_list(&self.rows, native.map(|native| &native.steps.rows[..]), Positions::Rows, tile);
            for (number, pass) in self.passes.iter().enumerate() {
                let steps = native.map(|native| &native.steps.passes[number]);
                for &(slot, bits) in &pass.starts {
                    let running = task.memory.addresses[slot as usize].base.cast::<u32>();
                    (0..tile.rows).for_each(|row| running.add(row).write(bits));
                }
                let mut column = walk.columns.start;
                let mut totals = Totals::new(task, &pass.sums, tile, walk);
                while column < walk.columns.end {
                    tile.column = column;
                    tile.columns = walk.width.min(walk.columns.end - column);
                    totals.before_tile();
                    if let Some(steps) = steps {
                        task.run_list(&pass.tile, Some(&steps.tile), Positions::Tile, tile);
                        column += tile.columns;
                        continue;
                    }
                    if instructions >= WORTHWHILE && (!strips || number == 0 && column == walk.columns.start)
                    {
                        let next = if strips { walk.strip_after(tile) } else { walk.after(tile) };
                        ahead = next.map(|next| Ahead::new(self, task, next, tiles * instructions));
                    }
                    for instruction in &pass.tile {
                        ahead.iter_mut().for_each(|ahead| ahead.step(task));
                        task.run_on_tile(instruction, tile);
                    }
                    column += tile.columns;
                }
                totals.finish();
                task.run_list(&pass.rows, steps.map(|steps| &steps.rows[..]), Positions::Rows, tile);
            }
            if walk.columns.start == 0 {
                let steps = native.map(|native| &native.steps.row_stores[..]);
                task.run_list(&self.row_stores, steps, Positions::Rows, tile);
            }
        }
    }
}

/// Maximum number of sums per row that have totals.
const ROW_TOTALS: usize = 4;

/// Sums of a row of many tiles, in f64. A running sum in f32 accumulates at most [`LEAF_ROWS`] tiles.
struct Totals {
    /// Addresses of the running sums, of which the first `count` are used.
    running: [*mut f32; ROW_TOTALS],
    totals: [f64; ROW_TOTALS],
    count: usize,
    tiles: usize,
}

impl Totals {
    fn new(task: &Task<'_>, sums: &[Slot], tile: &Tile, walk: &Walk<'_>) -> Self {
        let is_long = tile.rows == 1 && walk.columns.len() > LEAF_ROWS * walk.width;
        let mut running = [std::ptr::null_mut(); ROW_TOTALS];
        let slots = sums.iter().take(if is_long { ROW_TOTALS } else { 0 });
        let mut count = 0;
        for (&slot, running) in slots.zip(&mut running) {
            *running = task.memory.addresses[slot as usize].base.cast();
            count += 1;
        }
        Self { running, totals: [0.0; ROW_TOTALS], count, tiles: 0 }
    }

    /// Moves the running sums to the totals if they have accumulated [`LEAF_ROWS`] tiles.
    ///
    /// # Safety
    /// `self.running` must point to the running sums of a live task, which no other thread may access.
    unsafe fn before_tile(&mut self) {
        if self.tiles == LEAF_ROWS {
            self.tiles = 0;
            for (running, total) in self.running.iter().zip(&mut self.totals).take(self.count) {
                // SAFETY: guaranteed by the caller; a running sum of one row is one float.
                unsafe {
                    *total += f64::from(running.read());
                    running.write(0.0);
                }
            }
        }
        self.tiles += 1;
    }

    /// Stores the sums over all tiles in the running sums.
    ///
    /// # Safety
    /// Same as [`Totals::before_tile`].
    #[expect(clippy::cast_possible_truncation, reason = "a sum is rounded once, at its end")]
    unsafe fn finish(&self) {
        for (running, total) in self.running.iter().zip(&self.totals).take(self.count) {
            // SAFETY: guaranteed by the caller.
            unsafe { running.write((*total + f64::from(running.read())) as f32) };
        }
    }
}

/// Division of a block into tiles.
struct Walk<'a> {
    rows: Range<usize>,
    columns: Range<usize>,
    /// Maximum number of columns of a tile.
    width: usize,
    /// Maximum number of rows of a tile.
    height: usize,
    /// Compiled steps that replace the instructions, if there are any.
    native: Option<&'a Native>,
}

impl Walk<'_> {
    /// Returns the tile after `tile`.
    fn after(&self, tile: &Tile) -> Option<Tile> {
        let column = tile.column + tile.columns;
        if column < self.columns.end {
            return Some(Tile { column, columns: self.width.min(self.columns.end - column), ..*tile });
        }
        let columns = self.width.min(self.columns.len());
        self.strip_after(tile).map(|strip| Tile { columns, ..strip })
    }

    /// Returns the strip after the one that contains `tile`, as a single tile.
    fn strip_after(&self, tile: &Tile) -> Option<Tile> {
        let row = tile.row + tile.rows;
        let rows = self.height.min(self.rows.end.saturating_sub(row));
        let (column, columns) = (self.columns.start, self.columns.len());
        (rows > 0).then_some(Tile { row, rows, column, columns, ..*tile })
    }
}
