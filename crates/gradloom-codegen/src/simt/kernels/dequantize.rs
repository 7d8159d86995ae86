//! Dequantization of blocks of 4-bit or 8-bit integers to f32.
//!
//! In: blocks of a format, u8 `[.., bytes]`, in any layout. Out: f32 `[.., elements]`. Each invocation
//! computes one element.

use super::super::Value;
use super::super::ir::Kernel;
use super::each::each;
use super::{Builder, Views};
use crate::narrow::narrow;
use gradloom_core::ir::{BLOCK, BlockFormat, DType};

pub(super) fn dequantize(views: &Views<'_>, format: BlockFormat) -> Vec<Kernel> {
    each("dequantize", views, views.elements(), |k, position| {
        let (block, element) = (position / narrow(BLOCK), position % narrow(BLOCK));
        // Rows consist of whole blocks, so blocks can be numbered across rows.
        let start = block * narrow(format.block_bytes());
        let scale = f16(k, byte(k, views, start) + byte(k, views, start + 1) * 256);
        let quant = match format {
            BlockFormat::Q8_0 => {
                let bits = views.load(k, 0, start + element + 2).cast(DType::I32);
                bits - bits.less(k.i32(128)).select(k.i32(0), k.i32(256))
            }
            BlockFormat::Q4_0 => {
                let half = narrow(BLOCK / 2);
                let bits = byte(k, views, start + element % half + 2);
                let bits = element.below(half).select(bits % 16, bits / 16);
                bits.cast(DType::I32) - k.i32(8)
            }
        };
        views.store(k, position, scale * quant.cast(DType::F32));
    })
}

/// Loads a byte of the operand as a u32.
fn byte<'k>(k: &'k Builder, views: &Views<'_>, position: Value<'k>) -> Value<'k> {
    views.load(k, 0, position).cast(DType::U32)
}

/// Converts the bits of an f16 to f32 with integer operations, because a device may lack the type.
fn f16<'k>(k: &'k Builder, bits: Value<'k>) -> Value<'k> {
    let magnitude = bits % 0x8000 * 0x2000;
    // 112 is the difference of the exponent biases, 127 - 15. A subnormal f16 would become a subnormal f32
    // here, which devices may flush to 0, so it is converted from its integer value, times 2^-24.
    let normal = (magnitude + (112 << 23)).bitcast(DType::F32);
    let subnormal = (bits % 0x8000).cast(DType::F32) * k.f32(f32::from_bits(0x3380_0000));
    let special = (magnitude + (224 << 23)).bitcast(DType::F32);
    let finite = (bits % 0x8000).below(0x0400).select(subnormal, normal);
    let size = (bits % 0x8000).below(0x7c00).select(finite, special);
    let sign = bits.below(0x8000).select(k.f32(1.0), k.f32(-1.0));
    sign * size
}
