//! Text form of a kernel, for error messages and tests.

use super::ir::{
    Array, AsyncCopy, Block, Expr, ExprId, Fault, Kernel, ProductLeft, Role, SharedMatrix, Space, Stmt,
};
use gradloom_core::decimal::Decimal;
use gradloom_core::ir::DType;
use std::fmt;

/// Returns the text of a shared matrix with its first item.
fn shared(SharedMatrix { array, rows, columns }: &SharedMatrix, first: &str) -> String {
    format!("a{array}[{first}..] of {rows} x {columns}")
}

impl fmt::Display for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "kernel \"{}\" {} x {} {{", self.label, self.groups, self.workgroup)?;
        for (i, buffer) in self.buffers.iter().enumerate() {
            let role = match buffer.role {
                Role::Operand(number) => format!("operand {number}"),
                Role::Result(number) => format!("result {number}"),
                Role::Workspace { start, bytes } => format!("workspace {start}..{}", start + bytes),
                Role::Table => format!("table of {}", self.table.len()),
                Role::Status => "status".to_string(),
            };
            writeln!(f, "    buffer b{i}: {} = {role}", buffer.ty)?;
        }
        for (i, Array { space, ty, elements }) in self.arrays.iter().enumerate() {
            let space = if *space == Space::Workgroup { "shared" } else { "private" };
            writeln!(f, "    {space} a{i}: {ty}[{elements}]")?;
        }
        let mut named = vec![false; self.exprs.len()];
        self.block(f, &self.body, 1, &mut named)?;
        writeln!(f, "}}")
    }
}

impl Kernel {
    fn block(
        &self,
        f: &mut fmt::Formatter<'_>,
        block: &Block,
        depth: usize,
        named: &mut [bool],
    ) -> fmt::Result {
        for statement in &block.0 {
            let indent = "    ".repeat(depth);
            let line = self.statement(statement, named);
            if let Stmt::Let(id) = statement {
                named[id.index()] = true;
            }
            writeln!(f, "{indent}{line}")?;
            if let Some(block) = statement.block() {
                self.block(f, block, depth + 1, named)?;
                writeln!(f, "{indent}}}")?;
            }
        }
        Ok(())
    }

    /// Returns the first line of a statement.
    fn statement(&self, statement: &Stmt, named: &[bool]) -> String {
        let text = |id: &ExprId| self.text(*id, named);
        match statement {
            Stmt::Let(id) => {
                format!("let v{}: {} = {}", id.index(), self.ty(*id), self.formula(*id, named))
            }
            Stmt::Var(number, first) => {
                format!("var x{number}: {} = {}", self.variables[*number as usize], text(first))
            }
            Stmt::Assign(number, value) => format!("x{number} = {}", text(value)),
            Stmt::Store(buffer, index, value) => format!("b{buffer}[{}] = {}", text(index), text(value)),
            Stmt::SetElement(array, index, value) => {
                format!("a{array}[{}] = {}", text(index), text(value))
            }
            Stmt::StoreMatrix(array, index, pitch, value) => {
                format!("a{array}[{}..; {pitch}] = {}", text(index), text(value))
            }
            Stmt::If(condition, _) => format!("if {} {{", text(condition)),
            Stmt::For(number, [start, end, step], _) => {
                format!("for i{number} in {}..{} by {} {{", text(start), text(end), text(step))
            }
            Stmt::Barrier => "barrier".to_string(),
            Stmt::StartProduct(product) => {
                let sums: Vec<String> = product.sums.iter().map(|number| format!("x{number}")).collect();
                let left = match &product.left {
                    ProductLeft::Held(held) => {
                        format!("[{}]", held.iter().map(text).collect::<Vec<_>>().join(", "))
                    }
                    ProductLeft::Shared(matrix, first) => shared(matrix, &text(first)),
                };
                let sign = if product.adds { "+=" } else { "=" };
                let right = shared(&product.right, &text(&product.first));
                let order = if product.transposed { "columns" } else { "rows" };
                format!("start [{}] {sign} {left} * {order}({right})", sums.join(", "))
            }
            Stmt::AwaitProducts(most, sums) => {
                let sums: Vec<String> = sums.iter().map(|number| format!("x{number}")).collect();
                format!("await products but {most}: {}", sums.join(", "))
            }
            Stmt::StartCopy(AsyncCopy { array, item, buffer, index, there }) => {
                let [item, index, there] = [item, index, there].map(text);
                format!("start a{array}[{item}] = b{buffer}[{index}] if {there}")
            }
            Stmt::EndCopies => "end copies".to_string(),
            Stmt::AwaitCopies(most) => format!("await copies but {most}"),
            Stmt::Report(Fault::Index(index, extent), position) => {
                format!("report {} outside of 0..{extent} at {}", text(index), text(position))
            }
            Stmt::Report(Fault::Divisor(divisor), position) => {
                format!("report {} == 0 at {}", text(divisor), text(position))
            }
        }
    }

    /// Formats a statement for an error message: its operands are expanded by one level.
    pub(super) fn excerpt(&self, statement: &Stmt) -> String {
        if statement.operands().iter().any(|id| id.index() >= self.exprs.len()) {
            return "a statement of an expression that is not there".to_string();
        }
        let mut named = vec![true; self.exprs.len()];
        statement.operands().into_iter().for_each(|id| named[id.index()] = false);
        self.statement(statement, &named)
    }

    /// Formats an expression for an error message, with the types of its operands.
    pub(super) fn excerpt_of(&self, id: ExprId) -> String {
        let operands: Vec<String> =
            self.expr(id).operands().map(|id| format!("v{}: {}", id.index(), self.ty(id))).collect();
        let formula = self.formula(id, &vec![true; self.exprs.len()]);
        if operands.is_empty() { formula } else { format!("{formula} of {}", operands.join(", ")) }
    }

    /// Returns the name of an expression, or its text if it has none.
    fn text(&self, id: ExprId, named: &[bool]) -> String {
        if named[id.index()] { format!("v{}", id.index()) } else { self.formula(id, named) }
    }

    fn formula(&self, id: ExprId, named: &[bool]) -> String {
        let text = |id: &ExprId| self.text(*id, named);
        match self.expr(id) {
            Expr::Literal(bits) => match self.dtype(id) {
                DType::F32 | DType::F16 | DType::BF16 => {
                    format!("{:?}", Decimal::from(f32::from_bits(*bits)))
                }
                DType::I32 | DType::U8 => format!("{}i", bits.cast_signed()),
                DType::I64 => crate::narrow::has_words(),
                DType::U32 => bits.to_string(),
                DType::Bool => (*bits != 0).to_string(),
            },
            Expr::Group => "group".to_string(),
            Expr::Local => "local".to_string(),
            Expr::Committed => "committed".to_string(),
            Expr::Counter(number) => format!("i{number}"),
            Expr::Read(number) => format!("x{number}"),
            Expr::Load(buffer, index) => format!("b{buffer}[{}]", text(index)),
            Expr::Element(array, index) => format!("a{array}[{}]", text(index)),
            Expr::Unary(op, a) => format!("{}({})", op.name(), text(a)),
            Expr::Binary(op, a, b) => format!("{}({}, {})", op.name(), text(a), text(b)),
            Expr::MulHigh(a, b) => format!("mul_high({}, {})", text(a), text(b)),
            Expr::Compare(op, a, b) => format!("{}({}, {})", op.name(), text(a), text(b)),
            Expr::Select(condition, yes, no) => {
                format!("select({}, {}, {})", text(condition), text(yes), text(no))
            }
            Expr::Cast(a) => format!("{}({})", self.dtype(id), text(a)),
            Expr::FourOf(a, half) => format!("{}.four{half}", text(a)),
            Expr::Bitcast(a) => format!("bits_as_{}({})", self.dtype(id), text(a)),
            Expr::ShuffleXor(a, bits) => format!("shuffle_xor({}, {bits})", text(a)),
            Expr::MulAdd([a, b, c]) => format!("mul_add({}, {}, {})", text(a), text(b), text(c)),
            Expr::NativeMax(a, b) => format!("native_max({}, {})", text(a), text(b)),
            Expr::NativeExp2(a) => format!("native_exp2({})", text(a)),
            Expr::MatrixResidual(a) => format!("{}.residual", text(a)),
            Expr::MatrixHalf(a, half) => format!("{}.half({half})", text(a)),
            Expr::MatrixOf([a, b]) => format!("matrix of ({}, {})", text(a), text(b)),
            Expr::MatrixFrom([a, b]) => format!("matrix({}, {})", text(a), text(b)),
            Expr::NativeLog(a) => format!("native_log({})", text(a)),
            Expr::Vector2([a, b]) => format!("[{}, {}]", text(a), text(b)),
            Expr::Vector4([a, b, c, d]) => format!("[{}, {}, {}, {}]", text(a), text(b), text(c), text(d)),
            Expr::Splat(a) => format!("splat({})", text(a)),
            Expr::Component(a, number) => format!("{}.{number}", text(a)),
            Expr::ElementPart(array, index, part) => format!("a{array}[{}][{}]", text(index), text(part)),
            Expr::ToHalf(a) => format!("to_half({})", text(a)),
            Expr::Broadcast(array, index) => format!("broadcast(a{array}[{}])", text(index)),
            Expr::MatrixZero => "zeros".to_string(),
            Expr::MatrixLoad { array, index, pitch, by_rows } => {
                let order = if *by_rows { "rows" } else { "columns" };
                format!("{order}(a{array}[{}..; {pitch}])", text(index))
            }
            Expr::MatrixMulAdd([a, b, c]) => format!("product({}, {}, {})", text(a), text(b), text(c)),
        }
    }
}
