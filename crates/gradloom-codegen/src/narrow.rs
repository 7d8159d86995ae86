//! Conversions to 32-bit numbers, in which shaders count.

use gradloom_core::ir::DType;

/// Converts a number that lowering has checked to fit in 32 bits.
pub(crate) fn narrow(number: usize) -> u32 {
    u32::try_from(number).expect("launches that 32 bits cannot count are refused")
}

/// Returns the number of elements in this many bytes. Lowering has checked that the number fits in 32 bits.
pub(crate) fn elements_in(bytes: u64, dtype: DType) -> usize {
    usize::try_from(bytes / dtype.bytes() as u64).expect("launches that 32 bits cannot count are refused")
}

/// Panics because a kernel has an i64 operand, which no kernel supports.
pub(crate) fn has_words() -> ! {
    panic!("gradloom made a kernel of i64; please report this")
}
