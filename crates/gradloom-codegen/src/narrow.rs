//! Numbers of 32 bits, which shaders count in.

/// The number, which was checked to fit when its launch was turned into kernels.
pub(crate) fn narrow(number: usize) -> u32 {
    u32::try_from(number).expect("launches that 32 bits cannot count are refused")
}

/// An i64 in a kernel, which none is made for.
pub(crate) fn has_words() -> ! {
    panic!("gradloom made a kernel of i64; please report this")
}
