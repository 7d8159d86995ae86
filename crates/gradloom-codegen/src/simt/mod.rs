//! A typed language for GPU kernels, which every GPU target prints in its own dialect.
//!
//! In: what a launch computes, written with [`Builder`], in which a kernel reads like a kernel. Out: a
//! [`Kernel`] of expressions and structured statements. [`verify()`] checks one; the tests run every kind of
//! kernel on a simulated grid.
//!
//! # Who runs what
//!
//! [`Kernel::groups`] workgroups of [`Kernel::workgroup`] invocations run the same [body](Kernel::body), each
//! invocation for itself. [`Expr::Group`] and [`Expr::Local`] are the only values that tell them apart.
//! Invocations of a workgroup share the arrays of [`Space::Workgroup`] and meet at barriers. Workgroups share
//! nothing and run in any order: what one writes, another may read in the launch's next kernel only.
//!
//! # Memory
//!
//! A [`Buffer`] is an operand, a result, scratch or a table of numbers of the launch, and in one kernel the
//! status of the step. It is indexed in elements of its type, from the start of the launch's buffer. How a
//! dialect names it (a binding, several bindings of a value that is too large for one, an address) and how
//! elements lie in words (bools and u8 as bytes, 16-bit floats where the device has none) is decided when the
//! kernel is placed and printed. Arrays have no values until they are written.
//!
//! An index must be in range: nothing clamps it. Indices that come from data go through
//! [`Builder::check_index`], which makes the step fail and goes on with the nearest index in range.
//!
//! **What may alias.** A result may lie where an operand lies, element for element, if the launch says so
//! ([`Launch::may_alias`](gradloom_core::kernel::Launch::may_alias)); then an invocation reads an element
//! before it writes that element, and no other invocation reads it. Apart from that, no two buffers share
//! bytes, and two invocations never touch the same element of a result, one of them to write, in one kernel.
//!
//! # Expressions: what is computed
//!
//! Expressions stand in an arena, [`Kernel::exprs`], and know their operands by number; operands come first.
//! Each has one type: a scalar of a dtype, a vector of two or four floats, floats of 16 bits in groups as
//! memory has them, or a matrix that a subgroup holds together. Floats of 16 bits are for memory: a load
//! makes them f32, a store rounds. `u8` is `i32` likewise.
//!
//! **When an expression is evaluated.** A pure expression has no time: a dialect may print it wherever it is
//! used, several times, or never. What depends on the moment ([`Expr::is_impure`]: it reads a buffer, an
//! array or a variable, or invocations evaluate it together) is evaluated by exactly one [`Stmt::Let`], at
//! that statement, and has that value until the block ends. The builder adds a `Let` for everything but
//! leaves; [`Builder::finish`] drops those that nothing needs, and the names of pure expressions with one
//! use.
//!
//! # Statements: when it happens
//!
//! A [`Block`] runs its statements in order. [`Stmt::If`] has no other branch, [`Stmt::For`] counts a u32
//! from a start below an end by a step; there is no other loop, no jump, and no return. A name or variable is
//! in scope from its statement to the end of its block. [`Stmt::Report`] makes the step fail and does not
//! stop the invocation.
//!
//! # What is uniform
//!
//! A value is uniform if it is the same for all invocations of a workgroup: literals, the group's number,
//! tables, broadcasts, and what is made of those; not [`Expr::Local`], nor anything read from a buffer or an
//! array. A variable or counter is uniform if all that assigns it is, under uniform conditions. Control flow
//! is uniform where all conditions around a statement are. Barriers, shuffles, broadcasts and matrices are
//! allowed in uniform control flow only, so that all invocations arrive or none.
//!
//! **What a barrier orders.** Between two barriers, an element of a workgroup's array that one invocation
//! writes must not be touched by another. A barrier says nothing about buffers.
//!
//! # The commit
//!
//! Kernels of the commit write only where [`Expr::Committed`] holds: the verdict that the
//! [guards](kernels::guards) left in the step's [`Status`](crate::step::Status) before.

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
