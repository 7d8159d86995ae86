//! Assigns registers to the values of a routine.
//!
//! In: IR instructions, and the numbers of vector and mask registers. Out: the same instructions over
//! registers. Vectors that do not fit are spilled to memory and reloaded, starting with the one whose next
//! use is the farthest (Belady, 1966). The remaining registers are assigned to the most used invariants.
//! There is no result if more masks are live at the same time than there are registers for them, which is
//! rare. Without mask registers, masks are vectors. Invariant: the target of an instruction only shares the
//! register of a source that is not used afterwards.

use crate::cpu::machine::ir::{Invariant, Kind, Lines, Op, SOURCES, VectorOperand};
use crate::cpu::machine::numbers::{InvariantNumber, SpillNumber, Value};

/// Numbers of registers that can be assigned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Registers {
    pub vectors: usize,
    /// Number of mask registers; `None` if masks are in vector registers.
    pub masks: Option<usize>,
}

impl Registers {
    /// Returns the kind of register that contains the result of an operation, if there is a result.
    pub(super) fn kind(self, op: Op) -> Option<Kind> {
        match (op.kind(), self.masks) {
            (Some(Kind::Mask), None) => Some(Kind::Vector),
            (kind, _) => kind,
        }
    }
}

/// The location of an instruction's source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Location {
    /// Vector register, counted from the first one that can be assigned.
    Vector(u8),
    /// Mask register, counted from the first one that can be assigned.
    Mask(u8),
    /// An invariant without a register.
    Invariant(InvariantNumber),
}

/// An IR instruction over registers, or a spill or reload of a register.
#[derive(Clone, Copy, Debug)]
pub enum Step {
    Line {
        op: Op,
        sources: [Option<Location>; SOURCES],
        target: Option<u8>,
        ahead: usize,
    },
    /// Writes a register to a spill slot.
    Spill {
        register: u8,
        to: SpillNumber,
    },
    /// Reads a register from a spill slot.
    Reload {
        register: u8,
        from: SpillNumber,
    },
}

/// IR instructions over registers.
#[derive(Debug)]
pub struct Allocation {
    pub steps: Vec<Step>,
    /// Register of each invariant, if it has one.
    pub invariants: Vec<Option<u8>>,
    /// Number of spill slots.
    pub spills: usize,
}

/// Assigns registers to values and invariants. The invariants leave enough registers for `others`, which are
/// instructions that run separately, once per row, over the same invariants. Returns `None` if there are too
/// few mask registers.
pub fn allocate<'a>(
    lines: &Lines,
    others: impl Iterator<Item = &'a Lines>,
    registers: Registers,
) -> Option<Allocation> {
    let most = |lines| most_at_once(lines, &uses(lines), registers);
    // Leave these instructions no more registers than necessary: more would only save spills once per row, at
    // the cost of the instructions that run for each vector.
    let needed = others.map(|other| most(other).min(SOURCES + 1)).max().unwrap_or(0);
    let most = most(lines).max(needed);
    allocate_beside(lines, registers, invariants(lines, registers.vectors.saturating_sub(most)))
}

/// Assigns registers to the values of instructions whose invariants already have registers. Returns `None` if
/// there are too few mask registers.
pub(super) fn allocate_beside(
    lines: &Lines,
    registers: Registers,
    invariants: Vec<Option<u8>>,
) -> Option<Allocation> {
    let uses = uses(lines);
    let held = invariants.iter().flatten().count();
    let mut allocator = Allocator {
        registers,
        uses,
        places: vec![None; lines.values],
        spilled: vec![None; lines.values],
        vectors: vec![None; registers.vectors - held],
        masks: vec![None; registers.masks.unwrap_or(0)],
        steps: Vec::new(),
        spills: 0,
    };
    for at in 0..lines.all.len() {
        allocator.line(lines, at, &invariants)?;
    }
    Some(Allocation { steps: allocator.steps, invariants, spills: allocator.spills })
}

/// Returns, for each value, the indices of the instructions that use it, last first.
fn uses(lines: &Lines) -> Vec<Vec<usize>> {
    let mut uses = vec![Vec::new(); lines.values];
    for (at, line) in lines.all.iter().enumerate().rev() {
        for value in line.values() {
            if uses[value.index()].last() != Some(&at) {
                uses[value.index()].push(at);
            }
        }
    }
    uses
}

/// Returns the maximum number of vectors that are live at the same time.
fn most_at_once(lines: &Lines, uses: &[Vec<usize>], registers: Registers) -> usize {
    let (mut live, mut most) = (0usize, 0);
    let mut vectors = vec![false; lines.values];
    for (at, line) in lines.all.iter().enumerate() {
        let is_vector = registers.kind(line.op) == Some(Kind::Vector);
        line.target.iter().for_each(|&value| vectors[value.index()] = is_vector);
        let mut dying: Vec<Value> =
            line.values().filter(|&value| uses[value.index()].first() == Some(&at)).collect();
        dying.sort_unstable();
        dying.dedup();
        live = live.saturating_sub(dying.iter().filter(|&&value| vectors[value.index()]).count());
        live += usize::from(is_vector);
        most = most.max(live);
    }
    most
}

/// Returns the registers of the most used invariants, counted from the end of the registers for values.
fn invariants(lines: &Lines, free: usize) -> Vec<Option<u8>> {
    let mut used: Vec<(usize, usize)> = lines.invariants.iter().enumerate().map(|(i, _)| (0, i)).collect();
    for line in &lines.all {
        for (position, source) in line.sources.iter().enumerate() {
            if let Some(VectorOperand::Invariant(number)) = source {
                // A register for the second source saves less, because a machine instruction can read it from
                // memory.
                used[number.index()].0 += if position == 1 { 2 } else { 3 };
            }
        }
    }
    used.sort_by_key(|&(uses, number)| {
        (std::cmp::Reverse(uses), matches!(lines.invariants[number], Invariant::Row(_)), number)
    });
    let mut registers = vec![None; used.len()];
    for (register, &(_, number)) in used.iter().take(free).enumerate() {
        registers[number] = Some(register_number(register));
    }
    registers
}

struct Allocator {
    registers: Registers,
    uses: Vec<Vec<usize>>,
    places: Vec<Option<Location>>,
    spilled: Vec<Option<SpillNumber>>,
    /// The value in each register.
    vectors: Vec<Option<Value>>,
    masks: Vec<Option<Value>>,
    steps: Vec<Step>,
    spills: usize,
}

impl Allocator {
    fn line(&mut self, lines: &Lines, at: usize, invariants: &[Option<u8>]) -> Option<()> {
        let line = &lines.all[at];
        let mut wanted: Vec<Value> = line.values().collect();
        for value in line.values() {
            if self.places[value.index()].is_none() {
                let register = self.free_vector(&wanted);
                let from = self.spilled[value.index()].expect("a value is in a register or in memory");
                self.steps.push(Step::Reload { register, from });
                self.put(value, Location::Vector(register));
            }
        }
        let of = |source: &VectorOperand, places: &[Option<Location>], held: usize| match *source {
            VectorOperand::Value(value) => places[value.index()].expect("sources were brought to registers"),
            VectorOperand::Invariant(number) => match invariants[number.index()] {
                Some(register) => Location::Vector(register_number(held + usize::from(register))),
                None => Location::Invariant(number),
            },
        };
        let held = self.vectors.len();
        let sources = line.sources.map(|source| source.map(|source| of(&source, &self.places, held)));
        wanted.sort_unstable();
        wanted.dedup();
        for value in wanted {
            while self.uses[value.index()].last().is_some_and(|&next| next <= at) {
                self.uses[value.index()].pop();
            }
            if self.uses[value.index()].is_empty() {
                self.release(value);
            }
        }
        let mut target = None;
        if let (Some(value), Some(kind)) = (line.target, self.registers.kind(line.op)) {
            let place = match kind {
                Kind::Vector => {
                    let held: Vec<Value> = line.values().collect();
                    Location::Vector(self.free_vector(&held))
                }
                Kind::Mask => Location::Mask(register_number(self.masks.iter().position(Option::is_none)?)),
            };
            self.put(value, place);
            target = Some(match place {
                Location::Vector(register) | Location::Mask(register) => register,
                Location::Invariant(_) => unreachable!("a target is a register"),
            });
            if self.uses[value.index()].is_empty() {
                self.release(value);
            }
        }
        self.steps.push(Step::Line { op: line.op, sources, target, ahead: line.ahead });
        Some(())
    }

    fn put(&mut self, value: Value, place: Location) {
        match place {
            Location::Vector(register) => self.vectors[usize::from(register)] = Some(value),
            Location::Mask(register) => self.masks[usize::from(register)] = Some(value),
            Location::Invariant(_) => {}
        }
        self.places[value.index()] = Some(place);
    }

    fn release(&mut self, value: Value) {
        match self.places[value.index()].take() {
            Some(Location::Vector(register)) => self.vectors[usize::from(register)] = None,
            Some(Location::Mask(register)) => self.masks[usize::from(register)] = None,
            _ => {}
        }
    }

    /// Returns a free vector register. If there is none, spills the value with the farthest next use that is
    /// not in `wanted`.
    fn free_vector(&mut self, wanted: &[Value]) -> u8 {
        if let Some(free) = self.vectors.iter().position(Option::is_none) {
            return register_number(free);
        }
        let next_use = |value: Value| self.uses[value.index()].last().copied().unwrap_or(usize::MAX);
        let candidates = self.vectors.iter().enumerate().filter_map(|(i, value)| Some((i, (*value)?)));
        let (register, value) = candidates
            .filter(|(_, value)| !wanted.contains(value))
            .max_by_key(|&(_, value)| next_use(value))
            .expect("there are more registers than a line has sources");
        if self.spilled[value.index()].is_none() {
            let to = SpillNumber::new(self.spills);
            self.spilled[value.index()] = Some(to);
            self.steps.push(Step::Spill { register: register_number(register), to });
            self.spills += 1;
        }
        self.places[value.index()] = None;
        self.vectors[register] = None;
        register_number(register)
    }
}

/// Converts the number of a register to the type that instructions take.
pub(super) fn register_number(position: usize) -> u8 {
    u8::try_from(position).expect("there are fewer than 256 registers")
}
