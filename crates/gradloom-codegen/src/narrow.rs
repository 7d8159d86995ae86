//! Numbers of 32 bits, which shaders count in.

use gradloom_core::ir::DType;

/// Returns the number, which was checked to fit when its launch was turned into kernels.
pub(crate) fn narrow(number: usize) -> u32 {
    u32::try_from(number).expect("launches that 32 bits cannot count are refused")
}

/// Returns the number of elements in this many bytes, which lie within what a kernel can index.
pub(crate) fn elements_in(bytes: u64, dtype: DType) -> usize {
    usize::try_from(bytes / dtype.bytes() as u64).expect("launches that 32 bits cannot count are refused")
}

/// Panics because of an i64 in a kernel, which none is made for.
pub(crate) fn has_words() -> ! {
    panic!("gradloom made a kernel of i64; please report this")
}
