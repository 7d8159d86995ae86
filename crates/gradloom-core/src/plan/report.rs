//! The plan as text.

use super::{Buffer, Plan, Region, Role};
use crate::ir::{Graph, Id};
use std::fmt::{self, Write};

/// How a buffer is called in reports: a leaf's name, or the op that computes it with its place in the source.
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

/// Bytes in the largest unit that leaves at least one whole: `12.3 MB` is 12.3 million bytes.
pub fn human_bytes(bytes: usize) -> String {
    let (unit, name) = match bytes {
        0..1_000 => return format!("{bytes} B"),
        1_000..1_000_000 => (1e3, "kB"),
        1_000_000..1_000_000_000 => (1e6, "MB"),
        _ => (1e9, "GB"),
    };
    format!("{:.1} {name}", bytes as f64 / unit)
}

impl Plan {
    /// Totals, the largest values of the step arena, and every launch.
    pub fn report(&self, graph: &Graph) -> String {
        let mut text = String::new();
        self.write_report(graph, &mut text).expect("a string takes all text");
        text
    }

    fn write_report(&self, graph: &Graph, out: &mut String) -> fmt::Result {
        let totals = &self.totals;
        writeln!(
            out,
            "{} launches; peak {} = store {} + constants {} + step {} + workspace {}",
            self.launches.len(),
            human_bytes(totals.peak()),
            human_bytes(totals.store),
            human_bytes(totals.constants),
            human_bytes(totals.step),
            human_bytes(totals.workspace)
        )?;
        let mut largest: Vec<&Buffer> = self.buffers.iter().filter(|b| b.region == Region::Step).collect();
        largest.sort_by_key(|b| std::cmp::Reverse(b.bytes));
        writeln!(out, "\nlargest values of the step (bytes, offset, lives from launch to launch):")?;
        for buffer in largest.iter().take(20) {
            writeln!(
                out,
                "  {:>12} @{:<12} {:>5}..{:<5} {:<9} {:<20} {}",
                buffer.bytes,
                buffer.offset,
                buffer.first,
                buffer.last,
                role_name(buffer.role),
                buffer.ty.to_string(),
                label(graph, buffer)
            )?;
        }
        writeln!(out, "\nlaunches:")?;
        for (i, launch) in self.launches.iter().enumerate() {
            let place = |value: crate::ir::ValueId| {
                let buffer = &self.buffers[self.buffer_of[&value]];
                let region = match buffer.region {
                    Region::Store => "store",
                    Region::Constants => "const",
                    Region::Step => "step",
                };
                format!("{region}+{}", buffer.offset)
            };
            let list = |accesses: &[crate::kernel::Access]| {
                accesses
                    .iter()
                    .map(|a| format!("{}{}@{}", a.dtype, a.layout.shape, place(a.buffer)))
                    .collect::<Vec<_>>()
                    .join(", ")
            };
            writeln!(
                out,
                "  {i:>5} {:<7} {:<15} {} -> {}",
                format!("{:?}", launch.phase).to_lowercase(),
                launch.kernel.name(),
                list(&launch.reads),
                list(&launch.writes)
            )?;
        }
        Ok(())
    }
}

fn role_name(role: Role) -> &'static str {
    match role {
        Role::Parameter => "parameter",
        Role::State => "state",
        Role::Constant => "constant",
        Role::Input => "input",
        Role::Scalar => "scalar",
        Role::Output => "output",
        Role::Temporary => "temporary",
    }
}
