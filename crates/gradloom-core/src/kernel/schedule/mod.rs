//! Schedules: the division of a launch's work among a device's threads, as values.
//!
//! Lowering chooses a schedule once and stores it in the launch: the scratch is sized from it, and kernels
//! are written from it.

mod attention;
mod group;
mod library;
mod order;
mod product;
mod rows;
mod scatter;

pub use attention::{
    AttentionChoice, AttentionKernel, AttentionLanes, AttentionMatrices, AttentionProblem, AttentionSchedule,
    AttentionTile, MATRIX,
};
pub use group::GroupSchedule;
pub use library::LibrarySchedule;
pub use order::{CumulateSchedule, DIGIT_VALUES, SortMethod, SortSchedule};
pub use product::{CooperativeTile, Method, ProductChoice, ProductSchedule, Staging, Tile};
pub use rows::RowSchedule;
pub use scatter::ScatterSchedule;

use super::Kernel;
use crate::ir::OpKind;

/// Division of a launch's work among a device's threads.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Schedule {
    /// An invocation for each position, or whatever the kernel does by itself.
    Whole,
    /// Rows of a fused expression that reduces.
    Rows(RowSchedule),
    /// A workgroup of so many invocations, a power of two, for each axis that is reduced.
    Axes(u32),
    /// Parts that compute the same together.
    Group(GroupSchedule),
    /// A matrix product.
    Product(ProductSchedule),
    /// Attention, or its gradient.
    Attention(AttentionSchedule),
    /// Updates of rows by number.
    Scatter(ScatterSchedule),
    /// A cumulative reduction of long rows.
    Cumulate(CumulateSchedule),
    /// Rows in order.
    Sort(SortSchedule),
    /// A matrix product by a library of the device's vendor.
    Library(LibrarySchedule),
    /// A user's op, with the bytes of scratch that its kernels ask for.
    Custom(u64),
}

impl Schedule {
    /// Returns the number of bytes of scratch that the schedule takes for a kernel. Scratch that the parts
    /// of a group take by themselves is not counted.
    pub fn workspace(&self, kernel: &Kernel) -> u64 {
        match (kernel, self) {
            (Kernel::Op(OpKind::AttentionGrad(_)), Self::Attention(attention)) => attention.workspace(),
            (Kernel::Loop(body), Self::Rows(rows)) => rows.workspace(body),
            (_, Self::Scatter(scatter)) => scatter.workspace(),
            (_, Self::Cumulate(cumulate)) => cumulate.workspace(),
            (_, Self::Sort(sort)) => sort.workspace(),
            (_, Self::Product(product)) => product.workspace,
            (_, Self::Group(group)) => group.workspace,
            (_, Self::Library(library)) => library.workspace,
            (_, Self::Custom(bytes)) => *bytes,
            (_, Self::Whole | Self::Rows(_) | Self::Axes(_) | Self::Attention(_)) => 0,
        }
    }
}
