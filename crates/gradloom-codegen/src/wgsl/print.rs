//! Printing of kernels as WGSL.
//!
//! In: a [`Kernel`] and its launch's bindings. Out: a [`Dispatch`]. `memory.rs` prints loads, stores and
//! declarations, `expression.rs` single expressions.

use super::constructors::constructors;
use super::dispatch::Dispatch;
use super::functions::Function;
use super::memory::{TEXT, type_name};
use super::operands::Operands;
use crate::limits::Limits;
use crate::simt::{
    Array, Block, Buffer, Expr, ExprId, Fault, Kernel, MatrixUse, Role, Space, Stmt, ValueType, spelling,
};
use gradloom_core::collections::SortedSet;
use gradloom_core::ir::{BinaryOp, CompareOp, DType};
use std::fmt::{Display, Write};

/// Returns the shader of a kernel of the launch with this index.
pub(crate) fn print(kernel: &Kernel, operands: &Operands, limits: &Limits, launch: usize) -> Dispatch {
    debug_assert_eq!(crate::simt::verify(kernel), Ok(()), "{kernel}");
    let (functions, body, named) = (SortedSet::new(), String::new(), vec![false; kernel.exprs.len()]);
    let mut printer = Printer { kernel, operands, limits, launch, functions, body, indent: 1, named };
    let constructors = constructors(kernel);
    for (i, array) in kernel.arrays.iter().enumerate() {
        if array.space == Space::Invocation && constructors[i].is_none() {
            printer.line(format_args!("var a{i}: {};", array_type(array)));
        }
    }
    let mut rest = &kernel.body.0[..];
    while let Some(statement) = rest.first() {
        let at = kernel.body.0.len() - rest.len();
        let array = constructors.iter().position(|&first| first == Some(at));
        let count = array.map_or(1, |array| printer.constructor(array, rest));
        if array.is_none() {
            printer.statement(statement);
        }
        rest = &rest[count..];
    }
    printer.finish()
}

/// A kernel's shader while it is printed. Helper functions are added to it on first use.
pub(super) struct Printer<'a> {
    pub(super) kernel: &'a Kernel,
    pub(super) operands: &'a Operands,
    pub(super) limits: &'a Limits,
    /// Index of the launch; a trap records it plus 1.
    pub(super) launch: usize,
    pub(super) functions: SortedSet<Function>,
    /// Body of `main`.
    pub(super) body: String,
    indent: usize,
    /// True for each expression that has a name.
    named: Vec<bool>,
}

impl Printer<'_> {
    /// Appends a line to the body of `main`. A trailing `{` opens a block; a leading `}` closes one.
    pub(super) fn line(&mut self, text: impl Display) {
        self.add_line(&text);
    }

    fn add_line(&mut self, text: &dyn Display) {
        let start = self.body.len();
        write!(self.body, "{text}").expect(TEXT);
        let line = &self.body.as_bytes()[start..];
        if line.starts_with(b"}") {
            self.indent -= 1;
        }
        let opens = line.ends_with(b"{");
        self.body.insert_str(start, &"    ".repeat(self.indent));
        self.body.push('\n');
        if opens {
            self.indent += 1;
        }
    }

    /// Adds a helper function to the module; returns its name.
    pub(super) fn function(&mut self, function: Function) -> &'static str {
        for &needed in function.needs() {
            self.function(needed);
        }
        self.functions.insert(function);
        function.name()
    }

    fn block(&mut self, block: &Block) {
        for statement in &block.0 {
            self.statement(statement);
        }
    }

    /// Declares an array with the elements that the next statements set; returns the number of those
    /// statements.
    fn constructor(&mut self, number: usize, statements: &[Stmt]) -> usize {
        let array = &self.kernel.arrays[number];
        let count = array.elements as usize;
        let mut values = Vec::with_capacity(count);
        for statement in &statements[..count] {
            if let Stmt::SetElement(_, _, value) = statement {
                values.push(self.text(*value));
            }
        }
        self.line(format_args!("var a{number} = {}({});", array_type(array), values.join(", ")));
        count
    }

    fn statement(&mut self, statement: &Stmt) {
        match statement {
            Stmt::Let(id) => {
                let formula = self.formula(*id);
                self.line(format_args!("let v{} = {formula};", id.index()));
                self.named[id.index()] = true;
            }
            Stmt::Var(number, first) => {
                let first = self.text(*first);
                self.line(format_args!("var x{number} = {first};"));
            }
            Stmt::Assign(number, value) => {
                let value = self.text(*value);
                self.line(format_args!("x{number} = {value};"));
            }
            Stmt::Store(buffer, index, value) => {
                let [index, value] = self.texts([index, value]);
                match self.kernel.buffers[*buffer as usize].role {
                    Role::Operand(read) => self.store(&self.operands.reads[read], &index, &value),
                    Role::Result(write) => self.store(&self.operands.writes[write], &index, &value),
                    Role::Status => self.line(format_args!("atomicStore(&status[{index}], {value});")),
                    Role::Workspace { .. } | Role::Table => {
                        let name = array_name(self.kernel, *buffer as usize);
                        self.line(format_args!("{name}[{index}] = {value};"));
                    }
                }
            }
            Stmt::SetElement(array, index, value) => {
                let [index, value] = self.texts([index, value]);
                self.line(format_args!("a{array}[{index}] = {value};"));
            }
            Stmt::StoreMatrix(array, index, pitch, value) => {
                let [index, value] = self.texts([index, value]);
                self.line(format_args!("coopStoreT({value}, &a{array}[{index}], {pitch}u);"));
            }
            Stmt::If(condition, block) => {
                let condition = self.text(*condition);
                self.line(format_args!("if ({condition}) {{"));
                self.block(block);
                self.line("}");
            }
            Stmt::For(number, bounds, block) => {
                let i = counter(*number);
                let [start, end, step] = self.texts(bounds.each_ref());
                self.line(format_args!("for (var {i} = {start}; {i} < {end}; {i} += {step}) {{"));
                self.block(block);
                self.line("}");
            }
            Stmt::Barrier => self.line("workgroupBarrier();"),
            Stmt::StartProduct(_)
            | Stmt::AwaitProducts(..)
            | Stmt::StartCopy(_)
            | Stmt::EndCopies
            | Stmt::AwaitCopies(_) => {
                unreachable!("WGSL has no asynchronous work, and limits of its devices say so")
            }
            Stmt::Report(fault, position) => {
                let position = self.text(*position);
                match *fault {
                    Fault::Index(index, extent) => {
                        let index = self.text(index);
                        self.report_index(&index, extent, &position);
                    }
                    Fault::Divisor(divisor) => {
                        let divisor = self.text(divisor);
                        self.check_divisor(&divisor, &position);
                    }
                }
            }
        }
    }

    /// Returns the name of an expression, or its text if it has none.
    fn text(&mut self, id: ExprId) -> String {
        if self.named[id.index()] { format!("v{}", id.index()) } else { self.formula(id) }
    }

    fn texts<const N: usize>(&mut self, ids: [&ExprId; N]) -> [String; N] {
        ids.map(|id| self.text(*id))
    }

    fn is_zero(&self, id: ExprId) -> bool {
        *self.kernel.expr(id) == Expr::Literal(0)
    }

    /// Returns the condition of a selection between two values. If the condition compares one of these
    /// values, a driver may replace the selection by a minimum or maximum, which returns a number for NaN
    /// (NVIDIA's does). Such a condition therefore explicitly excludes NaN.
    fn choice(&mut self, condition: ExprId, values: [&ExprId; 2]) -> String {
        let mut text = self.text(condition);
        let Expr::Compare(op, a, b) = self.kernel.expr(condition) else { return text };
        let orders = matches!(op, CompareOp::Lt | CompareOp::Le | CompareOp::Gt | CompareOp::Ge);
        let literal = |id: &ExprId| match self.kernel.expr(*id) {
            Expr::Literal(bits) => Some(*bits),
            _ => None,
        };
        let is_chosen = |id: &ExprId| {
            values
                .into_iter()
                .any(|value| value == id || literal(id).is_some() && literal(id) == literal(value))
        };
        let of_floats = self.kernel.ty(*a) == ValueType::Scalar(DType::F32);
        if !(orders && of_floats && (is_chosen(a) || is_chosen(b))) {
            return text;
        }
        // Combine the conditions with `&`, because `&&` would be a branch.
        for id in [a, b].into_iter().filter(|id| literal(id).is_none()) {
            let is_nan = self.function(Function::IsNan);
            text = format!("({text} & !{is_nan}({}))", self.text(*id));
        }
        text
    }

    fn formula(&mut self, id: ExprId) -> String {
        let (ty, dtype) = (self.kernel.ty(id), self.kernel.dtype(id));
        let dtype_of = |id: &ExprId| self.kernel.dtype(*id);
        match self.kernel.expr(id) {
            Expr::Literal(bits) => self.constant(*bits, dtype),
            Expr::Group => "group".to_string(),
            Expr::Local => "local".to_string(),
            Expr::Committed => "committed".to_string(),
            Expr::Counter(number) => counter(*number),
            Expr::Read(number) => format!("x{number}"),
            Expr::Load(buffer, index) => {
                let index = self.text(*index);
                let of_operand = |operand| match ty {
                    ValueType::Vector(4) | ValueType::Half4(_) => self.load_vector(operand, &index),
                    _ => self.operands.load(operand, &index, self.limits),
                };
                match self.kernel.buffers[*buffer as usize].role {
                    Role::Operand(read) => of_operand(&self.operands.reads[read]),
                    Role::Result(write) => of_operand(&self.operands.writes[write]),
                    Role::Status => format!("atomicLoad(&status[{index}])"),
                    Role::Workspace { .. } | Role::Table => {
                        format!("{}[{index}]", array_name(self.kernel, *buffer as usize))
                    }
                }
            }
            Expr::Element(array, index) => format!("a{array}[{}]", self.text(*index)),
            Expr::ShuffleXor(a, bits) => format!("subgroupShuffleXor({}, {bits}u)", self.text(*a)),
            Expr::Unary(op, a) => {
                let a = self.text(*a);
                self.call(spelling::unary(*op, dtype), &[&a])
            }
            Expr::Binary(BinaryOp::Sub, a, b) if a == b && ty == ValueType::Scalar(DType::F32) => {
                let a = self.text(*a);
                format!("abs({}({a}))", self.function(Function::TimesZero))
            }
            Expr::Binary(BinaryOp::Mul, a, b) if ty == ValueType::Scalar(DType::F32) && self.is_zero(*b) => {
                let a = self.text(*a);
                format!("{}({a})", self.function(Function::TimesZero))
            }
            Expr::Binary(op, a, b) => {
                let [a, b] = self.texts([a, b]);
                self.call(spelling::binary(*op, dtype), &[&a, &b])
            }
            Expr::MulHigh(a, b) => {
                let [a, b] = self.texts([a, b]);
                format!("{}({a}, {b})", self.function(Function::MulHigh))
            }
            Expr::Compare(op, a, b) => {
                let dtype = dtype_of(a);
                let [a, b] = self.texts([a, b]);
                self.compare(*op, dtype, &a, &b)
            }
            Expr::Select(condition, yes, no) => {
                let condition = self.choice(*condition, [yes, no]);
                let [yes, no] = self.texts([yes, no]);
                format!("select({no}, {yes}, {condition})")
            }
            Expr::Cast(a) if ty == ValueType::Vector(4) => format!("vec4<f32>({})", self.text(*a)),
            Expr::Cast(a) => {
                let from = dtype_of(a);
                let a = self.text(*a);
                self.cast(from, dtype, &a)
            }
            Expr::Bitcast(a) => format!("bitcast<{}>({})", type_name(dtype), self.text(*a)),
            Expr::MulAdd(abc) => {
                let [a, b, c] = self.texts(abc.each_ref());
                format!("fma({a}, {b}, {c})")
            }
            Expr::NativeMax(a, b) => {
                let [a, b] = self.texts([a, b]);
                format!("max({a}, {b})")
            }
            // These expressions are emitted for CUDA only.
            Expr::NativeExp2(_)
            | Expr::MatrixResidual(_)
            | Expr::MatrixHalf(..)
            | Expr::MatrixOf(_)
            | Expr::MatrixFrom(_)
            | Expr::FourOf(..) => unreachable!(),
            Expr::NativeLog(a) => format!("log({})", self.text(*a)),
            Expr::Vector2(elements) => self.vector(elements),
            Expr::Vector4(elements) => self.vector(elements),
            Expr::Splat(a) => format!("vec4<f32>({})", self.text(*a)),
            Expr::Component(a, number) => {
                format!("{}.{}", self.text(*a), ["x", "y", "z", "w"][*number as usize])
            }
            Expr::ElementPart(array, index, part) => {
                let [index, part] = self.texts([index, part]);
                format!("a{array}[{index}][{part}]")
            }
            Expr::ToHalf(a) => format!("vec4<f16>({})", self.text(*a)),
            Expr::Broadcast(array, index) => {
                format!("workgroupUniformLoad(&a{array}[{}])", self.text(*index))
            }
            Expr::MatrixZero => format!("{}()", name_of(ty)),
            Expr::MatrixLoad { array, index, pitch, by_rows } => {
                let index = self.text(*index);
                let function = if *by_rows { "coopLoadT" } else { "coopLoad" };
                format!("{function}<{}>(&a{array}[{index}], {pitch}u)", name_of(ty))
            }
            Expr::MatrixMulAdd(abc) => {
                let [a, b, c] = self.texts(abc.each_ref());
                format!("coopMultiplyAdd({a}, {b}, {c})")
            }
        }
    }

    fn vector(&mut self, elements: &[ExprId]) -> String {
        let elements: Vec<String> = elements.iter().map(|&id| self.text(id)).collect();
        format!("vec{}<f32>({})", elements.len(), elements.join(", "))
    }
}

/// Returns the name of a kernel's workspace or table: `w0`, `w1`, .. or `entries`.
pub(super) fn array_name(kernel: &Kernel, buffer: usize) -> String {
    let is_workspace = |buffer: &&Buffer| matches!(buffer.role, Role::Workspace { .. });
    match kernel.buffers[buffer].role {
        Role::Table => "entries".to_string(),
        _ => format!("w{}", kernel.buffers[..buffer].iter().filter(is_workspace).count()),
    }
}

/// Returns the WGSL type of an array.
pub(super) fn array_type(array: &Array) -> String {
    format!("array<{}, {}>", name_of(array.ty), array.elements)
}

/// Returns the WGSL name of a type.
pub(super) fn name_of(ty: ValueType) -> &'static str {
    match ty {
        ValueType::Scalar(dtype) => type_name(dtype),
        ValueType::Vector(2) => "vec2<f32>",
        ValueType::Vector(_) => "vec4<f32>",
        // Halves are of f16: WGSL has neither vectors of bf16 nor vectors of eight elements, and its kernels
        // do not use them.
        ValueType::Half2(_) => "vec2<f16>",
        ValueType::Half4(_) | ValueType::Half8(_) => "vec4<f16>",
        ValueType::Matrix(MatrixUse::Left, _) => "coop_mat16x16<f16, A>",
        ValueType::Matrix(MatrixUse::Right, _) => "coop_mat16x16<f16, B>",
        ValueType::Matrix(MatrixUse::Sum, _) => "coop_mat16x16<f32, C>",
    }
}

/// Returns the name of a loop's counter, which must not be that of a type, such as `i32`.
fn counter(number: u32) -> String {
    let sign = if matches!(number, 8 | 16 | 32 | 64) { "_" } else { "" };
    format!("i{sign}{number}")
}
