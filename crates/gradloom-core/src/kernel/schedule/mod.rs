//! Schedules, which describe the division of a launch's work among a device's threads.
//!
//! Lowering chooses a schedule once and stores it in the launch. The schedule determines the size of the
//! scratch memory and the generated kernels.

mod attention;
mod group;
mod library;
mod order;
mod product;
mod rows;
mod scatter;

pub use attention::{
    AttentionChoice, AttentionKernel, AttentionLanes, AttentionMatrices, AttentionProblem, AttentionSchedule,
    AttentionTile, AttentionWarpgroups, MATRIX,
};
pub use group::GroupSchedule;
pub use library::LibrarySchedule;
pub use order::{CumulateSchedule, DIGIT_VALUES, SortMethod, SortSchedule};
pub use product::{CooperativeTile, Method, ProductChoice, ProductSchedule, Staging, Tile};
pub use rows::RowSchedule;
pub use scatter::ScatterSchedule;

use super::Kernel;
use crate::ir::{DType, OpKind};

/// The division of a launch's work among a device's threads.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Schedule {
    /// One invocation per position, or a division fixed by the kernel itself.
    Whole,
    /// As `Whole`, for a product or attention, whose operands are rounded to this type before they are
    /// multiplied.
    Rounded(DType),
    /// Rows of a fused expression with reductions.
    Rows(RowSchedule),
    /// One workgroup with this many invocations, a power of two, per element of the result of an
    /// arg-reduction.
    Axes(u32),
    /// Parts of a group that have the same expression.
    Group(GroupSchedule),
    /// A matrix product.
    Product(ProductSchedule),
    /// Attention, or its gradient.
    Attention(AttentionSchedule),
    /// Updates of rows by index.
    Scatter(ScatterSchedule),
    /// A cumulative reduction of long rows.
    Cumulate(CumulateSchedule),
    /// A sort of rows.
    Sort(SortSchedule),
    /// A matrix product computed by a vendor library.
    Library(LibrarySchedule),
    /// A user-defined op, with the number of bytes of scratch memory that its kernels request.
    Custom(u64),
}

impl Schedule {
    /// Returns the type to which a CPU rounds the operands of products; f32 leaves them as they are.
    pub fn operands(&self) -> DType {
        match self {
            Self::Rounded(dtype) => *dtype,
            _ => DType::F32,
        }
    }

    /// Returns the number of bytes of scratch memory that the schedule requires for a kernel, excluding the
    /// scratch memory of a group's individual parts.
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
            (_, Self::Whole | Self::Rounded(_) | Self::Rows(_) | Self::Axes(_) | Self::Attention(_)) => 0,
        }
    }
}
