//! The intermediate representation: a typed SSA graph of tensor primitives.
//!
//! Tracing, gradients, optimizers, passes and the parser of the text form build a [`Graph`], which every
//! stage can read. [`crate::verify`] checks its invariants between stages.

mod attributes;
mod blocks;
mod build;
mod collective;
mod contraction;
mod convolution;
mod custom;
mod elementwise;
mod fraction;
mod graph;
pub mod half;
mod ids;
mod infer;
mod named;
mod number;
mod op;
mod origin;
mod parse;
mod print;
mod settled;
mod types;

pub use blocks::{BLOCK, BlockFormat, UnknownFormat};
pub use build::Builder;
pub use collective::CollectiveOp;
pub(crate) use contraction::product;
pub use contraction::{AttentionSpec, DotAxes};
pub use convolution::{ConvSpec, Window};
pub use custom::{CustomOp, GpuLowering, Slice, SliceMut};
pub use elementwise::{BinaryOp, CompareOp, CompositeOp, CostClass, ReduceOp, UnaryOp};
pub use fraction::BinaryFraction;
pub use graph::{Block, Definition, Graph, Guard, Op, Output, TypeError, Update, Value};
pub use ids::{Arena, BlockId, Id, OpId, OriginId, ValueId};
pub(crate) use infer::cast_help;
pub use infer::infer;
pub(crate) use named::named;
pub(crate) use number::words_of;
pub use number::{Literal, Number};
pub use op::{ArgReduceOp, OpKind, ScatterOp};
pub use origin::{Origin, Origins};
pub use parse::{ParseError, parse, parse_with};
pub use types::{DType, Shape, Type, inverse_permutation};
