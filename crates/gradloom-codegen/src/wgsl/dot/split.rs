//! Adds the parts of sums that were cut, in order, and finishes the results.

use super::grid::{fold, write_fold};
use super::portable::{finish, result_lanes};
use super::problem::{DotKernel, Stage, workspace_item};
use crate::wgsl::{Limits, Shader, Writer};

/// The shader that reads `workspace` (`[parts, batch, m, n]`) and runs the epilogue; a thread takes as many
/// results as the epilogue.
pub(super) fn sum(kernel: &DotKernel<'_>, parts: u32, limits: &Limits) -> Shader {
    let problem = kernel.problem;
    let results = problem.batch_count() * problem.m * problem.n;
    let lanes = result_lanes(kernel, 1);
    let threads = limits.invocations.min(if limits.software { 64 } else { 128 });
    let count = (results / lanes as usize).div_ceil(threads as usize);
    let mut writer = Writer::new();
    writer.line(format_args!("// Adds {parts} parts of {results} sums."));
    writer.lines(&(kernel.declarations)(Stage::Sum));
    writer.line("");
    writer.line(format_args!("@compute @workgroup_size({threads})"));
    writer.line("fn main(");
    writer.line("    @builtin(workgroup_id) workgroup: vec3<u32>,");
    writer.line("    @builtin(local_invocation_index) thread: u32,");
    writer.open(")");
    write_fold(&mut writer, "group", count, limits);
    writer.line(format_args!("let place = (group * {threads}u + thread) * {lanes}u;"));
    if !results.is_multiple_of((threads * lanes) as usize) {
        writer.block(format_args!("if (place >= {results}u)"), |writer| writer.line("return;"));
    }
    let fours = workspace_item(problem) != "f32";
    let part = |part: u32| {
        let at = format!("place + {}u", part as usize * results);
        match (fours, lanes) {
            (true, 4) => format!("workspace[({at}) >> 2u]"),
            (true, _) => format!("workspace[({at}) >> 2u][place & 3u]"),
            (false, _) => format!("workspace[{at}]"),
        }
    };
    writer.line(format_args!("var value = {};", part(0)));
    (1..parts).for_each(|p| writer.line(format_args!("value += {};", part(p))));
    let (m, n) = (problem.m.max(1), problem.n.max(1));
    writer.line(format_args!("let column = place % {n}u;"));
    writer.line(format_args!("let row = (place / {n}u) % {m}u;"));
    writer.line(format_args!("let batch = place / {}u;", m * n));
    writer.block("", |writer| finish(writer, kernel, 1, lanes, "value"));
    writer.close();
    Shader { source: writer.finish(), workgroups: fold(count, limits) }
}
