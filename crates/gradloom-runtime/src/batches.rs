//! Splits a data set into batches of examples, and prefetches their data on another thread.
//!
//! ```
//! # mod gradloom { pub use gradloom_core::*; pub use gradloom_runtime::*; }
//! use gradloom::batches::{Batches, gather, prefetch};
//!
//! let (images, classes) = (vec![0.0f32; 100 * 784], vec![3i32; 100]);
//! let mut batches = Batches::new(100, 32).shuffled(7);
//! for _ in 0..2 {
//!     for batch in batches.epoch() {
//!         let (x, y) = (gather(&images, 784, &batch), gather(&classes, 1, &batch));
//!         assert_eq!(x.len(), 784 * y.len());
//!     }
//! }
//! // Fetch two batches ahead on another thread.
//! let fetched = prefetch(2, (0..3).map(move |_| {
//!     let batch = batches.next_batch();
//!     (gather(&images, 784, &batch), gather(&classes, 1, &batch))
//! }));
//! assert_eq!(fetched.map(|(_, y)| y.len()).collect::<Vec<_>>(), [32, 32, 32]);
//! ```

use gradloom_core::philox::philox4x32;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::JoinHandle;

/// Generator of batches: the indices of the examples in each batch, epoch by epoch. The order depends only on
/// the seed and the epoch, so a generator that continues [at](Batches::at) a saved
/// [position](Batches::position) returns the same batches.
#[derive(Clone, Debug)]
pub struct Batches {
    examples: usize,
    batch: usize,
    seed: Option<u64>,
    drops_last: bool,
    epoch: u64,
    /// Number of batches of this epoch that were returned.
    given: usize,
    /// Order of the examples in this epoch; empty if they are not shuffled.
    order: Vec<usize>,
}

/// Maximum number of examples that can be shuffled. Their order takes 8 bytes per example, and four times
/// that while it is computed.
const MOST_SHUFFLED: usize = 1 << 28;

impl Batches {
    /// Creates batches of `batch` examples, in order; the last batch of an epoch has the remaining examples.
    ///
    /// # Panics
    /// Panics if `examples` or `batch` is 0.
    #[track_caller]
    pub fn new(examples: usize, batch: usize) -> Self {
        assert!(
            examples > 0 && batch > 0,
            "batches of {batch} of {examples} examples: there is at least one example, and one in a batch"
        );
        Self { examples, batch, seed: None, drops_last: false, epoch: 0, given: 0, order: Vec::new() }
    }

    /// Shuffles the examples, in a different order in each epoch.
    ///
    /// # Panics
    /// Panics if there are more than 2^28 examples, whose order would take gigabytes.
    #[must_use]
    #[track_caller]
    pub fn shuffled(mut self, seed: u64) -> Self {
        assert!(
            self.examples <= MOST_SHUFFLED,
            "{} examples are too many to shuffle, {MOST_SHUFFLED} are the most: shuffle parts of them",
            self.examples
        );
        self.seed = Some(seed);
        self.arrange();
        self
    }

    /// Drops the last batch of an epoch if it is incomplete.
    ///
    /// # Panics
    /// Panics if a batch has more examples than the data set.
    #[must_use]
    #[track_caller]
    pub fn drop_last(mut self) -> Self {
        assert!(self.batch <= self.examples, "no batch of {} in {} examples", self.batch, self.examples);
        let given = self.position();
        self.drops_last = true;
        self.at(given)
    }

    /// Returns the number of batches of an epoch.
    pub fn per_epoch(&self) -> usize {
        match self.drops_last {
            true => self.examples / self.batch,
            false => self.examples.div_ceil(self.batch),
        }
    }

    /// Returns the number of batches returned since the start, over all epochs.
    pub fn position(&self) -> u64 {
        self.epoch.saturating_mul(self.per_epoch() as u64).saturating_add(self.given as u64)
    }

    /// Continues from a position, as if `position` batches had been returned.
    #[must_use]
    pub fn at(mut self, position: u64) -> Self {
        let all = self.per_epoch() as u64;
        (self.epoch, self.given) = (position / all, (position % all) as usize);
        self.arrange();
        self
    }

    /// Returns the next batch; after the last batch of an epoch, the first batch of the next epoch.
    pub fn next_batch(&mut self) -> Vec<usize> {
        let start = self.given * self.batch;
        let end = start.saturating_add(self.batch).min(self.examples);
        let batch = match self.seed {
            Some(_) => self.order[start..end].to_vec(),
            None => (start..end).collect(),
        };
        self.given += 1;
        if self.given == self.per_epoch() {
            (self.epoch, self.given) = (self.epoch.wrapping_add(1), 0);
            self.arrange();
        }
        batch
    }

    /// Returns the remaining batches of this epoch.
    pub fn epoch(&mut self) -> impl Iterator<Item = Vec<usize>> {
        let left = self.per_epoch() - self.given;
        (0..left).map(move |_| self.next_batch())
    }

    /// Sorts the examples by random 64-bit numbers, keyed by seed, epoch and example.
    fn arrange(&mut self) {
        let Some(seed) = self.seed else { return };
        self.order = (0..self.examples).collect();
        let words = |number: u64| [number as u32, (number >> 32) as u32];
        let ([e0, e1], key) = (words(self.epoch), words(seed));
        self.order.sort_by_cached_key(|&example| {
            let [x0, x1] = words(example as u64);
            let [a, b, ..] = philox4x32([x0, x1, e0, e1], key);
            (a, b, example)
        });
    }
}

/// Returns the data of the given examples, concatenated; each example has `width` elements.
///
/// # Panics
/// Panics if an example does not exist, if `width` is 0, or if the length of `data` is not a multiple of
/// `width`.
#[track_caller]
pub fn gather<T: Copy>(data: &[T], width: usize, examples: &[usize]) -> Vec<T> {
    assert!(width > 0, "examples of 0 elements: give the number of elements of an example");
    assert!(
        data.len().is_multiple_of(width),
        "{} elements are no whole number of examples of {width}: give the number of elements of an example",
        data.len()
    );
    let count = data.len() / width;
    // A loop rather than a closure, so that the panic is reported at the caller's line.
    for &example in examples {
        assert!(example < count, "there is no example {example}: the data have {count}, counted from 0");
    }
    examples.iter().flat_map(|&example| &data[example * width..][..width]).copied().collect()
}

/// Maximum number of items fetched ahead; the channel allocates space for all of them.
const MOST_AHEAD: usize = 1 << 12;

/// Fetches the items of an iterator on a new thread, at most `ahead` of them, and never more than 4,096, in
/// advance. If the iterator panics, [`Prefetch::next`] resumes the panic.
pub fn prefetch<I>(ahead: usize, items: I) -> Prefetch<I::Item>
where
    I: Iterator + Send + 'static,
    I::Item: Send + 'static,
{
    let (sender, receiver) = sync_channel(ahead.min(MOST_AHEAD));
    let fetcher = std::thread::spawn(move || {
        for item in items {
            // Stop fetching when the receiver is dropped.
            if sender.send(item).is_err() {
                break;
            }
        }
    });
    Prefetch { receiver, fetcher: Some(fetcher) }
}

/// Iterator over items that are fetched in advance; see [`prefetch`].
#[derive(Debug)]
pub struct Prefetch<T> {
    receiver: Receiver<T>,
    fetcher: Option<JoinHandle<()>>,
}

impl<T> Iterator for Prefetch<T> {
    type Item = T;
    fn next(&mut self) -> Option<T> {
        let item = self.receiver.recv().ok();
        if item.is_none()
            && let Some(Err(panic)) = self.fetcher.take().map(JoinHandle::join)
        {
            std::panic::resume_unwind(panic);
        }
        item
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_epoch_has_every_example_once() {
        for (examples, batch) in [(10, 3), (9, 3), (1, 5), (7, 1)] {
            let mut batches = Batches::new(examples, batch).shuffled(3);
            let mut orders = Vec::new();
            for epoch in 0..3 {
                let all: Vec<Vec<usize>> = batches.epoch().collect();
                assert_eq!(all.len(), batches.per_epoch());
                assert!(all[..all.len() - 1].iter().all(|b| b.len() == batch));
                let order = all.concat();
                let mut sorted = order.clone();
                sorted.sort_unstable();
                assert_eq!(sorted, (0..examples).collect::<Vec<_>>(), "epoch {epoch}");
                orders.push(order);
            }
            assert_eq!(batches.position(), 3 * batches.per_epoch() as u64);
            assert!(examples < 5 || orders[0] != orders[1]);
        }
        // The next batch would be the third, which is incomplete and dropped.
        let mut later = Batches::new(11, 4).at(2).drop_last();
        assert_eq!((later.position(), later.next_batch()), (2, vec![0, 1, 2, 3]));
        let whole: Vec<_> = Batches::new(10, 3).drop_last().epoch().collect();
        assert_eq!(whole, [[0, 1, 2], [3, 4, 5], [6, 7, 8]]);
    }

    #[test]
    fn they_go_on_from_a_position() {
        let mut whole = Batches::new(11, 4).shuffled(9);
        let all: Vec<_> = (0..10).map(|_| whole.next_batch()).collect();
        for position in 0..10 {
            let mut rest = Batches::new(11, 4).shuffled(9).at(position as u64);
            assert_eq!(rest.position(), position as u64);
            assert_eq!((position..10).map(|_| rest.next_batch()).collect::<Vec<_>>(), all[position..]);
        }
        assert_ne!(Batches::new(11, 4).shuffled(8).next_batch(), all[0]);
    }

    #[test]
    fn items_come_in_order_and_a_panic_comes_out() {
        assert_eq!(prefetch(2, 0..100).collect::<Vec<_>>(), (0..100).collect::<Vec<_>>());
        // Dropping the iterator early also ends its thread.
        assert_eq!(prefetch(1, 0..).next(), Some(0));
        let panics = prefetch(2, (0..5).map(|i| if i == 3 { panic!("no example {i}") } else { i }));
        let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| panics.count()));
        assert_eq!(caught.unwrap_err().downcast_ref::<String>().unwrap(), "no example 3");
    }

    #[test]
    #[should_panic(expected = "no batch of 4 in 3 examples")]
    fn a_batch_that_never_comes() {
        let _ = Batches::new(3, 4).drop_last();
    }
}
