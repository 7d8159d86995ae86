//! Blocks of rows that meet in workgroup memory, and the two products that attention is made of.
//!
//! In: a [`Tile`], names of workgroup arrays. Out: statements. A workgroup holds a block of `rows` and goes
//! through blocks of `columns`; thread (down, across) has the rows `down + i * row_threads` and the columns
//! `across + j * column_threads`, so that neighbours read neighbouring rows. Rows are kept as vectors of four
//! elements, zeros behind the last; an odd pitch spreads them over the banks. Products are written element by
//! element, as the compilers for GPUs make one instruction of each multiplication and addition.

use super::problem::column;
use crate::wgsl::operands::Operand;
use crate::wgsl::source::Source;

const COMPONENTS: [&str; 4] = ["x", "y", "z", "w"];
/// Vectors that an invocation has on their way at the same time.
const AHEAD: usize = 4;

/// How a block of scores is shared out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tile {
    /// Rows of a thread.
    pub rows_each: usize,
    /// Columns of a thread: 2 or 4.
    pub columns_each: usize,
    /// Threads along rows.
    pub row_threads: usize,
    /// Threads along columns.
    pub column_threads: usize,
}

impl Tile {
    pub(super) const fn new(
        rows_each: usize,
        columns_each: usize,
        row_threads: usize,
        column_threads: usize,
    ) -> Self {
        Self { rows_each, columns_each, row_threads, column_threads }
    }

    pub(super) fn rows(&self) -> usize {
        self.rows_each * self.row_threads
    }

    pub(super) fn columns(&self) -> usize {
        self.columns_each * self.column_threads
    }

    pub(super) fn threads(&self) -> usize {
        self.row_threads * self.column_threads
    }

    /// Bytes of a block of scores.
    pub(super) fn score_bytes(&self) -> usize {
        4 * self.columns_each * self.rows() * (self.column_threads + 1)
    }

    /// Bytes of a number for each row and thread across.
    pub(super) fn share_bytes(&self) -> usize {
        4 * self.rows() * self.column_threads
    }

    /// Names the thread's place, and where its rows start in a block of scores.
    pub(super) fn open(&self, source: &mut Source<'_>) {
        source.line(format_args!("let down = local / {}u;", self.column_threads));
        source.line(format_args!("let across = local % {}u;", self.column_threads));
        for i in 0..self.rows_each {
            source.line(format_args!("let row_{i} = down + {}u;", i * self.row_threads));
        }
    }

    /// Declares a block of scores.
    pub(super) fn declare_scores(&self, source: &mut Source<'_>, name: &str) {
        let (width, size) = (self.columns_each, self.rows() * (self.column_threads + 1));
        source.global(format_args!("var<workgroup> {name}: array<vec{width}<f32>, {size}>;"));
    }

    /// Declares numbers for each row and thread across.
    pub(super) fn declare_shares(&self, source: &mut Source<'_>) {
        source.global(format_args!(
            "var<workgroup> shares: array<f32, {}>;",
            self.rows() * self.column_threads
        ));
    }

    /// Combines `value_{i}` of the threads of each row into `result_{i}`. All must come here, and none may
    /// be in the shares still.
    pub(super) fn combine(
        &self,
        source: &mut Source<'_>,
        value: &str,
        result: &str,
        f: &dyn Fn(&str, &str) -> String,
    ) {
        let width = self.column_threads;
        for i in 0..self.rows_each {
            source.line(format_args!("shares[row_{i} * {width}u + across] = {value}_{i};"));
        }
        source.line("workgroupBarrier();");
        for i in 0..self.rows_each {
            source.line(format_args!("var {result}_{i} = shares[row_{i} * {width}u];"));
            for t in 1..width {
                let share = format!("shares[row_{i} * {width}u + {t}u]");
                source.line(format_args!("{result}_{i} = {};", f(&format!("{result}_{i}"), &share)));
            }
        }
    }

    /// Writes the thread's values `{value}_{i}_{j}` to a block of scores.
    pub(super) fn put_scores(&self, source: &mut Source<'_>, name: &str, value: &str) {
        let width = self.columns_each;
        for i in 0..self.rows_each {
            let all: Vec<String> = (0..width).map(|j| format!("{value}_{i}_{j}")).collect();
            let place = format!("row_{i} * {}u + across", self.column_threads + 1);
            source.line(format_args!("{name}[{place}] = vec{width}<f32>({});", all.join(", ")));
        }
    }

    /// Declares `{sum}_{i}_{j}`: the products of the rows of two blocks.
    pub(super) fn products(&self, source: &mut Source<'_>, sum: &str, rows: &Block, columns: &Block) {
        for i in 0..self.rows_each {
            for j in 0..self.columns_each {
                source.line(format_args!("var {sum}_{i}_{j} = 0.0;"));
            }
        }
        let (a, b, pitch) = (&rows.name, &columns.name, rows.pitch());
        source.line(format_args!("for (var d = 0u; d < {}u; d++) {{", rows.vectors()));
        for i in 0..self.rows_each {
            source.line(format_args!("let a_{i} = {a}[row_{i} * {pitch}u + d];"));
        }
        for j in 0..self.columns_each {
            let at = j * self.column_threads * pitch;
            source.line(format_args!("let b_{j} = {b}[across * {pitch}u + d + {at}u];"));
        }
        for component in COMPONENTS {
            for i in 0..self.rows_each {
                for j in 0..self.columns_each {
                    let (a, b) = (format!("a_{i}.{component}"), format!("b_{j}.{component}"));
                    source.line(format_args!("{sum}_{i}_{j} = fma({a}, {b}, {sum}_{i}_{j});"));
                }
            }
        }
        source.line("}");
    }

    /// Declares the sums of [`Tile::accumulate`].
    pub(super) fn declare_sums(&self, source: &mut Source<'_>, sum: &str, block: &Block) {
        for i in 0..self.rows_each {
            for c in 0..self.vectors_each(block) {
                source.line(format_args!("var {sum}_{i}_{c} = vec4<f32>(0.0);"));
            }
        }
    }

    /// Vectors of a row of the block that a thread has.
    pub(super) fn vectors_each(&self, block: &Block) -> usize {
        block.vectors().div_ceil(self.column_threads)
    }

    /// A thread's vector of a row: `across + c * column_threads`, or the last one if there is none.
    fn vector(&self, block: &Block, c: usize) -> String {
        let (at, count) = (c * self.column_threads, block.vectors());
        match at + self.column_threads > count {
            true => format!("min(across + {at}u, {}u)", count - 1),
            false => format!("across + {at}u"),
        }
    }

    /// Adds to `{sum}_{i}_{c}` the product of a block of scores with a block whose rows are the scores'
    /// columns.
    pub(super) fn accumulate(&self, source: &mut Source<'_>, sum: &str, scores: &str, block: &Block) {
        let (name, pitch, each) = (&block.name, block.pitch(), self.vectors_each(block));
        for c in 0..each {
            source.line(format_args!("let {sum}_at_{c} = {};", self.vector(block, c)));
        }
        source.line(format_args!("for (var t = 0u; t < {}u; t++) {{", self.column_threads));
        for i in 0..self.rows_each {
            source.line(format_args!("let p_{i} = {scores}[row_{i} * {}u + t];", self.column_threads + 1));
        }
        for (j, component) in COMPONENTS[..self.columns_each].iter().enumerate() {
            for c in 0..each {
                let at = j * self.column_threads * pitch;
                source.line(format_args!("let v_{j}_{c} = {name}[t * {pitch}u + {sum}_at_{c} + {at}u];"));
                for i in 0..self.rows_each {
                    let (p, v) = (format!("vec4<f32>(p_{i}.{component})"), format!("v_{j}_{c}"));
                    source.line(format_args!("{sum}_{i}_{c} = fma({p}, {v}, {sum}_{i}_{c});"));
                }
            }
        }
        source.line("}");
    }

    /// Stores `{sum}_{i}_{c} * {factor}_{i}` to rows of a result: `rows` gives the condition and the name of
    /// the first index for row i.
    pub(super) fn store(
        &self,
        source: &mut Source<'_>,
        write: &Operand,
        (sum, factor): (&str, &str),
        block: &Block,
        row: &dyn Fn(usize) -> (String, String),
    ) {
        for i in 0..self.rows_each {
            let (condition, start) = row(i);
            source.line(format_args!("if ({condition}) {{"));
            source.line(format_args!("let to = {start};"));
            for c in 0..self.vectors_each(block) {
                let factor = if factor.is_empty() { String::new() } else { format!(" * {factor}_{i}") };
                source.line(format_args!("let at_{c} = 4u * (across + {}u);", c * self.column_threads));
                source.line(format_args!("let value_{c} = {sum}_{i}_{c}{factor};"));
                for (k, component) in COMPONENTS.iter().enumerate() {
                    // Whole vectors of whole rows of threads need no look.
                    let sure = (c + 1) * self.column_threads * 4 <= block.width;
                    if !sure {
                        source.line(format_args!("if (at_{c} + {k}u < {}u) {{", block.width));
                    }
                    let place = column(write, "to", &format!("at_{c} + {k}u"));
                    source.store(write, &place, &format!("value_{c}.{component}"));
                    if !sure {
                        source.line("}");
                    }
                }
            }
            source.line("}");
        }
    }
}

/// Rows of an operand in workgroup memory.
#[derive(Clone, Debug)]
pub(super) struct Block {
    pub(super) name: String,
    rows: usize,
    /// Elements of a row.
    width: usize,
}

impl Block {
    /// Declares the array.
    pub(super) fn new(source: &mut Source<'_>, name: &str, rows: usize, width: usize) -> Self {
        let block = Self { name: name.into(), rows, width };
        source.global(format_args!("var<workgroup> {name}: array<vec4<f32>, {}>;", rows * block.pitch()));
        block
    }

    /// Bytes of so many rows.
    pub(super) fn bytes(rows: usize, width: usize) -> usize {
        16 * rows * (width.div_ceil(4) | 1)
    }

    fn vectors(&self) -> usize {
        self.width.div_ceil(4)
    }

    /// Vectors from row to row.
    fn pitch(&self) -> usize {
        self.vectors() | 1
    }

    /// Loads rows `first..` of an operand, and zeros from `end` on. `count` is the number of rows that there
    /// are, `start` the index of a row's first element.
    pub(super) fn fill(
        &self,
        source: &mut Source<'_>,
        threads: usize,
        operand: &Operand,
        (first, end, count): (&str, &str, usize),
        start: &dyn Fn(&mut Source<'_>, &str) -> String,
    ) {
        let (vectors, total) = (self.vectors(), self.rows * self.vectors());
        let turns: Vec<usize> = (0..total.div_ceil(threads)).collect();
        for turns in turns.chunks(AHEAD) {
            source.line("{");
            for &n in turns {
                let at = match (n + 1) * threads > total {
                    true => format!("min(local + {}u, {}u)", n * threads, total - 1),
                    false => format!("local + {}u", n * threads),
                };
                source.line(format_args!("let at_{n} = {at};"));
                source.line(format_args!("let there_{n} = {first} + at_{n} / {vectors}u;"));
                let row = start(source, &format!("min(there_{n}, {}u)", count - 1));
                source.line(format_args!("let from_{n} = {row};"));
                let elements: Vec<String> =
                    (0..4).map(|k| self.element(source, operand, n, k, vectors)).collect();
                source.line(format_args!("let value_{n} = vec4<f32>({});", elements.join(", ")));
            }
            for &n in turns {
                let ragged = (n + 1) * threads > total;
                if ragged {
                    source.line(format_args!("if (local + {}u < {total}u) {{", n * threads));
                }
                let place = match self.pitch() == vectors {
                    true => format!("at_{n}"),
                    false => format!("at_{n} / {vectors}u * {}u + at_{n} % {vectors}u", self.pitch()),
                };
                let value = format!("select(vec4<f32>(0.0), value_{n}, there_{n} < {end})");
                source.line(format_args!("{}[{place}] = {value};", self.name));
                if ragged {
                    source.line("}");
                }
            }
            source.line("}");
        }
    }

    fn element(&self, source: &Source<'_>, operand: &Operand, n: usize, k: usize, vectors: usize) -> String {
        let at = format!("at_{n} % {vectors}u * 4u + {k}u");
        // Of the last vector, some elements may not be there.
        if k < self.width - 4 * (vectors - 1) {
            return source.load(operand, &column(operand, &format!("from_{n}"), &at));
        }
        let last = format!("min({at}, {}u)", self.width - 1);
        let value = source.load(operand, &column(operand, &format!("from_{n}"), &last));
        format!("select(0.0, {value}, {at} < {}u)", self.width)
    }
}
