//! Tests a lost device, and a device that rejects kernels.

use super::{Model, compiled, data, device, parameters, skipped};
use gradloom::ir::Type;
use gradloom::{Error, ErrorKind, Retention, Store, Train, f32, i32};
use std::time::{Duration, Instant};

const STEPS: usize = 12;
const LOST_AFTER: usize = 5;

fn loss(train: &mut Train<Model, 2>, step: usize) -> u32 {
    let (ids, y) = data(step);
    train.step((&ids, &y)).unwrap().loss().unwrap().to_bits()
}

/// Writes all parameters and states.
fn restore(store: &Store, content: &[(String, Vec<u8>)]) -> Result<(), Error> {
    let types: Vec<Type> = store.entries().into_iter().map(|entry| entry.ty).collect();
    let all: Vec<(&str, &Type, &[u8])> =
        content.iter().zip(&types).map(|((name, bytes), ty)| (name.as_str(), ty, &bytes[..])).collect();
    store.write_all(&all)
}

/// Checks that a call fails without waiting, because the device is lost.
#[track_caller]
fn is_lost<T>(what: &str, attempt: impl FnOnce() -> Result<T, Error>) {
    let start = Instant::now();
    match attempt() {
        Ok(_) => panic!("{what}: succeeded on a lost device"),
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::Lost, "{what}: {error}");
            assert!(error.to_string().contains("restore the parameters"), "{what}: {error}");
        }
    }
    assert!(start.elapsed() < Duration::from_secs(5), "{what} took {:?}", start.elapsed());
}

#[test]
fn training_goes_on_elsewhere_with_the_same_bits_after_a_loss() {
    if skipped() {
        return;
    }
    let lost = device();
    let mut undisturbed = compiled(&device());
    let losses: Vec<u32> = (0..STEPS).map(|step| loss(&mut undisturbed, step)).collect();

    let mut train = compiled(&lost);
    let mut forward = train.infer([i32("ids", [2])], |model, [ids]| model.table.forward(ids)).unwrap();
    let before: Vec<u32> = (0..LOST_AFTER).map(|step| loss(&mut train, step)).collect();
    assert_eq!(before, losses[..LOST_AFTER]);
    let saved = parameters(&train);
    let attempted = train.attempted_steps();
    // Two steps are in flight; one of them is kept.
    let (ids, y) = data(LOST_AFTER);
    train.step((&ids, &y)).unwrap();
    let unread = train.step((&ids, &y)).unwrap();

    gradloom::testing::lose(&lost);
    is_lost("a step", || train.step((&ids, &y)));
    is_lost("the loss of a step in flight", || unread.loss());
    is_lost("the same again", || unread.loss());
    is_lost("another step", || train.step((&ids, &y)));
    is_lost("reading a parameter", || train.store().read("inner.weight"));
    is_lost("counting steps", || train.applied_steps());
    is_lost("restoring", || restore(&train.store(), &saved));
    is_lost("resetting", || train.reset_optimizer());
    is_lost("running a program", || forward.run([&[3, 4]]));
    is_lost("a debug run", || train.debug_run((&ids, &y), Retention::AsPlanned));
    is_lost("compiling", || {
        train.infer([i32("ids", [3])], |model, [ids]| model.inner.forward(model.table.forward(ids)))
    });
    is_lost("compiling for it", || {
        gradloom::Trainer::new(gradloom::nn::Linear::new(2, 2))
            .inputs([f32("x", [3, 2])])
            .loss(|model, [x]| model.forward(x).square().mean())
            .optimizer(gradloom::Sgd::new(0.1))
            .compile(&lost)
    });
    drop((train, unread, forward));

    let mut again = compiled(&device());
    restore(&again.store(), &saved).unwrap();
    again.set_attempted_steps(attempted);
    let after: Vec<u32> = (LOST_AFTER..STEPS).map(|step| loss(&mut again, step)).collect();
    assert_eq!(after, losses[LOST_AFTER..]);
    assert_eq!(parameters(&again), parameters(&undisturbed));
}

/// The device is lost before its first program, or between reads.
#[test]
fn reading_is_the_first_to_notice() {
    if skipped() {
        return;
    }
    let lost = device();
    let mut train = compiled(&lost);
    loss(&mut train, 0);
    gradloom::testing::lose(&lost);
    is_lost("reading a parameter", || train.store().read("inner.weight"));

    let lost = device();
    let mut train = compiled(&lost);
    let (ids, y) = data(0);
    let unread = train.step((&ids, &y)).unwrap();
    gradloom::testing::lose(&lost);
    is_lost("a loss", || unread.loss());

    let lost = device();
    let mut train = compiled(&lost);
    train.step((&ids, &y)).unwrap();
    gradloom::testing::lose(&lost);
    is_lost("waiting", || train.wait());
    train.wait().unwrap();

    let lost = device();
    gradloom::testing::lose(&lost);
    is_lost("compiling", || {
        gradloom::Session::new(gradloom::nn::Linear::new(2, 2), &lost, 1)?
            .infer([f32("x", [1, 2])], |model, [x]| model.forward(x))
    });
}
