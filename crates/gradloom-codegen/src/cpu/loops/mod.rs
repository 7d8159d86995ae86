//! The CPU's compiler of fused loops: from a body to instructions over tiles, and to segments of machine
//! code.
//!
//! In: a body, and the launch that contains it. Out: a [`Program`], which a runtime runs on any rectangle of
//! the body's positions, such as a block of a matrix product with an epilogue. Instructions are vectorized
//! loops over the elements of registers that stay in the first-level cache, so memory is accessed once,
//! regardless of the length of the body. Invariant: an operand that a result may overwrite is read before
//! the result is written.

mod compile;
mod keep;
mod native;
mod needs;
mod pick;
mod program;
mod registers;
mod segment;
mod shared;
mod stores;
mod streams;
mod text;

pub use compile::Machine;
pub use native::{Native, PassSteps, Positions, Step};
pub use program::{
    Check, ColumnResult, Condition, Gather, Grid, Instruction, NONE, OPERANDS, Pass, Program, Reduction,
    Scatter, Slot, SlotInfo, SlotPlace, UniformResult, bits,
};
pub use segment::{RoutineOperand, Segment, Streaming};
