//! Parts of a group that run together: what they bind, and where each one's operands start.

use super::batching::shared;
use super::dispatch::{Context, Shaders, checked};
use super::operands::{Operand, Operands};
use super::print;
use super::product::vectorise;
use super::shader_builder::ShaderBuilder;
use crate::narrow::{elements_in, narrow};
use crate::schedule::group::{Form, extents};
use crate::simt::kernels::{self, Table};
use gradloom_core::error::Result;
use gradloom_core::ir::OpKind;
use gradloom_core::kernel::{Access, GroupSchedule, Kernel, Launch, Part, Phase};
use std::ops::Range;

/// The shaders of parts of one class.
///
/// # Errors
/// As [`super::shaders`].
pub(super) fn together(
    launch: &Launch,
    parts: &[&Part],
    schedule: &GroupSchedule,
    number: usize,
    context: &Context<'_>,
) -> Result<Shaders> {
    let pick = |all: &[Access], range: fn(&Part) -> Range<usize>| -> Vec<Access> {
        parts.iter().flat_map(|part| all[range(part)].to_vec()).collect()
    };
    let all = Launch {
        reads: pick(&launch.reads, |part| part.reads.clone()),
        writes: pick(&launch.writes, |part| part.writes.clone()),
        ..launch.clone()
    };
    // One name stands for the operands of all parts.
    let mut operands = Operands::new(&all, context, shared(parts));
    let (reads, writes) = (parts[0].reads.len(), parts[0].writes.len());
    if let Kernel::Op(OpKind::Dot(axes)) = &parts[0].kernel {
        vectorise(&mut operands, axes, context.limits);
    }
    let starts = |i: usize| {
        let own = operands.reads[i * reads..][..reads].iter().chain(&operands.writes[i * writes..][..writes]);
        own.map(|operand| narrow(elements_in(operand.base, operand.dtype) + operand.layout.offset)).collect()
    };
    let form = Form::of_part(parts[0]).expect("parts of a class have a form");
    let extents = |part: &Part| extents(part, &launch.reads[part.reads.clone()]);
    let all = parts.iter().enumerate().map(|(i, part)| (extents(part), starts(i)));
    let table = Table::new(form, all, schedule);
    // The first part's, counted from where the table says.
    let first = |operand: &Operand| Operand { base: 0, ..operand.clone() };
    let first = Operands {
        bindings: operands.bindings.clone(),
        reads: operands.reads[..reads].iter().map(first).collect(),
        writes: operands.writes[..writes].iter().map(first).collect(),
    };
    let gated = launch.phase == Phase::Commit;
    let kernels = kernels::together(&first.views(gated), parts, &table, schedule);
    let print = |kernel| print::print(kernel, ShaderBuilder::new(&first, context.limits, gated, number));
    let dispatches = kernels.iter().map(print).collect();
    checked(Shaders { operands, dispatches }, launch, context)
}
