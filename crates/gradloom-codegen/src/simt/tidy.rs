//! Names only for what needs one.
//!
//! In: a kernel in which every expression is evaluated where it was built. Out: one with the same meaning,
//! in which an expression has a [`Stmt::Let`] only if it reads memory, or exchanges values, or is used more
//! than once, or in a loop that it stands before, or would nest too deeply; what nothing uses is gone. A
//! variable that the statement behind reads once has none: it is read there.

use super::ir::{Block, Expr, ExprId, Kernel, Stmt};

/// Most expressions inside of each other: parsers of WGSL give up at some depth (naga's beyond 200).
const MOST_NESTED: u32 = 32;

/// Uses of an expression.
#[derive(Clone, Copy, Default)]
struct Use {
    count: u32,
    /// Loops around its deepest use.
    deepest: u32,
    /// Loops around its definition, if it has one.
    defined: Option<u32>,
}

pub(super) fn tidy(kernel: &mut Kernel) {
    let mut uses = vec![Use::default(); kernel.exprs.len()];
    walk(&kernel.body, 0, &mut |statement, depth| match statement {
        Stmt::Let(id) => uses[id.index()].defined = Some(depth),
        _ => statement.operands().into_iter().for_each(|id| add(&mut uses, id, depth)),
    });
    // Operands stand before what uses them, so uses are complete from the last expression on.
    let mut named = vec![false; uses.len()];
    for (i, (expr, _)) in kernel.exprs.iter().enumerate().rev() {
        let Use { count, deepest, defined } = uses[i];
        if count == 0 {
            continue;
        }
        let depth = match defined {
            Some(defined) if count > 1 || deepest > defined || expr.is_impure() => {
                named[i] = true;
                defined
            }
            _ => deepest,
        };
        expr.operands().for_each(|id| add(&mut uses, id, depth));
    }
    let mut nested = vec![0; uses.len()];
    for (i, (expr, _)) in kernel.exprs.iter().enumerate() {
        let inner = expr.operands().map(|id| id.index()).filter(|&i| !named[i]).map(|i| nested[i]).max();
        nested[i] = inner.map_or(0, |inner| inner + 1);
        named[i] |= nested[i] > MOST_NESTED && uses[i].count > 0 && uses[i].defined.is_some();
    }
    let single: Vec<bool> = uses.iter().map(|used| used.count == 1).collect();
    read_at_use(
        &kernel.body,
        &kernel.exprs.iter().map(|(expr, _)| expr).collect::<Vec<_>>(),
        &single,
        &mut named,
    );
    retain(&mut kernel.body, &named);
}

fn add(uses: &mut [Use], id: ExprId, depth: u32) {
    let used = &mut uses[id.index()];
    used.count += 1;
    used.deepest = used.deepest.max(depth);
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

/// Takes the names of reads of variables that are used once, in their block, before anything is assigned.
fn read_at_use(block: &Block, exprs: &[&Expr], single: &[bool], named: &mut [bool]) {
    let mut pending: Vec<ExprId> = Vec::new();
    for statement in &block.0 {
        match statement {
            Stmt::Let(id) if !named[id.index()] => continue,
            Stmt::Let(id) if single[id.index()] && matches!(exprs[id.index()], Expr::Read(_)) => {
                pending.push(*id);
                continue;
            }
            Stmt::Let(id) => {
                exprs[id.index()].operands().for_each(|id| found(id, exprs, named, &mut pending))
            }
            // The bounds of a loop are looked at in each turn.
            Stmt::For(..) => {}
            _ => statement.operands().into_iter().for_each(|id| found(id, exprs, named, &mut pending)),
        }
        if !matches!(statement, Stmt::Let(_)) {
            pending.clear();
        }
        if let Some(block) = statement.block() {
            read_at_use(block, exprs, single, named);
        }
    }
}

/// Takes the name of a pending read. For an expression without a name, goes on to its operands.
fn found(id: ExprId, exprs: &[&Expr], named: &mut [bool], pending: &mut Vec<ExprId>) {
    if let Some(at) = pending.iter().position(|&read| read == id) {
        pending.swap_remove(at);
        named[id.index()] = false;
    } else if !named[id.index()] {
        exprs[id.index()].operands().for_each(|id| found(id, exprs, named, pending));
    }
}

fn retain(block: &mut Block, named: &[bool]) {
    block.0.retain_mut(|statement| match statement {
        Stmt::Let(id) => named[id.index()],
        Stmt::If(_, block) | Stmt::For(_, _, block) => {
            retain(block, named);
            true
        }
        _ => true,
    });
}
