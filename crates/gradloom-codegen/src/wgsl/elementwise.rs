//! Elementwise ops that fusion leaves whole: integer division, which can trap.

use super::Dispatch;
use super::source::{Source, WORKGROUP, index_at};
use gradloom_core::ir::{BinaryOp, OpKind};

/// The shader of an elementwise op: one invocation for each element.
pub(crate) fn elementwise(mut source: Source<'_>, kind: &OpKind, label: &str) -> Vec<Dispatch> {
    let write = source.operands.writes[0].clone();
    let elements = write.layout.shape.elements();
    if elements == 0 {
        return Vec::new();
    }
    let gate = if source.gated { "committed && " } else { "" };
    source.line(format_args!("let position = group * {WORKGROUP}u + local;"));
    source.line(format_args!("if ({gate}position < {elements}u) {{"));
    let mut values = Vec::new();
    for (i, read) in source.operands.reads.iter().enumerate() {
        let value = source.load(read, &index_at(&read.layout, "position"));
        source.line(format_args!("let x{i} = {value};"));
        values.push(format!("x{i}"));
    }
    let dtype = source.operands.reads[0].dtype;
    let value = match kind {
        OpKind::Unary(op) => source.unary(*op, dtype, &values[0]),
        OpKind::Binary(op @ (BinaryOp::Div | BinaryOp::Rem)) if dtype.is_integer() => {
            source.check_divisor(&values[1], "position");
            source.binary(*op, dtype, &values[0], &values[1])
        }
        OpKind::Binary(op) => source.binary(*op, dtype, &values[0], &values[1]),
        OpKind::Compare(op) => source.compare(*op, dtype, &values[0], &values[1]),
        OpKind::Select => format!("select({}, {}, {})", values[2], values[1], values[0]),
        OpKind::Cast { dtype: to } => source.cast(dtype, *to, &values[0]),
        other => unreachable!("{} is not elementwise", other.name()),
    };
    source.line(format_args!("let y = {value};"));
    source.store(&write, &index_at(&write.layout, "position"), "y");
    source.line("}");
    vec![source.finish(label, WORKGROUP, elements.div_ceil(WORKGROUP as usize))]
}
