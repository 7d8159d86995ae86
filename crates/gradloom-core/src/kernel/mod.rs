//! Kernels and launches over strided windows of buffers.
//!
//! [`crate::fuse`] creates target-independent kernels, which `gradloom-codegen` lowers for a target. The
//! resulting [`Launch`]es are scheduled and placed by the plan, independently of the target. A [`Body`] is
//! the expression of a fused kernel, in which views have become [`Layout`]s.

mod body;
mod launch;
mod layout;
mod lowered;
mod print;
mod schedule;

pub use body::{Body, Level, Node, NodeId, NodeKind, Store};
pub use launch::{Access, Aliases, Kernel, Launch, Overwrites, Part, Phase};
pub use layout::Layout;
pub use lowered::Lowered;
pub use schedule::{
    AttentionChoice, AttentionKernel, AttentionLanes, AttentionMatrices, AttentionProblem, AttentionSchedule,
    AttentionTile, AttentionWarpgroups, CooperativeTile, CumulateSchedule, DIGIT_VALUES, GroupSchedule,
    LibrarySchedule, MATRIX, Method, ProductChoice, ProductSchedule, RowSchedule, ScatterSchedule, Schedule,
    SortMethod, SortSchedule, Staging, Tile,
};
