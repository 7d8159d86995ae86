//! Lowering to WGSL: what a launch is as compute shaders.
//!
//! In: a graph's kernels, and later their plan. Out: launches whose scratch is known ([`lower`]), and the
//! shaders of each ([`shaders`]). Shapes are baked into the text, offsets are not, but where several values
//! share a binding: equal layers share pipelines. Always holds: a result is a function of the operands, the
//! shapes, the [`Limits`] and the [`Choices`] alone; there are no atomic sums.

mod alone;
pub mod attention;
mod constructors;
mod dispatch;
mod expression;
mod functions;
mod operands;
mod pieces;
mod place;
mod print;
mod product;
mod shader_builder;
mod target;
mod units;

pub use crate::limits::Limits;
pub use dispatch::{Bound, Context, Dispatch, Shaders};
/// Kernels that can be computed in several ways, with the shaders that measure one.
pub mod tuning {
    pub use super::alone::{Alone, alone};
    pub use crate::schedule::tuning::{Choice, Choices, Precision, Problem, candidates, from_line, to_line};
}

pub use crate::kernels::Cuts;
pub use crate::pipeline::lower_for as lower;
pub use crate::schedule::tuning::{Choices, Precision};
pub use operands::{Binding, Element, Operand, Operands, Shared};
#[cfg(test)]
pub(crate) use product::alone as alone_product;
pub(crate) use target::Wgsl;
pub use units::{Shader, Unit, guards, shaders, units, writable};
