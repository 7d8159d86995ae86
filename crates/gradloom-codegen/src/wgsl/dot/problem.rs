//! What a product's shaders are generated from.

use crate::cpu::{DotProblem, MatrixView};
use crate::wgsl::Writer;

/// Type of an operand's elements in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scalar {
    /// 32 bits.
    F32,
    /// 16 bits; the shader needs `enable f16;`, which is written where an operand has it.
    F16,
}

/// An operand: where its elements come from.
#[derive(Clone, Copy)]
pub struct Operand<'a> {
    /// Type of the elements.
    pub scalar: Scalar,
    /// How many elements neighbour in an item: 1 (`f32`, `f16`) or 4 (`vec4<f32>`, `vec4<f16>`).
    pub lanes: u32,
    /// An expression for item `index`, a `u32` expression without side effects: `lhs[index]`, or any function
    /// of it that keeps the type and the lanes. Item i holds elements `lanes·i ..`, counted as in the
    /// problem's [`MatrixView`].
    pub load: &'a dyn Fn(&str) -> String,
}

/// A result for the epilogue: expressions without side effects.
#[derive(Clone, Copy, Debug)]
pub struct Element<'a> {
    /// The product's index over the problem's batch axes, row-major (`u32`).
    pub batch: &'a str,
    /// Its row (`u32`).
    pub row: &'a str,
    /// Its column (`u32`); the first of four where the epilogue takes four lanes.
    pub column: &'a str,
    /// `(batch·m + row)·n + column` (`u32`): its place in the contiguous results.
    pub index: &'a str,
    /// The sum: `f32`, or `vec4<f32>` where the epilogue takes four lanes.
    pub value: &'a str,
}

/// What happens to each result.
#[derive(Clone, Copy)]
pub struct Epilogue<'a> {
    /// Results given at a time: 1, or 4 neighbours in a row; 4 only where the number of columns is a multiple
    /// of 4.
    pub lanes: u32,
    /// Writes the statements that store a result. They stand in a block of their own, and run exactly once
    /// for each result.
    pub store: &'a dyn Fn(&mut Writer, &Element<'_>),
}

/// One of the shaders of a product, for its bindings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The product and its epilogue: reads the operands, and what the epilogue needs.
    Whole,
    /// Parts of the sums: reads the operands, writes `workspace`.
    Parts,
    /// Adds the parts: reads `workspace`, and what the epilogue needs.
    Sum,
}

/// A product with all that its shaders need from outside.
#[derive(Clone, Copy)]
pub struct DotKernel<'a> {
    /// Extents and strides; see [`fold_batch`].
    pub problem: &'a DotProblem,
    /// The left operand.
    pub lhs: Operand<'a>,
    /// The right operand.
    pub rhs: Operand<'a>,
    /// What happens to the results.
    pub epilogue: Epilogue<'a>,
    /// Declarations of bindings, constants and functions for a stage. `workspace` is an array of
    /// [`workspace_item`].
    ///
    /// Inside of the shaders, names are taken that begin with `lhs_`, `rhs_`, `sum_`, `first_`, `thread`,
    /// `band`, `subgroup` or `workgroup`, and `group`, `tile`, `batch`, `part`, `term`, `next_term`,
    /// `end_term`, `buffer`, `lane`, `place`, `row`, `column`, `index`, `value`, `result_tile`, `sums`, `i`,
    /// `j`.
    pub declarations: &'a dyn Fn(Stage) -> String,
}

/// Type of an item of the workspace into which [`Stage::Parts`] writes: four neighbours where rows are whole
/// fours.
pub fn workspace_item(problem: &DotProblem) -> &'static str {
    if problem.n.is_multiple_of(4) { "vec4<f32>" } else { "f32" }
}

/// The problem with batch axes over which the right operand is shared made rows of the left one, where its
/// strides allow that.
///
/// Only the innermost axes are folded, so the results keep their places: `(batch·m + row)·n + column` is the
/// same element.
pub fn fold_batch(mut problem: DotProblem) -> DotProblem {
    while let Some(&axis) = problem.batch.last() {
        let continues = problem.m == 1 || axis.lhs_stride == problem.m * problem.lhs.free_stride;
        if axis.extent != 1 && (axis.rhs_stride != 0 || !continues) {
            break;
        }
        if problem.m == 1 && axis.extent != 1 {
            problem.lhs.free_stride = axis.lhs_stride;
        }
        problem.m *= axis.extent;
        problem.batch.pop();
    }
    problem
}

/// The axis of an operand along which neighbours are taken together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Along {
    /// Rows of the left, columns of the right operand.
    Free,
    /// The sum's axis.
    Contract,
}

/// An operand's matrix with what decides how it is read.
#[derive(Clone, Copy)]
pub(super) struct Side<'a> {
    pub(super) name: &'static str,
    pub(super) operand: Operand<'a>,
    pub(super) view: MatrixView,
    /// Number of rows of the left, columns of the right operand.
    pub(super) free: usize,
    pub(super) contract: usize,
    pub(super) along: Along,
    /// Whether items of four along that axis can be loaded whole: everything that matters is a multiple of
    /// four.
    pub(super) fours: bool,
}

impl<'a> Side<'a> {
    pub(super) fn lhs(kernel: &DotKernel<'a>) -> Self {
        let strides = kernel.problem.batch.iter().map(|axis| axis.lhs_stride);
        Self::new("lhs", kernel.lhs, kernel.problem.lhs, kernel.problem.m, kernel.problem.k, strides)
    }

    pub(super) fn rhs(kernel: &DotKernel<'a>) -> Self {
        let strides = kernel.problem.batch.iter().map(|axis| axis.rhs_stride);
        Self::new("rhs", kernel.rhs, kernel.problem.rhs, kernel.problem.n, kernel.problem.k, strides)
    }

    fn new(
        name: &'static str,
        operand: Operand<'a>,
        view: MatrixView,
        free: usize,
        contract: usize,
        mut batch_strides: impl Iterator<Item = usize>,
    ) -> Self {
        let by_contract = view.contract_stride == 1 && contract > 1 || free == 1;
        let by_free = view.free_stride == 1 && free > 1;
        // Where neither axis is contiguous, any choice is right.
        let along = if by_contract || !by_free { Along::Contract } else { Along::Free };
        let (step, extent, (others, stride)) = match along {
            Along::Contract => (view.contract_stride, contract, (free, view.free_stride)),
            Along::Free => (view.free_stride, free, (contract, view.contract_stride)),
        };
        let aligned = |stride: usize| stride.is_multiple_of(4);
        let fours = operand.lanes == 4
            && step == 1
            && aligned(extent)
            && aligned(view.offset)
            && (others <= 1 || aligned(stride))
            && batch_strides.all(aligned);
        Self { name, operand, view, free, contract, along, fours }
    }

    /// An `f32` expression for the element at `index`.
    pub(super) fn element(&self, index: &str) -> String {
        let element = match self.operand.lanes {
            1 => (self.operand.load)(index),
            _ => format!("{}[({index}) & 3u]", (self.operand.load)(&format!("({index}) >> 2u"))),
        };
        match self.operand.scalar {
            Scalar::F32 => element,
            Scalar::F16 => format!("f32({element})"),
        }
    }

    /// An expression for four neighbours from `index` on, where that is possible: `vec4<f32>`, or `vec4<f16>`
    /// for `half`.
    pub(super) fn four(&self, index: &str, half: bool) -> String {
        let item = (self.operand.load)(&format!("({index}) >> 2u"));
        match (self.operand.scalar, half) {
            (Scalar::F32, false) | (Scalar::F16, true) => item,
            (Scalar::F16, false) => format!("vec4<f32>({item})"),
            (Scalar::F32, true) => format!("vec4<f16>({item})"),
        }
    }
}

/// `index·stride` as an expression; `None` where it is zero.
pub(super) fn scaled(index: &str, stride: usize) -> Option<String> {
    match stride {
        0 => None,
        1 => Some(index.to_string()),
        _ => Some(format!("{index} * {stride}u")),
    }
}

/// The sum of the terms that there are.
pub(super) fn sum(terms: impl IntoIterator<Item = Option<String>>) -> String {
    let terms: Vec<String> = terms.into_iter().flatten().collect();
    if terms.is_empty() { "0u".into() } else { terms.join(" + ") }
}
