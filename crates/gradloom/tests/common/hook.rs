//! An op that calls a function of the test in the middle of a step.

use gradloom::custom::{Builder, CustomOp, HostTensor, Slice, SliceMut, Type, TypeError, ValueId};
use gradloom::prelude::*;

pub(crate) type Message<T> = std::result::Result<T, String>;

/// Op that calls a function, and returns its operand unless the function fails.
struct Hook(&'static str, Box<dyn Fn() -> Message<()> + Send + Sync>);

impl std::fmt::Debug for Hook {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.0)
    }
}

impl CustomOp for Hook {
    fn name(&self) -> &str {
        self.0
    }

    fn infer(&self, operands: &[Type]) -> std::result::Result<Vec<Type>, TypeError> {
        Ok(operands.to_vec())
    }

    fn gradient(
        &self,
        _: &mut Builder<'_>,
        _: &[ValueId],
        _: &[ValueId],
        g: &[Option<ValueId>],
    ) -> Option<Vec<Option<ValueId>>> {
        Some(g.to_vec())
    }

    fn reference(&self, x: &[HostTensor]) -> Message<Vec<HostTensor>> {
        Ok(x.to_vec())
    }

    fn run_on_host(&self, x: &[Slice<'_>], y: &mut [SliceMut<'_>]) -> Message<()> {
        let ([Slice::F32(x)], [SliceMut::F32(y)]) = (x, y) else { return Err("f32 is expected".into()) };
        y.copy_from_slice(x);
        (self.1)()
    }
}

/// Returns `x` from an op that calls `f`.
pub(crate) fn hook(
    name: &'static str,
    x: Tensor,
    f: impl Fn() -> Message<()> + Send + Sync + 'static,
) -> Tensor {
    Tensor::custom(Hook(name, Box::new(f)), [x])[0]
}
