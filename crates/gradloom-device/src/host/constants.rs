//! Fills the buffers of constants when a program is loaded.
//!
//! In: a constant or iota op and its buffer, which may be smaller than the value: one repeated element, or a
//! single axis. Out: the bytes of the buffer.

use gradloom_codegen::cpu::loops::bits;
use gradloom_core::ir::{DType, Literal, Number, OpKind};
use gradloom_core::plan::Buffer;

/// Fills `bytes`, the content of the buffer, with the elements of a constant.
///
/// # Panics
/// Panics if `bytes` and the buffer differ in size, or `kind` is not a constant; both are bugs in gradloom.
pub fn fill_constant(kind: &OpKind, buffer: &Buffer, bytes: &mut [u8]) {
    let held = &buffer.ty;
    assert_eq!(bytes.len() as u64, held.bytes(), "the buffer of {} has {} bytes", buffer.value, held.bytes());
    match kind {
        OpKind::Constant { data: Literal::Splat(number), .. } => write(held.dtype, bytes, |_| *number),
        OpKind::Constant { data: Literal::Dense(numbers), .. } => write(held.dtype, bytes, |i| numbers[i]),
        OpKind::Iota { ty, axis } => {
            // The axis has its row-major stride if the buffer holds the whole value, and stride 1 if the
            // buffer holds only the axis.
            let step = if held.shape == ty.shape { ty.shape.strides()[*axis] } else { 1 };
            let extent = ty.shape[*axis];
            write(held.dtype, bytes, |i| Number::of(held.dtype, (i / step % extent) as f64));
        }
        _ => panic!("{} is not a constant; please report this", kind.name()),
    }
}

fn write(dtype: DType, bytes: &mut [u8], number: impl Fn(usize) -> Number) {
    let size = dtype.bytes();
    for (i, element) in bytes.chunks_exact_mut(size).enumerate() {
        element.copy_from_slice(&bits(number(i), dtype).to_le_bytes()[..size]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gradloom_core::ir::{Id, Type, ValueId};
    use gradloom_core::plan::{Region, Role};

    fn filled(kind: &OpKind, held: Type) -> Vec<u8> {
        let mut bytes = vec![0xAA; held.bytes() as usize];
        let buffer = Buffer {
            value: ValueId::from_index(0),
            bytes: held.bytes(),
            ty: held,
            role: Role::Constant,
            region: Region::Constants,
            offset: 0,
            first: 0,
            last: 0,
        };
        fill_constant(kind, &buffer, &mut bytes);
        bytes
    }

    fn words(bytes: &[u8]) -> Vec<u32> {
        bytes.chunks_exact(4).map(|b| u32::from_le_bytes(b.try_into().unwrap())).collect()
    }

    #[test]
    fn splats_and_dense_constants_of_every_dtype() {
        let splat = |dtype, number| {
            let kind = OpKind::Constant { ty: Type::new(dtype, [2, 3]), data: Literal::Splat(number) };
            filled(&kind, Type::scalar(dtype))
        };
        assert_eq!(words(&splat(DType::F32, Number::Float(-0.5))), [(-0.5f32).to_bits()]);
        assert_eq!(words(&splat(DType::I32, Number::Int(-2))), [-2i32 as u32]);
        assert_eq!(words(&splat(DType::U32, Number::Int(4_000_000_000))), [4_000_000_000]);
        assert_eq!(splat(DType::Bool, Number::Bool(true)), [1]);

        let ty = Type::new(DType::Bool, [3]);
        let data = Literal::Dense([true, false, true].map(Number::Bool).into());
        assert_eq!(filled(&OpKind::Constant { ty: ty.clone(), data }, ty), [1, 0, 1]);
        let ty = Type::new(DType::F32, [2, 1]);
        let data = Literal::Dense([0.1, f64::INFINITY].map(Number::Float).into());
        let expected = [0.1f32, f32::INFINITY].map(f32::to_bits);
        assert_eq!(words(&filled(&OpKind::Constant { ty: ty.clone(), data }, ty)), expected);
    }

    #[test]
    fn an_iota_fills_its_axis_or_its_whole_value() {
        let ty = Type::new(DType::I32, [2, 3, 2]);
        let kind = OpKind::Iota { ty: ty.clone(), axis: 1 };
        assert_eq!(words(&filled(&kind, Type::new(DType::I32, [3]))), [0, 1, 2]);
        assert_eq!(words(&filled(&kind, ty)), [0, 0, 1, 1, 2, 2, 0, 0, 1, 1, 2, 2]);
        let ty = Type::new(DType::F32, [2]);
        let expected = [0f32, 1.0].map(f32::to_bits);
        assert_eq!(words(&filled(&OpKind::Iota { ty: ty.clone(), axis: 0 }, ty)), expected);
        let empty = Type::new(DType::I32, [2, 0]);
        assert!(filled(&OpKind::Iota { ty: empty.clone(), axis: 0 }, empty).is_empty());
    }
}
