//! Vectors of f32: what the kernels of products and attention are written in, once for every processor.
//!
//! In: a generic function over [`Simd`]. Out: its instructions for AVX-512, AVX2, NEON, WebAssembly or none
//! in particular. Always holds: a value of a type that implements [`Simd`] proves that the processor has its
//! instructions; all operations round as IEEE 754 says, and only the number of lanes, the order of sums and
//! whether a product is rounded before it is added differ.
//!
//! Generic functions are `#[inline(always)]` up to a [`Vectorized`], which [`Simd::vectorize`] compiles with
//! the instructions; a closure's body would be compiled without them.

// Vectors are small arrays; their loops over indices with constant bounds are what unrolls into registers.
#![allow(clippy::needless_range_loop)]

#[cfg(target_arch = "aarch64")]
mod neon;
#[cfg(not(any(target_arch = "aarch64", all(target_arch = "wasm32", target_feature = "simd128"))))]
mod portable;
#[cfg(test)]
mod tests;
#[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
mod wasm;
#[cfg(target_arch = "x86_64")]
mod x86;

use super::InstructionSet;
use gradloom_core::ir::half;

#[cfg(target_arch = "aarch64")]
use neon::Neon as Baseline;
#[cfg(not(any(target_arch = "aarch64", all(target_arch = "wasm32", target_feature = "simd128"))))]
use portable::Portable as Baseline;
#[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
use wasm::Wasm as Baseline;

/// Lanes of the widest vectors.
pub(super) const WIDEST: usize = 16;

/// Code that is compiled for an instruction set.
pub(super) trait Vectorized {
    /// Runs it; must be `#[inline(always)]`.
    fn with_simd<S: Simd>(self, simd: S);
}

/// An instruction set's vectors.
///
/// # Safety
/// A value of the type exists only where the processor has the instructions of its methods, and `F32s` is
/// [`LANES`](Self::LANES) floats side by side, [`WIDEST`] at most.
pub(super) unsafe trait Simd: Copy {
    /// A vector of [`LANES`](Self::LANES) f32, as memory has them.
    type F32s: Copy;
    /// f32 in a vector.
    const LANES: usize;
    /// Vectors that fit in registers.
    const REGISTERS: usize;

    /// Calls a function of its own that is compiled with these instructions; here with those that the crate
    /// is compiled for.
    #[inline(always)]
    fn vectorize(self, code: impl Vectorized) {
        #[inline(never)]
        fn run<S: Simd>(simd: S, code: impl Vectorized) {
            code.with_simd(simd);
        }
        run(self, code);
    }

    /// Returns a number in all lanes.
    fn splat(self, value: f32) -> Self::F32s;
    /// Returns `a + b`.
    fn add(self, a: Self::F32s, b: Self::F32s) -> Self::F32s;
    /// Returns `a - b`.
    fn sub(self, a: Self::F32s, b: Self::F32s) -> Self::F32s;
    /// Returns `a · b`.
    fn mul(self, a: Self::F32s, b: Self::F32s) -> Self::F32s;
    /// Returns `a · b + c`, where the product is rounded only if there is no instruction for both.
    fn mul_add(self, a: Self::F32s, b: Self::F32s, c: Self::F32s) -> Self::F32s;
    /// Returns the larger one; `b` if that is NaN, either if `a` is.
    fn max(self, a: Self::F32s, b: Self::F32s) -> Self::F32s;
    /// Returns `then` where `a < b`, and `otherwise` elsewhere.
    fn select_less(self, a: Self::F32s, b: Self::F32s, then: Self::F32s, otherwise: Self::F32s)
    -> Self::F32s;
    /// Returns 2 to the power n, for n from -126 to 127 in the low 9 bits of each lane.
    fn power_of_two(self, n: Self::F32s) -> Self::F32s;
    /// Returns the sum of all lanes.
    fn sum(self, a: Self::F32s) -> f32;
    /// Returns the largest lane, if none is NaN.
    fn largest(self, a: Self::F32s) -> f32;

    /// Reads a vector from any address.
    ///
    /// # Safety
    /// A vector's floats must be readable there.
    #[inline(always)]
    unsafe fn load(self, from: *const f32) -> Self::F32s {
        // SAFETY: as promised by the caller; vectors are plain data.
        unsafe { from.cast::<Self::F32s>().read_unaligned() }
    }

    /// Writes a vector to any address.
    ///
    /// # Safety
    /// A vector's floats must be writable there.
    #[inline(always)]
    unsafe fn store(self, to: *mut f32, value: Self::F32s) {
        // SAFETY: as promised by the caller.
        unsafe { to.cast::<Self::F32s>().write_unaligned(value) }
    }

    /// Reads the first `count` lanes; the others are 0.
    ///
    /// # Safety
    /// So many floats must be readable, and there must be so many lanes.
    #[inline(always)]
    unsafe fn load_first(self, count: usize, from: *const f32) -> Self::F32s {
        let mut lanes = [0.0; WIDEST];
        // SAFETY: as promised by the caller.
        unsafe {
            for i in 0..count {
                lanes[i] = *from.add(i);
            }
            self.load(lanes.as_ptr())
        }
    }

    /// Writes the first `count` lanes.
    ///
    /// # Safety
    /// So many floats must be writable, and there must be so many lanes.
    #[inline(always)]
    unsafe fn store_first(self, count: usize, to: *mut f32, value: Self::F32s) {
        let mut lanes = [0.0; WIDEST];
        // SAFETY: as promised by the caller.
        unsafe {
            self.store(lanes.as_mut_ptr(), value);
            for i in 0..count {
                *to.add(i) = lanes[i];
            }
        }
    }

    /// Returns the first `count` lanes of `a`, and `otherwise` in the others.
    #[inline(always)]
    fn first(self, count: usize, a: Self::F32s, otherwise: Self::F32s) -> Self::F32s {
        let mut lanes = [0.0; WIDEST];
        // SAFETY: no vector has more lanes than the widest.
        unsafe {
            self.store(lanes.as_mut_ptr(), otherwise);
            self.store_first(count.min(Self::LANES), lanes.as_mut_ptr(), a);
            self.load(lanes.as_ptr())
        }
    }

    /// Loads an i8 for each lane, as f32.
    ///
    /// # Safety
    /// They must be readable.
    #[inline(always)]
    unsafe fn load_i8(self, from: *const u8) -> Self::F32s {
        // SAFETY: as promised by the caller.
        unsafe { self.load_each(|i| f32::from((*from.add(i)).cast_signed())) }
    }

    /// Loads the low or the high four bits of a byte for each lane, less 8.
    ///
    /// # Safety
    /// They must be readable.
    #[inline(always)]
    unsafe fn load_nibbles(self, from: *const u8, high: bool) -> Self::F32s {
        let shift = if high { 4 } else { 0 };
        // SAFETY: as promised by the caller.
        unsafe { self.load_each(|i| f32::from(*from.add(i) >> shift & 0xf) - 8.0) }
    }

    /// Loads an f16 for each lane, as f32.
    ///
    /// # Safety
    /// They must be readable.
    #[inline(always)]
    unsafe fn load_f16(self, from: *const u16) -> Self::F32s {
        // SAFETY: as promised by the caller.
        unsafe { self.load_each(|i| half::from_f16(*from.add(i))) }
    }

    /// Loads a bf16 for each lane, as f32.
    ///
    /// # Safety
    /// They must be readable.
    #[inline(always)]
    unsafe fn load_bf16(self, from: *const u16) -> Self::F32s {
        // SAFETY: as promised by the caller.
        unsafe { self.load_each(|i| half::from_bf16(*from.add(i))) }
    }

    /// Returns an f16 in all lanes.
    #[inline(always)]
    fn splat_f16(self, bits: u16) -> Self::F32s {
        self.splat(half::from_f16(bits))
    }

    /// Returns a vector, lane by lane.
    #[inline(always)]
    fn load_each(self, lane: impl Fn(usize) -> f32) -> Self::F32s {
        let mut lanes = [0.0; WIDEST];
        for i in 0..Self::LANES {
            lanes[i] = lane(i);
        }
        // SAFETY: no vector has more lanes than the widest.
        unsafe { self.load(lanes.as_ptr()) }
    }
}

/// Runs code that is compiled for a level.
///
/// # Safety
/// The machine must have the level.
pub(super) unsafe fn dispatch(level: InstructionSet, code: impl Vectorized) {
    match level {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as promised by the caller.
        InstructionSet::Avx512 => unsafe { x86::Avx512::new() }.vectorize(code),
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as promised by the caller.
        InstructionSet::Avx2 => unsafe { x86::Avx2::new() }.vectorize(code),
        _ => Baseline.vectorize(code),
    }
}

/// Defines methods of a [`Simd`] by instructions that its values prove to be there.
#[allow(unused_macros, reason = "portable vectors have none")]
macro_rules! instructions {
    ($(fn $name:ident($($arg:ident: $ty:ty),*) -> $ret:ty = $body:expr;)*) => {
        $(
            #[inline(always)]
            fn $name(self, $($arg: $ty),*) -> $ret {
                #[allow(unused_unsafe)]
                // SAFETY: a value of this type proves that the processor has the instructions.
                unsafe { $body }
            }
        )*
    };
}
#[allow(unused_imports, reason = "portable vectors have none")]
use instructions;
