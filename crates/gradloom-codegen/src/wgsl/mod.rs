//! WGSL: shaders for WebGPU, as text, for the limits of one adapter.
//!
//! In: descriptions of kernels with all shapes known. Out: WGSL source and workgroup counts. Nothing here talks to a device; that every
//! shader is valid is checked with `naga` in the tests.

pub mod dot;
mod limits;
mod writer;

pub use limits::Limits;
pub use writer::Writer;

/// A compute shader with the size of its dispatch; the entry point is `main`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shader {
    /// The WGSL source.
    pub source: String,
    /// Number of workgroups along x, y and z; a zero means that there is nothing to do, and such a dispatch may be left out.
    pub workgroups: [u32; 3],
}
