//! Checks a kernel.
//!
//! In: a kernel. Out: nothing, or what is wrong, with the expression or statement. Checked are: numbers of
//! buffers, variables and loops; dtypes; that operands come before what is made of them; that names,
//! variables and counters are in scope; that what is impure is evaluated by exactly one [`Stmt::Let`]; that
//! barriers stand in uniform control flow, where all invocations of a workgroup arrive or none.

use super::ir::{Block, Buffer, Expr, ExprId, Fault, Kernel, Role, Stmt};
use gradloom_core::ir::{BinaryOp, DType};

/// Checks a kernel.
///
/// # Errors
/// The first thing that is wrong, as text.
pub fn verify(kernel: &Kernel) -> Result<(), String> {
    for (i, (expr, dtype)) in kernel.exprs.iter().enumerate() {
        if expr.operands().any(|operand| operand.index() >= i) {
            return Err(format!("v{i} is made of what comes after it"));
        }
        let right =
            dtype_of(kernel, expr, *dtype).ok_or_else(|| format!("v{i} has operands that it cannot take"))?;
        if right != *dtype {
            return Err(format!("v{i} is {right} and said to be {dtype}"));
        }
    }
    let mut scope = Scope {
        kernel,
        named: vec![false; kernel.exprs.len()],
        evaluated: vec![false; kernel.exprs.len()],
        variables: vec![false; kernel.variables.len()],
        loops: vec![false; kernel.loops as usize],
    };
    scope.block(&kernel.body)?;
    Uniformity::of(kernel).block(&kernel.body, true)
}

/// The dtype of an expression whose operands have the dtypes that it takes. A literal and a conversion are
/// what they are `said` to be.
fn dtype_of(kernel: &Kernel, expr: &Expr, said: DType) -> Option<DType> {
    let of = |id: ExprId| kernel.dtype(id);
    let words = |a: ExprId| of(a) == DType::U32;
    match *expr {
        Expr::Literal(bits) => (said != DType::Bool || bits <= 1).then_some(said),
        Expr::Group | Expr::Local | Expr::Counter(_) => Some(DType::U32),
        Expr::Committed => Some(DType::Bool),
        Expr::Read(number) => kernel.variables.get(number as usize).copied(),
        Expr::Load(buffer, index) => {
            kernel.buffers.get(buffer as usize).filter(|_| words(index)).map(|buffer| buffer.dtype)
        }
        Expr::Element(array, index) => {
            kernel.arrays.get(array as usize).filter(|_| words(index)).map(|array| array.dtype)
        }
        Expr::Unary(op, a) => op.accepts(of(a)).then(|| of(a)),
        Expr::Binary(op, a, b) => {
            let shift = matches!(op, BinaryOp::Shl | BinaryOp::Shr);
            (of(a) == of(b) && (op.accepts(of(a)) || shift)).then(|| of(a))
        }
        Expr::MulHigh(a, b) => (words(a) && words(b)).then_some(DType::U32),
        Expr::Compare(_, a, b) => (of(a) == of(b)).then_some(DType::Bool),
        Expr::Select(condition, yes, no) => {
            (of(condition) == DType::Bool && of(yes) == of(no)).then(|| of(yes))
        }
        Expr::Cast(_) => Some(said),
        Expr::Bitcast(a) => (of(a) != DType::Bool && said != DType::Bool).then_some(said),
        Expr::ShuffleXor(a, bits) => {
            let size = kernel.subgroup.filter(|size| size.is_power_of_two())?;
            (bits < size && kernel.workgroup.is_multiple_of(size) && of(a) != DType::Bool).then(|| of(a))
        }
    }
}

/// What is known at a statement.
struct Scope<'k> {
    kernel: &'k Kernel,
    /// Expressions with a name here.
    named: Vec<bool>,
    /// Expressions that any statement so far has named.
    evaluated: Vec<bool>,
    variables: Vec<bool>,
    loops: Vec<bool>,
}

impl Scope<'_> {
    /// The statements of a block, whose names end with it.
    fn block(&mut self, block: &Block) -> Result<(), String> {
        let (mut names, mut variables) = (Vec::new(), Vec::new());
        for statement in &block.0 {
            self.statement(statement).map_err(|what| format!("{what}, in {statement:?}"))?;
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
        let wants = |id: ExprId, dtype: DType| match kernel.dtype(id) == dtype {
            true => Ok(()),
            false => Err(format!("v{} is no {dtype}", id.index())),
        };
        if let Stmt::Let(id) = *statement {
            if kernel.exprs.len() <= id.index() || std::mem::replace(&mut self.evaluated[id.index()], true) {
                return Err(format!("v{} is evaluated twice, or unknown", id.index()));
            }
            self.parts(id)?;
            self.named[id.index()] = true;
            return Ok(());
        }
        for id in statement.operands() {
            self.value(id)?;
        }
        match statement {
            Stmt::Let(_) | Stmt::Barrier => Ok(()),
            Stmt::Var(number, first) => {
                wants(*first, *kernel.variables.get(*number as usize).ok_or("there is no such variable")?)?;
                self.variables[*number as usize] = true;
                Ok(())
            }
            Stmt::Assign(number, value) => {
                if !self.variables.get(*number as usize).copied().unwrap_or(false) {
                    return Err(format!("x{number} is not in scope"));
                }
                wants(*value, kernel.variables[*number as usize])
            }
            Stmt::Store(buffer, index, value) => {
                let buffer = kernel.buffers.get(*buffer as usize).ok_or("there is no such buffer")?;
                if !buffer.is_writable() {
                    return Err("an operand is written, or a table".into());
                }
                wants(*index, DType::U32)?;
                wants(*value, buffer.dtype)
            }
            Stmt::SetElement(array, index, value) => {
                let array = kernel.arrays.get(*array as usize).ok_or("there is no such array")?;
                wants(*index, DType::U32)?;
                wants(*value, array.dtype)
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
                self.block(block)?;
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

    /// What an expression is made of must be known here.
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

    /// A value must have a name here, or be pure and made of what is known here.
    fn value(&self, id: ExprId) -> Result<(), String> {
        let expr = self.kernel.exprs.get(id.index()).map(|(expr, _)| expr);
        match expr.ok_or("there is no such expression")? {
            _ if self.named[id.index()] => Ok(()),
            expr if expr.is_impure() => Err(format!("v{} is not evaluated here", id.index())),
            _ => self.parts(id),
        }
    }
}

fn is_table(buffer: &Buffer) -> bool {
    buffer.role == Role::Table
}

/// Which values are the same for all invocations of a workgroup.
struct Uniformity {
    values: Vec<bool>,
    variables: Vec<bool>,
    loops: Vec<bool>,
    /// Which expressions exchange values between invocations.
    shuffles: Vec<bool>,
}

impl Uniformity {
    /// Assumes of all variables and counters that they are uniform, and takes it back until nothing changes.
    fn of(kernel: &Kernel) -> Self {
        let (variables, loops) = (vec![true; kernel.variables.len()], vec![true; kernel.loops as usize]);
        let shuffles = kernel.exprs.iter().map(|(expr, _)| matches!(expr, Expr::ShuffleXor(..))).collect();
        let mut uniformity = Self { values: Vec::new(), variables, loops, shuffles };
        loop {
            uniformity.values.clear();
            for (expr, _) in &kernel.exprs {
                let is_uniform = match *expr {
                    Expr::Counter(number) => uniformity.loops[number as usize],
                    Expr::Read(number) => uniformity.variables[number as usize],
                    Expr::Load(buffer, index) if is_table(&kernel.buffers[buffer as usize]) => {
                        uniformity.is_uniform(index)
                    }
                    // A result may lie where an operand does, so other invocations may write what is read.
                    Expr::Local | Expr::Load(..) | Expr::Element(..) | Expr::ShuffleXor(..) => false,
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

    /// Whether anything turned out not to be uniform.
    fn spread(&mut self, block: &Block, control: bool) -> bool {
        let mut changed = false;
        for statement in &block.0 {
            let inner = control && statement.operands().into_iter().all(|id| self.is_uniform(id));
            match statement {
                Stmt::Var(number, _) | Stmt::Assign(number, _) if !inner => {
                    changed |= std::mem::replace(&mut self.variables[*number as usize], false);
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
            Stmt::Barrier => true,
            Stmt::Let(id) => self.shuffles[id.index()],
            _ => false,
        }
    }

    fn block(&self, block: &Block, control: bool) -> Result<(), String> {
        for statement in &block.0 {
            if !control && self.is_met_by_all(statement) {
                return Err(format!("not all invocations of a workgroup may arrive at {statement:?}"));
            }
            if let Some(block) = statement.block() {
                let inner = statement.operands().into_iter().all(|id| self.is_uniform(id));
                self.block(block, control && inner)?;
            }
        }
        Ok(())
    }
}
