//! Attention: a workgroup has a block of queries and goes through blocks of keys.
//!
//! In: extents whose blocks fit in workgroup memory. Out: output and log-sum-exp. Scores stay in the
//! workgroup; sums are made relative to the largest score so far, and made smaller when there is a larger
//! one. Dao, FlashAttention-2 (2023), section 3.1.1.

use super::problem::{Problem, row};
use super::single::LOWEST;
use super::tile::{Block, Tile};
use crate::narrow::narrow;
use crate::wgsl::Dispatch;
use crate::wgsl::functions::Function;
use crate::wgsl::source::Source;

/// Bytes of workgroup memory.
pub(super) fn bytes(problem: &Problem, tile: &Tile) -> usize {
    Block::bytes(tile.rows() + tile.columns(), problem.depth)
        + Block::bytes(tile.columns(), problem.value_depth)
        + tile.score_bytes()
        + tile.share_bytes()
}

/// The shader.
pub(super) fn forward(mut source: Source<'_>, problem: &Problem, tile: Tile, label: &str) -> Vec<Dispatch> {
    let blocks = problem.queries.div_ceil(tile.rows());
    let count = problem.pairs() * blocks;
    let [q, k, v] = [0, 1, 2].map(|read| source.operands.reads[read].clone());
    let [output, log_sum] = [0, 1].map(|write| source.operands.writes[write].clone());
    let gate = if source.gated { " && committed" } else { "" };
    let s = &mut source;
    let held = Block::new(s, "q", tile.rows(), problem.depth);
    let keys = Block::new(s, "k", tile.columns(), problem.depth);
    let values = Block::new(s, "v", tile.columns(), problem.value_depth);
    tile.declare_scores(s, "scores");
    tile.declare_shares(s);
    problem.open_queries(s, &tile);
    problem.check_table(s, "head == 0u && block == 0u", ("local", tile.threads()));
    let last = problem.queries - 1;
    s.line(format_args!(
        "let end = {};",
        problem.limit(&format!("min(first + {}u, {last}u)", tile.rows() - 1))
    ));
    held.fill(
        s,
        tile.threads(),
        &q,
        ("first", &format!("{}u", problem.queries), problem.queries),
        &|_, at| row(&q, "sequence", "head", at),
    );
    for i in 0..tile.rows_each {
        s.line(format_args!("var maximum_{i} = {LOWEST};"));
        s.line(format_args!("var sum_{i} = 0.0;"));
    }
    tile.declare_sums(s, "o", &values);
    s.line(format_args!("for (var start = 0u; start < end; start += {}u) {{", tile.columns()));
    for (read, operand, block) in [(1, &k, &keys), (2, &v, &values)] {
        block.fill(s, tile.threads(), operand, ("start", "end", problem.keys), &|s, at| {
            problem.key_row(s, read, at)
        });
    }
    s.line("workgroupBarrier();");
    tile.products(s, "s", &held, &keys);
    softmax(s, problem, &tile, &values);
    tile.put_scores(s, "scores", "s");
    s.line("workgroupBarrier();");
    tile.accumulate(s, "o", "scores", &values);
    s.line("workgroupBarrier();");
    s.line("}");
    tile.combine(s, "sum", "total", &|a, b| format!("{a} + {b}"));
    let from_bits = s.function(Function::FromBits);
    for i in 0..tile.rows_each {
        s.line(format_args!("let factor_{i} = select(0.0, 1.0 / total_{i}, limit_{i} > 0u);"));
        s.line(format_args!("if (across == 0u && query_{i} < {}u{gate}) {{", problem.queries));
        let value = format!("maximum_{i} + log(total_{i})");
        let value = format!("select({from_bits}(0xff800000u), {value}, limit_{i} > 0u)");
        s.store(&log_sum, &row(&log_sum, "sequence", "head", &format!("query_{i}")), &value);
        s.line("}");
    }
    tile.store(s, &output, ("o", "factor"), &values, &|i| {
        let query = format!("query_{i}");
        (format!("{query} < {}u{gate}", problem.queries), row(&output, "sequence", "head", &query))
    });
    vec![source.finish(label, narrow(tile.threads()), count)]
}

/// Turns scores into exponentials relative to the new maximum.
fn softmax(source: &mut Source<'_>, problem: &Problem, tile: &Tile, values: &Block) {
    let masked = problem.hides_keys() || !problem.keys.is_multiple_of(tile.columns());
    let seen = |i: usize, j: usize| format!("start + across + {}u < limit_{i}", j * tile.column_threads);
    for i in 0..tile.rows_each {
        let mut greatest = String::from(LOWEST);
        for j in 0..tile.columns_each {
            let score = format!("s_{i}_{j} * {}", problem.scale());
            let score = if masked { format!("select({LOWEST}, {score}, {})", seen(i, j)) } else { score };
            source.line(format_args!("s_{i}_{j} = {score};"));
            greatest = if j == 0 { format!("s_{i}_{j}") } else { format!("max({greatest}, s_{i}_{j})") };
        }
        source.line(format_args!("let greatest_{i} = {greatest};"));
    }
    tile.combine(source, "greatest", "next", &|a, b| format!("max({a}, {b})"));
    for i in 0..tile.rows_each {
        source.line(format_args!("next_{i} = max(next_{i}, maximum_{i});"));
        source.line(format_args!("let keep_{i} = exp(maximum_{i} - next_{i});"));
        source.line(format_args!("maximum_{i} = next_{i};"));
        let mut sum = format!("sum_{i} * keep_{i}");
        for j in 0..tile.columns_each {
            let p = format!("exp(s_{i}_{j} - next_{i})");
            let p = if masked { format!("select(0.0, {p}, {})", seen(i, j)) } else { p };
            source.line(format_args!("s_{i}_{j} = {p};"));
            sum = format!("{sum} + s_{i}_{j}");
        }
        source.line(format_args!("sum_{i} = {sum};"));
        for c in 0..tile.vectors_each(values) {
            source.line(format_args!("o_{i}_{c} *= keep_{i};"));
        }
    }
}
