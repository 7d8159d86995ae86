//! Runs single instructions.
//!
//! In: a task, an instruction, and the positions of a tile. Out: the instruction's slot, or a result, at
//! those positions. Invariant: a tile whose operands all have contiguous rows without gaps between them is
//! processed as one long row.

use super::execute::{Task, Tile};
use super::reductions::ReduceFn;
use crate::elementwise::{Operand, ResultRows};
use crate::index::Places;
use gradloom_codegen::cpu::loops::{Check, Gather, Instruction, NONE, OPERANDS, Scatter, Slot};

impl Task<'_> {
    /// Returns the elements of a slot at the positions of a tile.
    pub(super) fn on_tile(&self, slot: Slot, tile: &Tile) -> Operand {
        let address = &self.memory.addresses[slot as usize];
        let start =
            address.base.wrapping_add(tile.row * address.row_step + tile.column * address.column_step);
        Operand { start, row_stride: address.row_stride, repeated: address.repeated }
    }

    /// Returns the elements of a row-level or uniform slot for the rows of a tile, as one row.
    pub(super) fn on_rows(&self, slot: Slot, tile: &Tile) -> Operand {
        let address = &self.memory.addresses[slot as usize];
        let start = address.base.wrapping_add(tile.row * address.row_step);
        Operand { start, row_stride: 0, repeated: address.row_stride == 0 && address.repeated }
    }

    /// Runs an instruction on the positions of a tile.
    ///
    /// # Safety
    /// Same as [`Program::run_block`].
    pub(super) unsafe fn run_on_tile(&self, instruction: &Instruction, tile: &Tile) {
        // SAFETY: the addresses are those of the tile's elements; the functions were chosen for the slots'
        // dtypes and the machine's instruction set.
        unsafe {
            match instruction {
                Instruction::Map { op: _, function, operands, target } => {
                    let to = self.on_tile(*target, tile);
                    let mut from = operands_of(operands, |slot| self.on_tile(slot, tile));
                    let (mut rows, mut columns) = (tile.rows, tile.columns);
                    let bytes = self.memory.addresses[*target as usize].bytes;
                    if rows > 1
                        && to.row_stride == columns * bytes
                        && self.flatten(operands, &mut from, columns)
                    {
                        (rows, columns) = (1, rows * columns);
                    }
                    let target = ResultRows { start: to.start.cast_mut(), row_stride: to.row_stride };
                    self.program.functions[*function](rows, columns, &from, target);
                }
                Instruction::Spread { operand, target } => {
                    let (from, to) = (self.on_tile(*operand, tile), self.on_tile(*target, tile));
                    for row in 0..tile.rows {
                        let element = from.start.add(row * from.row_stride);
                        let start = to.start.add(row * to.row_stride).cast_mut();
                        match self.memory.addresses[*target as usize].bytes {
                            1 => start.write_bytes(element.read(), tile.columns),
                            2 => {
                                let element = element.cast::<u16>().read();
                                std::slice::from_raw_parts_mut(start.cast::<u16>(), tile.columns)
                                    .fill(element);
                            }
                            _ => {
                                let element = element.cast::<u32>().read();
                                std::slice::from_raw_parts_mut(start.cast::<u32>(), tile.columns)
                                    .fill(element);
                            }
                        }
                    }
                }
                Instruction::Number { target } => {
                    let to = self.on_tile(*target, tile);
                    for row in 0..tile.rows {
                        let numbers = to.start.add(row * to.row_stride).cast_mut().cast::<i32>();
                        let numbers = std::slice::from_raw_parts_mut(numbers, tile.columns);
                        // Saturation is never reached, because no kernel numbers columns beyond the range of
                        // i32.
                        let first = i32::try_from(tile.column).unwrap_or(i32::MAX);
                        numbers.iter_mut().zip(first..).for_each(|(number, column)| *number = column);
                    }
                }
                Instruction::Gather(gather) => self.gather(gather, tile),
                Instruction::Reduce { reduction, operand, target } => {
                    let running = self.memory.addresses[*target as usize].base;
                    let loops = &self.program.reductions[reduction.number];
                    (loops.rows)(tile.rows, tile.columns, &self.on_tile(*operand, tile), running);
                }
                Instruction::Columns { reduction, operand, offset } => {
                    let running = tile.partials.add(offset + 4 * tile.column);
                    let from = self.on_tile(*operand, tile);
                    let loops = &self.program.reductions[reduction.number];
                    if tile.columns == 1 && from.row_stride == self.memory.addresses[*operand as usize].bytes
                    {
                        (loops.rows)(1, tile.rows, &from, running);
                    } else if tile.columns == 1 && from.row_stride > 0 {
                        self.reduce_strided(loops.rows, tile.rows, &from, running);
                    } else {
                        (loops.columns)(tile.rows, tile.columns, &from, running);
                    }
                }
                Instruction::Pick { index, chosen, others, target } => {
                    self.pick(*index, *chosen, *others, *target, tile);
                }
                Instruction::Picked { index, operand, target } => {
                    self.add_picked(*index, *operand, *target, tile);
                }
                Instruction::Check(check) => {
                    self.check(check, self.on_tile(check.operand, tile), tile, false)
                }
                Instruction::Scatter(scatter) => self.scatter(scatter, tile),
            }
        }
    }

    /// Reduces a strided column of 4-byte elements with a loop over contiguous elements.
    ///
    /// # Safety
    /// Same as [`ReduceFn`]; there must be a running result for the column.
    unsafe fn reduce_strided(&self, reduce: ReduceFn, rows: usize, from: &Operand, running: *mut u8) {
        let mut elements = [0_u32; 256];
        for first in (0..rows).step_by(elements.len()) {
            let count = elements.len().min(rows - first);
            for (row, element) in (first..).zip(&mut elements[..count]) {
                // SAFETY: guaranteed by the caller; `row < rows`.
                *element = unsafe { from.start.add(row * from.row_stride).cast::<u32>().read_unaligned() };
            }
            let side_by_side = Operand { start: elements.as_ptr().cast(), row_stride: 4, repeated: false };
            // SAFETY: as above; the elements have been initialized.
            unsafe { reduce(1, count, &side_by_side, running) };
        }
    }

    /// Returns `true` if the rows of all operands follow each other without gaps, so that the rows of a tile
    /// can be processed as one. If there is only one column, converts operands that repeat one element per
    /// row to columns.
    fn flatten(&self, slots: &[Slot; OPERANDS], from: &mut [Operand; OPERANDS], columns: usize) -> bool {
        for (&slot, operand) in slots.iter().zip(from) {
            if slot == NONE || (operand.repeated && operand.row_stride == 0) {
                continue;
            }
            if operand.repeated && columns == 1 {
                // One element per row is a column, since there is a single column.
                operand.repeated = false;
            }
            let bytes = self.memory.addresses[slot as usize].bytes;
            if operand.repeated || operand.row_stride != columns * bytes {
                return false;
            }
        }
        true
    }

    /// Runs an instruction on row-level or uniform slots.
    ///
    /// # Safety
    /// Same as [`Program::run_block`].
    pub(super) unsafe fn run_on_rows(&self, instruction: &Instruction, tile: &Tile) {
        // SAFETY: as in `run_on_tile`.
        unsafe {
            match instruction {
                Instruction::Map { op: _, function, operands, target } => {
                    let start = self.on_rows(*target, tile).start.cast_mut();
                    let from = operands_of(operands, |slot| self.on_rows(slot, tile));
                    let target = ResultRows { start, row_stride: 0 };
                    self.program.functions[*function](1, tile.rows, &from, target);
                }
                Instruction::Gather(gather) => {
                    let to = self.memory.addresses[gather.target as usize].base;
                    self.program.sources[gather.number].copy(
                        self.reads[gather.read],
                        tile.row,
                        tile.rows,
                        to,
                    );
                }
                Instruction::Check(check) => self.check(check, self.on_rows(check.operand, tile), tile, true),
                Instruction::Scatter(scatter) => {
                    let from = self.memory.addresses[scatter.operand as usize];
                    let to = self.writes[scatter.write].wrapping_add(scatter.offset * from.bytes);
                    scatter_row(
                        &self.program.scatters[scatter.number],
                        from.base,
                        tile.row,
                        tile.rows,
                        from.bytes,
                        to,
                    );
                }
                Instruction::Spread { .. }
                | Instruction::Number { .. }
                | Instruction::Reduce { .. }
                | Instruction::Pick { .. }
                | Instruction::Picked { .. }
                | Instruction::Columns { .. } => {
                    unreachable!("columns and reductions are of level Element")
                }
            }
        }
    }

    /// # Safety
    /// Same as [`Program::run_block`].
    unsafe fn gather(&self, gather: &Gather, tile: &Tile) {
        let to = self.memory.addresses[gather.target as usize];
        let base = self.reads[gather.read];
        // SAFETY: the positions are those of the tile; the register has room for its elements.
        unsafe {
            if tile.columns == tile.body_columns {
                self.program.sources[gather.number].copy(
                    base,
                    tile.row * tile.body_columns,
                    tile.rows * tile.columns,
                    to.base,
                );
                return;
            }
            for row in 0..tile.rows {
                let start = (tile.row + row) * tile.body_columns + tile.column;
                self.program.sources[gather.number].copy(
                    base,
                    start,
                    tile.columns,
                    to.base.add(row * to.row_stride),
                );
            }
        }
    }

    /// # Safety
    /// Same as [`Program::run_block`].
    unsafe fn scatter(&self, scatter: &Scatter, tile: &Tile) {
        let bytes = self.memory.addresses[scatter.operand as usize].bytes;
        let from = self.on_tile(scatter.operand, tile);
        let to = self.writes[scatter.write].wrapping_add(scatter.offset * bytes);
        for row in 0..tile.rows {
            let start = (tile.row + row) * tile.body_columns + tile.column;
            // SAFETY: the positions are those of the tile; the operand is not repeated.
            unsafe {
                let from = from.start.add(row * from.row_stride);
                scatter_row(&self.program.scatters[scatter.number], from, start, tile.columns, bytes, to);
            }
        }
    }

    /// # Safety
    /// `operand` must be valid for reads of the tile's elements or, with `on_rows`, of one element for each
    /// of the tile's rows.
    unsafe fn check(&self, check: &Check, operand: Operand, tile: &Tile, on_rows: bool) {
        let (rows, columns) = if on_rows { (1, tile.rows) } else { (tile.rows, tile.columns) };
        for row in 0..rows {
            let start = operand.start.wrapping_add(row * operand.row_stride).cast::<u32>();
            let count = if operand.repeated { columns.min(1) } else { columns };
            // SAFETY: the row has `count` elements.
            let elements = unsafe { std::slice::from_raw_parts(start, count) };
            if elements.iter().fold(true, |all, &bits| all & check.condition.holds(bits)) {
                continue;
            }
            let at = elements.iter().position(|&bits| !check.condition.holds(bits)).unwrap_or(0);
            let position = match on_rows {
                true => tile.row + at,
                false => (tile.row + row) * tile.body_columns + tile.column + at,
            };
            self.faults.record(check, position, elements[at]);
        }
    }
}

/// Returns the operands of a function. (`array::map` would not be inlined.)
#[inline(always)]
fn operands_of(slots: &[Slot; OPERANDS], operand: impl Fn(Slot) -> Operand) -> [Operand; OPERANDS] {
    let get = |slot: Slot| if slot == NONE { Operand::none() } else { operand(slot) };
    [get(slots[0]), get(slots[1]), get(slots[2])]
}

/// Writes a row of elements to their places.
///
/// # Safety
/// `from` must be valid for reads of `count` elements of `bytes` bytes, and `to` for writes at the places of
/// the `count` positions from `start` on.
unsafe fn scatter_row(
    places: &Places,
    from: *const u8,
    start: usize,
    count: usize,
    bytes: usize,
    to: *mut u8,
) {
    places.stretches(start, start + count, |position, place, stride, count| {
        for i in 0..count {
            // SAFETY: guaranteed by the caller; elements have 1, 2 or 4 bytes.
            unsafe {
                let from = from.add((position - start + i) * bytes);
                let to = to.add((place + i * stride) * bytes);
                match bytes {
                    1 => to.write(from.read()),
                    2 => to.cast::<u16>().write(from.cast::<u16>().read()),
                    _ => to.cast::<u32>().write(from.cast::<u32>().read()),
                }
            }
        }
    });
}
