//! Writes kernels: `let x = k.load(a, i); k.store(b, i, x * scale)`.
//!
//! In: calls in the order in which an invocation is to do things. Out: a [`Kernel`]. Operators on
//! [`Value`]s take values of one dtype, and u32 numbers on the right. What numbers alone decide, of index
//! arithmetic, is decided here.

use super::ir::{Block, Buffer, Expr, ExprId, Fault, Kernel, Role, Shared, Stmt};
use super::tidy::tidy;
use gradloom_core::ir::{BinaryOp, CompareOp, DType, Number, UnaryOp};
use std::cell::RefCell;
use std::ops::{Add, BitAnd, BitOr, BitXor, Div, Mul, Not, Rem, Shl, Shr, Sub};

/// A kernel in the making.
pub struct Builder {
    state: RefCell<State>,
}

struct State {
    kernel: Kernel,
    /// The statements so far of the blocks that are open, the innermost last.
    open: Vec<Vec<Stmt>>,
}

/// A scalar that the kernel computes.
#[derive(Clone, Copy)]
pub struct Value<'k> {
    k: &'k Builder,
    /// Its expression.
    pub id: ExprId,
}

/// A scalar that statements change.
#[derive(Clone, Copy)]
pub struct Variable<'k> {
    k: &'k Builder,
    number: u32,
}

/// Number of a buffer or of shared memory, as the builder gave it.
type Memory = u32;

impl Builder {
    /// A kernel that `groups` workgroups of `workgroup` invocations are to run.
    pub fn new(label: &str, workgroup: u32, groups: usize) -> Self {
        let kernel = Kernel {
            label: label.to_string(),
            workgroup,
            groups,
            buffers: Vec::new(),
            shared: Vec::new(),
            exprs: Vec::new(),
            variables: Vec::new(),
            loops: 0,
            body: Block::default(),
        };
        Self { state: RefCell::new(State { kernel, open: vec![Vec::new()] }) }
    }

    /// The kernel.
    pub fn finish(self) -> Kernel {
        let State { mut kernel, mut open } = self.state.into_inner();
        kernel.body = Block(open.pop().expect("the body is open"));
        assert!(open.is_empty(), "gradloom left a block of a kernel open; please report this");
        tidy(&mut kernel);
        kernel
    }

    /// A buffer of the launch: the same number for the same one.
    pub fn buffer(&self, role: Role, dtype: DType) -> Memory {
        let mut state = self.state.borrow_mut();
        let (buffers, buffer) = (&mut state.kernel.buffers, Buffer { role, dtype });
        if let Some(known) = buffers.iter().position(|known| *known == buffer) {
            return u32::try_from(known).expect(FEW);
        }
        buffers.push(buffer);
        last(buffers)
    }

    /// Memory of the workgroup.
    pub fn shared(&self, dtype: DType, elements: u32) -> Memory {
        let mut state = self.state.borrow_mut();
        state.kernel.shared.push(Shared { dtype, elements });
        last(&state.kernel.shared)
    }

    /// A number of a dtype by its bits.
    pub fn bits(&self, dtype: DType, bits: u32) -> Value<'_> {
        self.expr(Expr::Literal(bits), dtype)
    }

    /// A u32.
    pub fn u32(&self, number: u32) -> Value<'_> {
        self.bits(DType::U32, number)
    }

    /// An i32.
    pub fn i32(&self, number: i32) -> Value<'_> {
        self.bits(DType::I32, number.cast_unsigned())
    }

    /// A f32.
    pub fn f32(&self, number: f32) -> Value<'_> {
        self.bits(DType::F32, number.to_bits())
    }

    /// True or false.
    pub fn bool(&self, is: bool) -> Value<'_> {
        self.bits(DType::Bool, is.into())
    }

    /// A number of a graph.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the number fits its dtype, but for the rounding of f32, as the verifier of graphs sees to"
    )]
    pub fn number(&self, number: Number, dtype: DType) -> Value<'_> {
        let number = number.as_f64();
        match dtype {
            DType::F32 => self.f32(number as f32),
            DType::I32 => self.i32(number as i32),
            DType::U32 => self.u32(number as u32),
            DType::Bool => self.bool(number != 0.0),
        }
    }

    /// Number of the workgroup, u32.
    pub fn group(&self) -> Value<'_> {
        self.expr(Expr::Group, DType::U32)
    }

    /// Number of the invocation in its workgroup, u32.
    pub fn local(&self) -> Value<'_> {
        self.expr(Expr::Local, DType::U32)
    }

    /// Whether the step may write its results.
    pub fn committed(&self) -> Value<'_> {
        self.expr(Expr::Committed, DType::Bool)
    }

    /// The element of a buffer at an index.
    pub fn load<'k>(&'k self, buffer: Memory, index: Value<'k>) -> Value<'k> {
        let dtype = self.state.borrow().kernel.buffers[buffer as usize].dtype;
        self.expr(Expr::Load(buffer, index.id), dtype)
    }

    /// Writes an element of a buffer.
    pub fn store(&self, buffer: Memory, index: Value<'_>, value: Value<'_>) {
        self.push(Stmt::Store(buffer, index.id, value.id));
    }

    /// The element of shared memory at an index.
    pub fn load_shared<'k>(&'k self, shared: Memory, index: Value<'k>) -> Value<'k> {
        let dtype = self.state.borrow().kernel.shared[shared as usize].dtype;
        self.expr(Expr::LoadShared(shared, index.id), dtype)
    }

    /// Writes an element of shared memory.
    pub fn store_shared(&self, shared: Memory, index: Value<'_>, value: Value<'_>) {
        self.push(Stmt::StoreShared(shared, index.id, value.id));
    }

    /// A variable with its first value.
    pub fn var<'k>(&'k self, first: Value<'k>) -> Variable<'k> {
        let dtype = first.dtype();
        let mut state = self.state.borrow_mut();
        state.kernel.variables.push(dtype);
        let number = last(&state.kernel.variables);
        drop(state);
        self.push(Stmt::Var(number, first.id));
        Variable { k: self, number }
    }

    /// What `then` does, where a condition holds.
    pub fn when(&self, condition: Value<'_>, then: impl FnOnce()) {
        let block = self.block(then);
        self.push(Stmt::If(condition.id, block));
    }

    /// What `body` does with a counter that starts at `start`, grows by `step`, and stays below `end`.
    pub fn count<'k>(
        &'k self,
        start: Value<'k>,
        end: Value<'k>,
        step: Value<'k>,
        body: impl FnOnce(Value<'k>),
    ) {
        let mut state = self.state.borrow_mut();
        let number = state.kernel.loops;
        state.kernel.loops += 1;
        drop(state);
        let counter = self.expr(Expr::Counter(number), DType::U32);
        let block = self.block(|| body(counter));
        self.push(Stmt::For(number, [start.id, end.id, step.id], block));
    }

    /// All invocations of the workgroup meet here.
    pub fn barrier(&self) {
        self.push(Stmt::Barrier);
    }

    /// Makes the step fail where an index is outside of `0..extent`; gives the index that is in range and
    /// nearest, as u32. Of an extent of 0 it is 0.
    pub fn check_index<'k>(&'k self, index: Value<'k>, extent: u32, position: Value<'k>) -> Value<'k> {
        self.push(Stmt::Report(Fault::Index(index.id, extent), position.id));
        let most = self.i32(i32::try_from(extent.max(1) - 1).unwrap_or(i32::MAX));
        index.max(self.i32(0)).min(most).cast(DType::U32)
    }

    /// Makes the step fail where an integer divisor is zero.
    pub fn check_divisor(&self, divisor: Value<'_>, position: Value<'_>) {
        self.push(Stmt::Report(Fault::Divisor(divisor.id), position.id));
    }

    fn block(&self, statements: impl FnOnce()) -> Block {
        self.state.borrow_mut().open.push(Vec::new());
        statements();
        Block(self.state.borrow_mut().open.pop().expect("the block was opened"))
    }

    fn push(&self, statement: Stmt) {
        self.state.borrow_mut().open.last_mut().expect("a block is open").push(statement);
    }

    /// An expression, evaluated here.
    fn expr(&self, expr: Expr, dtype: DType) -> Value<'_> {
        let mut state = self.state.borrow_mut();
        let is_leaf = expr.is_leaf();
        state.kernel.exprs.push((expr, dtype));
        let id = ExprId(last(&state.kernel.exprs));
        drop(state);
        if !is_leaf {
            self.push(Stmt::Let(id));
        }
        Value { k: self, id }
    }

    fn literal(&self, id: ExprId) -> Option<u32> {
        match self.state.borrow().kernel.expr(id) {
            Expr::Literal(bits) => Some(*bits),
            _ => None,
        }
    }
}

/// The number of the last one.
fn last<T>(list: &[T]) -> u32 {
    u32::try_from(list.len() - 1).expect(FEW)
}

const FEW: &str = "a kernel has fewer than 2^32 of everything";

impl<'k> Value<'k> {
    /// Its dtype.
    pub fn dtype(self) -> DType {
        self.k.state.borrow().kernel.dtype(self.id)
    }

    /// A function of it.
    pub fn unary(self, op: UnaryOp) -> Self {
        self.k.expr(Expr::Unary(op, self.id), self.dtype())
    }

    /// A function of both.
    pub fn binary(self, op: BinaryOp, other: Self) -> Self {
        let dtype = self.dtype();
        if dtype == DType::U32
            && let Some(folded) = self.folded(op, other)
        {
            return folded;
        }
        self.k.expr(Expr::Binary(op, self.id, other.id), dtype)
    }

    /// What index arithmetic comes to, where numbers alone decide it.
    fn folded(self, op: BinaryOp, other: Self) -> Option<Self> {
        let (a, b) = (self.k.literal(self.id), self.k.literal(other.id));
        match (op, a, b) {
            (BinaryOp::Add, Some(a), Some(b)) => Some(self.k.u32(a.wrapping_add(b))),
            (BinaryOp::Sub, Some(a), Some(b)) => Some(self.k.u32(a.wrapping_sub(b))),
            (BinaryOp::Mul, Some(a), Some(b)) => Some(self.k.u32(a.wrapping_mul(b))),
            (BinaryOp::Div, Some(a), Some(b)) => Some(self.k.u32(a.checked_div(b)?)),
            (BinaryOp::Rem, Some(a), Some(b)) => Some(self.k.u32(a.checked_rem(b)?)),
            (BinaryOp::Add, Some(0), _) | (BinaryOp::Mul, Some(1), _) => Some(other),
            (BinaryOp::Add | BinaryOp::Sub, _, Some(0)) | (BinaryOp::Mul | BinaryOp::Div, _, Some(1)) => {
                Some(self)
            }
            (BinaryOp::Mul, Some(0), _) | (BinaryOp::Mul, _, Some(0)) | (BinaryOp::Rem, _, Some(1)) => {
                Some(self.k.u32(0))
            }
            _ => None,
        }
    }

    /// Whether both compare so.
    pub fn compare(self, op: CompareOp, other: Self) -> Self {
        self.k.expr(Expr::Compare(op, self.id, other.id), DType::Bool)
    }

    /// Whether it is less than a u32.
    pub fn below(self, limit: u32) -> Self {
        self.compare(CompareOp::Lt, self.k.u32(limit))
    }

    /// Whether both are equal.
    pub fn equals(self, other: Self) -> Self {
        self.compare(CompareOp::Eq, other)
    }

    /// The smaller of both.
    pub fn min(self, other: Self) -> Self {
        self.binary(BinaryOp::Min, other)
    }

    /// The larger of both.
    pub fn max(self, other: Self) -> Self {
        self.binary(BinaryOp::Max, other)
    }

    /// The upper half of a product of two u32.
    pub fn mul_high(self, other: Self) -> Self {
        self.k.expr(Expr::MulHigh(self.id, other.id), DType::U32)
    }

    /// `yes` where this bool holds, else `no`.
    pub fn select(self, yes: Self, no: Self) -> Self {
        self.k.expr(Expr::Select(self.id, yes.id, no.id), yes.dtype())
    }

    /// The number as another dtype.
    pub fn cast(self, dtype: DType) -> Self {
        if dtype == self.dtype() { self } else { self.k.expr(Expr::Cast(self.id), dtype) }
    }

    /// The bits as another dtype.
    pub fn bitcast(self, dtype: DType) -> Self {
        if dtype == self.dtype() { self } else { self.k.expr(Expr::Bitcast(self.id), dtype) }
    }
}

impl<'k> Variable<'k> {
    /// What it has now.
    pub fn get(self) -> Value<'k> {
        let dtype = self.k.state.borrow().kernel.variables[self.number as usize];
        self.k.expr(Expr::Read(self.number), dtype)
    }

    /// Gives it another value.
    pub fn set(self, value: Value<'k>) {
        self.k.push(Stmt::Assign(self.number, value.id));
    }
}

/// Operators between values, and between a u32 value and a number.
macro_rules! operators {
    ($($trait:ident $method:ident $op:ident),* $(,)?) => {$(
        impl $trait for Value<'_> {
            type Output = Self;
            fn $method(self, other: Self) -> Self {
                self.binary(BinaryOp::$op, other)
            }
        }
        impl $trait<u32> for Value<'_> {
            type Output = Self;
            fn $method(self, other: u32) -> Self {
                self.binary(BinaryOp::$op, self.k.u32(other))
            }
        }
    )*};
}

operators! {
    Add add Add, Sub sub Sub, Mul mul Mul, Div div Div, Rem rem Rem,
    BitAnd bitand And, BitOr bitor Or, BitXor bitxor Xor, Shl shl Shl, Shr shr Shr,
}

impl Not for Value<'_> {
    type Output = Self;
    fn not(self) -> Self {
        self.unary(UnaryOp::Not)
    }
}
