//! The graph: ops, values and blocks in arenas, with what it returns, persists and guards.
//!
//! Always holds (see `verify`): ops of a block come after the ops whose results they use; every value has one
//! definition; blocks are closed, that is, use no value from outside; leaves stand in the entry block.

use super::{
    Arena, BinaryOp, BlockId, CustomOp, DType, OpId, OpKind, Origin, OriginId, Origins, Type, ValueId, infer,
};
use crate::verify::{check_extents, check_type};
use std::fmt;
use std::sync::Arc;

/// The definition of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Definition {
    /// Result number `1` of op `0`.
    Result(OpId, usize),
    /// Parameter number `1` of block `0`.
    BlockParam(BlockId, usize),
}

/// An SSA value.
#[derive(Clone, Debug, PartialEq)]
pub struct Value {
    /// Element type and shape.
    pub ty: Type,
    /// The op or block that defines it.
    pub definition: Definition,
}

/// An operation with its operands and results.
#[derive(Clone, Debug, PartialEq)]
pub struct Op {
    /// The primitive, with its attributes.
    pub kind: OpKind,
    /// Operands, in the order that the kind prescribes.
    pub operands: Vec<ValueId>,
    /// Results, in the order that the kind prescribes.
    pub results: Vec<ValueId>,
    /// The source position that asked for it, if known.
    pub origin: Option<OriginId>,
}

/// A list of ops with parameters and results.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Block {
    /// Values that the block is entered with.
    pub params: Vec<ValueId>,
    /// Ops in an order in which they can run.
    pub ops: Vec<OpId>,
    /// Values that the block hands back.
    pub results: Vec<ValueId>,
}

/// A value that the caller can read after a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Output {
    /// Name, unique among outputs.
    pub name: String,
    /// The value that is read.
    pub value: ValueId,
}

/// The next value of a parameter or state.
///
/// Every read of the target sees the value from the start of the step; all updates take effect together at
/// its end.
#[derive(Clone, Debug, PartialEq)]
pub struct Update {
    /// A parameter or state leaf; at most one whole update, or any number of updates of regions, for each.
    pub target: ValueId,
    /// Start of the region on each axis (i32 scalars); `None` replaces the whole target.
    pub region: Option<Vec<ValueId>>,
    /// Value to write: of the target's type or, for a region, of its dtype and rank, with extents that fit.
    pub value: ValueId,
    /// True if the plan must write into the target's own bytes, and nothing may copy the target; planning
    /// fails if that cannot be.
    pub must_alias: bool,
}

/// A condition of the commit group: if `value` has an element that is not finite, no update takes effect.
#[derive(Clone, Debug, PartialEq)]
pub struct Guard {
    /// Name in messages, as "loss" or "gradient norm".
    pub name: String,
    /// The f32 value that must be finite.
    pub value: ValueId,
}

/// A tensor program.
#[derive(Clone, Debug)]
pub struct Graph {
    /// All ops, reachable or not.
    pub ops: Arena<OpId, Op>,
    /// All values of the graph.
    pub values: Arena<ValueId, Value>,
    /// All blocks of the graph.
    pub blocks: Arena<BlockId, Block>,
    /// The block that a run executes.
    pub entry: BlockId,
    /// The block that new ops are added to: `entry`, or a block under construction.
    pub cursor: BlockId,
    /// Values that the caller can read after a run.
    pub outputs: Vec<Output>,
    /// Next values of parameters and states.
    pub updates: Vec<Update>,
    /// Values that must be finite for the updates to take effect.
    pub guards: Vec<Guard>,
    /// Source positions.
    pub origins: Origins,
    /// Users' ops, by the number in [`OpKind::Custom`].
    pub customs: Vec<Arc<dyn CustomOp>>,
}

/// Operands that do not fit an op. The message names the op and the types; `help` says what would fit.
#[derive(Clone, PartialEq, Eq)]
pub struct TypeError {
    /// The problem.
    pub message: String,
    /// The remedy.
    pub help: Option<String>,
}

impl TypeError {
    /// Creates an error without advice.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), help: None }
    }

    /// Adds the remedy to the error.
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }
}

impl fmt::Display for TypeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        match &self.help {
            Some(help) => write!(f, " ({help})"),
            None => Ok(()),
        }
    }
}

/// The text of `Display`, for a panic's message.
impl fmt::Debug for TypeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for TypeError {}

impl Default for Graph {
    fn default() -> Self {
        Self::new()
    }
}

impl Graph {
    /// Creates a graph with an empty entry block.
    pub fn new() -> Self {
        let mut blocks = Arena::new();
        let entry = blocks.push(Block::default());
        Self {
            ops: Arena::new(),
            values: Arena::new(),
            blocks,
            entry,
            cursor: entry,
            outputs: Vec::new(),
            updates: Vec::new(),
            guards: Vec::new(),
            origins: Origins::default(),
            customs: Vec::new(),
        }
    }

    /// Appends an op to the block under the cursor and returns its results; the types follow from the
    /// operands. A step of a slice that leads out of its range is kept as the range's length, and a gap of a
    /// pad that stands between no elements as 0.
    ///
    /// # Errors
    /// When the operands do not fit the op, or a result would have more bytes than can be counted; the graph
    /// is then unchanged.
    pub fn add(
        &mut self,
        kind: OpKind,
        operands: &[ValueId],
        origin: Option<OriginId>,
    ) -> Result<Vec<ValueId>, TypeError> {
        let kind = kind.settled(operands.first().map(|&v| self.ty(v)));
        check_extents(self, &kind, operands).map_err(TypeError::new)?;
        let types = infer(self, &kind, operands)?;
        for ty in &types {
            check_type(ty).map_err(TypeError::new)?;
        }
        let op = self.add_typed(kind, operands.to_vec(), types.into_iter(), origin);
        Ok(self.ops[op].results.clone())
    }

    /// Does what [`Graph::add`] does, with attributes that are settled and result types that the caller
    /// vouches for.
    pub(crate) fn add_typed(
        &mut self,
        kind: OpKind,
        operands: Vec<ValueId>,
        types: impl Iterator<Item = Type>,
        origin: Option<OriginId>,
    ) -> OpId {
        let op = self.ops.push(Op { kind, operands, results: Vec::new(), origin });
        let results = types
            .enumerate()
            .map(|(i, ty)| self.values.push(Value { ty, definition: Definition::Result(op, i) }))
            .collect();
        self.ops[op].results = results;
        self.blocks[self.cursor].ops.push(op);
        op
    }

    /// Adds an empty block whose parameters have the given types.
    pub fn add_block(&mut self, params: &[Type]) -> BlockId {
        let block = self.blocks.push(Block::default());
        for (i, ty) in params.iter().enumerate() {
            let value =
                self.values.push(Value { ty: ty.clone(), definition: Definition::BlockParam(block, i) });
            self.blocks[block].params.push(value);
        }
        block
    }

    /// Returns the type of a value.
    pub fn ty(&self, value: ValueId) -> &Type {
        &self.values[value].ty
    }

    /// Returns the op that defines a value, unless it is a block's parameter.
    pub fn defining_op(&self, value: ValueId) -> Option<&Op> {
        match self.values[value].definition {
            Definition::Result(op, _) => Some(&self.ops[op]),
            Definition::BlockParam(..) => None,
        }
    }

    /// Iterates over the ops of the entry block, in order.
    pub fn entry_ops(&self) -> impl DoubleEndedIterator<Item = (OpId, &Op)> {
        self.blocks[self.entry].ops.iter().map(|&id| (id, &self.ops[id]))
    }

    /// Returns the source position that asked for an op.
    pub fn origin(&self, op: &Op) -> Option<&Origin> {
        self.origins.get(op.origin?)
    }

    /// Returns the output with this name.
    pub fn output(&self, name: &str) -> Option<ValueId> {
        self.outputs.iter().find(|o| o.name == name).map(|o| o.value)
    }

    /// Returns the name of an external leaf, or `None` for other ops.
    pub fn leaf_name(kind: &OpKind) -> Option<&str> {
        match kind {
            OpKind::Input { name, .. }
            | OpKind::Param { name, .. }
            | OpKind::State { name, .. }
            | OpKind::Scalar { name, .. } => Some(name),
            _ => None,
        }
    }

    /// Returns whether an op is the check of i64s that become i32, as [`crate::passes`] writes it: a gather
    /// whose indices say whether the high words are the signs of the low ones.
    pub fn checks_i64(&self, op: &Op) -> bool {
        let of = |value: ValueId| self.defining_op(value).map(|op| (&op.kind, &op.operands));
        let is_sign = |&value: &ValueId| matches!(of(value), Some((OpKind::Binary(BinaryOp::Shr), _)));
        match (&op.kind, op.operands.get(1).and_then(|&index| of(index))) {
            (OpKind::Gather { batch }, Some((OpKind::Binary(BinaryOp::Xor), words))) => {
                // One row for each index.
                self.ty(op.operands[0]).shape[*batch..] == [1] && words.iter().any(is_sign)
            }
            _ => false,
        }
    }

    /// Returns whether running the op can fail on the values of its operands: an index out of range, an
    /// integer division by zero, a user's code.
    pub fn can_trap(&self, op: &Op) -> bool {
        match &op.kind {
            OpKind::Scatter { op, .. } => !op.is_distinct(),
            OpKind::Gather { .. }
            | OpKind::DynamicSlice { .. }
            | OpKind::DynamicUpdateSlice
            | OpKind::Custom(_) => true,
            OpKind::Attention(spec) | OpKind::AttentionGrad(spec) => spec.block_table || spec.key_length,
            OpKind::Cast { dtype } => *dtype != DType::I64 && self.ty(op.operands[0]).dtype == DType::I64,
            OpKind::Binary(BinaryOp::Div | BinaryOp::Rem) => self.ty(op.results[0]).dtype.is_integer(),
            _ => false,
        }
    }
}
