//! Printing of kernels as WGSL.
//!
//! In: a [`Kernel`] and its launch's bindings. Out: a [`Dispatch`]. [`ShaderBuilder`] prints loads, stores,
//! and the functions that WGSL lacks.

use super::constructors::constructors;
use super::dispatch::Dispatch;
use super::functions::Function;
use super::operands::Operand;
use super::shader_builder::{ShaderBuilder, type_name};
use crate::narrow::has_words;
use crate::simt::spelling;
use crate::simt::{Block, Expr, ExprId, Fault, Kernel, MatrixUse, Role, Space, Stmt, ValueType, turns};
use gradloom_core::ir::{BinaryOp, CompareOp, DType, Number};

/// Returns the shader of a kernel.
pub(crate) fn print(kernel: &Kernel, mut source: ShaderBuilder<'_>) -> Dispatch {
    debug_assert_eq!(crate::simt::verify(kernel), Ok(()), "{kernel}");
    source.gated = kernel.is_gated();
    let constructors = constructors(kernel);
    for (i, array) in kernel.arrays.iter().enumerate() {
        let ty = format!("array<{}, {}>", name_of(array.ty), array.elements);
        match array.space {
            Space::Workgroup => source.global(format_args!("var<workgroup> a{i}: {ty};")),
            Space::Invocation if constructors[i].is_some() => {}
            Space::Invocation => source.line(format_args!("var a{i}: {ty};")),
        }
    }
    let types = kernel.arrays.iter().map(|array| array.ty).chain(kernel.variables.iter().copied());
    for ty in types {
        if matches!(ty, ValueType::Matrix(..)) {
            source.enable("wgpu_cooperative_matrix");
        }
    }
    if let Some(size) = kernel.subgroup {
        source.uses_subgroups(size);
    }
    let memory = kernel.buffers.iter().map(|buffer| match buffer.role {
        Role::Operand(read) => Memory::Operand(source.operands.reads[read].clone()),
        Role::Result(write) => Memory::Operand(source.operands.writes[write].clone()),
        Role::Workspace { start, bytes } => {
            Memory::Name(source.workspace(start..start + bytes, name_of(buffer.ty)))
        }
        Role::Table => Memory::Name(source.table(kernel.table.clone()).to_string()),
        Role::Status => {
            source.uses_status();
            Memory::Status
        }
    });
    let memory = memory.collect();
    let mut printer = Printer { kernel, memory, named: vec![false; kernel.exprs.len()] };
    let mut rest = &kernel.body.0[..];
    while let Some(statement) = rest.first() {
        let at = kernel.body.0.len() - rest.len();
        let array = constructors.iter().position(|&first| first == Some(at));
        let count = array.map_or(1, |array| printer.constructor(&mut source, array, rest));
        if array.is_none() {
            printer.statement(&mut source, statement);
        }
        rest = &rest[count..];
    }
    Dispatch { turns: turns(kernel), ..source.finish(&kernel.label, kernel.workgroup, kernel.groups) }
}

/// Representation of a buffer in the text.
enum Memory {
    Operand(Operand),
    /// Array with this name.
    Name(String),
    /// Words of the status, which are atomic.
    Status,
}

struct Printer<'k> {
    kernel: &'k Kernel,
    /// Representation of each buffer.
    memory: Vec<Memory>,
    /// True for each expression that has a name.
    named: Vec<bool>,
}

impl Printer<'_> {
    fn block(&mut self, source: &mut ShaderBuilder<'_>, block: &Block) {
        for statement in &block.0 {
            self.statement(source, statement);
        }
    }

    /// Declares an array with the elements that the next statements set; returns the number of those
    /// statements.
    fn constructor(&self, source: &mut ShaderBuilder<'_>, number: usize, statements: &[Stmt]) -> usize {
        let array = &self.kernel.arrays[number];
        let count = array.elements as usize;
        let mut values = Vec::with_capacity(count);
        for statement in &statements[..count] {
            if let Stmt::SetElement(_, _, value) = statement {
                values.push(self.text(source, *value));
            }
        }
        let ty = format!("array<{}, {count}>", name_of(array.ty));
        source.line(format_args!("var a{number} = {ty}({});", values.join(", ")));
        count
    }

    fn statement(&mut self, source: &mut ShaderBuilder<'_>, statement: &Stmt) {
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
                let [index, value] = self.texts(source, [index, value]);
                match &self.memory[*buffer as usize] {
                    Memory::Operand(operand) => source.store(operand, &index, &value),
                    Memory::Name(name) => source.line(format_args!("{name}[{index}] = {value};")),
                    Memory::Status => source.line(format_args!("atomicStore(&status[{index}], {value});")),
                }
            }
            Stmt::SetElement(array, index, value) => {
                let [index, value] = self.texts(source, [index, value]);
                source.line(format_args!("a{array}[{index}] = {value};"));
            }
            Stmt::StoreMatrix(array, index, pitch, value) => {
                let [index, value] = self.texts(source, [index, value]);
                source.line(format_args!("coopStoreT({value}, &a{array}[{index}], {pitch}u);"));
            }
            Stmt::If(condition, block) => {
                let condition = self.text(source, *condition);
                source.line(format_args!("if ({condition}) {{"));
                self.block(source, block);
                source.line("}");
            }
            Stmt::For(number, bounds, block) => {
                let i = counter(*number);
                let [start, end, step] = self.texts(source, bounds.each_ref());
                source.line(format_args!("for (var {i} = {start}; {i} < {end}; {i} += {step}) {{"));
                self.block(source, block);
                source.line("}");
            }
            Stmt::Barrier => source.line("workgroupBarrier();"),
            Stmt::StartProduct(_)
            | Stmt::AwaitProducts(..)
            | Stmt::StartCopy(_)
            | Stmt::EndCopies
            | Stmt::AwaitCopies(_) => {
                unreachable!("WGSL has no asynchronous work, and limits of its devices say so")
            }
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

    /// Returns the name of an expression, or its text if it has none.
    fn text(&self, source: &mut ShaderBuilder<'_>, id: ExprId) -> String {
        if self.named[id.index()] { format!("v{}", id.index()) } else { self.formula(source, id) }
    }

    fn texts<const N: usize>(&self, source: &mut ShaderBuilder<'_>, ids: [&ExprId; N]) -> [String; N] {
        ids.map(|id| self.text(source, *id))
    }

    fn is_zero(&self, id: ExprId) -> bool {
        *self.kernel.expr(id) == Expr::Literal(0)
    }

    /// Returns the condition of a selection between two values. If the condition compares one of these
    /// values, a driver may replace the selection by a minimum or maximum, which returns a number for NaN
    /// (NVIDIA's does). Such a condition therefore explicitly excludes NaN.
    fn choice(&self, source: &mut ShaderBuilder<'_>, condition: ExprId, values: [&ExprId; 2]) -> String {
        let mut text = self.text(source, condition);
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
            let is_nan = source.function(Function::IsNan);
            text = format!("({text} & !{is_nan}({}))", self.text(source, *id));
        }
        text
    }

    fn formula(&self, source: &mut ShaderBuilder<'_>, id: ExprId) -> String {
        let (ty, dtype) = (self.kernel.ty(id), self.kernel.dtype(id));
        let dtype_of = |id: &ExprId| self.kernel.dtype(*id);
        match self.kernel.expr(id) {
            Expr::Literal(bits) => source.constant(number(*bits, dtype), dtype),
            Expr::Group => "group".to_string(),
            Expr::Local => "local".to_string(),
            Expr::Committed => "committed".to_string(),
            Expr::Counter(number) => counter(*number),
            Expr::Read(number) => format!("x{number}"),
            Expr::Load(buffer, index) => {
                let index = self.text(source, *index);
                match &self.memory[*buffer as usize] {
                    Memory::Operand(operand) if matches!(ty, ValueType::Vector(4) | ValueType::Half4(_)) => {
                        source.load_vector(operand, &index)
                    }
                    Memory::Operand(operand) => source.load(operand, &index),
                    Memory::Name(name) => format!("{name}[{index}]"),
                    Memory::Status => format!("atomicLoad(&status[{index}])"),
                }
            }
            Expr::Element(array, index) => format!("a{array}[{}]", self.text(source, *index)),
            Expr::ShuffleXor(a, bits) => format!("subgroupShuffleXor({}, {bits}u)", self.text(source, *a)),
            Expr::Unary(op, a) => {
                let a = self.text(source, *a);
                source.call(spelling::unary(*op, dtype), &[&a])
            }
            Expr::Binary(BinaryOp::Sub, a, b) if a == b && ty == ValueType::Scalar(DType::F32) => {
                let a = self.text(source, *a);
                format!("abs({}({a}))", source.function(Function::TimesZero))
            }
            Expr::Binary(BinaryOp::Mul, a, b) if ty == ValueType::Scalar(DType::F32) && self.is_zero(*b) => {
                let a = self.text(source, *a);
                format!("{}({a})", source.function(Function::TimesZero))
            }
            Expr::Binary(op, a, b) => {
                let [a, b] = self.texts(source, [a, b]);
                source.call(spelling::binary(*op, dtype), &[&a, &b])
            }
            Expr::MulHigh(a, b) => {
                let [a, b] = self.texts(source, [a, b]);
                format!("{}({a}, {b})", source.function(Function::MulHigh))
            }
            Expr::Compare(op, a, b) => {
                let dtype = dtype_of(a);
                let [a, b] = self.texts(source, [a, b]);
                source.compare(*op, dtype, &a, &b)
            }
            Expr::Select(condition, yes, no) => {
                let condition = self.choice(source, *condition, [yes, no]);
                let [yes, no] = self.texts(source, [yes, no]);
                format!("select({no}, {yes}, {condition})")
            }
            Expr::Cast(a) if ty == ValueType::Vector(4) => format!("vec4<f32>({})", self.text(source, *a)),
            Expr::Cast(a) => {
                let from = dtype_of(a);
                let a = self.text(source, *a);
                source.cast(from, dtype, &a)
            }
            Expr::Bitcast(a) => format!("bitcast<{}>({})", type_name(dtype), self.text(source, *a)),
            Expr::MulAdd(abc) => {
                let [a, b, c] = self.texts(source, abc.each_ref());
                format!("fma({a}, {b}, {c})")
            }
            Expr::NativeMax(a, b) => {
                let [a, b] = self.texts(source, [a, b]);
                format!("max({a}, {b})")
            }
            // These expressions are emitted for CUDA only.
            Expr::NativeExp2(_)
            | Expr::MatrixResidual(_)
            | Expr::MatrixHalf(..)
            | Expr::MatrixOf(_)
            | Expr::MatrixFrom(_)
            | Expr::FourOf(..) => unreachable!(),
            Expr::NativeLog(a) => format!("log({})", self.text(source, *a)),
            Expr::Vector2(elements) => self.vector(source, elements),
            Expr::Vector4(elements) => self.vector(source, elements),
            Expr::Splat(a) => format!("vec4<f32>({})", self.text(source, *a)),
            Expr::Component(a, number) => {
                format!("{}.{}", self.text(source, *a), ["x", "y", "z", "w"][*number as usize])
            }
            Expr::ElementPart(array, index, part) => {
                let [index, part] = self.texts(source, [index, part]);
                format!("a{array}[{index}][{part}]")
            }
            Expr::ToHalf(a) => format!("vec4<f16>({})", self.text(source, *a)),
            Expr::Broadcast(array, index) => {
                format!("workgroupUniformLoad(&a{array}[{}])", self.text(source, *index))
            }
            Expr::MatrixZero => format!("{}()", name_of(ty)),
            Expr::MatrixLoad { array, index, pitch, by_rows } => {
                let index = self.text(source, *index);
                let function = if *by_rows { "coopLoadT" } else { "coopLoad" };
                format!("{function}<{}>(&a{array}[{index}], {pitch}u)", name_of(ty))
            }
            Expr::MatrixMulAdd(abc) => {
                let [a, b, c] = self.texts(source, abc.each_ref());
                format!("coopMultiplyAdd({a}, {b}, {c})")
            }
        }
    }
}

impl Printer<'_> {
    fn vector(&self, source: &mut ShaderBuilder<'_>, elements: &[ExprId]) -> String {
        let elements: Vec<String> = elements.iter().map(|&id| self.text(source, id)).collect();
        format!("vec{}<f32>({})", elements.len(), elements.join(", "))
    }
}

/// Returns the WGSL name of a type.
fn name_of(ty: ValueType) -> &'static str {
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

/// Returns the number that a literal represents.
fn number(bits: u32, dtype: DType) -> Number {
    match dtype {
        DType::F32 | DType::F16 | DType::BF16 => Number::Float(f32::from_bits(bits).into()),
        DType::I32 | DType::U8 => Number::Int(bits.cast_signed().into()),
        DType::I64 => has_words(),
        DType::U32 => Number::Int(bits.into()),
        DType::Bool => Number::Bool(bits != 0),
    }
}
