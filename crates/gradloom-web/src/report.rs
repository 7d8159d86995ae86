//! Errors and statistics as JSON.

use crate::browser::Listed;
use gradloom_core::error::{Error, ErrorKind};
use gradloom_core::ir::{OpKind, Origin, Type};
use gradloom_core::json::{Json, count, numbers, object, text};
use gradloom_core::trace::Traced;
use gradloom_runtime::Program;

/// Returns an error with its notes, remedies and other parts.
pub(crate) fn error(error: &Error) -> String {
    let list = |lines: &mut dyn Iterator<Item = &str>| Json::List(lines.map(text).collect());
    object([
        ("kind", text(kind(error.kind()))),
        ("message", text(error.message())),
        ("notes", list(&mut error.notes())),
        ("help", list(&mut error.remedies())),
        ("origin", error.origin().map_or(Json::Null, origin)),
        ("rendered", text(&error.to_string())),
    ])
    .to_string()
}

fn origin(origin: &Origin) -> Json {
    object([
        ("file", text(&origin.file)),
        ("line", Json::Number(origin.line.into())),
        ("column", Json::Number(origin.column.into())),
    ])
}

fn kind(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::Trace => "trace",
        ErrorKind::MissingGradient => "missing-gradient",
        ErrorKind::NotDifferentiable => "not-differentiable",
        ErrorKind::Feed => "feed",
        ErrorKind::Store => "store",
        ErrorKind::NotFinite { .. } => "not-finite",
        ErrorKind::Trap => "trap",
        ErrorKind::Lost => "lost",
        ErrorKind::Plan => "plan",
        ErrorKind::Device => "device",
        ErrorKind::Verify => "verify",
        _ => "internal",
    }
}

/// Returns an object with the `name`, `dtype` and `shape` of a value, and the fields of `rest`.
pub(crate) fn value<const N: usize>(name: &str, ty: &Type, rest: [(&'static str, Json); N]) -> Json {
    let mut fields =
        vec![("name", text(name)), ("dtype", text(&ty.dtype.to_string())), ("shape", numbers(&ty.shape))];
    fields.extend(rest);
    Json::Object(fields)
}

/// Returns the ops of a trace with their values, which are numbered in order of the ops, and the numbers of
/// the results and of the outputs. An op that runs a block counts as one op.
pub(crate) fn graph(traced: &Traced) -> String {
    let graph = &traced.graph;
    let mut ids = Vec::new();
    let mut values = Vec::new();
    let number = |ids: &[_], value| count(ids.iter().rposition(|id| *id == value).unwrap_or(0));
    let mut ops = Vec::new();
    for (place, (id, op)) in graph.entry_ops().enumerate() {
        let operands: Vec<Json> = op.operands.iter().map(|&operand| number(&ids, operand)).collect();
        let first = ids.len();
        for &result in &op.results {
            ids.push(result);
            values.push(value("", graph.ty(result), [("source", count(place))]));
        }
        let name = match &op.kind {
            OpKind::Input { name, .. } | OpKind::Param { name, .. } | OpKind::State { name, .. } => {
                text(name)
            }
            _ => Json::Null,
        };
        ops.push(object([
            ("kind", text(op.kind.name())),
            ("name", name),
            ("text", text(&graph.op_text(id))),
            ("inputs", Json::List(operands)),
            ("outs", Json::List((first..ids.len()).map(count).collect())),
            ("origin", graph.origin(op).map_or(Json::Null, origin)),
        ]));
    }
    let outputs = graph
        .outputs
        .iter()
        .map(|output| object([("name", text(&output.name)), ("value", number(&ids, output.value))]));
    object([
        ("ops", Json::List(ops)),
        ("tensors", Json::List(values)),
        ("results", Json::List(traced.results.iter().map(|&result| number(&ids, result)).collect())),
        ("captures", Json::List(outputs.collect())),
    ])
    .to_string()
}

/// Returns the kernels with their source text.
pub(crate) fn kernels(kernels: &[Listed]) -> String {
    let one = |kernel: &Listed| {
        object([
            ("label", text(&kernel.label)),
            ("source", text(&kernel.source)),
            ("workgroups", numbers(&kernel.workgroups.map(|n| n as usize))),
        ])
    };
    Json::List(kernels.iter().map(one).collect()).to_string()
}

/// Returns the statistics of a program, and the number of threads of its device.
pub(crate) fn counts(program: &Program, threads: usize) -> String {
    let (plan, work) = (program.plan(), program.work().unwrap_or_default());
    object([
        ("threads", count(threads)),
        ("launches", count(plan.launches.len())),
        ("dispatches", count(work.dispatches)),
        ("pipelines", count(program.unique_kernels())),
        ("passes", count(work.passes)),
        ("submits", count(work.submits)),
        ("bytes", Json::Number(plan.totals.peak())),
        ("allocated", Json::Number(program.allocated())),
        ("store", Json::Number(plan.totals.store)),
    ])
    .to_string()
}
