//! Vectors without SIMD instructions: arrays of four numbers, processed one by one.
//!
//! In: the operations of [`Simd`]. Out: code that LLVM may vectorize. Invariant: products are rounded
//! before they are added.

use super::Simd;

/// Vectors of four floats on any processor.
#[derive(Clone, Copy)]
pub(super) struct Portable;

type Lanes = [f32; 4];

#[inline(always)]
fn each(lane: impl Fn(usize) -> f32) -> Lanes {
    [lane(0), lane(1), lane(2), lane(3)]
}

// SAFETY: no special instructions are required, and `F32s` is an array.
unsafe impl Simd for Portable {
    type F32s = Lanes;
    const LANES: usize = 4;
    const REGISTERS: usize = 16;

    #[inline(always)]
    fn splat(self, value: f32) -> Lanes {
        [value; 4]
    }

    #[inline(always)]
    fn add(self, a: Lanes, b: Lanes) -> Lanes {
        each(|i| a[i] + b[i])
    }

    #[inline(always)]
    fn sub(self, a: Lanes, b: Lanes) -> Lanes {
        each(|i| a[i] - b[i])
    }

    #[inline(always)]
    fn mul(self, a: Lanes, b: Lanes) -> Lanes {
        each(|i| a[i] * b[i])
    }

    #[inline(always)]
    fn mul_add(self, a: Lanes, b: Lanes, c: Lanes) -> Lanes {
        each(|i| a[i] * b[i] + c[i])
    }

    #[inline(always)]
    fn max(self, a: Lanes, b: Lanes) -> Lanes {
        self.select_less(b, a, a, b)
    }

    #[inline(always)]
    fn select_less(self, a: Lanes, b: Lanes, then: Lanes, otherwise: Lanes) -> Lanes {
        each(|i| if a[i] < b[i] { then[i] } else { otherwise[i] })
    }

    #[inline(always)]
    fn power_of_two(self, n: Lanes) -> Lanes {
        each(|i| f32::from_bits((n[i].to_bits() << 23).wrapping_add(0x3f80_0000)))
    }

    #[inline(always)]
    fn sum(self, a: Lanes) -> f32 {
        (a[0] + a[2]) + (a[1] + a[3])
    }

    #[inline(always)]
    fn largest(self, a: Lanes) -> f32 {
        a[0].max(a[2]).max(a[1].max(a[3]))
    }
}
