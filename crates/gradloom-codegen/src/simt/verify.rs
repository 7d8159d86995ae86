//! Verification of kernels.
//!
//! In: a kernel. Out: an error with the invalid expression or statement, if there is one. The verifier checks
//! dtypes, and the numbers of buffers, variables and loops. It also checks that operands precede the
//! expressions that use them; that names, variables and counters are in scope; that each impure expression is
//! evaluated by exactly one [`Stmt::Let`]; and that barriers are in uniform control flow, so that either all
//! invocations of a workgroup reach them or none.

use super::ir::{
    AsyncCopy, Block, Buffer, Expr, ExprId, Fault, Kernel, MatrixUse, ProductLeft, Role, SharedMatrix, Space,
    Stmt, ValueType, WarpgroupProduct,
};
use super::types::type_of;
use crate::narrow::narrow;
use gradloom_core::ir::DType;

/// Verifies a kernel.
///
/// # Errors
/// Returns an error that describes the first mistake.
pub fn verify(kernel: &Kernel) -> Result<(), String> {
    for (i, (expr, ty)) in kernel.exprs.iter().enumerate() {
        if expr.operands().any(|operand| operand.index() >= i) {
            return Err(format!("v{i} is made of what comes after it"));
        }
        let right = type_of(kernel, expr, *ty).ok_or_else(|| {
            let what = kernel.excerpt_of(ExprId(u32::try_from(i).expect("numbers are of 32 bits")));
            format!("`{what}` has operands that it cannot take")
        })?;
        if right != *ty {
            return Err(format!("v{i} is {right} and said to be {ty}"));
        }
    }
    let mut scope = Scope {
        kernel,
        named: vec![false; kernel.exprs.len()],
        inner: vec![false; kernel.exprs.len()],
        evaluated: vec![false; kernel.exprs.len()],
        variables: vec![false; kernel.variables.len()],
        loops: vec![false; kernel.loops as usize],
    };
    scope.block(&kernel.body)?;
    Uniformity::of(kernel).block(kernel, &kernel.body, true)
}

/// Expressions, variables and loops in scope at a statement.
struct Scope<'k> {
    kernel: &'k Kernel,
    /// Expressions with a name in scope.
    named: Vec<bool>,
    /// Expressions with a name that the innermost loop evaluates.
    inner: Vec<bool>,
    /// Expressions that any statement so far has evaluated.
    evaluated: Vec<bool>,
    variables: Vec<bool>,
    loops: Vec<bool>,
}

impl Scope<'_> {
    /// Checks the statements of a block; the names that it declares end with it.
    fn block(&mut self, block: &Block) -> Result<(), String> {
        let (mut names, mut variables) = (Vec::new(), Vec::new());
        for statement in &block.0 {
            self.statement(statement)
                .map_err(|what| format!("{what}, in `{}`", self.kernel.excerpt(statement)))?;
            match statement {
                Stmt::Let(id) => names.push(id.index()),
                Stmt::Var(number, _) => variables.push(*number as usize),
                _ => {}
            }
        }
        names.into_iter().for_each(|id| self.named[id] = false);
        variables.into_iter().for_each(|number| self.variables[number] = false);
        Ok(())
    }

    fn statement(&mut self, statement: &Stmt) -> Result<(), String> {
        let kernel = self.kernel;
        let takes = |id: ExprId, ty: ValueType| match kernel.ty(id) == ty {
            true => Ok(()),
            false => Err(format!("v{} is no {ty}", id.index())),
        };
        let wants = |id: ExprId, dtype: DType| takes(id, dtype.into());
        if let Stmt::Let(id) = *statement {
            if kernel.exprs.len() <= id.index() || std::mem::replace(&mut self.evaluated[id.index()], true) {
                return Err(format!("v{} is evaluated twice, or unknown", id.index()));
            }
            self.parts(id)?;
            (self.named[id.index()], self.inner[id.index()]) = (true, true);
            return Ok(());
        }
        for id in statement.operands() {
            self.value(id)?;
        }
        match statement {
            Stmt::Let(_) | Stmt::Barrier | Stmt::EndCopies | Stmt::AwaitCopies(_) => Ok(()),
            Stmt::StartProduct(product) => self.product(product),
            Stmt::AwaitProducts(_, sums) => sums.iter().try_for_each(|&number| self.sum(number)),
            Stmt::StartCopy(AsyncCopy { array, item, buffer, index, there }) => {
                let array = kernel.arrays.get(*array as usize).ok_or("there is no such array")?;
                let buffer = kernel.buffers.get(*buffer as usize).ok_or("there is no such buffer")?;
                if array.space != Space::Workgroup || array.ty != buffer.ty {
                    return Err(
                        "a buffer is copied to an array that is not shared, or of another type".into()
                    );
                }
                if !matches!(buffer.ty, ValueType::Half8(_)) {
                    return Err(format!("an item of {} is copied", buffer.ty));
                }
                wants(*item, DType::U32)?;
                wants(*index, DType::U32)?;
                wants(*there, DType::Bool)
            }
            Stmt::Var(number, first) => {
                takes(*first, *kernel.variables.get(*number as usize).ok_or("there is no such variable")?)?;
                self.variables[*number as usize] = true;
                Ok(())
            }
            Stmt::Assign(number, value) => {
                if !self.variables.get(*number as usize).copied().unwrap_or(false) {
                    return Err(format!("x{number} is not in scope"));
                }
                takes(*value, kernel.variables[*number as usize])
            }
            Stmt::Store(buffer, index, value) => {
                let buffer = kernel.buffers.get(*buffer as usize).ok_or("there is no such buffer")?;
                if !buffer.is_writable() {
                    return Err("an operand is written, or a table".into());
                }
                wants(*index, DType::U32)?;
                takes(*value, buffer.ty)
            }
            Stmt::SetElement(array, index, value) => {
                let array = kernel.arrays.get(*array as usize).ok_or("there is no such array")?;
                wants(*index, DType::U32)?;
                takes(*value, array.ty)
            }
            Stmt::StoreMatrix(array, index, _, value) => {
                let array = kernel.arrays.get(*array as usize).ok_or("there is no such array")?;
                if array.ty != DType::F32.into() || array.space != Space::Workgroup {
                    return Err("a matrix is stored where it cannot be".into());
                }
                wants(*index, DType::U32)?;
                takes(*value, ValueType::Matrix(MatrixUse::Sum, DType::F32))
            }
            Stmt::If(condition, block) => {
                wants(*condition, DType::Bool)?;
                self.block(block)
            }
            Stmt::For(number, bounds, block) => {
                bounds.iter().try_for_each(|&bound| wants(bound, DType::U32))?;
                let at = *number as usize;
                if self.loops.get(at).copied().unwrap_or(true) {
                    return Err(format!("i{number} counts two loops, or is unknown"));
                }
                self.loops[at] = true;
                let outside = vec![false; self.inner.len()];
                let before = std::mem::replace(&mut self.inner, outside);
                self.block(block)?;
                self.inner = before;
                self.loops[at] = false;
                Ok(())
            }
            Stmt::Report(fault, position) => {
                wants(*position, DType::U32)?;
                match *fault {
                    Fault::Index(index, _) => wants(index, DType::I32),
                    Fault::Divisor(divisor) => match kernel.dtype(divisor).is_integer() {
                        true => Ok(()),
                        false => Err(format!("v{} is no integer", divisor.index())),
                    },
                }
            }
        }
    }

    /// Checks that a variable is a matrix sum in scope.
    fn sum(&self, number: u32) -> Result<(), String> {
        let is_sum = |ty: &ValueType| *ty == ValueType::Matrix(MatrixUse::Sum, DType::F32);
        match self.kernel.variables.get(number as usize).filter(|ty| is_sum(ty)) {
            Some(_) if self.variables[number as usize] => Ok(()),
            _ => Err(format!("x{number} is no matrix sum in scope")),
        }
    }

    /// Checks the extents and types of a product.
    fn product(&self, product: &WarpgroupProduct) -> Result<(), String> {
        let WarpgroupProduct { sums, left, right, transposed, .. } = product;
        let kernel = self.kernel;
        let half = self.shared_matrix(right)?;
        sums.iter().try_for_each(|&number| self.sum(number))?;
        if kernel.subgroup != Some(32) || !kernel.workgroup.is_multiple_of(WarpgroupProduct::INVOCATIONS) {
            return Err("the workgroup does not consist of warpgroups".into());
        }
        let terms = match left {
            ProductLeft::Held(held) => {
                let ty = ValueType::Matrix(MatrixUse::Left, half);
                if let Some(id) = held.iter().find(|&&id| kernel.ty(id) != ty) {
                    return Err(format!("v{} is no {ty}", id.index()));
                }
                if let Some(id) = held.iter().find(|id| self.named[id.index()] && !self.inner[id.index()]) {
                    return Err(format!("v{} was computed outside of the loop", id.index()));
                }
                16 * narrow(held.len())
            }
            ProductLeft::Shared(matrix, _) => {
                let warpgroups = kernel.workgroup / WarpgroupProduct::INVOCATIONS;
                if self.shared_matrix(matrix)? != half || matrix.rows != WarpgroupProduct::ROWS * warpgroups {
                    return Err("a left operand has another type or number of rows".into());
                }
                matrix.columns
            }
        };
        if product.shared().any(|(_, first)| kernel.ty(first) != DType::U32.into()) {
            return Err("the index of a matrix is no u32".into());
        }
        let (results, SharedMatrix { rows, columns, .. }) = (16 * narrow(sums.len()), *right);
        match (if *transposed { [columns, rows] } else { [rows, columns] }) == [terms, results] {
            true => Ok(()),
            false => {
                Err(format!("{terms} terms and {results} columns are no product with {rows} x {columns}"))
            }
        }
    }

    /// Checks the array of a shared matrix, and returns the dtype of its elements.
    fn shared_matrix(&self, matrix: &SharedMatrix) -> Result<DType, String> {
        let array = self.kernel.arrays.get(matrix.array as usize).ok_or("there is no such array")?;
        match array.ty {
            ValueType::Half8(half)
                if array.space == Space::Workgroup
                    && matrix.rows.is_multiple_of(WarpgroupProduct::ROWS)
                    && matrix.columns.is_multiple_of(16)
                    && matrix.items() <= array.elements =>
            {
                Ok(half)
            }
            _ => Err(format!("a{} holds no shared matrix", matrix.array)),
        }
    }

    /// Checks that the operands, variable and counter of an expression are in scope.
    fn parts(&self, id: ExprId) -> Result<(), String> {
        match *self.kernel.expr(id) {
            Expr::Read(number) if !self.variables[number as usize] => {
                Err(format!("x{number} is not in scope"))
            }
            Expr::Counter(number) if !self.loops.get(number as usize).copied().unwrap_or(false) => {
                Err(format!("i{number} is not in scope"))
            }
            _ => self.kernel.expr(id).operands().try_for_each(|operand| self.value(operand)),
        }
    }

    /// Checks that a value is named, or is pure and made of values in scope.
    fn value(&self, id: ExprId) -> Result<(), String> {
        let expr = self.kernel.exprs.get(id.index()).map(|(expr, _)| expr);
        match expr.ok_or("there is no such expression")? {
            _ if self.named[id.index()] => Ok(()),
            expr if expr.is_impure() && !matches!(expr, Expr::Read(_)) => {
                Err(format!("v{} is not evaluated here", id.index()))
            }
            _ => self.parts(id),
        }
    }
}

fn is_table(buffer: &Buffer) -> bool {
    buffer.role == Role::Table
}

/// Values that are uniform within a workgroup.
struct Uniformity {
    values: Vec<bool>,
    variables: Vec<bool>,
    loops: Vec<bool>,
    /// For each expression, true if several invocations evaluate it together.
    collective: Vec<bool>,
}

impl Uniformity {
    /// Assumes that all variables and counters are uniform, and then marks those that are not, until a fixed
    /// point is reached.
    fn of(kernel: &Kernel) -> Self {
        let (variables, loops) = (vec![true; kernel.variables.len()], vec![true; kernel.loops as usize]);
        let collective = kernel
            .exprs
            .iter()
            .map(|(expr, ty)| expr.is_collective() || matches!(ty, ValueType::Matrix(..)))
            .collect();
        let mut uniformity = Self { values: Vec::new(), variables, loops, collective };
        loop {
            uniformity.values.clear();
            for (expr, _) in &kernel.exprs {
                let is_uniform = match *expr {
                    Expr::Counter(number) => uniformity.loops[number as usize],
                    Expr::Read(number) => uniformity.variables[number as usize],
                    Expr::Load(buffer, index) if is_table(&kernel.buffers[buffer as usize]) => {
                        uniformity.is_uniform(index)
                    }
                    // A broadcast counts as uniform only if its index is uniform.
                    Expr::Broadcast(_, index) => uniformity.is_uniform(index),
                    // A load is not uniform: a result may alias the operand, so another invocation may write
                    // the element.
                    Expr::Local
                    | Expr::Load(..)
                    | Expr::Element(..)
                    | Expr::ElementPart(..)
                    | Expr::ShuffleXor(..)
                    | Expr::MatrixLoad { .. } => false,
                    ref expr => expr.operands().all(|operand| uniformity.is_uniform(operand)),
                };
                uniformity.values.push(is_uniform);
            }
            if !uniformity.spread(&kernel.body, true) {
                return uniformity;
            }
        }
    }

    fn is_uniform(&self, id: ExprId) -> bool {
        self.values[id.index()]
    }

    /// Propagates non-uniformity to variables and counters; returns `true` if anything changed.
    fn spread(&mut self, block: &Block, control: bool) -> bool {
        let mut changed = false;
        for statement in &block.0 {
            let inner = control && statement.operands().into_iter().all(|id| self.is_uniform(id));
            match statement {
                Stmt::Var(number, _) | Stmt::Assign(number, _) if !inner => {
                    changed |= std::mem::replace(&mut self.variables[*number as usize], false);
                }
                Stmt::StartProduct(product) => {
                    for &number in &product.sums {
                        changed |= std::mem::replace(&mut self.variables[number as usize], false);
                    }
                }
                Stmt::For(number, ..) if !inner => {
                    changed |= std::mem::replace(&mut self.loops[*number as usize], false);
                }
                _ => {}
            }
            if let Some(block) = statement.block() {
                changed |= self.spread(block, inner);
            }
        }
        changed
    }

    fn is_met_by_all(&self, statement: &Stmt) -> bool {
        match statement {
            Stmt::Barrier
            | Stmt::StoreMatrix(..)
            | Stmt::StartProduct(_)
            | Stmt::AwaitProducts(..)
            | Stmt::EndCopies
            | Stmt::AwaitCopies(_) => true,
            Stmt::Let(id) => self.collective[id.index()],
            _ => false,
        }
    }

    fn block(&self, kernel: &Kernel, block: &Block, control: bool) -> Result<(), String> {
        for statement in &block.0 {
            if !control && self.is_met_by_all(statement) {
                let line = kernel.excerpt(statement);
                return Err(format!("not all invocations of a workgroup may arrive at `{line}`"));
            }
            if let Some(block) = statement.block() {
                let inner = statement.operands().into_iter().all(|id| self.is_uniform(id));
                self.block(kernel, block, control && inner)?;
            }
        }
        Ok(())
    }
}
