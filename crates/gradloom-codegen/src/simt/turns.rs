//! Iteration counts of a kernel's loops.
//!
//! In: a kernel. Out: the total number of loop iterations in its first invocation, which does at least as
//! much work as any other. A loop whose bounds depend on memory counts as a single run of its body, without
//! an iteration; a condition that depends on memory counts as true.

use super::ir::{Block, Expr, ExprId, Kernel, Stmt};
use gradloom_core::ir::DType;

/// Returns the total number of loop iterations in the first invocation of a kernel.
pub fn turns(kernel: &Kernel) -> u64 {
    let mut starts = vec![None; kernel.loops as usize];
    kernel.body.each(0, &mut |statement, _| {
        if let Stmt::For(number, [start, ..], _) = statement {
            starts[*number as usize] = Some(*start);
        }
    });
    let mut values = Vec::with_capacity(kernel.exprs.len());
    for (expr, _) in &kernel.exprs {
        values.push(value(kernel, expr, &values, &starts));
    }
    of_block(&kernel.body, &values)
}

/// Returns the value of an integer expression in the first invocation and the first iteration of each loop;
/// `None` if it depends on memory.
fn value(kernel: &Kernel, expr: &Expr, values: &[Option<u32>], starts: &[Option<ExprId>]) -> Option<u32> {
    let known = |id: ExprId| values[id.index()];
    let int = |id: ExprId| {
        let bits = known(id)?;
        Some(if kernel.dtype(id) == DType::I32 { bits.cast_signed().into() } else { i64::from(bits) })
    };
    match *expr {
        Expr::Literal(bits) => Some(bits),
        Expr::Group | Expr::Local => Some(0),
        Expr::Counter(number) => known(starts[number as usize]?),
        Expr::Binary(op, a, b) if matches!(kernel.dtype(a), DType::U32 | DType::I32) =>
        {
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "the low 32 bits count"
            )]
            Some(op.int(int(a)?, int(b)?)? as u32)
        }
        Expr::Compare(op, a, b) if matches!(kernel.dtype(a), DType::U32 | DType::I32) => {
            Some(op.holds(&int(a)?, &int(b)?).into())
        }
        Expr::Select(condition, a, b) => known(if known(condition)? == 0 { b } else { a }),
        Expr::Cast(a) if matches!(kernel.dtype(a), DType::U32 | DType::I32) => known(a),
        _ => None,
    }
}

fn of_block(block: &Block, values: &[Option<u32>]) -> u64 {
    let of = |id: &ExprId| values[id.index()];
    let turns = |statement: &Stmt| match statement {
        Stmt::For(_, [start, end, step], block) => match (of(start), of(end), of(step)) {
            (Some(start), Some(end), Some(step)) if step > 0 => {
                u64::from(end.saturating_sub(start).div_ceil(step))
                    .saturating_mul(1 + of_block(block, values))
            }
            _ => of_block(block, values),
        },
        Stmt::If(condition, _) if of(condition) == Some(0) => 0,
        _ => statement.block().map_or(0, |block| of_block(block, values)),
    };
    block.0.iter().map(turns).sum()
}
