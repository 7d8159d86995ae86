//! Attention and its gradient, computed without storing the whole matrix of scores.
//!
//! In: a launch whose reads are the operands of an `Attention` or `AttentionGrad`, in any strided layouts.
//! Out: a kernel. Blocks of keys and values are packed into a thread's scratch, and strips of query rows are
//! multiplied with them in registers (Dao, FlashAttention-2, 2023), in f32 or rounded to bf16 where they are
//! packed. Invariant: blocks of keys that the mask hides from a whole strip are skipped; tasks, blocks and
//! the order of every sum depend on the shapes alone; every row is accumulated by a single task; a run
//! allocates nothing.

// Tiles are small arrays of vectors. Loops over indices with constant bounds unroll, which keeps tiles in
// registers.
#![allow(clippy::needless_range_loop)]

mod backward;
mod forward;
mod operands;
mod products;
mod single;
mod softmax;
#[cfg(test)]
mod tests;

use super::kernel::Tasks;
use super::simd::dispatch;
use super::{Call, InstructionSet, Prepared, Trap};
use gradloom_core::ir::AttentionSpec;
use gradloom_core::kernel::Launch;
use gradloom_device::host::current_worker;
use gradloom_device::memory::counted;
use operands::Operands;

/// Returns a kernel for an `Attention` launch.
///
/// # Panics
/// The kernel panics if it runs on more threads than the launch's workspace was sized for.
pub(super) fn prepare_attention(
    launch: &Launch,
    spec: &AttentionSpec,
    level: InstructionSet,
) -> Box<dyn Prepared> {
    Box::new(Attention::new(launch, spec, level))
}

/// Returns a kernel for an `AttentionGrad` launch.
///
/// # Panics
/// The kernel panics if it runs on more threads than the launch's workspace was sized for.
pub(super) fn prepare_attention_grad(
    launch: &Launch,
    spec: &AttentionSpec,
    level: InstructionSet,
) -> Box<dyn Prepared> {
    Box::new(AttentionGrad::new(launch, spec, level))
}

struct Attention {
    operands: Operands,
    level: InstructionSet,
    workspace: usize,
}

impl Attention {
    fn new(launch: &Launch, spec: &AttentionSpec, level: InstructionSet) -> Self {
        Self { operands: Operands::new(launch, spec), level, workspace: counted(launch.workspace) }
    }
}

impl Attention {
    /// Returns the number of pairs of a sequence and a key/value head.
    fn pairs(&self) -> usize {
        self.operands.shape.batch * self.operands.shape.kv_heads
    }
}

/// Phase 0 checks the operands, if there is something to check, and the last phase computes.
impl Tasks for Attention {
    fn phases(&self) -> usize {
        self.operands.checks() + 1
    }

    fn count(&self, phase: usize) -> usize {
        if phase == self.operands.checks() { self.pairs() * self.operands.shape.forward_chunks() } else { 0 }
    }

    unsafe fn run_task(&self, call: &Call<'_>, _: usize, index: usize) {
        let (shape, worker) = (self.operands.shape, current_worker());
        assert!(
            self.workspace >= shape.forward_workspace(worker + 1),
            "attention: no scratch for this many threads"
        );
        let (queries, heads) = (shape.forward_queries(), self.pairs());
        // With a causal mask, the last queries see the most keys, so their tasks start first.
        let (chunk, head) = (shape.forward_chunks() - 1 - index / heads, index % heads);
        let (first, batch) = (chunk * queries, head / shape.kv_heads);
        let task = forward::Task {
            operands: &self.operands,
            call,
            mask: self.operands.mask(call, batch),
            batch,
            kv_head: head % shape.kv_heads,
            queries: first..(first + queries).min(shape.queries),
            worker,
            level: self.level,
        };
        // SAFETY: this machine supports `self.level`.
        unsafe { dispatch(self.level, task) };
    }

    fn outcome(&self, call: &Call<'_>, phase: usize) -> Result<(), Trap> {
        if phase < self.operands.checks() { self.operands.check(call) } else { Ok(()) }
    }
}

struct AttentionGrad {
    operands: Operands,
    gradient: operands::Gradient,
    level: InstructionSet,
    workspace: usize,
}

impl AttentionGrad {
    fn new(launch: &Launch, spec: &AttentionSpec, level: InstructionSet) -> Self {
        let first = 3 + spec.extra_operands();
        let gradient = operands::Gradient::new(&launch.reads[first..], first);
        Self { operands: Operands::new(launch, spec), gradient, level, workspace: counted(launch.workspace) }
    }
}

/// Phase 0 checks the operands, if there is something to check, and the last phase computes.
impl Tasks for AttentionGrad {
    fn phases(&self) -> usize {
        self.operands.checks() + 1
    }

    fn count(&self, phase: usize) -> usize {
        if phase == self.operands.checks() {
            self.operands.shape.batch * self.operands.shape.kv_heads
        } else {
            0
        }
    }

    unsafe fn run_task(&self, call: &Call<'_>, _: usize, index: usize) {
        let (shape, worker) = (self.operands.shape, current_worker());
        assert!(
            self.workspace >= shape.backward_workspace(worker + 1),
            "attention_grad: no scratch for this many threads"
        );
        let batch = index / shape.kv_heads;
        let task = backward::Task {
            operands: &self.operands,
            gradient: &self.gradient,
            call,
            mask: self.operands.mask(call, batch),
            batch,
            kv_head: index % shape.kv_heads,
            worker,
            level: self.level,
        };
        // SAFETY: this machine supports `self.level`.
        unsafe { dispatch(self.level, task) };
    }

    fn outcome(&self, call: &Call<'_>, phase: usize) -> Result<(), Trap> {
        if phase < self.operands.checks() { self.operands.check(call) } else { Ok(()) }
    }
}
