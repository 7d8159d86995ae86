//! What shaders may ask of an adapter.

/// Limits and abilities of the adapter for which shaders are generated.
///
/// The default is what every WebGPU implementation offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Limits {
    /// Most invocations in one workgroup.
    pub invocations: u32,
    /// Most bytes of workgroup memory.
    pub workgroup_memory: u32,
    /// Most workgroups along one axis of a dispatch.
    pub workgroups: u32,
    /// Size of the subgroups, if the adapter has exactly one and shaders may use it.
    pub subgroup: Option<u32>,
    /// Whether 16x16x16 products of `f16` matrices with sums in `f32` can be computed by a subgroup together.
    pub cooperative: bool,
    /// Whether the "GPU" is a program on the processor: barriers are dear there, and all memory is equally near.
    pub software: bool,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            invocations: 256,
            workgroup_memory: 16 << 10,
            workgroups: 65_535,
            subgroup: None,
            cooperative: false,
            software: false,
        }
    }
}
