//! Training: from a model and a loss to a step that runs.
//!
//! In: a model, inputs, a loss closure, an optimizer. Out: a [`Train`] whose step runs forward, backward and
//! optimizer as one program, and [`Infer`]s over the same parameters.

mod failures;
mod infer;
mod session;
mod step;
mod trainer;
mod training;

pub use gradloom_codegen::pipeline::{Stages, differentiate};
pub use infer::Infer;
pub use session::Session;
pub use step::Step;
pub use trainer::Trainer;
pub use training::Train;
