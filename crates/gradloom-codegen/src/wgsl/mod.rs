//! Lowering to WGSL compute shaders.
//!
//! In: a plan. Out: the shaders of each launch ([`units`]). Shapes are constants in the text, but offsets are
//! not, unless several values share a binding, so equal layers share pipelines. Invariant: results depend
//! only on the operands, the shapes, the [`Limits`] and the [`Choices`]; sums are not atomic.

mod alone;
pub mod attention;
mod constructors;
mod dispatch;
mod expression;
mod functions;
mod memory;
mod operands;
mod pieces;
mod place;
mod print;
mod product;
mod target;
mod units;

pub use crate::limits::Limits;
pub use dispatch::{Bound, Context, Dispatch};
/// Kernels with several schedules, and standalone shaders to measure them.
pub mod tuning {
    pub use super::alone::{Alone, alone};
    pub use crate::schedule::tuning::{Choice, Choices, Precision, Problem, candidates};
}

pub use crate::kernels::Cuts;
pub use crate::schedule::tuning::{Choices, Precision};
pub use operands::{Binding, Element, Operand, Operands, Shared};
#[cfg(test)]
pub(crate) use product::alone as alone_product;
pub(crate) use target::Wgsl;
pub use units::{Shader, Unit, units, writable};
