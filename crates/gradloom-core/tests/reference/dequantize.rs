//! Compares dequantized blocks with the results of the Python package gguf (`scripts/oracle/blocks.py`).

use crate::{eval, run};
use gradloom_core::ir::parse;

/// Parses hexadecimal numbers of `width` digits each.
fn words(digits: &str, width: usize) -> Vec<u32> {
    let word = |i| u32::from_str_radix(&digits[i..i + width], 16).unwrap();
    (0..digits.len()).step_by(width).map(word).collect()
}

#[test]
fn numbers_are_those_of_gguf() {
    let mut formats = Vec::new();
    for line in include_str!("dequantize.txt").lines() {
        let parts: Vec<&str> = line.split(' ').collect();
        let bytes: Vec<f64> = words(parts[1], 2).into_iter().map(f64::from).collect();
        let numbers: Vec<f64> =
            words(parts[2], 8).into_iter().map(|bits| f32::from_bits(bits).into()).collect();
        let (format, row) = (parts[0], bytes.len() / 2);
        let op = format!("dequantize %0 {{format={format}}}");
        // Decode both blocks as one row of two blocks, and as two rows of one block.
        for (blocks, shape) in [(format!("u8[{}]", 2 * row), "[64]"), (format!("u8[2, {row}]"), "[2, 32]")] {
            let lines = format!("%0: {blocks} = input \"x\"\n%9: f32{shape} = {op}");
            assert_eq!(eval(&lines, &[("x", &bytes)]), numbers, "{line}");
        }
        formats.push(format.to_string());
    }
    formats.dedup();
    assert_eq!(formats, ["q8_0", "q4_0"]);
}

#[test]
fn no_blocks_are_no_numbers() {
    for shape in ["0", "3, 0", "0, 34"] {
        let elements = shape.replace("34", "32");
        let lines = format!(
            "%0: u8[{shape}] = input \"x\"\n\
             %1: f32[{elements}] = dequantize %0 {{format=q8_0}}\noutput \"y\" %1"
        );
        assert_eq!(run(&lines, &[("x", &[])]).unwrap().output("y").unwrap().to_f64(), []);
    }
}

#[test]
fn what_is_no_row_of_blocks_is_refused() {
    let refused = |blocks: &str, format: &str| {
        let lines = format!("%0: {blocks} = input \"x\"\n%1: f32[32] = dequantize %0 {{format={format}}}");
        parse(&format!("graph {{\n{lines}\n}}")).unwrap_err().to_string()
    };
    let message = refused("u8[2, 35]", "q8_0");
    assert!(
        message.contains("dequantize of u8[2, 35]: rows of 35 bytes are not whole blocks of q8_0"),
        "{message}"
    );
    let message = refused("u8[17]", "q4_0");
    assert!(message.contains("rows of 17 bytes are not whole blocks of q4_0"), "{message}");
    for blocks in ["i32[34]", "f32[34]", "u8[]"] {
        let message = refused(blocks, "q8_0");
        assert!(message.contains("dequantize takes u8 blocks, [.., bytes], not"), "{message}");
    }
    assert!(
        refused("u8[34]", "8").contains("expected a format of blocks (q8_0, q4_0) for `format`, found `8`")
    );
}
