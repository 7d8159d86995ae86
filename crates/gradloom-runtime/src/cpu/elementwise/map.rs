//! Loops over contiguous elements, for any function of one, two or three of them.
//!
//! In: a type that implements [`Map1`], [`Map2`] or [`Map3`]. Out: a [`MapFn`], compiled for an instruction set.
//! Always holds: elements are read before the result at their position is written, so a result may overwrite an operand; there is
//! no scalar remainder loop: the last elements of a row are padded to a whole chunk, and so cost what a chunk costs.

use crate::cpu::multiversion::multiversion;
use std::mem::MaybeUninit;

/// Most operands of an elementwise function.
pub(in crate::cpu) const OPERANDS: usize = 3;

/// Where the elements of an operand are: rows of elements next to each other, or of one repeated element.
#[derive(Clone, Copy, Debug)]
pub(in crate::cpu) struct Operand {
    /// First element of the first row.
    pub(in crate::cpu) start: *const u8,
    /// Bytes from the start of a row to the next.
    pub(in crate::cpu) row_stride: usize,
    /// Whether a row has one element, which stands for all.
    pub(in crate::cpu) repeated: bool,
}

impl Operand {
    /// An operand of one row.
    pub(in crate::cpu) fn row(start: *const u8) -> Self {
        Self { start, row_stride: 0, repeated: false }
    }

    /// What fills the place of an operand that a function does not have.
    pub(in crate::cpu) fn none() -> Self {
        Self::row(std::ptr::null())
    }
}

/// Where results go: rows of elements next to each other.
#[derive(Clone, Copy, Debug)]
pub(in crate::cpu) struct Target {
    /// First element of the first row.
    pub(in crate::cpu) start: *mut u8,
    /// Bytes from the start of a row to the next.
    pub(in crate::cpu) row_stride: usize,
}

/// Computes `rows` rows of `columns` results from as many elements of each operand.
///
/// # Safety
/// The machine has the level that the function was made for. The operands that the function has can be read, and the results written,
/// at all positions, as elements of its types. A result overlaps no element of an operand but the one at its own position.
pub(in crate::cpu) type MapFn =
    unsafe fn(rows: usize, columns: usize, operands: &[Operand; OPERANDS], target: Target);

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

/// A chunk of elements, at the start of a cache line.
#[repr(align(64))]
struct Padded<T>([T; CHUNK]);

/// What is left of one row of an operand.
struct Row<T> {
    /// The next chunk.
    next: *const T,
    /// Elements from a chunk to the next: none for an operand whose only element fills the chunk's buffer.
    step: usize,
}

impl<T: Copy + Default> Row<T> {
    /// Row number `row`.
    ///
    /// # Safety
    /// The operand has that row.
    #[inline(always)]
    unsafe fn new(operand: &Operand, row: usize, padded: &mut Padded<T>) -> Self {
        let start = operand.start.wrapping_add(row * operand.row_stride).cast::<T>();
        if operand.repeated {
            // SAFETY: the row's one element.
            padded.0 = [unsafe { *start }; CHUNK];
            return Self { next: padded.0.as_ptr(), step: 0 };
        }
        Self { next: start, step: CHUNK }
    }

    /// Pads the last `left < CHUNK` elements to a whole chunk.
    ///
    /// # Safety
    /// The row has `left` more elements; `padded` is what [`Row::new`] was given.
    #[inline(always)]
    unsafe fn pad(&mut self, left: usize, padded: &mut Padded<T>) {
        if self.step == CHUNK {
            padded.0 = [T::default(); CHUNK];
            // SAFETY: `left < CHUNK`, and the buffer is not what the operand points to.
            unsafe { std::ptr::copy_nonoverlapping(self.next, padded.0.as_mut_ptr(), left) };
            self.next = padded.0.as_ptr();
        }
    }

    /// Goes to the next chunk.
    #[inline(always)]
    fn advance(&mut self) {
        self.next = self.next.wrapping_add(self.step);
    }
}

/// The body of a [`MapFn`]: chunk by chunk, `$compute` fills `$results` from the operands' next elements, each padded to a chunk.
///
/// A macro and not a function of a closure: a closure is a function of its own, which the compiler may leave uninlined and then
/// compiles for the baseline.
macro_rules! for_each_chunk {
    ($rows:ident, $columns:ident, $target:ident: $R:ty, [$($a:ident: $A:ty = $operand:expr, $padded:ident),*], $results:ident => $compute:expr) => {
        $(let mut $padded = Padded::<$A>([Default::default(); CHUNK]);)*
        let mut last = [const { MaybeUninit::<$R>::uninit() }; CHUNK];
        for row in 0..$rows {
            let mut write = $target.start.wrapping_add(row * $target.row_stride).cast::<MaybeUninit<$R>>();
            // SAFETY: each operand has `$rows` rows.
            $(let mut $a = unsafe { Row::<$A>::new(&$operand, row, &mut $padded) };)*
            let mut left = $columns;
            while left > 0 {
                let whole = left >= CHUNK;
                if !whole {
                    // SAFETY: the row has `left` more elements.
                    $(unsafe { $a.pad(left, &mut $padded) };)*
                }
                // Results go through a local array because the compiler must not assume that they overlap no later elements of the
                // operands; it would then give up on vectors.
                let mut $results = [const { MaybeUninit::<$R>::uninit() }; CHUNK];
                {
                    $(let $a = $a.next;)*
                    $compute
                }
                // SAFETY: there is room for `left` results, in `last` for a whole chunk. The copy of a whole chunk has a constant
                // length, and so is no call.
                unsafe {
                    let to = if whole { write } else { last.as_mut_ptr() };
                    std::ptr::copy_nonoverlapping($results.as_ptr(), to, CHUNK);
                    if !whole {
                        std::ptr::copy_nonoverlapping(last.as_ptr(), write, left);
                        break;
                    }
                }
                $($a.advance();)*
                write = write.wrapping_add(CHUNK);
                left -= CHUNK;
            }
        }
    };
}

/// # Safety
/// As [`MapFn`].
#[inline(always)]
unsafe fn map1_body<F: Map1>(rows: usize, columns: usize, operands: &[Operand; OPERANDS], target: Target) {
    for_each_chunk!(rows, columns, target: F::R, [a: F::A = operands[0], padded], results => {
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
unsafe fn map2_body<F: Map2>(rows: usize, columns: usize, operands: &[Operand; OPERANDS], target: Target) {
    for_each_chunk!(
        rows, columns, target: F::R,
        [a: F::A = operands[0], padded_a, b: F::B = operands[1], padded_b],
        results => {
            for (i, result) in results.iter_mut().enumerate() {
                // SAFETY: `i < CHUNK`.
                let (a, b) = unsafe { (*a.add(i), *b.add(i)) };
                result.write(F::apply(a, b));
            }
        }
    );
}

/// # Safety
/// As [`MapFn`].
#[inline(always)]
unsafe fn map3_body<F: Map3>(rows: usize, columns: usize, operands: &[Operand; OPERANDS], target: Target) {
    for_each_chunk!(
        rows, columns, target: F::R,
        [a: F::A = operands[0], padded_a, b: F::B = operands[1], padded_b, c: F::C = operands[2], padded_c],
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
    pub(super) fn map1<F: Map1>(rows: usize, columns: usize, operands: &[Operand; OPERANDS], target: Target) = map1_body;
}
multiversion! {
    /// The [`MapFn`] of a function of two elements.
    pub(super) fn map2<F: Map2>(rows: usize, columns: usize, operands: &[Operand; OPERANDS], target: Target) = map2_body;
}
multiversion! {
    /// The [`MapFn`] of a function of three elements.
    pub(super) fn map3<F: Map3>(rows: usize, columns: usize, operands: &[Operand; OPERANDS], target: Target) = map3_body;
}
