//! Tests steps that fail without being read, and steps that several threads read.

use super::{Model, compiled, data, device, parameters, skipped};
use gradloom::CpuDevice as _;
use gradloom::{Device, ErrorKind, Step, Train};

/// Returns data for which a step traps, because of an index out of range.
pub(super) fn trapping() -> (Vec<i32>, Vec<f32>) {
    let (mut ids, y) = data(0);
    ids[0] = -1;
    (ids, y)
}

/// Returns data for which the loss is not finite, because a target is NaN.
pub(super) fn not_finite() -> (Vec<i32>, Vec<f32>) {
    let (ids, mut y) = data(0);
    y[7] = f32::NAN;
    (ids, y)
}

pub(super) fn step(train: &mut Train<Model, 2>, data: &(Vec<i32>, Vec<f32>)) -> Step {
    train.step((&data.0, &data.1)).unwrap()
}

#[test]
fn waiting_gives_each_failure_once_and_in_order() {
    for device in [Device::cpu()].into_iter().chain((!skipped()).then(device)) {
        let mut train = compiled(&device);
        train.wait().unwrap();
        step(&mut train, &data(0));
        train.wait().unwrap();
        let before = parameters(&train);
        step(&mut train, &not_finite());
        // If steps are queued, the second one is queued before the failure of the first is known.
        let second = train.step((&trapping().0, &trapping().1));
        match second {
            Ok(_) => {
                let kinds = [0; 2].map(|_| train.wait().unwrap_err().kind());
                assert_eq!(kinds, [ErrorKind::NotFinite { step: 1 }, ErrorKind::Trap]);
            }
            Err(error) => {
                assert_eq!(device.name(), "cpu");
                assert_eq!(error.kind(), ErrorKind::NotFinite { step: 1 });
                step(&mut train, &trapping());
                assert_eq!(train.wait().unwrap_err().kind(), ErrorKind::Trap);
            }
        }
        train.wait().unwrap();
        assert_eq!(parameters(&train), before);
        assert_eq!((train.attempted_steps(), train.applied_steps().unwrap()), (3, 1));
        // The failures were read, so they are not reported again.
        for i in 3..10 {
            step(&mut train, &data(i));
        }
        train.wait().unwrap();
        assert_eq!(train.applied_steps().unwrap(), 8);
    }
}

#[test]
fn threads_that_read_one_step_get_the_same() {
    if skipped() {
        return;
    }
    let mut train = compiled(&device());
    for failing in [false, true] {
        let done = step(&mut train, &if failing { trapping() } else { data(0) });
        let read = || done.loss().map(f32::to_bits).map_err(|error| error.kind());
        let all: Vec<_> = std::thread::scope(|scope| {
            let readers: Vec<_> = (0..8).map(|_| scope.spawn(read)).collect();
            readers.into_iter().map(|reader| reader.join().unwrap()).collect()
        });
        assert_eq!(all[0].is_err(), failing);
        assert!(all.iter().all(|one| *one == all[0]), "{all:?}");
    }
}

/// Staging buffers cause no errors if their steps are never read, or if their program has been dropped.
#[test]
fn a_session_may_go_while_steps_are_in_flight() {
    if skipped() {
        return;
    }
    let device = device();
    let mut kept = Vec::new();
    for _ in 0..3 {
        let mut train = compiled(&device);
        for i in 0..3 {
            let step = step(&mut train, &data(i));
            if i == 1 {
                kept.push(step);
            }
        }
    }
    let losses: Vec<f32> = kept.iter().map(|step| step.loss().unwrap()).collect();
    assert!(losses.iter().all(|loss| *loss == losses[0]), "{losses:?}");
}
