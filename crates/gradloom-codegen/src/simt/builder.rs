//! Builder of kernels: `let x = k.load(a, i); k.store(b, i, x * scale)`.
//!
//! In: calls in the order in which an invocation executes them. Out: a [`Kernel`]. Operators on [`Value`]s
//! take two values of one dtype, or a value and a u32 constant on the right. Index arithmetic on constants is
//! folded.

use super::ir::{
    Array, AsyncCopy, Block, Buffer, Expr, ExprId, Fault, Kernel, MatrixUse, ProductLeft, Role, SharedMatrix,
    Space, Stmt, ValueType, WarpgroupProduct,
};
use super::tidy::tidy;
use crate::narrow::narrow;
use gradloom_core::ir::{BinaryOp, CompareOp, DType, Number, ReduceOp, UnaryOp};
use std::cell::RefCell;
use std::ops::{Add, BitAnd, BitOr, BitXor, Div, Mul, Not, Rem, Shl, Shr, Sub};

/// Kernel under construction.
pub struct Builder {
    state: RefCell<BuilderState>,
}

struct BuilderState {
    kernel: Kernel,
    /// Statements of the open blocks, innermost last.
    open: Vec<Vec<Stmt>>,
}

/// Value that a kernel computes.
#[derive(Clone, Copy)]
pub struct Value<'k> {
    k: &'k Builder,
    /// Index of the value's expression in [`Kernel::exprs`].
    pub id: ExprId,
}

/// Mutable variable of a kernel.
#[derive(Clone, Copy)]
pub struct Variable<'k> {
    k: &'k Builder,
    number: u32,
}

/// Left operand of a product of warpgroups.
#[derive(Clone, Copy)]
pub enum Factor<'a, 'k> {
    /// Matrices of 16 terms each.
    Held(&'a [Value<'k>]),
    /// Rows of a matrix at the start of its array, 64 for each warpgroup.
    Shared(SharedMatrix),
}

/// Number of a buffer or array, as returned by the builder.
type Memory = u32;

impl Builder {
    /// Creates a kernel of `groups` workgroups of `workgroup` invocations.
    pub fn new(label: &str, workgroup: u32, groups: usize) -> Self {
        let kernel = Kernel {
            label: label.to_string(),
            workgroup,
            groups,
            buffers: Vec::new(),
            table: Vec::new(),
            arrays: Vec::new(),
            subgroup: None,
            exprs: Vec::new(),
            variables: Vec::new(),
            loops: 0,
            body: Block::default(),
        };
        Self { state: RefCell::new(BuilderState { kernel, open: vec![Vec::new()] }) }
    }

    /// Returns the finished kernel, without unused expressions.
    pub fn finish(self) -> Kernel {
        let BuilderState { mut kernel, mut open } = self.state.into_inner();
        kernel.body = Block(open.pop().expect("the body is open"));
        assert!(open.is_empty(), "gradloom left a block of a kernel open; please report this");
        tidy(&mut kernel);
        kernel
    }

    /// Returns the number of a buffer of the launch. Equal buffers have the same number.
    pub fn buffer(&self, role: Role, ty: impl Into<ValueType>) -> Memory {
        let mut state = self.state.borrow_mut();
        let (buffers, buffer) = (&mut state.kernel.buffers, Buffer { role, ty: ty.into() });
        if let Some(known) = buffers.iter().position(|known| *known == buffer) {
            return u32::try_from(known).expect(FEW);
        }
        buffers.push(buffer);
        last(buffers)
    }

    /// Sets the kernel's only table, which consists of constants that all invocations can read, and returns
    /// its buffer.
    pub fn table(&self, numbers: Vec<u32>) -> Memory {
        self.state.borrow_mut().kernel.table = numbers;
        self.buffer(Role::Table, DType::U32)
    }

    /// Creates an array shared by the invocations of a workgroup.
    pub fn shared(&self, ty: impl Into<ValueType>, elements: u32) -> Memory {
        self.array(Space::Workgroup, ty.into(), elements)
    }

    /// Creates an array private to each invocation.
    pub fn private(&self, ty: impl Into<ValueType>, elements: u32) -> Memory {
        self.array(Space::Invocation, ty.into(), elements)
    }

    fn array(&self, space: Space, ty: ValueType, elements: u32) -> Memory {
        let mut state = self.state.borrow_mut();
        state.kernel.arrays.push(Array { space, ty, elements });
        last(&state.kernel.arrays)
    }

    /// Returns a constant of a dtype, given by its bits.
    pub fn bits(&self, dtype: DType, bits: u32) -> Value<'_> {
        self.expr(Expr::Literal(bits), dtype)
    }

    /// Returns a u32 constant.
    pub fn u32(&self, number: u32) -> Value<'_> {
        self.bits(DType::U32, number)
    }

    /// Returns an i32 constant.
    pub fn i32(&self, number: i32) -> Value<'_> {
        self.bits(DType::I32, number.cast_unsigned())
    }

    /// Returns an f32 constant.
    pub fn f32(&self, number: f32) -> Value<'_> {
        self.bits(DType::F32, number.to_bits())
    }

    /// Returns a bool constant.
    pub fn bool(&self, is: bool) -> Value<'_> {
        self.bits(DType::Bool, is.into())
    }

    /// Returns a constant of a graph. Constants of 16-bit float dtypes become f32, and those of u8 become
    /// i32.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the number fits its dtype, but for the rounding of f32, as the verifier of graphs sees to"
    )]
    pub fn number(&self, number: Number, dtype: DType) -> Value<'_> {
        let number = number.as_f64();
        match dtype {
            DType::F32 | DType::F16 | DType::BF16 => self.f32(number as f32),
            DType::I32 | DType::U8 => self.i32(number as i32),
            DType::I64 => crate::narrow::has_words(),
            DType::U32 => self.u32(number as u32),
            DType::Bool => self.bool(number != 0.0),
        }
    }

    /// Returns the identity element of a reduction, which is its result for no elements.
    pub fn identity(&self, op: ReduceOp, dtype: DType) -> Value<'_> {
        self.number(op.identity(dtype), dtype)
    }

    /// Returns the workgroup's number, a u32.
    pub fn group(&self) -> Value<'_> {
        self.expr(Expr::Group, DType::U32)
    }

    /// Returns the invocation's number in its workgroup, a u32.
    pub fn local(&self) -> Value<'_> {
        self.expr(Expr::Local, DType::U32)
    }

    /// Returns a bool that is true if the step may write its results.
    pub fn committed(&self) -> Value<'_> {
        self.expr(Expr::Committed, DType::Bool)
    }

    /// Loads the element of a buffer at an index. A 16-bit float is widened to f32, a u8 to i32.
    pub fn load<'k>(&'k self, buffer: Memory, index: Value<'k>) -> Value<'k> {
        let ty = self.type_of_buffer(buffer);
        let value = self.expr(Expr::Load(buffer, index.id), ty);
        match ty {
            ValueType::Scalar(dtype) => value.cast(dtype.computed()),
            _ => value,
        }
    }

    fn type_of_buffer(&self, buffer: Memory) -> ValueType {
        self.state.borrow().kernel.buffers[buffer as usize].ty
    }

    /// Writes an element of a buffer. A buffer of 16-bit floats stores a rounded f32; a buffer of u8 stores
    /// the low eight bits of an i32.
    pub fn store(&self, buffer: Memory, index: Value<'_>, value: Value<'_>) {
        let value = match self.type_of_buffer(buffer) {
            ValueType::Scalar(dtype) if dtype.is_for_memory() => value.cast(dtype),
            _ => value,
        };
        self.push(Stmt::Store(buffer, index.id, value.id));
    }

    /// Loads the element of an array at an index.
    pub fn element<'k>(&'k self, array: Memory, index: Value<'k>) -> Value<'k> {
        self.expr(Expr::Element(array, index.id), self.type_of_array(array))
    }

    fn type_of_array(&self, array: Memory) -> ValueType {
        self.state.borrow().kernel.arrays[array as usize].ty
    }

    /// Returns the element of a workgroup's array at an index that is the same for all invocations. The load
    /// is also a barrier, which all invocations must reach.
    pub fn broadcast<'k>(&'k self, array: Memory, index: Value<'k>) -> Value<'k> {
        self.expr(Expr::Broadcast(array, index.id), self.type_of_array(array))
    }

    /// Returns a vector of two or four f32 elements.
    pub fn vector<'k>(&'k self, elements: &[Value<'k>]) -> Value<'k> {
        match *elements {
            [a, b] => self.expr(Expr::Vector2([a.id, b.id]), ValueType::Vector(2)),
            [a, b, c, d] => self.expr(Expr::Vector4([a.id, b.id, c.id, d.id]), ValueType::Vector(4)),
            _ => unreachable!("vectors have two elements or four"),
        }
    }

    /// Returns a vector of four f32 elements, each computed by `element` from its index.
    pub fn vector_of<'k>(&'k self, element: &dyn Fn(u32) -> Value<'k>) -> Value<'k> {
        self.vector(&[element(0), element(1), element(2), element(3)])
    }

    /// Returns a zeroed matrix accumulator.
    pub fn matrix_zero(&self) -> Value<'_> {
        self.expr(Expr::MatrixZero, ValueType::Matrix(MatrixUse::Sum, DType::F32))
    }

    /// Loads a matrix from an array of vectors of four elements, starting at item `index`. `pitch` is the
    /// number of items between consecutive rows if `by_rows`, else between consecutive columns.
    pub fn matrix<'k>(
        &'k self,
        which: MatrixUse,
        array: Memory,
        index: Value<'k>,
        (pitch, by_rows): (u32, bool),
    ) -> Value<'k> {
        let dtype = match self.type_of_array(array) {
            ValueType::Half4(dtype) => dtype,
            ValueType::Vector(4) => DType::F32,
            other => panic!("gradloom loads a matrix of {other}; please report this"),
        };
        let ty = ValueType::Matrix(which, dtype);
        self.expr(Expr::MatrixLoad { array, index: index.id, pitch, by_rows }, ty)
    }

    /// Writes a matrix row by row into an array, from an index on, with `pitch` elements between consecutive
    /// rows.
    pub fn store_matrix(&self, array: Memory, index: Value<'_>, pitch: u32, value: Value<'_>) {
        self.push(Stmt::StoreMatrix(array, index.id, pitch, value.id));
    }

    /// Creates an array for `stages` matrices of a 16-bit dtype, and returns the layout of each.
    pub fn shared_matrix(&self, half: DType, [rows, columns]: [u32; 2], stages: u32) -> SharedMatrix {
        let matrix = SharedMatrix { array: 0, rows, columns };
        let array = self.shared(ValueType::Half8(half), stages * matrix.items());
        SharedMatrix { array, ..matrix }
    }

    /// Returns the item of a matrix with the elements `8 * eight..8 * eight + 8` of a row; see
    /// [`SharedMatrix::item`].
    pub fn item_of<'k>(&'k self, matrix: SharedMatrix, row: Value<'k>, eight: Value<'k>) -> Value<'k> {
        let (eights, order) = (matrix.eights(), row / matrix.alike() % matrix.eights());
        match matrix.columns == matrix.panel() {
            true => row * eights + (eight ^ order),
            false => (eight / eights * matrix.rows + row) * eights + ((eight % eights) ^ order),
        }
    }

    /// Starts a copy of a vector of eight 16-bit floats from a buffer to an array. If `there` is false, zeros
    /// are written instead.
    pub fn start_copy(
        &self,
        (array, item): (Memory, Value<'_>),
        (buffer, index): (Memory, Value<'_>),
        there: Value<'_>,
    ) {
        let copy = AsyncCopy { array, item: item.id, buffer, index: index.id, there: there.id };
        self.push(Stmt::StartCopy(copy));
    }

    /// Combines the copies started since the last call into a batch.
    pub fn end_copies(&self) {
        self.push(Stmt::EndCopies);
    }

    /// Waits until at most `most` batches of copies are in progress.
    pub fn await_copies(&self, most: u32) {
        self.push(Stmt::AwaitCopies(most));
    }

    /// Starts a product of warpgroups. If `adds` is true, it is added to the sums; otherwise, it replaces
    /// them. `first` is the index of the first item of `right`. If `transposed` is true, the rows of
    /// `right` are the columns of the product.
    pub fn start_product<'k>(
        &'k self,
        (sums, adds): (&[Variable<'k>], bool),
        left: Factor<'_, 'k>,
        (right, first, transposed): (SharedMatrix, Value<'k>, bool),
    ) {
        let sums = sums.iter().map(|sum| sum.number).collect();
        let left = match left {
            Factor::Held(matrices) => ProductLeft::Held(matrices.iter().map(|matrix| matrix.id).collect()),
            Factor::Shared(matrix) => ProductLeft::Shared(matrix, self.u32(0).id),
        };
        let product = WarpgroupProduct { sums, adds, left, right, first: first.id, transposed };
        self.push(Stmt::StartProduct(Box::new(product)));
    }

    /// Waits until at most `most` products are in progress. `sums` are the sums of the products that are
    /// complete after that.
    pub fn await_products(&self, most: u32, sums: &[&[Variable<'_>]]) {
        let sums = sums.iter().copied().flatten().map(|sum| sum.number).collect();
        self.push(Stmt::AwaitProducts(most, sums));
    }

    /// Loads one element of the vector at an index of an array.
    pub fn element_part<'k>(&'k self, array: Memory, index: Value<'k>, part: Value<'k>) -> Value<'k> {
        self.expr(Expr::ElementPart(array, index.id, part.id), DType::F32)
    }

    /// Writes the element of an array at an index.
    pub fn set_element(&self, array: Memory, index: Value<'_>, value: Value<'_>) {
        self.push(Stmt::SetElement(array, index.id, value.id));
    }

    /// Creates a variable with an initial value.
    pub fn var<'k>(&'k self, first: Value<'k>) -> Variable<'k> {
        let ty = first.ty();
        let mut state = self.state.borrow_mut();
        state.kernel.variables.push(ty);
        let number = last(&state.kernel.variables);
        drop(state);
        self.push(Stmt::Var(number, first.id));
        Variable { k: self, number }
    }

    /// Appends a conditional block with the statements that `then` appends.
    pub fn when(&self, condition: Value<'_>, then: impl FnOnce()) {
        self.open();
        then();
        let block = self.close();
        self.push(Stmt::If(condition.id, block));
    }

    /// Appends the statements that `then` appends, in a conditional block if any conditions are given. The
    /// block requires all of them.
    pub fn guard<'k, const N: usize>(&'k self, conditions: [Option<Value<'k>>; N], then: impl FnOnce()) {
        match all(&conditions) {
            Some(condition) => self.when(condition, then),
            None => then(),
        }
    }

    /// Appends a loop over the statements that `body` appends. Its counter starts at `start`, increases by
    /// `step`, and stays below `end`.
    pub fn count<'k>(
        &'k self,
        start: Value<'k>,
        end: Value<'k>,
        step: Value<'k>,
        body: impl FnOnce(Value<'k>),
    ) {
        // The code before the block is in `loop_over`, which is not generic, so that it is compiled once.
        if let Some((number, counter)) = self.loop_over(start, end) {
            self.open();
            body(counter);
            let block = self.close();
            self.push(Stmt::For(number, [start.id, end.id, step.id], block));
        }
    }

    /// Appends a loop like [`Builder::count`]. If `is_apart`, the first iteration, which must exist, is
    /// peeled off and placed before the loop.
    pub fn count_apart<'k>(
        &'k self,
        is_apart: bool,
        [start, end, step]: [Value<'k>; 3],
        body: impl Fn(Value<'k>),
    ) {
        if is_apart {
            body(start);
        }
        self.count(if is_apart { start + step } else { start }, end, step, body);
    }

    /// Creates a loop and returns its number and counter; `None` if it is known to have no iterations.
    fn loop_over(&self, start: Value<'_>, end: Value<'_>) -> Option<(u32, Value<'_>)> {
        if let (Some(start), Some(end)) = (self.literal(start.id), self.literal(end.id))
            && start >= end
        {
            return None;
        }
        let mut state = self.state.borrow_mut();
        let number = state.kernel.loops;
        state.kernel.loops += 1;
        drop(state);
        Some((number, self.expr(Expr::Counter(number), DType::U32)))
    }

    /// Appends a loop over the statements that `body` appends, for the powers of two from `first` down to 1.
    /// `first` must be a power of two, or 0 for no iterations.
    pub fn halve<'k>(&'k self, first: u32, body: impl FnOnce(Value<'k>)) {
        let turns = first.checked_ilog2().map_or(0, |log| log + 1);
        self.count(self.u32(0), self.u32(turns), self.u32(1), |turn| body(self.u32(first) >> turn));
    }

    /// Requires subgroups of `size` invocations, numbered consecutively within the workgroup.
    pub fn uses_subgroups(&self, size: u32) {
        self.state.borrow_mut().kernel.subgroup = Some(size);
    }

    /// Appends a barrier for all invocations of the workgroup.
    pub fn barrier(&self) {
        self.push(Stmt::Barrier);
    }

    /// Appends a check that fails the step if an index, an i32, is outside of `0..extent`. Returns the
    /// nearest index in range, as a u32.
    pub fn check_index<'k>(&'k self, index: Value<'k>, extent: u32, position: Value<'k>) -> Value<'k> {
        self.report_index(index, extent, position);
        index.clamped(extent).cast(DType::U32)
    }

    /// Appends a check that fails the step if an index, an i32, is outside of `0..extent`.
    pub fn report_index(&self, index: Value<'_>, extent: u32, position: Value<'_>) {
        self.push(Stmt::Report(Fault::Index(index.id, extent), position.id));
    }

    /// Appends a check that fails the step if an integer divisor is zero.
    pub fn check_divisor(&self, divisor: Value<'_>, position: Value<'_>) {
        self.push(Stmt::Report(Fault::Divisor(divisor.id), position.id));
    }

    fn open(&self) {
        self.state.borrow_mut().open.push(Vec::new());
    }

    /// Closes the innermost open block.
    fn close(&self) -> Block {
        Block(self.state.borrow_mut().open.pop().expect("the block was opened"))
    }

    fn push(&self, statement: Stmt) {
        self.state.borrow_mut().open.last_mut().expect("a block is open").push(statement);
    }

    /// Appends an expression and, unless it is a leaf, the statement that evaluates it.
    fn expr(&self, expr: Expr, ty: impl Into<ValueType>) -> Value<'_> {
        let mut state = self.state.borrow_mut();
        let is_leaf = expr.is_leaf();
        state.kernel.exprs.push((expr, ty.into()));
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

/// Returns the conjunction of the given conditions; `None` if there are none.
fn all<'k>(conditions: &[Option<Value<'k>>]) -> Option<Value<'k>> {
    conditions.iter().copied().flatten().reduce(|a, b| a & b)
}

/// Returns the index of a list's last element.
fn last<T>(list: &[T]) -> u32 {
    u32::try_from(list.len() - 1).expect(FEW)
}

const FEW: &str = "a kernel has fewer than 2^32 of everything";

impl<'k> Value<'k> {
    /// Returns the value's type.
    pub fn ty(self) -> ValueType {
        self.k.state.borrow().kernel.ty(self.id)
    }

    /// Returns the dtype of a scalar; f32 for vectors, packed 16-bit floats and matrices.
    pub fn dtype(self) -> DType {
        self.k.state.borrow().kernel.dtype(self.id)
    }

    /// Applies a unary op to this value.
    pub fn unary(self, op: UnaryOp) -> Self {
        self.k.expr(Expr::Unary(op, self.id), self.ty())
    }

    /// Applies a binary op to the two values.
    pub fn binary(self, op: BinaryOp, other: Self) -> Self {
        if self.ty() == ValueType::Scalar(DType::U32)
            && let Some(folded) = self.folded(op, other)
        {
            return folded;
        }
        self.k.expr(Expr::Binary(op, self.id, other.id), self.ty())
    }

    /// Folds index arithmetic on constants; returns `None` if the operands do not determine the result.
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

    /// Compares the two values, and returns a bool.
    pub fn compare(self, op: CompareOp, other: Self) -> Self {
        self.k.expr(Expr::Compare(op, self.id, other.id), DType::Bool)
    }

    /// Returns a bool that is true if this value is less than a u32 constant.
    pub fn below(self, limit: u32) -> Self {
        self.less(self.k.u32(limit))
    }

    /// Returns a bool that is true if this value is less than another.
    pub fn less(self, other: Self) -> Self {
        self.compare(CompareOp::Lt, other)
    }

    /// Returns a bool that is true if both values are equal.
    pub fn equals(self, other: Self) -> Self {
        self.compare(CompareOp::Eq, other)
    }

    /// Returns the smaller of the two values.
    pub fn min(self, other: Self) -> Self {
        self.binary(BinaryOp::Min, other)
    }

    /// Returns the larger of the two values.
    pub fn max(self, other: Self) -> Self {
        self.binary(BinaryOp::Max, other)
    }

    /// Combines two partial results of a reduction.
    pub fn combine(self, op: ReduceOp, other: Self) -> Self {
        self.binary(op.combiner(), other)
    }

    /// Returns the number in `0..extent` that is nearest to this i32; 0 if the extent is 0.
    pub fn clamped(self, extent: u32) -> Self {
        let most = i32::try_from(extent.max(1) - 1).unwrap_or(i32::MAX);
        self.max(self.k.i32(0)).min(self.k.i32(most))
    }

    /// Returns this value in the invocation whose number in the subgroup differs in exactly the bits that are
    /// set in `bits`. Subgroups have `subgroup` invocations.
    pub fn shuffle_xor(self, bits: u32, subgroup: u32) -> Self {
        self.k.uses_subgroups(subgroup);
        self.k.expr(Expr::ShuffleXor(self.id, bits), self.ty())
    }

    /// Combines the values of each group of `lanes` consecutive invocations of a subgroup of `subgroup`
    /// invocations, which all receive the result. The invocations are combined in pairs, so the order depends
    /// only on `lanes`, a power of two.
    pub fn across_subgroup(self, op: ReduceOp, lanes: usize, subgroup: u32) -> Self {
        let mut sum = self;
        let mut half = lanes / 2;
        while half > 0 {
            sum = sum.combine(op, sum.shuffle_xor(narrow(half), subgroup));
            half /= 2;
        }
        sum
    }

    /// Returns `self * factor + summand`, rounded once if the device has such an instruction.
    pub fn mul_add(self, factor: Self, summand: Self) -> Self {
        self.k.expr(Expr::MulAdd([self.id, factor.id, summand.id]), self.ty())
    }

    /// Returns the product of this left operand and a right operand, added to `sum`; all three are matrices.
    pub fn matrix_mul_add(self, right: Self, sum: Self) -> Self {
        self.k.expr(Expr::MatrixMulAdd([self.id, right.id, sum.id]), sum.ty())
    }

    /// Returns this matrix, an f32 operand, minus its rounding to TF32.
    pub fn matrix_residual(self) -> Self {
        self.k.expr(Expr::MatrixResidual(self.id), self.ty())
    }

    /// Returns the invocation's elements of this matrix sum in its left (0) or right (1) eight columns.
    pub fn matrix_half(self, half: u32) -> Self {
        self.k.expr(Expr::MatrixHalf(self.id, half), ValueType::Vector(4))
    }

    /// Returns a matrix sum, given the invocation's elements of its left (`self`) and right eight columns.
    pub fn matrix_from(self, right: Self) -> Self {
        self.k.expr(Expr::MatrixFrom([self.id, right.id]), ValueType::Matrix(MatrixUse::Sum, DType::F32))
    }

    /// Converts this matrix sum to a left operand of a float dtype.
    pub fn to_left(self, half: DType) -> Self {
        self.k.expr(Expr::Cast(self.id), ValueType::Matrix(MatrixUse::Left, half))
    }

    /// Returns two to the power of this value, as the device computes it.
    pub fn native_exp2(self) -> Self {
        self.k.expr(Expr::NativeExp2(self.id), DType::F32)
    }

    /// Returns the larger of two f32; either of them if one is NaN.
    pub fn native_max(self, other: Self) -> Self {
        self.k.expr(Expr::NativeMax(self.id, other.id), DType::F32)
    }

    /// Returns the natural logarithm of this value, as the device computes it.
    pub fn native_log(self) -> Self {
        self.k.expr(Expr::NativeLog(self.id), DType::F32)
    }

    /// Returns a vector whose four elements are this f32.
    pub fn splat(self) -> Self {
        self.k.expr(Expr::Splat(self.id), ValueType::Vector(4))
    }

    /// Returns element `number` of this vector.
    pub fn component(self, number: u32) -> Self {
        self.k.expr(Expr::Component(self.id, number), DType::F32)
    }

    /// Converts this number to a dtype of graphs. The result for a 16-bit float dtype is an f32, rounded to
    /// that dtype; for u8 it is an i32.
    pub fn converted(self, dtype: DType) -> Self {
        let computed = self.cast(dtype.computed());
        if dtype.is_for_memory() { computed.cast(dtype).cast(computed.dtype()) } else { computed }
    }

    /// Converts two or four 16-bit floats to f32, and returns any other value unchanged.
    pub fn to_vector(self) -> Self {
        match self.ty() {
            ValueType::Half2(_) => self.k.expr(Expr::Cast(self.id), ValueType::Vector(2)),
            ValueType::Half4(_) => self.k.expr(Expr::Cast(self.id), ValueType::Vector(4)),
            _ => self,
        }
    }

    /// Returns the first and the last four of eight 16-bit floats.
    pub fn fours(self) -> [Self; 2] {
        let ValueType::Half8(half) = self.ty() else {
            panic!("gradloom takes two fours of {}; please report this", self.ty())
        };
        [0, 1].map(|part| self.k.expr(Expr::FourOf(self.id, part), ValueType::Half4(half)))
    }

    /// Returns an operand of matrix instructions, made of these four 16-bit floats and another four, see
    /// [`Expr::MatrixOf`].
    pub fn matrix_of(self, other: Self, which: MatrixUse) -> Self {
        let ValueType::Half4(half) = self.ty() else {
            panic!("gradloom makes a matrix of {}; please report this", self.ty())
        };
        self.k.expr(Expr::MatrixOf([self.id, other.id]), ValueType::Matrix(which, half))
    }

    /// Converts a vector of four elements to a float dtype, rounding it if the dtype has 16 bits.
    pub fn to_half(self, dtype: DType) -> Self {
        if dtype == DType::F32 {
            return self.to_vector();
        }
        let ty = ValueType::Half4(dtype);
        if self.ty() == ty {
            return self;
        }
        self.k.expr(Expr::ToHalf(self.to_vector().id), ty)
    }

    /// Returns the upper 32 bits of the product of two u32.
    pub fn mul_high(self, other: Self) -> Self {
        self.k.expr(Expr::MulHigh(self.id, other.id), DType::U32)
    }

    /// Returns `yes` if this bool is true, else `no`.
    pub fn select(self, yes: Self, no: Self) -> Self {
        self.k.expr(Expr::Select(self.id, yes.id, no.id), yes.ty())
    }

    /// Converts this number to another dtype.
    pub fn cast(self, dtype: DType) -> Self {
        if dtype == self.dtype() { self } else { self.k.expr(Expr::Cast(self.id), dtype) }
    }

    /// Reinterprets this number's bits as another dtype.
    pub fn bitcast(self, dtype: DType) -> Self {
        if dtype == self.dtype() { self } else { self.k.expr(Expr::Bitcast(self.id), dtype) }
    }
}

impl<'k> Variable<'k> {
    /// Returns the variable's current value.
    pub fn get(self) -> Value<'k> {
        let ty = self.k.state.borrow().kernel.variables[self.number as usize];
        self.k.expr(Expr::Read(self.number), ty)
    }

    /// Assigns a value to the variable.
    pub fn set(self, value: Value<'k>) {
        self.k.push(Stmt::Assign(self.number, value.id));
    }
}

/// Implements an operator for two values, and for a value and a u32 constant.
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
