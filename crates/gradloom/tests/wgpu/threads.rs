//! Tests that threads can share a device: waiting in one thread does not lose the device for another.

use super::{compiled, data, device, skipped};
use gradloom::CancelToken;
use std::time::Duration;

const THREADS: usize = 4;
/// Number of steps per thread. wgpu 30 panics, about once in a thousand steps, if a wait with a timeout in
/// one thread coincides with the end of the work of another thread.
const STEPS: usize = 1500;

#[test]
fn threads_train_on_one_device() {
    if skipped() {
        return;
    }
    let device = device();
    let train = |thread: usize| {
        let mut train = compiled(&device);
        if thread % 2 == 1 {
            train.set_cancel_token(CancelToken::with_timeout(Duration::from_secs(3600)));
        }
        let mut losses = Vec::new();
        for i in 0..STEPS {
            let (ids, y) = data(i % 16);
            let step = train.step((&ids, &y)).unwrap_or_else(|error| panic!("step {i}: {error}"));
            let loss = if i % 3 == 0 { pollster::block_on(step.loss_async()) } else { step.loss() };
            losses.push(loss.unwrap_or_else(|error| panic!("step {i}: {error}")).to_bits());
        }
        losses
    };
    let all: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                scope.spawn({
                    let train = &train;
                    move || train(thread)
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(all.iter().all(|losses| *losses == all[0]));
}
