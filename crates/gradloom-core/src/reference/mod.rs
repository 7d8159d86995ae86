//! The meaning of the IR in float64: slow, obvious, and the measure of every backend.
//!
//! In: a graph and the values of its leaves. Out: outputs, the next values of updated parameters and states,
//! and guards. Always holds: floats are float64 and never rounded to float32; integers wrap to 32 bits as on
//! a device; sums run in row-major order of the operand; an index out of range and an integer division by
//! zero are errors, never a value.

mod attention;
mod convolution;
mod elementwise;
mod error;
mod evaluate;
mod example;
mod fused;
mod index;
mod indices;
mod matmul;
mod movement;
mod op;
mod reduce;
mod rows;
mod tensor;
mod update;

pub use evaluate::{EntryValues, Evaluation, Leaves, evaluate, evaluate_values};
pub use example::eval;
pub use fused::evaluate_fused;
pub(crate) use op::{apply_simple, is_simple};
pub use tensor::{HostData, HostTensor};
