//! Trains and runs models: the store, programs, training sessions, files and profiles.
//!
//! In: graphs from `gradloom-core`, and a device, whose backend is in a separate crate. Out: steps.
//! Invariant: a step that fails before its commit leaves parameters and states unchanged.

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests read what they write"))]

pub mod batches;
#[cfg(feature = "files")]
pub mod files;
mod inspect;
mod profile;
mod program;
#[cfg(feature = "files")]
#[doc(hidden)]
pub mod python_json;
mod store;
#[doc(hidden)]
pub mod testing;
mod train;

#[cfg(feature = "files")]
pub use files::{Load, Weights};
pub use gradloom_codegen::cuda::{Cut, Replay, Shape};
pub use gradloom_codegen::pipeline;
pub use gradloom_codegen::pipeline::{Limits, Precision};
pub use gradloom_device::backend::Work;
pub use gradloom_device::cancel::CancelToken;
pub use gradloom_device::communicator;
pub use gradloom_device::feed::{Data, Feed};
pub use gradloom_device::host::Roofline;
pub use gradloom_device::outcome::Outcome;
pub use gradloom_device::outputs::{Element, Outputs, Typed, Value, typed};
pub use gradloom_device::spans::LaunchSpan;
pub use gradloom_device::{Device, DeviceTensor, Fault, Faults};
#[doc(hidden)]
pub use gradloom_device::{regular_file, user_cache};
pub use inspect::Inspection;
pub use profile::{Figures, LaunchProfile, Profile, ProfileOptions, TracedStep};
pub use program::{DebugRun, Program, Retention, run_once};
pub use store::Store;
#[doc(hidden)]
pub use train::thousands;
pub use train::{Deviation, GradientCheck, Mistake, Verification};
pub use train::{Infer, Session, Stages, Step, Summary, SummaryRow, Train, Trainer, differentiate};
