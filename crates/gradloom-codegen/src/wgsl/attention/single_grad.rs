//! The gradient of attention without workgroup memory: one invocation for each query, then one for each key.
//!
//! In: any extents. The first shader leaves, for the second, the product of each query's output with its cotangent.
//! Dao, FlashAttention-2 (2023), section 3.1.2.

use super::problem::{Problem, row};
use super::single::{Own, Part, Shares};
use crate::wgsl::Dispatch;
use crate::wgsl::operands::Operand;
use crate::wgsl::source::Source;
use gradloom_core::ir::DType;

/// Name of the number of a query among all of them.
fn query_number(problem: &Problem) -> String {
    format!("(sequence * {}u + head) * {}u + query", problem.heads, problem.queries)
}

/// The operands behind k and v: output, log-sum-exp, cotangent of the output.
fn results(source: &Source<'_>, problem: &Problem) -> [Operand; 3] {
    [0, 1, 2].map(|i| source.operands.reads[problem.operands + i].clone())
}

/// The shader of dq.
pub(super) fn queries(mut source: Source<'_>, problem: &Problem, label: &str) -> Vec<Dispatch> {
    let software = source.limits.software;
    let shares = Shares::new(software, problem.batch, problem.heads, problem.queries, problem.depth);
    if shares.groups() == 0 {
        return Vec::new();
    }
    let [q, k, v] = [0, 1, 2].map(|read| source.operands.reads[read].clone());
    let [output, log_sum, cotangent] = results(&source, problem);
    let write = source.operands.writes[0].clone();
    let means = source.workspace(0..super::means_bytes(problem), DType::F32);
    problem.bounds(&mut source, false);
    shares.open(&mut source, "query", "head");
    source.line(format!("let key_head = head / {}u;", problem.sharing()));
    for (name, operand) in [("q_row", &q), ("o_row", &output), ("g_row", &cotangent), ("to", &write)] {
        source.line(format!("let {name} = {};", row(operand, "sequence", "head", "query")));
    }
    let own_q = Own::new(&mut source, &q, "q", "q_row".into());
    let own_g = Own::new(&mut source, &cotangent, "g", "g_row".into());
    source.line("var mean = 0.0;");
    own_g.products(&mut source, &[(output, "o_row".into(), "mean".into())]);
    source.line("if (part == 0u) {");
    source.line(format!("{means}[{}] = mean;", query_number(problem)));
    source.line("}");
    let part = Part::new(&mut source, "d", problem.depth);
    let value = source.load(&log_sum, &row(&log_sum, "sequence", "head", "query"));
    source.line(format!("let log_sum = {value};"));
    source.line(format!("let limit = {};", problem.limit("query")));
    if problem.keys > 0 {
        source.line("for (var key = 0u; key < limit; key++) {");
        for (read, name) in [(1, "k_row"), (2, "v_row")] {
            let at = problem.key_row(&mut source, read, "key");
            source.line(format!("let {name} = {at};"));
        }
        source.line("var score = 0.0;");
        source.line("var slope = 0.0;");
        own_q.products(&mut source, &[(k.clone(), "k_row".into(), "score".into())]);
        own_g.products(&mut source, &[(v, "v_row".into(), "slope".into())]);
        let scale = problem.scale();
        source.line(format!("let p = exp(score * {scale} - log_sum);"));
        source.line(format!("let d_score = p * (slope - mean) * {scale};"));
        part.add(&mut source, None, &[(k, "k_row".into(), "d_score".into())]);
        source.line("}");
    }
    part.store(&mut source, &write, "to", "");
    source.line("}");
    vec![source.finish(label, shares.size as u32, shares.groups())]
}

/// The shader of dk and dv.
pub(super) fn keys(mut source: Source<'_>, problem: &Problem, label: &str) -> Vec<Dispatch> {
    let software = source.limits.software;
    let width = problem.depth.max(problem.value_depth);
    let shares = Shares::new(software, problem.batch, problem.key_heads, problem.keys, width);
    if shares.groups() == 0 {
        return Vec::new();
    }
    let [q, k, v] = [0, 1, 2].map(|read| source.operands.reads[read].clone());
    let [_, log_sum, cotangent] = results(&source, problem);
    let [dk, dv] = [1, 2].map(|write| source.operands.writes[write].clone());
    let means = source.workspace(0..super::means_bytes(problem), DType::F32);
    problem.bounds(&mut source, false);
    shares.open(&mut source, "key", "key_head");
    for (name, operand) in [("k_row", &k), ("v_row", &v), ("to_k", &dk), ("to_v", &dv)] {
        source.line(format!("let {name} = {};", row(operand, "sequence", "key_head", "key")));
    }
    let own_k = Own::new(&mut source, &k, "k", "k_row".into());
    let own_v = Own::new(&mut source, &v, "v", "v_row".into());
    let (part_k, part_v) =
        (Part::new(&mut source, "dk", problem.depth), Part::new(&mut source, "dv", problem.value_depth));
    source.line(format!("let own = {};", problem.first_query("key")));
    source.line(format!("let begin = {};", problem.first_query("first")));
    let sharing = problem.sharing();
    source.line(format!(
        "for (var head = key_head * {sharing}u; head < (key_head + 1u) * {sharing}u; head++) {{"
    ));
    source.line(format!("for (var query = begin; query < {}u; query++) {{", problem.queries));
    source.line("if (query >= own) {");
    for (name, operand) in [("q_row", &q), ("g_row", &cotangent)] {
        source.line(format!("let {name} = {};", row(operand, "sequence", "head", "query")));
    }
    source.line("var score = 0.0;");
    source.line("var slope = 0.0;");
    own_k.products(&mut source, &[(q.clone(), "q_row".into(), "score".into())]);
    own_v.products(&mut source, &[(cotangent.clone(), "g_row".into(), "slope".into())]);
    let scale = problem.scale();
    let log_sum = source.load(&log_sum, &row(&log_sum, "sequence", "head", "query"));
    source.line(format!("let p = exp(score * {scale} - {log_sum});"));
    source.line(format!("let d_score = p * (slope - {means}[{}]) * {scale};", query_number(problem)));
    part_v.add(&mut source, None, &[(cotangent, "g_row".into(), "p".into())]);
    part_k.add(&mut source, None, &[(q, "q_row".into(), "d_score".into())]);
    source.line("}");
    source.line("}");
    source.line("}");
    part_k.store(&mut source, &dk, "to_k", "");
    part_v.store(&mut source, &dv, "to_v", "");
    source.line("}");
    vec![source.finish(label, shares.size as u32, shares.groups())]
}
