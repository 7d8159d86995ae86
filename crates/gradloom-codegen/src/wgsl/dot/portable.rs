//! The product of register tiles, in plain WGSL.
//!
//! A thread keeps its results in vectors of four columns. Its rows come in strips (of 4, or all if fewer):
//! strip s of thread t is strip `s·threads + t` of the tile, so that neighbouring threads read neighbouring
//! memory; its columns likewise.

use super::grid::Grid;
use super::problem::{Along, DotKernel, Element, Scalar, Side, Stage, scaled, sum, workspace_item};
use super::staged::{Staged, pipeline};
use super::tile::{Choice, Staging, Tile};
use crate::wgsl::{Limits, Shader, Writer};

const COMPONENTS: [&str; 4] = ["x", "y", "z", "w"];

/// The shader for the product, or for its parts.
pub(super) fn product(kernel: &DotKernel<'_>, tile: &Tile, choice: &Choice, limits: &Limits) -> Shader {
    let problem = kernel.problem;
    assert!(tile.thread_n.is_multiple_of(4), "vectors of four columns");
    let grid = Grid::new(problem, (tile.m, tile.n), choice.parts);
    let mut writer = Writer::new();
    if [kernel.lhs, kernel.rhs].iter().any(|operand| operand.scalar == Scalar::F16) {
        writer.line("enable f16;");
    }
    header(&mut writer, kernel, choice.parts);
    writer.line(format_args!(
        "// Tiles of {} x {}, {} x {} a thread.",
        tile.m, tile.n, tile.thread_m, tile.thread_n
    ));
    let body = Body::new(kernel, tile, choice);
    if let Some((lhs, rhs)) = body.staged() {
        lhs.declare(&mut writer);
        rhs.declare(&mut writer);
    }
    writer.line("");
    writer.line(format_args!("@compute @workgroup_size({})", tile.threads()));
    writer.line("fn main(");
    writer.line("    @builtin(workgroup_id) workgroup: vec3<u32>,");
    writer.line("    @builtin(local_invocation_index) thread: u32,");
    writer.open(")");
    grid.write(&mut writer, problem, (tile.m, tile.n), limits);
    body.write(&mut writer);
    writer.close();
    Shader { source: writer.finish(), workgroups: grid.workgroups(limits) }
}

/// Writes what every shader of a product begins with.
pub(super) fn header(writer: &mut Writer, kernel: &DotKernel<'_>, parts: u32) {
    let problem = kernel.problem;
    writer.line(format_args!(
        "// {} products [{}, {}] x [{}, {}].",
        problem.batch_count(),
        problem.m,
        problem.k,
        problem.k,
        problem.n
    ));
    writer.lines(&(kernel.declarations)(if parts > 1 { Stage::Parts } else { Stage::Whole }));
}

/// Writes `first_term` and `end_term`: which terms of the sums this part has.
pub(super) fn terms(writer: &mut Writer, choice: &Choice, k: usize) {
    let length = choice.part_length(k);
    let part = |text: String, whole: &str| if choice.parts > 1 { text } else { whole.into() };
    writer.line(format_args!("let first_term = {};", part(format!("min(part * {length}u, {k}u)"), "0u")));
    writer.line(format_args!(
        "let end_term = {};",
        part(format!("min(first_term + {length}u, {k}u)"), &format!("{k}u"))
    ));
}

/// Writes what happens to the result (or results) at `row` and `column`.
pub(super) fn finish(writer: &mut Writer, kernel: &DotKernel<'_>, parts: u32, lanes: u32, value: &str) {
    let problem = kernel.problem;
    let index = format!("(batch * {}u + row) * {}u + column", problem.m, problem.n);
    let results = problem.batch_count() * problem.m * problem.n;
    writer.line(format_args!("let index = {index};"));
    if parts > 1 {
        let place = format!("part * {results}u + index");
        let item = if lanes == 4 { format!("({place}) >> 2u") } else { place };
        writer.line(format_args!("workspace[{item}] = {value};"));
        return;
    }
    let element = Element { batch: "batch", row: "row", column: "column", index: "index", value };
    (kernel.epilogue.store)(writer, &element);
}

/// Results that are finished together.
pub(super) fn result_lanes(kernel: &DotKernel<'_>, parts: u32) -> u32 {
    match parts {
        1 => kernel.epilogue.lanes,
        _ if workspace_item(kernel.problem) == "f32" => 1,
        _ => 4,
    }
}

/// How a thread reads one operand.
struct Reader<'a> {
    side: Side<'a>,
    /// Rows (or columns) of the tile, of a strip, and strips of a thread.
    extent: u32,
    strip: u32,
    strips: u32,
    /// Threads along this axis, and the expression for this thread's place among them.
    threads: u32,
    place: &'static str,
    first: &'static str,
    staging: Staging,
}

impl Reader<'_> {
    fn count(&self) -> u32 {
        self.strip * self.strips
    }

    /// Place of strip `s` of this thread among the strips of the tile.
    fn strip_place(&self, s: u32) -> String {
        if s == 0 { self.place.into() } else { format!("({} + {}u)", self.place, s * self.threads) }
    }

    /// Row (or column) `i` of this thread, counted from the start of the operand.
    fn position(&self, i: u32) -> String {
        let (s, c) = (i / self.strip, i % self.strip);
        let inside = (c != 0).then(|| format!("{c}u"));
        sum([Some(self.first.into()), scaled(&self.strip_place(s), self.strip as usize), inside])
    }

    fn edge(&self) -> bool {
        !self.side.free.is_multiple_of(self.extent as usize)
    }

    /// Whether a strip is loaded by one vector.
    fn strip_vectors(&self) -> bool {
        let vectors = match self.staging {
            Staging::Registers => self.side.fours,
            Staging::Workgroup(_) => true,
        };
        self.side.along == Along::Free && self.strip == 4 && vectors
    }

    /// Writes what does not change in the loop over terms.
    fn prepare(&self, writer: &mut Writer) {
        if self.staging != Staging::Registers {
            return;
        }
        let (width, step) = if self.strip_vectors() { (4, 4) } else { (1, 1) };
        for i in (0..self.count()).step_by(step) {
            let free = match self.edge() {
                true => format!("min({}, {}u)", self.position(i), self.side.free.saturating_sub(width)),
                false => format!("({})", self.position(i)),
            };
            let start = Some(format!("{}_start", self.side.name));
            let at = sum([start, scaled(&free, self.side.view.free_stride)]);
            writer.line(format_args!("let {}_at_{i} = {at};", self.side.name));
        }
    }

    /// Writes the loads of `terms` (4, or 1) terms from `term` on: in workgroup memory `term` counts groups
    /// of 4 in the tile.
    fn load(&self, writer: &mut Writer, term: &str, terms: u32, pitch: u32) {
        let name = self.side.name;
        let stride = self.side.view.contract_stride;
        let global = |at: u32, t: u32| {
            let position = if t == 0 { term.into() } else { format!("({term} + {t}u)") };
            sum([Some(format!("{name}_at_{at}")), scaled(&position, stride)])
        };
        let registers = self.staging == Staging::Registers;
        if self.side.along == Along::Contract && terms == 4 {
            for i in 0..self.count() {
                let (s, c) = (i / self.strip, i % self.strip);
                let value = if !registers {
                    let row = sum([
                        Some(self.strip_place(s)),
                        scaled(&format!("{c}u"), (self.extent / self.strip) as usize),
                    ]);
                    format!("{name}_tile[{name}_buffer + ({row}) * {pitch}u + {term}]")
                } else if self.side.fours {
                    self.side.four(&global(i, 0), false)
                } else {
                    let lanes: Vec<String> = (0..4).map(|t| self.side.element(&global(i, t))).collect();
                    format!("vec4<f32>({})", lanes.join(", "))
                };
                writer.line(format_args!("let {name}_{i} = {value};"));
            }
            return;
        }
        for t in 0..terms {
            for i in (0..self.count()).step_by(if self.strip_vectors() { 4 } else { 1 }) {
                let (s, c) = (i / self.strip, i % self.strip);
                let value = if !registers {
                    let row = format!("{name}_buffer + ({term} * 4u + {t}u) * {pitch}u");
                    match self.strip_vectors() {
                        true => format!("{name}_tile[{row} + {}]", self.strip_place(s)),
                        false => {
                            let at = format!("{} * {}u + {c}u", self.strip_place(s), self.strip);
                            format!("{name}_tile[{row} + (({at}) >> 2u)][({at}) & 3u]")
                        }
                    }
                } else if self.strip_vectors() {
                    self.side.four(&global(i, t), false)
                } else {
                    self.side.element(&global(i, t))
                };
                writer.line(format_args!("let {name}_{i}_{t} = {value};"));
            }
        }
    }

    /// The loaded element of row (or column) `i` at term `t` of `terms`.
    fn value(&self, i: u32, t: u32, terms: u32) -> String {
        let name = self.side.name;
        if self.side.along == Along::Contract && terms == 4 {
            return format!("{name}_{i}.{}", COMPONENTS[t as usize]);
        }
        if self.strip_vectors() {
            return format!("{name}_{}_{t}.{}", i / 4 * 4, COMPONENTS[i as usize % 4]);
        }
        format!("{name}_{i}_{t}")
    }

    /// Four of them, as a vector.
    fn four(&self, i: u32, t: u32, terms: u32) -> String {
        if self.strip_vectors() && !(self.side.along == Along::Contract && terms == 4) {
            return format!("{}_{i}_{t}", self.side.name);
        }
        let lanes: Vec<String> = (i..i + 4).map(|i| self.value(i, t, terms)).collect();
        format!("vec4<f32>({})", lanes.join(", "))
    }
}

/// The statements of the entry point.
struct Body<'a, 'b> {
    kernel: &'b DotKernel<'a>,
    tile: &'b Tile,
    choice: &'b Choice,
    lhs: Reader<'a>,
    rhs: Reader<'a>,
}

impl<'a, 'b> Body<'a, 'b> {
    fn new(kernel: &'b DotKernel<'a>, tile: &'b Tile, choice: &'b Choice) -> Self {
        let strip = tile.thread_m.min(4);
        let lhs = Reader {
            side: Side::lhs(kernel),
            extent: tile.m,
            strip,
            strips: tile.thread_m / strip,
            threads: tile.m / tile.thread_m,
            place: "thread_row",
            first: "first_row",
            staging: tile.staging,
        };
        let rhs = Reader {
            side: Side::rhs(kernel),
            extent: tile.n,
            strip: 4,
            strips: tile.thread_n / 4,
            threads: tile.n / tile.thread_n,
            place: "thread_column",
            first: "first_column",
            staging: tile.staging,
        };
        Self { kernel, tile, choice, lhs, rhs }
    }

    fn staged(&self) -> Option<(Staged<'a>, Staged<'a>)> {
        let Staging::Workgroup(buffers) = self.tile.staging else { return None };
        let stage = |reader: &Reader<'a>| Staged {
            side: reader.side,
            extent: reader.extent,
            depth: self.tile.k,
            half: false,
            strip: reader.strip,
            threads: self.tile.threads(),
            buffers,
        };
        Some((stage(&self.lhs), stage(&self.rhs)))
    }

    fn write(&self, writer: &mut Writer) {
        self.places(writer);
        for i in 0..self.lhs.count() {
            for j in 0..self.rhs.strips {
                writer.line(format_args!("var sum_{i}_{j} = vec4<f32>();"));
            }
        }
        let k = self.kernel.problem.k;
        if k > 0 {
            terms(writer, self.choice, k);
            match self.staged() {
                Some((lhs, rhs)) => self.staged_loop(writer, &lhs, &rhs),
                None => self.register_loop(writer),
            }
        }
        self.results(writer);
    }

    /// Writes this thread's place in the tile: blocks of 8 x 4 threads read fewest different addresses
    /// together.
    fn places(&self, writer: &mut Writer) {
        let (rows, columns) = (self.lhs.threads, self.rhs.threads);
        if rows.is_multiple_of(4) && columns.is_multiple_of(8) && columns > 8 {
            let blocks = columns / 8;
            writer.line(format_args!(
                "let thread_row = (thread / {}u) * 4u + (thread / 8u) % 4u;",
                32 * blocks
            ));
            writer.line(format_args!("let thread_column = ((thread / 32u) % {blocks}u) * 8u + thread % 8u;"));
        } else {
            writer.line(format_args!("let thread_row = thread / {columns}u;"));
            writer.line(format_args!("let thread_column = thread % {columns}u;"));
        }
    }

    fn staged_loop(&self, writer: &mut Writer, lhs: &Staged<'_>, rhs: &Staged<'_>) {
        let depth = self.tile.k;
        pipeline(writer, [lhs, rhs], depth, |writer| {
            // Written out: as a loop it was a quarter slower (H100, 4096^3: 31 against 42 TFLOP/s).
            for four in 0..depth / 4 {
                writer.block("", |writer| {
                    let four = format!("{four}u");
                    self.lhs.load(writer, &four, 4, lhs.pitch());
                    self.rhs.load(writer, &four, 4, rhs.pitch());
                    self.multiply(writer, 4);
                });
            }
        });
    }

    fn register_loop(&self, writer: &mut Writer) {
        self.lhs.prepare(writer);
        self.rhs.prepare(writer);
        writer.line("var term = first_term;");
        let k = self.kernel.problem.k;
        let turns = if k.is_multiple_of(4) { &[4][..] } else { &[4, 1] };
        for terms in turns {
            writer.block(
                format_args!("for (; term + {}u < end_term; term += {terms}u)", terms - 1),
                |writer| {
                    self.lhs.load(writer, "term", *terms, 0);
                    self.rhs.load(writer, "term", *terms, 0);
                    self.multiply(writer, *terms);
                },
            );
        }
    }

    /// Writes the products of the loaded terms.
    fn multiply(&self, writer: &mut Writer, terms: u32) {
        for t in 0..terms {
            for i in 0..self.lhs.count() {
                let left = self.lhs.value(i, t, terms);
                for j in 0..self.rhs.strips {
                    let right = self.rhs.four(4 * j, t, terms);
                    writer.line(format_args!("sum_{i}_{j} = fma(vec4<f32>({left}), {right}, sum_{i}_{j});"));
                }
            }
        }
    }

    fn results(&self, writer: &mut Writer) {
        let parts = self.choice.parts;
        let lanes = result_lanes(self.kernel, parts);
        let columns = self.kernel.problem.n;
        for i in 0..self.lhs.count() {
            let inside =
                self.lhs.edge().then(|| format!("{} < {}u", self.lhs.position(i), self.lhs.side.free));
            writer.when(inside, |writer| {
                for j in 0..self.rhs.strips {
                    for c in (0..4).step_by(lanes as usize) {
                        let column = self.rhs.position(4 * j + c);
                        let value = format!("sum_{i}_{j}");
                        let inside = self.rhs.edge().then(|| format!("{column} < {columns}u"));
                        writer.open(inside.map_or_else(String::new, |inside| format!("if ({inside})")));
                        writer.line(format_args!("let row = {};", self.lhs.position(i)));
                        writer.line(format_args!("let column = {column};"));
                        let value =
                            if lanes == 4 { value } else { format!("{value}.{}", COMPONENTS[c as usize]) };
                        writer.line(format_args!("let value = {value};"));
                        finish(writer, self.kernel, parts, lanes, "value");
                        writer.close();
                    }
                }
            });
        }
    }
}
