//! Lowering for GPUs: what the kernels of `simt` can do, and the scratch that they need.

use super::followed::follow_attention;
use super::library::rounded_layout;
use super::narrow::narrow;
use super::pad::pad_rows;
use super::{
    OfProducts, Request, Target, as_body, group_scatters, lower_padded, read_stored, round_at_scatters,
};
use crate::cuda::{EXTENT_ALIGNMENT, LibraryProduct, least_product, takes_lines_behind};
use crate::limits::Limits;
use crate::product::{DotProblem, fold_batch};
use crate::schedule::precision::Precision;
use crate::schedule::product::{reads_once, streamed_parts};
use crate::schedule::tuning::{Choices, Problem, problems as problems_in};
use crate::schedule::{group, rows, schedule};
use crate::simt::custom;
use gradloom_core::error::Result;
use gradloom_core::fuse::{Fused, Fusion, fuse};
use gradloom_core::ir::{CustomOp, DType, DotAxes, Graph, OpKind};
use gradloom_core::kernel::{
    Access, Body, GroupSchedule, Kernel, Layout, Level, Lowered, Part, Schedule, Store,
};

/// How ops are fused for GPUs.
pub const FUSION: Fusion = Fusion::SumsApart;

/// Fuses a graph and lowers it for a device with these limits; `choices` say how its products and attention
/// are computed.
///
/// # Errors
/// When a block op is left: passes expand them first.
pub fn lower(graph: &Graph, limits: &Limits, choices: &Choices) -> Result<Lowered> {
    Ok(lower_fused(graph, fuse(graph, FUSION)?, limits, choices))
}

/// Lowers kernels for a device with these limits; `choices` say how products and attention are computed.
pub fn lower_fused(graph: &Graph, fused: Fused, limits: &Limits, choices: &Choices) -> Lowered {
    lowered(graph, fused, &Gpu { limits, choices, cuts_products: true })
}

/// What there are choices for in a program, each once: what lowering makes with these choices, and, whole,
/// the products that it cuts into parts, as how a product is cut is part of its choice.
pub fn problems(graph: &Graph, fused: &Fused, limits: &Limits, choices: &Choices) -> Vec<Problem> {
    let mut found = Vec::new();
    for cuts_products in [false, true] {
        let lowered = lowered(graph, fused.clone(), &Gpu { limits, choices, cuts_products });
        for problem in problems_in(&lowered) {
            if !found.contains(&problem) {
                found.push(problem);
            }
        }
    }
    found
}

fn lowered(graph: &Graph, mut fused: Fused, target: &Gpu<'_>) -> Lowered {
    for spec in &mut fused.kernels {
        if let Kernel::Op(OpKind::Reduce { op, axes }) = &spec.kernel {
            spec.kernel = Kernel::Loop(as_body(*op, axes, &mut spec.reads[0]));
        }
    }
    let of_products = if target.limits.branches { OfProducts::Floats } else { OfProducts::Nothing };
    read_stored(graph, &mut fused, of_products);
    round_at_scatters(graph, &mut fused);
    if target.limits.branches {
        group_scatters(&mut fused);
    }
    let mut padded = Vec::new();
    if let Some(half) = target.limits.half(target.choices.precision()) {
        narrow(graph, &mut fused, half);
        if let Some(least) = target.limits.library {
            padded = pad_rows(&mut fused, half, &|axes, operands, right| {
                target.is_large(axes, operands, (right, half), (least, usize::MAX))
            });
        }
    }
    follow_attention(graph, &mut fused, &|op, reads, writes| {
        let schedule = schedule(&Kernel::Op(op.clone()), reads, writes, target.limits, target.choices);
        matches!(schedule, Schedule::Attention(attention) if attention.takes_epilogue())
    });
    lower_padded(graph, fused, padded, target)
}

/// Rows of which a tile of ours reads the right operand once.
const ROWS_OF_A_TILE: usize = 64;

struct Gpu<'l> {
    limits: &'l Limits,
    choices: &'l Choices,
    /// Whether long sums of products may be cut into parts that wait.
    cuts_products: bool,
}

impl Gpu<'_> {
    /// Whether the library computes a product faster, from so many multiplications on, whose right operand is
    /// of the first dtype and would be of the second, and whose result's rows lie so many elements apart. Of
    /// few rows, reading the right operand is all, and rounding it first would be more.
    fn is_large(
        &self,
        axes: &DotAxes,
        [lhs, rhs]: [&Layout; 2],
        (right, dtype): (DType, DType),
        (least, row): (usize, usize),
    ) -> bool {
        let is_stored = right == dtype && dtype != DType::F32;
        LibraryProduct::multiplications(axes, &lhs.shape, &rhs.shape) >= least
            && DotProblem::new(axes, lhs, rhs).map(fold_batch).is_none_or(|problem| {
                !(reads_once(&problem, dtype, self.limits)
                    || is_stored && has_odd_columns(&problem, dtype, row))
            })
    }
}

/// Whether a product of few rows has columns that the library cannot take in eights: of an operand that is
/// read as the store has it, where its result's rows, so many elements apart, have no room for more. On an
/// H200, the logits of 64 texts take the library 155 us, a kernel of ours 37, and the library 24 with room.
fn has_odd_columns(problem: &DotProblem, dtype: DType, row: usize) -> bool {
    let all = problem.n.next_multiple_of(EXTENT_ALIGNMENT);
    let has_room = row >= all && takes_lines_behind(problem.rhs.free_stride, dtype);
    problem.m <= ROWS_OF_A_TILE && problem.rhs.contract_stride == 1 && problem.n != all && !has_room
}

impl Target for Gpu<'_> {
    fn schedule(&self, request: Request<'_>) -> (Schedule, u64) {
        let Request { graph, kernel, reads, writes, .. } = request;
        let schedule = match kernel {
            Kernel::Op(OpKind::Custom(_)) => {
                Schedule::Custom(custom::scratch(kernel, graph, reads, writes, self.limits))
            }
            _ => schedule(kernel, reads, writes, self.limits, self.choices),
        };
        let workspace = schedule.workspace(kernel);
        (schedule, workspace)
    }

    fn group_schedule(&self, parts: &[Part], reads: &[Access], writes: &[Access]) -> (Schedule, u64) {
        let mut schedule = group::schedule(self.limits);
        schedule.workspace = group::workspace(parts, reads, writes, &schedule);
        (Schedule::Group(schedule), schedule.workspace)
    }

    fn products_together(&self) -> Option<GroupSchedule> {
        Some(group::schedule(self.limits))
    }

    fn has_kernels(&self, op: &dyn CustomOp) -> bool {
        op.gpu().is_some()
    }

    fn may_replace(&self, _: &Kernel, level: Level) -> bool {
        // Other invocations read what a row has.
        level == Level::Element
    }

    fn takes_epilogue(&self, epilogue: &Body) -> bool {
        let by_position = |store: &Store| matches!(store, Store::Value { level: Level::Element, .. });
        epilogue.stores.iter().all(by_position)
    }

    fn column_parts(&self, body: &Body, reads: &[Access], writes: &[Access]) -> usize {
        if !body.has_column_reductions() || group::is_short(body, reads, writes) {
            return 1;
        }
        rows(body, self.limits).groups.max(1)
    }

    fn library(&self, axes: &DotAxes, reads: &[Access], result: (&Layout, DType)) -> Option<DType> {
        let precision = self.choices.precision();
        let least = least_product(precision, self.limits.library?)?;
        let dtype = match precision {
            Precision::F16 | Precision::Bf16 => self.limits.half(precision)?,
            Precision::F32 | Precision::Tf32 | Precision::Tf32x3 => DType::F32,
        };
        let layout = |read: &Access| match read.dtype == dtype {
            true => read.layout.clone(),
            false => rounded_layout(&read.layout),
        };
        let (lhs, rhs) = (layout(&reads[0]), layout(&reads[1]));
        let product = LibraryProduct::new(axes, [&lhs, &rhs], dtype, result)?;
        let is_large =
            self.is_large(axes, [&lhs, &rhs], (reads[1].dtype, dtype), (least, product.result.stride));
        is_large.then_some(dtype)
    }

    fn rounds_to_tf32(&self) -> bool {
        self.choices.precision() == Precision::Tf32
    }

    fn parts_with_epilogue(&self, axes: &DotAxes, reads: &[Access]) -> usize {
        let problem = DotProblem::new(axes, &reads[0].layout, &reads[1].layout).map(fold_batch);
        let operands = self.limits.operands(self.choices.precision());
        problem.zip(operands).map_or(1, |(problem, operands)| streamed_parts(&problem, operands, self.limits))
    }

    fn product_parts(&self, axes: &DotAxes, reads: &[Access]) -> usize {
        if !self.cuts_products {
            return 1;
        }
        // Of operands that must be copied first, nothing is known yet.
        let Some(problem) = DotProblem::new(axes, &reads[0].layout, &reads[1].layout) else { return 1 };
        self.choices.product(&fold_batch(problem), self.limits).parts as usize
    }
}
