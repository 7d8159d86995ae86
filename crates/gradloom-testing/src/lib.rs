//! Test support for the workspace and for `cargo xtask`: random graphs, training steps and values, enumerated
//! small programs, damaged files, comparisons with the float64 evaluator, and measurements of memory.
//!
//! In: seeds. Out: graphs that verify, and values for their leaves. Invariant: a seed results in the same
//! graph on every machine.

pub mod adapter;
pub mod chains;
pub mod compare;
pub mod data;
pub mod deep;
pub mod float32;
pub mod fused;
pub mod generate;
pub mod leaves;
pub mod memory;
pub mod mutate;
pub mod nvrtc;
pub mod random;
pub mod skip;
pub mod table;
pub mod training;
pub mod values;
pub mod worlds;

pub use deep::deep;
pub use fused::evaluate_fused;
pub use generate::generate;
pub use leaves::Leaves;
pub use random::Random;
pub use training::{TrainingStep, training_step};
pub use values::values;
