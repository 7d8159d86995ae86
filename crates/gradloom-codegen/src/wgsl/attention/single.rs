//! Attention without workgroup memory: one invocation for each query.
//!
//! In: any extents. For devices on which barriers cost more than they save, for a few keys, and for rows that do not fit in workgroup memory. Rows are
//! in registers up to [`REGISTERS`] elements, longer ones are read again for each product; of longer results an invocation has a part,
//! and computes the scores for that.
//! Milakov and Gimelshein, Online normalizer calculation for softmax (2018).

use super::problem::{Problem, column, row};
use crate::wgsl::Dispatch;
use crate::wgsl::functions::Function;
use crate::wgsl::operands::Operand;
use crate::wgsl::source::Source;

/// Elements of a row that an invocation keeps in registers, and of a result that it sums up.
pub(super) const REGISTERS: usize = 64;
/// Keys whose scores are computed side by side.
const KEYS: usize = 4;
/// Below every score that is a finite number of use; a compiler may assume that there is no infinity.
pub(super) const LOWEST: &str = "-3.0e38";

/// How items (queries or keys) are shared out: `count` of them for each head and part of the result.
pub(super) struct Shares {
    /// Invocations of a workgroup.
    pub(super) size: usize,
    /// Items of a head.
    count: usize,
    /// Parts of a result's row.
    parts: usize,
    heads: usize,
    sequences: usize,
    /// Whether the invocations of a workgroup have the same head and part.
    pub(super) together: bool,
}

impl Shares {
    pub(super) fn new(software: bool, sequences: usize, heads: usize, count: usize, width: usize) -> Self {
        let together = software || count >= REGISTERS;
        let size = match (together, software) {
            (true, true) => count.next_power_of_two().clamp(8, 16),
            _ => 64,
        };
        Self { size, count, parts: width.div_ceil(REGISTERS).max(1), heads, sequences, together }
    }

    /// Workgroups.
    pub(super) fn groups(&self) -> usize {
        let around = self.sequences * self.heads * self.parts;
        match self.together {
            true => around * self.count.div_ceil(self.size),
            false => (around * self.count).div_ceil(self.size),
        }
    }

    /// Names the item, `first` of the workgroup (the item itself, if its items have nothing in common), `part`, `head` and `sequence`; opens a block
    /// for items that exist.
    pub(super) fn open(&self, source: &mut Source<'_>, item: &str, head: &str) {
        let Self { size, count, parts, heads, .. } = *self;
        let gate = if source.gated { "committed && " } else { "" };
        let rest = match self.together {
            true => {
                let blocks = count.div_ceil(size);
                source.line(format!("let first = (group % {blocks}u) * {size}u;"));
                source.line(format!("let {item} = first + local;"));
                format!("(group / {blocks}u)")
            }
            false => {
                source.line(format!("let position = group * {size}u + local;"));
                source.line(format!("let {item} = position % {count}u;"));
                source.line(format!("let first = {item};"));
                format!("(position / {count}u)")
            }
        };
        source.line(format!("let part = {rest} % {parts}u;"));
        source.line(format!("let {head} = ({rest} / {parts}u) % {heads}u;"));
        source.line(format!("let sequence = {rest} / {}u;", parts * heads));
        source.line(match self.together {
            true => format!("if ({gate}{item} < {count}u) {{"),
            false => format!("if ({gate}sequence < {}u) {{", self.sequences),
        });
    }
}

/// A row that products are made with.
pub(super) struct Own {
    operand: Operand,
    name: &'static str,
    /// Expression of the row's first index.
    row: String,
    registers: bool,
}

impl Own {
    /// Loads the row, if it is short enough; `row` is a name.
    pub(super) fn new(source: &mut Source<'_>, operand: &Operand, name: &'static str, row: String) -> Self {
        let width = operand.layout.shape[3];
        let registers = width <= REGISTERS;
        if registers {
            for d in 0..width {
                let value = source.load(operand, &column(operand, &row, &format!("{d}u")));
                source.line(format!("let {name}_{d} = {value};"));
            }
        }
        Self { operand: operand.clone(), name, row, registers }
    }

    /// Adds the products with rows, each an operand, the name of the row's first index, and the name of a sum.
    pub(super) fn products(&self, source: &mut Source<'_>, rows: &[(Operand, String, String)]) {
        let width = self.operand.layout.shape[3];
        if self.registers {
            for d in 0..width {
                for (operand, row, sum) in rows {
                    let other = source.load(operand, &column(operand, row, &format!("{d}u")));
                    source.line(format!("{sum} += {}_{d} * {other};", self.name));
                }
            }
            return;
        }
        source.line(format!("for (var d = 0u; d < {width}u; d++) {{"));
        let value = source.load(&self.operand, &column(&self.operand, &self.row, "d"));
        source.line(format!("let x = {value};"));
        for (operand, row, sum) in rows {
            let other = source.load(operand, &column(operand, row, "d"));
            source.line(format!("{sum} += x * {other};"));
        }
        source.line("}");
    }
}

/// The columns of an invocation's part of a result's row.
pub(super) struct Part {
    name: &'static str,
    width: usize,
    here: usize,
}

impl Part {
    /// Declares a sum for each column.
    pub(super) fn new(source: &mut Source<'_>, name: &'static str, width: usize) -> Self {
        let here = width.min(REGISTERS);
        for c in 0..here {
            source.line(format!("var {name}_{c} = 0.0;"));
            if width > REGISTERS {
                let last = width - 1;
                source.line(format!("let {name}_column_{c} = min(part * {REGISTERS}u + {c}u, {last}u);"));
            }
        }
        Self { name, width, here }
    }

    fn column(&self, c: usize) -> String {
        if self.width > REGISTERS { format!("{}_column_{c}", self.name) } else { format!("{c}u") }
    }

    /// Multiplies the sums by `keep`, if given, and adds the rows times their factors.
    pub(super) fn add(
        &self,
        source: &mut Source<'_>,
        keep: Option<&str>,
        rows: &[(Operand, String, String)],
    ) {
        for c in 0..self.here {
            let sum = format!("{}_{c}", self.name);
            let mut terms = keep.map_or(sum.clone(), |keep| format!("{sum} * {keep}"));
            for (operand, row, factor) in rows {
                let value = source.load(operand, &column(operand, row, &self.column(c)));
                terms = format!("{terms} + {factor} * {value}");
            }
            source.line(format!("{sum} = {terms};"));
        }
    }

    /// Stores the sums times `factor`.
    pub(super) fn store(&self, source: &mut Source<'_>, write: &Operand, row: &str, factor: &str) {
        for c in 0..self.here {
            let guard = self.width % REGISTERS != 0 && self.width > REGISTERS;
            if guard {
                source.line(format!("if (part * {REGISTERS}u + {c}u < {}u) {{", self.width));
            }
            let value = if factor.is_empty() { "" } else { " * " };
            let value = format!("{}_{c}{value}{factor}", self.name);
            source.store(write, &column(write, row, &self.column(c)), &value);
            if guard {
                source.line("}");
            }
        }
    }
}

/// The shader of the output and the log-sum-exp.
pub(super) fn forward(mut source: Source<'_>, problem: &Problem, label: &str) -> Vec<Dispatch> {
    let software = source.limits.software;
    let shares = Shares::new(software, problem.batch, problem.heads, problem.queries, problem.value_depth);
    if shares.groups() == 0 {
        return Vec::new();
    }
    let [q, k, v] = [0, 1, 2].map(|read| source.operands.reads[read].clone());
    let [output, log_sum] = [0, 1].map(|write| source.operands.writes[write].clone());
    problem.bounds(&mut source, false);
    shares.open(&mut source, "query", "head");
    source.line(format!("let key_head = head / {}u;", problem.sharing()));
    // One invocation goes through the table of its sequence.
    problem.check_table(&mut source, "head == 0u && query == 0u && part == 0u", ("0u", 1));
    source.line(format!("let limit = {};", problem.limit("query")));
    source.line(format!("let everyone = ({}) / {KEYS}u * {KEYS}u;", problem.limit("first")));
    source.line(format!("let q_row = {};", row(&q, "sequence", "head", "query")));
    let own = Own::new(&mut source, &q, "q", "q_row".into());
    let part = Part::new(&mut source, "o", problem.value_depth);
    source.line(format!("var maximum = {LOWEST};"));
    source.line("var sum = 0.0;");
    if problem.keys > 0 {
        // Keys that all queries of the workgroup see, then the others.
        for (from, to, keys) in [("0u", "everyone", KEYS), ("everyone", "limit", 1)] {
            source.line(format!("for (var key = {from}; key < {to}; key += {keys}u) {{"));
            step(&mut source, problem, &own, &part, [&k, &v], keys);
            source.line("}");
        }
    }
    source.line("let seen = limit > 0u;");
    source.line("let factor = select(0.0, 1.0 / sum, seen);");
    source.line(format!("let to = {};", row(&output, "sequence", "head", "query")));
    part.store(&mut source, &output, "to", "factor");
    source.line("if (part == 0u) {");
    let from_bits = source.function(Function::FromBits);
    let value = format!("select({from_bits}(0xff800000u), maximum + log(sum), seen)");
    source.store(&log_sum, &row(&log_sum, "sequence", "head", "query"), &value);
    source.line("}");
    source.line("}");
    vec![source.finish(label, shares.size as u32, shares.groups())]
}

/// Goes through some keys from `key` on.
fn step(
    source: &mut Source<'_>,
    problem: &Problem,
    own: &Own,
    part: &Part,
    [k, v]: [&Operand; 2],
    keys: usize,
) {
    let mut rows = [Vec::new(), Vec::new()];
    for t in 0..keys {
        source.line(format!("let key_{t} = key + {t}u;"));
        for (read, operand, name, number) in [(1, k, "k", "s"), (2, v, "v", "p")] {
            let at = problem.key_row(source, read, &format!("key_{t}"));
            source.line(format!("let {name}_{t} = {at};"));
            rows[read - 1].push((operand.clone(), format!("{name}_{t}"), format!("{number}_{t}")));
        }
        source.line(format!("var s_{t} = 0.0;"));
    }
    own.products(source, &rows[0]);
    let mut greatest = "maximum".to_string();
    for t in 0..keys {
        source.line(format!("s_{t} *= {};", problem.scale()));
        greatest = format!("max({greatest}, s_{t})");
    }
    source.line(format!("let next = {greatest};"));
    source.line("let keep = exp(maximum - next);");
    source.line("maximum = next;");
    let mut sum = "sum * keep".to_string();
    for t in 0..keys {
        source.line(format!("let p_{t} = exp(s_{t} - next);"));
        sum = format!("{sum} + p_{t}");
    }
    source.line(format!("sum = {sum};"));
    part.add(source, Some("keep"), &rows[1]);
}
