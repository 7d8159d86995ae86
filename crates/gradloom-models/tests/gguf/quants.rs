//! Quantized blocks, compared with those of the Python package gguf.

use crate::builder::quantized;
use crate::{data, refused};
use gradloom_models::gguf::{TensorType, dequantize};
use gradloom_runtime::files::Weights;

const READ: [TensorType; 8] = [
    TensorType::Q4_0,
    TensorType::Q4_1,
    TensorType::Q5_0,
    TensorType::Q5_1,
    TensorType::Q8_0,
    TensorType::Q4_K,
    TensorType::Q5_K,
    TensorType::Q6_K,
];

fn fixture() -> Weights {
    Weights::open(data("quants.safetensors")).unwrap()
}

#[test]
fn blocks_have_the_elements_that_python_reads() {
    let fixture = fixture();
    for ty in READ {
        let blocks = fixture.get(&format!("{ty}/blocks")).unwrap().bytes;
        let expected = fixture.get(&format!("{ty}/values")).unwrap().to_f32().unwrap();
        let found = dequantize(ty, blocks).unwrap();
        assert_eq!(found.len(), expected.len(), "{ty}");
        for (i, (found, expected)) in found.iter().zip(&expected).enumerate() {
            let same = found.to_bits() == expected.to_bits() || (found.is_nan() && expected.is_nan());
            assert!(same, "{ty}, element {i}: {found:e} and not {expected:e}");
        }
        // Check that the test data contains extreme scales in both directions.
        assert!(expected.iter().any(|x| x.is_nan()) && expected.iter().any(|x| x.is_infinite()), "{ty}");
        assert!(expected.iter().filter(|x| x.is_finite() && **x != 0.0).count() > expected.len() / 4, "{ty}");
    }
}

#[test]
fn elements_have_the_blocks_that_python_writes() {
    let fixture = fixture();
    for ty in [TensorType::Q8_0, TensorType::Q4_0] {
        let x = fixture.get(&format!("{ty}/x")).unwrap().to_f32().unwrap();
        let expected = fixture.get(&format!("{ty}/quantized")).unwrap().bytes;
        let found = quantized(ty, &x);
        let size = ty.block().1;
        for (row, (found, expected)) in found.chunks(size).zip(expected.chunks(size)).enumerate() {
            assert_eq!(found, expected, "{ty}, row {row}");
        }
        assert_eq!(found.len(), expected.len());
    }
}

#[test]
fn no_elements_are_no_blocks() {
    for ty in READ {
        assert!(dequantize(ty, &[]).unwrap().is_empty());
    }
}

#[test]
fn floats_of_16_bits_are_read() {
    // 1, the smallest subnormal f16, and -infinity.
    let f16 = [0x3c00u16, 1, 0xfc00].map(u16::to_le_bytes).concat();
    let expected = [1.0, 2.0f32.powi(-24), f32::NEG_INFINITY];
    assert_eq!(dequantize(TensorType::F16, &f16).unwrap(), expected);
    let bf16 = [0x3f80u16, 0xc040].map(u16::to_le_bytes).concat();
    assert_eq!(dequantize(TensorType::BF16, &bf16).unwrap(), [1.0, -3.0]);
}

#[test]
fn what_cannot_be_read_is_named() {
    let message = refused(dequantize(TensorType::IQ2_XXS, &[0; 66]));
    assert_eq!(message, "elements of the type IQ2_XXS are not read");
    let message = refused(dequantize(TensorType::Q4_0, &[0; 19]));
    assert_eq!(message, "19 bytes are no whole blocks of 18 of Q4_0");
}

#[test]
fn the_largest_number_stays_finite() {
    let mut elements = [1.0; 64];
    elements[40] = 127.0 * 65_503.0;
    let bytes = quantized(TensorType::Q8_0, &elements);
    assert!(dequantize(TensorType::Q8_0, &bytes).unwrap().iter().all(|x| x.is_finite()));
}

/// 1 / d is infinite for subnormal elements, whose scale is 0 in f16.
#[test]
fn subnormal_numbers_become_zeros() {
    for ty in [TensorType::Q8_0, TensorType::Q4_0] {
        let mut elements = [0.0; 32];
        elements[7] = f32::from_bits(1);
        elements[8] = -f32::from_bits(9);
        let read = dequantize(ty, &quantized(ty, &elements)).unwrap();
        assert!(read.iter().all(|x| *x == 0.0), "{read:?}");
    }
}
