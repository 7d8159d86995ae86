//! The extents of an attention, which keys a query sees, and where rows lie.
//!
//! In: the operands of either op. Out: WGSL expressions. The keys that a query sees are the first ones, up to
//! a limit; so masks are comparisons with that limit, and blocks beyond the limit of their last query are
//! never visited.

use super::kernel::Kernel;
use super::tile::Tile;
use crate::wgsl::operands::Operand;
use crate::wgsl::source::{Source, index_at};
use gradloom_core::ir::AttentionSpec;

/// An op and its extents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Problem {
    /// Which keys a query sees, and the factor on scores.
    pub spec: AttentionSpec,
    /// Sequences.
    pub batch: usize,
    /// Heads of the queries: a multiple of those of the keys.
    pub heads: usize,
    /// Heads of keys and values.
    pub key_heads: usize,
    /// Queries of a sequence.
    pub queries: usize,
    /// Keys of a sequence, at most.
    pub keys: usize,
    /// Elements of a query or key.
    pub depth: usize,
    /// Elements of a value.
    pub value_depth: usize,
}

impl Problem {
    /// `shapes` are those of q, k, v, and of the block table.
    pub fn new(spec: &AttentionSpec, shapes: [&[usize]; 3], table: Option<&[usize]>) -> Self {
        let [q, k, v] = shapes;
        Self {
            spec: *spec,
            batch: q[0],
            heads: q[1],
            key_heads: k[1],
            queries: q[2],
            keys: table.map_or(k[2], |table| table[1] * k[2]),
            depth: q[3],
            value_depth: v[3],
        }
    }

    /// Whether a kernel can be measured: what a block table says is for programs to know, and the gradient
    /// has as many operands as every adapter binds.
    pub(super) fn can_run_alone(&self, kernel: Kernel) -> bool {
        !self.spec.block_table && (kernel == Kernel::Forward || self.spec.extra_operands() == 0)
    }

    /// Operands before those of the gradient.
    pub(super) fn operands(&self) -> usize {
        3 + self.spec.extra_operands()
    }

    pub(super) fn of(spec: &AttentionSpec, source: &Source<'_>) -> Self {
        let reads = &source.operands.reads;
        let shape = |read: usize| &reads[read].layout.shape[..];
        Self::new(spec, [shape(0), shape(1), shape(2)], spec.extra_positions()[2].map(shape))
    }

    /// Sequences times heads.
    pub(super) fn pairs(&self) -> usize {
        self.batch * self.heads
    }

    /// Query heads that read one key head.
    pub(super) fn sharing(&self) -> usize {
        self.heads / self.key_heads.max(1)
    }

    /// The factor on scores.
    #[expect(clippy::cast_possible_truncation, reason = "kernels compute in f32")]
    pub(super) fn scale(&self) -> String {
        format!("bitcast<f32>({:#x}u)", (self.spec.scale as f32).to_bits())
    }

    /// Names `offset` (i32, of the first query, moved to where it is as good and small) and `length` (u32).
    /// `together` makes them the same for all invocations in the eyes of compilers: all must come here.
    pub(super) fn bounds(&self, source: &mut Source<'_>, together: bool) {
        let [offset, length, _] = self.spec.extra_positions();
        let value = |source: &mut Source<'_>, read: usize| {
            let operand = source.operands.reads[read].clone();
            source.load(&operand, &index_at(&operand.layout, "0u"))
        };
        let mut values = [("offset", offset), ("length", length)].map(|(name, read)| {
            let value = read.map(|read| value(source, read))?;
            Some(format!("let given_{name} = {value};"))
        });
        let any = values.iter().any(Option::is_some);
        if together && any {
            source.global("var<workgroup> bounds: vec2<i32>;");
            source.line("if (local == 0u) {");
        }
        for line in values.iter_mut().filter_map(Option::take) {
            source.line(line);
        }
        if length.is_some() {
            source.check_index("given_length", self.keys + 1, "0u");
        }
        if together && any {
            let given =
                |name: &str, read: Option<usize>| read.map_or("0".into(), |_| format!("given_{name}"));
            source.line(format_args!(
                "bounds = vec2<i32>({}, {});",
                given("offset", offset),
                given("length", length)
            ));
            source.line("}");
            source.line("let known = workgroupUniformLoad(&bounds);");
        }
        let name = |component: &str, name: &str| match together {
            true => format!("known.{component}"),
            false => format!("given_{name}"),
        };
        if offset.is_some() {
            let (least, most) = (self.queries, self.keys);
            source.line(format_args!("let offset = clamp({}, -{least}, {most});", name("x", "offset")));
        }
        match length {
            Some(_) => source.line(format_args!(
                "let length = u32(clamp({}, 0, {}));",
                name("y", "length"),
                self.keys
            )),
            None => source.line(format_args!("let length = {}u;", self.keys)),
        }
    }

    /// Whether a query may see fewer keys than there are.
    pub(super) fn hides_keys(&self) -> bool {
        self.spec.causal || self.spec.key_length
    }

    /// For workgroups that have a block of queries each: names `block`, `sequence`, `head`, `key_head`, the
    /// thread's place, the bounds, the block's `first` query, and for each of the thread's rows `query` and
    /// `limit`.
    pub(super) fn open_queries(&self, source: &mut Source<'_>, tile: &Tile) {
        let (pairs, blocks) = (self.pairs(), self.queries.div_ceil(tile.rows()));
        // The last queries see most keys.
        source.line(format_args!("let block = {}u - group / {pairs}u;", blocks - 1));
        source.line(format_args!("let head = group % {pairs}u % {}u;", self.heads));
        source.line(format_args!("let sequence = group % {pairs}u / {}u;", self.heads));
        source.line(format_args!("let key_head = head / {}u;", self.sharing()));
        tile.open(source);
        self.bounds(source, true);
        source.line(format_args!("let first = block * {}u;", tile.rows()));
        for i in 0..tile.rows_each {
            source.line(format_args!("let query_{i} = first + row_{i};"));
            let limit = self.limit(&format!("query_{i}"));
            source.line(format_args!("let limit_{i} = select(0u, {limit}, query_{i} < {}u);", self.queries));
        }
    }

    /// How many keys a query sees; `query` is below the number of queries.
    pub(super) fn limit(&self, query: &str) -> String {
        match (self.spec.causal, self.spec.query_offset) {
            (false, _) => "length".into(),
            (true, false) => format!("min({query} + 1u, length)"),
            (true, true) => format!("u32(clamp(offset + i32({query}) + 1, 0, i32(length)))"),
        }
    }

    /// The first query that sees a key; the number of queries if none does.
    pub(super) fn first_query(&self, key: &str) -> String {
        let queries = self.queries;
        let first = match (self.spec.causal, self.spec.query_offset) {
            (false, _) => "0u".to_string(),
            (true, false) => format!("min({key}, {queries}u)"),
            (true, true) => format!("u32(clamp(i32({key}) - offset, 0, {queries}))"),
        };
        format!("select({first}, {queries}u, {key} >= length)")
    }

    /// Adds what a table's entry out of range does: those for which `condition` holds look at the entries of
    /// `sequence`, each from its own on in steps.
    pub(super) fn check_table(&self, source: &mut Source<'_>, condition: &str, (from, step): (&str, usize)) {
        let Some(read) = self.spec.extra_positions()[2] else { return };
        let table = source.operands.reads[read].clone();
        let k = source.operands.reads[1].layout.shape.clone();
        let columns = table.layout.shape[1];
        source.line(format_args!("if ({condition}) {{"));
        source.line(format_args!("for (var i = {from}; i < {columns}u; i += {step}u) {{"));
        source.line(format_args!("let position = sequence * {columns}u + i;"));
        let entry = source.load(&table, &index_at(&table.layout, "position"));
        source.line(format_args!("let entry = {entry};"));
        source.line(format_args!("if (i * {}u < length) {{", k[2]));
        source.check_index("entry", k[0], "position");
        source.line("}");
        source.line("}");
        source.line("}");
    }

    /// Index of the first element of a key's row: in k (`read` 1) or v (2), for `sequence` and `key_head`.
    pub(super) fn key_row(&self, source: &mut Source<'_>, read: usize, key: &str) -> String {
        let operand = source.operands.reads[read].clone();
        let Some(table) = self.spec.extra_positions()[2] else {
            return row(&operand, "sequence", "key_head", key);
        };
        let table = source.operands.reads[table].clone();
        let shape = &operand.layout.shape;
        let (pool, size) = (shape[0].max(1), shape[2].max(1));
        let position = format!("(sequence * {}u + {key} / {size}u)", table.layout.shape[1]);
        let entry = source.load(&table, &index_at(&table.layout, &position));
        let block = format!("u32(clamp({entry}, 0, {}))", pool - 1);
        row(&operand, &block, "key_head", &format!("({key} % {size}u)"))
    }
}

/// Index of the first element of a row of an operand with axes sequence, head, row (and column).
pub(super) fn row(operand: &Operand, sequence: &str, head: &str, row: &str) -> String {
    let mut terms = vec![format!("{}u", operand.layout.offset)];
    for (axis, name) in [sequence, head, row].into_iter().enumerate() {
        let stride = operand.layout.strides[axis];
        if stride > 0 && operand.layout.shape[axis] > 1 {
            terms.push(format!("{name} * {stride}u"));
        }
    }
    terms.join(" + ")
}

/// Index of an element of a row.
pub(super) fn column(operand: &Operand, row: &str, column: &str) -> String {
    match operand.layout.strides[3] {
        0 => row.to_string(),
        1 => format!("{row} + {column}"),
        stride => format!("{row} + ({column}) * {stride}u"),
    }
}
