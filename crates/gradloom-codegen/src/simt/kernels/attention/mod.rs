//! Scaled dot-product attention and its gradient, without storing the matrix of all scores.
//!
//! In: operands and results in any layout, and a schedule choice for each kernel. Out: one kernel; for the
//! gradient two, of which the second needs values stored by the first, or three, of which the first computes
//! only those values. Blocks of queries and keys are processed in shared memory; where they do not fit or do
//! not pay off, each invocation processes separate rows. Invariants: the order of summation over keys (for dk
//! and dv, over queries) depends only on the extents and the choice; keys that a query does not see have no
//! effect; a query that sees no key has an output of 0 and a log-sum-exp of -inf.

mod block;
mod bounds;
mod epilogue;
mod forward_by_blocks;
mod forward_by_rows;
mod fragments;
mod grad_by_rows;
mod kept;
mod key_grad_by_blocks;
mod lanes;
mod matrices;
mod means;
mod own;
mod part;
mod query_block;
mod query_grad_by_blocks;
mod rows;
mod shares;
mod table;
mod thread;
mod warpgroups;

use super::super::ir::{Kernel, Role};
use super::{Builder, Value, Views};
use crate::narrow::narrow;
use gradloom_core::ir::DType;
use gradloom_core::kernel::Body;
use gradloom_core::kernel::{
    AttentionChoice, AttentionKernel, AttentionMatrices, AttentionProblem, AttentionSchedule,
};
use rows::Rows;
use shares::Shares;

/// Score of masked keys, below all scores in practice. It is finite, because compilers may assume that there
/// are no infinities.
const LOWEST: f32 = -3.0e38;

/// Returns the scheduled kernels of `Attention` or `AttentionGrad`.
pub(crate) fn attention(views: &Views<'_>, schedule: &AttentionSchedule) -> Vec<Kernel> {
    let kernel = |&(kernel, choice)| one(views, schedule, kernel, choice);
    let kernels = schedule.kernels.iter().filter_map(kernel);
    means::means(views, schedule).into_iter().chain(kernels).collect()
}

/// Returns the kernel of attention with a row-wise epilogue.
pub(crate) fn followed(
    views: &Views<'_>,
    schedule: &AttentionSchedule,
    epilogue: &Body,
    label: &str,
) -> Vec<Kernel> {
    let [(_, AttentionChoice::Lanes(choice))] = schedule.kernels[..] else {
        unreachable!("lanes alone take epilogues")
    };
    let problem = &schedule.problem;
    let k = Builder::new(label, narrow(choice.threads), choice.groups(problem));
    let attention = Attention { k: &k, views, schedule, problem, half: schedule.half };
    attention.forward_by_lanes(choice, Some(epilogue));
    vec![k.finish()]
}

/// Returns a kernel; `None` if there is nothing to compute.
fn one(
    views: &Views<'_>,
    schedule: &AttentionSchedule,
    kernel: AttentionKernel,
    choice: AttentionChoice,
) -> Option<Kernel> {
    let problem = &schedule.problem;
    let make = |workgroup: usize, groups: usize, write: &dyn Fn(&Attention<'_, '_>)| {
        if groups == 0 {
            return None;
        }
        let k = Builder::new(kernel.label(), narrow(workgroup), groups);
        write(&Attention { k: &k, views, schedule, problem, half: schedule.half });
        Some(k.finish())
    };
    match choice {
        AttentionChoice::Block(tile) => {
            let groups = kernel.pairs(problem) * kernel.rows(problem).div_ceil(tile.rows());
            make(tile.threads(), groups, &|attention| match kernel {
                AttentionKernel::Forward => attention.forward_by_blocks(tile),
                AttentionKernel::Queries => attention.query_gradient_by_blocks(tile),
                AttentionKernel::Keys => attention.key_gradient_by_blocks(tile),
            })
        }
        AttentionChoice::Matrices(choice) => {
            let groups = kernel.pairs(problem) * kernel.rows(problem).div_ceil(AttentionMatrices::ROWS);
            make(choice.threads(), groups, &|attention| match kernel {
                AttentionKernel::Forward => attention.forward_by_matrices(choice),
                AttentionKernel::Queries => attention.query_gradient_by_matrices(choice),
                AttentionKernel::Keys => attention.key_gradient_by_matrices(choice),
            })
        }
        AttentionChoice::Warpgroups(choice) => {
            let groups = kernel.pairs(problem) * kernel.rows(problem).div_ceil(choice.rows());
            make(choice.threads(), groups, &|attention| match kernel {
                AttentionKernel::Forward => attention.forward_by_warpgroups(choice),
                AttentionKernel::Queries => attention.query_gradient_by_warpgroups(choice),
                AttentionKernel::Keys => attention.key_gradient_by_warpgroups(choice),
            })
        }
        AttentionChoice::Lanes(choice) => make(choice.threads, choice.groups(problem), &|attention| {
            attention.forward_by_lanes(choice, None)
        }),
        AttentionChoice::Own { rows } => {
            let shares = Shares::new(schedule, kernel, rows);
            make(shares.workgroup, shares.groups(), &|attention| match kernel {
                AttentionKernel::Forward => attention.forward_by_rows(&shares),
                AttentionKernel::Queries => attention.query_gradient_by_rows(&shares),
                AttentionKernel::Keys => attention.key_gradient_by_rows(&shares),
            })
        }
    }
}

/// Attention kernel under construction.
struct Attention<'k, 'b> {
    k: &'k Builder,
    views: &'b Views<'b>,
    schedule: &'b AttentionSchedule,
    problem: &'b AttentionProblem,
    /// Dtype to which operands of matrix instructions are rounded.
    half: DType,
}

/// Sequence and head, which identify a matrix of rows.
type Head<'k> = [Value<'k>; 2];

impl<'k, 'b> Attention<'k, 'b> {
    /// Returns the rows of q, k and v.
    fn queries_keys_values(&self) -> [Rows<'k, 'b>; 3] {
        [0, 1, 2].map(|read| self.operand(read))
    }

    /// Returns the other operands of the gradient: the output, the log-sum-exp, and the output's cotangent.
    fn output_and_cotangent(&self) -> [Rows<'k, 'b>; 3] {
        let first = 3 + self.problem.spec.extra_operands();
        [0, 1, 2].map(|i| self.operand(first + i))
    }

    fn operand(&self, read: usize) -> Rows<'k, 'b> {
        Rows::new(self.k, Role::Operand(read), &self.views.reads[read])
    }

    fn result(&self, write: usize) -> Rows<'k, 'b> {
        Rows::new(self.k, Role::Result(write), &self.views.writes[write])
    }

    /// Returns the scratch memory with the means, which are the dot products of the queries' outputs and
    /// their cotangents.
    fn means(&self) -> u32 {
        self.k.buffer(Role::Workspace { start: 0, bytes: self.problem.means_bytes() }, DType::F32)
    }

    /// Returns the index of a query among those of all sequences and heads.
    fn query_number(&self, [sequence, head]: Head<'k>, query: Value<'k>) -> Value<'k> {
        (sequence * narrow(self.problem.heads) + head) * narrow(self.problem.queries) + query
    }

    /// Returns the factor by which scores are multiplied.
    fn scale(&self) -> Value<'k> {
        self.k.f32(self.factor())
    }

    #[expect(clippy::cast_possible_truncation, reason = "kernels compute in f32")]
    fn factor(&self) -> f32 {
        self.problem.spec.scale as f32
    }

    /// Returns the factor by which scores are multiplied if weights are computed as powers of two.
    #[expect(clippy::cast_possible_truncation, reason = "kernels compute in f32")]
    fn scale_of_exponents(&self) -> f32 {
        (self.problem.spec.scale * std::f64::consts::LOG2_E) as f32
    }

    /// Returns the key head that a query head uses.
    fn key_head(&self, head: Value<'k>) -> Value<'k> {
        head / narrow(self.problem.sharing())
    }
}
