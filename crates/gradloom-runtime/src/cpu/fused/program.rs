//! A compiled body, which the executor runs.
//!
//! Values live in slots. A slot is a place in memory that moves with the position: a register (a buffer as
//! large as a tile), a vector over the tile's rows, one number, or the bytes of an operand or a result
//! themselves, where their layout is that of rows of neighbouring elements. Instructions are grouped: those
//! for each task, for each strip of rows, and for each tile of each pass.

use super::native::Native;
use super::reductions::Reduction;
use crate::cpu::elementwise::functions::MapOp;
use crate::cpu::elementwise::{MapFn, OPERANDS};
use crate::cpu::index::Places;
use crate::cpu::source::Source;
use gradloom_core::kernel::Layout;

/// Index of a slot.
pub(super) type Slot = u32;

/// The slot at a position.
pub(super) fn slot_number(position: usize) -> Slot {
    Slot::try_from(position).expect("a program has fewer than 2^32 slots")
}

/// No slot: the place of an operand that a function does not have.
pub(super) const NONE: Slot = Slot::MAX;

/// The place of a slot's elements.
#[derive(Clone, Debug)]
pub(super) enum Place {
    /// Not decided yet; never in a finished program.
    Pending,
    /// Tile register of this number.
    Register(usize),
    /// Kept row of this number: an element for each column, of one row, from pass to pass.
    Kept(usize),
    /// Row register of this number: one element for each row of a tile.
    RowRegister(usize),
    /// Number in the task's memory.
    Uniform(usize),
    /// Number in [`Program::constants`].
    Constant(usize),
    /// Operand of this index, in its own bytes.
    Read(usize, Grid),
    /// Result of this index, in its own bytes.
    Write(usize, Grid),
    /// The matrix product's block.
    Accumulator,
}

/// A layout as rows of neighbouring elements, or of one repeated element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Grid {
    /// First element.
    pub(super) offset: usize,
    /// Elements from a row to the next.
    pub(super) row_stride: usize,
    /// Whether a row has one element, repeated.
    pub(super) repeated: bool,
}

impl Grid {
    /// The layout of `rows x columns` elements, if it is such a grid.
    pub(super) fn of(layout: &Layout, rows: usize, columns: usize) -> Option<Self> {
        let offset = layout.offset;
        if layout.shape.elements() == 0 {
            return Some(Self { offset, row_stride: 0, repeated: false });
        }
        let grid = layout.reshape(&[rows, columns].into())?;
        let row_stride = if rows == 1 { 0 } else { grid.strides[0] };
        match grid.strides[1] {
            _ if columns == 1 => Some(Self { offset, row_stride, repeated: false }),
            1 => Some(Self { offset, row_stride, repeated: false }),
            0 => Some(Self { offset, row_stride, repeated: true }),
            _ => None,
        }
    }
}

impl Grid {
    /// Whether rows follow each other without a gap.
    pub(super) fn is_dense(&self, rows: usize, columns: usize) -> bool {
        !self.repeated && (self.row_stride == columns || rows == 1)
    }
}

/// A slot's place and its elements' size.
#[derive(Clone, Debug)]
pub(super) struct SlotInfo {
    pub(super) place: Place,
    pub(super) bytes: usize,
}

impl SlotInfo {
    /// Whether the slot has one element for each row.
    pub(super) fn is_row_level(&self) -> bool {
        match self.place {
            Place::RowRegister(_) => true,
            Place::Read(_, grid) => grid.repeated && grid.row_stride > 0,
            _ => false,
        }
    }
}

/// An operand that is copied into a slot.
pub(super) struct Gather {
    pub(super) read: usize,
    pub(super) source: Source,
    pub(super) target: Slot,
}

/// A slot that is copied out to places of a result.
pub(super) struct Scatter {
    pub(super) write: usize,
    pub(super) offset: usize,
    pub(super) places: Places,
    pub(super) operand: Slot,
}

/// One step over a tile (of an element-level list), over the rows of a tile (of a row-level list), or over
/// one number.
pub(super) enum Instruction {
    /// A function of each element.
    Map { op: MapOp, function: MapFn, operands: [Slot; OPERANDS], target: Slot },
    /// A row's element, at each of its positions.
    Spread { operand: Slot, target: Slot },
    /// Numbers of the columns.
    Number { target: Slot },
    /// Elements of an operand.
    Gather(Box<Gather>),
    /// Combines rows into a row-level slot.
    Reduce { reduction: Reduction, operand: Slot, target: Slot },
    /// Combines columns into the partial results at this byte; those of a body of one column as if they were
    /// a row.
    Columns { reduction: Reduction, operand: Slot, offset: usize },
    /// Elements of one slot, but in the column that a row's index names those of another; of 4 bytes.
    Pick { index: Slot, chosen: Slot, others: Slot, target: Slot },
    /// Adds the f32 in the column that a row's index names to a row-level slot.
    Picked { index: Slot, operand: Slot, target: Slot },
    /// Looks for indices out of range.
    Check(Box<Check>),
    /// Elements of a result.
    Scatter(Box<Scatter>),
}

impl Instruction {
    /// The slots that are read.
    pub(super) fn operands(&self) -> Vec<Slot> {
        match self {
            Instruction::Map { operands, .. } => {
                operands.iter().copied().filter(|&slot| slot != NONE).collect()
            }
            Instruction::Number { .. } | Instruction::Gather(_) => Vec::new(),
            Instruction::Spread { operand, .. }
            | Instruction::Reduce { operand, .. }
            | Instruction::Columns { operand, .. } => vec![*operand],
            Instruction::Pick { index, chosen, others, .. } => vec![*index, *chosen, *others],
            Instruction::Picked { index, operand, .. } => vec![*index, *operand],
            Instruction::Check(check) => vec![check.operand],
            Instruction::Scatter(scatter) => vec![scatter.operand],
        }
    }

    /// The slot that is written for each position.
    pub(super) fn target(&self) -> Option<Slot> {
        match self {
            Instruction::Map { target, .. }
            | Instruction::Spread { target, .. }
            | Instruction::Number { target }
            | Instruction::Pick { target, .. } => Some(*target),
            Instruction::Gather(gather) => Some(gather.target),
            Instruction::Reduce { .. }
            | Instruction::Columns { .. }
            | Instruction::Picked { .. }
            | Instruction::Check(_)
            | Instruction::Scatter(_) => None,
        }
    }
}

/// An index check.
pub(super) struct Check {
    pub(super) operand: Slot,
    pub(super) extent: usize,
    /// The node, for the order of messages.
    pub(super) node: usize,
    /// Shape of the indices, for messages.
    pub(super) shape: Vec<usize>,
}

/// One walk along the columns of a strip of rows.
#[derive(Default)]
pub(super) struct Pass {
    /// Row-level slots that start as these bits.
    pub(super) starts: Vec<(Slot, u32)>,
    /// Instructions that run for each tile.
    pub(super) tile: Vec<Instruction>,
    /// Instructions that run for the rows, after the last tile.
    pub(super) rows: Vec<Instruction>,
}

/// The results of `Store::Columns`.
pub(super) struct ColumnResult {
    pub(super) reduction: Reduction,
    /// Bytes from the start of a panel's partial results.
    pub(super) offset: usize,
    pub(super) write: usize,
    pub(super) write_offset: usize,
    pub(super) places: Places,
}

/// A uniform result, kept in the partial results until all tasks have ended.
pub(super) struct UniformResult {
    pub(super) operand: Slot,
    pub(super) bytes: usize,
    /// Bytes from the start of a panel's partial results.
    pub(super) offset: usize,
    pub(super) write: usize,
    pub(super) write_offset: usize,
}

/// A compiled body.
pub(in crate::cpu) struct Program {
    pub(super) columns: usize,
    /// Whether columns can be cut into tiles.
    pub(super) cuts_columns: bool,
    pub(super) slots: Vec<SlotInfo>,
    pub(super) constants: Vec<u32>,
    /// Instructions that run once in each task.
    pub(super) uniform: Vec<Instruction>,
    /// Before the passes over a strip of rows.
    pub(super) rows: Vec<Instruction>,
    pub(super) passes: Vec<Pass>,
    /// After the passes over a strip of rows.
    pub(super) row_stores: Vec<Instruction>,
    pub(super) column_results: Vec<ColumnResult>,
    pub(super) uniform_results: Vec<UniformResult>,
    /// Bytes of a panel's partial results.
    pub(super) partials: usize,
    /// Results that are worth writing past the caches: larger than those, taking no operand's place, of a
    /// program that waits for memory.
    #[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
    pub(super) large_results: Vec<usize>,
    /// Slots that are fetched ahead.
    pub(super) streams: Vec<Slot>,
    pub(super) can_trap: bool,
    /// Elements of a tile register.
    pub(super) capacity: usize,
    /// Rows of a tile, at most.
    pub(super) most_rows: usize,
    pub(super) registers: usize,
    pub(super) kept: usize,
    pub(super) row_registers: usize,
    pub(super) uniforms: usize,
    /// Machine code for the instructions, if there is any.
    pub(super) native: Option<Native>,
}
