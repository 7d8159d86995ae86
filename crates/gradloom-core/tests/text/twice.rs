//! A custom op for the tests.

use gradloom_core::ir::{CustomOp, Slice, SliceMut, Type, TypeError};
use gradloom_core::reference::HostTensor;
use std::sync::Arc;

/// An op that doubles f32 elements.
#[derive(Debug)]
pub(crate) struct Twice;

impl CustomOp for Twice {
    fn name(&self) -> &str {
        "tests.twice"
    }

    fn infer(&self, operands: &[Type]) -> Result<Vec<Type>, TypeError> {
        match operands {
            [x] if x.dtype.is_float() => Ok(vec![x.clone()]),
            _ => Err(TypeError::new("tests.twice takes one f32 operand")),
        }
    }

    fn reference(&self, operands: &[HostTensor]) -> Result<Vec<HostTensor>, String> {
        let doubled = operands[0].to_f64().into_iter().map(|v| v * 2.0);
        Ok(vec![HostTensor::from_f64(operands[0].ty.clone(), doubled)])
    }

    fn run_on_host(&self, _: &[Slice<'_>], _: &mut [SliceMut<'_>]) -> Result<(), String> {
        Err("no test runs this on a device".to_string())
    }
}

pub(crate) fn customs() -> Vec<Arc<dyn CustomOp>> {
    vec![Arc::new(Twice)]
}
