//! Numbers of 32 bits, which shaders count in.

/// The number, which [`crate::wgsl::shaders`] has checked to fit, as all that a launch counts.
pub(crate) fn narrow(number: usize) -> u32 {
    u32::try_from(number).expect("launches that 32 bits cannot count are refused")
}
