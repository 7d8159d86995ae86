//! Tracing: a model's Rust code runs once, and every tensor operation becomes an op of a graph.
//!
//! In: a closure over [`Tensor`] handles. Out: a [`Traced`] graph, or the first error with its location in
//! the user's source. Invariant: an open trace belongs to one thread. A wrong shape does not panic: the first
//! error is recorded, and tracing continues with a placeholder of a likely type.

mod acting;
mod activation;
mod alike;
mod attention;
mod block;
mod bounds;
mod causal;
mod conv;
mod ctc;
mod custom;
mod einsum;
mod extents;
mod heads;
mod index;
mod input;
mod join;
mod loss;
mod losses;
mod math;
mod matmul;
mod open_block;
mod operand;
mod order;
mod pool;
mod random;
mod rearrange;
mod recurrent;
mod reduce;
mod rope;
mod scope;
mod shape;
mod state;
mod statistics;
mod table;
mod tensor;

pub(crate) use acting::{acting, within};
pub use attention::AttentionOptions;
pub use block::{OpenCheckpoint, OpenScan, TensorGroup, checkpoint, scan};
pub(crate) use bounds::{Range, is_in_range};
pub use conv::{ConvOptions, PerAxis};
pub use ctc::CtcOptions;
pub use einsum::einsum;
pub use extents::{Extent, Extents, Span};
pub(crate) use gradloom_derive::op;
pub use input::{Input, bf16, f16, f32, i32, i64, u8, u32};
pub use join::{concat, stack};
pub use loss::gradients;
pub use losses::CrossEntropyOptions;
pub use operand::Operand;
pub use pool::PoolOptions;
pub use random::{bernoulli, permutation, randn, uniform};
pub use rearrange::{eye, linspace, meshgrid};
pub(crate) use recurrent::Gates;
pub use reduce::Axes;
pub(crate) use scope::with_scope;
pub use scope::{Recording, Traced, is_training, trace};
pub use table::{ParamTable, ParamUse, StateUse};
pub use tensor::{Tensor, full, iota, literal};
pub(crate) use tensor::{has_floats, refused};
