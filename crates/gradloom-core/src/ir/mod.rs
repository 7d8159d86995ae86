//! The intermediate representation: a typed SSA graph of tensor primitives.
//!
//! In: ops from tracing, gradients, optimizers, passes, or the text form. Out: a [`Graph`] that any stage can
//! read. Always holds: see [`Graph`]; [`crate::verify`] checks it between stages.

mod build;
mod custom;
mod elementwise;
mod graph;
mod ids;
mod infer;
mod op;
mod origin;
mod parse;
mod print;
mod settled;
mod types;

pub use build::Builder;
pub use custom::{CustomOp, Slice, SliceMut};
pub use elementwise::{BinaryOp, CostClass, UnaryOp};
pub use graph::{Block, Definition, Graph, Guard, Op, Output, TypeError, Update, Value};
pub use ids::{Arena, BlockId, Id, OpId, OriginId, ValueId};
pub(crate) use infer::cast_help;
pub use infer::infer;
pub use op::{ArgReduceOp, AttentionSpec, CompareOp, DotAxes, Literal, Number, OpKind, ReduceOp};
pub use origin::{Origin, Origins};
pub use parse::{ParseError, parse, parse_with};
pub use types::{DType, Shape, Type, inverse_permutation};
