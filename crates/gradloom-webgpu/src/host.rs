//! The interface to the script of a page, which runs programs.

use std::fmt;

/// WebGPU behind a script. Ids are the script's own.
///
/// The calls for a program come in this order: kernels, then copies, then [`WebHost::submit`] for each run.
pub trait WebHost: Send + Sync {
    /// A zeroed storage buffer that can be copied from and to.
    fn buffer(&self, bytes: usize) -> u32;
    /// Gives a buffer back. Submissions before this one may still use it.
    fn drop_buffer(&self, buffer: u32);
    /// Writes bytes, a multiple of 4, for what is submitted from here on.
    fn write(&self, buffer: u32, offset: usize, bytes: &[u8]);
    /// A program without kernels, whose steps leave so many bytes of results, and at whose start these bytes
    /// are cleared.
    fn program(&self, results: usize, cleared: WebRange) -> u32;
    /// Gives a program back.
    fn drop_program(&self, program: u32);
    /// Adds a kernel.
    fn kernel(&self, program: u32, kernel: &WebKernel<'_>);
    /// Adds bytes to what a step leaves.
    fn copy(&self, program: u32, copy: &WebCopy);
    /// Runs the program once on what was written before; gives the number under which its results will be
    /// found.
    fn submit(&self, program: u32) -> u32;
    /// The results of a submission, if they have arrived. They are given away.
    fn results(&self, ticket: u32) -> Option<Vec<u8>>;
    /// Says that the results of a submission will not be read.
    fn drop_results(&self, ticket: u32);
    /// Why the device cannot be relied on, if so.
    fn trouble(&self) -> Option<String>;
}

impl fmt::Debug for dyn WebHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a page's script")
    }
}

/// Bytes of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WebRange {
    /// The buffer.
    pub buffer: u32,
    /// First byte, a multiple of 4.
    pub start: usize,
    /// Number of bytes, a multiple of 4.
    pub bytes: usize,
}

/// A kernel of a program.
#[derive(Clone, Copy, Debug)]
pub struct WebKernel<'a> {
    /// True if it runs once, before the first step, and not in every step.
    pub once: bool,
    /// True if it runs after the copies: a second pass begins with the first of these.
    pub late: bool,
    /// A label for people.
    pub label: &'a str,
    /// WGSL with the entry point `main`.
    pub source: &'a str,
    /// Workgroups along x, y and z.
    pub workgroups: [u32; 3],
    /// The buffer at each `@group(0) @binding(i)`, and whether the kernel may write it.
    pub bindings: &'a [(WebRange, bool)],
}

/// Bytes of a step's results.
#[derive(Clone, Copy, Debug)]
pub struct WebCopy {
    /// The bytes that are copied.
    pub from: WebRange,
    /// Offset of the bytes in the results.
    pub to: usize,
    /// True if it is copied at the step's end, and not before the late kernels.
    pub late: bool,
}
