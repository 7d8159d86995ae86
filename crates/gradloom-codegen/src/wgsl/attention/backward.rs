//! The gradient of attention: dq by blocks of queries, then dk and dv by blocks of keys.
//!
//! In: extents whose blocks fit in workgroup memory. Out: the three cotangents, without sums across
//! workgroups. The weights come from the log-sum-exp; the first shader leaves the product of each query's
//! output with its cotangent for the second. Dao, FlashAttention-2 (2023), section 3.1.2.

use super::means_bytes;
use super::problem::{Problem, column, row};
use super::tile::{Block, Tile};
use crate::narrow::narrow;
use crate::wgsl::Dispatch;
use crate::wgsl::source::Source;

/// Bytes of workgroup memory of the shader of dq.
pub(super) fn query_bytes(problem: &Problem, tile: &Tile) -> usize {
    let rows = tile.rows() + tile.columns();
    Block::bytes(rows, problem.depth)
        + Block::bytes(rows, problem.value_depth)
        + tile.score_bytes()
        + tile.share_bytes()
}

/// Bytes of workgroup memory of the shader of dk and dv.
pub(super) fn key_bytes(problem: &Problem, tile: &Tile) -> usize {
    let rows = tile.rows() + tile.columns();
    Block::bytes(rows, problem.depth) + Block::bytes(rows, problem.value_depth) + 2 * tile.score_bytes()
}

fn query_number(problem: &Problem, query: &str) -> String {
    format!("(sequence * {}u + head) * {}u + {query}", problem.heads, problem.queries)
}

/// The shader of dq.
pub(super) fn queries(mut source: Source<'_>, problem: &Problem, tile: Tile, label: &str) -> Vec<Dispatch> {
    let count = problem.pairs() * problem.queries.div_ceil(tile.rows());
    let [q, k, v] = [0, 1, 2].map(|read| source.operands.reads[read].clone());
    let [output, log_sum, cotangent] =
        [0, 1, 2].map(|i| source.operands.reads[problem.operands() + i].clone());
    let write = source.operands.writes[0].clone();
    let means = source.workspace(0..means_bytes(problem), "f32");
    let gate = if source.gated { " && committed" } else { "" };
    let threads = tile.threads();
    let s = &mut source;
    let held = Block::new(s, "q", tile.rows(), problem.depth);
    let slopes = Block::new(s, "g", tile.rows(), problem.value_depth);
    let keys = Block::new(s, "k", tile.columns(), problem.depth);
    let values = Block::new(s, "v", tile.columns(), problem.value_depth);
    tile.declare_scores(s, "scores");
    tile.declare_shares(s);
    problem.open_queries(s, &tile);
    let last = problem.queries - 1;
    s.line(format_args!(
        "let end = {};",
        problem.limit(&format!("min(first + {}u, {last}u)", tile.rows() - 1))
    ));
    let all = format!("{}u", problem.queries);
    for (operand, block) in [(&q, &held), (&cotangent, &slopes)] {
        block.fill(s, threads, operand, ("first", &all, problem.queries), &|_, at| {
            row(operand, "sequence", "head", at)
        });
    }
    for i in 0..tile.rows_each {
        s.line(format_args!("let query_there_{i} = min(query_{i}, {last}u);"));
        let query = format!("query_there_{i}");
        let value = s.load(&log_sum, &row(&log_sum, "sequence", "head", &query));
        s.line(format_args!("let log_sum_{i} = {value};"));
        for (name, operand) in [("o", &output), ("g", &cotangent)] {
            s.line(format_args!("let {name}_from_{i} = {};", row(operand, "sequence", "head", &query)));
        }
        s.line(format_args!("var share_{i} = 0.0;"));
    }
    s.line(format_args!(
        "for (var d = across; d < {}u; d += {}u) {{",
        problem.value_depth, tile.column_threads
    ));
    for i in 0..tile.rows_each {
        let o = s.load(&output, &column(&output, &format!("o_from_{i}"), "d"));
        let g = s.load(&cotangent, &column(&cotangent, &format!("g_from_{i}"), "d"));
        s.line(format_args!("share_{i} = fma({o}, {g}, share_{i});"));
    }
    s.line("}");
    tile.combine(s, "share", "mean", &|a, b| format!("{a} + {b}"));
    for i in 0..tile.rows_each {
        s.line(format_args!("if (across == 0u && query_{i} < {all}) {{"));
        s.line(format_args!("{means}[{}] = mean_{i};", query_number(problem, &format!("query_{i}"))));
        s.line("}");
    }
    tile.declare_sums(s, "dq", &held);
    s.line(format_args!("for (var start = 0u; start < end; start += {}u) {{", tile.columns()));
    for (read, operand, block) in [(1, &k, &keys), (2, &v, &values)] {
        block
            .fill(s, threads, operand, ("start", "end", problem.keys), &|s, at| problem.key_row(s, read, at));
    }
    s.line("workgroupBarrier();");
    tile.products(s, "s", &held, &keys);
    tile.products(s, "d", &slopes, &values);
    let masked = problem.hides_keys() || !problem.keys.is_multiple_of(tile.columns());
    let scale = problem.scale();
    for i in 0..tile.rows_each {
        for j in 0..tile.columns_each {
            let d = format!("exp(s_{i}_{j} * {scale} - log_sum_{i}) * (d_{i}_{j} - mean_{i}) * {scale}");
            let seen = format!("start + across + {}u < limit_{i}", j * tile.column_threads);
            let d = if masked { format!("select(0.0, {d}, {seen})") } else { d };
            s.line(format_args!("d_{i}_{j} = {d};"));
        }
    }
    tile.put_scores(s, "scores", "d");
    s.line("workgroupBarrier();");
    tile.accumulate(s, "dq", "scores", &keys);
    s.line("workgroupBarrier();");
    s.line("}");
    tile.store(s, &write, ("dq", ""), &held, &|i| {
        let query = format!("query_{i}");
        (format!("{query} < {all}{gate}"), row(&write, "sequence", "head", &query))
    });
    vec![source.finish(label, narrow(threads), count)]
}

/// The shader of dk and dv.
pub(super) fn keys(mut source: Source<'_>, problem: &Problem, tile: Tile, label: &str) -> Vec<Dispatch> {
    let pairs = problem.batch * problem.key_heads;
    let blocks = problem.keys.div_ceil(tile.rows());
    let [q, k, v] = [0, 1, 2].map(|read| source.operands.reads[read].clone());
    let [_, log_sum, cotangent] = [0, 1, 2].map(|i| source.operands.reads[problem.operands() + i].clone());
    let [dk, dv] = [1, 2].map(|write| source.operands.writes[write].clone());
    let means = source.workspace(0..means_bytes(problem), "f32");
    let gate = if source.gated { " && committed" } else { "" };
    let threads = tile.threads();
    let s = &mut source;
    let keys = Block::new(s, "k", tile.rows(), problem.depth);
    let values = Block::new(s, "v", tile.rows(), problem.value_depth);
    let queries = Block::new(s, "q", tile.columns(), problem.depth);
    let slopes = Block::new(s, "g", tile.columns(), problem.value_depth);
    tile.declare_scores(s, "weights");
    tile.declare_scores(s, "scores");
    // The first keys have most queries.
    s.line(format_args!("let block = group / {pairs}u;"));
    s.line(format_args!("let key_head = group % {pairs}u % {}u;", problem.key_heads));
    s.line(format_args!("let sequence = group % {pairs}u / {}u;", problem.key_heads));
    tile.open(s);
    problem.bounds(s, true);
    s.line(format_args!("let first = block * {}u;", tile.rows()));
    s.line(format_args!("let begin = {} / {1}u * {1}u;", problem.first_query("first"), tile.columns()));
    let all = format!("{}u", problem.keys);
    for (operand, block) in [(&k, &keys), (&v, &values)] {
        block.fill(s, threads, operand, ("first", &all, problem.keys), &|_, at| {
            row(operand, "sequence", "key_head", at)
        });
    }
    for i in 0..tile.rows_each {
        s.line(format_args!("let key_{i} = first + row_{i};"));
        s.line(format_args!("let own_{i} = {};", problem.first_query(&format!("key_{i}"))));
    }
    tile.declare_sums(s, "dk", &keys);
    tile.declare_sums(s, "dv", &values);
    let sharing = problem.sharing();
    s.line(format_args!(
        "for (var head = key_head * {sharing}u; head < (key_head + 1u) * {sharing}u; head++) {{"
    ));
    s.line(format_args!(
        "for (var start = begin; start < {}u; start += {}u) {{",
        problem.queries,
        tile.columns()
    ));
    let end = format!("{}u", problem.queries);
    for (operand, block) in [(&q, &queries), (&cotangent, &slopes)] {
        block.fill(s, threads, operand, ("start", &end, problem.queries), &|_, at| {
            row(operand, "sequence", "head", at)
        });
    }
    for j in 0..tile.columns_each {
        s.line(format_args!("let query_{j} = start + across + {}u;", j * tile.column_threads));
        s.line(format_args!("let query_there_{j} = min(query_{j}, {}u);", problem.queries - 1));
        let query = format!("query_there_{j}");
        let value = s.load(&log_sum, &row(&log_sum, "sequence", "head", &query));
        s.line(format_args!("let log_sum_{j} = {value};"));
        s.line(format_args!("let mean_{j} = {means}[{}];", query_number(problem, &query)));
    }
    s.line("workgroupBarrier();");
    tile.products(s, "s", &keys, &queries);
    tile.products(s, "d", &values, &slopes);
    let masked = problem.hides_keys() || !problem.queries.is_multiple_of(tile.columns());
    let scale = problem.scale();
    for i in 0..tile.rows_each {
        for j in 0..tile.columns_each {
            let p = format!("exp(s_{i}_{j} * {scale} - log_sum_{j})");
            let seen = format!("query_{j} >= own_{i} && query_{j} < {end}");
            // Both: what lies in a key that no query sees may be no number.
            let shown = |x: String| if masked { format!("select(0.0, {x}, {seen})") } else { x };
            s.line(format_args!("s_{i}_{j} = {};", shown(p)));
            let d = format!("s_{i}_{j} * (d_{i}_{j} - mean_{j}) * {scale}");
            s.line(format_args!("d_{i}_{j} = {};", shown(d)));
        }
    }
    tile.put_scores(s, "weights", "s");
    tile.put_scores(s, "scores", "d");
    s.line("workgroupBarrier();");
    tile.accumulate(s, "dv", "weights", &slopes);
    tile.accumulate(s, "dk", "scores", &queries);
    s.line("workgroupBarrier();");
    s.line("}");
    s.line("}");
    for (write, sum, block) in [(&dk, "dk", &keys), (&dv, "dv", &values)] {
        tile.store(s, write, (sum, ""), block, &|i| {
            let key = format!("key_{i}");
            (format!("{key} < {all}{gate}"), row(write, "sequence", "key_head", &key))
        });
    }
    vec![source.finish(label, narrow(threads), pairs * blocks)]
}
