//! Which value is in which register.
//!
//! In: lines, and how many registers there are for vectors and for masks. Out: the same lines over registers, with vectors that do not fit
//! written to memory and read again, those that are used last going first (Belady, 1966); and registers for the invariants that are used
//! most, if there are any left. Or none, where there are more masks at once than registers: code that has so many is rare.
//! Always holds: a line's target may be in the register of a source that nobody uses afterwards.

use super::ir::{Invariant, Kind, Lines, Op, SOURCES, Source, Value};

/// Where something is when a line takes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// Vector register, from 0 for those that may be given out.
    Vector(u8),
    /// Mask register, likewise.
    Mask(u8),
    /// An invariant without a register.
    Invariant(u16),
}

/// A line over registers.
#[derive(Clone, Copy, Debug)]
pub(super) enum Step {
    Line {
        op: Op,
        sources: [Option<Place>; SOURCES],
        target: Option<u8>,
        ahead: u8,
    },
    /// Writes a register to a place in memory.
    Spill {
        register: u8,
        to: u16,
    },
    /// Reads it again.
    Reload {
        register: u8,
        from: u16,
    },
}

/// Lines over registers.
#[derive(Debug)]
pub(super) struct Allocation {
    pub(super) steps: Vec<Step>,
    /// For each invariant its register, if it has one.
    pub(super) invariants: Vec<Option<u8>>,
    /// Places in memory for vectors.
    pub(super) spills: u16,
}

/// Assigns registers; see the module. The invariants leave enough of them for `others` too: lines that are run apart, once a row, over the same
/// invariants.
pub(super) fn allocate<'a>(
    lines: &Lines,
    others: impl Iterator<Item = &'a Lines>,
    vectors: usize,
    masks: usize,
) -> Option<Allocation> {
    let most = |lines| most_at_once(lines, &uses(lines));
    // More would only spare them the way through memory, at the cost of the lines that are run for each vector.
    let needed = others.map(|other| most(other).min(SOURCES + 1)).max().unwrap_or(0);
    let most = most(lines).max(needed);
    allocate_beside(lines, vectors, masks, invariants(lines, vectors.saturating_sub(most)))
}

/// Assigns registers to lines whose invariants have theirs.
pub(super) fn allocate_beside(
    lines: &Lines,
    vectors: usize,
    masks: usize,
    invariants: Vec<Option<u8>>,
) -> Option<Allocation> {
    let uses = uses(lines);
    let held = invariants.iter().flatten().count();
    let mut allocator = Allocator {
        uses,
        places: vec![None; lines.values],
        spilled: vec![None; lines.values],
        vectors: vec![None; vectors - held],
        masks: vec![None; masks],
        steps: Vec::new(),
        spills: 0,
    };
    for at in 0..lines.all.len() {
        allocator.line(lines, at, &invariants)?;
    }
    Some(Allocation { steps: allocator.steps, invariants, spills: allocator.spills })
}

/// For each value, the lines that use it, last first.
fn uses(lines: &Lines) -> Vec<Vec<usize>> {
    let mut uses = vec![Vec::new(); lines.values];
    for (at, line) in lines.all.iter().enumerate().rev() {
        for value in line.values() {
            if uses[value as usize].last() != Some(&at) {
                uses[value as usize].push(at);
            }
        }
    }
    uses
}

/// The most vectors that are wanted at one time.
fn most_at_once(lines: &Lines, uses: &[Vec<usize>]) -> usize {
    let (mut live, mut most) = (0usize, 0);
    let mut vectors = vec![false; lines.values];
    for (at, line) in lines.all.iter().enumerate() {
        let is_vector = line.op.kind() == Some(Kind::Vector);
        line.target.iter().for_each(|&value| vectors[value as usize] = is_vector);
        let mut dying: Vec<Value> =
            line.values().filter(|&value| uses[value as usize].first() == Some(&at)).collect();
        dying.sort_unstable();
        dying.dedup();
        live = live.saturating_sub(dying.iter().filter(|&&value| vectors[value as usize]).count());
        live += usize::from(is_vector);
        most = most.max(live);
    }
    most
}

/// Registers for the most used invariants: the last ones.
fn invariants(lines: &Lines, free: usize) -> Vec<Option<u8>> {
    let mut used: Vec<(usize, usize)> = lines.invariants.iter().enumerate().map(|(i, _)| (0, i)).collect();
    for line in &lines.all {
        for (position, source) in line.sources.iter().enumerate() {
            if let Some(Source::Invariant(number)) = source {
                // As a second operand it can be read from memory on the way.
                used[*number as usize].0 += if position == 1 { 2 } else { 3 };
            }
        }
    }
    used.sort_by_key(|&(uses, number)| {
        (std::cmp::Reverse(uses), matches!(lines.invariants[number], Invariant::Row(_)), number)
    });
    let mut registers = vec![None; used.len()];
    for (register, &(_, number)) in used.iter().take(free).enumerate() {
        registers[number] = Some(register as u8);
    }
    registers
}

struct Allocator {
    uses: Vec<Vec<usize>>,
    places: Vec<Option<Place>>,
    spilled: Vec<Option<u16>>,
    /// What each register has.
    vectors: Vec<Option<Value>>,
    masks: Vec<Option<Value>>,
    steps: Vec<Step>,
    spills: u16,
}

impl Allocator {
    fn line(&mut self, lines: &Lines, at: usize, invariants: &[Option<u8>]) -> Option<()> {
        let line = &lines.all[at];
        let mut wanted: Vec<Value> = line.values().collect();
        for value in line.values() {
            if self.places[value as usize].is_none() {
                let register = self.free_vector(&wanted);
                let from = self.spilled[value as usize].expect("a value is in a register or in memory");
                self.steps.push(Step::Reload { register, from });
                self.put(value, Place::Vector(register));
            }
        }
        let of = |source: &Source, places: &[Option<Place>], held: usize| match *source {
            Source::Value(value) => places[value as usize].expect("sources were brought to registers"),
            Source::Invariant(number) => match invariants[number as usize] {
                Some(register) => Place::Vector((held + register as usize) as u8),
                None => Place::Invariant(number),
            },
        };
        let held = self.vectors.len();
        let sources = line.sources.map(|source| source.map(|source| of(&source, &self.places, held)));
        wanted.sort_unstable();
        wanted.dedup();
        for value in wanted {
            while self.uses[value as usize].last().is_some_and(|&next| next <= at) {
                self.uses[value as usize].pop();
            }
            if self.uses[value as usize].is_empty() {
                self.release(value);
            }
        }
        let mut target = None;
        if let (Some(value), Some(kind)) = (line.target, line.op.kind()) {
            let place = match kind {
                Kind::Vector => {
                    let held: Vec<Value> = line.values().collect();
                    Place::Vector(self.free_vector(&held))
                }
                Kind::Mask => Place::Mask(self.masks.iter().position(Option::is_none)? as u8),
            };
            self.put(value, place);
            target = Some(match place {
                Place::Vector(register) | Place::Mask(register) => register,
                Place::Invariant(_) => unreachable!("a target is a register"),
            });
            if self.uses[value as usize].is_empty() {
                self.release(value);
            }
        }
        self.steps.push(Step::Line { op: line.op, sources, target, ahead: line.ahead });
        Some(())
    }

    fn put(&mut self, value: Value, place: Place) {
        match place {
            Place::Vector(register) => self.vectors[register as usize] = Some(value),
            Place::Mask(register) => self.masks[register as usize] = Some(value),
            Place::Invariant(_) => {}
        }
        self.places[value as usize] = Some(place);
    }

    fn release(&mut self, value: Value) {
        match self.places[value as usize].take() {
            Some(Place::Vector(register)) => self.vectors[register as usize] = None,
            Some(Place::Mask(register)) => self.masks[register as usize] = None,
            _ => {}
        }
    }

    /// A register for a vector; its present value, which is not one of `wanted`, goes to memory.
    fn free_vector(&mut self, wanted: &[Value]) -> u8 {
        if let Some(free) = self.vectors.iter().position(Option::is_none) {
            return free as u8;
        }
        let next_use = |value: Value| self.uses[value as usize].last().copied().unwrap_or(usize::MAX);
        let candidates = self.vectors.iter().enumerate().filter_map(|(i, value)| Some((i, (*value)?)));
        let (register, value) = candidates
            .filter(|(_, value)| !wanted.contains(value))
            .max_by_key(|&(_, value)| next_use(value))
            .expect("there are more registers than a line has sources");
        if self.spilled[value as usize].is_none() {
            self.spilled[value as usize] = Some(self.spills);
            self.steps.push(Step::Spill { register: register as u8, to: self.spills });
            self.spills += 1;
        }
        self.places[value as usize] = None;
        self.vectors[register] = None;
        register as u8
    }
}
