//! Kernels of the common language as WGSL.
//!
//! In: a [`Kernel`] and what its launch binds. Out: a [`Dispatch`]. Loads, stores and the functions that
//! WGSL lacks are those of [`Source`].

use super::Dispatch;
use super::functions::Function;
use super::source::{Source, type_name};
use crate::simt::{Block, Expr, ExprId, Fault, Kernel, Role, Stmt};
use gradloom_core::ir::{BinaryOp, DType, Number};

/// The shader of a kernel.
pub(crate) fn print(kernel: &Kernel, mut source: Source<'_>) -> Dispatch {
    debug_assert_eq!(crate::simt::verify(kernel), Ok(()), "{kernel}");
    for (i, shared) in kernel.shared.iter().enumerate() {
        let ty = type_name(shared.dtype);
        source.global(format_args!("var<workgroup> s{i}: array<{ty}, {}>;", shared.elements));
    }
    let mut printer = Printer { kernel, named: vec![false; kernel.exprs.len()] };
    printer.block(&mut source, &kernel.body);
    source.finish(&kernel.label, kernel.workgroup, kernel.groups)
}

struct Printer<'k> {
    kernel: &'k Kernel,
    /// Expressions that have a name.
    named: Vec<bool>,
}

impl Printer<'_> {
    fn block(&mut self, source: &mut Source<'_>, block: &Block) {
        for statement in &block.0 {
            self.statement(source, statement);
        }
    }

    fn statement(&mut self, source: &mut Source<'_>, statement: &Stmt) {
        match statement {
            Stmt::Let(id) => {
                let formula = self.formula(source, *id);
                source.line(format_args!("let v{} = {formula};", id.index()));
                self.named[id.index()] = true;
            }
            Stmt::Var(number, first) => {
                let first = self.text(source, *first);
                source.line(format_args!("var x{number} = {first};"));
            }
            Stmt::Assign(number, value) => {
                let value = self.text(source, *value);
                source.line(format_args!("x{number} = {value};"));
            }
            Stmt::Store(buffer, index, value) => {
                let Role::Result(write) = self.kernel.buffers[*buffer as usize].role else {
                    unreachable!("operands are not written")
                };
                let operand = &source.operands.writes[write];
                let [index, value] = [index, value].map(|&id| self.text(source, id));
                source.store(operand, &index, &value);
            }
            Stmt::StoreShared(shared, index, value) => {
                let [index, value] = [index, value].map(|&id| self.text(source, id));
                source.line(format_args!("s{shared}[{index}] = {value};"));
            }
            Stmt::If(condition, block) => {
                let condition = self.text(source, *condition);
                source.line(format_args!("if ({condition}) {{"));
                self.block(source, block);
                source.line("}");
            }
            Stmt::For(number, bounds, block) => {
                let [start, end, step] = bounds.map(|id| self.text(source, id));
                source.line(format_args!(
                    "for (var i{number} = {start}; i{number} < {end}; i{number} += {step}) {{"
                ));
                self.block(source, block);
                source.line("}");
            }
            Stmt::Barrier => source.line("workgroupBarrier();"),
            Stmt::Report(fault, position) => {
                let position = self.text(source, *position);
                match *fault {
                    Fault::Index(index, extent) => {
                        let index = self.text(source, index);
                        source.report_index(&index, extent, &position);
                    }
                    Fault::Divisor(divisor) => {
                        let divisor = self.text(source, divisor);
                        source.check_divisor(&divisor, &position);
                    }
                }
            }
        }
    }

    /// The name of an expression, or else what it is.
    fn text(&self, source: &mut Source<'_>, id: ExprId) -> String {
        if self.named[id.index()] { format!("v{}", id.index()) } else { self.formula(source, id) }
    }

    fn formula(&self, source: &mut Source<'_>, id: ExprId) -> String {
        let dtype = self.kernel.dtype(id);
        let dtype_of = |id: &ExprId| self.kernel.dtype(*id);
        match self.kernel.expr(id) {
            Expr::Literal(bits) => source.constant(number(*bits, dtype), dtype),
            Expr::Group => "group".to_string(),
            Expr::Local => "local".to_string(),
            Expr::Committed => "committed".to_string(),
            Expr::Counter(number) => format!("i{number}"),
            Expr::Read(number) => format!("x{number}"),
            Expr::Load(buffer, index) => {
                let operand = match self.kernel.buffers[*buffer as usize].role {
                    Role::Operand(read) => &source.operands.reads[read],
                    Role::Result(write) => &source.operands.writes[write],
                };
                let index = self.text(source, *index);
                source.load(operand, &index)
            }
            Expr::LoadShared(shared, index) => format!("s{shared}[{}]", self.text(source, *index)),
            Expr::Unary(op, a) => {
                let a = self.text(source, *a);
                source.unary(*op, dtype, &a)
            }
            Expr::Binary(op, a, b) => {
                let [a, b] = [a, b].map(|id| self.text(source, *id));
                match (op, dtype) {
                    // The forms of conditions, which drivers know best.
                    (BinaryOp::And, DType::Bool) => format!("({a} && {b})"),
                    (BinaryOp::Or, DType::Bool) => format!("({a} || {b})"),
                    _ => source.binary(*op, dtype, &a, &b),
                }
            }
            Expr::MulHigh(a, b) => {
                let [a, b] = [a, b].map(|id| self.text(source, *id));
                format!("{}({a}, {b})", source.function(Function::MulHigh))
            }
            Expr::Compare(op, a, b) => {
                let dtype = dtype_of(a);
                let [a, b] = [a, b].map(|id| self.text(source, *id));
                source.compare(*op, dtype, &a, &b)
            }
            Expr::Select(condition, yes, no) => {
                let [condition, yes, no] = [condition, yes, no].map(|id| self.text(source, *id));
                format!("select({no}, {yes}, {condition})")
            }
            Expr::Cast(a) => {
                let from = dtype_of(a);
                let a = self.text(source, *a);
                source.cast(from, dtype, &a)
            }
            Expr::Bitcast(a) => format!("bitcast<{}>({})", type_name(dtype), self.text(source, *a)),
        }
    }
}

/// A literal's number.
fn number(bits: u32, dtype: DType) -> Number {
    match dtype {
        DType::F32 => Number::Float(f32::from_bits(bits).into()),
        DType::I32 => Number::Int(bits.cast_signed().into()),
        DType::U32 => Number::Int(bits.into()),
        DType::Bool => Number::Bool(bits != 0),
    }
}
