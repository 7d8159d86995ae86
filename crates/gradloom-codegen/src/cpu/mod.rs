//! The CPU target: which operands its kernels take, how products are split into tasks, and how much scratch
//! they need.
//!
//! Everything here is a function of shapes and layouts alone. The number of threads may change how much
//! scratch there is, never how work is split, so that results are the same bits for any number of threads.

mod attention_blocks;
mod dot_plan;
mod dot_schedule;
mod loop_schedule;
mod lower;

pub use attention_blocks::{AttentionShape, STRIP, attention_workspace};
pub use dot_plan::{DotPlan, dot_workspace};
pub use dot_schedule::{DotSchedule, DotTask, FEW_ROWS};
pub use loop_schedule::{LoopSchedule, column_partials, loop_workspace};
pub use lower::{lower, lower_fused};
