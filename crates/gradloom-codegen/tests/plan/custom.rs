//! Tests that operands of user-defined ops, which must be row-major, are copied only if they are not.

use crate::plan_of;
use gradloom_core::ir::{CustomOp, Slice, SliceMut, Type, TypeError, parse_with};
use gradloom_core::reference::HostTensor;
use std::sync::Arc;

#[derive(Debug)]
struct First;

impl CustomOp for First {
    fn name(&self) -> &str {
        "first"
    }
    fn infer(&self, operands: &[Type]) -> Result<Vec<Type>, TypeError> {
        Ok(vec![operands[0].clone()])
    }
    fn reference(&self, operands: &[HostTensor]) -> Result<Vec<HostTensor>, String> {
        Ok(vec![operands[0].clone()])
    }
    fn run_on_host(&self, _: &[Slice<'_>], _: &mut [SliceMut<'_>]) -> Result<(), String> {
        Err("only the plan is looked at".into())
    }
}

/// Returns the names of the kernels before `first(%1, %2)` in its plan, where both operands are these views
/// of an input of 3 rows and 2 columns.
fn kernels(first: &str, second: &str) -> Vec<&'static str> {
    let text = format!(
        "graph {{\n%0: f32[3, 2] = input \"x\"\n%1: {first}\n%2: {second}\n\
         %3: f32[2, 3] = custom \"first\" %1, %2\noutput \"y\" %3\n}}"
    );
    let op: Arc<dyn CustomOp> = Arc::new(First);
    let graph = parse_with(&text, &[op]).unwrap_or_else(|error| panic!("{error:?}\n{text}"));
    let plan = plan_of(&graph);
    let custom = plan.launches.last().expect("the op is launched");
    assert!(custom.reads.iter().all(|read| read.layout.is_contiguous()), "{}", plan.report(&graph));
    plan.launches[..plan.launches.len() - 1].iter().map(|launch| super::name(launch)).collect()
}

#[test]
fn operands_are_copied_only_where_their_elements_are_not_in_order() {
    let (reshaped, permuted) = ("f32[2, 3] = reshape %0", "f32[2, 3] = permute %0 {perm=[1, 0]}");
    assert_eq!(kernels(reshaped, reshaped), [""; 0]);
    assert_eq!(kernels(permuted, reshaped), ["copy"]);
    assert_eq!(kernels(reshaped, permuted), ["copy"]);
    assert_eq!(kernels(permuted, permuted), ["copy", "copy"]);
}
