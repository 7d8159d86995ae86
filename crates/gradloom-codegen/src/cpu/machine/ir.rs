//! The intermediate representation (IR) of vector code: straight-line code for one step of a loop.
//!
//! In: calls of [`Builder`] in execution order. Out: instructions ([`Line`]), each of which computes a value
//! from earlier ones or accesses memory. A value is a vector of 4-byte lanes, or a mask with a bit for each
//! lane. Invariant: equal computations share one instruction, and the sources of an instruction precede it.

use super::isa::VectorIsa;
use super::numbers::{InvariantNumber, OperandNumber, Value};
use crate::cpu::lanes::{self, BinaryInst, LaneKind, Lanes, MaskOp, UnaryInst};
use gradloom_core::ir::CompareOp;
use std::collections::HashMap;

/// Maximum number of instructions of a routine. Segments are cut far below it, and stay interpreted if they
/// exceed it anyway.
pub const MOST_LINES: usize = 1 << 18;

/// Source of an instruction: the value of an earlier instruction, or an invariant, which is the same in all
/// lanes and in all steps of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum VectorOperand {
    Value(Value),
    /// One of [`Lines::invariants`].
    Invariant(InvariantNumber),
}

/// A number that is the same for all columns of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Invariant {
    /// A constant with these bits.
    Constant(u32),
    /// The current row's element of the operand with this number.
    Row(OperandNumber),
}

/// Prefetch of an operand's 4-byte elements while other elements are processed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Fetch {
    pub operand: OperandNumber,
    /// Distance from the current elements to those that are prefetched, in bytes.
    pub distance: i32,
    /// True if the elements will be written.
    pub writes: bool,
}

/// The operation of an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    Two(BinaryInst),
    One(UnaryInst),
    /// Compares two vectors, with a mask as the result.
    Compare(CompareOp, LaneKind),
    /// Compares two vectors of floats. The mask is set where at least one of them is NaN.
    Unordered,
    /// Compares a vector with zero. The mask is set where a lane is not zero.
    NotZero,
    Mask(MaskOp),
    /// Selects from two vectors by a mask: the first where the mask is set.
    Select,
    /// Indices of the columns.
    Columns,
    /// Loads the next 4-byte elements of an operand.
    Load(OperandNumber),
    /// Loads the next 1-byte elements of an operand, one in each lane.
    LoadBytes(OperandNumber),
    /// Stores a vector to an operand.
    Store(OperandNumber),
    /// Stores a mask to an operand, as bytes 0 and 1.
    StoreBytes(OperandNumber),
    /// Prefetches elements.
    Fetch(Fetch),
    /// Combines a vector with the results of a reduction for the current row.
    Reduce(usize),
    /// Adds a vector's first lane, an f32, to the current row's element of an operand.
    AddFirst(OperandNumber),
}

/// The kind of an instruction's result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    Vector,
    Mask,
}

impl Op {
    /// Returns the kind of the value that an instruction with this operation defines, if any.
    pub fn kind(self) -> Option<Kind> {
        match self {
            Op::Two(_) | Op::One(_) | Op::Select | Op::Columns | Op::Load(_) | Op::LoadBytes(_) => {
                Some(Kind::Vector)
            }
            Op::Compare(..) | Op::Unordered | Op::NotZero | Op::Mask(_) => Some(Kind::Mask),
            Op::Store(_) | Op::StoreBytes(_) | Op::Fetch(_) | Op::Reduce(_) | Op::AddFirst(_) => None,
        }
    }
}

/// Maximum number of sources of an instruction.
pub(super) const SOURCES: usize = 3;

/// An instruction on vectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Line {
    pub op: Op,
    pub sources: [Option<VectorOperand>; SOURCES],
    /// Value that the instruction defines, if any.
    pub target: Option<Value>,
    /// Distance from the current column to the first one that the instruction processes, in vectors.
    pub ahead: usize,
}

impl Line {
    /// Returns the values that the instruction reads.
    pub fn values(&self) -> impl Iterator<Item = Value> + '_ {
        self.sources.iter().filter_map(|source| match source {
            Some(VectorOperand::Value(value)) => Some(*value),
            _ => None,
        })
    }
}

/// A finished sequence of instructions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Lines {
    pub all: Vec<Line>,
    pub invariants: Vec<Invariant>,
    /// Number of values.
    pub values: usize,
}

impl Lines {
    /// Returns the sequence with each instruction repeated for several vectors, which are `apart` vectors
    /// apart.
    pub fn interleaved(&self, vectors: usize, apart: usize) -> Self {
        let of = |line: &Line, number: usize| {
            let renamed = |value: Value| Value::new(value.index() + number * self.values);
            Line {
                op: line.op,
                sources: line.sources.map(|source| {
                    source.map(|source| match source {
                        VectorOperand::Value(value) => VectorOperand::Value(renamed(value)),
                        invariant => invariant,
                    })
                }),
                target: line.target.map(renamed),
                ahead: number * apart,
            }
        };
        let all = self.all.iter().flat_map(|line| (0..vectors).map(move |number| of(line, number)));
        Self { all: all.collect(), invariants: self.invariants.clone(), values: vectors * self.values }
    }

    /// Returns the instructions that access memory or a reduction, and the instructions that they depend on.
    pub fn used(&self) -> Self {
        self.leading_to(|line| line.target.is_none())
    }

    /// Returns the instructions without those that prefetch these operands for writing.
    pub fn without_fetches(&self, operands: &[OperandNumber]) -> Self {
        let stays = |line: &&Line| match line.op {
            Op::Fetch(fetch) => !(fetch.writes && operands.contains(&fetch.operand)),
            _ => true,
        };
        Self { all: self.all.iter().filter(stays).copied().collect(), ..self.clone() }
    }

    /// Returns the instructions that compute a value, followed by one that adds the value's first lane to the
    /// current row's element of an operand.
    pub fn adding(&self, source: VectorOperand, operand: OperandNumber) -> Self {
        let mut lines = self.leading_to(|line| line.target.map(VectorOperand::Value) == Some(source));
        let sources = [Some(source), None, None];
        lines.all.push(Line { op: Op::AddFirst(operand), sources, target: None, ahead: 0 });
        lines
    }

    /// Returns the instructions for which `is_wanted` returns `true`, and the instructions that they depend
    /// on.
    fn leading_to(&self, is_wanted: impl Fn(&Line) -> bool) -> Self {
        let mut needed = vec![false; self.values];
        let mut all: Vec<Line> = Vec::new();
        for line in self.all.iter().rev() {
            if is_wanted(line) || line.target.is_some_and(|value| needed[value.index()]) {
                line.values().for_each(|value| needed[value.index()] = true);
                all.push(*line);
            }
        }
        all.reverse();
        Self { all, ..self.clone() }
    }

    /// Returns the number of instructions.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Returns `true` if there are no instructions.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Returns `true` if an instruction reads the indices of the columns.
    pub fn counts_columns(&self) -> bool {
        self.all.iter().any(|line| line.op == Op::Columns)
    }
}

/// A sequence of instructions in progress.
pub struct Builder {
    isa: VectorIsa,
    lines: Lines,
    known: HashMap<(Op, [Option<VectorOperand>; SOURCES]), VectorOperand>,
    numbers: HashMap<Invariant, VectorOperand>,
}

impl Builder {
    /// Creates an empty sequence, which will consist of operations that the instruction set has.
    pub fn new(isa: VectorIsa) -> Self {
        Self { isa, lines: Lines::default(), known: HashMap::new(), numbers: HashMap::new() }
    }

    pub fn finish(self) -> Lines {
        self.lines
    }

    pub fn invariant(&mut self, invariant: Invariant) -> VectorOperand {
        let invariants = &mut self.lines.invariants;
        *self.numbers.entry(invariant).or_insert_with(|| {
            invariants.push(invariant);
            VectorOperand::Invariant(InvariantNumber::new(invariants.len() - 1))
        })
    }

    /// Appends an instruction that computes a value, or reuses an identical earlier instruction (value
    /// numbering). Returns the value.
    pub fn value<const N: usize>(&mut self, op: Op, sources: [VectorOperand; N]) -> VectorOperand {
        let mut all = [None; SOURCES];
        all.iter_mut().zip(sources).for_each(|(place, source)| *place = Some(source));
        if let Some(&known) = self.known.get(&(op, all)) {
            return known;
        }
        let target = Value::new(self.lines.values);
        self.lines.values += 1;
        self.lines.all.push(Line { op, sources: all, target: Some(target), ahead: 0 });
        self.known.insert((op, all), VectorOperand::Value(target));
        VectorOperand::Value(target)
    }

    fn effect(&mut self, op: Op, source: VectorOperand) {
        self.lines.all.push(Line { op, sources: [Some(source), None, None], target: None, ahead: 0 });
    }

    /// Appends a load of the next elements of an operand. Returns 4-byte elements as a vector, and bools as a
    /// mask.
    pub fn load(&mut self, operand: OperandNumber, bytes: usize) -> VectorOperand {
        if bytes == 4 {
            return self.value(Op::Load(operand), []);
        }
        let lanes = self.value(Op::LoadBytes(operand), []);
        self.not_zero(lanes)
    }

    /// Returns the current row's element of an operand.
    pub fn row(&mut self, operand: OperandNumber, bytes: usize) -> VectorOperand {
        let lanes = self.invariant(Invariant::Row(operand));
        if bytes == 4 { lanes } else { self.not_zero(lanes) }
    }

    /// Returns a constant as a vector, or as a mask if it is a bool.
    pub fn constant(&mut self, bits: u32, bytes: usize) -> VectorOperand {
        let lanes = self.bits(bits);
        if bytes == 4 { lanes } else { self.not_zero(lanes) }
    }

    pub fn store(&mut self, operand: OperandNumber, bytes: usize, source: VectorOperand) {
        self.effect(if bytes == 4 { Op::Store(operand) } else { Op::StoreBytes(operand) }, source);
    }

    /// Appends a prefetch.
    pub fn fetch(&mut self, fetch: Fetch) {
        self.lines.all.push(Line { op: Op::Fetch(fetch), sources: [None; SOURCES], target: None, ahead: 0 });
    }

    pub fn reduce(&mut self, reduction: usize, source: VectorOperand) {
        self.effect(Op::Reduce(reduction), source);
    }

    pub fn columns(&mut self) -> VectorOperand {
        self.value(Op::Columns, [])
    }

    pub fn not_zero(&mut self, a: VectorOperand) -> VectorOperand {
        self.value(Op::NotZero, [a])
    }

    /// Returns `chosen` in the column that `index` selects, and `others` elsewhere, for 4-byte elements.
    pub fn pick(
        &mut self,
        index: VectorOperand,
        chosen: VectorOperand,
        others: VectorOperand,
    ) -> VectorOperand {
        let columns = self.columns();
        let hit = self.compare(CompareOp::Eq, LaneKind::Signed, columns, index);
        self.select(hit, chosen, others)
    }
}

impl Lanes for Builder {
    type Value = VectorOperand;
    type Mask = VectorOperand;

    fn bits(&mut self, bits: u32) -> VectorOperand {
        self.invariant(Invariant::Constant(bits))
    }

    fn two(&mut self, op: BinaryInst, a: VectorOperand, b: VectorOperand) -> VectorOperand {
        match op {
            BinaryInst::Scale if !self.isa.scales() => lanes::scale(self, a, b),
            _ => self.value(Op::Two(op), [a, b]),
        }
    }

    fn one(&mut self, op: UnaryInst, a: VectorOperand) -> VectorOperand {
        match op {
            UnaryInst::FloatOfUnsigned if !self.isa.has_unsigned() => lanes::float_of_unsigned(self, a),
            UnaryInst::UnsignedOfFloat if !self.isa.has_unsigned() => lanes::unsigned_of_float(self, a),
            _ => self.value(Op::One(op), [a]),
        }
    }

    fn compare(
        &mut self,
        op: CompareOp,
        lane: LaneKind,
        a: VectorOperand,
        b: VectorOperand,
    ) -> VectorOperand {
        match lane {
            LaneKind::Unsigned if !self.isa.has_unsigned() => lanes::compare_unsigned(self, op, a, b),
            _ => self.value(Op::Compare(op, lane), [a, b]),
        }
    }

    fn mask(&mut self, op: MaskOp, a: VectorOperand, b: VectorOperand) -> VectorOperand {
        self.value(Op::Mask(op), [a, b])
    }

    fn is_nan(&mut self, a: VectorOperand) -> VectorOperand {
        self.value(Op::Unordered, [a, a])
    }

    fn select(&mut self, mask: VectorOperand, a: VectorOperand, b: VectorOperand) -> VectorOperand {
        self.value(Op::Select, [mask, a, b])
    }
}
