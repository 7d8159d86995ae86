//! Tests steps that are not read: nothing is copied to the host until a later step is read, which then
//! reports their failures.

use super::failures::{not_finite, step, trapping};
use super::{Model, compiled, data, device, parameters, skipped};
use gradloom::{Error, ErrorKind, Step, Train};
use gradloom_runtime::Fault;

fn readbacks(train: &Train<Model, 2>) -> usize {
    train.program().work().unwrap().readbacks
}

/// Queues steps, those with the given indices with data that fails, and returns the last one.
fn queue(train: &mut Train<Model, 2>, steps: usize, not_a_number: &[usize], trapped: &[usize]) -> Step {
    let mut last = None;
    for i in 0..steps {
        last = Some(match i {
            _ if not_a_number.contains(&i) => step(train, &not_finite()),
            _ if trapped.contains(&i) => step(train, &trapping()),
            _ => step(train, &data(i)),
        });
    }
    last.unwrap()
}

/// Checks that an error reports a non-finite loss of the step with this number.
#[track_caller]
fn is_not_finite(error: &Error, number: u64) {
    assert_eq!(error.kind(), ErrorKind::NotFinite { step: number }, "{error}");
    assert_eq!(error.message(), format!("the loss of step {number} is not finite"));
}

/// Checks that an error reports an index out of range in the step with this number, with its location in the
/// model.
#[track_caller]
fn is_trap(error: &Error, number: u64) {
    assert_eq!(error.kind(), ErrorKind::Trap, "{error}");
    assert!(
        error.message().starts_with("index -1 at position [0] of the indices is out of range"),
        "{error}"
    );
    assert!(
        error.notes().any(|note| note == format!("in step {number}, which changed no parameter")),
        "{error}"
    );
    let origin = error.origin().expect("a place in the model");
    assert!(origin.file.ends_with("main.rs"), "{error}");
    assert!(error.to_string().contains("self.table.forward(ids)"), "{error}");
}

#[test]
fn the_next_read_tells_of_each_failure_once() {
    if skipped() {
        return;
    }
    let device = device();
    let (mut train, mut awaited) = (compiled(&device), compiled(&device));
    let last = queue(&mut train, 10, &[3], &[6]);
    assert_eq!(readbacks(&train), 0);
    is_not_finite(&last.loss().unwrap_err(), 3);
    is_trap(&last.loss().unwrap_err(), 6);
    let loss = last.loss().unwrap();
    train.wait().unwrap();
    assert_eq!((readbacks(&train), train.attempted_steps(), train.applied_steps().unwrap()), (1, 10, 8));

    // The other steps took effect, each with its own data.
    let mut losses = Vec::new();
    for i in 0..10 {
        let data = if i == 3 {
            not_finite()
        } else if i == 6 {
            trapping()
        } else {
            data(i)
        };
        losses.push(step(&mut awaited, &data).loss());
        assert_eq!(losses[i].is_err(), [3, 6].contains(&i));
    }
    assert_eq!(losses[9].as_ref().unwrap().to_bits(), loss.to_bits());
    assert_eq!(parameters(&train), parameters(&awaited));

    // Later steps succeed.
    let last = queue(&mut train, 10, &[], &[]);
    last.loss().unwrap();
    train.wait().unwrap();
    assert_eq!((readbacks(&train), train.applied_steps().unwrap()), (2, 18));
}

#[test]
fn waiting_tells_of_each_failure_once() {
    if skipped() {
        return;
    }
    let mut train = compiled(&device());
    queue(&mut train, 10, &[6], &[3]);
    is_trap(&train.wait().unwrap_err(), 3);
    is_not_finite(&train.wait().unwrap_err(), 6);
    train.wait().unwrap();
    assert_eq!(readbacks(&train), 1);
    queue(&mut train, 10, &[], &[]);
    train.wait().unwrap();
    // Errors contain the numbers with which the caller counts steps.
    train.set_attempted_steps(100);
    queue(&mut train, 10, &[2], &[4]);
    train.set_attempted_steps(7);
    queue(&mut train, 2, &[1], &[]);
    is_not_finite(&train.wait().unwrap_err(), 102);
    is_trap(&train.wait().unwrap_err(), 104);
    is_not_finite(&train.wait().unwrap_err(), 8);
    train.wait().unwrap();
}

/// A known failure that has not been reported is returned by the next step, which is not run.
#[test]
fn a_step_is_not_queued_behind_a_failure_that_is_known() {
    if skipped() {
        return;
    }
    let mut train = compiled(&device());
    let last = queue(&mut train, 6, &[1, 4], &[]);
    is_not_finite(&last.result().unwrap_err(), 1);
    let (ids, y) = data(6);
    is_not_finite(&train.step((&ids, &y)).unwrap_err(), 4);
    assert_eq!((train.attempted_steps(), train.applied_steps().unwrap()), (6, 4));
    step(&mut train, &data(6)).loss().unwrap();
}

/// A failed step reports its own error whenever it is read, and does not report the errors of other steps.
#[test]
fn a_step_tells_of_itself_first() {
    if skipped() {
        return;
    }
    let mut train = compiled(&device());
    let early = queue(&mut train, 2, &[0], &[]);
    let failed = queue(&mut train, 2, &[1], &[]);
    for _ in 0..2 {
        is_not_finite(&failed.loss().unwrap_err(), 3);
    }
    // Its loss can be read after the error of the earlier step has been returned.
    is_not_finite(&failed.get("loss").unwrap_err(), 0);
    assert!(failed.get("loss").unwrap()[0].is_nan());
    early.loss().unwrap();
    train.wait().unwrap();

    // An earlier step does not report the failure of a later one.
    let early = queue(&mut train, 2, &[], &[]);
    let failed = queue(&mut train, 1, &[0], &[]);
    assert!(failed.get("loss").unwrap()[0].is_nan());
    early.loss().unwrap();
    is_not_finite(&train.wait().unwrap_err(), 6);
    train.wait().unwrap();
    // A step that was kept can still be read.
    is_not_finite(&failed.loss().unwrap_err(), 6);
    train.wait().unwrap();
}

/// A failed step does not change parameters, so reading them does not report the failure.
#[test]
fn reading_parameters_tells_of_nothing_and_forgets_nothing() {
    if skipped() {
        return;
    }
    let mut train = compiled(&device());
    queue(&mut train, 6, &[2], &[]);
    parameters(&train);
    assert_eq!((readbacks(&train), train.applied_steps().unwrap()), (0, 5));
    is_not_finite(&train.wait().unwrap_err(), 2);
    train.wait().unwrap();
}

/// If there are more failures than the device has records, the first four and the last one are kept, even
/// those of steps that were in flight while the host read other failures.
#[test]
fn failures_that_the_device_cannot_remember_are_counted() {
    if skipped() {
        return;
    }
    let counted = |error: &Error, wanted: Option<&str>| {
        let notes: Vec<&str> = error.notes().filter(|note| note.contains("one by one")).collect();
        match wanted {
            None => assert!(notes.is_empty(), "{error}"),
            Some(wanted) => assert!(notes.len() == 1 && notes[0].starts_with(wanted), "{error}"),
        }
    };
    let mut train = compiled(&device());
    queue(&mut train, 10, &[0, 1, 2, 4, 5, 6, 7, 8], &[]);
    for number in [0, 1, 2, 4] {
        let error = train.wait().unwrap_err();
        is_not_finite(&error, number);
        counted(&error, None);
    }
    let error = train.wait().unwrap_err();
    is_not_finite(&error, 8);
    counted(&error, Some("3 steps before"));
    train.wait().unwrap();

    // Reading the last of many steps also reports the others.
    let mut many = compiled(&device());
    let last = queue(&mut many, 10, &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9], &[]);
    let error = last.loss().unwrap_err();
    is_not_finite(&error, 9);
    counted(&error, Some("5 steps before"));
    for number in 0..4 {
        is_not_finite(&many.wait().unwrap_err(), number);
    }
    many.wait().unwrap();

    // Steps 10 to 13 fail and fill the records; 14 is read while 15 to 17 are in flight, two of which fail.
    let read = queue(&mut train, 5, &[0, 1, 2, 3], &[]);
    queue(&mut train, 3, &[0], &[2]);
    for number in 10..14 {
        is_not_finite(&read.loss().unwrap_err(), number);
    }
    read.loss().unwrap();
    let error = train.wait().unwrap_err();
    is_trap(&error, 17);
    counted(&error, Some("1 step before"));
    train.wait().unwrap();

    // The records are free again.
    queue(&mut train, 5, &[0, 1, 2, 3], &[4]);
    for number in 18..22 {
        is_not_finite(&train.wait().unwrap_err(), number);
    }
    let error = train.wait().unwrap_err();
    is_trap(&error, 22);
    counted(&error, None);
    train.wait().unwrap();
    assert_eq!(train.applied_steps().unwrap(), 2 + 1 + 1);
}

/// A failure whose own report was not received is reported by the next read.
#[test]
fn a_failure_that_could_not_be_read_is_not_lost() {
    if skipped() {
        return;
    }
    let (device, faults) = device().with_faults();
    let mut train = compiled(&device);
    let failed = queue(&mut train, 2, &[1], &[]);
    faults.fail(Fault::Read, 0);
    assert_eq!(failed.loss().unwrap_err().kind(), ErrorKind::Device);
    let next = step(&mut train, &data(2));
    is_not_finite(&next.loss().unwrap_err(), 1);
    next.loss().unwrap();
    train.wait().unwrap();
}
