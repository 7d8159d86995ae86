//! Size of a task.

/// Number of elements per task of a memory-bound kernel: enough work (some microseconds) to justify another
/// thread, and a multiple of the block size of CPU readers. It is constant, so that results do not depend on
/// the number of threads.
pub const GRAIN: usize = 32 * 1024;
