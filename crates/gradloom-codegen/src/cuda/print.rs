//! Printing of a kernel as CUDA C.

use super::functions::{Function, Functions};
use super::warpgroups::{Step, descriptor};
use crate::narrow::has_words;
use crate::simt::spelling::{self, Spelling};
use crate::simt::{
    AsyncCopy, Block, Expr, ExprId, Fault, Kernel, MatrixUse, ProductLeft, Role, Space, Stmt, ValueType,
    WarpgroupProduct,
};
use gradloom_core::collections::SortedSet;
use gradloom_core::ir::{CompareOp, DType};
use std::fmt::Write;
use std::ops::Range;

/// Prints a kernel as a function with a given name. Returns the function's text, and `true` if the function
/// loads operands before it waits for the preceding kernels. Only operands for which `is_early` returns
/// `true` may be loaded early. `launch` is the index of the launch, which is recorded with a fault.
pub fn print(kernel: &Kernel, name: &str, launch: usize, is_early: &dyn Fn(Role) -> bool) -> (String, bool) {
    debug_assert_eq!(crate::simt::verify(kernel), Ok(()), "{kernel}");
    let mut printer = Printer {
        kernel,
        launch: launch + 1,
        named: vec![false; kernel.exprs.len()],
        functions: Functions::new(),
        steps: SortedSet::new(),
    };
    let mut body = String::new();
    let Block(statements) = &kernel.body;
    let loads = |statement: &Stmt, which: &dyn Fn(Role) -> bool| match statement {
        Stmt::Let(id) => {
            matches!(*kernel.expr(*id), Expr::Load(buffer, _) if which(kernel.buffers[buffer as usize].role))
        }
        _ => false,
    };
    // Waits for memory that preceding kernels write or read. Reports of faults need not wait, because they
    // may occur in any order, and kernels that read them wait.
    let needs_others = |statement: &Stmt| {
        matches!(statement, Stmt::Store(..) | Stmt::StartCopy(_)) || loads(statement, &|role| !is_early(role))
    };
    let waits = |statement: &Stmt| kernel.is_gated() || statement.any(&needs_others);
    let (free, rest) = statements.split_at(statements.iter().position(waits).unwrap_or(statements.len()));
    writeln!(body, "    {}();", printer.function(Function::Start)).expect(TEXT);
    printer.statements(&mut body, free, 1);
    writeln!(body, "    wait_for_others();").expect(TEXT);
    let loads_early = free.iter().any(|statement| statement.any(&|inner| loads(inner, &|_| true)));
    printer.statements(&mut body, rest, 1);
    let mut text = format!("// {}\n", kernel.label);
    let types = kernel
        .exprs
        .iter()
        .map(|&(_, ty)| ty)
        .chain(kernel.buffers.iter().map(|buffer| buffer.ty))
        .chain(kernel.arrays.iter().map(|array| array.ty));
    types.for_each(|ty| printer.declare(ty));
    printer.functions.iter().for_each(|function| text.push_str(function.text()));
    printer.steps.iter().for_each(|step| text.push_str(&step.text()));
    let buffers = kernel.buffers.iter().enumerate().filter(|(_, buffer)| buffer.role != Role::Status);
    let parameters = buffers.map(|(i, buffer)| {
        let access = if buffer.is_writable() { "" } else { "const " };
        format!("{access}{}* b{i}, ", stored_name(buffer.ty))
    });
    let parameters: String = parameters.collect();
    writeln!(
        text,
        "extern \"C\" __global__ void __launch_bounds__({}) {name}({parameters}unsigned* status) {{",
        kernel.workgroup
    )
    .expect(TEXT);
    declare_arrays(&mut text, kernel);
    text.push_str(&body);
    text.push_str("}\n");
    (text, loads_early)
}

/// Maximum number of bytes of shared memory that a kernel may declare with a fixed size.
const MOST_STATIC: u32 = 48 << 10;

/// Returns the size of a kernel's dynamic shared memory, in bytes. It is 0 if the arrays fit in 48 KB: the
/// kernel then declares them with fixed sizes.
pub(super) fn dynamic_memory(kernel: &Kernel) -> u32 {
    match arranged(kernel).last() {
        Some((_, range)) if range.end > MOST_STATIC => range.end,
        _ => 0,
    }
}

/// Returns the index of each shared array, and its range of bytes in dynamic shared memory.
fn arranged(kernel: &Kernel) -> Vec<(usize, Range<u32>)> {
    let mut end = 0;
    let mut all = Vec::new();
    for (i, array) in kernel.arrays.iter().enumerate().filter(|(_, array)| array.space == Space::Workgroup) {
        let start = u32::next_multiple_of(end, alignment(array.ty).unwrap_or(16));
        end = start + array.elements * stored_bytes(array.ty);
        all.push((i, start..end));
    }
    all
}

/// Returns the alignment that the instructions for arrays of a type require beyond that of their elements.
fn alignment(ty: ValueType) -> Option<u32> {
    match ty {
        // Descriptors of products require the alignment of the pattern in which vectors are permuted.
        ValueType::Half8(_) => Some(1024),
        // Matrix loads require an alignment of 16 bytes.
        ValueType::Half4(_) => Some(16),
        _ => None,
    }
}

fn declare_arrays(text: &mut String, kernel: &Kernel) {
    let is_dynamic = dynamic_memory(kernel) > 0;
    if is_dynamic {
        text.push_str("    extern __shared__ __align__(1024) unsigned char shared[];\n");
        for (i, range) in arranged(kernel) {
            let ty = type_name(kernel.arrays[i].ty);
            writeln!(text, "    {ty}* a{i} = ({ty}*)(shared + {});", range.start).expect(TEXT);
        }
    }
    for (i, array) in kernel.arrays.iter().enumerate() {
        let space = match array.space {
            Space::Invocation => String::new(),
            Space::Workgroup if is_dynamic => continue,
            Space::Workgroup => match alignment(array.ty) {
                Some(bytes) => format!("__shared__ __align__({bytes}) "),
                None => "__shared__ ".to_string(),
            },
        };
        writeln!(text, "    {space}{} a{i}[{}];", type_name(array.ty), array.elements).expect(TEXT);
    }
}

const TEXT: &str = "a string takes all text";

struct Printer<'k> {
    kernel: &'k Kernel,
    launch: usize,
    /// True for each expression that has a name.
    named: Vec<bool>,
    functions: Functions,
    /// Functions of warpgroup products.
    steps: SortedSet<Step>,
}

impl Printer<'_> {
    fn statements(&mut self, text: &mut String, statements: &[Stmt], depth: usize) {
        let indent = "    ".repeat(depth);
        for statement in statements {
            let line = self.statement(statement);
            writeln!(text, "{indent}{line}").expect(TEXT);
            if let Some(Block(block)) = statement.block() {
                self.statements(text, block, depth + 1);
                writeln!(text, "{indent}}}").expect(TEXT);
            }
        }
    }

    /// Returns the line of a statement; if the statement has a block, the line that opens the block.
    fn statement(&mut self, statement: &Stmt) -> String {
        match statement {
            Stmt::Let(id) => {
                let formula = self.formula(*id);
                self.named[id.index()] = true;
                format!("{} v{} = {formula};", type_name(self.kernel.ty(*id)), id.index())
            }
            Stmt::Var(number, first) => {
                let ty = type_name(self.kernel.variables[*number as usize]);
                format!("{ty} x{number} = {};", self.text(*first))
            }
            Stmt::Assign(number, value) => format!("x{number} = {};", self.text(*value)),
            Stmt::Store(buffer, index, value) => {
                let dtype = self.kernel.dtype(*value);
                // Round a value only once: take the f32 before a cast to the buffer's dtype.
                let source = match self.kernel.expr(*value) {
                    Expr::Cast(wide)
                        if dtype.is_float()
                            && dtype != self.kernel.dtype(*wide)
                            && self.kernel.dtype(*wide) == DType::F32 =>
                    {
                        wide
                    }
                    _ => value,
                };
                let (index, stored) = (self.text(*index), self.text(*source));
                let stored = match dtype {
                    DType::F16 => format!("f16_bits({stored})"),
                    DType::BF16 => format!("bf16_bits({stored})"),
                    _ => stored,
                };
                format!("{}[{index}] = {stored};", self.buffer(*buffer))
            }
            Stmt::SetElement(array, index, value) => {
                format!("a{array}[{}] = {};", self.text(*index), self.text(*value))
            }
            Stmt::StoreMatrix(array, index, pitch, value) => {
                format!("store_matrix(&a{array}[{}], {pitch}u, {});", self.text(*index), self.text(*value))
            }
            Stmt::If(condition, _) => format!("if ({}) {{", self.text(*condition)),
            Stmt::For(number, bounds, _) => {
                let [start, end, step] = bounds.map(|id| self.text(id));
                format!("for (unsigned i{number} = {start}; i{number} < {end}; i{number} += {step}) {{")
            }
            Stmt::Barrier => "__syncthreads();".to_string(),
            Stmt::StartProduct(product) => self.product(product),
            Stmt::AwaitProducts(most, sums) => {
                let keeps: String = sums.iter().map(|number| format!(" keep(x{number});")).collect();
                format!("await_products<{most}>();{keeps}")
            }
            Stmt::StartCopy(AsyncCopy { array, item, buffer, index, there }) => {
                let start = self.function(Function::Shared);
                let [item, index, there] = [item, index, there].map(|id| self.text(*id));
                let from = self.buffer(*buffer);
                format!("{start}(&a{array}[{item}], &{from}[{index}], {there});")
            }
            Stmt::EndCopies => "end_copies();".to_string(),
            Stmt::AwaitCopies(most) => format!("await_copies<{most}>();"),
            Stmt::Report(fault, position) => {
                let position = self.text(*position);
                let (condition, words) = match *fault {
                    Fault::Index(index, extent) => {
                        let index = self.text(index);
                        (format!("{index} < 0 || {index} >= {extent}"), format!("{index}, {extent}u"))
                    }
                    Fault::Divisor(divisor) => (format!("{} == 0", self.text(divisor)), "0, 0u".to_string()),
                };
                let report = self.function(Function::Report);
                format!("if ({condition}) {report}(status, {}u, {position}, {words});", self.launch)
            }
        }
    }

    /// Returns the line of a product: a call for each step of 16 terms.
    fn product(&mut self, product: &WarpgroupProduct) -> String {
        let WarpgroupProduct { sums, adds, left, right, first, transposed } = product;
        self.function(Function::Shared);
        let ValueType::Half8(dtype) = self.kernel.arrays[right.array as usize].ty else {
            unreachable!("the verifier has seen an array of halves")
        };
        let step = Step::new(product, dtype);
        self.steps.insert(step);
        let sums: Vec<String> = sums.iter().map(|number| format!("x{number}")).collect();
        let (constant, offsets) = descriptor(right, *transposed);
        let (array, first) = (right.array, self.text(*first));
        let mut text =
            format!("{{ unsigned long long b = descriptor_of(&a{array}[{first}], {constant:#x}ull);");
        let lefts: Vec<String> = match left {
            ProductLeft::Held(matrices) => {
                for (i, left) in matrices.iter().enumerate() {
                    write!(text, " Left l{i} = ready({});", self.text(*left)).expect(TEXT);
                }
                (0..matrices.len()).map(|i| format!("l{i}")).collect()
            }
            ProductLeft::Shared(matrix, first) => {
                let (constant, offsets) = descriptor(matrix, true);
                let (array, first) = (matrix.array, self.text(*first));
                let rows = WarpgroupProduct::ROWS * matrix.eights();
                write!(
                    text,
                    " unsigned long long a = descriptor_of(&a{array}[{first} + warpgroup() * {rows}u], {constant:#x}ull);"
                )
                .expect(TEXT);
                offsets.into_iter().map(|offset| format!("a + {offset}u")).collect()
            }
        };
        if *adds {
            sums.iter().for_each(|sum| write!(text, " keep({sum});").expect(TEXT));
        }
        text.push_str(" start_products();");
        for (i, (left, offset)) in lefts.into_iter().zip(offsets).enumerate() {
            let (sums, name, adds) = (sums.join(", "), step.name(), i32::from(*adds || i > 0));
            write!(text, " {name}({sums}, {left}, b + {offset}u, {adds});").expect(TEXT);
        }
        text + " end_products(); }"
    }

    /// Adds the functions that a type requires.
    fn declare(&mut self, ty: ValueType) {
        match ty {
            ValueType::Scalar(DType::F16) => _ = self.function(Function::F16),
            ValueType::Scalar(DType::BF16) => _ = self.function(Function::Bf16),
            ValueType::Scalar(_) => {}
            ValueType::Vector(_) => _ = self.function(Function::Vectors),
            ValueType::Half2(DType::BF16) | ValueType::Half4(DType::BF16) | ValueType::Half8(DType::BF16) => {
                _ = self.function(Function::Bfloat)
            }
            ValueType::Half2(_) | ValueType::Half4(_) | ValueType::Half8(_) => {
                _ = self.function(Function::Half)
            }
            ValueType::Matrix(which, dtype) => {
                self.function(Function::Matrix);
                if which != MatrixUse::Sum && dtype == DType::F32 {
                    self.function(Function::Tf32);
                }
            }
        }
    }

    /// Returns the name of a buffer's parameter.
    fn buffer(&self, number: u32) -> String {
        match self.kernel.buffers[number as usize].role {
            Role::Status => "status".to_string(),
            _ => format!("b{number}"),
        }
    }

    /// Adds a helper function to the text; returns its name.
    fn function(&mut self, function: Function) -> &'static str {
        self.functions.insert(function);
        function.name()
    }

    /// Returns the name of an expression, or its text if it has none.
    fn text(&mut self, id: ExprId) -> String {
        if self.named[id.index()] { format!("v{}", id.index()) } else { self.formula(id) }
    }

    fn formula(&mut self, id: ExprId) -> String {
        let dtype = self.kernel.dtype(id);
        let of: Vec<DType> = self.kernel.expr(id).operands().map(|id| self.kernel.dtype(id)).collect();
        let x: Vec<String> =
            self.kernel.expr(id).operands().collect::<Vec<_>>().into_iter().map(|id| self.text(id)).collect();
        match self.kernel.expr(id) {
            Expr::Literal(bits) => literal(*bits, dtype),
            Expr::Group => "blockIdx.x".to_string(),
            Expr::Local => "threadIdx.x".to_string(),
            Expr::Committed => "(status[0] == 0u)".to_string(),
            Expr::Counter(number) => format!("i{number}"),
            Expr::Read(number) => format!("x{number}"),
            Expr::Load(buffer, _) => {
                let element = format!("{}[{}]", self.buffer(*buffer), x[0]);
                match dtype {
                    DType::Bool => format!("({element} != 0)"),
                    DType::F16 => format!("from_f16({element})"),
                    DType::BF16 => format!("from_bf16({element})"),
                    _ => element,
                }
            }
            Expr::Element(array, _) => format!("a{array}[{}]", x[0]),
            Expr::ShuffleXor(_, bits) => format!("__shfl_xor_sync(0xffffffffu, {}, {bits})", x[0]),
            Expr::Unary(op, _) => self.call(spelling::unary(*op, dtype), &[&x[0]]),
            Expr::Binary(op, ..) => self.call(spelling::binary(*op, dtype), &[&x[0], &x[1]]),
            Expr::MulHigh(..) => format!("__umulhi({}, {})", x[0], x[1]),
            Expr::Compare(op, ..) => {
                let symbol = match op {
                    CompareOp::Eq => "==",
                    CompareOp::Ne => "!=",
                    CompareOp::Lt => "<",
                    CompareOp::Le => "<=",
                    CompareOp::Gt => ">",
                    CompareOp::Ge => ">=",
                };
                format!("({} {symbol} {})", x[0], x[1])
            }
            Expr::Select(..) => format!("({} ? {} : {})", x[0], x[1], x[2]),
            Expr::Cast(_) if matches!(self.kernel.ty(id), ValueType::Vector(_)) => {
                format!("to_vector({})", x[0])
            }
            Expr::Cast(_) if matches!(self.kernel.ty(id), ValueType::Matrix(..)) => {
                let round = match self.kernel.ty(id) {
                    ValueType::Matrix(_, DType::F32) => return format!("left_tf32({})", x[0]),
                    ValueType::Matrix(_, DType::BF16) => Function::LeftBf16,
                    _ => Function::Left,
                };
                format!("{}({})", self.function(round), x[0])
            }
            Expr::FourOf(_, part) => format!("{}.fours[{part}]", x[0]),
            Expr::MatrixResidual(_) => format!("residual({})", x[0]),
            Expr::MatrixHalf(_, half) => format!("half_of_sum<{half}>({})", x[0]),
            Expr::MatrixOf(_) => {
                let lines = if let ValueType::Matrix(MatrixUse::Left, _) = self.kernel.ty(id) {
                    "left_of"
                } else {
                    "right_of"
                };
                format!("{lines}({}, {})", x[0], x[1])
            }
            Expr::MatrixFrom(_) => format!("sum_of({}, {})", x[0], x[1]),
            Expr::NativeExp2(_) => format!("{}({})", self.function(Function::Exp2), x[0]),
            Expr::Cast(_) => match (of[0], dtype) {
                (DType::F16 | DType::BF16 | DType::U8, _) => x[0].clone(),
                // Mask the value, which remains an int.
                (_, DType::U8) => format!("({} & 255)", x[0]),
                // Round the value, which remains a float.
                (_, DType::F16) => format!("from_f16(f16_bits({}))", x[0]),
                (_, DType::BF16) => format!("from_bf16(bf16_bits({}))", x[0]),
                // These conversions saturate, and convert NaN to 0.
                (DType::F32, DType::I32) => format!("__float2int_rz({})", x[0]),
                (DType::F32, DType::U32) => format!("__float2uint_rz({})", x[0]),
                (DType::F32, DType::Bool) => format!("(!({} == 0.0f))", x[0]),
                (_, DType::Bool) => format!("({} != 0)", x[0]),
                _ => format!("({})({})", type_name(dtype), x[0]),
            },
            Expr::MulAdd(_) if self.kernel.ty(id) == DType::F32.into() => {
                format!("fmaf({}, {}, {})", x[0], x[1], x[2])
            }
            Expr::MulAdd(_) => format!("mul_add({}, {}, {})", x[0], x[1], x[2]),
            Expr::NativeMax(..) => format!("fmaxf({}, {})", x[0], x[1]),
            Expr::NativeLog(_) => format!("logf({})", x[0]),
            Expr::Vector2(_) => format!("make_float2({})", x.join(", ")),
            Expr::Vector4(_) => format!("make_float4({})", x.join(", ")),
            Expr::Splat(_) => format!("splat({})", x[0]),
            Expr::Component(_, number) => format!("{}.{}", x[0], ["x", "y", "z", "w"][*number as usize]),
            Expr::ElementPart(array, ..) => format!("(&a{array}[{}].x)[{}]", x[0], x[1]),
            Expr::ToHalf(_) => match self.kernel.ty(id) {
                ValueType::Half4(DType::BF16) => format!("to_bfloat({})", x[0]),
                _ => format!("to_half({})", x[0]),
            },
            Expr::Broadcast(array, _) => {
                format!("(__syncthreads(), {}(a{array}[{}]))", self.function(Function::Meet), x[0])
            }
            Expr::MatrixZero => "Sum()".to_string(),
            Expr::MatrixLoad { array, pitch, by_rows, .. } => {
                let which = type_name(self.kernel.ty(id));
                format!("load_matrix<{which}, {by_rows}>(&a{array}[{}], {pitch}u)", x[0])
            }
            Expr::MatrixMulAdd([left, ..]) => {
                let multiply = match self.kernel.ty(*left) {
                    ValueType::Matrix(_, DType::BF16) => Function::MultiplyBf16,
                    ValueType::Matrix(_, DType::F32) => Function::Tf32,
                    _ => Function::Multiply,
                };
                format!("{}({}, {}, {})", self.function(multiply), x[0], x[1], x[2])
            }
            Expr::Bitcast(_) => match (of[0], dtype) {
                (DType::F32, _) => format!("({})__float_as_int({})", type_name(dtype), x[0]),
                (_, DType::F32) => format!("__int_as_float((int)({}))", x[0]),
                _ => format!("({})({})", type_name(dtype), x[0]),
            },
        }
    }

    /// Returns a call of an elementwise function, as spelled in CUDA C.
    fn call(&mut self, spelling: Spelling, operands: &[&str]) -> String {
        let (text, called) = spelling::fill(spelling.cuda, operands);
        if let Some(helper) = called.and_then(Function::named) {
            self.function(helper);
        }
        text
    }
}

fn literal(bits: u32, dtype: DType) -> String {
    match dtype {
        DType::F32 | DType::F16 | DType::BF16 => match f32::from_bits(bits) {
            number if number.is_finite() => format!("({number:?}f)"),
            _ => format!("__int_as_float({bits:#x})"),
        },
        DType::I32 if bits == 1 << 31 => "(-2147483647 - 1)".to_string(),
        DType::I32 | DType::U8 => format!("({})", bits.cast_signed()),
        DType::U32 => format!("{bits}u"),
        DType::Bool => (bits != 0).to_string(),
        DType::I64 => has_words(),
    }
}

/// Returns the name of the type in which values of a type are computed.
fn type_name(ty: impl Into<ValueType>) -> &'static str {
    match ty.into() {
        ValueType::Scalar(DType::F32 | DType::F16 | DType::BF16) => "float",
        ValueType::Scalar(DType::I32 | DType::U8) => "int",
        ValueType::Scalar(DType::I64) => has_words(),
        ValueType::Scalar(DType::U32) => "unsigned",
        ValueType::Scalar(DType::Bool) => "bool",
        ValueType::Vector(2) => "float2",
        ValueType::Vector(_) => "float4",
        ValueType::Half2(DType::BF16) => "Bfloat2",
        ValueType::Half2(_) => "Half2",
        ValueType::Half4(DType::BF16) => "Bfloat4",
        ValueType::Half4(_) => "Half4",
        ValueType::Half8(DType::BF16) => "Bfloat8",
        ValueType::Half8(_) => "Half8",
        ValueType::Matrix(MatrixUse::Left, DType::F32) => "WideLeft",
        ValueType::Matrix(MatrixUse::Right, DType::F32) => "WideRight",
        ValueType::Matrix(MatrixUse::Left, _) => "Left",
        ValueType::Matrix(MatrixUse::Right, _) => "Right",
        ValueType::Matrix(MatrixUse::Sum, _) => "Sum",
    }
}

/// Returns the number of bytes of a value in an array.
fn stored_bytes(ty: ValueType) -> u32 {
    match ty {
        ValueType::Scalar(DType::Bool) => 1,
        ValueType::Scalar(_) | ValueType::Half2(_) => 4,
        ValueType::Vector(elements) => 4 * elements,
        ValueType::Half4(_) => 8,
        ValueType::Half8(_) => 16,
        ValueType::Matrix(..) => unreachable!("arrays hold no matrices"),
    }
}

/// Returns the name of a type in memory, where bools and u8 are bytes, and 16-bit floats are integers.
pub(super) fn stored_name(ty: ValueType) -> &'static str {
    match ty {
        ValueType::Scalar(DType::Bool | DType::U8) => "unsigned char",
        ValueType::Scalar(DType::F16 | DType::BF16) => "unsigned short",
        _ => type_name(ty),
    }
}
