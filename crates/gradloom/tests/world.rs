//! Trains on several ranks, each a thread with a CPU of its own, connected over TCP.

#[path = "common/ranks.rs"]
mod common;

use common::{check_equality, data, failures, ranks, trap};
use gradloom::communicator::Planned;
use gradloom::prelude::*;
use gradloom::{ErrorKind, World};
use gradloom_codegen::pipeline::{Limits, Target};

fn cpu(world: &World) -> Device {
    Device::cpu_with_threads(1 + world.rank() % 2).unwrap()
}

#[test]
fn ranks_compute_what_one_computes_from_the_whole_batch() {
    for size in [2, 4] {
        check_equality(size, &Device::cpu_with_threads(2).unwrap(), cpu);
    }
}

#[test]
fn ranks_keep_equal_states_and_draw_unequal_masks() {
    let results = ranks(3, |world| {
        let device = cpu(&world).in_world(&world).unwrap();
        let mut train = Trainer::new((Linear::new(5, 16), (BatchNorm::new(16), Linear::new(16, 3))))
            .inputs([f32("x", [4, 5]), i32("y", [4])])
            .loss(|(first, (norm, last)), [x, y]| {
                let hidden = norm.forward(first.forward(x)).dropout(0.5);
                hidden.gt(0.0).cast(DType::F32).capture("mask");
                last.forward(hidden).cross_entropy(y)
            })
            .optimizer(AdamW::new(0.01))
            .compile(&device)
            .unwrap();
        // All ranks have the same data, so only their masks differ.
        let (x, y) = data(0, 0, 4);
        let step = train.step((&x, &y)).unwrap();
        let mask = step.get("mask").unwrap().to_vec();
        let store = train.store();
        let names = store.entries().into_iter().map(|entry| entry.name);
        (mask, names.map(|name| store.read(&name).unwrap()).collect::<Vec<_>>())
    });
    assert!(
        results[0].0 != results[1].0 && results[1].0 != results[2].0 && results[0].0 != results[2].0,
        "each rank has masks of its own"
    );
    assert!(results.iter().all(|(_, entries)| *entries == results[0].1), "all have the same states");
}

#[test]
fn a_trap_on_one_rank_ends_all_and_changes_nothing() {
    let errors = failures(3, cpu, |_, train| trap(train));
    assert_eq!(errors[1].kind(), ErrorKind::Trap);
    for error in [&errors[0], &errors[2]] {
        assert_eq!(error.kind(), ErrorKind::World);
        assert!(error.message().contains("rank 1") && error.message().contains("99"), "{error}");
    }
}

#[test]
fn a_rank_that_leaves_is_named() {
    let errors = failures(3, cpu, |world, _| {
        world.leave();
        None
    });
    for error in [&errors[0], &errors[2]] {
        assert_eq!(error.kind(), ErrorKind::World);
        assert!(error.message().contains("rank 1"), "{error}");
    }
}

#[test]
fn devices_without_communication_are_refused() {
    let device = Device::null_for(Target::wgsl(Limits::portable(), Precision::F32));
    let error = device.in_world(&Planned { ranks: 2 }).unwrap_err();
    assert_eq!(error.message(), "`wgsl` cannot be part of a world of several ranks");
}

#[test]
fn a_step_of_any_number_of_ranks_is_planned_with_one_sum_of_each_gradient() {
    for target in [Target::cpu(1), Target::cuda(Limits::cuda(), Precision::Bf16)] {
        for ranks in [2, 8, 1024] {
            let device = Device::null_for(target.clone()).in_world(&Planned { ranks }).unwrap();
            let train = Trainer::new([Linear::new(4096, 4096), Linear::new(4096, 8), Linear::new(8, 2)])
                .inputs([f32("x", [4, 4096])])
                .loss(|layers, [x]| layers.iter().fold(x, |x, layer| layer.forward(x).tanh()).mean())
                .optimizer(AdamW::new(0.01))
                .compile(&device)
                .unwrap();
            let sums = |launch: &&gradloom::kernel::Launch| launch.kernel.name().ends_with("all_reduce");
            let sums: Vec<_> = train.plan().launches.iter().filter(sums).collect();
            // The gradient of the first weight fills a bucket. The small ones before it, in the order of the
            // backward pass, share the bucket; the last bucket has the loss and what comes later.
            let elements: Vec<usize> = sums
                .iter()
                .map(|launch| launch.reads.iter().map(|read| read.layout.shape.elements()).sum())
                .collect();
            let parameters = 4096 * 4096 + 4096 + 4096 * 8 + 8 + 8 * 2 + 2;
            assert_eq!(elements.iter().sum::<usize>(), parameters + 1, "{elements:?}");
            assert!(sums.len() <= 2 && sums.last().unwrap().kernel.name() == "checked_all_reduce");
            for launch in sums {
                assert!(launch.reads.iter().all(|read| read.dtype == DType::F32), "sums are in f32");
                let in_place = launch.reads.iter().zip(&launch.writes).filter(|(read, write)| {
                    let offset = |value| train.plan().buffers[train.plan().buffer_of[&value]].offset;
                    offset(read.buffer) == offset(write.buffer)
                });
                assert!(in_place.count() * 2 > launch.reads.len(), "gradients are summed in place");
            }
        }
    }
}
