//! Tests debug runs on an asynchronous device: the launches of a step, one by one.

use super::{compiled, data, device, parameters, skipped};
use gradloom::nn::State;
use gradloom::plan::{Region, Role, report};
use gradloom::{DType, ErrorKind, Retention, Session, f32, full, i32};

/// Converts the bytes of a store entry to float64.
fn elements(bytes: &[u8], dtype: DType) -> Vec<f64> {
    let words = bytes.chunks_exact(4).map(|b| [b[0], b[1], b[2], b[3]]);
    match dtype {
        DType::I32 | DType::U32 => words.map(|w| u32::from_le_bytes(w).into()).collect(),
        _ => words.map(|w| f32::from_le_bytes(w).into()).collect(),
    }
}

#[test]
fn a_debug_run_is_the_next_step_and_changes_nothing() {
    if skipped() {
        return;
    }
    let mut train = compiled(&device());
    for i in 0..3 {
        let (ids, y) = data(i);
        train.step((&ids, &y)).unwrap();
    }
    let before = parameters(&train);
    let (ids, y) = data(3);
    let mut runs = Vec::new();
    for retention in [Retention::AsPlanned, Retention::EveryValue] {
        let mut run = train.debug_run((&ids, &y), retention).unwrap();
        // Scalars are written once, before the launches, although a late launch may overwrite their bytes.
        for launch in 0..run.plan().launches.len() {
            run.run(launch..launch + 1).unwrap();
        }
        runs.push(run);
    }
    assert_eq!(parameters(&train), before);

    let step = train.step((&ids, &y)).unwrap();
    for run in &runs {
        for name in ["loss", "gradient_norm"] {
            let expected: Vec<f64> = step.get(name).unwrap().into_iter().map(f64::from).collect();
            assert_eq!(run.output(name).unwrap().to_f64(), expected, "{name}");
        }
        let plan = run.plan();
        let mut compared = 0;
        for next in plan.buffers.iter().filter(|b| b.role == Role::Next && b.region == Region::Store) {
            let is_target = |b: &&gradloom::plan::Buffer| {
                b.region == Region::Store && b.offset == next.offset && b.role != Role::Next
            };
            let target = plan.buffers.iter().find(is_target).unwrap();
            let bytes = train.store().read(&report::label(run.graph(), target)).unwrap();
            assert_eq!(run.read(next.value).unwrap().to_f64(), elements(&bytes, next.ty.dtype));
            compared += 1;
        }
        assert!(compared >= 15, "weights, biases, and two moments of each: {compared}");
    }
}

#[test]
fn a_trap_is_an_error_of_its_launch() {
    if skipped() {
        return;
    }
    let train = compiled(&device());
    let (mut ids, y) = data(0);
    ids[4] = 11;
    let mut run = train.debug_run((&ids, &y), Retention::EveryValue).unwrap();
    let failing: Vec<usize> = (0..run.plan().launches.len())
        .filter(|&launch| match run.run(launch..launch + 1) {
            Ok(()) => false,
            // Accept this error of launches that read the results of a launch that trapped.
            Err(error) if error.kind() == ErrorKind::Feed => false,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Trap, "{error}");
                assert!(error.to_string().contains("index 11 at position [4]"), "{error}");
                true
            }
        })
        .collect();
    assert!(!failing.is_empty());
    // A new run with valid data succeeds.
    let ids = data(0).0;
    let mut run = train.debug_run((&ids, &y), Retention::EveryValue).unwrap();
    run.run(0..run.plan().launches.len()).unwrap();
}

#[test]
fn a_window_that_does_not_fit_is_refused_before_it_is_written() {
    if skipped() {
        return;
    }
    let session = Session::new((), &device(), 1).unwrap();
    let infer = session
        .infer([i32("at", []), f32("row", [1, 3])], |(), [at, row]| {
            let log = State::new([4, 3], DType::F32, 0.5).named("log");
            let old = log.tensor();
            log.update_at(&[at, full(DType::I32, [0; 0], 0.0)], row);
            old.sum()
        })
        .unwrap();
    for (at, fits) in [(3, true), (4, false), (-1, false)] {
        let mut run = infer.debug_run((&[at], &[1.0f32, 2.0, 3.0]), Retention::EveryValue).unwrap();
        let result = run.run(0..run.plan().launches.len());
        match result {
            Ok(()) => assert!(fits),
            Err(error) => {
                assert!(!fits, "{error}");
                assert_eq!(error.kind(), ErrorKind::Trap, "{error}");
                assert!(error.to_string().contains(&format!("at {at} does not fit axis 0")), "{error}");
            }
        }
        assert_eq!(session.store().read_f32("log").unwrap(), [0.5; 12]);
    }
}
