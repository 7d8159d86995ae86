//! The amount of work that makes a task.

/// Elements of a task of a kernel that mostly moves memory: long enough (some microseconds) to be worth
/// handing to another thread, and a multiple of what the CPU's readers take at once. A constant, so that
/// results do not depend on the number of threads.
pub const GRAIN: usize = 32 * 1024;
