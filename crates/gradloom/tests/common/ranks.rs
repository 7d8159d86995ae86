//! A model that ranks train, each a thread with a device of its own, connected over TCP.
#![allow(dead_code, unreachable_pub)] // Each test uses only a part.

use gradloom::communicator::Communicator as _;
use gradloom::prelude::*;
use gradloom::{Error, ErrorKind, Membership, Train, World};
use std::net::TcpListener;
use std::thread;

/// Runs `f` on each rank of a world, and returns the results by rank.
pub fn ranks<T: Send>(size: usize, f: impl Fn(World) -> T + Sync) -> Vec<T> {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    thread::scope(|scope| {
        let f = &f;
        let threads: Vec<_> = (0..size)
            .map(|rank| {
                let membership = Membership::direct(rank, size, "127.0.0.1", port);
                scope.spawn(move || f(World::join(membership).unwrap()))
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

pub const ROWS: usize = 8;
const STEPS: usize = 5;

/// Kind of training.
#[derive(Clone, Copy)]
pub enum Kind {
    /// Each rank has all states of the optimizer.
    Whole,
    /// Each rank has a shard of the first weight's states; the other parameters are too small.
    Sharded,
}

pub fn compiled(device: &Device, rows: usize, kind: Kind) -> Train<[Linear; 2], 2> {
    let hidden = match kind {
        Kind::Whole => 16,
        Kind::Sharded => 4096,
    };
    let trainer = Trainer::new([Linear::new(5, hidden), Linear::new(hidden, 3)]);
    let trainer = match kind {
        Kind::Whole => trainer,
        Kind::Sharded => trainer.shard_states(),
    };
    trainer
        .seed(7)
        .inputs([f32("x", [rows, 5]), i32("y", [rows])])
        .loss(|[first, last], [x, y]| last.forward(first.forward(x).relu()).cross_entropy(y))
        .optimizer(AdamW::new(0.01))
        .clip_norm(0.5)
        .show_gradients("*")
        .compile(device)
        .unwrap()
}

/// Returns the data of a step for `rows` rows from `first`.
pub fn data(step: usize, first: usize, rows: usize) -> (Vec<f32>, Vec<i32>) {
    let row = |row: usize| {
        (0..5).map(move |column| ((step * 97 + row * 31 + column * 17) % 23) as f32 / 11.0 - 1.0)
    };
    (
        (first..first + rows).flat_map(row).collect(),
        (first..first + rows).map(|row| (row % 3) as i32).collect(),
    )
}

/// Parameters of the model.
pub const NAMES: [&str; 4] = ["0.weight", "0.bias", "1.weight", "1.bias"];

/// Returns the loss of each step, the gradients of the first, and the parameters after the last.
pub fn run(device: &Device, first: usize, rows: usize, kind: Kind) -> [Vec<Vec<f32>>; 3] {
    let mut train = compiled(device, rows, kind);
    let (mut losses, mut gradients) = (Vec::new(), Vec::new());
    for step in 0..STEPS {
        let (x, y) = data(step, first, rows);
        let done = train.step((&x, &y)).unwrap();
        losses.push(vec![done.loss().unwrap()]);
        if step == 0 {
            gradients = NAMES.map(|name| done.get(&format!("gradient.{name}")).unwrap().to_vec()).to_vec();
        }
    }
    [losses, gradients, NAMES.map(|name| train.store().read_f32(name).unwrap()).to_vec()]
}

pub fn assert_close(a: &[Vec<f32>], b: &[Vec<f32>], bound: f32) {
    for (a, b) in a.iter().flatten().zip(b.iter().flatten()) {
        assert!((a - b).abs() <= bound * a.abs().max(1.0), "{a} {b}");
    }
}

/// Device of a rank.
pub type Open = fn(&World) -> Device;

/// Checks that ranks compute the losses, gradients and parameters of one rank with the whole batch.
pub fn check_equality(size: usize, alone: &Device, open: Open, kind: Kind) {
    let alone = run(alone, 0, ROWS, kind);
    let of_ranks = ranks(size, |world| {
        let device = open(&world).in_world(&world).unwrap();
        let rows = ROWS / size;
        run(&device, device.rank() * rows, rows, kind)
    });
    assert!(of_ranks.iter().all(|one| *one == of_ranks[0]), "all ranks have the same bits");
    let [losses, gradients, parameters] = &of_ranks[0];
    assert_close(losses, &alone[0], 1e-6);
    assert_close(gradients, &alone[1], 1e-6);
    // AdamW divides a gradient by its size, so rounding of a small gradient changes a step by up to its
    // length.
    assert_close(parameters, &alone[2], 1e-5);
}

/// Returns the error on each rank of a step in which `fail` fails rank 1. No rank may change its parameters.
pub fn failures(
    size: usize,
    open: Open,
    kind: Kind,
    fail: impl Fn(&World, &mut Train<[Linear; 2], 2>) -> Option<Error> + Sync,
) -> Vec<Error> {
    ranks(size, |world| {
        let device = open(&world).in_world(&world).unwrap();
        let mut train = compiled(&device, 4, kind);
        let (x, y) = data(0, 0, 4);
        train.step((&x, &y)).unwrap().loss().unwrap();
        // Let no rank fail before all have completed this step. A rank may see the failure while it waits.
        let _ = world.all_reduce(&mut []);
        let before = NAMES.map(|name| train.store().read_f32(name).unwrap());
        let own = if world.rank() == 1 { fail(&world, &mut train) } else { None };
        let error = own.unwrap_or_else(|| train.step((&x, &y)).and_then(|step| step.loss()).unwrap_err());
        for (name, before) in NAMES.iter().zip(before) {
            match train.store().read_f32(name) {
                Ok(after) => assert!(after == before, "{name} has changed"),
                // A GPU that waited for a failed rank is lost.
                Err(lost) => assert!(device.is_gpu() && lost.kind() == ErrorKind::World, "{lost}"),
            }
        }
        error
    })
}

/// Runs a step whose data traps, and returns its error.
pub fn trap(train: &mut Train<[Linear; 2], 2>) -> Option<Error> {
    let (x, _) = data(0, 0, 4);
    train.step((&x, &[0, 1, 99, 2])).and_then(|step| step.loss()).err()
}

/// Checks that a loss that is not finite on one rank changes the parameters of none.
pub fn check_divergence(open: Open) {
    for kind in [Kind::Whole, Kind::Sharded] {
        let errors = failures(2, open, kind, |_, train| {
            let (mut x, y) = data(0, 0, 4);
            x[0] = f32::NAN;
            train.step((&x, &y)).and_then(|step| step.loss()).err()
        });
        for error in errors {
            assert!(matches!(error.kind(), ErrorKind::NotFinite { .. }), "{error}");
        }
    }
}
