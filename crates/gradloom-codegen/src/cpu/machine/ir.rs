//! Straight-line code over vectors, for one step of a loop.
//!
//! In: calls of [`Builder`], in the order in which things have to happen. Out: lines, each of which makes one
//! value from earlier ones, or touches memory. A value is a vector of 4-byte lanes, or a mask with a bit for
//! each lane. Always holds: lines that compute the same are one; a line's sources stand before it.

use super::numbers::{InvariantNumber, OperandNumber, Value};
use crate::cpu::lanes::{BinaryInst, LaneKind, Lanes, MaskOp, UnaryInst};
use gradloom_core::ir::CompareOp;
use std::collections::HashMap;

/// Lines of a routine, at most. Segments are cut far below it; one that is longer all the same stays
/// interpreted.
pub const MOST_LINES: usize = 1 << 18;

/// Source of a line: the value of an earlier line, or something that is the same in all lanes and for all
/// steps of a row.
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
    /// The element of a row, of an operand with this number.
    Row(OperandNumber),
}

/// Elements of an operand with 4-byte elements that are fetched while others are worked on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Fetch {
    pub operand: OperandNumber,
    /// Bytes from the current elements to those that are fetched.
    pub distance: i32,
    /// True if they are to be written.
    pub writes: bool,
}

/// The operation of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    Two(BinaryInst),
    One(UnaryInst),
    /// Vectors to a mask.
    Compare(CompareOp, LaneKind),
    /// True where two floats are not ordered: where either is NaN.
    Unordered,
    /// A vector to a mask.
    NotZero,
    Mask(MaskOp),
    /// A mask and two vectors: the first where the mask is set.
    Select,
    /// Numbers of the columns.
    Columns,
    /// The next 4-byte elements of an operand.
    Load(OperandNumber),
    /// The next 1-byte elements of an operand, one in each lane.
    LoadBytes(OperandNumber),
    /// Writes a vector to an operand.
    Store(OperandNumber),
    /// Writes a mask to an operand, as bytes 0 and 1.
    StoreBytes(OperandNumber),
    /// Brings elements to the caches.
    Fetch(Fetch),
    /// Adds a vector to what a reduction has of the row.
    Reduce(usize),
    /// Adds a vector's first lane, an f32, to the row's element of an operand.
    AddFirst(OperandNumber),
}

/// The kind of a line's result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    Vector,
    Mask,
}

impl Op {
    /// Returns the kind of the value that the line defines, if any.
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

/// Most sources of a line.
pub(super) const SOURCES: usize = 3;

/// One line of vector code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Line {
    pub op: Op,
    pub sources: [Option<VectorOperand>; SOURCES],
    /// The value that it makes.
    pub target: Option<Value>,
    /// Number of vectors from the current column to the one that the line is for.
    pub ahead: usize,
}

impl Line {
    /// Returns the values that it takes.
    pub fn values(&self) -> impl Iterator<Item = Value> + '_ {
        self.sources.iter().filter_map(|source| match source {
            Some(VectorOperand::Value(value)) => Some(*value),
            _ => None,
        })
    }
}

/// Finished lines.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Lines {
    pub all: Vec<Line>,
    pub invariants: Vec<Invariant>,
    /// Number of values.
    pub values: usize,
}

impl Lines {
    /// Returns the lines for several vectors, which take turns: each `apart` vectors after the one before.
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

    /// Returns the lines that something depends on: those that touch memory or a reduction, and what they
    /// take.
    pub fn used(&self) -> Self {
        self.leading_to(|line| line.target.is_none())
    }

    /// Returns the lines without those that fetch what is written to these operands.
    pub fn without_fetches(&self, operands: &[OperandNumber]) -> Self {
        let stays = |line: &&Line| match line.op {
            Op::Fetch(fetch) => !(fetch.writes && operands.contains(&fetch.operand)),
            _ => true,
        };
        Self { all: self.all.iter().filter(stays).copied().collect(), ..self.clone() }
    }

    /// Returns the lines that make a value, and one that adds its first lane to the row's element of an
    /// operand.
    pub fn adding(&self, source: VectorOperand, operand: OperandNumber) -> Self {
        let mut lines = self.leading_to(|line| line.target.map(VectorOperand::Value) == Some(source));
        let sources = [Some(source), None, None];
        lines.all.push(Line { op: Op::AddFirst(operand), sources, target: None, ahead: 0 });
        lines
    }

    /// Returns the lines of some kind, and those that they depend on.
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

    /// Returns the number of lines.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Returns true if there are no lines.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Returns true if a line takes the numbers of the columns.
    pub fn counts_columns(&self) -> bool {
        self.all.iter().any(|line| line.op == Op::Columns)
    }
}

/// Lines in progress.
#[derive(Default)]
pub struct Builder {
    lines: Lines,
    known: HashMap<(Op, [Option<VectorOperand>; SOURCES]), VectorOperand>,
    numbers: HashMap<Invariant, VectorOperand>,
}

impl Builder {
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

    /// Appends a line that makes a value.
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

    /// Loads the next elements of an operand: of 4 bytes, or bools as a mask.
    pub fn load(&mut self, operand: OperandNumber, bytes: usize) -> VectorOperand {
        if bytes == 4 {
            return self.value(Op::Load(operand), []);
        }
        let lanes = self.value(Op::LoadBytes(operand), []);
        self.not_zero(lanes)
    }

    /// Returns the row's element of an operand.
    pub fn row(&mut self, operand: OperandNumber, bytes: usize) -> VectorOperand {
        let lanes = self.invariant(Invariant::Row(operand));
        if bytes == 4 { lanes } else { self.not_zero(lanes) }
    }

    /// Adds a constant.
    pub fn constant(&mut self, bits: u32, bytes: usize) -> VectorOperand {
        let lanes = self.bits(bits);
        if bytes == 4 { lanes } else { self.not_zero(lanes) }
    }

    pub fn store(&mut self, operand: OperandNumber, bytes: usize, source: VectorOperand) {
        self.effect(if bytes == 4 { Op::Store(operand) } else { Op::StoreBytes(operand) }, source);
    }

    /// Brings elements to the caches that will be wanted later.
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

    /// Picks the element `chosen` in the column that `index` names, `others` elsewhere; of 4 bytes.
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
        self.value(Op::Two(op), [a, b])
    }

    fn one(&mut self, op: UnaryInst, a: VectorOperand) -> VectorOperand {
        self.value(Op::One(op), [a])
    }

    fn compare(
        &mut self,
        op: CompareOp,
        lane: LaneKind,
        a: VectorOperand,
        b: VectorOperand,
    ) -> VectorOperand {
        self.value(Op::Compare(op, lane), [a, b])
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
