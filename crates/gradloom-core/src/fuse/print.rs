//! The text form of fused kernels: a header, the reads and writes, and the expression.

use super::{Fused, KernelSpec};
use crate::ir::Graph;
use crate::kernel::Kernel;
use std::fmt::Write;

impl Fused {
    /// Returns a listing of all kernels in order.
    pub fn print(&self, graph: &Graph) -> String {
        let mut text = String::new();
        for (number, kernel) in self.kernels.iter().enumerate() {
            text.push_str(&format!("kernel {number}: "));
            kernel.print(graph, &mut text);
        }
        text
    }
}

impl KernelSpec {
    fn print(&self, graph: &Graph, text: &mut String) {
        let op = &graph.ops[self.op];
        let origin = graph.origin(op).map(|origin| format!(" at {origin}")).unwrap_or_default();
        let when = match (self.once, self.commit) {
            (true, _) => ", once",
            (false, true) => ", commit",
            (false, false) => "",
        };
        write_line(text, &format!("{}{}{when}", self.kernel.title(), origin));
        for (name, accesses) in [("r", &self.reads), ("w", &self.writes)] {
            for (i, access) in accesses.iter().enumerate() {
                write_line(text, &format!("  {name}{i}: {access}"));
            }
        }
        match &self.kernel {
            Kernel::Group(parts) => {
                for part in parts {
                    let ranges = format!("r{:?} w{:?}", part.reads, part.writes);
                    write_line(text, &format!("  part {} {ranges}", part.kernel.title()));
                    if let Some(body) = part.kernel.body() {
                        body.to_string().lines().for_each(|line| write_line(text, &format!("  {line}")));
                    }
                }
            }
            other => other.body().into_iter().for_each(|body| text.push_str(&body.to_string())),
        }
    }
}

fn write_line(text: &mut String, line: &str) {
    writeln!(text, "{line}").expect("a string takes all text");
}
