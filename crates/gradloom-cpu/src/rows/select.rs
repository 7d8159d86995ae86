//! Selects the smallest few of many numbers in a single pass.

use super::keys::{Element, packed};
use gradloom_codegen::cpu::MOST_SELECTED;

/// Number of candidates: twice as many as are kept, so that they are seldom reduced.
const ROOM: usize = 2 * MOST_SELECTED;
/// Number of elements examined together.
const BLOCK: usize = 16;

/// Writes the `keep` smallest of `count` packed elements from `first` on, in no particular order. If there
/// are fewer, the remaining numbers are `u64::MAX`.
///
/// # Safety
/// `from` must be valid for reads of the elements, and `to` for writes of `keep` numbers, at most
/// [`MOST_SELECTED`].
#[inline(always)]
pub(super) unsafe fn select_body<E: Element>(
    (from, stride): (*const E, usize),
    [first, count]: [usize; 2],
    flip: u32,
    keep: usize,
    to: *mut u64,
) {
    let mut found = Found { numbers: [u64::MAX; ROOM], len: 0, keep, limit: u64::MAX };
    // SAFETY: `i` is below the end of the elements.
    let key = |i: usize| unsafe { *from.add(i * stride) }.key() ^ flip;
    let end = first + count;
    let whole = first + count / BLOCK * BLOCK;
    for start in (first..whole).step_by(BLOCK) {
        let keys: [u32; BLOCK] = std::array::from_fn(|i| key(start + i));
        let least = (found.limit >> 32) as u32;
        if keys.iter().fold(false, |any, &key| any | (key <= least)) {
            (0..BLOCK).for_each(|i| found.add(packed(keys[i], start + i)));
        }
    }
    (whole..end).for_each(|i| found.add(packed(key(i), i)));
    found.decide();
    // SAFETY: guaranteed by the caller.
    unsafe { std::ptr::copy_nonoverlapping(found.numbers.as_ptr(), to, keep) };
}

struct Found {
    /// The first `len` are candidates; the others are `u64::MAX` until they are first used.
    numbers: [u64; ROOM],
    len: usize,
    keep: usize,
    /// Exclusive upper bound of further candidates.
    limit: u64,
}

impl Found {
    #[inline(always)]
    fn add(&mut self, number: u64) {
        if number < self.limit {
            self.numbers[self.len] = number;
            self.len += 1;
            if self.len == ROOM.min(2 * self.keep.max(BLOCK)) {
                self.decide();
            }
        }
    }

    /// Keeps the `keep` smallest candidates.
    #[inline(never)]
    fn decide(&mut self) {
        if self.len > self.keep {
            self.numbers[..self.len].select_nth_unstable(self.keep - 1);
            self.len = self.keep;
            self.limit = self.numbers[self.keep - 1];
        }
    }
}
