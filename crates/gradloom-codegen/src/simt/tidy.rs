//! Removal of unused expressions and unnecessary names.
//!
//! In: a kernel that evaluates each expression where it was built. Out: an equivalent kernel without unused
//! expressions, in which an expression has a [`Stmt::Let`] only if it reads memory, exchanges values, has
//! several uses or one in a loop that begins after it, or would be nested too deeply. A read of a variable
//! has no `Let` either if its only use is no later than the next statement that is not a `Let`.

use super::ir::{Block, Expr, ExprId, Kernel, Stmt};

/// Maximum nesting of expressions: parsers of WGSL limit it (naga to about 200).
const MOST_NESTED: u32 = 32;

/// Uses of an expression in a kernel.
#[derive(Clone, Copy, Default)]
struct Use {
    count: u32,
    /// Number of loops around its innermost use.
    deepest: u32,
    /// Number of loops around its definition, if it has one.
    defined: Option<u32>,
}

pub(super) fn tidy(kernel: &mut Kernel) {
    let mut uses = vec![Use::default(); kernel.exprs.len()];
    kernel.body.each(0, &mut |statement, depth| match statement {
        Stmt::Let(id) => uses[id.index()].defined = Some(depth),
        _ => statement.operands().into_iter().for_each(|id| add(&mut uses, id, depth)),
    });
    // Operands precede the expressions that use them, so in reverse order the uses of each are complete.
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

/// Removes the names of variable reads that have a single use in the same block, no later than the next
/// statement that is not a `Let`.
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
            // The bounds of a loop are evaluated in each iteration, so reads of variables in them keep their
            // names.
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

/// Removes the name of a pending read; descends into the operands of expressions without a name.
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
