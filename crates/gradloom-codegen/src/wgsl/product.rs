//! Bindings of matrix products, and their standalone shaders.

use super::alone::{Alone, Value, side_by_side};
use super::dispatch::Bound;
use super::operands::Operands;
use super::operands::{Element, NONE};
use super::print::print;
use crate::limits::Limits;
use crate::product::{DotProblem, folded, last_elements, reads_vectors};
use crate::schedule::product::{lanes, schedule};
use crate::simt::kernels::product;
use gradloom_core::ir::{DType, DotAxes, Shape};
use gradloom_core::kernel::{Launch, Layout, ProductChoice};

/// Declares operands as vectors of four if the kernels can load them as such.
pub(crate) fn vectorise(operands: &mut Operands, axes: &DotAxes, limits: &Limits) {
    let problem = folded(axes, &operands.reads[0].layout, &operands.reads[1].layout);
    for (side, lanes) in lanes(&problem, limits).into_iter().enumerate() {
        as_vectors(operands, side, lanes == 4);
    }
}

/// Declares the operands of attention by matrices as vectors of four if their rows consist of such vectors.
pub(crate) fn vectorise_rows(operands: &mut Operands, launch: &Launch) {
    for (read, has_fours) in
        reads_vectors(&launch.kernel, &launch.schedule, &launch.reads).into_iter().enumerate()
    {
        as_vectors(operands, read, has_fours);
    }
}

fn as_vectors(operands: &mut Operands, read: usize, has_fours: bool) {
    let binding = operands.reads[read].binding;
    if has_fours
        && binding != NONE
        && let Element::Plain(dtype @ (DType::F32 | DType::F16)) = operands.bindings[binding].element
    {
        operands.bindings[binding].element = Element::Vector(dtype);
    }
}

/// Returns the standalone shaders of a product without an epilogue, for measurements. The bindings are the
/// left operand, the right operand and the result.
pub(crate) fn alone(problem: &DotProblem, choice: &ProductChoice, limits: &Limits) -> Alone {
    let [lhs, rhs] = last_elements(problem).map(|last| last + 1);
    let lanes = lanes(problem, limits);
    let value = |count: usize, lanes: u32| {
        let element = if lanes == 4 { Element::Vector(DType::F32) } else { Element::Plain(DType::F32) };
        Value { element, dtype: DType::F32, layout: Layout::contiguous(&Shape::from([count])) }
    };
    let reads = vec![value(lhs, lanes[0]), value(rhs, lanes[1])];
    let operands = side_by_side(reads, vec![value(problem.results(), 1)]);
    let schedule = schedule(problem, *choice, DType::F16, limits);
    let kernels = product(&operands.views(false), problem, &schedule, None, "product", None);
    let dispatches = kernels.iter().map(|kernel| print(kernel, &operands, limits, 0)).collect();
    Alone { operands, dispatches, words: Vec::new(), results: vec![Bound::Operand(2)] }
}
