//! Tests of a user-defined op whose kernels use scratch memory, shared memory, barriers and views.

use super::programs::agrees;
use gradloom_codegen::pipeline::Target;
use gradloom_codegen::simt::custom::gpu_lowering;
use gradloom_codegen::wgsl::{Limits, Precision};
use gradloom_core::fuse::fuse;
use gradloom_core::ir::{CustomOp, DType, GpuLowering, Graph, Slice, SliceMut, Type, TypeError, parse_with};
use gradloom_core::plan::{self, StoreLayout};
use gradloom_core::reference::HostTensor;
use gradloom_testing::Leaves;
use std::sync::Arc;

/// Sum of the squares of a tensor's elements.
#[derive(Debug)]
struct SumOfSquares;

impl CustomOp for SumOfSquares {
    fn name(&self) -> &str {
        "sum_of_squares"
    }
    fn infer(&self, _: &[Type]) -> Result<Vec<Type>, TypeError> {
        Ok(vec![Type::new(DType::F32, [1])])
    }
    fn reference(&self, x: &[HostTensor]) -> Result<Vec<HostTensor>, String> {
        let sum: f64 = x[0].to_f64().iter().map(|x| x * x).sum();
        Ok(vec![HostTensor::from_f64(Type::new(DType::F32, [1]), vec![sum])])
    }
    fn run_on_host(&self, _: &[Slice<'_>], _: &mut [SliceMut<'_>]) -> Result<(), String> {
        Err("it runs on GPUs".into())
    }
    fn gpu(&self) -> Option<GpuLowering> {
        Some(gpu_lowering(|op| {
            let (x, y) = (op.operand(0), op.result(0));
            let parts = x.elements().div_ceil(128).max(1);
            let sums = op.scratch(DType::F32, parts);
            op.kernel(64, parts, |k| {
                let shared = k.shared(DType::F32, 64);
                let sum = k.var(k.f32(0.0));
                k.count(k.u32(0), k.u32(2), |turn| {
                    let i = k.group() * 128 + turn * 64 + k.local();
                    k.when(i.below(u32::try_from(x.elements()).unwrap()), || {
                        let value = k.load(x, i);
                        sum.set(sum.get() + value * value);
                    });
                });
                k.set(shared, k.local(), sum.get());
                k.barrier();
                k.when(k.local().equals(k.u32(0)), || {
                    let total = k.var(k.f32(0.0));
                    k.count(k.u32(0), k.u32(64), |i| total.set(total.get() + k.get(shared, i)));
                    k.store(sums, k.group(), total.get());
                });
            });
            op.kernel(1, 1, |k| {
                let total = k.var(k.f32(0.0));
                let parts = u32::try_from(parts).unwrap();
                k.count(k.u32(0), k.u32(parts), |i| total.set(total.get() + k.load(sums, i)));
                k.store(y, k.u32(0), total.get());
            });
        }))
    }
}

/// Returns a graph that applies the op to a view of an input and to its exponential.
fn graph(rows: usize) -> Graph {
    let op: Arc<dyn CustomOp> = Arc::new(SumOfSquares);
    let text = format!(
        "graph {{\n %0: f32[{rows}, 5] = input \"x\"\n %1: f32[5, {rows}] = permute %0 {{perm=[1, 0]}}\n \
         %2: f32[5, {rows}] = exp %1\n %3: f32[1] = custom \"sum_of_squares\" %1\n \
         %4: f32[1] = custom \"sum_of_squares\" %2\n %5: f32[1] = add %3, %4\n output \"y\" %5\n}}"
    );
    parse_with(&text, &[op]).unwrap_or_else(|error| panic!("{error:?}\n{text}"))
}

/// Returns the CUDA C of the op.
pub(super) fn cuda_texts() -> Vec<String> {
    let (graph, target) = (graph(40), Target::cuda(Limits::cuda(), Precision::F32));
    let lowered = target.lower(&graph, fuse(&graph, target.fusion).unwrap());
    // The kernels read views without copies.
    assert!(lowered.launches.iter().all(|launch| launch.kernel.name() != "copy"));
    let plan = plan::plan(&graph, lowered, &StoreLayout::default(), None).unwrap();
    target.emit(&graph, &plan).unwrap().into_iter().map(|text| text.source).collect()
}

#[test]
fn a_users_kernels_agree_on_every_device() {
    for rows in [0, 1, 7, 25, 26, 200] {
        let kinds = agrees(&graph(rows), &Leaves::random(rows as u64));
        assert!(kinds.contains_key("custom"), "{kinds:?}");
    }
}
