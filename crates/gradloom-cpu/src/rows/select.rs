//! The least few of many numbers, in one walk.

use super::keys::{Element, packed};
use gradloom_codegen::cpu::MOST_SELECTED;

/// Numbers that wait for a decision: as many again as are kept, so that deciding is seldom.
const ROOM: usize = 2 * MOST_SELECTED;
/// Elements that are looked at together.
const BLOCK: usize = 16;

/// Writes the `keep` least of `count` packed elements from `first` on, in no order; if there are fewer, `MAX`
/// fills up.
///
/// # Safety
/// The elements can be read, and `keep` numbers, at most [`MOST_SELECTED`], written.
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
    // SAFETY: as promised by the caller.
    unsafe { std::ptr::copy_nonoverlapping(found.numbers.as_ptr(), to, keep) };
}

struct Found {
    /// The first `len` are numbers, the others `MAX` as long as there were never more than `len`.
    numbers: [u64; ROOM],
    len: usize,
    keep: usize,
    /// Exclusive upper bound: a further number that is not below it is not among the least.
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

    /// Keeps the least.
    #[inline(never)]
    fn decide(&mut self) {
        if self.len > self.keep {
            self.numbers[..self.len].select_nth_unstable(self.keep - 1);
            self.len = self.keep;
            self.limit = self.numbers[self.keep - 1];
        }
    }
}
