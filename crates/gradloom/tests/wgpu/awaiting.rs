//! Tests losses as futures: they wake their waker, even if nothing else polls the device.

use super::{compiled, data, device, skipped};
use gradloom::CpuDevice as _;
use gradloom::{Device, ErrorKind, Step};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Wake, Waker};
use std::time::{Duration, Instant};

/// Returns the future, after requiring at compile time that it can be sent to another thread.
fn sent<T: Send>(future: T) -> T {
    future
}

#[test]
fn an_awaited_loss_is_the_loss() {
    for device in [Device::cpu()].into_iter().chain((!skipped()).then(device)) {
        let (mut train, mut awaited) = (compiled(&device), compiled(&device));
        for i in 0..12 {
            let (mut ids, y) = data(i);
            if i == 4 {
                ids[2] = 11;
            }
            let blocking = train.step((&ids, &y)).unwrap().loss();
            let step = awaited.step((&ids, &y)).unwrap();
            let loss = pollster::block_on(sent(step.loss_async()));
            match (blocking, loss) {
                (Ok(a), Ok(b)) => assert_eq!(a.to_bits(), b.to_bits(), "step {i}"),
                (Err(a), Err(b)) => assert_eq!((i, a.to_string()), (4, b.to_string())),
                (a, b) => panic!("step {i}: {a:?} and {b:?}"),
            }
            // Either call has read the failure, so waiting does not report it.
            awaited.wait().unwrap();
        }
    }
}

#[test]
fn many_may_await_one_step_and_some_may_give_up() {
    if skipped() {
        return;
    }
    let mut train = compiled(&device());
    for i in 0..5 {
        let (ids, y) = data(i);
        let step = train.step((&ids, &y)).unwrap();
        // Poll a future once, and drop it.
        let mut dropped = Box::pin(step.loss_async());
        let _ = dropped.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        drop(dropped);
        let awaited = |step: Step| pollster::block_on(step.loss_async()).unwrap().to_bits();
        let all: Vec<u32> = std::thread::scope(|scope| {
            let tasks: Vec<_> = (0..4).map(|_| scope.spawn(|| awaited(step.clone()))).collect();
            tasks.into_iter().map(|task| task.join().unwrap()).collect()
        });
        assert_eq!(all, [step.loss().unwrap().to_bits(); 4]);
    }
}

/// Counts its wake-ups.
#[derive(Default)]
struct Counter(AtomicUsize);

impl Wake for Counter {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn a_future_that_waits_is_woken_once_for_all_its_polls() {
    if skipped() {
        return;
    }
    let mut train = compiled(&device());
    let mut waited = 0;
    for i in 0..20 {
        let (ids, y) = data(i);
        let step = train.step((&ids, &y)).unwrap();
        let counter = Arc::new(Counter::default());
        let waker = Waker::from(Arc::clone(&counter));
        let mut future = pin!(step.loss_async());
        let mut context = Context::from_waker(&waker);
        let polls = (0..3).take_while(|_| future.as_mut().poll(&mut context).is_pending()).count();
        if polls == 3 {
            waited += 1;
            step.loss().unwrap();
            // Another thread wakes it, possibly a little later.
            let start = Instant::now();
            while counter.0.load(Ordering::SeqCst) == 0 && start.elapsed() < Duration::from_secs(20) {
                std::thread::yield_now();
            }
            assert_eq!(counter.0.load(Ordering::SeqCst), 1);
            assert!(future.as_mut().poll(&mut context).is_ready());
        }
    }
    assert!(waited > 0, "the device is never busy");
}

#[test]
fn a_future_on_a_lost_device_ends() {
    if skipped() {
        return;
    }
    let device = device();
    let mut train = compiled(&device);
    let (ids, y) = data(0);
    let steps = [0; 3].map(|_| train.step((&ids, &y)).unwrap());
    let mut early = Box::pin(steps[2].loss_async());
    let pending = early.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending();
    gradloom::testing::lose(&device);
    for step in &steps[..2] {
        assert_eq!(pollster::block_on(step.loss_async()).unwrap_err().kind(), ErrorKind::Lost);
    }
    if pending {
        // The bytes may or may not have arrived before the device was lost.
        if let Err(error) = pollster::block_on(early) {
            assert_eq!(error.kind(), ErrorKind::Lost);
        }
    }
}

/// The waking thread ends with the device, even if it wakes the last owner of the device.
#[test]
fn a_device_may_go_while_a_loss_is_awaited() {
    if skipped() {
        return;
    }
    let step = {
        let mut train = compiled(&device());
        let (ids, y) = data(0);
        train.step((&ids, &y)).unwrap()
    };
    let task = std::thread::spawn(move || {
        let loss = pollster::block_on(step.loss_async()).unwrap();
        drop(step);
        loss
    });
    assert!(task.join().unwrap().is_finite());
}
