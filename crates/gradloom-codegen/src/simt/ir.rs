//! Intermediate representation of kernels.
//!
//! Expressions are stored in an arena, refer to their operands by number, and have no side effects.
//! Statements determine the order of evaluation: [`Stmt::Let`] evaluates an expression. An expression that
//! reads memory or a variable ([`Expr::is_impure`]) is evaluated only by its `Let`. All others, and reads of
//! variables without a `Let`, are evaluated wherever they are used.

use gradloom_core::ir::{BinaryOp, CompareOp, DType, UnaryOp};

/// Number of an expression in its kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ExprId(pub(super) u32);

impl ExprId {
    /// Returns the expression's index in [`Kernel::exprs`].
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// Type of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ValueType {
    /// One number or bool.
    Scalar(DType),
    /// Vector of 2 or 4 f32 elements.
    Vector(u32),
    /// Two floats of this 16-bit dtype, packed as in memory.
    Half2(DType),
    /// Four floats of this 16-bit dtype.
    Half4(DType),
    /// Eight floats of this 16-bit dtype.
    Half8(DType),
    /// Matrix of 16 x 16 elements of a dtype, distributed over a subgroup.
    Matrix(MatrixUse, DType),
}

impl ValueType {
    /// Returns the type of two packed elements of a float dtype.
    pub fn two(dtype: DType) -> Self {
        if dtype.is_for_memory() { Self::Half2(dtype) } else { Self::Vector(2) }
    }

    /// Returns the type of four packed elements of a float dtype.
    pub fn four(dtype: DType) -> Self {
        if dtype.is_for_memory() { Self::Half4(dtype) } else { Self::Vector(4) }
    }
}

/// Positions of an invocation's elements in a matrix sum, on devices that specify them (NVIDIA's PTX ISA,
/// "Matrix fragments for mma.m16n8k16").
#[derive(Clone, Copy, Debug)]
pub struct FragmentPlace;

impl FragmentPlace {
    /// Returns the row and the column of an element (0 to 3) that an invocation, `lane`, holds in the left
    /// (0) or right (1) half of the matrix.
    pub fn of(lane: usize, half: usize, element: usize) -> [usize; 2] {
        [lane / 4 + element / 2 * 8, lane % 4 * 2 + element % 2 + half * 8]
    }
}

/// Matrix of 16-bit floats in a workgroup's array of [`ValueType::Half8`], in the layout that a
/// [`WarpgroupProduct`] reads. Its columns are divided into panels of up to 64. Within a panel, rows are
/// contiguous, and the vectors of a row are permuted so that equal columns of eight consecutive rows are in
/// different banks. (PTX ISA, "Asynchronous warpgroup level matrix shared memory layout".)
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SharedMatrix {
    /// Number of the array.
    pub array: u32,
    /// Number of rows, a multiple of 64.
    pub rows: u32,
    /// Number of columns, a multiple of 16.
    pub columns: u32,
}

impl SharedMatrix {
    /// Number of elements of an item of the array.
    pub const EIGHT: u32 = 8;

    /// Returns the number of columns of a panel.
    pub fn panel(&self) -> u32 {
        [64, 32].into_iter().find(|&panel| self.columns.is_multiple_of(panel)).unwrap_or(16)
    }

    /// Returns the number of items of the matrix.
    pub fn items(&self) -> u32 {
        self.rows * self.columns / Self::EIGHT
    }

    /// Returns the number of vectors of eight elements in a row of a panel.
    pub fn eights(&self) -> u32 {
        self.panel() / Self::EIGHT
    }

    /// Returns the number of consecutive rows whose vectors have the same order.
    pub fn alike(&self) -> u32 {
        8 / self.eights()
    }

    /// Returns the item with the elements `8 * eight..8 * eight + 8` of a row.
    pub fn item(&self, row: u32, eight: u32) -> u32 {
        let (panel, along) = (eight / self.eights(), eight % self.eights());
        let place = along ^ (row / self.alike() % self.eights());
        (panel * self.rows + row) * self.eights() + place
    }
}

/// Product with 64 rows per warpgroup (four subgroups of 32 invocations). Each subgroup holds the sums of 16
/// of these rows.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct WarpgroupProduct {
    /// Variables with the sums, 16 columns each, from left to right.
    pub sums: Vec<u32>,
    /// True if the product is added to the sums; false if it replaces them.
    pub adds: bool,
    /// Left operand.
    pub left: ProductLeft,
    /// Right operand.
    pub right: SharedMatrix,
    /// Index of the right operand's first item in its array, a multiple of 64 that is the same for all
    /// invocations.
    pub first: ExprId,
    /// True if the rows of `right` are the columns of the product; false if they are its terms.
    pub transposed: bool,
}

impl WarpgroupProduct {
    /// Number of invocations of a warpgroup.
    pub const INVOCATIONS: u32 = 128;
    /// Number of rows of the left operand per warpgroup.
    pub const ROWS: u32 = 64;

    /// Returns the shared matrices that the product reads, each with the index of its first item.
    pub fn shared(&self) -> impl Iterator<Item = (SharedMatrix, ExprId)> + use<> {
        let left = match self.left {
            ProductLeft::Held(_) => None,
            ProductLeft::Shared(matrix, first) => Some((matrix, first)),
        };
        left.into_iter().chain([(self.right, self.first)])
    }
}

/// Left operand of a [`WarpgroupProduct`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ProductLeft {
    /// Matrices of 16 terms each, computed in the same iteration of the innermost loop. (ptxas 12.9 reuses
    /// the registers of operands that live longer.)
    Held(Vec<ExprId>),
    /// Rows of a matrix, given with the index of its first item: 64 for each warpgroup, in order.
    Shared(SharedMatrix, ExprId),
}

/// Copy of 16 bytes from a buffer to a workgroup's array, both of [`ValueType::Half8`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AsyncCopy {
    /// Number of the array.
    pub array: u32,
    /// Index of the item to write.
    pub item: ExprId,
    /// Number of the buffer.
    pub buffer: u32,
    /// Index of the vector in the buffer.
    pub index: ExprId,
    /// Condition; if false, zeros are written. The index must be in range even so.
    pub there: ExprId,
}

/// Role of a matrix in a multiply-accumulate instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MatrixUse {
    /// Left operand, of 16-bit floats or f32.
    Left,
    /// Right operand, of 16-bit floats or f32.
    Right,
    /// Sum, of f32.
    Sum,
}

impl From<DType> for ValueType {
    fn from(dtype: DType) -> Self {
        Self::Scalar(dtype)
    }
}

/// Definition of a value.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Expr {
    /// Constant, given by its bits; 0 or 1 for a bool.
    Literal(u32),
    /// Number of the workgroup, a u32.
    Group,
    /// Number of the invocation in its workgroup, a u32.
    Local,
    /// Bool that is true if the step may write its results; the same for all invocations.
    Committed,
    /// Counter of the loop with this number, a u32.
    Counter(u32),
    /// Value of the variable with this number.
    Read(u32),
    /// Element of a buffer at a u32 index.
    Load(u32, ExprId),
    /// Element of an array at a u32 index.
    Element(u32, ExprId),
    /// One element of a vector in an array, at the vector's u32 index in the array and the element's in the
    /// vector. No other element is read.
    ElementPart(u32, ExprId, ExprId),
    /// Unary function, as defined by [`UnaryOp`].
    Unary(UnaryOp, ExprId),
    /// Binary function, as defined by [`BinaryOp`]. The result of an integer division by zero is unspecified.
    Binary(BinaryOp, ExprId, ExprId),
    /// Upper 32 bits of the product of two u32.
    MulHigh(ExprId, ExprId),
    /// Comparison, as defined by [`CompareOp`].
    Compare(CompareOp, ExprId, ExprId),
    /// Second operand if the first is true, else the third.
    Select(ExprId, ExprId, ExprId),
    /// `a * b + c`, rounded once if the device has such an instruction.
    MulAdd([ExprId; 3]),
    /// Larger of two f32, as the device computes it; either of them if one is NaN.
    NativeMax(ExprId, ExprId),
    /// Natural logarithm, as the device computes it.
    NativeLog(ExprId),
    /// Two to the power of the operand, as the device computes it.
    NativeExp2(ExprId),
    /// Vector of two elements.
    Vector2([ExprId; 2]),
    /// Vector of four elements.
    Vector4([ExprId; 4]),
    /// Vector whose four elements are the operand.
    Splat(ExprId),
    /// Element of a vector at a constant index.
    Component(ExprId, u32),
    /// Vector of four elements, rounded to 16-bit floats.
    ToHalf(ExprId),
    /// First four (0) or last four (1) of eight 16-bit floats.
    FourOf(ExprId, u32),
    /// Conversion to another dtype, as graphs define it.
    Cast(ExprId),
    /// Reinterpretation of the bits as another dtype of 32 bits.
    Bitcast(ExprId),
    /// Operand's value in the invocation whose number in the subgroup differs in exactly these bits. All
    /// invocations of the workgroup evaluate the expression together.
    ShuffleXor(ExprId, u32),
    /// Element of a workgroup's array at an index that is the same for all invocations. All of them evaluate
    /// the expression together, after their preceding statements.
    Broadcast(u32, ExprId),
    /// Zero matrix.
    MatrixZero,
    /// Matrix loaded from a workgroup's array of vectors of four f32 or 16-bit elements. All invocations of a
    /// subgroup evaluate the expression together, as they do all other matrix expressions.
    MatrixLoad {
        /// Number of the array.
        array: u32,
        /// Index of the matrix's first item in the array.
        index: ExprId,
        /// Number of items between consecutive rows if `by_rows`, else between consecutive columns.
        pitch: u32,
        /// True if rows are contiguous in memory.
        by_rows: bool,
    },
    /// Operand of 16-bit floats, made of elements that the invocations of the subgroup hold. Invocation `i`
    /// supplies four consecutive terms, from `i % 4 * 4` on, of two rows of a left operand or two columns of
    /// a right one: `i / 4` and `i / 4 + 8`. Hardware numbers the terms differently, but in the same order in
    /// both operands of a product, so the sum contains the same terms.
    MatrixOf([ExprId; 2]),
    /// Operand of f32 minus its rounding to TF32.
    MatrixResidual(ExprId),
    /// Product of the first two matrices, added to the third. Operands of f32 are rounded to TF32 first.
    MatrixMulAdd([ExprId; 3]),
    /// Invocation's elements of a matrix sum in its left (0) or right (1) eight columns, as a vector: two of
    /// its upper row and two of the row eight below, see [`FragmentPlace`].
    MatrixHalf(ExprId, u32),
    /// Matrix sum made of elements that the invocations of the subgroup hold: the left and the right half,
    /// each as returned by [`Expr::MatrixHalf`].
    MatrixFrom([ExprId; 2]),
}

impl Expr {
    /// Returns the expression's operands.
    pub fn operands(&self) -> impl Iterator<Item = ExprId> + use<> {
        let operands = match *self {
            Self::Literal(_)
            | Self::Group
            | Self::Local
            | Self::Committed
            | Self::Counter(_)
            | Self::Read(_)
            | Self::MatrixZero => [None; 4],
            Self::Load(_, a)
            | Self::Element(_, a)
            | Self::Unary(_, a)
            | Self::Cast(a)
            | Self::Bitcast(a)
            | Self::NativeLog(a)
            | Self::NativeExp2(a)
            | Self::MatrixHalf(a, _)
            | Self::MatrixResidual(a)
            | Self::FourOf(a, _)
            | Self::Splat(a)
            | Self::Component(a, _)
            | Self::ToHalf(a)
            | Self::Broadcast(_, a)
            | Self::MatrixLoad { index: a, .. }
            | Self::ShuffleXor(a, _) => [Some(a), None, None, None],
            Self::Binary(_, a, b)
            | Self::MulHigh(a, b)
            | Self::Compare(_, a, b)
            | Self::NativeMax(a, b)
            | Self::ElementPart(_, a, b)
            | Self::MatrixFrom([a, b])
            | Self::MatrixOf([a, b])
            | Self::Vector2([a, b]) => [Some(a), Some(b), None, None],
            Self::Select(a, b, c) | Self::MulAdd([a, b, c]) | Self::MatrixMulAdd([a, b, c]) => {
                [Some(a), Some(b), Some(c), None]
            }
            Self::Vector4(all) => all.map(Some),
        };
        operands.into_iter().flatten()
    }

    /// Returns `true` if the expression's value depends on the time of evaluation.
    pub fn is_impure(&self) -> bool {
        self.is_collective()
            || matches!(
                self,
                Self::Read(_)
                    | Self::Load(..)
                    | Self::Element(..)
                    | Self::ElementPart(..)
                    | Self::MatrixLoad { .. }
            )
    }

    /// Returns `true` if all invocations of a workgroup evaluate the expression together.
    pub fn is_collective(&self) -> bool {
        matches!(self, Self::ShuffleXor(..) | Self::Broadcast(..))
    }

    /// Returns `true` if the expression's text is no longer than a name would be.
    pub fn is_leaf(&self) -> bool {
        matches!(
            self,
            Self::Literal(_)
                | Self::Group
                | Self::Local
                | Self::Committed
                | Self::Counter(_)
                | Self::Component(..)
                | Self::Splat(_)
        )
    }
}

/// Statement of a kernel.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Stmt {
    /// Evaluates an expression and names it, up to the end of the block.
    Let(ExprId),
    /// Declares a variable with an initial value, in scope up to the end of the block.
    Var(u32, ExprId),
    /// Assigns a value to a variable.
    Assign(u32, ExprId),
    /// Writes an element of a buffer, given the buffer's number, the index, and the value.
    Store(u32, ExprId, ExprId),
    /// Writes an element of an array, given the array's number, the index, and the value.
    SetElement(u32, ExprId, ExprId),
    /// Conditional block.
    If(ExprId, Block),
    /// Loop over a block. Its counter starts at the first expression, increases by the third, and stays below
    /// the second.
    For(u32, [ExprId; 3], Block),
    /// Writes a matrix sum row by row into a workgroup's array of f32, given the array's number, the index of
    /// the first element, the number of elements between consecutive rows, and the value.
    StoreMatrix(u32, ExprId, u32, ExprId),
    /// Barrier: all invocations of the workgroup arrive before any of them continues, and then see what the
    /// others have written to shared memory.
    Barrier,
    /// Starts a product. Until it has been awaited, its sums must not be accessed, and its operands in shared
    /// memory must not be written.
    StartProduct(Box<WarpgroupProduct>),
    /// Waits until at most this many products are in progress. The variables are the sums of those that are
    /// then known to be complete.
    AwaitProducts(u32, Vec<u32>),
    /// Starts a copy. The item must not be accessed until the copy has been awaited.
    StartCopy(AsyncCopy),
    /// Combines the invocation's copies since the last such statement into a batch.
    EndCopies,
    /// Waits until at most this many of the invocation's batches of copies are in progress. Others see the
    /// items after the next barrier.
    AwaitCopies(u32),
    /// Prevents the step from committing if the fault occurs; the invocation continues. The first fault of a
    /// step is recorded, with its position, a u32.
    Report(Fault, ExprId),
}

/// Reason why a step fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fault {
    /// Index, an i32, outside of `0..extent`.
    Index(ExprId, u32),
    /// Integer divisor of zero.
    Divisor(ExprId),
}

/// Sequence of statements.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Block(pub Vec<Stmt>);

impl Block {
    /// Calls `f` with each statement, those of inner blocks included, and `depth` plus the number of loops of
    /// this block around it.
    pub fn each(&self, depth: u32, f: &mut dyn FnMut(&Stmt, u32)) {
        for statement in &self.0 {
            f(statement, depth);
            if let Some(block) = statement.block() {
                block.each(depth + u32::from(matches!(statement, Stmt::For(..))), f);
            }
        }
    }
}

/// Role of a buffer in its launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// Operand with this number.
    Operand(usize),
    /// Result with this number. It may alias an operand.
    Result(usize),
    /// Range of the launch's scratch memory, which its kernels share.
    Workspace {
        /// Offset of the range's first byte.
        start: u64,
        /// Number of bytes.
        bytes: u64,
    },
    /// [Table](Kernel::table) of the kernel.
    Table,
    /// Words of the step's [`Status`](crate::step::Status), which a single invocation of the guards' kernel
    /// reads and writes. All other kernels report [`Fault`]s instead.
    Status,
}

/// Buffer that a kernel reads or writes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Buffer {
    /// Role of the buffer in the launch.
    pub role: Role,
    /// Type of the buffer's items, which are single elements or vectors of elements.
    pub ty: ValueType,
}

impl Buffer {
    /// Returns `true` if kernels may write the buffer.
    pub fn is_writable(&self) -> bool {
        matches!(self.role, Role::Result(_) | Role::Workspace { .. } | Role::Status)
    }
}

/// Scope of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Space {
    /// Shared by the invocations of a workgroup.
    Workgroup,
    /// Private to each invocation.
    Invocation,
}

/// Array declared by a kernel, initially undefined.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Array {
    /// Scope of the array.
    pub space: Space,
    /// Type of the elements.
    pub ty: ValueType,
    /// Number of elements.
    pub elements: u32,
}

/// Kernel, run by `groups` workgroups of `workgroup` invocations.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Kernel {
    /// Title, which is printed in the kernel's text.
    pub label: String,
    /// Number of invocations per workgroup.
    pub workgroup: u32,
    /// Number of workgroups.
    pub groups: usize,
    /// Buffers that the kernel reads or writes.
    pub buffers: Vec<Buffer>,
    /// Constants that all invocations can read.
    pub table: Vec<u32>,
    /// Arrays of workgroups and of invocations.
    pub arrays: Vec<Array>,
    /// Number of invocations per subgroup, if the kernel depends on it. Invocations are then numbered
    /// consecutively, subgroup by subgroup.
    pub subgroup: Option<u32>,
    /// Expressions with their types. Operands precede the expressions that use them.
    pub exprs: Vec<(Expr, ValueType)>,
    /// Types of the variables.
    pub variables: Vec<ValueType>,
    /// Number of loops.
    pub loops: u32,
    /// Statements of each invocation.
    pub body: Block,
}

impl Kernel {
    /// Returns the expression with this id.
    pub fn expr(&self, id: ExprId) -> &Expr {
        &self.exprs[id.index()].0
    }

    /// Returns the type of the expression with this id.
    pub fn ty(&self, id: ExprId) -> ValueType {
        self.exprs[id.index()].1
    }

    /// Returns the dtype of a scalar; f32 for vectors, packed 16-bit floats and matrices.
    pub fn dtype(&self, id: ExprId) -> DType {
        match self.ty(id) {
            ValueType::Scalar(dtype) => dtype,
            _ => DType::F32,
        }
    }

    /// Returns `true` if a statement of the kernel satisfies a predicate.
    pub fn any(&self, is_wanted: &dyn Fn(&Stmt) -> bool) -> bool {
        self.body.0.iter().any(|statement| statement.any(is_wanted))
    }

    /// Returns `true` if the kernel may report a fault.
    pub fn traps(&self) -> bool {
        self.any(&|statement| matches!(statement, Stmt::Report(..)))
    }

    /// Returns `true` if the kernel writes elements of the buffer with this number.
    pub fn stores_to(&self, buffer: usize) -> bool {
        self.any(&|statement| matches!(statement, Stmt::Store(number, ..) if *number as usize == buffer))
    }

    /// Returns the numbers of the buffers that the kernel reads or writes, in ascending order.
    pub fn used_buffers(&self) -> Vec<usize> {
        let mut used = Vec::new();
        self.body.each(0, &mut |statement, _| match statement {
            Stmt::Store(buffer, ..) | Stmt::StartCopy(AsyncCopy { buffer, .. }) => {
                used.push(*buffer as usize)
            }
            Stmt::Let(id) => {
                if let Expr::Load(buffer, _) = self.expr(*id) {
                    used.push(*buffer as usize);
                }
            }
            _ => {}
        });
        used.sort_unstable();
        used.dedup();
        used
    }

    /// Returns `true` if the kernel reads whether the step may commit.
    pub fn is_gated(&self) -> bool {
        self.exprs.iter().any(|(expr, _)| matches!(expr, Expr::Committed))
    }
}

impl Stmt {
    /// Returns the expressions that the statement itself uses, excluding those in its block.
    pub fn operands(&self) -> Vec<ExprId> {
        match self {
            Self::Let(a) | Self::Var(_, a) | Self::Assign(_, a) | Self::If(a, _) => vec![*a],
            Self::Store(_, index, value)
            | Self::SetElement(_, index, value)
            | Self::StoreMatrix(_, index, _, value) => vec![*index, *value],
            Self::For(_, bounds, _) => bounds.to_vec(),
            Self::Barrier | Self::AwaitProducts(..) | Self::EndCopies | Self::AwaitCopies(_) => Vec::new(),
            Self::StartProduct(product) => {
                let held: &[ExprId] = if let ProductLeft::Held(held) = &product.left { held } else { &[] };
                held.iter().copied().chain(product.shared().map(|(_, first)| first)).collect()
            }
            Self::StartCopy(AsyncCopy { item, index, there, .. }) => vec![*item, *index, *there],
            Self::Report(Fault::Index(a, _) | Fault::Divisor(a), position) => vec![*a, *position],
        }
    }

    /// Returns `true` if the statement, or one in its block, satisfies a predicate.
    pub fn any(&self, is_wanted: &dyn Fn(&Stmt) -> bool) -> bool {
        let inner = |block: &Block| block.0.iter().any(|inner| inner.any(is_wanted));
        is_wanted(self) || self.block().is_some_and(inner)
    }

    /// Returns the statement's block, if it has one.
    pub fn block(&self) -> Option<&Block> {
        match self {
            Self::If(_, block) | Self::For(_, _, block) => Some(block),
            _ => None,
        }
    }
}
