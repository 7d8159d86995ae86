//! Typed intermediate language for GPU kernels, which each GPU target prints in its dialect.
//!
//! In: the computation of a launch, written with [`Builder`]. Out: a [`Kernel`] of expressions and structured
//! statements. [`verify()`] checks it; the tests run every kind of kernel on a simulated grid.
//!
//! # Execution
//!
//! [`Kernel::groups`] workgroups of [`Kernel::workgroup`] invocations run the same [body](Kernel::body). Only
//! [`Expr::Group`] and [`Expr::Local`] distinguish invocations. The invocations of a workgroup share the
//! arrays of [`Space::Workgroup`] and synchronize at barriers. Workgroups share nothing and run in any order:
//! memory that one of them writes can be read by others only in the launch's next kernel.
//!
//! # Memory
//!
//! A [`Buffer`] is an operand, a result, scratch memory or a table of constants of the launch; one kernel
//! also accesses the status of the step. It is indexed in elements of its type, from the start of the
//! launch's buffer. Its name in a dialect (a binding, several bindings for a value that exceeds the size
//! limit of one, or an address) and the layout of its elements in words (bools and u8 as bytes; 16-bit
//! floats, if the device has none) are determined when the kernel is placed and printed. Arrays are undefined
//! until they are written.
//!
//! Indices must be in range: they are not clamped. Use [`Builder::check_index`] for indices that depend on
//! data: out of range, it makes the step fail and continues with the nearest index in range.
//!
//! **Aliasing.** A result may alias an operand, element by element, if the launch allows it
//! ([`Launch::may_alias`](gradloom_core::kernel::Launch::may_alias)). Each such element must be read before
//! it is written, and only by the invocation that writes it. No other buffers overlap, and within a kernel,
//! no element of a result that one invocation writes is accessed by another.
//!
//! # Expressions
//!
//! Expressions are stored in an arena, [`Kernel::exprs`], and refer to their operands by number; operands
//! come first. Each has one type: a scalar of a dtype, a vector of two or four f32, a packed group of 16-bit
//! floats, or a matrix distributed over a subgroup. 16-bit floats exist in memory only: loads convert them to
//! f32, and stores round. Likewise, `u8` is computed as `i32`.
//!
//! **Time of evaluation.** A dialect may print a pure expression wherever it is used, any number of times. An
//! impure expression ([`Expr::is_impure`]) reads a buffer, an array or a variable, or is evaluated by several
//! invocations together. Exactly one [`Stmt::Let`] evaluates it, and its value is valid to the end of the
//! block. The builder adds a `Let` for each expression except leaves; [`Builder::finish`] removes those of
//! unused expressions and of pure expressions with a single use.
//!
//! # Statements
//!
//! A [`Block`] runs its statements in order. [`Stmt::If`] has no else branch. [`Stmt::For`], the only loop,
//! has a u32 counter with a start, an end and a step. Kernels do not jump or return. A name or variable is in
//! scope from its statement to the end of its block. [`Stmt::Report`] makes the step fail, but does not stop
//! the invocation.
//!
//! # Uniformity
//!
//! A value is uniform if it is the same for all invocations of a workgroup. Literals, the group's number,
//! elements of tables at uniform indices and broadcasts are uniform, as are expressions of those.
//! [`Expr::Local`] and elements of other buffers and of arrays are not. A variable or counter is uniform if
//! only uniform values are assigned to it, under uniform conditions. Control flow is uniform if all enclosing
//! conditions are. Barriers, shuffles, broadcasts and matrix operations require uniform control flow, so that
//! either all invocations reach them or none.
//!
//! **Barriers.** Between two barriers, an element of a workgroup's array that one invocation writes must not
//! be accessed by another. A barrier does not order accesses to buffers.
//!
//! # Asynchrony
//!
//! On devices with [`Limits::warpgroups`](crate::limits::Limits::warpgroups), two statements start work that
//! proceeds while the invocation continues. [`Stmt::StartCopy`] copies 16 bytes of an operand to a
//! workgroup's array. [`Stmt::AwaitCopies`] waits only for an invocation's own copies, so a barrier must
//! follow before other invocations read the items. [`Stmt::StartProduct`] multiplies 64 rows per warpgroup
//! by a [`SharedMatrix`]. Until [`Stmt::AwaitProducts`], its sums have no value, and its shared operands must
//! not be written, not even after a barrier.
//!
//! # The commit
//!
//! Kernels of the commit write only if [`Expr::Committed`] is true. It is the verdict that the
//! [guards](kernels::guards) have stored in the step's [`Status`](crate::step::Status).

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

pub use builder::{Builder, Factor, Value, Variable};
pub(crate) use index::index_at_row;
pub use index::{index_at, index_of};
pub use ir::{
    Array, AsyncCopy, Block, Buffer, Expr, ExprId, Fault, FragmentPlace, Kernel, MatrixUse, ProductLeft,
    Role, SharedMatrix, Space, Stmt, ValueType, WarpgroupProduct,
};
pub(crate) use spelling::helpers;
pub use turns::turns;
pub use verify::verify;
