//! Kernels as data.
//!
//! Expressions stand in an arena and know their operands by number; they have no effects. Statements give
//! the order. [`Stmt::Let`] says where an expression is evaluated: what reads memory or a variable
//! ([`Expr::is_impure`]) is evaluated there and nowhere else, all other expressions wherever they are used;
//! so is a variable that is read without a name.

use gradloom_core::ir::{BinaryOp, CompareOp, DType, UnaryOp};

/// Number of an expression of its kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ExprId(pub(super) u32);

impl ExprId {
    /// Its place in [`Kernel::exprs`].
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// ValueType of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ValueType {
    /// One number or bool.
    Scalar(DType),
    /// So many f32: 2 or 4.
    Vector(u32),
    /// Two floats of this dtype, which has 16 bits, as memory has them.
    Half2(DType),
    /// Four floats of this dtype, which has 16 bits.
    Half4(DType),
    /// Eight of them.
    Half8(DType),
    /// 16 x 16 numbers of a dtype, which a subgroup has together.
    Matrix(MatrixUse, DType),
}

impl ValueType {
    /// Returns two elements as memory has them, of a float dtype.
    pub fn two(dtype: DType) -> Self {
        if dtype.is_for_memory() { Self::Half2(dtype) } else { Self::Vector(2) }
    }

    /// Returns four elements as memory has them, of a float dtype.
    pub fn four(dtype: DType) -> Self {
        if dtype.is_for_memory() { Self::Half4(dtype) } else { Self::Vector(4) }
    }
}

/// Places of an invocation's elements in a matrix sum, on devices where they are known: NVIDIA's PTX ISA,
/// "Matrix fragments for mma.m16n8k16".
#[derive(Clone, Copy, Debug)]
pub struct FragmentPlace;

impl FragmentPlace {
    /// Returns the row of an element (0 to 3) of a half (0 or 1) of a lane, and its column.
    pub fn of(lane: usize, half: usize, element: usize) -> [usize; 2] {
        [lane / 4 + element / 2 * 8, lane % 4 * 2 + element % 2 + half * 8]
    }
}

/// Role of a matrix in a product.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MatrixUse {
    /// The left operand, of floats of 16 bits.
    Left,
    /// The right operand, of floats of 16 bits.
    Right,
    /// The sum, of f32.
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
    /// A number by its bits; of bool, 0 or 1.
    Literal(u32),
    /// Number of the workgroup, u32.
    Group,
    /// Number of the invocation in its workgroup, u32.
    Local,
    /// True if the step may write its results, bool: the same for all invocations.
    Committed,
    /// Counter of the loop of this number, u32.
    Counter(u32),
    /// Value of a variable.
    Read(u32),
    /// The element of a buffer at an index, u32.
    Load(u32, ExprId),
    /// The element of an array at an index, u32.
    Element(u32, ExprId),
    /// Of an array of vectors, an element's element: two indices, u32. Nothing but it is read.
    ElementPart(u32, ExprId, ExprId),
    /// As [`UnaryOp`] says of graphs.
    Unary(UnaryOp, ExprId),
    /// As [`BinaryOp`] says of graphs. A zero divisor of integers gives an unspecified number.
    Binary(BinaryOp, ExprId, ExprId),
    /// The upper 32 bits of a product of two u32.
    MulHigh(ExprId, ExprId),
    /// As [`CompareOp`] says of graphs.
    Compare(CompareOp, ExprId, ExprId),
    /// The second operand where the first one holds, else the third.
    Select(ExprId, ExprId, ExprId),
    /// `a * b + c`, rounded once where the device can.
    MulAdd([ExprId; 3]),
    /// The larger of two f32, as the device computes it; of a NaN, either.
    NativeMax(ExprId, ExprId),
    /// The natural logarithm, as the device computes it.
    NativeLog(ExprId),
    /// Two to the power of it, as the device computes it.
    NativeExp2(ExprId),
    /// A vector of two.
    Vector2([ExprId; 2]),
    /// A vector of four.
    Vector4([ExprId; 4]),
    /// Four times the same.
    Splat(ExprId),
    /// An element of a vector.
    Component(ExprId, u32),
    /// A vector of four, rounded to floats of 16 bits.
    ToHalf(ExprId),
    /// Of eight floats of 16 bits, the first four (0) or the last (1).
    FourOf(ExprId, u32),
    /// A number of another dtype, as graphs convert it.
    Cast(ExprId),
    /// The same bits as another dtype of 32 bits.
    Bitcast(ExprId),
    /// The value that the invocation has whose number in the subgroup differs in these bits. All invocations
    /// of the workgroup evaluate it together.
    ShuffleXor(ExprId, u32),
    /// The element of a workgroup's array at an index that all invocations give alike; all evaluate it
    /// together, after all that they did before.
    Broadcast(u32, ExprId),
    /// A matrix of zeros.
    MatrixZero,
    /// A matrix from an array of vectors of four, of f32 or 16 bits, that the workgroup shares, with its
    /// rows, or else its columns, `pitch` items apart. All invocations of a subgroup evaluate it together, as
    /// all that follows.
    MatrixLoad {
        /// The array.
        array: u32,
        /// The first item.
        index: ExprId,
        /// Items from row to row, or from column to column.
        pitch: u32,
        /// True if neighbours in memory are neighbours in a row.
        by_rows: bool,
    },
    /// An operand from what all invocations of the subgroup have: four terms each, from four times the
    /// invocation's number modulo four on, of two rows of a left operand, or columns of a right one: the
    /// quarter of its number, and eight more. Which terms these are is the same on both sides of a product,
    /// whose sum does not tell.
    MatrixOf([ExprId; 2]),
    /// An operand in f32 minus its rounding to TF32.
    MatrixResidual(ExprId),
    /// The product of the first two, added to the third. Those in f32 are rounded to TF32 first.
    MatrixMulAdd([ExprId; 3]),
    /// Of a sum, the invocation's elements of the left eight columns (0) or of the right ones (1), as a
    /// vector: two of its upper row and two of the one eight rows below, see [`FragmentPlace`].
    MatrixHalf(ExprId, u32),
    /// A sum from what all invocations of the subgroup have, each as [`Expr::MatrixHalf`] gives it.
    MatrixFrom([ExprId; 2]),
}

impl Expr {
    /// Returns the expressions that it is made of.
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

    /// Returns true if its value depends on when it is evaluated.
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

    /// Returns true if all invocations of a workgroup evaluate it together.
    pub fn is_collective(&self) -> bool {
        matches!(self, Self::ShuffleXor(..) | Self::Broadcast(..))
    }

    /// Returns true if printing it costs no more than printing a name for it.
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

/// A statement.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Stmt {
    /// Evaluates an expression, which has a name from here to the end of the block.
    Let(ExprId),
    /// Declares a variable with its first value, in scope to the end of the block.
    Var(u32, ExprId),
    /// Gives a variable another value.
    Assign(u32, ExprId),
    /// Writes an element of a buffer: number, index, value.
    Store(u32, ExprId, ExprId),
    /// Writes an element of an array: number, index, value.
    SetElement(u32, ExprId, ExprId),
    /// The statements of a block, where a condition holds.
    If(ExprId, Block),
    /// The statements of a block for a counter that starts at the first expression, grows by the third, and
    /// stays below the second.
    For(u32, [ExprId; 3], Block),
    /// Writes a matrix, a sum, by rows into an array of f32 that the workgroup shares: number, first element,
    /// elements from row to row, value.
    StoreMatrix(u32, ExprId, u32, ExprId),
    /// All invocations of the workgroup arrive here before one goes on, and see what the others have written
    /// to shared memory.
    Barrier,
    /// The step will not commit if this is so; the invocation goes on. The first fault of a step is kept,
    /// with the position, u32, at which it happened.
    Report(Fault, ExprId),
}

/// Reason for a step to fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fault {
    /// An index, i32, outside of 0 to an extent.
    Index(ExprId, u32),
    /// An integer divisor of zero.
    Divisor(ExprId),
}

/// Statements, which run one after the other.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Block(pub Vec<Stmt>);

/// Role of a buffer in its launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// The operand of this number.
    Operand(usize),
    /// The result of this number. It may lie where an operand does.
    Result(usize),
    /// Bytes of the launch's scratch, which its kernels share.
    Workspace {
        /// The first one's offset.
        start: u64,
        /// Number of bytes.
        bytes: u64,
    },
    /// [`Kernel::table`].
    Table,
    /// Words of the step's [`Status`](crate::step::Status), which one invocation of the guards reads and
    /// writes: all others report [`Fault`]s.
    Status,
}

/// A buffer that a kernel reads or writes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Buffer {
    /// Its role in the launch.
    pub role: Role,
    /// Of its elements, or of groups of them.
    pub ty: ValueType,
}

impl Buffer {
    /// Returns true if kernels may write it.
    pub fn is_writable(&self) -> bool {
        matches!(self.role, Role::Result(_) | Role::Workspace { .. } | Role::Status)
    }
}

/// Owner of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Space {
    /// The invocations of a workgroup together.
    Workgroup,
    /// Each invocation for itself.
    Invocation,
}

/// Memory of a kernel's own, which has no values at first.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Array {
    /// Owner of the array.
    pub space: Space,
    /// Of its elements.
    pub ty: ValueType,
    /// Number of its elements.
    pub elements: u32,
}

/// A kernel, which `groups` workgroups of `workgroup` invocations run.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Kernel {
    /// A title for its text.
    pub label: String,
    /// Invocations of a workgroup.
    pub workgroup: u32,
    /// Number of workgroups.
    pub groups: usize,
    /// Buffers that it reads and writes.
    pub buffers: Vec<Buffer>,
    /// Numbers that all invocations read.
    pub table: Vec<u32>,
    /// Arrays of workgroups and invocations.
    pub arrays: Vec<Array>,
    /// Invocations of a subgroup, if that matters: they are numbered in order, subgroup by subgroup.
    pub subgroup: Option<u32>,
    /// All expressions with their types. Operands come before what is made of them.
    pub exprs: Vec<(Expr, ValueType)>,
    /// The types of its variables.
    pub variables: Vec<ValueType>,
    /// Number of its loops.
    pub loops: u32,
    /// Statements of each invocation.
    pub body: Block,
}

impl Kernel {
    /// Returns an expression.
    pub fn expr(&self, id: ExprId) -> &Expr {
        &self.exprs[id.index()].0
    }

    /// Returns the type of an expression.
    pub fn ty(&self, id: ExprId) -> ValueType {
        self.exprs[id.index()].1
    }

    /// Returns the dtype of a scalar, or of a vector's elements.
    pub fn dtype(&self, id: ExprId) -> DType {
        match self.ty(id) {
            ValueType::Scalar(dtype) => dtype,
            _ => DType::F32,
        }
    }

    /// Returns true if it may report a fault.
    pub fn traps(&self) -> bool {
        fn reports(block: &Block) -> bool {
            block.0.iter().any(|stmt| matches!(stmt, Stmt::Report(..)) || stmt.block().is_some_and(reports))
        }
        reports(&self.body)
    }

    /// Returns true if it writes elements of the buffer of this number.
    pub fn stores_to(&self, buffer: usize) -> bool {
        fn stores(block: &Block, buffer: usize) -> bool {
            let to = |stmt: &Stmt| matches!(stmt, Stmt::Store(number, ..) if *number as usize == buffer);
            block.0.iter().any(|stmt| to(stmt) || stmt.block().is_some_and(|block| stores(block, buffer)))
        }
        stores(&self.body, buffer)
    }

    /// Returns the numbers of the buffers that it reads or writes, in order.
    pub fn used_buffers(&self) -> Vec<usize> {
        fn add(kernel: &Kernel, block: &Block, used: &mut Vec<usize>) {
            for statement in &block.0 {
                match statement {
                    Stmt::Store(buffer, ..) => used.push(*buffer as usize),
                    Stmt::Let(id) => {
                        if let Expr::Load(buffer, _) = kernel.expr(*id) {
                            used.push(*buffer as usize);
                        }
                    }
                    _ => {}
                }
                if let Some(block) = statement.block() {
                    add(kernel, block, used);
                }
            }
        }
        let mut used = Vec::new();
        add(self, &self.body, &mut used);
        used.sort_unstable();
        used.dedup();
        used
    }

    /// Returns true if it looks at the step's verdict.
    pub fn is_gated(&self) -> bool {
        self.exprs.iter().any(|(expr, _)| matches!(expr, Expr::Committed))
    }
}

impl Stmt {
    /// Returns the expressions that it evaluates itself, without those of its block.
    pub fn operands(&self) -> Vec<ExprId> {
        match self {
            Self::Let(a) | Self::Var(_, a) | Self::Assign(_, a) | Self::If(a, _) => vec![*a],
            Self::Store(_, index, value)
            | Self::SetElement(_, index, value)
            | Self::StoreMatrix(_, index, _, value) => vec![*index, *value],
            Self::For(_, bounds, _) => bounds.to_vec(),
            Self::Barrier => Vec::new(),
            Self::Report(Fault::Index(a, _) | Fault::Divisor(a), position) => vec![*a, *position],
        }
    }

    /// Its block, if it has one.
    pub fn block(&self) -> Option<&Block> {
        match self {
            Self::If(_, block) | Self::For(_, _, block) => Some(block),
            _ => None,
        }
    }
}
