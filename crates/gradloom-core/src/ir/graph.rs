//! The graph: ops, values and blocks in arenas, with the graph's outputs, updates and guards.
//!
//! Invariants, checked by `verify`: ops follow the ops of their block whose results they use; every value has
//! one definition; blocks are closed, that is, use no outside values; leaves are in the entry block.

use super::{
    Arena, BinaryOp, BlockId, CustomOp, DType, OpId, OpKind, Origin, OriginId, Origins, Type, ValueId, infer,
};
use crate::error::Error;
use crate::verify::{check_extents, check_type};
use std::fmt;
use std::sync::Arc;

/// The definition site of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Definition {
    /// The op's result with this index.
    Result(OpId, usize),
    /// The block's parameter with this index.
    BlockParam(BlockId, usize),
}

/// An SSA value.
#[derive(Clone, Debug, PartialEq)]
pub struct Value {
    /// Element type and shape.
    pub ty: Type,
    /// Op or block that defines the value.
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
    /// Source position that created the op, if known.
    pub origin: Option<OriginId>,
}

/// A sequence of ops with parameters and results.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Block {
    /// Parameters of the block.
    pub params: Vec<ValueId>,
    /// Ops in a valid execution order.
    pub ops: Vec<OpId>,
    /// Results of the block.
    pub results: Vec<ValueId>,
}

/// A value that the caller can read after a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Output {
    /// Name, unique among outputs.
    pub name: String,
    /// Value that the caller reads.
    pub value: ValueId,
}

/// The next value of a parameter or state.
///
/// All reads of the target return its value at the start of the step. All updates take effect together at the
/// end of the step.
#[derive(Clone, Debug, PartialEq)]
pub struct Update {
    /// The updated parameter or state leaf. A leaf has at most one whole update, or any number of region
    /// updates.
    pub target: ValueId,
    /// Start of the updated region on each axis (i32 scalars), or `None` to replace the whole target.
    pub region: Option<Vec<ValueId>>,
    /// Value to write. It has the target's type or, for a region, the target's dtype and rank with extents
    /// that fit.
    pub value: ValueId,
    /// True if the plan must write in place into the target, without copying it. Planning fails if this is
    /// impossible.
    pub must_alias: bool,
}

/// A condition for committing the step: if `value` contains a non-finite element, no update takes effect.
#[derive(Clone, Debug, PartialEq)]
pub struct Guard {
    /// Name in messages, such as "loss" or "gradient norm".
    pub name: String,
    /// The f32 value that must be finite.
    pub value: ValueId,
}

/// A tensor program.
#[derive(Clone, Debug)]
pub struct Graph {
    /// All ops of the graph, reachable or not.
    pub ops: Arena<OpId, Op>,
    /// All values of the graph.
    pub values: Arena<ValueId, Value>,
    /// All blocks of the graph.
    pub blocks: Arena<BlockId, Block>,
    /// The block that a run executes.
    pub entry: BlockId,
    /// The block to which new ops are added: `entry` or a block under construction.
    pub cursor: BlockId,
    /// Values that the caller can read after a run.
    pub outputs: Vec<Output>,
    /// Next values of parameters and states.
    pub updates: Vec<Update>,
    /// Values that must be finite for the updates to take effect.
    pub guards: Vec<Guard>,
    /// Source positions of the ops.
    pub origins: Origins,
    /// User-defined ops, indexed by [`OpKind::Custom`].
    pub customs: Vec<Arc<dyn CustomOp>>,
}

/// The error for invalid operands of an op. The message contains the op and its types; `help` describes valid
/// operands.
#[derive(Clone, PartialEq, Eq)]
pub struct TypeError {
    /// Description of the problem.
    pub message: String,
    /// Suggested fix.
    pub help: Option<String>,
}

impl TypeError {
    /// Creates an error without a suggested fix.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), help: None }
    }

    /// Adds a suggested fix to the error.
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

/// Prints the same text as `Display`, for panic messages.
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

    /// Appends an op to the block at the cursor and returns its results, whose types are inferred from the
    /// operands. Normalizes attributes beyond their effective range: for example, a slice step beyond the end
    /// of its range becomes the length of the range, and interior padding between fewer than two elements
    /// becomes 0.
    ///
    /// # Errors
    /// Returns an error if the operands are invalid or the size of a result overflows. The graph is then
    /// unchanged.
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

    /// Appends an op like [`Graph::add`], with attributes that are already normalized and with unchecked
    /// result types.
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

    /// Returns the op that defines a value, or `None` for a block parameter and for a copy that a plan adds.
    pub fn defining_op(&self, value: ValueId) -> Option<&Op> {
        match self.values.get(value)?.definition {
            Definition::Result(op, _) => Some(&self.ops[op]),
            Definition::BlockParam(..) => None,
        }
    }

    /// Iterates over the ops of the entry block in order.
    pub fn entry_ops(&self) -> impl DoubleEndedIterator<Item = (OpId, &Op)> {
        self.blocks[self.entry].ops.iter().map(|&id| (id, &self.ops[id]))
    }

    /// Returns the source position that created an op.
    pub fn origin(&self, op: &Op) -> Option<&Origin> {
        self.origins.get(op.origin?)
    }

    /// Adds the location of an op, if known, to an error.
    pub fn blame<'g>(&self, op: impl Into<Option<&'g Op>>, error: Error) -> Error {
        match op.into().and_then(|op| Some((self.origin(op)?, op))) {
            Some((origin, op)) => error.at(origin.clone(), op.kind.name()),
            None => error,
        }
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

    /// Returns `true` if an op is the range check of an i64-to-i32 conversion that [`crate::passes`] inserts:
    /// a gather whose indices are zero only if the high words are the sign extensions of the low words.
    pub fn checks_i64(&self, op: &Op) -> bool {
        let of = |value: ValueId| self.defining_op(value).map(|op| (&op.kind, &op.operands));
        let is_sign = |&value: &ValueId| matches!(of(value), Some((OpKind::Binary(BinaryOp::Shr), _)));
        match (&op.kind, op.operands.get(1).and_then(|&index| of(index))) {
            (OpKind::Gather { batch }, Some((OpKind::Binary(BinaryOp::Xor), words))) => {
                // Each index selects from a single row, so every index except 0 traps.
                self.ty(op.operands[0]).shape[*batch..] == [1] && words.iter().any(is_sign)
            }
            _ => false,
        }
    }

    /// Returns `true` if the op can fail depending on its operands' elements, because of an index out of
    /// range, an integer division by zero, or user code.
    pub fn can_trap(&self, op: &Op) -> bool {
        match &op.kind {
            OpKind::Scatter { op, .. } => !op.is_distinct(),
            OpKind::Gather { .. }
            | OpKind::DynamicSlice { .. }
            | OpKind::DynamicUpdateSlice
            | OpKind::Custom(_) => true,
            OpKind::Attention(spec) | OpKind::AttentionGrad(spec) => spec.block_table || spec.key_length,
            OpKind::Cast { dtype } => *dtype != DType::I64 && self.ty(op.operands[0]).dtype == DType::I64,
            OpKind::Binary(binary) => binary.divides_integers(self.ty(op.results[0]).dtype),
            _ => false,
        }
    }
}
