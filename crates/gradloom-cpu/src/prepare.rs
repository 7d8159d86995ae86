//! Selects the kernel that runs a launch.
//!
//! In: a launch. Out: the kernel, prepared for this machine's instruction set.
//! Invariant: the match is exhaustive, so a new primitive does not compile until it has a kernel.

use super::device::machine;
use super::kernel::{Call, Prepared, Tasks};
use super::{
    InstructionSet, Loops, attention, custom, dot, fused, group, index, movement, random, reduce, rows,
};
use gradloom_codegen::cpu::{CpuCompiler, CpuKernel};
use gradloom_core::ir::{Graph, OpKind};
use gradloom_core::kernel::{Kernel, Launch};

/// Compiles and prepares a launch for this machine. `graph` contains the custom ops that launches refer to by
/// number.
///
/// # Panics
/// Panics if no lowering makes such a launch: for leaves, views and block ops, and for dtypes that shape
/// inference rejects.
pub fn prepare(launch: &Launch, graph: &Graph) -> Box<dyn Prepared> {
    prepare_at(launch, graph, InstructionSet::detect(), Loops::Native)
}

/// Compiles and prepares a launch, as [`prepare`] does, for an instruction set.
pub(crate) fn prepare_at(
    launch: &Launch,
    graph: &Graph,
    level: InstructionSet,
    loops: Loops,
) -> Box<dyn Prepared> {
    prepare_compiled(launch, &CpuCompiler::new(machine(level, loops)).launch(launch), graph, level)
}

/// Prepares a compiled launch for an instruction set.
///
/// # Panics
/// Same as [`prepare`], and if the launch was not compiled.
pub(crate) fn prepare_compiled(
    launch: &Launch,
    compiled: &CpuKernel,
    graph: &Graph,
    level: InstructionSet,
) -> Box<dyn Prepared> {
    let empty = launch.writes.iter().all(|write| write.layout.shape.elements() == 0);
    let nothing_to_write =
        launch.kernel == Kernel::WriteRegion && launch.reads[0].layout.shape.elements() == 0;
    if empty || nothing_to_write {
        return Box::new(Nothing);
    }
    let kind = match (&launch.kernel, compiled) {
        (Kernel::Loop(body), CpuKernel::Loop(program)) => {
            return fused::prepare_loop(launch, body, program, level);
        }
        (_, CpuKernel::Product(plan, epilogue)) => {
            return dot::prepare_dot(launch, plan, epilogue.as_ref(), level);
        }
        (Kernel::Group(parts), CpuKernel::Group(members)) => {
            return group::prepare_group(launch, parts, members, graph, level);
        }
        (Kernel::Copy, _) => return movement::prepare_copy(launch),
        (Kernel::WriteRegion, _) => return index::prepare_write_region(launch),
        (Kernel::Op(kind), _) => kind,
        (kernel, _) => panic!("gradloom did not compile {}; please report this", kernel.name()),
    };
    match kind {
        OpKind::Dequantize { format } => movement::prepare_dequantize(launch, *format),
        OpKind::ArgReduce { op, axis } => reduce::prepare_arg(launch, *op, *axis, level),
        OpKind::Cumulate { op, reverse } => rows::prepare_cumulate(launch, *op, *reverse, level),
        OpKind::Sort { count, descending } => rows::prepare_sort(launch, *count, *descending, level),
        OpKind::Pad { low, high: _, interior, value } => movement::prepare_pad(launch, low, interior, *value),
        OpKind::Concat { axis } => movement::prepare_concat(launch, *axis),
        OpKind::RandomBits { shape: _, site, ones } => random::prepare(launch, *site, *ones, level),
        OpKind::DynamicSlice { .. } => index::prepare_dynamic_slice(launch),
        OpKind::DynamicUpdateSlice => index::prepare_dynamic_update_slice(launch),
        OpKind::Gather { batch } => index::prepare_gather(launch, *batch),
        OpKind::Scatter { op, batch } => index::prepare_scatter(launch, *op, *batch),
        OpKind::Attention(spec) => attention::prepare_attention(launch, spec, level),
        OpKind::AttentionGrad(spec) => attention::prepare_attention_grad(launch, spec, level),
        OpKind::Custom(id) => custom::prepare(launch, graph.customs[*id].clone()),
        OpKind::Input { .. }
        | OpKind::Param { .. }
        | OpKind::State { .. }
        | OpKind::Scalar { .. }
        | OpKind::Constant { .. }
        | OpKind::Iota { .. }
        | OpKind::Reshape { .. }
        | OpKind::Permute { .. }
        | OpKind::Broadcast { .. }
        | OpKind::Slice { .. }
        | OpKind::Repeat { .. }
        | OpKind::Checkpoint { .. }
        | OpKind::Composite(_)
        | OpKind::Conv(_)
        | OpKind::Windows { .. }
        | OpKind::Words
        | OpKind::Barrier
        | OpKind::Collective { .. }
        | OpKind::Dot(_)
        | OpKind::Unary(_)
        | OpKind::Binary(_)
        | OpKind::Compare(_)
        | OpKind::Select
        | OpKind::Cast { .. }
        | OpKind::Reduce { .. } => {
            panic!("gradloom launched {}, which has no kernel; please report this", kind.name())
        }
    }
}

/// The kernel of a launch without elements.
struct Nothing;

impl Tasks for Nothing {
    fn count(&self, _: usize) -> usize {
        0
    }

    unsafe fn run_task(&self, _: &Call<'_>, _: usize, _: usize) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Case, Random, Tensor};
    use gradloom_core::ir::{ArgReduceOp, BinaryOp, DType, DotAxes, Number, ReduceOp, Shape, UnaryOp};

    #[test]
    fn a_launch_without_elements_does_nothing() {
        let mut random = Random(1);
        let empty = Shape::from([0, 3]);
        let x = || Tensor::contiguous(&mut Random(2), DType::F32, &empty);
        let index = Tensor::contiguous(&mut random, DType::I32, &Shape::from([0]));
        let table = Tensor::contiguous(&mut random, DType::F32, &Shape::from([5, 3]));
        let inner = Tensor::contiguous(&mut random, DType::F32, &Shape::from([3, 2]));
        let axes = DotAxes { lhs_contract: vec![1], rhs_contract: vec![0], ..DotAxes::default() };
        let pad = OpKind::Pad {
            low: vec![0; 2],
            high: vec![0; 2],
            interior: vec![1; 2],
            value: Number::Float(0.0),
        };
        let cases = [
            (OpKind::Unary(UnaryOp::Exp), vec![x()], empty.clone()),
            (OpKind::Binary(BinaryOp::Add), vec![x(), x()], empty.clone()),
            (OpKind::Reduce { op: ReduceOp::Sum, axes: vec![1] }, vec![x()], [0].into()),
            (OpKind::ArgReduce { op: ArgReduceOp::ArgMax, axis: 1 }, vec![x()], [0].into()),
            (OpKind::Concat { axis: 0 }, vec![x(), x()], empty.clone()),
            (pad, vec![x()], [0, 5].into()),
            (OpKind::Gather { batch: 0 }, vec![table, index], empty.clone()),
            (OpKind::Dot(axes), vec![x(), inner], [0, 2].into()),
        ];
        for (kind, reads, shape) in cases {
            let case = Case::new(kind, reads, DType::F32, shape);
            assert_eq!(case.run(|launch, _| prepare(launch, &Graph::new())), Ok(vec![]), "{:?}", case.kind);
        }
    }

    #[test]
    fn a_reduction_of_nothing_gives_the_identity() {
        for (op, identity) in
            [(ReduceOp::Sum, 0.0), (ReduceOp::Prod, 1.0), (ReduceOp::Max, f64::NEG_INFINITY)]
        {
            let x = Tensor::contiguous(&mut Random(1), DType::F32, &Shape::from([0, 3]));
            let case = Case::new(OpKind::Reduce { op, axes: vec![0] }, vec![x], DType::F32, [3]);
            assert_eq!(case.run(|launch, _| prepare(launch, &Graph::new())), Ok(vec![identity; 3]));
        }
    }

    #[test]
    #[should_panic(expected = "launched reshape, which has no kernel")]
    fn a_view_has_no_kernel() {
        let x = Tensor::contiguous(&mut Random(1), DType::F32, &Shape::from([2]));
        let launch = Case::new(OpKind::Reshape { shape: [2].into() }, vec![x], DType::F32, [2]).launch();
        prepare(&launch, &Graph::new());
    }
}
