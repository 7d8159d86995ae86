//! Attention without workgroup memory: each invocation has queries of its own.
//!
//! In: any extents. For devices on which barriers cost more than they save, for a few keys, and for rows that
//! do not fit in workgroup memory. Rows are in registers up to 64 elements, longer ones are read again for
//! each product; of longer results an invocation has a part, and computes the scores for that. On a software
//! device, where loads are dear, an invocation has several queries, for which it loads a key once. Milakov
//! and Gimelshein, Online normalizer calculation for softmax (2018).

use super::problem::{Problem, row};
use super::shares::{Own, Part, Shares};
use crate::narrow::narrow;
use crate::wgsl::Dispatch;
use crate::wgsl::functions::Function;
use crate::wgsl::source::Source;

/// Below every score that is a finite number of use; a compiler may assume that there is no infinity.
pub(super) const LOWEST: &str = "-3.0e38";

/// The shader of the output and the log-sum-exp.
pub(super) fn forward(mut source: Source<'_>, problem: &Problem, each: usize, label: &str) -> Vec<Dispatch> {
    let software = source.limits.software;
    let shares =
        Shares::new(software, [problem.batch, problem.heads, problem.queries], problem.value_depth, each);
    if shares.groups() == 0 {
        return Vec::new();
    }
    let [q, k, v] = [0, 1, 2].map(|read| source.operands.reads[read].clone());
    let [output, log_sum] = [0, 1].map(|write| source.operands.writes[write].clone());
    problem.bounds(&mut source, false);
    shares.open(&mut source, "query", "head");
    source.line(format_args!("let key_head = head / {}u;", problem.sharing()));
    // One invocation goes through the table of its sequence.
    problem.check_table(&mut source, "head == 0u && query_0 == 0u && part == 0u", ("0u", 1));
    shares.limits(&mut source, problem);
    let rows = shares.rows(&mut source, "q_row", &|r| row(&q, "sequence", "head", &format!("there_{r}")));
    let own = Own::new(&mut source, &q, "q", rows);
    let part = Part::new(&mut source, "o", problem.value_depth, shares.each);
    for r in 0..shares.each {
        source.line(format_args!("var maximum_{r} = {LOWEST};"));
        source.line(format_args!("var sum_{r} = 0.0;"));
    }
    if problem.keys > 0 {
        source.line("for (var key = 0u; key < end; key++) {");
        for (read, name) in [(1, "k_row"), (2, "v_row")] {
            let at = problem.key_row(&mut source, read, "key");
            source.line(format_args!("let {name} = {at};"));
        }
        own.products(&mut source, &k, "k_row", "s");
        for r in 0..shares.each {
            source.line(format_args!("s_{r} *= {};", problem.scale()));
            let (score, p) = (format!("s_{r}"), format!("exp(s_{r} - next_{r})"));
            let next = format!("max(maximum_{r}, {})", shares.shown(&score, LOWEST, r));
            source.line(format_args!("let next_{r} = {next};"));
            source.line(format_args!("let keep_{r} = exp(maximum_{r} - next_{r});"));
            source.line(format_args!("maximum_{r} = next_{r};"));
            source.line(format_args!("let p_{r} = {};", shares.shown(&p, "0.0", r)));
            source.line(format_args!("sum_{r} = sum_{r} * keep_{r} + p_{r};"));
        }
        part.add(&mut source, Some("keep"), &v, "v_row", "p");
        source.line("}");
    }
    let from_bits = source.function(Function::FromBits);
    for r in 0..shares.each {
        shares.open_result(&mut source, "query", r);
        source.line(format_args!("let seen = limit_{r} > 0u;"));
        source.line(format_args!("let factor = select(0.0, 1.0 / sum_{r}, seen);"));
        let query = format!("query_{r}");
        source.line(format_args!("let to = {};", row(&output, "sequence", "head", &query)));
        part.store(&mut source, &output, "to", r, " * factor");
        source.line("if (part == 0u) {");
        let value = format!("select({from_bits}(0xff800000u), maximum_{r} + log(sum_{r}), seen)");
        source.store(&log_sum, &row(&log_sum, "sequence", "head", &query), &value);
        source.line("}");
        source.line("}");
    }
    source.line("}");
    vec![source.finish(label, narrow(shares.size), shares.groups())]
}
