//! Elementwise ops that are not fused: integer division, which can fault, and all of them if fusion is
//! disabled.

use super::super::ir::Kernel;
use super::Views;
use super::each::each;
use gradloom_core::ir::{BinaryOp, OpKind};

pub(super) fn elementwise(views: &Views<'_>, kind: &OpKind, label: &str) -> Vec<Kernel> {
    each(label, views, views.elements(), |k, position| {
        let x: Vec<_> = (0..views.reads.len()).map(|read| views.load(k, read, position)).collect();
        let value = match kind {
            OpKind::Unary(op) => x[0].unary(*op),
            OpKind::Binary(op) => {
                if matches!(op, BinaryOp::Div | BinaryOp::Rem) && x[0].dtype().is_integer() {
                    k.check_divisor(x[1], position);
                }
                x[0].binary(*op, x[1])
            }
            OpKind::Compare(op) => x[0].compare(*op, x[1]),
            OpKind::Select => x[0].select(x[1], x[2]),
            OpKind::Cast { dtype } => x[0].cast(*dtype),
            other => unreachable!("{} is not elementwise", other.name()),
        };
        views.store(k, position, value);
    })
}
