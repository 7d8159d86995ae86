//! Summarizes a program: stages, passes, operations and memory, as text and as JSON.

use super::Inspection;
use super::network::{Message, Network, Traffic};
use crate::train::thousands;
use gradloom_codegen::cuda::{Cut, Replay, Shape};
use gradloom_core::ir::Graph;
use gradloom_core::passes::PassReport;
use gradloom_core::plan::report::{human_bytes, label};
use gradloom_core::plan::{Buffer, Region};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::{self, Display, Write};
use std::time::Duration;

/// Number of values of the memory plan that are listed.
const LARGEST: usize = 12;

pub(super) fn json(inspection: &Inspection<'_>) -> String {
    let Inspection { program, graphs, .. } = inspection;
    let (graph, plan) = (program.graph(), program.plan());
    let totals = &plan.totals;
    let graphs = graphs.iter().map(|(name, graph)| {
        let (outputs, updates) = (graph.outputs.len(), graph.updates.len());
        json!({ "stage": name, "ops": graph.entry_ops().count(), "outputs": outputs, "updates": updates })
    });
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    let times = inspection.times.iter().map(|(name, time)| json!({ "stage": name, "ms": time.map(ms) }));
    let passes = total_of_passes(inspection.reports).into_iter();
    let passes = passes.map(|(name, ops, ms)| json!({ "pass": name, "ops": ops, "ms": ms }));
    json!({
        "stages": graphs.collect::<Vec<Value>>(),
        "times": times.collect::<Vec<Value>>(),
        "passes": passes.collect::<Vec<Value>>(),
        "operations": counts(graph),
        "launches": plan.launches.len(),
        "unique_kernels": program.unique_kernels(),
        "store_bytes": totals.store,
        "constant_bytes": totals.constants,
        "step_bytes": totals.step,
        "workspace_bytes": totals.workspace,
        "planned_peak_bytes": totals.peak(),
        "communication": Traffic::of(plan, &Network::NVLINK).map(|traffic| json!({
            "ops": traffic.messages.len(),
            "bytes": traffic.bytes(),
            "messages": traffic.messages.iter().map(|Message { op, values, bytes }| json!({
                "op": op.name(), "values": values, "bytes": bytes,
            })).collect::<Vec<_>>(),
            "predicted_ms": ms(traffic.all),
            "predicted_exposed_ms": ms(traffic.exposed),
        })),
        "replay": inspection.replay().map(|replay| replayed(&replay)),
    })
    .to_string()
}

fn replayed(replay: &Replay) -> Value {
    let segments = replay.shapes().into_iter().enumerate().map(|(i, shape)| {
        let Shape { nodes, edges, depth, branches, early } = shape;
        let cut =
            replay.cuts.get(i).map(|Cut { launch, reason }| json!({ "launch": launch, "reason": reason }));
        json!({
            "nodes": nodes,
            "edges": edges,
            "depth": depth,
            "branches": branches,
            "early": early,
            "cut": cut,
        })
    });
    json!({
        "nodes": replay.nodes.len(),
        "library_products": replay.products,
        "launches": replay.launches,
        "covered_launches": replay.covered(),
        "segments": segments.collect::<Vec<Value>>(),
    })
}

impl Display for Inspection<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(out, "stage      ops  outputs  updates")?;
        for (name, graph) in &self.graphs {
            let ops = graph.entry_ops().count();
            writeln!(out, "{name:<8} {ops:>5}  {:>7}  {:>7}", graph.outputs.len(), graph.updates.len())?;
        }
        writeln!(out, "\ntime of each stage")?;
        for (name, time) in self.times {
            let milliseconds = time.map_or(0.0, |time| time.as_secs_f64() * 1e3);
            writeln!(out, "  {name:<16} {milliseconds:>21.1} ms")?;
        }
        if !self.reports.is_empty() {
            writeln!(out, "\npasses (all rounds)")?;
            passes(self.reports, out)?;
        }
        writeln!(out, "\noperations after the passes")?;
        operations(self.program.graph(), out)?;
        memory(self, out)
    }
}

fn passes(reports: &[PassReport], out: &mut impl Write) -> fmt::Result {
    for (name, ops, ms) in total_of_passes(reports) {
        writeln!(out, "  {name:<16} {:>6} ops  {ms:>8.1} ms", format!("{ops:+}"))?;
    }
    Ok(())
}

/// Returns, for each pass, the number of ops that it added in all rounds, and its time in milliseconds.
fn total_of_passes(reports: &[PassReport]) -> Vec<(&'static str, i64, f64)> {
    let mut totals: Vec<(&str, i64, f64)> = Vec::new();
    for report in reports {
        let ops = report.ops_after as i64 - report.ops_before as i64;
        let ms = report.time.map_or(0.0, |time| time.as_secs_f64() * 1e3);
        match totals.iter_mut().find(|(name, ..)| *name == report.name) {
            Some(total) => (total.1, total.2) = (total.1 + ops, total.2 + ms),
            None => totals.push((report.name, ops, ms)),
        }
    }
    totals
}

/// Returns the number of occurrences of each op in the graph.
fn counts(graph: &Graph) -> BTreeMap<&'static str, usize> {
    let mut counts = BTreeMap::new();
    graph.entry_ops().for_each(|(_, op)| *counts.entry(op.kind.name()).or_default() += 1);
    counts
}

fn operations(graph: &Graph, out: &mut impl Write) -> fmt::Result {
    let mut counts: Vec<_> = counts(graph).into_iter().collect();
    counts.sort_by_key(|&(name, n)| (std::cmp::Reverse(n), name));
    for row in counts.chunks(4) {
        let cells: Vec<String> = row.iter().map(|(name, n)| format!("{n:>5} {name:<13}")).collect();
        writeln!(out, "{}", cells.concat().trim_end())?;
    }
    Ok(())
}

fn memory(inspection: &Inspection<'_>, out: &mut impl Write) -> fmt::Result {
    let (plan, graph) = (inspection.program.plan(), inspection.program.graph());
    let totals = &plan.totals;
    let line = |name: &str, n: u64, note: &str| {
        format!("  {name:<12} {:>10}  {note}", human_bytes(n)).trim_end().to_string()
    };
    writeln!(
        out,
        "\nplan: {} launches of {} different kernels",
        thousands(plan.launches.len() as u64),
        thousands(inspection.program.unique_kernels() as u64)
    )?;
    if let Some(replay) = inspection.replay() {
        write!(out, "{replay}")?;
    }
    writeln!(out, "{}", line("parameters", totals.store, "and states, also the optimizer's"))?;
    writeln!(out, "{}", line("constants", totals.constants, ""))?;
    writeln!(
        out,
        "{}",
        line("step", totals.step, "activations, gradients, inputs: values share bytes over time")
    )?;
    writeln!(out, "{}", line("workspace", totals.workspace, "scratch of the largest kernel"))?;
    writeln!(out, "{}", line("peak", totals.peak(), ""))?;
    if let Some(traffic) = Traffic::of(plan, &Network::NVLINK) {
        let Traffic { messages, all, exposed } = &traffic;
        let (ops, bytes) = (messages.len(), human_bytes(traffic.bytes()));
        writeln!(out, "\ncommunication of a step: {ops} collective ops on {bytes}")?;
        for Message { op, values, bytes } in messages.iter().take(LARGEST) {
            writeln!(out, "  {:>10}  {} of {values} values", human_bytes(*bytes), op.name())?;
        }
        if ops > LARGEST {
            writeln!(out, "  and {} more", ops - LARGEST)?;
        }
        if inspection.replay().is_some() {
            let ms = |time: Duration| format!("{:.2} ms", time.as_secs_f64() * 1e3);
            let all = ms(*all);
            writeln!(out, "  {all:>10}  predicted for hosts of 8 GPUs with NVLink, one op after the other")?;
            writeln!(out, "  {:>10}  of it after the backward pass, so that nothing hides it", ms(*exposed))?;
        }
    }
    let mut largest: Vec<&Buffer> = plan.buffers.iter().filter(|b| b.region == Region::Step).collect();
    largest.sort_by_key(|b| (std::cmp::Reverse(b.bytes), b.first));
    writeln!(out, "\nlargest values of the step, and the launches between which they live")?;
    for buffer in largest.iter().take(LARGEST) {
        let lives = format!("{}..{}", buffer.first, buffer.last);
        let (size, ty) = (human_bytes(buffer.bytes), buffer.ty.to_string());
        writeln!(out, "  {size:>10}  {lives:<11} {ty:<22} {}", short_label(&label(graph, buffer)))?;
    }
    Ok(())
}

/// Returns a label such as `dot at src/gpt2/model.rs:106:67` without the folders.
fn short_label(label: &str) -> String {
    match label.split_once(" at ") {
        Some((op, place)) => format!("{op} at {}", place.rsplit(['/', '\\']).next().unwrap_or(place)),
        None => label.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::short_label;

    #[test]
    fn places_lose_their_folders() {
        assert_eq!(short_label("dot at crates/a/src/model.rs:1:2"), "dot at model.rs:1:2");
        assert_eq!(short_label("h.0.weight"), "h.0.weight");
    }
}
