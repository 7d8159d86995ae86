//! Prints launches and the expressions of fused kernels as text.

use super::{Access, Body, Kernel, Launch, Layout, Lowered, Part, Schedule};
use crate::collections::sort;
use crate::ir::Graph;
use std::fmt::{self, Write};

/// Prints `%3 f32[8, 4]`, followed by non-contiguous strides, a nonzero offset and the block format, if any.
impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Access { buffer, dtype, layout, blocks } = self;
        let Layout { offset, shape, strides } = layout;
        write!(f, "{buffer} {dtype}{shape}")?;
        if !layout.is_contiguous() {
            write!(f, " strides {strides:?}")?;
        }
        if *offset > 0 {
            write!(f, " from {offset}")?;
        }
        if let Some(format) = blocks {
            write!(f, " as {format}")?;
        }
        Ok(())
    }
}

impl Lowered {
    /// Returns a listing of the launches with their reads, writes and schedules.
    pub fn print(&self, graph: &Graph) -> String {
        let mut text = String::new();
        for (number, launch) in self.launches.iter().enumerate() {
            launch.print(graph, number, &mut text).expect("a string takes all text");
        }
        text
    }
}

impl Launch {
    fn print(&self, graph: &Graph, number: usize, text: &mut String) -> fmt::Result {
        let origin = graph.origin(&graph.ops[self.op]);
        let origin = origin.map(|origin| format!(" at {origin}")).unwrap_or_default();
        writeln!(text, "launch {number}: {}{origin}", self.kernel.title())?;
        for (name, accesses) in [("r", &self.reads), ("w", &self.writes)] {
            for (i, access) in accesses.iter().enumerate() {
                writeln!(text, "  {name}{i}: {access}")?;
            }
        }
        for (write, read) in &self.may_alias {
            writeln!(text, "  w{write} may take the place of r{read}")?;
        }
        if self.schedule != Schedule::Whole {
            writeln!(text, "  {:?}", self.schedule)?;
        }
        if let Kernel::Group(parts) = &self.kernel {
            for part in parts {
                let ranges = format!("r{:?} w{:?}", part.reads, part.writes);
                writeln!(text, "  part {} {ranges} {:?}", part.kernel.title(), part.schedule)?;
            }
        }
        if self.workspace > 0 {
            writeln!(text, "  scratch {} bytes", self.workspace)?;
        }
        Ok(())
    }
}

impl Kernel {
    /// Returns a one-line description of the kernel, such as `row [1024 x 128]`,
    /// `dot [64 x 32] with epilogue`, `group of 3` or `gather`.
    pub fn title(&self) -> String {
        let extents = |body: &Body| format!("[{} x {}]", body.rows, body.columns);
        match self {
            Kernel::Loop(body) => format!("{} {}", body.name(), extents(body)),
            Kernel::Dot { epilogue, .. } => format!("dot {} with epilogue", extents(epilogue)),
            Kernel::Attention { epilogue, .. } => format!("attention {} with epilogue", extents(epilogue)),
            Kernel::Group(parts) => format!("group of {}", parts.len()),
            other => other.name().to_string(),
        }
    }

    /// Returns the expression of a fused kernel, with one line per node and store, or an empty string for a
    /// single op. Lists parts of a group with the same expression only once.
    pub fn listing(&self) -> String {
        match self {
            Kernel::Group(parts) => group(parts),
            other => other.body().map_or_else(String::new, Body::to_string),
        }
    }
}

fn group(parts: &[Part]) -> String {
    let mut different: Vec<(String, Vec<String>)> = Vec::new();
    for part in parts {
        let (title, listing) = (part.kernel.title(), part.kernel.listing());
        match different.iter_mut().find(|(known, _)| *known == listing) {
            Some((_, titles)) => titles.push(title),
            None => different.push((listing, vec![title])),
        }
    }
    let mut text = String::new();
    for (listing, mut titles) in different {
        let number = titles.len();
        sort(&mut titles);
        titles.dedup();
        let parts = if number == 1 { "1 part".to_string() } else { format!("{number} parts") };
        writeln!(text, "{parts}: {}", titles.join(", ")).expect("a string takes all text");
        text.push_str(&listing);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::{DType, UnaryOp};
    use crate::kernel::{Level, Node, NodeId, NodeKind, Store};

    fn part(i: usize, rows: usize, op: UnaryOp) -> Part {
        let node = |kind| Node { kind, dtype: DType::F32, level: Level::Element };
        let kernel = Kernel::Loop(Body {
            rows,
            columns: 4,
            nodes: vec![node(NodeKind::Load(0)), node(NodeKind::Unary(op, NodeId(0)))],
            stores: vec![Store::Value { node: NodeId(1), level: Level::Element, write: 0 }],
        });
        Part { kernel, reads: i..i + 1, writes: i..i + 1, schedule: Schedule::Whole, workspace: 0..0 }
    }

    #[test]
    fn equal_parts_are_shown_once() {
        let group = Kernel::Group(vec![
            part(0, 2, UnaryOp::Exp),
            part(1, 3, UnaryOp::Neg),
            part(2, 1, UnaryOp::Exp),
            part(3, 2, UnaryOp::Exp),
        ]);
        assert_eq!(group.title(), "group of 4");
        let lines =
            |op: &str| format!("  t0 = load r0 : f32 element\n  t1 = {op} t0 : f32 element\n  w0 = t1\n");
        let expected = format!(
            "3 parts: map [1 x 4], map [2 x 4]\n{}1 part: map [3 x 4]\n{}",
            lines("exp"),
            lines("neg")
        );
        assert_eq!(group.listing(), expected);
        assert_eq!(Kernel::Copy.listing(), "");
    }
}
