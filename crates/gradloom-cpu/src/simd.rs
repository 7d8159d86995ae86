//! Portable vectors of f32, in which the kernels of products and attention are written.
//!
//! In: a generic function over [`Simd`]. Out: its instructions for AVX-512, AVX2, NEON, WebAssembly or any
//! processor. Invariant: a value of a type that implements [`Simd`] proves that the processor supports its
//! instructions. All operations round as specified by IEEE 754; only the number of lanes, the order of sums,
//! and whether a product is rounded before it is added differ.
//!
//! Generic functions are `#[inline(always)]` up to a [`Vectorized`], which [`Simd::vectorize`] compiles with
//! these instructions. The body of a closure would be compiled without them.

// Vectors are small arrays. Loops over indices with constant bounds unroll, which keeps vectors in registers.
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

/// Number of lanes of the widest vectors that the architecture has.
pub(super) const WIDEST: usize = if cfg!(target_arch = "x86_64") { 16 } else { 4 };

/// Code that is compiled for an instruction set.
pub(super) trait Vectorized {
    /// Runs the code; implementations must be `#[inline(always)]`.
    fn with_simd<S: Simd>(self, simd: S);
}

/// The vectors of an instruction set.
///
/// # Safety
/// A value of the type may exist only if the processor supports the instructions of its methods. `F32s` must
/// consist of [`LANES`](Self::LANES) contiguous floats, at most [`WIDEST`].
pub(super) unsafe trait Simd: Copy {
    /// A vector of [`LANES`](Self::LANES) f32, in the order in which they are stored in memory.
    type F32s: Copy;
    /// Number of f32 in a vector.
    const LANES: usize;
    /// Number of vector registers.
    const REGISTERS: usize;

    /// Runs code in a separate function that is compiled with these instructions. The default implementation
    /// uses the instructions that the crate is compiled for.
    #[inline(always)]
    fn vectorize(self, code: impl Vectorized) {
        #[inline(never)]
        fn run<S: Simd>(simd: S, code: impl Vectorized) {
            code.with_simd(simd);
        }
        run(self, code);
    }

    /// Returns a vector with `value` in all lanes.
    fn splat(self, value: f32) -> Self::F32s;
    /// Returns `a + b`.
    fn add(self, a: Self::F32s, b: Self::F32s) -> Self::F32s;
    /// Returns `a - b`.
    fn sub(self, a: Self::F32s, b: Self::F32s) -> Self::F32s;
    /// Returns `a · b`.
    fn mul(self, a: Self::F32s, b: Self::F32s) -> Self::F32s;
    /// Returns `a · b + c`. The product is rounded only if there is no fused instruction.
    fn mul_add(self, a: Self::F32s, b: Self::F32s, c: Self::F32s) -> Self::F32s;
    /// Returns the larger operand; `b` if `b` is NaN, and either operand if `a` is.
    fn max(self, a: Self::F32s, b: Self::F32s) -> Self::F32s;
    /// Returns `then` where `a < b`, and `otherwise` elsewhere.
    fn select_less(self, a: Self::F32s, b: Self::F32s, then: Self::F32s, otherwise: Self::F32s)
    -> Self::F32s;
    /// Returns 2 to the power n, where n is an integer from -126 to 127 in the low 9 bits of each lane.
    fn power_of_two(self, n: Self::F32s) -> Self::F32s;
    /// Returns the sum of all lanes.
    fn sum(self, a: Self::F32s) -> f32;
    /// Returns the largest lane, if none is NaN.
    fn largest(self, a: Self::F32s) -> f32;

    /// Reads a vector from an address of any alignment.
    ///
    /// # Safety
    /// A whole vector of floats must be readable at `from`.
    #[inline(always)]
    unsafe fn load(self, from: *const f32) -> Self::F32s {
        // SAFETY: guaranteed by the caller; vectors are plain data.
        unsafe { from.cast::<Self::F32s>().read_unaligned() }
    }

    /// Writes a vector to an address of any alignment.
    ///
    /// # Safety
    /// A whole vector of floats must be writable at `to`.
    #[inline(always)]
    unsafe fn store(self, to: *mut f32, value: Self::F32s) {
        // SAFETY: guaranteed by the caller.
        unsafe { to.cast::<Self::F32s>().write_unaligned(value) }
    }

    /// Reads the first `count` lanes; the others are 0.
    ///
    /// # Safety
    /// `count` floats must be readable at `from`, and `count` must be at most the number of lanes.
    #[inline(always)]
    unsafe fn load_first(self, count: usize, from: *const f32) -> Self::F32s {
        let mut lanes = [0.0; WIDEST];
        // SAFETY: guaranteed by the caller.
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
    /// `count` floats must be writable at `to`, and `count` must be at most the number of lanes.
    #[inline(always)]
    unsafe fn store_first(self, count: usize, to: *mut f32, value: Self::F32s) {
        let mut lanes = [0.0; WIDEST];
        // SAFETY: guaranteed by the caller.
        unsafe {
            self.store(lanes.as_mut_ptr(), value);
            for i in 0..count {
                *to.add(i) = lanes[i];
            }
        }
    }

    /// Returns a vector with the first `count` lanes of `a` and the other lanes of `otherwise`.
    #[inline(always)]
    fn first(self, count: usize, a: Self::F32s, otherwise: Self::F32s) -> Self::F32s {
        let mut lanes = [0.0; WIDEST];
        // SAFETY: no vector has more than `WIDEST` lanes.
        unsafe {
            self.store(lanes.as_mut_ptr(), otherwise);
            self.store_first(count.min(Self::LANES), lanes.as_mut_ptr(), a);
            self.load(lanes.as_ptr())
        }
    }

    /// Reads one i8 per lane and converts it to f32.
    ///
    /// # Safety
    /// One byte per lane must be readable at `from`.
    #[inline(always)]
    unsafe fn load_i8(self, from: *const u8) -> Self::F32s {
        // SAFETY: guaranteed by the caller.
        unsafe { self.load_each(|i| f32::from((*from.add(i)).cast_signed())) }
    }

    /// Reads the low or high four bits of one byte per lane, subtracts 8 and converts to f32.
    ///
    /// # Safety
    /// One byte per lane must be readable at `from`.
    #[inline(always)]
    unsafe fn load_nibbles(self, from: *const u8, high: bool) -> Self::F32s {
        let shift = if high { 4 } else { 0 };
        // SAFETY: guaranteed by the caller.
        unsafe { self.load_each(|i| f32::from(*from.add(i) >> shift & 0xf) - 8.0) }
    }

    /// Reads one f16 per lane and converts it to f32.
    ///
    /// # Safety
    /// One f16 per lane must be readable at `from`.
    #[inline(always)]
    unsafe fn load_f16(self, from: *const u16) -> Self::F32s {
        // SAFETY: guaranteed by the caller.
        unsafe { self.load_each(|i| half::from_f16(*from.add(i))) }
    }

    /// Reads one bf16 per lane and converts it to f32.
    ///
    /// # Safety
    /// One bf16 per lane must be readable at `from`.
    #[inline(always)]
    unsafe fn load_bf16(self, from: *const u16) -> Self::F32s {
        // SAFETY: guaranteed by the caller.
        unsafe { self.load_each(|i| half::from_bf16(*from.add(i))) }
    }

    /// Returns a vector with an f16, converted to f32, in all lanes.
    #[inline(always)]
    fn splat_f16(self, bits: u16) -> Self::F32s {
        self.splat(half::from_f16(bits))
    }

    /// Returns a vector whose lanes are computed by `lane`.
    #[inline(always)]
    fn load_each(self, lane: impl Fn(usize) -> f32) -> Self::F32s {
        let mut lanes = [0.0; WIDEST];
        for i in 0..Self::LANES {
            lanes[i] = lane(i);
        }
        // SAFETY: no vector has more than `WIDEST` lanes.
        unsafe { self.load(lanes.as_ptr()) }
    }
}

/// Runs code that is compiled for an instruction set.
///
/// # Safety
/// The machine must support the instruction set `level`.
pub(super) unsafe fn dispatch(level: InstructionSet, code: impl Vectorized) {
    match level {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: guaranteed by the caller.
        InstructionSet::Avx512 | InstructionSet::Avx512Bf16 | InstructionSet::AmxBf16 => {
            unsafe { x86::Avx512::new() }.vectorize(code);
        }
        #[cfg(target_arch = "x86_64")]
        // SAFETY: guaranteed by the caller.
        InstructionSet::Avx2 => unsafe { x86::Avx2::new() }.vectorize(code),
        _ => Baseline.vectorize(code),
    }
}

/// Defines methods of a [`Simd`] that consist of instructions whose support its values prove.
#[allow(unused_macros, reason = "portable vectors have none")]
macro_rules! instructions {
    ($(fn $name:ident($($arg:ident: $ty:ty),*) -> $ret:ty = $body:expr;)*) => {
        $(
            #[inline(always)]
            fn $name(self, $($arg: $ty),*) -> $ret {
                #[allow(unused_unsafe)]
                // SAFETY: a value of this type proves that the processor supports the instructions.
                unsafe { $body }
            }
        )*
    };
}
#[allow(unused_imports, reason = "portable vectors have none")]
use instructions;
