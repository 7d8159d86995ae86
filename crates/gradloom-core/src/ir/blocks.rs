//! Block-quantized numbers in the formats of ggml.
//!
//! Decodes and encodes blocks of a [`BlockFormat`] and converts between byte and element counts. A block
//! consists of [`BLOCK`] elements along the last axis, and f32 represents the decoded elements exactly.

use super::half::from_f16;
use super::named;
use std::str::FromStr;

/// Number of elements in a block.
pub const BLOCK: usize = 32;

named! {
    /// Format of a block: a scale `d` in little-endian f16, followed by a small integer per element. The
    /// formats are those of ggml (`block_q8_0` and `block_q4_0` of its `ggml-common.h`).
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum BlockFormat {
        /// 34 bytes: `d`, then an i8 `q` per element. Element i is `d * q[i]`.
        Q8_0 = "q8_0",
        /// 18 bytes: `d`, then 16 bytes. Byte j contains element j in its low and element j + 16 in its high
        /// four bits. An element is `d * (bits - 8)`.
        Q4_0 = "q4_0",
    }
}

impl BlockFormat {
    /// Returns the number of bytes in a block.
    pub fn block_bytes(self) -> usize {
        match self {
            BlockFormat::Q8_0 => 2 + BLOCK,
            BlockFormat::Q4_0 => 2 + BLOCK / 2,
        }
    }

    /// Returns the number of bytes for `elements` elements, or `None` if they are not whole blocks.
    pub fn bytes_of(self, elements: usize) -> Option<usize> {
        elements.is_multiple_of(BLOCK).then(|| (elements / BLOCK).saturating_mul(self.block_bytes()))
    }

    /// Returns the number of elements in `bytes` bytes, or `None` if they are not whole blocks.
    pub fn elements_of(self, bytes: usize) -> Option<usize> {
        bytes.is_multiple_of(self.block_bytes()).then(|| (bytes / self.block_bytes()).saturating_mul(BLOCK))
    }

    /// Returns the elements of a block. The product of an f16 and an 8-bit integer is exact in f32.
    ///
    /// # Panics
    /// Panics if the length of `block` is not [`BlockFormat::block_bytes`].
    pub fn decode(self, block: &[u8]) -> [f32; BLOCK] {
        assert_eq!(block.len(), self.block_bytes(), "the bytes of a block of {self}");
        match self {
            BlockFormat::Q8_0 => {
                let scale = from_f16(u16::from_le_bytes([block[0], block[1]]));
                std::array::from_fn(|i| scale * f32::from(block[2 + i].cast_signed()))
            }
            BlockFormat::Q4_0 => {
                let scale = from_f16(u16::from_le_bytes([block[0], block[1]]));
                std::array::from_fn(|i| {
                    let bits = block[2 + i % 16] >> (i / 16 * 4) & 0xf;
                    scale * (f32::from(bits) - 8.0)
                })
            }
        }
    }
}

impl BlockFormat {
    /// Appends the block for `numbers`, rounded like ggml's reference implementation (`quantize_row_q8_0_ref`
    /// and `quantize_row_q4_0_ref`). In Q8_0, the largest magnitude maps to 127, and ties round away from
    /// zero. In Q4_0, the first number of the largest magnitude maps to -8, so the scale has the opposite
    /// sign.
    pub fn encode(self, numbers: &[f32; BLOCK], bytes: &mut Vec<u8>) {
        use super::half::to_f16;
        let largest = numbers.iter().fold(0.0_f32, |most, &x| if x.abs() > most.abs() { x } else { most });
        let scale = match self {
            BlockFormat::Q8_0 => largest.abs() / 127.0,
            BlockFormat::Q4_0 => largest / -8.0,
        };
        let inverse = if scale == 0.0 { 0.0 } else { 1.0 / scale };
        bytes.extend(to_f16(scale).to_le_bytes());
        match self {
            BlockFormat::Q8_0 => {
                bytes.extend(numbers.iter().map(|x| ((x * inverse).round() as i8).cast_unsigned()));
            }
            BlockFormat::Q4_0 => {
                let four = |x: f32| (x * inverse + 8.5).clamp(0.0, 15.0) as u8;
                bytes.extend((0..BLOCK / 2).map(|j| four(numbers[j]) | four(numbers[j + 16]) << 4));
            }
        }
    }
}

/// The error for an unknown name of a [`BlockFormat`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownFormat;

impl FromStr for BlockFormat {
    type Err = UnknownFormat;

    fn from_str(name: &str) -> Result<Self, UnknownFormat> {
        Self::ALL.into_iter().find(|format| format.name() == name).ok_or(UnknownFormat)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a block with a scale of 0.5, whose f16 bits are 0x3800.
    fn block(quants: impl Iterator<Item = u8>) -> Vec<u8> {
        [0x00, 0x38].into_iter().chain(quants).collect()
    }

    #[test]
    fn elements_are_where_ggml_has_them() {
        let q8 = BlockFormat::Q8_0.decode(&block((0..32).map(|i| (i * 8) as u8)));
        assert_eq!([q8[0], q8[1], q8[15], q8[16], q8[31]], [0.0, 4.0, 60.0, -64.0, -4.0]);
        let q4 = BlockFormat::Q4_0.decode(&block((0..16).map(|j| j | (15 - j) << 4)));
        assert_eq!([q4[0], q4[1], q4[15], q4[16], q4[31]], [-4.0, -3.5, 3.5, 3.5, -4.0]);
    }

    #[test]
    fn bytes_and_elements_are_whole_blocks() {
        for (format, bytes) in [(BlockFormat::Q8_0, 34), (BlockFormat::Q4_0, 18)] {
            assert_eq!([0, 32, 96].map(|n| format.bytes_of(n)), [Some(0), Some(bytes), Some(3 * bytes)]);
            assert_eq!([1, 31, 33].map(|n| format.bytes_of(n)), [None; 3]);
            assert_eq!(format.elements_of(2 * bytes), Some(64));
            assert_eq!(format.elements_of(bytes + 1), None);
            assert_eq!(format.name().parse(), Ok(format));
        }
        assert_eq!("q5_0".parse::<BlockFormat>(), Err(UnknownFormat));
    }

    #[test]
    fn scales_that_are_no_numbers_come_through() {
        let mut q8 = block(std::iter::repeat_n(1, 32));
        q8[..2].copy_from_slice(&0x7e00_u16.to_le_bytes());
        assert!(BlockFormat::Q8_0.decode(&q8).iter().all(|x| x.is_nan()));
        q8[..2].copy_from_slice(&0xfc00_u16.to_le_bytes());
        assert_eq!(BlockFormat::Q8_0.decode(&q8), [f32::NEG_INFINITY; 32]);
    }
}
