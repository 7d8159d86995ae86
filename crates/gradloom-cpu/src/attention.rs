//! Attention and its gradient, computed without storing the whole matrix of scores.
//!
//! In: a launch whose reads are the operands of an `Attention` or `AttentionGrad`, in any strided layouts.
//! Out: a kernel. Blocks of keys and values are packed into a thread's scratch, and strips of query rows are
//! multiplied with them in registers (Dao, FlashAttention-2, 2023). Invariant: blocks of keys that the
//! mask hides from a whole strip are skipped; tasks, blocks and the order of every sum depend on the shapes
//! alone; every row is accumulated by a single task; a run allocates nothing.

// Tiles are small arrays of vectors. Loops over indices with constant bounds unroll, which keeps tiles in
// registers.
#![allow(clippy::needless_range_loop)]

mod backward;
mod forward;
mod operands;
mod single;
mod softmax;
#[cfg(test)]
mod tests;

use super::simd::dispatch;
use super::{Call, InstructionSet, Prepared, Trap};
use gradloom_core::ir::AttentionSpec;
use gradloom_core::kernel::Launch;
use gradloom_device::memory::counted;
use operands::Operands;

/// Returns a kernel for an `Attention` launch.
///
/// # Panics
/// The kernel panics if it runs on more threads than the launch's workspace was sized for.
pub(super) fn prepare_attention(launch: &Launch, spec: &AttentionSpec) -> Box<dyn Prepared> {
    Box::new(Attention::new(launch, spec, InstructionSet::detect()))
}

/// Returns a kernel for an `AttentionGrad` launch.
///
/// # Panics
/// The kernel panics if it runs on more threads than the launch's workspace was sized for.
pub(super) fn prepare_attention_grad(launch: &Launch, spec: &AttentionSpec) -> Box<dyn Prepared> {
    Box::new(AttentionGrad::new(launch, spec, InstructionSet::detect()))
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

impl Prepared for Attention {
    fn run(&self, call: &Call<'_>) -> Result<(), Trap> {
        self.operands.check(call)?;
        let shape = self.operands.shape;
        assert!(
            self.workspace >= shape.forward_workspace(call.pool.threads()),
            "attention: no scratch for this many threads"
        );
        let queries = shape.forward_queries();
        let chunks = shape.queries.div_ceil(queries);
        let heads = shape.batch * shape.kv_heads;
        call.pool.run_with_worker(heads * chunks, &|index, worker| {
            // With a causal mask, the last queries see the most keys, so their tasks start first.
            let (chunk, head) = (chunks - 1 - index / heads, index % heads);
            let (first, batch) = (chunk * queries, head / shape.kv_heads);
            let task = forward::Task {
                operands: &self.operands,
                call,
                mask: self.operands.mask(call, batch),
                batch,
                kv_head: head % shape.kv_heads,
                queries: first..(first + queries).min(shape.queries),
                worker,
            };
            // SAFETY: this machine supports `self.level`.
            unsafe { dispatch(self.level, task) };
        });
        Ok(())
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

impl Prepared for AttentionGrad {
    fn run(&self, call: &Call<'_>) -> Result<(), Trap> {
        self.operands.check(call)?;
        let shape = self.operands.shape;
        assert!(
            self.workspace >= shape.backward_workspace(call.pool.threads()),
            "attention_grad: no scratch for this many threads"
        );
        call.pool.run_with_worker(shape.batch * shape.kv_heads, &|index, worker| {
            let batch = index / shape.kv_heads;
            let task = backward::Task {
                operands: &self.operands,
                gradient: &self.gradient,
                call,
                mask: self.operands.mask(call, batch),
                batch,
                kv_head: index % shape.kv_heads,
                worker,
            };
            // SAFETY: this machine supports `self.level`.
            unsafe { dispatch(self.level, task) };
        });
        Ok(())
    }
}
