//! Tests runs that end early: where they stop, what they leave behind, and that they can be repeated.

mod common;
#[path = "common/hook.rs"]
mod hook;

use common::devices;
use gradloom::prelude::*;
use gradloom::{CancelToken, ErrorKind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

/// Returns `x` from an op that calls `f`.
fn hook(name: &'static str, x: Tensor, f: impl Fn() + Send + Sync + 'static) -> Tensor {
    hook::hook(name, x, move || {
        f();
        Ok(())
    })
}

/// Compiles a training program with two ops that call the given functions.
fn train(
    session: &Session<Linear>,
    name: &str,
    first: impl Fn() + Send + Sync + 'static,
    second: impl Fn() + Send + Sync + 'static,
) -> Train<Linear, 1> {
    let mut hooks = Some((first, second));
    session
        .trainer()
        .named(name)
        .inputs([f32("x", [4, 3])])
        .loss(|m, [x]| {
            let (first, second) = hooks.take().expect("traced once");
            let hidden = hook("first", m.forward(x), first);
            hook("second", hidden.tanh(), second).square().mean()
        })
        .optimizer(Adam::new(0.01))
        .compile(session.device())
        .unwrap()
}

const X: [f32; 12] = [0.5, -1.0, 2.0, 0.1, 0.2, 0.3, -0.4, 1.5, -2.0, 0.7, 0.9, 1.1];

fn linear(device: &Device) -> Session<Linear> {
    Session::new(Linear::new(3, 2), device, 5).unwrap()
}

#[test]
fn a_step_that_is_cancelled_in_its_middle_changes_nothing_and_can_be_run_again() {
    for device in devices() {
        let (token, calls) = (CancelToken::new(), Arc::new(AtomicUsize::new(0)));
        let session = linear(&device);
        let (cancelling, counted) = (token.clone(), Arc::clone(&calls));
        let mut cancelled = train(
            &session,
            "",
            move || cancelling.cancel(),
            move || _ = counted.fetch_add(1, Ordering::SeqCst),
        );
        let other = linear(&device);
        let mut whole = train(&other, "", || {}, || {});
        let before = session.store().read_all().unwrap();
        cancelled.set_cancel_token(token);
        let error = cancelled.step([&X]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Cancelled, "{error}");
        assert_eq!(calls.load(Ordering::SeqCst), 0, "a launch ran behind the cancellation");
        assert_eq!(session.store().read_all().unwrap(), before);
        assert_eq!((cancelled.attempted_steps(), cancelled.applied_steps().unwrap()), (0, 0));
        // From now on, steps fail immediately.
        assert_eq!(cancelled.step([&X]).unwrap_err().kind(), ErrorKind::Cancelled);
        cancelled.set_cancel_token(None);
        for _ in 0..3 {
            let (a, b) = (cancelled.step([&X]).unwrap(), whole.step([&X]).unwrap());
            assert_eq!(a.loss().unwrap().to_bits(), b.loss().unwrap().to_bits());
        }
        assert_eq!(session.store().read_all().unwrap(), other.store().read_all().unwrap());
        assert_eq!(calls.load(Ordering::SeqCst), 3);
    }
}

#[test]
fn a_step_that_waits_for_another_programs_stops_to_wait() {
    for device in devices() {
        let session = linear(&device);
        let ((entered, entry), (leave, left)) = (channel(), channel::<()>());
        let (entered, left) = (std::sync::Mutex::new(entered), std::sync::Mutex::new(left));
        let mut long = train(
            &session,
            "long",
            move || {
                entered.lock().unwrap().send(()).unwrap();
                let _ = left.lock().unwrap().recv();
            },
            || {},
        );
        let mut waits = train(&session, "waits", || panic!("it was cancelled before"), || {});
        let token = CancelToken::new();
        waits.set_cancel_token(token.clone());
        std::thread::scope(|scope| {
            let running = scope.spawn(|| long.step([&X]).unwrap().loss().unwrap());
            entry.recv().unwrap();
            let waiting = scope.spawn(|| waits.step([&X]).unwrap_err());
            std::thread::sleep(Duration::from_millis(30));
            assert!(!waiting.is_finished());
            token.cancel();
            assert_eq!(waiting.join().unwrap().kind(), ErrorKind::Cancelled);
            assert!(!running.is_finished(), "the step of the other program goes on");
            leave.send(()).unwrap();
            assert!(running.join().unwrap().is_finite());
        });
        assert_eq!((long.applied_steps().unwrap(), waits.applied_steps().unwrap()), (1, 0));
    }
}

#[test]
fn deadlines_end_runs_that_are_late() {
    for device in devices() {
        let session = linear(&device);
        let slow = || std::thread::sleep(Duration::from_millis(60));
        let mut train = train(&session, "", slow, || panic!("the deadline has passed"));
        let before = session.store().read_all().unwrap();
        train.set_cancel_token(CancelToken::with_timeout(Duration::from_millis(40)));
        let error = train.step([&X]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::DeadlineExceeded, "{error}");
        assert_eq!(session.store().read_all().unwrap(), before);

        let mut infer = session.infer([f32("x", [4, 3])], |m, [x]| m.forward(x)).unwrap();
        let whole = infer.run([&X]).unwrap();
        infer.set_cancel_token(CancelToken::with_deadline(Instant::now()));
        assert_eq!(infer.run([&X]).unwrap_err().kind(), ErrorKind::DeadlineExceeded);
        assert_eq!(infer.run_on_device([&X]).unwrap_err().kind(), ErrorKind::DeadlineExceeded);
        assert_eq!(infer.queue(&[(&X).into()]).unwrap_err().kind(), ErrorKind::DeadlineExceeded);
        infer.set_cancel_token(CancelToken::with_timeout(Duration::from_secs(3600)));
        assert_eq!(infer.run([&X]).unwrap(), whole);
        // This deadline exceeds the range of the clock.
        infer.set_cancel_token(CancelToken::with_timeout(Duration::MAX));
        assert_eq!(infer.run([&X]).unwrap(), whole);
    }
}

#[test]
fn tensors_of_a_cancelled_step_are_given_back() {
    for device in devices() {
        let session = linear(&device);
        let token = CancelToken::new();
        let cancelling = token.clone();
        let mut train = train(&session, "", move || cancelling.cancel(), || {});
        let x = session.upload(&X, [4, 3]).unwrap();
        train.set_cancel_token(token);
        assert_eq!(train.step([&x]).unwrap_err().kind(), ErrorKind::Cancelled);
        train.set_cancel_token(None);
        // Host data is not written into the tensor.
        train.step([&[9.0f32; 12]]).unwrap().loss().unwrap();
        assert_eq!(x.get().unwrap(), X);
    }
}

#[test]
#[cfg(feature = "wgpu")]
fn steps_that_were_submitted_go_on() {
    let Some(device) = common::gpu() else { return };
    let session = linear(&device);
    let mut train = session
        .trainer()
        .inputs([f32("x", [4, 3])])
        .loss(|m, [x]| m.forward(x).square().mean())
        .optimizer(Sgd::new(0.1))
        .compile(&device)
        .unwrap();
    let token = CancelToken::new();
    train.set_cancel_token(token.clone());
    let queued: Vec<_> = (0..3).map(|_| train.step([&X]).unwrap()).collect();
    token.cancel();
    assert_eq!(train.step([&X]).unwrap_err().kind(), ErrorKind::Cancelled);
    assert!(queued.iter().all(|step| step.loss().is_ok()));
    assert_eq!((train.attempted_steps(), train.applied_steps().unwrap()), (3, 3));
}

/// Returns a training program and data for which a step takes a software GPU a tenth of a second.
#[cfg(feature = "wgpu")]
fn long_step(watchdog: Duration) -> (Train<Linear, 1>, Vec<f32>) {
    const WIDE: usize = 512;
    let options = gradloom::WgpuOptions::default().adapter(gradloom_testing::adapter::name());
    let device = Device::wgpu_with(&options.software().watchdog(watchdog)).unwrap();
    let train = Trainer::new(Linear::no_bias(WIDE, WIDE))
        .inputs([f32("x", [WIDE, WIDE])])
        .loss(|m, [x]| m.forward(m.forward(m.forward(x))).mean())
        .optimizer(Sgd::new(1e-4))
        .compile(&device)
        .unwrap();
    (train, vec![1.0; WIDE * WIDE])
}

#[test]
#[cfg(feature = "wgpu")]
fn the_watchdog_ends_the_wait_for_a_step() {
    if gradloom_testing::adapter::skipped_on_cuda(gradloom::adapters().is_empty()) {
        return;
    }
    let (mut train, x) = long_step(Duration::from_micros(50));
    let step = train.step([&x]).unwrap();
    let error = step.loss().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Lost, "{error}");
    assert!(error.message().starts_with("the GPU hangs: a step was not done within 50"), "{error}");
    // Later operations on the device return the same error.
    assert_eq!(train.step([&x]).unwrap_err().message(), error.message());

    let (mut train, x) = long_step(Duration::from_micros(50));
    let step = train.step([&x]).unwrap();
    assert_eq!(pollster::block_on(step.loss_async()).unwrap_err().kind(), ErrorKind::Lost);

    let (mut train, x) = long_step(Duration::from_secs(300));
    train.step([&x]).unwrap().loss().unwrap();
}
