//! What decides on the device whether a step may commit.
//!
//! In: the plan's guards, and the windows that its commit replaces. Out: a shader that runs between the two
//! phases, and leaves a [`Verdict`](crate::step::Verdict) in the step's status, with a record of the step if
//! it failed.

use super::dispatch::{Context, Shaders, checked};
use super::operands::{Operands, Shared};
use super::shader_builder::{ShaderBuilder, index_at};
use crate::narrow::narrow;
use crate::step::status::{
    ACKNOWLEDGED, FAILURES, FIRST_GUARD, FIRST_RECORDS, RECORD_WORDS, RECORDS, STEPS, TRAPPED,
};
use crate::step::{Window, windows};
use gradloom_core::error::Result;
use gradloom_core::kernel::{Access, Kernel, Launch, Phase};

/// The shader that looks at a plan's guards and windows, and at what trapped before; `launch` is any of the
/// plan's.
///
/// # Errors
/// As [`super::shaders`].
pub fn guards(launch: &Launch, context: &Context<'_>) -> Result<Shaders> {
    let Context { plan, limits, .. } = *context;
    let mut reads: Vec<Access> = plan.guards.iter().map(|(_, access)| access.clone()).collect();
    let windows: Vec<Window<'_>> = windows(plan).collect();
    reads.extend(windows.iter().map(|window| window.start.clone()));
    // Each may be a parameter of its own.
    let shared = if reads.len() >= limits.storage_buffers { Shared::Segment } else { Shared::Nothing };
    let launch =
        Launch { kernel: Kernel::Copy, reads, writes: Vec::new(), phase: Phase::Compute, ..launch.clone() };
    let operands = Operands::new(&launch, context, shared);
    let mut source = ShaderBuilder::new(&operands, limits, false, 0);
    source.global("var<workgroup> verdict: atomic<u32>;");
    source.line("if (local == 0u) {");
    source.line("atomicStore(&verdict, 0xffffffffu);");
    source.line("}");
    source.line("workgroupBarrier();");
    for (guard, read) in operands.reads[..plan.guards.len()].iter().enumerate() {
        let elements = read.layout.shape.elements();
        source.line(format_args!("for (var i = local; i < {elements}u; i += 64u) {{"));
        let value = source.load(read, &index_at(&read.layout, "i"));
        source.line(format_args!("if ((bitcast<u32>({value}) & 0x7f800000u) == 0x7f800000u) {{"));
        source.line(format_args!("atomicMin(&verdict, {}u);", FIRST_GUARD + narrow(guard)));
        source.line("}");
        source.line("}");
    }
    source.line("workgroupBarrier();");
    source.line("if (local == 0u) {");
    for (window, start) in windows.iter().zip(&operands.reads[plan.guards.len()..]) {
        let value = source.load(start, &index_at(&start.layout, "0u"));
        source.launch = window.launch;
        source.line("{");
        source.line(format_args!("let start = {value};"));
        source.check_index("start", window.room + 1, &format!("{}u", window.axis));
        source.line("}");
    }
    source.uses_status();
    source.line("if (atomicLoad(&status[1]) != 0u) {");
    source.line(format_args!("atomicStore(&status[0], {TRAPPED}u);"));
    source.line("} else if (atomicLoad(&verdict) != 0xffffffffu) {");
    source.line("atomicStore(&status[0], atomicLoad(&verdict));");
    source.line("}");
    record(&mut source);
    source.line("}");
    let dispatch = source.finish("guards", 64, 1);
    checked(Shaders { operands, dispatches: vec![dispatch] }, &launch, context)
}

/// Adds the statements that count a step whose verdict is there, and record it if it failed. One invocation
/// runs them.
fn record(source: &mut ShaderBuilder<'_>) {
    let (first, last) = (RECORDS, RECORDS + FIRST_RECORDS * RECORD_WORDS);
    source.line(format_args!("let run = atomicAdd(&status[{STEPS}], 1u);"));
    source.line("if (atomicLoad(&status[0]) != 0u) {");
    source.line(format_args!("let failure = atomicAdd(&status[{FAILURES}], 1u);"));
    source.line(format_args!(
        "let among_first = failure - atomicLoad(&status[{ACKNOWLEDGED}]) < {FIRST_RECORDS}u;"
    ));
    // A loop, as compilers write a function out wherever it is called.
    source.line("for (var copy = select(1u, 0u, among_first); copy < 2u; copy++) {");
    let place = format!("{first}u + {RECORD_WORDS}u * (failure % {FIRST_RECORDS}u)");
    source.line(format_args!("let at = select({place}, {last}u, copy == 1u);"));
    source.line("atomicStore(&status[at], failure + 1u);");
    source.line("atomicStore(&status[at + 1u], run);");
    source.line("for (var i = 0u; i < 5u; i++) {");
    source.line("atomicStore(&status[at + 2u + i], atomicLoad(&status[i]));");
    source.line("}");
    source.line("}");
    source.line("}");
}
