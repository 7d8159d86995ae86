//! Trains models: compiles a model and a loss to a step, and runs it.
//!
//! In: a model, inputs, a loss closure, an optimizer. Out: a [`Train`], whose steps run forward pass,
//! backward pass and optimizer as one program, and [`Infer`]s that use the same parameters.

mod any_batch;
mod base;
mod check_gradients;
mod failures;
mod infer;
mod merged;
mod ranks;
mod rates;
mod session;
mod step;
mod step_program;
mod summary;
mod trainer;
mod training;
mod verify;

#[cfg(feature = "files")]
pub(crate) use base::{Base, ModelEntry};
pub use check_gradients::{GradientCheck, Mistake};
pub use gradloom_codegen::pipeline::{Stages, differentiate};
pub use infer::Infer;
#[cfg(feature = "files")]
pub(crate) use rates::Rates;
pub use session::Session;
pub use step::Step;
pub use summary::{Summary, SummaryRow, thousands};
pub use trainer::Trainer;
pub use training::Train;
pub use verify::{Deviation, Verification};
