//! Kernels and launches over strided windows of buffers.
//!
//! In: kernels for no target in particular ([`crate::fuse`]), lowered for one target (`gradloom-codegen`).
//! Out: [`Launch`]es, which the plan schedules and places without knowing the target. A [`Body`] says what a
//! fused kernel computes; views have become [`Layout`]s.

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
    AttentionTile, CooperativeTile, CumulateSchedule, DIGIT_VALUES, GroupSchedule, LibrarySchedule, MATRIX,
    Method, ProductChoice, ProductSchedule, RowSchedule, ScatterSchedule, Schedule, SortMethod, SortSchedule,
    Staging, Tile,
};
