//! A compiled body, which the executor runs.
//!
//! Values are in slots. A slot is a memory location that moves with the position, such as a register (a
//! buffer as large as a tile), a vector over the tile's rows, a single number, or the memory of an operand or
//! a result, if its layout consists of rows of neighboring elements. There are separate lists of instructions
//! for each task, for each strip of rows, and for each tile of each pass.

use super::native::Native;
use crate::cpu::functions::MapOp;
use gradloom_core::ir::{DType, Number, ReduceOp};
use gradloom_core::kernel::Layout;

/// Maximum number of operands of an elementwise function.
pub const OPERANDS: usize = 3;

/// Index of a slot.
pub type Slot = u32;

/// Returns the slot with this index.
pub(super) fn slot_number(position: usize) -> Slot {
    Slot::try_from(position).expect("a program has fewer than 2^32 slots")
}

/// No slot: the placeholder for an operand that a function does not have.
pub const NONE: Slot = Slot::MAX;

/// The memory of a slot's elements.
#[derive(Clone, Debug)]
pub enum SlotPlace {
    /// Not assigned yet; never in a finished program.
    Pending,
    /// Tile register with this index.
    Register(usize),
    /// Kept row with this index, which has an element for each column of a single row, and persists between
    /// passes.
    Kept(usize),
    /// Row register with this index, which has one element for each row of a tile.
    RowRegister(usize),
    /// Number with this index in the task's memory.
    Uniform(usize),
    /// Number with this index in [`Program::constants`].
    Constant(usize),
    /// Memory of the operand with this index.
    Read(usize, Grid),
    /// Memory of the result with this index.
    Write(usize, Grid),
    /// The block of the matrix product.
    Accumulator,
}

/// A layout of rows, each of which consists of neighboring elements or of one repeated element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grid {
    /// Offset of the first element.
    pub offset: usize,
    /// Number of elements from the start of a row to that of the next.
    pub row_stride: usize,
    /// True if each row is one repeated element.
    pub repeated: bool,
}

impl Grid {
    /// Returns the layout of `rows x columns` elements as a grid, if it is one.
    pub fn of(layout: &Layout, rows: usize, columns: usize) -> Option<Self> {
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
    /// Returns `true` if rows follow each other without gaps.
    pub fn is_dense(&self, rows: usize, columns: usize) -> bool {
        !self.repeated && (self.row_stride == columns || rows == 1)
    }
}

/// A slot's memory and the size of its elements.
#[derive(Clone, Debug)]
pub struct SlotInfo {
    pub place: SlotPlace,
    pub bytes: usize,
}

impl SlotInfo {
    /// Returns `true` if the slot has one element for each row.
    pub fn is_row_level(&self) -> bool {
        match self.place {
            SlotPlace::RowRegister(_) => true,
            SlotPlace::Read(_, grid) => grid.repeated && grid.row_stride > 0,
            _ => false,
        }
    }
}

/// An operand that is copied into a slot.
#[derive(Clone, Copy, Debug)]
pub struct Gather {
    /// Index in [`Program::gathers`].
    pub number: usize,
    pub read: usize,
    pub target: Slot,
}

/// The operator of a reduction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reduction {
    /// Index in [`Program::reductions`].
    pub number: usize,
    pub op: ReduceOp,
    pub dtype: DType,
    /// Bits of the result of an empty reduction.
    pub identity: u32,
}

/// A slot that is copied to positions of a result.
#[derive(Clone, Copy, Debug)]
pub struct Scatter {
    /// Index in [`Program::scatters`].
    pub number: usize,
    pub write: usize,
    pub offset: usize,
    pub operand: Slot,
}

/// A step over a tile (in an element-level list), over the rows of a tile (in a row-level list), or over a
/// single number.
#[derive(Clone, Debug)]
pub enum Instruction {
    /// Applies a function to each element. `function` is the index of `op` in [`Program::functions`].
    Map { op: MapOp, function: usize, operands: [Slot; OPERANDS], target: Slot },
    /// Repeats the element of each row at all of its positions.
    Spread { operand: Slot, target: Slot },
    /// Writes the index of each column.
    Number { target: Slot },
    /// Copies elements of an operand.
    Gather(Gather),
    /// Reduces rows into a row-level slot.
    Reduce { reduction: Reduction, operand: Slot, target: Slot },
    /// Reduces columns into the partial results at this byte offset. The only column of a body is reduced as
    /// if it were a row.
    Columns { reduction: Reduction, operand: Slot, offset: usize },
    /// Copies 4-byte elements of `chosen` in the column that the row's index selects, and of `others` in all
    /// other columns.
    Pick { index: Slot, chosen: Slot, others: Slot, target: Slot },
    /// Adds the f32 in the column that the row's index selects to a row-level slot.
    Picked { index: Slot, operand: Slot, target: Slot },
    /// Checks for indices out of range, or for divisors of zero.
    Check(Box<Check>),
    /// Copies elements to a result.
    Scatter(Scatter),
}

impl Instruction {
    /// Returns the slots that the instruction reads.
    pub fn operands(&self) -> Vec<Slot> {
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

    /// Returns the slot that the instruction writes for each position, if any.
    pub fn target(&self) -> Option<Slot> {
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

/// A check of a slot's elements, which traps if the condition does not hold for all of them.
#[derive(Clone, Debug)]
pub struct Check {
    pub operand: Slot,
    pub condition: Condition,
    /// Index of the node, by which error messages are sorted.
    pub node: usize,
}

/// The condition of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Condition {
    /// An i32 in `0..extent`. The shape of the indices is for error messages.
    Index { extent: usize, shape: Vec<usize> },
    /// An integer that is not 0.
    Divisor,
}

impl Condition {
    /// Returns `true` if the condition holds for the bits of an element.
    #[inline(always)]
    pub fn holds(&self, bits: u32) -> bool {
        match self {
            // Negative indices fail too, because they are large as unsigned numbers.
            Self::Index { extent, .. } => (bits as usize) < *extent,
            Self::Divisor => bits != 0,
        }
    }
}

/// One traversal of the columns of a strip of rows.
#[derive(Clone, Debug, Default)]
pub struct Pass {
    /// Row-level slots, each with the bits of its initial value.
    pub starts: Vec<(Slot, u32)>,
    /// Row-level slots that are sums of floats.
    pub sums: Vec<Slot>,
    /// Instructions that run for each tile.
    pub tile: Vec<Instruction>,
    /// Instructions that run for the rows, after the last tile.
    pub rows: Vec<Instruction>,
}

/// The result of a `Store::ColumnReduce`.
#[derive(Clone, Copy, Debug)]
pub struct ColumnResult {
    pub reduction: Reduction,
    /// Offset from the start of a panel's partial results, in bytes.
    pub offset: usize,
    /// Offset of the totals in f64 from the start of a panel's partial results, in bytes, if there are
    /// totals.
    pub total: Option<usize>,
    pub write: usize,
    pub write_offset: usize,
}

/// A uniform result, which stays in the partial results until all tasks have ended.
#[derive(Clone, Copy, Debug)]
pub struct UniformResult {
    pub operand: Slot,
    pub bytes: usize,
    /// Offset from the start of a panel's partial results, in bytes.
    pub offset: usize,
    pub write: usize,
    pub write_offset: usize,
}

/// A compiled body.
#[derive(Clone, Debug)]
pub struct Program {
    pub columns: usize,
    /// True if columns can be cut into tiles.
    pub cuts_columns: bool,
    pub slots: Vec<SlotInfo>,
    pub constants: Vec<u32>,
    /// Instructions that run once in each task.
    pub uniform: Vec<Instruction>,
    /// Instructions that run before the passes over a strip of rows.
    pub rows: Vec<Instruction>,
    pub passes: Vec<Pass>,
    /// Instructions that run after the passes over a strip of rows.
    pub row_stores: Vec<Instruction>,
    /// Distinct functions of the instructions.
    pub functions: Vec<MapOp>,
    /// Reductions of the instructions.
    pub reductions: Vec<(ReduceOp, DType)>,
    /// Index of the operand of each gather.
    pub gathers: Vec<usize>,
    /// Index of the result of each scatter.
    pub scatters: Vec<usize>,
    pub column_results: Vec<ColumnResult>,
    pub uniform_results: Vec<UniformResult>,
    /// Size of a panel's partial results, in bytes.
    pub partials: usize,
    /// Results that are worth writing past the caches: those of a memory-bound program that are larger than
    /// the caches and overwrite no operand.
    pub large_results: Vec<usize>,
    /// Slots that are prefetched.
    pub streams: Vec<Slot>,
    pub can_trap: bool,
    /// Number of elements of a tile register.
    pub capacity: usize,
    /// Maximum number of rows of a tile.
    pub most_rows: usize,
    pub registers: usize,
    pub kept: usize,
    pub row_registers: usize,
    pub uniforms: usize,
    /// Segments of the instructions for machine code, if any.
    pub native: Option<Native>,
}

/// Returns the bits of a number as an element. Smaller elements are in the low bits.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the number fits its dtype, but for the rounding of f32, as `Body::check` sees to"
)]
pub fn bits(number: Number, dtype: DType) -> u32 {
    match (dtype, number) {
        (DType::F32, number) => (number.as_f64() as f32).to_bits(),
        (DType::F16 | DType::BF16, number) => dtype.narrow_bits(number.as_f64() as f32).into(),
        (DType::I32 | DType::U32 | DType::U8, Number::Int(value)) => value as u32,
        (DType::I64, _) => crate::narrow::has_words(),
        (DType::I32 | DType::U32 | DType::U8, number) => number.as_f64() as i64 as u32,
        (DType::Bool, number) => u32::from(number.as_f64() != 0.0),
    }
}
