//! Runs a compiled body on rectangles of positions.
//!
//! In: base addresses, and a rectangle. Out: what the body stores for those positions; partial results of its columns.
//! A rectangle is walked in strips of rows, each in tiles of columns, whose values stay in the first-level cache.
//! Always holds: nothing is allocated once a thread has run the largest of its programs.

use super::faults::Faults;
use super::program::{Check, Gather, Instruction, NONE, Place, Program, Scatter, Slot};
use crate::cpu::elementwise::{OPERANDS, Operand, Target};
use std::cell::Cell;
use std::ops::Range;

/// A cache line of a thread's memory for tiles.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Line(#[allow(dead_code)] [u32; LINE / 4]);

/// Bytes of a cache line.
const LINE: usize = 64;

/// Where a slot's elements are, in this task.
#[derive(Clone, Copy)]
struct Address {
    base: *mut u8,
    /// Bytes from a row to the next, and from a column to the next; 0 for what moves along with the tile.
    row_step: usize,
    column_step: usize,
    /// Bytes from a row of a tile to the next.
    row_stride: usize,
    repeated: bool,
    bytes: usize,
}

/// A thread's memory, kept from task to task.
#[derive(Default)]
struct Memory {
    lines: Vec<Line>,
    addresses: Vec<Address>,
}

thread_local! {
    static MEMORY: Cell<Memory> = Cell::default();
}

/// A task in progress: a program with addresses, and the thread's registers.
pub(in crate::cpu) struct Task<'a> {
    reads: &'a [*const u8],
    writes: &'a [*mut u8],
    faults: &'a Faults,
    memory: Memory,
}

/// A rectangle of positions.
pub(in crate::cpu) struct Block {
    pub(in crate::cpu) rows: Range<usize>,
    pub(in crate::cpu) columns: Range<usize>,
    /// Address of the product's element at the first row and column, and elements from a row to the next; for an epilogue.
    pub(in crate::cpu) accumulator: Option<(*const f32, usize)>,
    /// Partial results of the rectangle's panel of rows; not looked at if there are none.
    pub(in crate::cpu) partials: *mut u8,
}

/// The positions that instructions run on.
struct Tile {
    row: usize,
    rows: usize,
    column: usize,
    columns: usize,
    partials: *mut u8,
    /// Elements of a row of the body.
    body_columns: usize,
}

impl Program {
    /// Whether running it can trap.
    pub(in crate::cpu) fn can_trap(&self) -> bool {
        self.can_trap
    }

    /// Calls `run` with this thread's registers, after the uniform nodes have been computed.
    ///
    /// # Safety
    /// The machine has the program's level; the addresses are those of the launch.
    pub(in crate::cpu) unsafe fn with_task<R>(
        &self,
        reads: &[*const u8],
        writes: &[*mut u8],
        faults: &Faults,
        run: impl FnOnce(&mut Task<'_>) -> R,
    ) -> R {
        let mut task = Task { reads, writes, faults, memory: MEMORY.take() };
        self.place(&mut task);
        let one =
            Tile { row: 0, rows: 1, column: 0, columns: 1, partials: std::ptr::null_mut(), body_columns: 1 };
        for instruction in &self.uniform {
            // SAFETY: the caller's promise; uniform slots have one element.
            unsafe { task.run_on_rows(instruction, &one) };
        }
        let result = run(&mut task);
        MEMORY.set(task.memory);
        result
    }

    /// Gives every slot its address.
    fn place(&self, task: &mut Task<'_>) {
        let line = |elements: usize| (4 * elements).next_multiple_of(LINE);
        let (tile_register, row_register) = (line(self.capacity), line(self.most_rows));
        let rows_at = self.registers * tile_register;
        let uniforms_at = rows_at + self.row_registers * row_register;
        let lines = (uniforms_at + line(self.uniforms)) / LINE;
        if task.memory.lines.len() < lines {
            task.memory.lines.resize(lines, Line([0; LINE / 4]));
        }
        let memory: *mut u8 = task.memory.lines.as_mut_ptr().cast();
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
            let moving = |base: *mut u8, grid: &super::program::Grid| Address {
                base: base.wrapping_add(grid.offset * bytes),
                row_step: grid.row_stride * bytes,
                column_step: if grid.repeated { 0 } else { bytes },
                row_stride: grid.row_stride * bytes,
                repeated: grid.repeated,
                bytes,
            };
            match &slot.place {
                Place::Register(register) => still(memory.wrapping_add(register * tile_register), 0, false),
                Place::RowRegister(register) => {
                    still(memory.wrapping_add(rows_at + register * row_register), bytes, true)
                }
                Place::Uniform(number) => still(memory.wrapping_add(uniforms_at + 4 * number), 0, true),
                Place::Constant(number) => {
                    still((&raw const self.constants[*number]).cast_mut().cast(), 0, true)
                }
                Place::Read(read, grid) => moving(task.reads[*read].cast_mut(), grid),
                Place::Write(write, grid) => moving(task.writes[*write], grid),
                // Known once there is a block.
                Place::Accumulator => still(std::ptr::null_mut(), 0, false),
                Place::Pending => unreachable!("a program was left unfinished"),
            }
        }));
    }

    /// Evaluates the body on a rectangle. The rectangles of a launch cover its positions once; one of them starts at row and column 0.
    /// Results of level `Row` are written by the rectangles that start at column 0; those of level `Uniform` and of columns by
    /// [`Program::finish`].
    ///
    /// # Safety
    /// As [`Program::with_task`]; the rectangle lies in the body, has all columns if rows are reduced, and no other thread is at one
    /// that shares positions, or columns of the same partial results, with it; [`Program::start_partials`] has run for its columns.
    pub(in crate::cpu) unsafe fn run_block(&self, task: &mut Task<'_>, block: Block) {
        let Block { rows, columns, accumulator, partials } = block;
        if rows.start == 0 && columns.start == 0 {
            for result in &self.uniform_results {
                let from = task.memory.addresses[result.operand as usize].base;
                // SAFETY: a uniform slot has one element; the partial results have room for it.
                unsafe { std::ptr::copy_nonoverlapping(from, partials.add(result.offset), result.bytes) };
            }
        }
        let width = match self.cuts_columns {
            true if columns.len() > self.capacity => columns
                .len()
                .div_ceil(columns.len().div_ceil(self.capacity))
                .next_multiple_of(LINE)
                .min(self.capacity),
            _ => columns.len(),
        };
        let height = (self.capacity / width.max(1)).clamp(1, self.most_rows);
        for (slot, address) in self.slots.iter().zip(&mut task.memory.addresses) {
            match slot.place {
                Place::Register(_) => address.row_stride = width * address.bytes,
                Place::Accumulator => {
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
        let mut row = rows.start;
        while row < rows.end {
            let mut tile = Tile {
                row,
                rows: height.min(rows.end - row),
                column: columns.start,
                columns: 0,
                partials,
                body_columns: self.columns,
            };
            // SAFETY: the caller's promise; the tile has at most as many positions as registers have elements.
            unsafe { self.run_strip(task, &mut tile, &columns, width) };
            row += tile.rows;
        }
    }

    /// # Safety
    /// As [`Program::run_block`], with the tile's rows.
    unsafe fn run_strip(&self, task: &mut Task<'_>, tile: &mut Tile, columns: &Range<usize>, width: usize) {
        // SAFETY: the caller's promise.
        unsafe {
            self.rows.iter().for_each(|instruction| task.run_on_rows(instruction, tile));
            for pass in &self.passes {
                for &(slot, bits) in &pass.starts {
                    let running = task.memory.addresses[slot as usize].base.cast::<u32>();
                    (0..tile.rows).for_each(|row| running.add(row).write(bits));
                }
                let mut column = columns.start;
                while column < columns.end {
                    tile.column = column;
                    tile.columns = width.min(columns.end - column);
                    pass.tile.iter().for_each(|instruction| task.run_on_tile(instruction, tile));
                    column += tile.columns;
                }
                pass.rows.iter().for_each(|instruction| task.run_on_rows(instruction, tile));
            }
            if columns.start == 0 {
                self.row_stores.iter().for_each(|instruction| task.run_on_rows(instruction, tile));
            }
        }
    }
}

impl Task<'_> {
    /// A slot's elements at the positions of a tile.
    fn on_tile(&self, slot: Slot, tile: &Tile) -> Operand {
        let address = &self.memory.addresses[slot as usize];
        let start =
            address.base.wrapping_add(tile.row * address.row_step + tile.column * address.column_step);
        Operand { start, row_stride: address.row_stride, repeated: address.repeated }
    }

    /// A row-level or uniform slot's elements at the rows of a tile, as one row.
    fn on_rows(&self, slot: Slot, tile: &Tile) -> Operand {
        let address = &self.memory.addresses[slot as usize];
        let start = address.base.wrapping_add(tile.row * address.row_step);
        Operand { start, row_stride: 0, repeated: address.row_stride == 0 && address.repeated }
    }

    /// Runs an instruction on a tile's positions.
    ///
    /// # Safety
    /// As [`Program::run_block`].
    unsafe fn run_on_tile(&self, instruction: &Instruction, tile: &Tile) {
        // SAFETY: addresses are those of the tile's elements; functions were chosen for the slots' dtypes and the machine's level.
        unsafe {
            match instruction {
                Instruction::Map { function, operands, target } => {
                    let to = self.on_tile(*target, tile);
                    let target = Target { start: to.start.cast_mut(), row_stride: to.row_stride };
                    let from = operands
                        .map(|slot| if slot == NONE { Operand::none() } else { self.on_tile(slot, tile) });
                    if tile.rows > 1
                        && let Some(from) = self.flat(operands, from, tile)
                        && to.row_stride
                            == tile.columns * self.memory.addresses[target_slot(instruction)].bytes
                    {
                        function(1, tile.rows * tile.columns, &from, target);
                    } else {
                        function(tile.rows, tile.columns, &from, target);
                    }
                }
                Instruction::Gather(gather) => self.gather(gather, tile),
                Instruction::Reduce { function, operand, target } => {
                    let running = self.memory.addresses[*target as usize].base;
                    function(tile.rows, tile.columns, &self.on_tile(*operand, tile), running);
                }
                Instruction::Columns { function, operand, offset } => {
                    let running = tile.partials.add(offset + 4 * tile.column);
                    function(tile.rows, tile.columns, &self.on_tile(*operand, tile), running);
                }
                Instruction::Check(check) => {
                    self.check(check, self.on_tile(check.operand, tile), tile, false)
                }
                Instruction::Scatter(scatter) => self.scatter(scatter, tile),
            }
        }
    }

    /// The operands as one row, if their rows follow each other.
    fn flat(
        &self,
        slots: &[Slot; OPERANDS],
        mut from: [Operand; OPERANDS],
        tile: &Tile,
    ) -> Option<[Operand; OPERANDS]> {
        for (&slot, operand) in slots.iter().zip(&mut from) {
            if slot == NONE {
                continue;
            }
            let bytes = self.memory.addresses[slot as usize].bytes;
            let same = operand.repeated && operand.row_stride == 0;
            if operand.repeated && tile.columns == 1 && !same {
                // One element a row, and one column: a column.
                operand.repeated = false;
            }
            if !same && (operand.repeated || operand.row_stride != tile.columns * bytes) {
                return None;
            }
        }
        Some(from)
    }

    /// Runs an instruction on row-level slots, or on uniform ones.
    ///
    /// # Safety
    /// As [`Program::run_block`].
    unsafe fn run_on_rows(&self, instruction: &Instruction, tile: &Tile) {
        // SAFETY: as in `run_on_tile`.
        unsafe {
            match instruction {
                Instruction::Map { function, operands, target } => {
                    let start = self.on_rows(*target, tile).start.cast_mut();
                    let from = operands
                        .map(|slot| if slot == NONE { Operand::none() } else { self.on_rows(slot, tile) });
                    function(1, tile.rows, &from, Target { start, row_stride: 0 });
                }
                Instruction::Gather(gather) => {
                    let to = self.memory.addresses[gather.target as usize].base;
                    gather.source.copy(self.reads[gather.read], tile.row, tile.rows, to);
                }
                Instruction::Check(check) => self.check(check, self.on_rows(check.operand, tile), tile, true),
                Instruction::Scatter(scatter) => {
                    let from = self.memory.addresses[scatter.operand as usize];
                    let to = self.writes[scatter.write].wrapping_add(scatter.offset * from.bytes);
                    scatter_row(scatter, from.base, tile.row, tile.rows, from.bytes, to);
                }
                Instruction::Reduce { .. } | Instruction::Columns { .. } => {
                    unreachable!("reductions are of level Element")
                }
            }
        }
    }

    /// # Safety
    /// As [`Program::run_block`].
    unsafe fn gather(&self, gather: &Gather, tile: &Tile) {
        let to = self.memory.addresses[gather.target as usize];
        let base = self.reads[gather.read];
        // SAFETY: the positions are those of the tile; the register has as many elements.
        unsafe {
            if tile.columns == tile.body_columns {
                gather.source.copy(base, tile.row * tile.body_columns, tile.rows * tile.columns, to.base);
                return;
            }
            for row in 0..tile.rows {
                let start = (tile.row + row) * tile.body_columns + tile.column;
                gather.source.copy(base, start, tile.columns, to.base.add(row * to.row_stride));
            }
        }
    }

    /// # Safety
    /// As [`Program::run_block`].
    unsafe fn scatter(&self, scatter: &Scatter, tile: &Tile) {
        let bytes = self.memory.addresses[scatter.operand as usize].bytes;
        let from = self.on_tile(scatter.operand, tile);
        let to = self.writes[scatter.write].wrapping_add(scatter.offset * bytes);
        for row in 0..tile.rows {
            let start = (tile.row + row) * tile.body_columns + tile.column;
            // SAFETY: the positions are those of the tile; the operand is not repeated.
            unsafe {
                let from = from.start.add(row * from.row_stride);
                scatter_row(scatter, from, start, tile.columns, bytes, to);
            }
        }
    }

    /// # Safety
    /// The operand has the tile's elements, or, with `on_rows`, those of its rows.
    unsafe fn check(&self, check: &Check, operand: Operand, tile: &Tile, on_rows: bool) {
        let (rows, columns) = if on_rows { (1, tile.rows) } else { (tile.rows, tile.columns) };
        for row in 0..rows {
            let start = operand.start.wrapping_add(row * operand.row_stride).cast::<i32>();
            let count = if operand.repeated { columns.min(1) } else { columns };
            // SAFETY: the row has `count` elements.
            let indices = unsafe { std::slice::from_raw_parts(start, count) };
            // Negative numbers are large ones.
            let outside = |index: i32| index.cast_unsigned() as usize >= check.extent;
            if !indices.iter().fold(false, |any, &index| any | outside(index)) {
                continue;
            }
            let at = indices.iter().position(|&index| outside(index)).unwrap_or(0);
            let position = match on_rows {
                true => tile.row + at,
                false => (tile.row + row) * tile.body_columns + tile.column + at,
            };
            self.faults.record(check.node, position, indices[at], check.extent, &check.shape);
        }
    }
}

fn target_slot(instruction: &Instruction) -> usize {
    match instruction {
        Instruction::Map { target, .. } => *target as usize,
        _ => unreachable!("only maps have targets"),
    }
}

/// Copies a row of elements to their places.
///
/// # Safety
/// `from` has `count` elements of this size; the places are those of the result at `to`.
unsafe fn scatter_row(
    scatter: &Scatter,
    from: *const u8,
    start: usize,
    count: usize,
    bytes: usize,
    to: *mut u8,
) {
    scatter.places.stretches(start, start + count, |position, place, stride, count| {
        for i in 0..count {
            // SAFETY: the caller's promise; elements have 1 or 4 bytes.
            unsafe {
                let from = from.add((position - start + i) * bytes);
                let to = to.add((place + i * stride) * bytes);
                match bytes {
                    1 => to.write(from.read()),
                    _ => to.cast::<u32>().write(from.cast::<u32>().read()),
                }
            }
        }
    });
}
