//! Text form of the plan.

use super::view::Names;
use super::{Buffer, Plan};
use crate::collections::sort_by_key;
use crate::ir::{Graph, Id};
use crate::kernel::{Access, Launch, Layout};
use std::fmt::{self, Write};

/// Returns the name of a buffer in reports: a leaf's name, or the op that computes it with its source
/// location.
pub fn label(graph: &Graph, buffer: &Buffer) -> String {
    if buffer.value.index() >= graph.values.len() {
        return "copy".to_string();
    }
    let Some(op) = graph.defining_op(buffer.value) else { return buffer.value.to_string() };
    if let Some(name) = Graph::leaf_name(&op.kind) {
        return name.to_string();
    }
    match graph.origin(op) {
        Some(origin) => format!("{} at {origin}", op.kind.name()),
        None => op.kind.name().to_string(),
    }
}

/// Returns the buffers of the step arena that are live at the moment of peak use, largest first. Of buffers
/// that share bytes, only one is returned.
pub fn at_peak(plan: &Plan) -> Vec<&Buffer> {
    let timeline = plan.timeline();
    let mut alive: Vec<&Buffer> = timeline.at(timeline.peak()).map(|i| &plan.buffers[i]).collect();
    sort_by_key(&mut alive, |b| (std::cmp::Reverse(b.bytes), b.offset));
    alive
}

/// Returns a description of each of the five largest buffers of [`at_peak`], for the error of a plan that is
/// too large.
pub(crate) fn largest(graph: &Graph, plan: &Plan) -> Vec<String> {
    let line = |b: &Buffer| format!("{} {} takes {}", label(graph, b), b.ty, human_bytes(b.bytes));
    at_peak(plan).into_iter().take(5).map(line).collect()
}

/// Formats a number of bytes in the largest unit with a value of at least 1: `12.3 MB` is 12.3 million bytes.
pub fn human_bytes(bytes: u64) -> String {
    let (unit, name) = match bytes {
        0..1_000 => return format!("{bytes} B"),
        // With these bounds, rounding to one decimal never yields 1000.0.
        1_000..999_950 => (1e3, "kB"),
        999_950..999_950_000 => (1e6, "MB"),
        999_950_000..999_950_000_000 => (1e9, "GB"),
        _ => (1e12, "TB"),
    };
    format!("{:.1} {name}", bytes as f64 / unit)
}

/// Formats a number of bytes exactly and in the largest unit: `2560 bytes (2.6 kB)`.
pub fn exact_bytes(bytes: u64) -> String {
    format!("{bytes} bytes ({})", human_bytes(bytes))
}

impl Plan {
    /// Returns a report with the totals, the largest values of the step arena, and every launch.
    pub fn report(&self, graph: &Graph) -> String {
        let mut text = String::new();
        self.write_report(graph, &mut text).expect("a string takes all text");
        text
    }

    fn write_report(&self, graph: &Graph, out: &mut String) -> fmt::Result {
        let totals = &self.totals;
        let once = match self.hoisted.len() {
            0 => String::new(),
            count => format!(" a step, {count} when loaded"),
        };
        writeln!(
            out,
            "{} launches{once}; peak {} = store {} + constants {} + step {} + workspace {}",
            self.launches.len(),
            human_bytes(totals.peak()),
            human_bytes(totals.store),
            human_bytes(totals.constants),
            human_bytes(totals.step),
            human_bytes(totals.workspace)
        )?;
        writeln!(
            out,
            "\nlargest values when the step is fullest (bytes, offset, lives from launch to launch):"
        )?;
        for buffer in at_peak(self).into_iter().take(20) {
            writeln!(
                out,
                "  {:>12} @{:<12} {:>5}..{:<5} {:<9} {:<20} {}",
                buffer.bytes,
                buffer.offset,
                buffer.first,
                buffer.last,
                buffer.role.name(),
                buffer.ty.to_string(),
                label(graph, buffer)
            )?;
        }
        let names = Names::new(graph);
        let list = |accesses: &[Access]| {
            accesses.iter().map(|a| self.access_text(&names, a)).collect::<Vec<_>>().join(", ")
        };
        let line = |out: &mut String, i: usize, when: &str, launch: &Launch| {
            let (reads, writes) = (list(&launch.reads), list(&launch.writes));
            writeln!(out, "  {i:>5} {when:<7} {:<15} {reads} -> {writes}", launch.kernel.name())
        };
        if !self.hoisted.is_empty() {
            writeln!(out, "\nwhen the program is loaded:")?;
        }
        for (i, launch) in self.hoisted.iter().enumerate() {
            line(out, i, "once", launch)?;
        }
        writeln!(out, "\nlaunches:")?;
        for (i, launch) in self.launches.iter().enumerate() {
            line(out, i, &format!("{:?}", launch.phase).to_ascii_lowercase(), launch)?;
        }
        for (what, list) in [("outputs", &self.outputs), ("guards", &self.guards)] {
            if !list.is_empty() {
                writeln!(out, "\n{what}:")?;
            }
            for (name, access) in list {
                writeln!(out, "  {name:?} {}", self.access_text(&names, access))?;
            }
        }
        Ok(())
    }

    /// Formats an access as `%3 f32[2, 4] from 1 by [8, 2] @step+64`: the owner of the bytes, the type of the
    /// access, its start and non-contiguous strides in elements, and the region and offset in bytes.
    fn access_text(&self, names: &Names, access: &Access) -> String {
        let Layout { offset, shape, strides } = &access.layout;
        let mut text = format!("{} {}{shape}", names.of(access.buffer), access.dtype);
        if *offset != 0 {
            text += &format!(" from {offset}");
        }
        if !access.layout.is_contiguous() {
            text += &format!(" by {strides:?}");
        }
        let place =
            self.buffer(access.buffer).map(|buffer| format!(" @{}+{}", buffer.region.name(), buffer.offset));
        text + &place.unwrap_or_default()
    }
}
