//! The gradient of attention without workgroup memory: each invocation has queries of its own, then keys.
//!
//! In: any extents. The first shader leaves, for the second, the product of each query's output with its
//! cotangent. Dao, FlashAttention-2 (2023), section 3.1.2.

use super::means_bytes;
use super::problem::{Problem, row};
use super::shares::{Own, Part, Shares};
use crate::narrow::narrow;
use crate::wgsl::Dispatch;
use crate::wgsl::operands::Operand;
use crate::wgsl::source::Source;

/// Number of a query among all of them.
fn query_number(problem: &Problem, query: &str) -> String {
    format!("(sequence * {}u + head) * {}u + {query}", problem.heads, problem.queries)
}

/// The operands behind k and v: output, log-sum-exp, cotangent of the output.
fn results(source: &Source<'_>, problem: &Problem) -> [Operand; 3] {
    [0, 1, 2].map(|i| source.operands.reads[problem.operands() + i].clone())
}

/// The shader of dq.
pub(super) fn queries(mut source: Source<'_>, problem: &Problem, each: usize, label: &str) -> Vec<Dispatch> {
    let extents = [problem.batch, problem.heads, problem.queries];
    let shares = Shares::new(source.limits.software, extents, problem.depth, each);
    if shares.groups() == 0 {
        return Vec::new();
    }
    let [q, k, v] = [0, 1, 2].map(|read| source.operands.reads[read].clone());
    let [output, log_sum, cotangent] = results(&source, problem);
    let write = source.operands.writes[0].clone();
    let means = source.workspace(0..means_bytes(problem), "f32");
    let s = &mut source;
    problem.bounds(s, false);
    shares.open(s, "query", "head");
    s.line(format_args!("let key_head = head / {}u;", problem.sharing()));
    shares.limits(s, problem);
    let [q_rows, o_rows, g_rows] =
        [("q_row", &q), ("o_row", &output), ("g_row", &cotangent)].map(|(name, operand)| {
            shares.rows(s, name, &|r| row(operand, "sequence", "head", &format!("there_{r}")))
        });
    let own_q = Own::new(s, &q, "q", q_rows);
    let own_g = Own::new(s, &cotangent, "g", g_rows);
    own_g.products_by_row(s, &output, &o_rows, "mean");
    let part = Part::new(s, "dq", problem.depth, shares.each);
    for r in 0..shares.each {
        shares.open_result(s, "query", r);
        s.line("if (part == 0u) {");
        s.line(format_args!("{means}[{}] = mean_{r};", query_number(problem, &format!("query_{r}"))));
        s.line("}");
        s.line("}");
        let value = s.load(&log_sum, &row(&log_sum, "sequence", "head", &format!("there_{r}")));
        s.line(format_args!("let log_sum_{r} = {value};"));
    }
    if problem.keys > 0 {
        s.line("for (var key = 0u; key < end; key++) {");
        for (read, name) in [(1, "k_row"), (2, "v_row")] {
            let at = problem.key_row(s, read, "key");
            s.line(format_args!("let {name} = {at};"));
        }
        own_q.products(s, &k, "k_row", "s");
        own_g.products(s, &v, "v_row", "d");
        let scale = problem.scale();
        for r in 0..shares.each {
            let p = format!("exp(s_{r} * {scale} - log_sum_{r}) * (d_{r} - mean_{r}) * {scale}");
            s.line(format_args!("let p_{r} = {};", shares.shown(&p, "0.0", r)));
        }
        part.add_again(s, (&own_q, "s"), &k, "k_row", "p");
        s.line("}");
    }
    for r in 0..shares.each {
        shares.open_result(s, "query", r);
        s.line(format_args!("let to = {};", row(&write, "sequence", "head", &format!("query_{r}"))));
        part.store(s, &write, "to", r, "");
        s.line("}");
    }
    s.line("}");
    vec![source.finish(label, narrow(shares.size), shares.groups())]
}

/// The shader of dk and dv.
pub(super) fn keys(mut source: Source<'_>, problem: &Problem, each: usize, label: &str) -> Vec<Dispatch> {
    let extents = [problem.batch, problem.key_heads, problem.keys];
    let shares = Shares::new(source.limits.software, extents, problem.depth.max(problem.value_depth), each);
    if shares.groups() == 0 {
        return Vec::new();
    }
    let [q, k, v] = [0, 1, 2].map(|read| source.operands.reads[read].clone());
    let [_, log_sum, cotangent] = results(&source, problem);
    let [dk, dv] = [1, 2].map(|write| source.operands.writes[write].clone());
    let means = source.workspace(0..means_bytes(problem), "f32");
    let s = &mut source;
    problem.bounds(s, false);
    shares.open(s, "key", "key_head");
    let [k_rows, v_rows] = [("k_row", &k), ("v_row", &v)].map(|(name, operand)| {
        shares.rows(s, name, &|r| row(operand, "sequence", "key_head", &format!("there_{r}")))
    });
    let own_k = Own::new(s, &k, "k", k_rows);
    let own_v = Own::new(s, &v, "v", v_rows);
    let part_k = Part::new(s, "dk", problem.depth, shares.each);
    let part_v = Part::new(s, "dv", problem.value_depth, shares.each);
    for r in 0..shares.each {
        s.line(format_args!("let own_{r} = {};", problem.first_query(&format!("there_{r}"))));
    }
    s.line(format_args!("let begin = {};", problem.first_query("first")));
    let sharing = problem.sharing();
    s.line(format_args!(
        "for (var head = key_head * {sharing}u; head < (key_head + 1u) * {sharing}u; head++) {{"
    ));
    s.line(format_args!("for (var query = begin; query < {}u; query++) {{", problem.queries));
    for (name, operand) in [("q_row", &q), ("g_row", &cotangent)] {
        s.line(format_args!("let {name} = {};", row(operand, "sequence", "head", "query")));
    }
    let value = s.load(&log_sum, &row(&log_sum, "sequence", "head", "query"));
    s.line(format_args!("let log_sum = {value};"));
    s.line(format_args!("let mean = {means}[{}];", query_number(problem, "query")));
    own_k.products(s, &q, "q_row", "s");
    own_v.products(s, &cotangent, "g_row", "d");
    let scale = problem.scale();
    for r in 0..shares.each {
        // Both: what lies in a key that no query sees may be no number.
        let p = format!("exp(s_{r} * {scale} - log_sum)");
        s.line(format_args!("let p_{r} = select(0.0, {p}, query >= own_{r});"));
        let d = format!("p_{r} * (d_{r} - mean) * {scale}");
        s.line(format_args!("let w_{r} = select(0.0, {d}, query >= own_{r});"));
    }
    part_v.add_again(s, (&own_v, "d"), &cotangent, "g_row", "p");
    part_k.add_again(s, (&own_k, "s"), &q, "q_row", "w");
    s.line("}");
    s.line("}");
    for r in 0..shares.each {
        shares.open_result(s, "key", r);
        for (write, part) in [(&dk, &part_k), (&dv, &part_v)] {
            s.line("{");
            s.line(format_args!("let to = {};", row(write, "sequence", "key_head", &format!("key_{r}"))));
            part.store(s, write, "to", r, "");
            s.line("}");
        }
        s.line("}");
    }
    s.line("}");
    vec![source.finish(label, narrow(shares.size), shares.groups())]
}
