//! A step allocates nothing: every allocation of the process between two steps is counted.
//!
//! The products are large enough to be packed, cut into tasks, and followed by epilogues.
//!
//! A thread of the pool gets memory of its own when it starts, and when it first runs a kernel larger than
//! those before; which thread runs what is left to chance, so on a busy machine that may be many steps later.
//! It happens a bounded number of times, though, whereas what a step allocates comes back in every step. So
//! rounds of steps are counted until one allocates nothing, and there are more rounds than times at which a
//! thread can grow its memory.

use gradloom::prelude::*;
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

/// More than a second thread can double two lists that have at most 2^32 elements, and start.
const ROUNDS: usize = 100;

struct Counting;

static ALLOCATIONS: AtomicUsize = AtomicUsize::new(0);

// SAFETY: hands everything on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: as asked by the caller.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, address: *mut u8, layout: Layout) {
        // SAFETY: as asked by the caller.
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

#[test]
fn a_step_allocates_nothing() {
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
        .optimizer(AdamW::new(Schedule::warmup_cosine(1e-2, 2, 9, 1e-3)))
        .clip_norm(1.0)
        .compile(&Device::cpu_with_threads(2).unwrap())
        .unwrap();
    let ids: Vec<i32> = (0..100).map(|i| i % 7).collect();
    let mut rates = [0.0; 8];
    // The first steps size the slots that results are read from.
    for _ in 0..6 {
        train.step([&ids]).unwrap().loss().unwrap();
    }
    let mut rounds = Vec::new();
    while rounds.last() != Some(&0) && rounds.len() < ROUNDS {
        let before = ALLOCATIONS.load(Ordering::Relaxed);
        for rate in &mut rates {
            train.step([&ids]).unwrap();
            *rate = train.lr() as f32;
        }
        let during = ALLOCATIONS.load(Ordering::Relaxed) - before;
        // Not before the count was read: the list may grow.
        rounds.push(during);
    }
    assert!(rates.windows(2).all(|pair| pair[0] != pair[1] || pair[0] < 2e-3));
    assert_eq!(
        rounds.last(),
        Some(&0),
        "in rounds of {} steps, there were {rounds:?} allocations",
        rates.len()
    );
}
