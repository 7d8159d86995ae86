//! Trains on several ranks, each a thread with a CPU of its own, connected over TCP.

#[path = "common/ranks.rs"]
mod common;

use common::{Kind, ROWS, check_divergence, check_equality, compiled, data, failures, ranks, trap};
use gradloom::communicator::Planned;
use gradloom::prelude::*;
use gradloom::runtime::files::{Entries, Weights};
use gradloom::{ErrorKind, World};
use gradloom_codegen::pipeline::{Limits, Target};
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;

fn cpu(world: &World) -> Device {
    Device::cpu_with_threads(1 + world.rank() % 2).unwrap()
}

#[test]
fn ranks_compute_what_one_computes_from_the_whole_batch() {
    for (size, kind) in [(2, Kind::Whole), (4, Kind::Whole), (2, Kind::Sharded), (4, Kind::Sharded)] {
        check_equality(size, &Device::cpu_with_threads(2).unwrap(), cpu, kind);
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
    for kind in [Kind::Whole, Kind::Sharded] {
        let errors = failures(4, cpu, kind, |_, train| trap(train));
        assert_eq!(errors[1].kind(), ErrorKind::Trap);
        for error in [&errors[0], &errors[2]] {
            assert_eq!(error.kind(), ErrorKind::World);
            assert!(error.message().contains("rank 1") && error.message().contains("99"), "{error}");
        }
    }
}

#[test]
fn a_loss_that_is_not_finite_changes_nothing_on_any_rank() {
    check_divergence(cpu);
}

#[test]
fn a_rank_that_leaves_is_named() {
    let errors = failures(3, cpu, Kind::Whole, |world, _| {
        world.leave();
        None
    });
    for error in [&errors[0], &errors[2]] {
        assert_eq!(error.kind(), ErrorKind::World);
        assert!(error.message().contains("rank 1"), "{error}");
    }
}

#[test]
fn each_rank_gets_its_slice_of_a_sum_and_the_operands_of_all() {
    const TEXT: &str = "graph {
  %0: f32[6, 2] = input \"x\"
  %1: f32[2, 6] = permute %0 {perm=[1, 0]}
  %2: f32[6, 2] = reshape %1
  %3: f32[2, 2], %4: f32[2, 2] = reduce_scatter %0, %2 {ranks=3}
  %5: f32[18, 2] = all_gather %2 {ranks=3}
  %6: f32[6, 2] = all_reduce %2 {ranks=3}
  output \"slice\" %3
  output \"permuted slice\" %4
  output \"all\" %5
  output \"sum\" %6
}
";
    let x = |rank: usize| (0..12).map(|i| (100 * rank + i) as f32).collect::<Vec<_>>();
    // Row-major elements of the transposed operand.
    let permuted =
        |rank: usize| [0, 1].map(|c| x(rank).into_iter().skip(c).step_by(2).collect::<Vec<_>>()).concat();
    let sum = |of: &dyn Fn(usize) -> Vec<f32>| {
        (0..12).map(|i| (0..3).map(|rank| of(rank)[i]).sum()).collect::<Vec<f32>>()
    };
    let results = ranks(3, |world| {
        let device = cpu(&world).in_world(&world).unwrap();
        let graph = gradloom::ir::parse(TEXT).unwrap();
        gradloom::runtime::run_once(graph, &device, &[x(world.rank())]).unwrap()
    });
    for (rank, result) in results.iter().enumerate() {
        let part = rank * 4..rank * 4 + 4;
        assert_eq!(result[0], sum(&x)[part.clone()]);
        assert_eq!(result[1], sum(&permuted)[part]);
        assert_eq!(result[2], (0..3).flat_map(permuted).collect::<Vec<_>>());
        assert_eq!(result[3], sum(&permuted));
    }
}

#[test]
fn a_graph_of_another_world_is_refused() {
    let text =
        "graph {\n  %0: f32[2] = input \"x\"\n  %1: f32[2] = all_reduce %0 {ranks=3}\n  output \"y\" %1\n}\n";
    let graph = gradloom::ir::parse(text).unwrap();
    let error = gradloom::runtime::run_once(graph, &Device::cpu(), &[vec![1.0; 2]]).unwrap_err();
    assert_eq!(error.message(), "`all_reduce` is over 3 ranks, and the device's world has 1");
}

/// The indices of a captured tensor may trap, although no gradient depends on it.
#[test]
fn all_that_may_trap_comes_before_the_ranks_agree() {
    for target in [Target::cpu(1), Target::cuda(Limits::cuda(), Precision::F32)] {
        let device = Device::null_for(target).in_world(&Planned { ranks: 2 }).unwrap();
        Trainer::new([Embedding::new(10, 4), Embedding::new(10, 4)])
            .inputs([i32("ids", [6]), i32("other", [6])])
            .loss(|[used, captured], [ids, other]| {
                captured.forward(other).detach().capture("rows");
                (used.forward(ids) + captured.forward(ids)).square().mean()
            })
            .optimizer(AdamW::new(0.01))
            .compile(&device)
            .unwrap();
    }
}

#[test]
fn rounded_sums_have_the_type_of_what_they_sum() {
    let target = Target::cuda(Limits::cuda_of((9, 0)).with_library(), Precision::Bf16);
    let device = Device::null_for(target).in_world(&Planned { ranks: 2 }).unwrap();
    let train = Trainer::new([Linear::new(64, 128), Linear::new(128, 8)])
        .inputs([f32("x", [32, 64]), i32("y", [32])])
        .loss(|[first, last], [x, y]| last.forward(first.forward(x).gelu()).cross_entropy(y))
        .optimizer(AdamW::new(0.01))
        .clip_norm(1.0)
        .round_sums()
        .compile(&device)
        .unwrap();
    let launches = &train.plan().launches;
    let sum = launches.iter().find(|launch| launch.kernel.name() == "checked_all_reduce").unwrap();
    let types = |accesses: &[gradloom::kernel::Access]| accesses.iter().map(|a| a.dtype).collect::<Vec<_>>();
    assert_eq!(types(&sum.reads), types(&sum.writes));
    let count = |dtype| sum.reads.iter().filter(|read| read.dtype == dtype).count();
    // The loss and the sums of columns, which are the gradients of biases, stay in f32.
    assert_eq!((count(DType::BF16), count(DType::F32)), (2, 3));
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
                let buffer = |value| &train.plan().buffers[train.plan().buffer_of[&value]];
                let ends = |buffer: &gradloom::plan::Buffer| {
                    (buffer.offset, buffer.offset + buffer.bytes.next_multiple_of(gradloom::plan::ALIGNMENT))
                };
                let mut results: Vec<_> =
                    launch.writes.iter().map(|write| ends(buffer(write.buffer))).collect();
                results.sort_unstable();
                assert!(
                    results.windows(2).all(|pair| pair[0].1 == pair[1].0),
                    "next to each other: {results:?}"
                );
            }
        }
    }
}

#[test]
fn each_rank_keeps_its_shard_of_the_states() {
    for target in [Target::cpu(1), Target::cuda(Limits::cuda(), Precision::Bf16)] {
        for (ranks, shards) in [(2, 2), (8, 8), (1024, 1024), (3, 1)] {
            let device = Device::null_for(target.clone()).in_world(&Planned { ranks }).unwrap();
            let train = Trainer::new([Linear::new(512, 2048), Linear::new(2048, 8)])
                .inputs([f32("x", [4, 512])])
                .loss(|[first, last], [x]| last.forward(first.forward(x).tanh()).square().mean())
                .optimizer(AdamW::new(0.01))
                .average(0.9)
                .clip_norm(1.0)
                .shard_states()
                .compile(&device)
                .unwrap();
            let entries = train.store().entries();
            let elements = |name: &str| {
                let entry = entries.iter().find(|entry| entry.name == name).unwrap();
                assert_eq!(
                    entry.whole.is_empty(),
                    entry.ty.shape.rank() == 2 || name.ends_with("bias"),
                    "{name}"
                );
                entry.ty.shape.elements()
            };
            for moment in ["m", "v"] {
                assert_eq!(elements(&format!("optim.{moment}.0.weight")), 512 * 2048 / shards);
                assert_eq!(elements(&format!("optim.{moment}.1.weight")), 2048 * 8 / shards);
                // Of 8 KiB, too small for shards.
                assert_eq!(elements(&format!("optim.{moment}.0.bias")), 2048);
            }
            assert_eq!(elements("optim.average.0.weight"), 512 * 2048, "running means are whole");
            let count = |name: &str| train.plan().launches.iter().filter(|l| l.kernel.name() == name).count();
            let expected = if shards == 1 { [0, 0] } else { [1, 1] };
            assert_eq!(["reduce_scatter", "all_gather"].map(count), expected);
            let plan = train.plan();
            let collective = plan.launches.iter().filter(|launch| launch.kernel.is_collective());
            let mut writes = collective.flat_map(|launch| &launch.writes);
            let is_stored =
                |value| plan.buffers[plan.buffer_of[&value]].region == gradloom::plan::Region::Store;
            assert!(
                !writes.any(|write| is_stored(write.buffer)),
                "a library cannot keep back what it writes"
            );
        }
    }
}

/// Steps of a model with sharded states on `size` ranks, from the checkpoint `from` to the checkpoint `to`.
/// Returns the loss of the last step.
fn trained(size: usize, from: Option<&Path>, to: &Path, steps: Range<usize>) -> f32 {
    let losses = ranks(size, |world| {
        let device = cpu(&world).in_world(&world).unwrap();
        let rows = ROWS / size;
        let mut train = compiled(&device, rows, Kind::Sharded);
        if let Some(path) = from {
            assert_eq!(train.load_checkpoint(path).unwrap().attempted_steps, steps.start as u64);
        }
        let mut loss = f32::NAN;
        for step in steps.clone() {
            let (x, y) = data(step, world.rank() * rows, rows);
            loss = train.step((&x, &y)).unwrap().loss().unwrap();
        }
        if size > 1 || world.is_first() {
            train.save_checkpoint(to, &[("note".to_string(), "ours".to_string())].into()).unwrap();
        }
        loss
    });
    losses[0]
}

#[test]
fn a_checkpoint_of_shards_is_restored_by_any_number_of_ranks() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    trained(4, None, &path("four"), 0..3);
    let same = trained(4, Some(&path("four")), &path("again"), 3..5);
    assert_eq!(same, trained(4, None, &path("through"), 0..5), "the same number of ranks has the same bits");
    for size in [1, 2, 8] {
        let name = format!("of {size}");
        let loss = trained(size, Some(&path("four")), &path(&name), 3..5);
        assert!((loss - same).abs() < 1e-5 * same.max(1.0), "{size} ranks: {loss}, not {same}");
        // Everything is in the files, as a whole.
        let (found, expected) = (Weights::open(path(&name)).unwrap(), Weights::open(path("again")).unwrap());
        let shapes = |file: &Weights| file.iter().map(|(name, t)| format!("{name} {t}")).collect::<Vec<_>>();
        assert_eq!(shapes(&found), shapes(&expected));
        assert_eq!(found.entries()["note"], "ours");
    }
    // The files of the shards of an earlier checkpoint are removed, and no others.
    let files = || std::fs::read_dir(folder.path()).unwrap().count();
    let before = files();
    trained(4, Some(&path("four")), &path("four"), 3..4);
    assert_eq!(files(), before);
}

#[test]
fn a_checkpoint_without_its_shards_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("checkpoint");
    trained(2, None, &path, 0..1);
    let shard = |rank: usize| {
        let end = format!(".{rank}-of-2");
        let files = std::fs::read_dir(folder.path()).unwrap().map(|file| file.unwrap().path());
        files.filter(|file| file.to_string_lossy().ends_with(&end)).collect::<Vec<_>>().remove(0)
    };
    let shards = [0, 1].map(shard);
    let bytes = std::fs::read(&shards[1]).unwrap();
    let refusal = || Weights::open(&path).unwrap_err();
    std::fs::copy(&shards[0], &shards[1]).unwrap();
    assert!(refusal().message().contains("does not have shard 1 of"), "{}", refusal());
    std::fs::write(&shards[1], &bytes[..bytes.len() - 8]).unwrap();
    assert!(refusal().message().contains("truncated"), "{}", refusal());
    std::fs::remove_file(&shards[1]).unwrap();
    assert!(refusal().message().contains("1-of-2: cannot be read"), "{}", refusal());
    assert!(refusal().to_string().contains("a checkpoint of 2 ranks"), "{}", refusal());
    std::fs::write(&shards[1], bytes).unwrap();
    Weights::open(&path).unwrap();
}

/// A rank that cannot write ends the world, and the checkpoint stays as it was.
#[test]
fn a_rank_that_cannot_write_its_shards_ends_all() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("checkpoint");
    trained(2, None, &path, 0..1);
    let before = std::fs::read(&path).unwrap();
    let errors = ranks(2, |world| {
        let device = cpu(&world).in_world(&world).unwrap();
        let mut train = compiled(&device, 4, Kind::Sharded);
        train.load_checkpoint(&path).unwrap();
        let (x, y) = data(1, world.rank() * 4, 4);
        train.step((&x, &y)).unwrap().loss().unwrap();
        let to = if world.rank() == 1 { folder.path().join("no folder/checkpoint") } else { path.clone() };
        train.save_checkpoint(to, &Entries::new()).unwrap_err()
    });
    assert_eq!(errors[1].kind(), ErrorKind::File);
    assert!(
        errors[0].message().contains("rank 1") && errors[0].message().contains("no folder"),
        "{}",
        errors[0]
    );
    assert_eq!(std::fs::read(&path).unwrap(), before);
    Weights::open(&path).unwrap();
}

/// The rank whose data is at fault finds the op without the others.
#[test]
fn a_rank_finds_its_own_op_that_is_not_finite() {
    for kind in [Kind::Whole, Kind::Sharded] {
        let found = ranks(2, |world| {
            let mut train = compiled(&cpu(&world).in_world(&world).unwrap(), 4, kind);
            let (mut x, y) = data(0, world.rank() * 4, 4);
            x[0] = if world.rank() == 1 { 1e38 } else { x[0] };
            x[1] = if world.rank() == 1 { 1e38 } else { x[1] };
            let error = train.step((&x, &y)).and_then(|step| step.loss()).unwrap_err();
            assert!(matches!(error.kind(), ErrorKind::NotFinite { .. }), "{error}");
            assert!(train.verify((&x, &y)).unwrap_err().message().contains("of one process"));
            train.find_not_finite(&Device::cpu(), (&x, &y)).unwrap()
        });
        assert!(found[0].is_none(), "{:?}", found[0]);
        let message = found[1].as_ref().unwrap().message();
        assert!(message.contains("from finite numbers") && !message.contains("reduce"), "{message}");
    }
}

#[test]
fn ranks_that_begin_with_other_parameters_are_refused() {
    let errors = ranks(3, |world| {
        let mut train = compiled(&cpu(&world).in_world(&world).unwrap(), 4, Kind::Whole);
        let (x, y) = data(0, 0, 4);
        if world.rank() == 1 {
            let bias = train.store().read("0.bias").unwrap();
            let other: Vec<u8> = bias.iter().map(|byte| byte ^ 1).collect();
            let ty = train.store().entries().into_iter().find(|entry| entry.name == "0.bias").unwrap().ty;
            train.store().write(&[("0.bias", &ty, &other)]).unwrap();
        }
        train.step((&x, &y)).and_then(|step| step.loss()).unwrap_err()
    });
    for error in errors {
        assert_eq!(error.kind(), ErrorKind::World);
        assert!(
            error.message().contains("this rank begins with other parameters than rank 0 has"),
            "{error}"
        );
    }
}

/// Optimizers and settings on two ranks, with and without shards.
#[test]
fn shards_change_no_update() {
    type Optimized = fn(Trainer<[Linear; 2], 2>) -> Trainer<[Linear; 2], 2>;
    let kinds: [(&str, Optimized); 8] = [
        ("sgd", |trainer| trainer.optimizer(Sgd::new(0.01).momentum(0.9).weight_decay(0.1))),
        ("lion", |trainer| trainer.optimizer(Lion::new(0.001).weight_decay(0.1))),
        ("rmsprop", |trainer| trainer.optimizer(RmsProp::new(0.001))),
        ("adagrad", |trainer| trainer.optimizer(Adagrad::new(0.01))),
        ("groups", |trainer| {
            trainer.optimizer(Groups::new(Muon::new(0.01)).group("0.weight", AdamW::new(0.001)))
        }),
        ("muon", |trainer| trainer.optimizer(Muon::new(0.01))),
        ("averages", |trainer| trainer.optimizer(AdamW::new(0.001)).average(0.9).clip_value(0.01)),
        ("norms", |trainer| {
            trainer.optimizer(AdamW::new(0.001)).normalize_gradients("*.weight").accumulate(2)
        }),
    ];
    for (name, optimized) in kinds {
        let trained = |sharded: bool| {
            let results = ranks(2, |world| {
                let device = cpu(&world).in_world(&world).unwrap();
                let trainer = Trainer::new([Linear::new(5, 4096), Linear::new(4096, 3)])
                    .inputs([f32("x", [4, 5]), i32("y", [4])])
                    .loss(|[first, last], [x, y]| last.forward(first.forward(x).tanh()).cross_entropy(y));
                let trainer = optimized(trainer);
                let trainer = if sharded { trainer.shard_states() } else { trainer };
                let mut train = trainer.compile(&device).unwrap();
                let rows = 4 * (if name == "norms" { 2 } else { 1 });
                for step in 0..3 {
                    let (x, y) = data(step, world.rank() * rows, rows);
                    train.step((&x, &y)).unwrap().loss().unwrap();
                }
                let store = train.store();
                let entries = store.entries();
                let shards = entries.iter().filter(|entry| !entry.whole.is_empty()).count();
                let is_wanted = |name: &str| !name.starts_with("optim.") || name.starts_with("optim.average");
                let wanted = entries.into_iter().map(|entry| entry.name).filter(|name| is_wanted(name));
                let values = wanted.map(|name| (name.clone(), store.read_f32(&name).unwrap()));
                (shards, values.collect::<BTreeMap<_, _>>())
            });
            assert!(results[0].1 == results[1].1, "{name}: all ranks have the same parameters");
            results.into_iter().next().unwrap()
        };
        let ((none, whole), (shards, sharded)) = (trained(false), trained(true));
        assert_eq!((none, shards > 0), (0, name != "muon"), "{name}");
        assert_eq!(whole.len(), sharded.len());
        for ((entry, a), b) in whole.iter().zip(sharded.values()) {
            for (a, b) in a.iter().zip(b) {
                assert!((a - b).abs() < 1e-5 * a.abs().max(1.0), "{name}, {entry}: {a} {b}");
            }
        }
    }
}
