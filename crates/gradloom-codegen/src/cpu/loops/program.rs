//! A compiled body, which the executor runs.
//!
//! Values live in slots. A slot is a place in memory that moves with the position: a register (a buffer as
//! large as a tile), a vector over the tile's rows, one number, or the bytes of an operand or a result
//! themselves, where their layout is that of rows of neighbouring elements. Instructions are grouped: those
//! for each task, for each strip of rows, and for each tile of each pass.

use super::native::Native;
use crate::cpu::functions::MapOp;
use gradloom_core::ir::{DType, Number, ReduceOp};
use gradloom_core::kernel::Layout;

/// Most operands of an elementwise function.
pub const OPERANDS: usize = 3;

/// Index of a slot.
pub type Slot = u32;

/// Returns the slot at a position.
pub(super) fn slot_number(position: usize) -> Slot {
    Slot::try_from(position).expect("a program has fewer than 2^32 slots")
}

/// No slot: the place of an operand that a function does not have.
pub const NONE: Slot = Slot::MAX;

/// The place of a slot's elements.
#[derive(Clone, Debug)]
pub enum SlotPlace {
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
pub struct Grid {
    /// First element.
    pub offset: usize,
    /// Elements from a row to the next.
    pub row_stride: usize,
    /// True if a row has one element, repeated.
    pub repeated: bool,
}

impl Grid {
    /// Returns the layout of `rows x columns` elements, if it is such a grid.
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
    /// Returns true if rows follow each other without a gap.
    pub fn is_dense(&self, rows: usize, columns: usize) -> bool {
        !self.repeated && (self.row_stride == columns || rows == 1)
    }
}

/// A slot's place and its elements' size.
#[derive(Clone, Debug)]
pub struct SlotInfo {
    pub place: SlotPlace,
    pub bytes: usize,
}

impl SlotInfo {
    /// Returns true if the slot has one element for each row.
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
    /// Its number in [`Program::gathers`].
    pub number: usize,
    pub read: usize,
    pub target: Slot,
}

/// A reduction's operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reduction {
    /// Its number in [`Program::reductions`].
    pub number: usize,
    pub op: ReduceOp,
    pub dtype: DType,
    /// The bits of what an empty reduction gives.
    pub identity: u32,
}

/// A slot that is copied out to places of a result.
#[derive(Clone, Copy, Debug)]
pub struct Scatter {
    /// Its number in [`Program::scatters`].
    pub number: usize,
    pub write: usize,
    pub offset: usize,
    pub operand: Slot,
}

/// One step over a tile (of an element-level list), over the rows of a tile (of a row-level list), or over
/// one number.
#[derive(Clone, Debug)]
pub enum Instruction {
    /// A function of each element.
    /// `function` is the op's number in [`Program::functions`].
    Map { op: MapOp, function: usize, operands: [Slot; OPERANDS], target: Slot },
    /// A row's element, at each of its positions.
    Spread { operand: Slot, target: Slot },
    /// Numbers of the columns.
    Number { target: Slot },
    /// Elements of an operand.
    Gather(Gather),
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
    Scatter(Scatter),
}

impl Instruction {
    /// Returns the slots that are read.
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

    /// Returns the slot that is written for each position.
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

/// An index check.
#[derive(Clone, Debug)]
pub struct Check {
    pub operand: Slot,
    pub extent: usize,
    /// The node, for the order of messages.
    pub node: usize,
    /// Shape of the indices, for messages.
    pub shape: Vec<usize>,
}

/// One walk along the columns of a strip of rows.
#[derive(Clone, Debug, Default)]
pub struct Pass {
    /// Row-level slots that start as these bits.
    pub starts: Vec<(Slot, u32)>,
    /// Those that are sums of floats.
    pub sums: Vec<Slot>,
    /// Instructions that run for each tile.
    pub tile: Vec<Instruction>,
    /// Instructions that run for the rows, after the last tile.
    pub rows: Vec<Instruction>,
}

/// The results of `Store::ColumnReduce`.
#[derive(Clone, Copy, Debug)]
pub struct ColumnResult {
    pub reduction: Reduction,
    /// Bytes from the start of a panel's partial results.
    pub offset: usize,
    /// Bytes from there, too, to the totals in f64; `None` if there are none.
    pub total: Option<usize>,
    pub write: usize,
    pub write_offset: usize,
}

/// A uniform result, kept in the partial results until all tasks have ended.
#[derive(Clone, Copy, Debug)]
pub struct UniformResult {
    pub operand: Slot,
    pub bytes: usize,
    /// Bytes from the start of a panel's partial results.
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
    /// Before the passes over a strip of rows.
    pub rows: Vec<Instruction>,
    pub passes: Vec<Pass>,
    /// After the passes over a strip of rows.
    pub row_stores: Vec<Instruction>,
    /// Functions of the instructions, each once.
    pub functions: Vec<MapOp>,
    /// Reductions of the instructions.
    pub reductions: Vec<(ReduceOp, DType)>,
    /// The operand of each gather.
    pub gathers: Vec<usize>,
    /// The result of each scatter.
    pub scatters: Vec<usize>,
    pub column_results: Vec<ColumnResult>,
    pub uniform_results: Vec<UniformResult>,
    /// Bytes of a panel's partial results.
    pub partials: usize,
    /// Results that are worth writing past the caches: larger than those, taking no operand's place, of a
    /// program that waits for memory.
    pub large_results: Vec<usize>,
    /// Slots that are fetched ahead.
    pub streams: Vec<Slot>,
    pub can_trap: bool,
    /// Elements of a tile register.
    pub capacity: usize,
    /// Rows of a tile, at most.
    pub most_rows: usize,
    pub registers: usize,
    pub kept: usize,
    pub row_registers: usize,
    pub uniforms: usize,
    /// Segments of the instructions for machine code, if there are any.
    pub native: Option<Native>,
}

/// A number as an element: its bits, of smaller elements in the low ones.
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
