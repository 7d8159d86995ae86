//! Loops over contiguous elements, for any function of one, two or three elements.
//!
//! In: a type that implements [`Map1`], [`Map2`] or [`Map3`]. Out: a [`MapFn`], compiled for an instruction
//! set. Invariant: elements are read before the result at their position is written, so a result may
//! overwrite an operand. There is no scalar remainder loop: the last elements of a row are padded to a whole
//! chunk, and cost as much as one.

use crate::multiversion;
use crate::simd::WIDEST;
use gradloom_codegen::cpu::loops::OPERANDS;
use std::mem::MaybeUninit;

/// Location of an operand's elements: rows of contiguous elements, or of one repeated element.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Operand {
    /// Address of the first element of the first row.
    pub(crate) start: *const u8,
    /// Stride between rows, in bytes.
    pub(crate) row_stride: usize,
    /// True if a row has a single element, which is used for every column.
    pub(crate) repeated: bool,
}

impl Operand {
    /// Returns an operand of a single row of contiguous elements.
    pub(crate) fn row(start: *const u8) -> Self {
        Self { start, row_stride: 0, repeated: false }
    }

    /// Returns the bits of a 4-byte element.
    ///
    /// # Safety
    /// `row` and `column` must lie within the operand.
    #[inline(always)]
    pub(crate) unsafe fn element(&self, row: usize, column: usize) -> u32 {
        let column = if self.repeated { 0 } else { column };
        // SAFETY: guaranteed by the caller.
        unsafe { *self.start.add(row * self.row_stride).cast::<u32>().add(column) }
    }

    /// Returns a placeholder for an operand that a function does not have.
    pub(crate) fn none() -> Self {
        Self::row(std::ptr::null())
    }
}

/// Destination of results: rows of contiguous elements.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ResultRows {
    /// Address of the first element of the first row.
    pub(crate) start: *mut u8,
    /// Stride between rows, in bytes.
    pub(crate) row_stride: usize,
}

/// Computes `rows` rows of `columns` results from the corresponding elements of each operand.
///
/// # Safety
/// The machine must support the instruction set that the function was compiled for. `operands` must be valid
/// for reads and `target` for writes at all positions, as elements of the function's types. A result may
/// overlap an operand only at its own position.
pub(crate) type MapFn =
    unsafe fn(rows: usize, columns: usize, operands: &[Operand; OPERANDS], target: ResultRows);

/// Number of elements of a chunk: four of the widest vectors.
pub(super) const CHUNK: usize = 4 * WIDEST;

/// A chunk of elements, aligned to a cache line.
#[repr(align(64))]
struct Padded<T>([MaybeUninit<T>; CHUNK]);

impl<T> Padded<T> {
    #[inline(always)]
    fn new() -> Self {
        Self([const { MaybeUninit::uninit() }; CHUNK])
    }
}

/// The remaining elements of one row of an operand.
struct RowRest<T> {
    /// Address of the next chunk.
    next: *const T,
    /// Stride between chunks, in elements; 0 for an operand whose only element fills the chunk's buffer.
    step: usize,
    /// True if results overwrite these elements.
    overwritten: bool,
}

impl<T: Copy + Default> RowRest<T> {
    /// Returns the elements of row `row`, whose results are written to `target`.
    ///
    /// # Safety
    /// `operand` must have row `row`. Nothing else may access the buffer `padded` while the row is read. It
    /// is a pointer because `next` may point into the buffer, and a new reference to the buffer would
    /// invalidate `next`.
    #[inline(always)]
    unsafe fn new(operand: &Operand, row: usize, target: *const u8, padded: *mut Padded<T>) -> Self {
        let start = operand.start.wrapping_add(row * operand.row_stride);
        if operand.repeated {
            // SAFETY: the row has an element, and nothing else accesses the buffer.
            unsafe { (*padded).0 = [MaybeUninit::new(*start.cast::<T>()); CHUNK] };
            return Self { next: padded.cast(), step: 0, overwritten: false };
        }
        Self { next: start.cast(), step: CHUNK, overwritten: start == target }
    }

    /// Returns the next chunk, in place or, if results will overwrite it, copied to the buffer.
    ///
    /// # Safety
    /// The row must have a whole chunk left; `padded` must be the pointer that was passed to
    /// [`RowRest::new`].
    #[inline(always)]
    unsafe fn chunk<'a>(&self, padded: *mut Padded<T>) -> &'a [T; CHUNK] {
        // SAFETY: guaranteed by the caller; an operand that results overwrite does not point to the buffer.
        unsafe {
            if self.overwritten {
                (*padded).0 = *self.next.cast::<[MaybeUninit<T>; CHUNK]>();
                return &*padded.cast();
            }
            &*self.next.cast()
        }
    }

    /// Returns the last `left < CHUNK` elements, padded to a whole chunk.
    ///
    /// # Safety
    /// The row must have `left` more elements; `padded` must be the pointer that was passed to
    /// [`RowRest::new`].
    #[inline(always)]
    unsafe fn rest<'a>(&self, left: usize, padded: *mut Padded<T>) -> &'a [T; CHUNK] {
        // SAFETY: `left < CHUNK`; a row of contiguous elements does not point to the buffer, and a repeated
        // element has already filled it.
        unsafe {
            if self.step == CHUNK {
                (*padded).0 = [MaybeUninit::new(T::default()); CHUNK];
                std::ptr::copy_nonoverlapping(self.next, padded.cast(), left);
            }
            &*padded.cast()
        }
    }

    /// Advances to the next chunk.
    #[inline(always)]
    fn advance(&mut self) {
        self.next = self.next.wrapping_add(self.step);
    }
}

/// The body of a [`MapFn`]: `$compute` fills the target from the operands' next elements, chunk by chunk. Its
/// arguments are references, from which the compiler infers that results do not overlap operands. Without
/// this information, it generates scalar or slower code.
///
/// This is a macro rather than a function that takes a closure, because a closure is a separate function,
/// which the compiler may leave uninlined and then compiles for the baseline instruction set.
macro_rules! for_each_chunk {
    (
        $rows:ident, $columns:ident, $target:ident: $R:ty,
        [$($a:ident: $A:ty = $operand:expr, $padded:ident),*], $compute:path
    ) => {
        $(let mut $padded = Padded::<$A>::new();)*
        $(let $padded = &raw mut $padded;)*
        let mut last = Padded::<$R>::new();
        for row in 0..$rows {
            let start = $target.start.wrapping_add(row * $target.row_stride);
            // SAFETY: each operand has `$rows` rows.
            $(let mut $a = unsafe { RowRest::<$A>::new(&$operand, row, start, $padded) };)*
            let mut write = start.cast::<MaybeUninit<$R>>();
            let mut left = $columns;
            while left >= CHUNK {
                // SAFETY: a whole chunk of elements is left, and room for as many results. Results overlap
                // operands only at their own positions, and such operands are copied first.
                unsafe { $compute($($a.chunk($padded),)* &mut *write.cast::<[MaybeUninit<$R>; CHUNK]>()) };
                $($a.advance();)*
                write = write.wrapping_add(CHUNK);
                left -= CHUNK;
            }
            if left > 0 {
                // SAFETY: `left` more elements remain, and room for as many results.
                unsafe {
                    $compute($($a.rest(left, $padded),)* &mut last.0);
                    std::ptr::copy_nonoverlapping(last.0.as_ptr(), write, left);
                }
            }
        }
    };
}

/// Defines a trait of functions of some elements, and the [`MapFn`] of such a function: its body, and the
/// body compiled for an instruction set.
macro_rules! maps {
    ($(
        $(#[$meta:meta])*
        $Map:ident, $map:ident = $body:ident:
        [$($A:ident $a:ident = $operand:literal, $padded:ident),*], $each:pat => $result:ident;
    )*) => {$(
        $(#[$meta])*
        pub(super) trait $Map: 'static {
            $(type $A: Copy + Default;)*
            type R: Copy;
            /// Computes a result. It may be wrong for operands whose results `chunk` computes again.
            fn apply($($a: Self::$A),*) -> Self::R;
            /// Computes a chunk of results. This is a method rather than a function, because the compiler's
            /// early inlining, which loses the fact that references do not overlap, cannot resolve a method.
            #[inline(always)]
            fn chunk($($a: &[Self::$A; CHUNK],)* results: &mut [MaybeUninit<Self::R>; CHUNK]) {
                for $each in results.iter_mut()$(.zip($a))* {
                    $result.write(Self::apply($($a),*));
                }
            }
        }

        /// # Safety
        /// Same as [`MapFn`].
        #[inline(always)]
        unsafe fn $body<F: $Map>(
            rows: usize,
            columns: usize,
            operands: &[Operand; OPERANDS],
            target: ResultRows,
        ) {
            for_each_chunk!(
                rows, columns, target: F::R, [$($a: F::$A = operands[$operand], $padded),*], F::chunk
            );
        }

        multiversion! {
            /// Returns the [`MapFn`] of a function.
            pub(super) fn $map<F: $Map>(
                rows: usize, columns: usize, operands: &[Operand; OPERANDS], target: ResultRows
            ) = $body, up to AVX2;
        }
    )*};
}
maps! {
    /// A function of one element.
    Map1, map1 = map1_body: [A a = 0, padded], (result, &a) => result;
    /// A function of two elements.
    Map2, map2 = map2_body: [A a = 0, padded_a, B b = 1, padded_b], ((result, &a), &b) => result;
    /// A function of three elements.
    Map3, map3 = map3_body:
        [A a = 0, padded_a, B b = 1, padded_b, C c = 2, padded_c], (((result, &a), &b), &c) => result;
}
