//! Names only for what needs one.
//!
//! In: a kernel in which every expression is evaluated where it was built. Out: one with the same meaning,
//! in which an expression has a [`Stmt::Let`] only if it is impure, or used more than once, or used in a
//! loop that it stands before; what nothing uses is gone.

use super::ir::{Block, ExprId, Kernel, Stmt};

/// How an expression is used.
#[derive(Clone, Copy, Default)]
struct Use {
    count: u32,
    /// Whether a loop that does not hold its definition uses it.
    in_loop: bool,
    /// Loops around its definition.
    depth: u32,
}

pub(super) fn tidy(kernel: &mut Kernel) {
    let mut uses = vec![Use::default(); kernel.exprs.len()];
    // Depths first: a use is compared with the definition's.
    walk(&kernel.body, 0, &mut |statement, depth| {
        if let Stmt::Let(id) = statement {
            uses[id.index()].depth = depth;
        }
    });
    walk(&kernel.body, 0, &mut |statement, depth| {
        if !matches!(statement, Stmt::Let(_)) {
            statement.operands().into_iter().for_each(|id| add(&mut uses, id, depth));
        }
    });
    // Operands stand before what uses them, so uses are complete from the last expression on.
    for (i, (expr, _)) in kernel.exprs.iter().enumerate().rev() {
        if uses[i].count > 0 {
            let depth = uses[i].depth;
            expr.operands().for_each(|id| add(&mut uses, id, depth));
        }
    }
    let exprs = &kernel.exprs;
    let is_named = |id: ExprId| {
        let Use { count, in_loop, .. } = uses[id.index()];
        count > 0 && (count > 1 || in_loop || exprs[id.index()].0.is_impure())
    };
    retain(&mut kernel.body, &is_named);
}

fn add(uses: &mut [Use], id: ExprId, depth: u32) {
    let used = &mut uses[id.index()];
    used.count += 1;
    used.in_loop |= depth > used.depth;
}

/// Calls `f` for each statement with the number of loops around it.
fn walk(block: &Block, depth: u32, f: &mut impl FnMut(&Stmt, u32)) {
    for statement in &block.0 {
        f(statement, depth);
        if let Some(block) = statement.block() {
            walk(block, depth + u32::from(matches!(statement, Stmt::For(..))), f);
        }
    }
}

fn retain(block: &mut Block, is_named: &impl Fn(ExprId) -> bool) {
    block.0.retain_mut(|statement| match statement {
        Stmt::Let(id) => is_named(*id),
        Stmt::If(_, block) | Stmt::For(_, _, block) => {
            retain(block, is_named);
            true
        }
        _ => true,
    });
}
