#![doc = include_str!("../../../README.md")]
//!
//! # This crate
//!
//! The facade of gradloom, which exports everything that programs need to train or run models. The compiler's
//! stages are in [`ir`], [`trace`], [`grad`], [`optim`], [`passes`], [`fuse`] and [`plan`]; `ARCHITECTURE.md`
//! gives an overview.

pub mod custom;
mod devices;
#[cfg(doctest)]
mod guide;
#[doc(hidden)]
pub mod testing;

#[doc(inline)]
pub use gradloom_core::{error, fuse, grad, ir, kernel, nn, optim, passes, plan, reference, trace, verify};
#[doc(inline)]
pub use gradloom_runtime as runtime;
#[doc(inline)]
pub use gradloom_runtime::communicator;
#[doc(inline)]
pub use gradloom_runtime::{batches, files};

pub use devices::{AutoDevice, CudaDevice, WgpuDevice};
pub use gradloom_core::error::{Error, ErrorKind, Result};
pub use gradloom_core::ir::DType;
pub use gradloom_core::nn::{Init, Module, Param, State, duplicate};
pub use gradloom_core::optim::{
    Adafactor, Adagrad, Adam, AdamW, DecayRule, Groups, Lion, Muon, Optimizer, Plateau, RmsProp, Schedule,
    Sgd,
};
pub use gradloom_core::trace::{
    AttentionOptions, ConvOptions, CrossEntropyOptions, CtcOptions, Input, Operand, PoolOptions, Tensor,
    bernoulli, bf16, checkpoint, concat, einsum, eye, f16, f32, full, gradients, i32, i64, iota, linspace,
    literal, meshgrid, permutation, randn, scan, stack, u8, u32, uniform,
};
#[doc(inline)]
pub use gradloom_cpu as cpu;
pub use gradloom_cpu::CpuDevice;
#[cfg(feature = "cuda")]
pub use gradloom_cuda::{CudaOptions, CudaReport, GpuLink, cuda_devices};
pub use gradloom_runtime::{
    CancelToken, Data, DebugRun, Device, DeviceTensor, Element, Feed, Figures, GradientCheck, Infer,
    Inspection, LaunchProfile, Load, Outputs, Precision, Profile, ProfileOptions, Retention, Session, Step,
    Store, Summary, Train, Trainer, Typed, Verification, Weights, typed,
};
#[cfg(feature = "wgpu")]
pub use gradloom_wgpu::{AdapterReport, Tuning, WgpuOptions, adapters};
pub use gradloom_world::{Membership, Rendezvous, World, WorldOptions};

/// Everything that the examples import, with `use gradloom::prelude::*;`.
pub mod prelude {
    pub use crate::batches::{Batches, gather};
    pub use crate::nn::layers::*;
    pub use crate::nn::{CausalSelfAttention, Init, KeyValueCache, Module, Param, State};
    pub use crate::{
        Adafactor, Adagrad, Adam, AdamW, AttentionOptions, ConvOptions, CrossEntropyOptions, CtcOptions,
        DType, Device, Error, Groups, Lion, Load, Muon, Plateau, PoolOptions, Precision, Result, RmsProp,
        Schedule, Session, Sgd, Tensor, Train, Trainer, Weights, bernoulli, bf16, checkpoint, concat,
        duplicate, einsum, eye, f16, f32, full, gradients, i32, i64, iota, linspace, literal, meshgrid,
        permutation, randn, scan, stack, typed, u8, u32, uniform,
    };
    pub use crate::{AutoDevice as _, CpuDevice as _, CudaDevice as _, WgpuDevice as _};
}
