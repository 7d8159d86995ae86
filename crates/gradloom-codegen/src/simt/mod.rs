//! A typed language for GPU kernels, which every GPU target prints in its own dialect.
//!
//! In: what a launch computes, written with [`Builder`], in which a kernel reads like a kernel. Out: a
//! [`Kernel`] of expressions and structured statements. Always holds after [`verify()`]: types match, every
//! value is defined before it is used and where it is in scope, and barriers stand in uniform control flow.
//!
//! One invocation computes scalars; a workgroup of them shares memory and meets at barriers. Buffers are
//! the launch's operands and results, indexed in elements: how a target binds them (bools as bytes, values
//! in pieces) is decided when the kernel is printed.

mod builder;
pub mod custom;
mod index;
mod ir;
pub mod kernels;
pub(crate) mod spelling;
#[cfg(test)]
mod tests;
mod text;
mod tidy;
mod turns;
mod types;
mod verify;

pub use builder::{Builder, Value, Variable};
pub(crate) use index::index_at_row;
pub use index::{index_at, index_of};
pub use ir::{
    Array, Block, Buffer, Expr, ExprId, Fault, FragmentPlace, Kernel, MatrixUse, Role, Space, Stmt, ValueType,
};
pub(crate) use spelling::helpers;
pub use turns::turns;
pub use verify::verify;
