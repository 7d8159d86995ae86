//! Tests that independent ops of a step run at the same time on the CPU, and that the order in which they do
//! changes nothing.

#[path = "common/hook.rs"]
mod hook;

use gradloom::prelude::*;
use gradloom_cpu::always_waking;
use hook::{Message, hook};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

/// Compiles the sum of two branches, each of which is one op.
fn branches(
    threads: usize,
    first: impl Fn() -> Message<()> + Send + Sync + 'static,
    second: impl Fn() -> Message<()> + Send + Sync + 'static,
) -> gradloom::Infer<1, Tensor> {
    let mut hooks = Some((first, second));
    let session = Session::new((), &always_waking(threads), 0).unwrap();
    session
        .infer([f32("x", [4])], |(), [x]| {
            let (first, second) = hooks.take().expect("traced once");
            hook("first", x, first) + hook("second", x, second)
        })
        .unwrap()
}

/// Waits until `count` is at least `wanted`. The bound is only reached if the test fails.
fn wait_for(count: &AtomicUsize, wanted: usize) -> Message<()> {
    let began = Instant::now();
    while count.load(SeqCst) < wanted {
        if began.elapsed() > Duration::from_secs(60) {
            return Err(format!("{wanted} were expected, there are {}", count.load(SeqCst)));
        }
        std::thread::yield_now();
    }
    Ok(())
}

#[test]
fn two_branches_overlap() {
    let started = Arc::new(AtomicUsize::new(0));
    let meet = || {
        let started = Arc::clone(&started);
        move || {
            started.fetch_add(1, SeqCst);
            wait_for(&started, 2)
        }
    };
    let mut sum = branches(2, meet(), meet());
    let sums: Vec<f32> = sum.run([&[1.0, 2.0, 3.0, 4.0]]).unwrap();
    assert_eq!(sums, [2.0, 4.0, 6.0, 8.0]);
}

/// Whichever op fails first, the error is that of the first op of the plan, which is also what one thread
/// gives. The next run knows of neither.
#[test]
fn of_two_failures_the_first_of_the_plan_is_reported() {
    let fail = |message: &'static str| move || Err::<(), String>(message.into());
    let x = [1.0; 4];
    let expected = branches(1, fail("one"), fail("two")).run([&x]).unwrap_err().to_string();
    for late in [0, 1] {
        let (failed, may_fail) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(1)));
        let op = |number: usize, message: &'static str| {
            let (failed, may_fail) = (Arc::clone(&failed), Arc::clone(&may_fail));
            move || {
                if may_fail.load(SeqCst) == 0 {
                    return Ok(());
                }
                if number == late {
                    wait_for(&failed, 1)?;
                }
                failed.fetch_add(1, SeqCst);
                Err(message.into())
            }
        };
        let mut sum = branches(2, op(0, "one"), op(1, "two"));
        assert_eq!(sum.run([&x]).unwrap_err().to_string(), expected);
        may_fail.store(0, SeqCst);
        assert_eq!(sum.run([&x]).unwrap(), [2.0; 4]);
    }
}

#[test]
fn a_panic_of_one_branch_reaches_the_caller_and_the_program_runs_again() {
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&calls);
    let panics = move || {
        assert!(counted.fetch_add(1, SeqCst) > 0, "the first call panics");
        Ok(())
    };
    let mut sum = branches(2, panics, || Ok(()));
    let panic = catch_unwind(AssertUnwindSafe(|| sum.run([&[1.0; 4]]))).map(|_| ()).unwrap_err();
    assert_eq!(panic.downcast_ref::<&str>(), Some(&"the first call panics"));
    assert_eq!(sum.run([&[1.0; 4]]).unwrap(), [2.0; 4]);
}

#[derive(Module)]
struct Net {
    first: Vec<Linear>,
    last: Linear,
}

/// Compiles a training step with four branches, each of which stalls at random if `stalls` is true.
fn branched(device: &Device, stalls: bool) -> Train<Net, 2> {
    let count = Arc::new(AtomicUsize::new(0));
    let stall = move || {
        let number = count.fetch_add(1, SeqCst).wrapping_mul(0x9e37_79b9) >> 7;
        match number % 97 {
            _ if !stalls => {}
            0 => std::thread::sleep(Duration::from_micros(100)),
            1..20 => std::thread::yield_now(),
            spins => (0..spins).for_each(|_| std::hint::spin_loop()),
        }
        Ok(())
    };
    let first = (0..4).map(|_| Linear::new(6, 9)).collect();
    Trainer::new(Net { first, last: Linear::new(9, 3) })
        .inputs([f32("x", [8, 6]), i32("class", [8])])
        .loss(|net, [x, class]| {
            let branch = |linear: &Linear| {
                hook("stall", hook("stall", linear.forward(x), stall.clone()).tanh(), stall.clone())
            };
            let all: Vec<Tensor> = net.first.iter().map(branch).collect();
            let sum = all.into_iter().reduce(|a, b| a * b).unwrap();
            net.last.forward(sum).cross_entropy(class)
        })
        .optimizer(AdamW::new(1e-2))
        .compile(device)
        .unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn ten_thousand_steps_of_threads_that_stall_have_the_bits_of_one() {
    let x: Vec<f32> = (0..48).map(|i| ((i * 37 % 101) as f32 - 50.0) / 40.0).collect();
    let class: Vec<i32> = (0..8).map(|i| i * i % 3).collect();
    let mut alone = branched(&always_waking(1), false);
    let mut several = [2, 3, 8].map(|threads| branched(&always_waking(threads), true));
    for step in 0..10_000 {
        let loss = alone.step((&x, &class)).unwrap().loss().unwrap().to_bits();
        for train in &mut several {
            assert_eq!(train.step((&x, &class)).unwrap().loss().unwrap().to_bits(), loss, "step {step}");
        }
    }
}
