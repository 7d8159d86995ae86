//! The text form of a graph, for people, for tests and for transfer to the browser's worker.
//!
//! Any graph can be printed, including invalid ones, in which missing items are marked with `?`. Each op is
//! printed on its own line. Values, blocks and origins are numbered densely in order of appearance. The text
//! of a graph that passes [`crate::verify::verify`] parses back to the same graph, bit for bit, with the
//! numbers of the text as its ids.
//!
//! ```text
//! graph {
//!   @0 = "src/model.rs":12:20
//!   %0: f32[4, 2] = input "x"
//!   %1: f32[2] = param "l1.bias"
//!   %2: f32[1, 2] = reshape %1 @0
//!   %3: f32[4, 2] = broadcast %2 @0
//!   %4: f32[4, 2] = add %0, %3 @0
//!   %5: f32[] = sum %4 {axes=[0, 1]}
//!   ^1(%6: f32[]) {
//!     %7: f32[] = exp %6
//!     -> %7
//!   }
//!   %8: f32[] = checkpoint ^1 %5
//!   output "loss" %8
//!   update %1 <- %1
//!   guard "loss" %8
//! }
//! ```
//!
//! A block precedes the first op that runs it. `{:#}` omits the elements of large constants; that text cannot
//! be parsed.

mod kind;
mod literal;

use super::{BlockId, Graph, OpId, OriginId, ValueId};
use crate::collections::{IdMap, IdSet};
use std::fmt;

pub(super) use literal::{DIGITS_32, DIGITS_64};

impl fmt::Display for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Printer::new(self, f.alternate()).graph(f)
    }
}

impl Graph {
    /// Returns the text of one op as in the text form of the whole graph, with the same numbering, but
    /// without its origin and without the elements of large constants.
    pub fn op_text(&self, op: OpId) -> String {
        let printer = Printer::new(self, true);
        let mut text = String::new();
        match printer.op(&mut text, op) {
            Ok(()) => text,
            Err(fmt::Error) => unreachable!("writing to a string cannot fail"),
        }
    }

    /// Returns the name of a value in the text form of the whole graph.
    pub(crate) fn value_text(&self, value: ValueId) -> String {
        Printer::new(self, true).value(value)
    }

    /// Returns the name of a block in the text form of the whole graph.
    pub(crate) fn block_text(&self, block: BlockId) -> String {
        if block == self.entry { "entry".to_string() } else { Printer::new(self, true).block_name(block) }
    }
}

/// Returns a quoted string in the parser's syntax.
fn quote(text: &str) -> String {
    let mut quoted = String::from('"');
    for c in text.chars() {
        match c {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            c if c.is_control() => quoted.push_str(&format!("\\u{{{:x}}}", u32::from(c))),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

/// Numbers of values, blocks and origins in the text.
#[derive(Default)]
struct Numbers {
    values: IdMap<ValueId, usize>,
    blocks: IdMap<BlockId, usize>,
    origins: IdMap<OriginId, usize>,
}

struct Printer<'g> {
    graph: &'g Graph,
    /// True if the elements of large constants are omitted.
    elide: bool,
    numbers: Numbers,
    /// Blocks printed before each op of the entry block.
    blocks_before: IdMap<OpId, Vec<BlockId>>,
    /// Origins in the order of their numbers.
    origins: Vec<OriginId>,
}

impl<'g> Printer<'g> {
    fn new(graph: &'g Graph, elide: bool) -> Self {
        let mut printer = Printer {
            graph,
            elide,
            numbers: Numbers::default(),
            blocks_before: IdMap::new(),
            origins: Vec::new(),
        };
        printer.number();
        printer
    }

    /// Assigns numbers in printing order.
    fn number(&mut self) {
        let graph = self.graph;
        let mut placed = IdSet::from([graph.entry]);
        for &id in ops_of(graph, graph.entry) {
            let blocks = unplaced_blocks(graph, id, &mut placed);
            for &block in &blocks {
                // The entry block implicitly has number 0 and is printed without a header, so other blocks
                // count from 1.
                let number = self.numbers.blocks.len() + 1;
                self.numbers.blocks.insert(block, number);
                self.number_values(&graph.blocks[block].params);
                for &op in &graph.blocks[block].ops {
                    self.number_op(op);
                }
            }
            if !blocks.is_empty() {
                self.blocks_before.insert(id, blocks);
            }
            self.number_op(id);
        }
    }

    fn number_op(&mut self, id: OpId) {
        let Some(op) = self.graph.ops.get(id) else { return };
        self.number_values(&op.results);
        if let Some(origin) = op.origin
            && self.graph.origins.get(origin).is_some()
            && !self.numbers.origins.contains_key(&origin)
        {
            self.numbers.origins.insert(origin, self.origins.len());
            self.origins.push(origin);
        }
    }

    fn number_values(&mut self, values: &[ValueId]) {
        // Skip values that do not exist, as in an invalid graph.
        for &value in values.iter().filter(|&&value| self.graph.values.get(value).is_some()) {
            let next = self.numbers.values.len();
            self.numbers.values.get_or_insert_with(value, || next);
        }
    }

    fn value(&self, value: ValueId) -> String {
        match self.numbers.values.get(&value) {
            Some(number) => format!("%{number}"),
            None => format!("%?{}", value.0),
        }
    }

    fn values(&self, values: &[ValueId]) -> String {
        values.iter().map(|&v| self.value(v)).collect::<Vec<_>>().join(", ")
    }

    fn typed(&self, values: &[ValueId]) -> String {
        let typed = |&v: &ValueId| {
            let ty = self.graph.values.get(v).map_or("?".to_string(), |value| value.ty.to_string());
            format!("{}: {ty}", self.value(v))
        };
        values.iter().map(typed).collect::<Vec<_>>().join(", ")
    }

    fn block_name(&self, block: BlockId) -> String {
        match self.numbers.blocks.get(&block) {
            Some(number) => format!("^{number}"),
            None => format!("^?{}", block.0),
        }
    }

    fn graph(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "graph {{")?;
        for (number, &origin) in self.origins.iter().enumerate() {
            if let Some(origin) = self.graph.origins.get(origin) {
                writeln!(f, "  @{number} = {}:{}:{}", quote(&origin.file), origin.line, origin.column)?;
            }
        }
        for &op in ops_of(self.graph, self.graph.entry) {
            for &block in self.blocks_before.get(&op).into_iter().flatten() {
                self.block(f, block)?;
            }
            self.line(f, "  ", op)?;
        }
        for output in &self.graph.outputs {
            writeln!(f, "  output {} {}", quote(&output.name), self.value(output.value))?;
        }
        for update in &self.graph.updates {
            let region = update.region.as_ref().map(|starts| format!("[{}]", self.values(starts)));
            writeln!(
                f,
                "  update {}{} <- {}{}",
                self.value(update.target),
                region.unwrap_or_default(),
                self.value(update.value),
                if update.must_alias { " {alias}" } else { "" }
            )?;
        }
        for guard in &self.graph.guards {
            writeln!(f, "  guard {} {}", quote(&guard.name), self.value(guard.value))?;
        }
        f.write_str("}")
    }

    fn block(&self, f: &mut fmt::Formatter<'_>, id: BlockId) -> fmt::Result {
        let block = &self.graph.blocks[id];
        writeln!(f, "  {}({}) {{", self.block_name(id), self.typed(&block.params))?;
        for &op in &block.ops {
            self.line(f, "    ", op)?;
        }
        f.write_str("    ->")?;
        if !block.results.is_empty() {
            write!(f, " {}", self.values(&block.results))?;
        }
        writeln!(f, "\n  }}")
    }

    fn line(&self, f: &mut fmt::Formatter<'_>, indent: &str, id: OpId) -> fmt::Result {
        f.write_str(indent)?;
        self.op(f, id)?;
        if let Some(origin) = self.graph.ops.get(id).and_then(|op| op.origin) {
            match self.numbers.origins.get(&origin) {
                Some(number) => write!(f, " @{number}")?,
                None => write!(f, " @?{}", origin.0)?,
            }
        }
        writeln!(f)
    }

    fn op(&self, f: &mut impl fmt::Write, id: OpId) -> fmt::Result {
        let Some(op) = self.graph.ops.get(id) else { return write!(f, "?{id}") };
        if !op.results.is_empty() {
            write!(f, "{} = ", self.typed(&op.results))?;
        }
        self.head(f, &op.kind)?;
        if !op.operands.is_empty() {
            write!(f, " {}", self.values(&op.operands))?;
        }
        let attributes = kind::attributes(&op.kind);
        if !attributes.is_empty() {
            write!(f, " {{{}}}", attributes.join(", "))?;
        }
        Ok(())
    }
}

fn ops_of(graph: &Graph, block: BlockId) -> &[OpId] {
    graph.blocks.get(block).map_or(&[], |block| &block.ops)
}

/// Returns the blocks reachable from an op that are not placed yet. Each block follows the blocks that its
/// ops run.
fn unplaced_blocks(graph: &Graph, id: OpId, placed: &mut IdSet<BlockId>) -> Vec<BlockId> {
    let callee = |id: OpId| {
        let block = graph.ops.get(id)?.kind.block()?;
        graph.blocks.get(block).map(|_| block)
    };
    let mut order = Vec::new();
    // Use an explicit stack instead of recursion, since an invalid graph may nest without bound.
    let mut path: Vec<(BlockId, usize)> = Vec::new();
    let mut enter = |path: &mut Vec<(BlockId, usize)>, id| {
        if let Some(block) = callee(id)
            && placed.insert(block)
        {
            path.push((block, 0));
        }
    };
    enter(&mut path, id);
    while let Some((block, next)) = path.last_mut() {
        let block = *block;
        let Some(&op) = graph.blocks[block].ops.get(*next) else {
            order.push(block);
            path.pop();
            continue;
        };
        *next += 1;
        enter(&mut path, op);
    }
    order
}
