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
    /// Whether [`Map1::is_rare`] and [`Map1::rare`] are to be asked.
    const HAS_RARE: bool = false;
    /// The result, branch-free.
    fn apply(a: Self::A) -> Self::R;
    /// Whether [`Map1::apply`] is wrong for this element.
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
unsafe fn chunk<T: Copy + Default>(from: *const T, count: usize, padded: &mut [T; CHUNK]) -> *const T {
    if count == CHUNK {
        return from;
    }
    *padded = [T::default(); CHUNK];
    // SAFETY: `count < CHUNK`, and the array is not what the caller's pointer points to.
    unsafe { std::ptr::copy_nonoverlapping(from, padded.as_mut_ptr(), count) };
    padded.as_ptr()
}

/// Writes `count` results, chunk by chunk; `compute(done, count, results)` fills the chunk at `done`.
///
/// # Safety
/// `write` takes `count` results.
#[inline(always)]
unsafe fn chunks<R: Copy>(
    count: usize,
    write: *mut R,
    mut compute: impl FnMut(usize, usize, &mut [MaybeUninit<R>; CHUNK]),
) {
    let mut done = 0;
    while done < count {
        let now = (count - done).min(CHUNK);
        // Results go through a local array because the compiler must not assume that they overlap the operands' later elements;
        // it would then give up on vectors.
        let mut results = [const { MaybeUninit::uninit() }; CHUNK];
        compute(done, now, &mut results);
        // SAFETY: `now <= CHUNK` results were computed, and `done + now <= count`.
        unsafe { std::ptr::copy_nonoverlapping(results.as_ptr().cast::<R>(), write.add(done), now) };
        done += now;
    }
}

/// # Safety
/// As [`MapFn`].
#[inline(always)]
unsafe fn map1_body<F: Map1>(count: usize, reads: &[*const u8; OPERANDS], write: *mut u8) {
    let a = reads[0].cast::<F::A>();
    let mut a_pad = [F::A::default(); CHUNK];
    // SAFETY: the caller's promise, for elements `done .. done + now` at a time; a chunk has CHUNK elements.
    unsafe {
        chunks(count, write.cast::<F::R>(), |done, now, results| {
            let a = chunk(a.add(done), now, &mut a_pad);
            for (i, result) in results.iter_mut().enumerate() {
                result.write(F::apply(*a.add(i)));
            }
            if F::HAS_RARE && (0..CHUNK).fold(false, |any, i| any | F::is_rare(*a.add(i))) {
                for (i, result) in results.iter_mut().enumerate().filter(|&(i, _)| F::is_rare(*a.add(i))) {
                    result.write(F::rare(*a.add(i)));
                }
            }
        });
    }
}

/// # Safety
/// As [`MapFn`].
#[inline(always)]
unsafe fn map2_body<F: Map2>(count: usize, reads: &[*const u8; OPERANDS], write: *mut u8) {
    let (a, b) = (reads[0].cast::<F::A>(), reads[1].cast::<F::B>());
    let (mut a_pad, mut b_pad) = ([F::A::default(); CHUNK], [F::B::default(); CHUNK]);
    // SAFETY: as in `map1_body`.
    unsafe {
        chunks(count, write.cast::<F::R>(), |done, now, results| {
            let a = chunk(a.add(done), now, &mut a_pad);
            let b = chunk(b.add(done), now, &mut b_pad);
            for (i, result) in results.iter_mut().enumerate() {
                result.write(F::apply(*a.add(i), *b.add(i)));
            }
        });
    }
}

/// # Safety
/// As [`MapFn`].
#[inline(always)]
unsafe fn map3_body<F: Map3>(count: usize, reads: &[*const u8; OPERANDS], write: *mut u8) {
    let (a, b, c) = (reads[0].cast::<F::A>(), reads[1].cast::<F::B>(), reads[2].cast::<F::C>());
    let (mut a_pad, mut b_pad, mut c_pad) =
        ([F::A::default(); CHUNK], [F::B::default(); CHUNK], [F::C::default(); CHUNK]);
    // SAFETY: as in `map1_body`.
    unsafe {
        chunks(count, write.cast::<F::R>(), |done, now, results| {
            let a = chunk(a.add(done), now, &mut a_pad);
            let b = chunk(b.add(done), now, &mut b_pad);
            let c = chunk(c.add(done), now, &mut c_pad);
            for (i, result) in results.iter_mut().enumerate() {
                result.write(F::apply(*a.add(i), *b.add(i), *c.add(i)));
            }
        });
    }
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
