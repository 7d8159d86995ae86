//! User-defined ops, each of which is a separate kernel whatever it reads.

use super::{fused, meaning};
use gradloom_core::fuse::Fusion;
use gradloom_core::ir::{CustomOp, DType, Graph, Slice, SliceMut, Type, TypeError, parse_with};
use gradloom_core::reference::HostTensor;
use std::sync::Arc;

/// An op without operands that returns 0, 1, 2, 3.
#[derive(Debug)]
struct Count;

impl CustomOp for Count {
    fn name(&self) -> &str {
        "count"
    }
    fn infer(&self, _: &[Type]) -> Result<Vec<Type>, TypeError> {
        Ok(vec![Type::new(DType::F32, [4])])
    }
    fn reference(&self, _: &[HostTensor]) -> Result<Vec<HostTensor>, String> {
        Ok(vec![HostTensor::from_f64(Type::new(DType::F32, [4]), vec![0.0, 1.0, 2.0, 3.0])])
    }
    fn run_on_host(&self, _: &[Slice<'_>], _: &mut [SliceMut<'_>]) -> Result<(), String> {
        Err("only the kernels are looked at".into())
    }
}

#[test]
fn an_op_without_operands_is_run_in_every_step() {
    let text = "graph {\n%0: f32[4] = input \"x\"\n%1: f32[4] = custom \"count\"\n%2: f32[4] = exp %1\n\
                %3: f32[4] = mul %0, %2\noutput \"y\" %3\n}";
    let count: Arc<dyn CustomOp> = Arc::new(Count);
    let graph: Graph = parse_with(text, &[count]).unwrap_or_else(|error| panic!("{error:?}"));
    meaning::check(&graph, 3);
    let kernels = fused(&graph, Fusion::On).kernels;
    let names: Vec<_> = kernels.iter().map(|kernel| (kernel.kernel.name(), kernel.once)).collect();
    assert_eq!(names.len(), 2, "{names:?}");
    assert_eq!(names[1], ("map", false));
    assert!(!names[0].1, "it need not give the same again");
}
