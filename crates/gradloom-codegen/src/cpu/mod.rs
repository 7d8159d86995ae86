//! The CPU target: which operands its kernels take, how products are split into tasks, how much scratch they
//! need, and the compiler of fused loops: formulas of elements ([`functions`]), instructions over tiles
//! ([`loops`]), machine code ([`machine`]).
//!
//! Everything here is a function of shapes and layouts alone. The number of threads may change how much
//! scratch there is, never how work is split, so that results are the same bits for any number of threads.

mod attention_blocks;
mod dot_plan;
mod dot_schedule;
// What the runtime alone uses is public, and not documented item by item.
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
mod rows;
mod target;

pub use attention_blocks::{AttentionShape, STRIP, attention_workspace};
pub use dot_plan::{DotPlan, Form, dot_workspace};
pub use dot_schedule::{DotSchedule, DotTask, FEW_ROWS};
pub use loop_schedule::{
    LEAF_ROWS, LoopSchedule, column_partials, column_total, loop_workspace, partial_bytes,
};
pub(crate) use lower::{Tasks, shares_rows};
pub use lower::{lower, lower_fused};
pub use rows::{DIGITS, MOST_SELECTED, PIECE, Rows, SHORT_ROW, SortPlan, cumulate_workspace};
pub(crate) use target::Cpu;
