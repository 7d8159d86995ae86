//! Conversions between 16-bit floats and f32. They are branch-free so that loops over them vectorize.

use super::DType;

/// Converts an f16 to f32.
#[inline(always)]
pub fn from_f16(bits: u16) -> f32 {
    let (sign, magnitude) = (u32::from(bits & 0x8000) << 16, u32::from(bits & 0x7fff) << 13);
    // Multiply by 2^112 to correct the exponent bias (127 - 15). This is also correct for subnormals.
    let scaled = (f32::from_bits(magnitude) * f32::from_bits(0x7780_0000)).to_bits();
    let infinite = if magnitude >= 0x0f80_0000 { 0x7f80_0000 } else { 0 };
    f32::from_bits(scaled | infinite | sign)
}

/// Converts to the nearest f16, with ties to even. Magnitudes from 65,520 on become infinite.
#[inline(always)]
pub fn to_f16(x: f32) -> u16 {
    let (sign, magnitude) = (x.to_bits() >> 16 & 0x8000, x.to_bits() & 0x7fff_ffff);
    let normal = (magnitude + 0x0fff + (magnitude >> 13 & 1)).wrapping_sub(112 << 23) >> 13;
    // Adding 0.5 rounds to the spacing of f16's subnormals, which is that of the f32 numbers in 0.5..1.
    let subnormal = (f32::from_bits(magnitude) + 0.5).to_bits().wrapping_sub(0x3f00_0000);
    let finite = if magnitude < 0x3880_0000 { subnormal } else { normal };
    let large = if magnitude > 0x7f80_0000 { 0x7e00 } else { 0x7c00 };
    ((if magnitude >= 0x477f_f000 { large } else { finite }) | sign) as u16
}

/// Converts a bf16 to f32.
#[inline(always)]
pub fn from_bf16(bits: u16) -> f32 {
    f32::from_bits(u32::from(bits) << 16)
}

/// Converts to the nearest bf16, with ties to even.
#[inline(always)]
pub fn to_bf16(x: f32) -> u16 {
    let bits = x.to_bits();
    let rounded = bits.wrapping_add(0x7fff + (bits >> 16 & 1));
    (if bits & 0x7fff_ffff > 0x7f80_0000 { bits | 0x0040_0000 } else { rounded } >> 16) as u16
}

impl DType {
    /// Returns the bits of the nearest number of this 16-bit float dtype.
    ///
    /// # Panics
    /// Panics if this is not a 16-bit float dtype.
    pub fn narrow_bits(self, x: f32) -> u16 {
        match self {
            DType::F16 => to_f16(x),
            DType::BF16 => to_bf16(x),
            _ => panic!("{self} has not 16 bits"),
        }
    }

    /// Returns the number with these bits in this 16-bit float dtype.
    ///
    /// # Panics
    /// Panics if this is not a 16-bit float dtype.
    pub fn of_narrow_bits(self, bits: u16) -> f32 {
        match self {
            DType::F16 => from_f16(bits),
            DType::BF16 => from_bf16(bits),
            _ => panic!("{self} has not 16 bits"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_of_16_bits_comes_back() {
        for bits in 0..=u16::MAX {
            for dtype in [DType::F16, DType::BF16] {
                let x = dtype.of_narrow_bits(bits);
                match x.is_nan() {
                    true => assert!(dtype.of_narrow_bits(dtype.narrow_bits(x)).is_nan()),
                    false => assert_eq!(dtype.narrow_bits(x), bits, "{dtype} {x}"),
                }
            }
        }
        assert_eq!(
            [0x3c00, 0x0001, 0x7bff, 0xfc00].map(from_f16),
            [1.0, 2.0_f32.powi(-24), 65_504.0, f32::NEG_INFINITY]
        );
    }

    #[test]
    fn the_nearest_is_chosen_and_ties_are_even() {
        for dtype in [DType::F16, DType::BF16] {
            let largest = if dtype == DType::F16 { 0x7bff } else { 0x7f7f };
            for bits in 0..largest {
                let [a, b] = [bits, bits + 1].map(|bits| dtype.of_narrow_bits(bits));
                // The midpoint is exact because both numbers have few significant bits.
                let middle = ((f64::from(a) + f64::from(b)) / 2.0) as f32;
                let even = if bits % 2 == 0 { bits } else { bits + 1 };
                assert_eq!(dtype.narrow_bits(middle), even, "{dtype} between {a} and {b}");
                assert_eq!(dtype.narrow_bits(middle.next_up()), bits + 1);
                assert_eq!(dtype.narrow_bits(-middle.next_down()), bits | 0x8000);
                assert_eq!(dtype.rounded(f64::from(middle)), f64::from(dtype.of_narrow_bits(even)));
            }
            assert_eq!(dtype.rounded(f64::from(dtype.of_narrow_bits(largest)) * 1.01), f64::INFINITY);
        }
        assert_eq!([65_519.9, 65_520.0, -1e30].map(to_f16), [0x7bff, 0x7c00, 0xfc00]);
        assert_eq!([f32::MAX, 3.3895e38].map(to_bf16), [0x7f80, 0x7f7f]);
        assert_eq!([1e-8, -0.0].map(to_f16), [0, 0x8000]);
    }
}
