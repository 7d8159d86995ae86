//! What decides on the device whether a step may commit.
//!
//! In: the plan's guards, and the windows that its commit replaces. Out: a shader that runs between the two
//! phases, and leaves a [`Verdict`](super::Verdict) in the step's status, with a record of the step if it
//! failed.

use super::dispatch::{Context, Shaders, checked};
use super::operands::Operands;
use super::shader_builder::{ShaderBuilder, index_at};
use super::status::{FIRST_GUARD, TRAPPED, record};
use crate::narrow::narrow;
use gradloom_core::error::Result;
use gradloom_core::kernel::{Access, Kernel, Launch, Phase};

/// The shader that looks at a plan's guards and windows, and at what trapped before; `launch` is any of the
/// plan's.
///
/// # Errors
/// As [`super::shaders`].
pub fn guards(launch: &Launch, context: &Context<'_>) -> Result<Shaders> {
    let Context { plan, limits, .. } = *context;
    let mut windows = Vec::new();
    let mut reads: Vec<Access> = plan.guards.iter().map(|(_, access)| access.clone()).collect();
    for (number, launch) in plan.launches.iter().enumerate() {
        if launch.phase == Phase::Commit && launch.kernel == Kernel::WriteRegion {
            let (window, whole) = (&launch.reads[0].layout.shape, &launch.writes[0].layout.shape);
            for (axis, start) in launch.reads[1..].iter().enumerate() {
                windows.push((number, axis, whole[axis] - window[axis], reads.len()));
                reads.push(start.clone());
            }
        }
    }
    // Each may be a parameter of its own.
    let together = reads.len() >= limits.storage_buffers;
    let launch =
        Launch { kernel: Kernel::Copy, reads, writes: Vec::new(), phase: Phase::Compute, ..launch.clone() };
    let operands = Operands::new(&launch, context, together);
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
    for (number, axis, room, read) in windows {
        let start = &operands.reads[read];
        let value = source.load(start, &index_at(&start.layout, "0u"));
        source.launch = number;
        source.line("{");
        source.line(format_args!("let start = {value};"));
        source.check_index("start", room + 1, &format!("{axis}u"));
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
