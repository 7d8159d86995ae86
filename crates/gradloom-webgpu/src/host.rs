//! Interface to the script of a web page, which runs programs.

use std::fmt;

/// WebGPU, as provided by a script. The script assigns the ids.
///
/// A program is described by calls in this order: kernels, then copies, then one [`WebHost::submit`] per run.
pub trait WebHost: Send + Sync {
    /// Creates a zeroed storage buffer that can be the source and the target of copies.
    fn buffer(&self, bytes: usize) -> u32;
    /// Releases a buffer. Submissions before this call may still use it.
    fn drop_buffer(&self, buffer: u32);
    /// Writes bytes, whose number must be a multiple of 4, for later submissions.
    fn write(&self, buffer: u32, offset: usize, bytes: &[u8]);
    /// Creates a program without kernels. Each of its steps produces `results` bytes of results, and starts
    /// by clearing the bytes of `cleared`.
    fn program(&self, results: usize, cleared: WebRange) -> u32;
    /// Releases a program.
    fn drop_program(&self, program: u32);
    /// Adds a kernel to a program.
    fn kernel(&self, program: u32, kernel: &WebKernel<'_>);
    /// Adds a copy from a buffer to the results of each step.
    fn copy(&self, program: u32, copy: &WebCopy);
    /// Runs a program once on the values written so far. Returns a ticket for the results.
    fn submit(&self, program: u32) -> u32;
    /// Takes the results of a submission; returns `None` if they have not arrived.
    fn results(&self, ticket: u32) -> Option<Vec<u8>>;
    /// Discards the results of a submission, which will not be read.
    fn drop_results(&self, ticket: u32);
    /// Returns the reason why results of the device cannot be relied on, if there is one.
    fn trouble(&self) -> Option<String>;
}

impl fmt::Debug for dyn WebHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a page's script")
    }
}

/// Byte range of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WebRange {
    /// Id of the buffer.
    pub buffer: u32,
    /// Offset of the first byte, a multiple of 4.
    pub start: usize,
    /// Number of bytes, a multiple of 4.
    pub bytes: usize,
}

/// A kernel of a program.
#[derive(Clone, Copy, Debug)]
pub struct WebKernel<'a> {
    /// True if the kernel runs once, before the first step, instead of in every step.
    pub once: bool,
    /// True if the kernel runs after the copies. The first such kernel begins a second pass.
    pub late: bool,
    /// Label for debugging.
    pub label: &'a str,
    /// WGSL source with the entry point `main`.
    pub source: &'a str,
    /// Number of workgroups along x, y and z.
    pub workgroups: [u32; 3],
    /// Buffer range at each `@group(0) @binding(i)`, with `true` if the kernel may write to it.
    pub bindings: &'a [(WebRange, bool)],
}

/// A copy into the results of a step.
#[derive(Clone, Copy, Debug)]
pub struct WebCopy {
    /// Source of the copy.
    pub from: WebRange,
    /// Offset of the bytes in the results.
    pub to: usize,
    /// True if the copy runs at the end of the step, false if it runs before the late kernels.
    pub late: bool,
}
