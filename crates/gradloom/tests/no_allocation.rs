//! Tests that a step does not allocate.
//!
//! The products are large enough to be packed, split into tasks, and followed by epilogues.
//!
//! On one thread, the test is exact: everything runs in the caller's thread, whose allocations are counted
//! separately from those of the test harness, and none of the steps may allocate. Work is split by shapes,
//! never by the number of threads, so these tasks are the same for any number of threads.
//!
//! On two threads, the allocations of the whole process are counted, over so many steps that a constant bound
//! separates two kinds of allocations. A thread allocates when it starts and when it first runs a kernel
//! larger than all before (two lists grow), and some systems allocate locks when they are first used. The
//! scheduler decides when this happens, but it happens a bounded number of times, [`ONCE`], however long the
//! program runs. Allocations by steps are proportional to the number of steps.

use gradloom::prelude::*;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Upper bound of the allocations that do not depend on the number of steps. Two threads double two lists
/// each, of at most 2^20 elements, start, create the pool's locks, and wait for a test.
const ONCE: usize = 100;

/// Number of steps: so large that one allocation in every nine steps would exceed [`ONCE`].
const STEPS: usize = 1000;

struct Counting;

static OF_ALL_THREADS: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    // Constant and without a destructor, so that counting never allocates and works while a thread exits.
    static OF_THIS_THREAD: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: every call is forwarded to the system allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        OF_ALL_THREADS.fetch_add(1, Ordering::Relaxed);
        OF_THIS_THREAD.set(OF_THIS_THREAD.get() + 1);
        // SAFETY: the caller upholds the contract of `GlobalAlloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, address: *mut u8, layout: Layout) {
        // SAFETY: the caller upholds the contract of `GlobalAlloc`.
        unsafe { System.dealloc(address, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[derive(Module)]
struct Model {
    table: Embedding,
    norm: LayerNorm,
    attention: gradloom::nn::CausalSelfAttention,
    dropout: Dropout,
}

/// Returns the number of allocations in [`STEPS`] steps on `threads` threads: by this thread in each step,
/// and by the whole process in total.
fn allocations(threads: usize) -> (Vec<usize>, usize) {
    let model = Model {
        table: Embedding::new(300, 64),
        norm: LayerNorm::new(64),
        attention: gradloom::nn::CausalSelfAttention::new(64, 2),
        dropout: Dropout::new(0.1),
    };
    let mut train = Trainer::new(model)
        .inputs([i32("ids", [2, 50])])
        .loss(|m, [ids]| {
            let x = m.table.forward(ids);
            let mixed = m.dropout.forward(m.attention.forward(m.norm.forward(x)));
            (x + mixed).matmul(m.table.weight.tensor().transpose(0, 1)).cross_entropy(ids)
        })
        .optimizer(AdamW::new(Schedule::warmup_cosine(1e-3, 2, 2 * STEPS as u64, 1e-4)))
        .clip_norm(1.0)
        .compile(&Device::cpu_with_threads(threads).unwrap())
        .unwrap();
    let ids: Vec<i32> = (0..100).map(|i| i % 7).collect();
    // The first steps allocate the slots for results, and this thread's memory.
    for _ in 0..6 {
        train.step([&ids]).unwrap().loss().unwrap();
    }
    let mut steps = vec![0; STEPS];
    let mut rates = vec![0.0; STEPS];
    let before = OF_ALL_THREADS.load(Ordering::Relaxed);
    for (step, rate) in steps.iter_mut().zip(&mut rates) {
        let before = OF_THIS_THREAD.get();
        train.step([&ids]).unwrap();
        *rate = train.lr() as f32;
        *step = OF_THIS_THREAD.get() - before;
    }
    let all = OF_ALL_THREADS.load(Ordering::Relaxed) - before;
    assert!(rates.windows(2).all(|pair| pair[0] != pair[1]), "each step has a rate of its own");
    (steps, all)
}

#[test]
fn a_step_allocates_nothing() {
    let (steps, _) = allocations(1);
    let some: Vec<_> = steps.iter().enumerate().filter(|(_, count)| **count > 0).collect();
    assert!(some.is_empty(), "on one thread, there are steps with allocations: {some:?}");
    let (_, all) = allocations(2);
    assert!(all <= ONCE, "{all} allocations in {STEPS} steps on two threads");
}
