//! Runs gradloom's plans: store, program, training session, and one folder for each backend.
//!
//! In: graphs from `gradloom-core`, launches from `gradloom-codegen`. Out: steps. Always holds: a step that
//! fails before its commit leaves parameters and states as they were.

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests read what they write"))]

mod backend;
pub mod batches;
mod cancel;
pub mod cpu;
#[cfg(feature = "cuda")]
mod cuda;
mod device;
mod device_tensor;
mod elements;
mod faults;
mod feed;
#[cfg(feature = "files")]
pub mod files;
#[cfg(any(feature = "wgpu", feature = "web", feature = "cuda"))]
mod gpu;
#[cfg(all(test, unix, not(miri)))]
mod guarded;
mod host_op;
mod inspect;
mod memory;
mod null;
mod outputs;
mod profile;
mod program;
#[cfg(feature = "files")]
#[doc(hidden)]
pub mod python_json;
#[doc(hidden)]
pub mod regular_file;
mod store;
#[doc(hidden)]
pub mod testing;
mod train;
#[doc(hidden)]
pub mod user_cache;
#[cfg(feature = "web")]
mod web;
#[cfg(feature = "wgpu")]
mod wgpu;

pub use backend::Work;
pub use cancel::CancelToken;
#[cfg(feature = "cuda")]
pub use cuda::{CudaOptions, CudaReport, cuda_devices};
pub use device::Device;
pub use device_tensor::DeviceTensor;
pub use faults::{Fault, Faults};
pub use feed::{Data, Feed};
#[cfg(feature = "files")]
pub use files::{Load, Weights};
pub use gradloom_codegen::cuda::{Cut, Replay, Shape};
pub use gradloom_codegen::pipeline;
pub use gradloom_codegen::pipeline::{Limits, Precision};
pub use inspect::Inspection;
pub use outputs::{Element, Outputs, Typed, Value, typed};
pub use profile::LaunchSpan;
pub use profile::{Figures, LaunchProfile, Profile, ProfileOptions, TracedStep};
pub use program::{DebugRun, Outcome, Program, Retention, run_once};
pub use store::Store;
#[cfg(feature = "web")]
pub use store::StorePlace;
#[doc(hidden)]
pub use train::thousands;
pub use train::{Deviation, GradientCheck, Mistake, Verification};
pub use train::{Infer, Row, Session, Stages, Step, Summary, Train, Trainer, differentiate};
#[cfg(feature = "web")]
pub use web::{WebCopy, WebHost, WebKernel, WebRange};
#[cfg(feature = "wgpu")]
pub use wgpu::{AdapterReport, Tuning, WgpuOptions, adapters};
