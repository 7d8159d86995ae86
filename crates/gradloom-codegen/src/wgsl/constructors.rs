//! Initialization of private arrays by constructors: `var a = array(x, y, ..)` instead of a declaration,
//! which sets all elements to zero, and a statement per element. With the latter, SwiftShader took a fifth
//! longer to compile products.
//!
//! In: a kernel. Out: for each array, the index of the first of the statements that initialize it.
//! Invariants: these statements are consecutive in the kernel's outermost block, set each element once and in
//! order, to constants or variables, and are the first to set it. No array is read before it is set.

use crate::simt::{Expr, Kernel, Space, Stmt};

/// Returns, for each array, the index in the kernel's body of the first statement that initializes it, if
/// any.
pub(super) fn constructors(kernel: &Kernel) -> Vec<Option<usize>> {
    let mut found = vec![None; kernel.arrays.len()];
    for (number, array) in kernel.arrays.iter().enumerate() {
        let sets = |statement: &Stmt| matches!(statement, Stmt::SetElement(to, ..) if *to as usize == number);
        let Some(at) = kernel.body.0.iter().position(|statement| statement.any(&sets)) else { continue };
        let run = kernel.body.0[at..].iter().take(array.elements as usize);
        let in_order = (0..array.elements).zip(run).filter(|(i, statement)| match statement {
            Stmt::SetElement(to, index, value) => {
                *to as usize == number
                    && *kernel.expr(*index) == Expr::Literal(*i)
                    && matches!(kernel.expr(*value), Expr::Literal(_) | Expr::Read(_))
            }
            _ => false,
        });
        if array.space == Space::Invocation && in_order.count() == array.elements as usize {
            found[number] = Some(at);
        }
    }
    found
}
