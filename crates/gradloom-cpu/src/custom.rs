//! User-defined ops: passes typed slices to their host functions.
//!
//! In: contiguous operands. Out: the results that [`CustomOp::run_on_host`] writes.
//! Invariant: no result aliases an operand.

use super::kernel::{Call, Prepared, Tasks, Trap};
use gradloom_core::ir::{CustomOp, DType};
use gradloom_core::kernel::{Access, Launch};
use gradloom_device::host::run_on_host;
use std::sync::{Arc, Mutex, PoisonError};

/// Returns a kernel for a `Custom` launch.
///
/// # Panics
/// Panics if lowering left an operand that is not contiguous, or a result that may alias an operand.
pub(super) fn prepare(launch: &Launch, op: Arc<dyn CustomOp>) -> Box<dyn Prepared> {
    for access in launch.reads.iter().chain(&launch.writes) {
        assert!(
            access.layout.is_contiguous(),
            "{}: lowering must copy {} first; please report this",
            op.name(),
            access.buffer
        );
    }
    assert!(
        launch.may_alias.is_empty(),
        "{}: a custom op cannot work in place; please report this",
        op.name()
    );
    let window = |access: &Access| Window {
        dtype: access.dtype,
        offset: access.layout.offset,
        elements: access.layout.shape.elements(),
    };
    Box::new(Custom {
        op,
        reads: launch.reads.iter().map(window).collect(),
        writes: launch.writes.iter().map(window).collect(),
        failure: Mutex::new(None),
    })
}

/// A range of contiguous elements of a buffer.
struct Window {
    dtype: DType,
    offset: usize,
    elements: usize,
}

struct Custom {
    op: Arc<dyn CustomOp>,
    reads: Vec<Window>,
    writes: Vec<Window>,
    /// Error of the op in the run in progress.
    failure: Mutex<Option<String>>,
}

impl Tasks for Custom {
    fn count(&self, _: usize) -> usize {
        1
    }

    unsafe fn run_task(&self, call: &Call<'_>, _: usize, _: usize) {
        let read =
            |(i, w): (usize, &Window)| (w.dtype, call.read::<u8>(i, w.offset * w.dtype.bytes()), w.elements);
        let write =
            |(i, w): (usize, &Window)| (w.dtype, call.write::<u8>(i, w.offset * w.dtype.bytes()), w.elements);
        // SAFETY: the launch's windows lie in the call's buffers, which are aligned for their elements;
        // `prepare` checked that no result aliases an operand; a program fills its memory when it is loaded,
        // so the elements are initialized.
        let done = unsafe {
            run_on_host(
                &*self.op,
                self.reads.iter().enumerate().map(read),
                self.writes.iter().enumerate().map(write),
            )
        };
        *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = done.err();
    }

    fn outcome(&self, _: &Call<'_>, _: usize) -> Result<(), Trap> {
        let failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner).take();
        failure.map_or(Ok(()), |message| Err(Trap::new(message)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Case, Random, Tensor};
    use gradloom_core::ir::{OpKind, Shape, Slice, SliceMut, Type, TypeError};
    use gradloom_core::reference::HostTensor;

    /// Selects `a` where the bool is true and the integer elsewhere; fails on a negative integer.
    #[derive(Debug)]
    struct Choose;

    impl CustomOp for Choose {
        fn name(&self) -> &str {
            "choose"
        }

        fn infer(&self, operands: &[Type]) -> Result<Vec<Type>, TypeError> {
            Ok(vec![operands[0].clone()])
        }

        fn reference(&self, _: &[HostTensor]) -> Result<Vec<HostTensor>, String> {
            Err("not used here".to_string())
        }

        fn run_on_host(&self, operands: &[Slice<'_>], results: &mut [SliceMut<'_>]) -> Result<(), String> {
            let (&[Slice::F32(a), Slice::I32(b), Slice::Bool(c)], [SliceMut::F32(to)]) = (operands, results)
            else {
                return Err(format!("unexpected operands {operands:?}"));
            };
            for (i, to) in to.iter_mut().enumerate() {
                let b = u16::try_from(b[i]).map_err(|_| format!("element {i} is {}", b[i]))?;
                *to = if c[i] == 1 { a[i] } else { b.into() };
            }
            Ok(())
        }
    }

    fn case(integers: &[u32]) -> Case {
        let mut random = Random(1);
        let shape = Shape::from([integers.len()]);
        let condition = Tensor::contiguous(&mut random, DType::Bool, &shape);
        let a = Tensor::f32(shape.clone(), &vec![0.5; integers.len()]);
        let b = Tensor::of_bits(DType::I32, shape.clone(), integers.iter().copied());
        Case::new(OpKind::Custom(0), vec![a, b, condition], DType::F32, shape)
    }

    #[test]
    fn a_custom_op_gets_typed_slices_and_its_error_traps() {
        let prepare = |launch: &Launch, _| prepare(launch, Arc::new(Choose));
        let good = case(&[3, 4, 5, 6, 7]);
        let both = good.reads[1].values().into_iter().zip(good.reads[2].values());
        let expected: Vec<f64> = both.map(|(b, c)| if c == 1.0 { 0.5 } else { b }).collect();
        assert_eq!(good.run(prepare).unwrap(), expected);
        assert!(case(&[]).run(prepare).unwrap().is_empty());
        let trap = case(&[3, u32::MAX]).run(prepare).unwrap_err();
        assert_eq!(trap.message, "choose: element 1 is -1");
    }

    #[test]
    #[should_panic(expected = "lowering must copy")]
    fn a_strided_operand_is_a_bug_of_lowering() {
        let mut launch = case(&[1, 2]).launch();
        launch.reads[0].layout.strides = vec![0];
        prepare(&launch, Arc::new(Choose));
    }
}
