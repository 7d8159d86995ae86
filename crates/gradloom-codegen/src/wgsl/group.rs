//! Parts of a group that run together: what they bind, and where each one's operands start.

use super::dispatch::{Context, Shaders, checked};
use super::operands::{Operand, Operands};
use super::print;
use super::shader_builder::ShaderBuilder;
use crate::narrow::narrow;
use crate::schedule::group::{Form, body_of, is_short_total};
use crate::simt::kernels::{Table, group};
use gradloom_core::error::Result;
use gradloom_core::kernel::{Access, GroupSchedule, Launch, Part, Phase};
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
    let operands = Operands::new(&all, context, parts.len() > 1);
    let (reads, writes) = (parts[0].reads.len(), parts[0].writes.len());
    let starts = |i: usize| {
        let own = operands.reads[i * reads..][..reads].iter().chain(&operands.writes[i * writes..][..writes]);
        own.map(|operand| narrow(operand.base / operand.dtype.bytes() + operand.layout.offset)).collect()
    };
    let body = body_of(parts[0]);
    let form = Form::of(body).expect("parts of a class have a form");
    let all = parts.iter().enumerate().map(|(i, part)| {
        let body = body_of(part);
        ([body.rows, body.columns], starts(i))
    });
    let table = Table::new(form, all, schedule);
    // The first part's, counted from where the table says.
    let first = |operand: &Operand| Operand { base: 0, ..operand.clone() };
    let first = Operands {
        bindings: operands.bindings.clone(),
        reads: operands.reads[..reads].iter().map(first).collect(),
        writes: operands.writes[..writes].iter().map(first).collect(),
    };
    let gated = launch.phase == Phase::Commit;
    let short = parts.iter().all(|part| is_short_total(body_of(part), schedule));
    let kernels = group(&first.views(gated), body, &table, schedule, short);
    let print = |kernel| print::print(kernel, ShaderBuilder::new(&first, context.limits, gated, number));
    let dispatches = kernels.iter().map(print).collect();
    checked(Shaders { operands, dispatches }, launch, context)
}
