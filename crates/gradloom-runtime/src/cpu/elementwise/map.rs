//! Loops over contiguous elements, for any function of one, two or three of them.
//!
//! In: a type that implements [`Map1`], [`Map2`] or [`Map3`]. Out: a [`MapFn`], compiled for an instruction set.
//! Always holds: elements are read before the result at their position is written, so a result may overwrite an operand; there is
//! no scalar remainder loop: the last elements are padded to a whole chunk, and so cost what a chunk costs.

use crate::cpu::multiversion::multiversion;
use std::mem::MaybeUninit;

/// Most operands of an elementwise function.
pub(super) const OPERANDS: usize = 3;

/// Computes `count` contiguous results from as many contiguous elements of each operand.
///
/// # Safety
/// The machine has the level that the function was made for. The operands that the function has can be read, and the results written,
/// for `count` elements of its types. The results are the bytes of an operand or overlap none.
pub(super) type MapFn = unsafe fn(count: usize, reads: &[*const u8; OPERANDS], write: *mut u8);

/// Elements of a chunk: four vectors of the widest registers, and the least number that a loop is worth compiling for.
const CHUNK: usize = 64;

/// A function of one element.
pub(super) trait Map1: 'static {
    type A: Copy + Default;
    type R: Copy;
    /// The result, branch-free.
    fn apply(a: Self::A) -> Self::R;
    /// Whether [`Map1::apply`] is wrong for this element.
    #[inline(always)]
    fn is_rare(_: Self::A) -> bool {
        false
    }
    /// The result for a rare element, at any cost.
    fn rare(a: Self::A) -> Self::R {
        Self::apply(a)
    }
}

/// A function of two elements.
pub(super) trait Map2: 'static {
    type A: Copy + Default;
    type B: Copy + Default;
    type R: Copy;
    fn apply(a: Self::A, b: Self::B) -> Self::R;
}

/// A function of three elements.
pub(super) trait Map3: 'static {
    type A: Copy + Default;
    type B: Copy + Default;
    type C: Copy + Default;
    type R: Copy;
    fn apply(a: Self::A, b: Self::B, c: Self::C) -> Self::R;
}

/// The next chunk of an operand.
///
/// # Safety
/// `count` elements can be read from `from`.
#[inline(always)]
unsafe fn chunk<T: Copy>(from: *const T, count: usize, padded: &mut [T; CHUNK]) -> *const T {
    if count == CHUNK {
        return from;
    }
    // SAFETY: `count < CHUNK`, and the array is not what the caller's pointer points to.
    unsafe { std::ptr::copy_nonoverlapping(from, padded.as_mut_ptr(), count) };
    padded.as_ptr()
}

/// The body of a [`MapFn`]: chunk by chunk, `$compute` fills `$results` from the operands' next elements, each padded to a chunk.
///
/// A macro and not a function of a closure: a closure is a function of its own, which the compiler may leave uninlined and then
/// compiles for the baseline.
macro_rules! for_each_chunk {
    ($count:ident, $write:ident: $R:ty, [$($operand:ident: $from:expr),*], $results:ident => $compute:expr) => {
        let mut done = 0;
        while done < $count {
            let now = ($count - done).min(CHUNK);
            // Results go through a local array because the compiler must not assume that they overlap no later elements of the
            // operands; it would then give up on vectors.
            let mut $results = [const { MaybeUninit::<$R>::uninit() }; CHUNK];
            {
                $(
                    let mut padded = [Default::default(); CHUNK];
                    // SAFETY: `done + now <= count`.
                    let $operand = unsafe { chunk($from.add(done), now, &mut padded) };
                )*
                $compute
            }
            // SAFETY: `now <= CHUNK` results were computed, and `done + now <= count`.
            unsafe {
                let write = $write.cast::<$R>().add(done);
                std::ptr::copy_nonoverlapping($results.as_ptr().cast::<$R>(), write, now);
            }
            done += now;
        }
    };
}

/// # Safety
/// As [`MapFn`].
#[inline(always)]
unsafe fn map1_body<F: Map1>(count: usize, reads: &[*const u8; OPERANDS], write: *mut u8) {
    for_each_chunk!(count, write: F::R, [a: reads[0].cast::<F::A>()], results => {
        let mut any_rare = false;
        for (i, result) in results.iter_mut().enumerate() {
            // SAFETY: `i < CHUNK`.
            let a = unsafe { *a.add(i) };
            any_rare |= F::is_rare(a);
            result.write(F::apply(a));
        }
        if any_rare {
            for (i, result) in results.iter_mut().enumerate() {
                // SAFETY: `i < CHUNK`.
                let a = unsafe { *a.add(i) };
                if F::is_rare(a) {
                    result.write(F::rare(a));
                }
            }
        }
    });
}

/// # Safety
/// As [`MapFn`].
#[inline(always)]
unsafe fn map2_body<F: Map2>(count: usize, reads: &[*const u8; OPERANDS], write: *mut u8) {
    for_each_chunk!(count, write: F::R, [a: reads[0].cast::<F::A>(), b: reads[1].cast::<F::B>()], results => {
        for (i, result) in results.iter_mut().enumerate() {
            // SAFETY: `i < CHUNK`.
            let (a, b) = unsafe { (*a.add(i), *b.add(i)) };
            result.write(F::apply(a, b));
        }
    });
}

/// # Safety
/// As [`MapFn`].
#[inline(always)]
unsafe fn map3_body<F: Map3>(count: usize, reads: &[*const u8; OPERANDS], write: *mut u8) {
    for_each_chunk!(
        count, write: F::R,
        [a: reads[0].cast::<F::A>(), b: reads[1].cast::<F::B>(), c: reads[2].cast::<F::C>()],
        results => {
            for (i, result) in results.iter_mut().enumerate() {
                // SAFETY: `i < CHUNK`.
                let (a, b, c) = unsafe { (*a.add(i), *b.add(i), *c.add(i)) };
                result.write(F::apply(a, b, c));
            }
        }
    );
}

multiversion! {
    /// The [`MapFn`] of a function of one element.
    pub(super) fn map1<F: Map1>(count: usize, reads: &[*const u8; OPERANDS], write: *mut u8) = map1_body;
}
multiversion! {
    /// The [`MapFn`] of a function of two elements.
    pub(super) fn map2<F: Map2>(count: usize, reads: &[*const u8; OPERANDS], write: *mut u8) = map2_body;
}
multiversion! {
    /// The [`MapFn`] of a function of three elements.
    pub(super) fn map3<F: Map3>(count: usize, reads: &[*const u8; OPERANDS], write: *mut u8) = map3_body;
}
