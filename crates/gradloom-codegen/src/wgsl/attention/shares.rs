//! What an invocation has when workgroups share no memory: rows of its own, and sums over what it goes
//! through.
//!
//! In: numbers of rows, operands. Out: statements. An invocation has `each` rows, whose names end in their
//! number; rows that do not exist are computed like the last one, and not stored.

use super::problem::{Problem, column};
use crate::wgsl::operands::Operand;
use crate::wgsl::source::Source;

/// Elements of a row that an invocation keeps in registers, and of a result that it sums up.
const REGISTERS: usize = 64;

/// How rows (queries or keys) are shared out: `count` of them for each head and part of the result.
pub(super) struct Shares {
    /// Invocations of a workgroup.
    pub(super) size: usize,
    /// Rows of an invocation.
    pub(super) each: usize,
    count: usize,
    /// Parts of a result's row.
    parts: usize,
    heads: usize,
    sequences: usize,
    /// Whether the invocations of a workgroup have the same head and part.
    together: bool,
}

impl Shares {
    /// For `[sequences, heads, count]` rows with results of `width` elements; an invocation has `each` of
    /// them, more than one only on a software device.
    pub(super) fn new(
        software: bool,
        [sequences, heads, count]: [usize; 3],
        width: usize,
        each: usize,
    ) -> Self {
        let together = software || count >= 64;
        let size = if software { 8 } else { 64 };
        Self { size, each, count, parts: width.div_ceil(REGISTERS).max(1), heads, sequences, together }
    }

    /// Workgroups.
    pub(super) fn groups(&self) -> usize {
        let around = self.sequences * self.heads * self.parts;
        match self.together {
            true => around * self.count.div_ceil(self.size * self.each),
            false => (around * self.count).div_ceil(self.size),
        }
    }

    /// Names the rows `{name}_0`, .., `there_0`, .. (the same, but never beyond the last), `first` and `last`
    /// of the workgroup, `part`, `head` and `sequence`; opens a block for invocations that have a row.
    pub(super) fn open(&self, source: &mut Source<'_>, name: &str, head: &str) {
        let Self { size, each, count, parts, heads, .. } = *self;
        let block = size * each;
        let rest = match self.together {
            true => {
                let blocks = count.div_ceil(block);
                source.line(format_args!("let first = (group % {blocks}u) * {block}u;"));
                source.line(format_args!("let last = min(first + {}u, {}u);", block - 1, count - 1));
                format!("(group / {blocks}u)")
            }
            false => {
                source.line(format_args!("let position = group * {size}u + local;"));
                source.line(format_args!("let first = position % {count}u;"));
                source.line("let last = first;");
                format!("(position / {count}u)")
            }
        };
        for r in 0..each {
            let at = if self.together { format!("first + local + {}u", r * size) } else { "first".into() };
            source.line(format_args!("let {name}_{r} = {at};"));
            source.line(format_args!("let there_{r} = min({name}_{r}, {}u);", count - 1));
        }
        source.line(format_args!("let part = {rest} % {parts}u;"));
        source.line(format_args!("let {head} = ({rest} / {parts}u) % {heads}u;"));
        source.line(format_args!("let sequence = {rest} / {}u;", parts * heads));
        let gate = if source.gated { "committed && " } else { "" };
        source.line(match self.together {
            true => format!("if ({gate}{name}_0 < {count}u) {{"),
            false => format!("if ({gate}sequence < {}u) {{", self.sequences),
        });
    }

    /// For queries: names the `limit` of each, and the `end` of the keys that any of the workgroup sees.
    pub(super) fn limits(&self, source: &mut Source<'_>, problem: &Problem) {
        for r in 0..self.each {
            source.line(format_args!("let limit_{r} = {};", problem.limit(&format!("there_{r}"))));
        }
        source.line(format_args!("let end = {};", problem.limit("last")));
    }

    /// Names an index for each row.
    pub(super) fn rows(
        &self,
        source: &mut Source<'_>,
        name: &str,
        index: &dyn Fn(usize) -> String,
    ) -> Vec<String> {
        let names: Vec<String> = (0..self.each).map(|r| format!("{name}_{r}")).collect();
        for (r, name) in names.iter().enumerate() {
            source.line(format_args!("let {name} = {};", index(r)));
        }
        names
    }

    /// `value` if query `r` sees `key`, `otherwise` if not.
    pub(super) fn shown(&self, value: &str, otherwise: &str, r: usize) -> String {
        match self.together {
            true => format!("select({otherwise}, {value}, key < limit_{r})"),
            false => value.to_string(),
        }
    }

    /// Opens a block for row `r`, if it exists.
    pub(super) fn open_result(&self, source: &mut Source<'_>, name: &str, r: usize) {
        source.line(format_args!("if ({name}_{r} < {}u) {{", self.count));
    }
}

/// Rows that products are made with.
pub(super) struct Own {
    operand: Operand,
    name: &'static str,
    /// Names of the rows' first indices.
    rows: Vec<String>,
    registers: bool,
}

impl Own {
    /// Loads the rows, if they are short enough.
    pub(super) fn new(
        source: &mut Source<'_>,
        operand: &Operand,
        name: &'static str,
        rows: Vec<String>,
    ) -> Self {
        let width = operand.layout.shape[3];
        let registers = width <= REGISTERS;
        if registers {
            for (r, row) in rows.iter().enumerate() {
                for d in 0..width {
                    let value = source.load(operand, &column(operand, row, &format!("{d}u")));
                    source.line(format_args!("let {name}{r}_{d} = {value};"));
                }
            }
        }
        Self { operand: operand.clone(), name, rows, registers }
    }

    /// Declares `{sum}_{r}`: the products with a row of another operand; and, if own rows are in registers,
    /// that row as `{sum}_with_0`, ..
    pub(super) fn products(&self, source: &mut Source<'_>, other: &Operand, row: &str, sum: &str) {
        let all = 0..self.rows.len();
        all.clone().for_each(|r| source.line(format_args!("var {sum}_{r} = 0.0;")));
        let width = self.operand.layout.shape[3];
        if self.registers {
            for d in 0..width {
                let value = source.load(other, &column(other, row, &format!("{d}u")));
                source.line(format_args!("let {sum}_with_{d} = {value};"));
                for r in all.clone() {
                    source.line(format_args!("{sum}_{r} += {}{r}_{d} * {sum}_with_{d};", self.name));
                }
            }
            return;
        }
        source.line(format_args!("for (var d = 0u; d < {width}u; d++) {{"));
        let value = source.load(other, &column(other, row, "d"));
        source.line(format_args!("let other = {value};"));
        for r in all {
            let own = source.load(&self.operand, &column(&self.operand, &self.rows[r], "d"));
            source.line(format_args!("{sum}_{r} += {own} * other;"));
        }
        source.line("}");
    }

    /// Declares `{sum}_{r}`: the products with as many rows of another operand.
    pub(super) fn products_by_row(
        &self,
        source: &mut Source<'_>,
        other: &Operand,
        rows: &[String],
        sum: &str,
    ) {
        let width = self.operand.layout.shape[3];
        for (r, (mine, theirs)) in self.rows.iter().zip(rows).enumerate() {
            source.line(format_args!("var {sum}_{r} = 0.0;"));
            source.line(format_args!("for (var d = 0u; d < {width}u; d++) {{"));
            let own = source.load(&self.operand, &column(&self.operand, mine, "d"));
            let other = source.load(other, &column(other, theirs, "d"));
            source.line(format_args!("{sum}_{r} += {own} * {other};"));
            source.line("}");
        }
    }
}

/// The columns of an invocation's part of its results' rows.
pub(super) struct Part {
    name: &'static str,
    width: usize,
    here: usize,
    rows: usize,
}

impl Part {
    /// Declares a sum for each column of each row.
    pub(super) fn new(source: &mut Source<'_>, name: &'static str, width: usize, rows: usize) -> Self {
        let here = width.min(REGISTERS);
        for c in 0..here {
            (0..rows).for_each(|r| source.line(format_args!("var {name}{r}_{c} = 0.0;")));
            if width > REGISTERS {
                let last = width - 1;
                source
                    .line(format_args!("let {name}_column_{c} = min(part * {REGISTERS}u + {c}u, {last}u);"));
            }
        }
        Self { name, width, here, rows }
    }

    fn column(&self, c: usize) -> String {
        if self.width > REGISTERS { format!("{}_column_{c}", self.name) } else { format!("{c}u") }
    }

    /// Multiplies the sums of row r by `{keep}_{r}`, if given, and adds a row of an operand times
    /// `{factor}_{r}`.
    pub(super) fn add(
        &self,
        source: &mut Source<'_>,
        keep: Option<&str>,
        operand: &Operand,
        row: &str,
        factor: &str,
    ) {
        for c in 0..self.here {
            let value = source.load(operand, &column(operand, row, &self.column(c)));
            source.line(format_args!("let {}_with_{c} = {value};", self.name));
            self.add_column(source, keep, c, self.name, factor);
        }
    }

    /// The same without `keep`, for the row that made the products `product` with `own` rows, and may be in
    /// registers.
    pub(super) fn add_again(
        &self,
        source: &mut Source<'_>,
        (own, product): (&Own, &str),
        operand: &Operand,
        row: &str,
        factor: &str,
    ) {
        if !own.registers {
            return self.add(source, None, operand, row, factor);
        }
        (0..self.here).for_each(|c| self.add_column(source, None, c, product, factor));
    }

    /// Adds column c of the row `{from}_with_0`, ..
    fn add_column(&self, source: &mut Source<'_>, keep: Option<&str>, c: usize, from: &str, factor: &str) {
        for r in 0..self.rows {
            let sum = format!("{}{r}_{c}", self.name);
            let kept = keep.map_or(sum.clone(), |keep| format!("{sum} * {keep}_{r}"));
            source.line(format_args!("{sum} = {kept} + {factor}_{r} * {from}_with_{c};"));
        }
    }

    /// Stores the sums of row r, each followed by `factor`.
    pub(super) fn store(&self, source: &mut Source<'_>, write: &Operand, row: &str, r: usize, factor: &str) {
        for c in 0..self.here {
            let ragged = !self.width.is_multiple_of(REGISTERS) && self.width > REGISTERS;
            if ragged {
                source.line(format_args!("if (part * {REGISTERS}u + {c}u < {}u) {{", self.width));
            }
            let value = format!("{}{r}_{c}{factor}", self.name);
            source.store(write, &column(write, row, &self.column(c)), &value);
            if ragged {
                source.line("}");
            }
        }
    }
}
