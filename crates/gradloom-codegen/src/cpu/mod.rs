//! The CPU target: the operands of its kernels, the split of products into tasks, scratch memory, and the
//! compiler of fused loops: formulas of elementwise functions ([`functions`]), instructions over tiles
//! ([`loops`]), and machine code ([`machine`]).
//!
//! Everything here is a function of shapes and layouts alone. The number of threads may affect the size of
//! the scratch, but never the split of work, so results have the same bits for any number of threads.

mod attention_blocks;
mod compiled;
mod dot_plan;
mod dot_schedule;
// Items that only the runtime uses are public, but not documented individually.
#[doc(hidden)]
pub mod functions;
#[doc(hidden)]
pub mod lanes;
mod loop_schedule;
#[doc(hidden)]
pub mod loops;
mod lower;
#[doc(hidden)]
pub mod machine;
#[doc(hidden)]
pub mod math;
mod panels;
mod rows;
mod target;

pub use attention_blocks::{AttentionShape, FEW_QUERY_ROWS, STRIP, attention_workspace};
pub use compiled::{CpuCompiler, CpuKernel, CpuKernels};
pub use dot_plan::{DotPlan, DotStage, Form, PackTask, dot_workspace};
pub use dot_schedule::{DotSchedule, DotTask, FEW_ROWS};
pub use loop_schedule::{
    LEAF_ROWS, LoopSchedule, column_partials, column_total, loop_workspace, partial_bytes,
};
pub(crate) use lower::{Tasks, shares_rows};
pub use panels::{Panel, panels};
pub use rows::{DIGITS, MOST_SELECTED, PIECE, Rows, SHORT_ROW, SortPlan, cumulate_workspace};
pub(crate) use target::Cpu;
