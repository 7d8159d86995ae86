//! Several kernels in one launch.
//!
//! In: kernels that do not depend on each other, with their shares of the launch's operands, results and
//! scratch. Out: a kernel whose tasks are those of all these kernels, small ones joined. Invariant: the
//! results of a task do not depend on its batch.

use super::InstructionSet;
use super::kernel::{Call, Prepared, Tasks, Trap};
use super::prepare::prepare_compiled;
use gradloom_codegen::cpu::CpuKernel;
use gradloom_core::ir::Graph;
use gradloom_core::kernel::{Launch, Part};
use gradloom_device::memory::counted;
use std::ops::Range;

/// Minimum cost of a task of the pool, in nanoseconds on one core; only the last task of a phase may cost
/// less.
const TASK_COST: usize = 20_000;

pub(super) fn prepare_group(
    launch: &Launch,
    parts: &[Part],
    compiled: &[CpuKernel],
    graph: &Graph,
    level: InstructionSet,
) -> Box<dyn Prepared> {
    let member = |(part, compiled): (&Part, &CpuKernel)| Member {
        kernel: prepare_compiled(&part.alone(launch), compiled, graph, level),
        reads: part.reads.clone(),
        writes: part.writes.clone(),
        workspace: counted(part.workspace.start),
    };
    let members: Vec<Member> = parts.iter().zip(compiled).map(member).collect();
    let phases = members.iter().map(|member| member.tasks().phases()).max().unwrap_or(1);
    let batches = (0..phases).map(|phase| batches(&members, phase)).collect();
    Box::new(PreparedGroup { members, batches })
}

struct PreparedGroup {
    members: Vec<Member>,
    /// Tasks of the pool in each phase, each of which runs several batches.
    batches: Vec<Vec<Vec<Batch>>>,
}

/// Consecutive tasks of a member.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Batch {
    member: usize,
    tasks: Range<usize>,
}

struct Member {
    kernel: Box<dyn Prepared>,
    reads: Range<usize>,
    writes: Range<usize>,
    workspace: usize,
}

impl Member {
    /// Returns the member's tasks.
    fn tasks(&self) -> &dyn Tasks {
        self.kernel.tasks().expect("a sort is in no group")
    }

    /// Returns the member's share of the group's call.
    fn call<'a>(&self, call: &Call<'a>) -> Call<'a> {
        Call {
            pool: call.pool,
            reads: &call.reads[self.reads.clone()],
            writes: &call.writes[self.writes.clone()],
            scratch: call.scratch(self.workspace),
        }
    }
}

/// Combines the members' tasks, in order, into tasks of the pool that cost at least [`TASK_COST`] each.
/// Keeping the order lets neighboring tasks run on the same thread.
fn batches(members: &[Member], phase: usize) -> Vec<Vec<Batch>> {
    let mut batches = Vec::new();
    let (mut batch, mut cost) = (Vec::new(), 0);
    for (member, kernel) in members.iter().enumerate() {
        let tasks = kernel.tasks();
        if phase >= tasks.phases() {
            continue;
        }
        let (count, each) = (tasks.count(phase), tasks.cost(phase).max(1));
        let mut next = 0;
        while next < count {
            let fitting = (TASK_COST.saturating_sub(cost)).div_ceil(each).clamp(1, count - next);
            batch.push(Batch { member, tasks: next..next + fitting });
            next += fitting;
            cost += fitting * each;
            if cost >= TASK_COST {
                batches.push(std::mem::take(&mut batch));
                cost = 0;
            }
        }
    }
    if !batch.is_empty() {
        batches.push(batch);
    }
    batches
}

impl Tasks for PreparedGroup {
    fn phases(&self) -> usize {
        self.batches.len()
    }

    fn count(&self, phase: usize) -> usize {
        self.batches[phase].len()
    }

    fn cost(&self, _: usize) -> usize {
        TASK_COST
    }

    unsafe fn run_task(&self, call: &Call<'_>, phase: usize, index: usize) {
        for batch in &self.batches[phase][index] {
            let member = &self.members[batch.member];
            let (call, tasks) = (member.call(call), member.tasks());
            for task in batch.tasks.clone() {
                // SAFETY: the addresses are those of the member's launch; each task is in one batch; the
                // caller guarantees the rest.
                unsafe { tasks.run_task(&call, phase, task) };
            }
        }
    }

    fn outcome(&self, call: &Call<'_>, phase: usize) -> Result<(), Trap> {
        self.members
            .iter()
            .filter(|member| phase < member.tasks().phases())
            .map(|member| member.tasks().outcome(&member.call(call), phase))
            .fold(Ok(()), Result::and)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prepare;
    use crate::testing::{Job, Random, Tensor};
    use gradloom_codegen::cpu::loop_workspace;
    use gradloom_core::ir::{ArgReduceOp, BinaryOp, DType, OpKind, ReduceOp, Shape};
    use gradloom_core::kernel::{Body, Kernel, Layout, Level, Node, NodeId, NodeKind, Schedule, Store};

    /// Returns a body that computes x + y in place of x, and the sums of the columns of x + y.
    fn sums(rows: usize, columns: usize) -> Body {
        let node = |kind| Node { kind, dtype: DType::F32, level: Level::Element };
        let add = NodeKind::Binary(BinaryOp::Add, [NodeId(0), NodeId(1)]);
        Body {
            rows,
            columns,
            nodes: vec![node(NodeKind::Load(0)), node(NodeKind::Load(1)), node(add)],
            stores: vec![
                Store::Value { node: NodeId(2), level: Level::Element, write: 0 },
                Store::ColumnReduce { op: ReduceOp::Sum, node: NodeId(2), write: 1, parts: 1 },
            ],
        }
    }

    /// Returns jobs of several sizes and kinds.
    fn parts(random: &mut Random) -> Vec<Job> {
        let mut jobs: Vec<Job> = [(3, 5), (1, 40_000), (700, 300), (0, 4), (2, 2), (2000, 1)]
            .into_iter()
            .map(|(rows, columns)| {
                let (body, shape) = (sums(rows, columns), Shape::from([rows, columns]));
                let reads = (0..2).map(|_| Tensor::contiguous(random, DType::F32, &shape)).collect();
                let columns = Layout::contiguous(&[columns].into());
                let results =
                    vec![(DType::F32, Layout::contiguous(&shape), Some(0)), (DType::F32, columns, None)];
                Job {
                    workspace: loop_workspace(&body),
                    kernel: Kernel::Loop(body),
                    reads,
                    results,
                    schedule: Schedule::Whole,
                }
            })
            .collect();
        let reads = vec![Tensor::contiguous(random, DType::F32, &[50].into())];
        let kernel = Kernel::Op(OpKind::ArgReduce { op: ArgReduceOp::ArgMax, axis: 0 });
        let results = vec![(DType::I32, Layout::contiguous(&Shape::scalar()), None)];
        jobs.insert(2, Job { kernel, reads, results, schedule: Schedule::Whole, workspace: 0 });
        jobs
    }

    #[test]
    fn a_group_does_what_its_parts_do_alone() {
        let mut jobs = parts(&mut Random(9));
        let prepared = |launch: &Launch| prepare(launch, &Graph::new());
        let expected: Vec<Vec<f64>> =
            jobs.iter().flat_map(|job| job.run(|launch, _, _| prepared(launch)).unwrap()).collect();
        let (mut reads, mut results, mut list, mut workspace) = (Vec::new(), Vec::new(), Vec::new(), 0);
        for job in &mut jobs {
            let (first, end) = (reads.len(), workspace + job.workspace);
            list.push(Part {
                kernel: job.kernel.clone(),
                reads: first..first + job.reads.len(),
                writes: results.len()..results.len() + job.results.len(),
                schedule: Schedule::Whole,
                workspace: workspace as u64..end as u64,
            });
            results.extend(
                job.results.drain(..).map(|(d, layout, place)| (d, layout, place.map(|r| r + first))),
            );
            reads.append(&mut job.reads);
            workspace = end;
        }
        let group = Job { kernel: Kernel::Group(list), reads, results, schedule: Schedule::Whole, workspace };
        let got = group.run(|launch, _, _| prepared(launch)).unwrap();
        assert_eq!(got.len(), expected.len());
        for (got, expected) in got.iter().zip(&expected) {
            assert!(
                got.iter()
                    .zip(expected)
                    .all(|(a, b)| a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan()))
            );
        }
    }

    #[test]
    fn small_parts_share_a_task() {
        let small = || {
            let x = Tensor::contiguous(&mut Random(1), DType::F32, &[8, 8].into());
            let shape = Layout::contiguous(&[8, 8].into());
            let columns = Layout::contiguous(&[8].into());
            let body = sums(8, 8);
            Job {
                schedule: Schedule::Whole,
                workspace: loop_workspace(&body),
                kernel: Kernel::Loop(body),
                reads: vec![x.clone(), x],
                results: vec![(DType::F32, shape, None), (DType::F32, columns, None)],
            }
        };
        let members: Vec<Member> = (0..50)
            .map(|i| {
                let kernel = prepare(&small().launch(), &Graph::new());
                Member { kernel, reads: 2 * i..2 * i + 2, writes: 2 * i..2 * i + 2, workspace: 64 * i }
            })
            .collect();
        let batches = batches(&members, 0);
        assert!(batches.len() < 10, "{} tasks for 50 tiny parts", batches.len());
        let all: Vec<usize> = batches.iter().flatten().map(|batch| batch.member).collect();
        assert_eq!(all, (0..50).collect::<Vec<_>>());
    }
}
