//! Trains on two GPUs, each a rank in a thread of its own, connected by NCCL.

#[path = "../common/ranks.rs"]
mod common;

use super::skipped;
use common::{Kind, check_divergence, check_equality, failures, trap};
use gradloom::prelude::*;
use gradloom::{CudaOptions, ErrorKind, World, cuda_devices};

fn gpu(world: &World) -> Device {
    Device::cuda_with(&CudaOptions::default().index(world.rank())).unwrap()
}

/// Returns `true`, and says so, if there are not two GPUs.
fn has_one() -> bool {
    let count = cuda_devices().map_or(0, |gpus| gpus.len());
    if count < 2 {
        gradloom_testing::skip::skip("a world of two GPUs, and this machine has fewer", None);
    }
    count < 2
}

#[test]
fn two_gpus_compute_what_one_computes_from_the_whole_batch() {
    if !skipped() && !has_one() {
        for kind in [Kind::Whole, Kind::Sharded] {
            check_equality(2, &Device::cuda().unwrap(), gpu, kind);
        }
    }
}

#[test]
fn a_trap_on_one_gpu_ends_both_and_changes_nothing() {
    if skipped() || has_one() {
        return;
    }
    let errors = failures(2, gpu, Kind::Sharded, |_, train| trap(train));
    assert_eq!(errors[1].kind(), ErrorKind::Trap);
    let kind = errors[0].kind();
    assert!(matches!(kind, ErrorKind::World | ErrorKind::NotFinite { .. }), "{}", errors[0]);
}

#[test]
fn a_loss_that_is_not_finite_changes_nothing_on_any_gpu() {
    if !skipped() && !has_one() {
        check_divergence(gpu);
    }
}
