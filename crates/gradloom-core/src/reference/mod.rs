//! The semantics of the IR in float64: a slow and simple evaluator against which all backends are tested.
//!
//! Given a graph and the values of its leaves, the evaluator computes the outputs, the guards and the next
//! values of updated parameters and states. Floats are not rounded to float32. Integers wrap to their dtype
//! as on a device. Sums are in row-major order of the operand. An index out of range and an integer division
//! by zero are always errors, except that [`crate::ir::ScatterOp::Distinct`] drops updates whose index is out
//! of range.

mod attention;
mod collective;
mod convolution;
mod elementwise;
mod error;
mod evaluate;
mod example;
mod index;
mod indices;
mod matmul;
mod movement;
mod op;
mod reduce;
mod rows;
mod tensor;
mod update;

#[doc(hidden)]
pub use evaluate::finish;
pub use evaluate::{EntryValues, Evaluation, Leaves, evaluate, evaluate_values};
pub use example::eval;
#[doc(hidden)]
pub use op::apply;
pub(crate) use op::{apply_simple, is_simple};
pub use tensor::{HostData, HostTensor};
