//! Proof that registers are assigned correctly, for each routine, before it runs.
//!
//! In: IR instructions, and the same instructions over registers. Out: nothing, or a description of the
//! error. The checker follows the steps and tracks the value in each register and spill slot. Every
//! instruction must find its sources there, so each value is defined before it is read, and no two values
//! that are still needed share a register or a slot. (The checker of register allocations in Cranelift is
//! similar: C. Fallin, "Cranelift, Part 3: Correctness in Register Allocation", 2021.)

use super::registers::{Allocation, Location, Registers, Step};
use crate::cpu::machine::ir::{Kind, Line, Lines, VectorOperand};
use crate::cpu::machine::numbers::{SpillNumber, Value};

/// Checks the steps of an allocation against their IR instructions, given the registers that can be assigned.
pub fn check(lines: &Lines, allocation: &Allocation, registers: Registers) -> Result<(), String> {
    let held = allocation.invariants.iter().flatten().count();
    let given_out =
        registers.vectors.checked_sub(held).ok_or("more invariants have registers than there are")?;
    let mut taken = vec![false; held];
    for &register in allocation.invariants.iter().flatten() {
        let taken = taken.get_mut(usize::from(register)).ok_or("an invariant has a register of values")?;
        if std::mem::replace(taken, true) {
            return Err("two invariants share a register".into());
        }
    }
    let mut checker = Checker {
        allocation,
        registers,
        given_out,
        vectors: vec![None; given_out],
        masks: vec![None; registers.masks.unwrap_or(0)],
        spilled: vec![None; allocation.spills],
        kinds: vec![None; lines.values],
    };
    let mut rest = lines.all.iter();
    for step in &allocation.steps {
        match *step {
            Step::Spill { register, to } => {
                let value = checker.vector(register)?;
                *checker.spilled(to)? = Some(value);
            }
            Step::Reload { register, from } => {
                let value = checker.spilled(from)?.ok_or("a place in memory is read before it is written")?;
                checker.set(Kind::Vector, register, value)?;
            }
            Step::Line { op, sources, target, ahead } => {
                let line = rest.next().ok_or("there are more steps than lines")?;
                if (op, ahead) != (line.op, line.ahead) {
                    return Err(format!("a step does {op:?} in place of {:?}", line.op));
                }
                checker.line(line, &sources, target)?;
            }
        }
    }
    rest.next().map_or(Ok(()), |line| Err(format!("no step does {:?}", line.op)))
}

struct Checker<'a> {
    allocation: &'a Allocation,
    registers: Registers,
    /// Number of vector registers for values. Those of invariants follow them.
    given_out: usize,
    vectors: Vec<Option<Value>>,
    masks: Vec<Option<Value>>,
    spilled: Vec<Option<Value>>,
    /// Kind of each value that was defined.
    kinds: Vec<Option<Kind>>,
}

impl Checker<'_> {
    fn line(&mut self, line: &Line, places: &[Option<Location>], target: Option<u8>) -> Result<(), String> {
        for (source, place) in line.sources.iter().zip(places) {
            match (source, place) {
                (None, None) => {}
                (Some(VectorOperand::Value(value)), Some(place)) => {
                    let (kind, held) = match *place {
                        Location::Vector(register) => (Kind::Vector, self.vector(register)?),
                        Location::Mask(register) => (Kind::Mask, self.mask(register)?),
                        Location::Invariant(_) => return Err(format!("{value:?} is taken for an invariant")),
                    };
                    if held != *value || self.kinds[value.index()] != Some(kind) {
                        return Err(format!("{:?} wants {value:?} and finds {held:?}", line.op));
                    }
                }
                (Some(VectorOperand::Invariant(number)), Some(place)) => {
                    let register = self.allocation.invariants.get(number.index()).copied().flatten();
                    let right = match (register, *place) {
                        (Some(register), Location::Vector(at)) => {
                            usize::from(at) == self.given_out + usize::from(register)
                        }
                        (None, Location::Invariant(at)) => at == *number,
                        _ => false,
                    };
                    if !right {
                        return Err(format!("{:?} wants {number:?} and takes {place:?}", line.op));
                    }
                }
                _ => return Err(format!("{:?} has another number of operands", line.op)),
            }
        }
        match (line.target, self.registers.kind(line.op), target) {
            (None, None, None) => Ok(()),
            (Some(value), Some(kind), Some(register)) => {
                let known = self.kinds.get_mut(value.index()).ok_or("a value has no number")?;
                if known.replace(kind).is_some() {
                    return Err(format!("{value:?} is defined twice"));
                }
                self.set(kind, register, value)
            }
            _ => Err(format!("{:?} makes no value, or too many", line.op)),
        }
    }

    fn set(&mut self, kind: Kind, register: u8, value: Value) -> Result<(), String> {
        let registers = match kind {
            Kind::Vector => &mut self.vectors,
            Kind::Mask => &mut self.masks,
        };
        *registers.get_mut(usize::from(register)).ok_or("there is no such register")? = Some(value);
        Ok(())
    }

    fn vector(&self, register: u8) -> Result<Value, String> {
        let held = self.vectors.get(usize::from(register)).ok_or("there is no such vector register")?;
        held.ok_or_else(|| "a vector register is read before it is written".into())
    }

    fn mask(&self, register: u8) -> Result<Value, String> {
        let held = self.masks.get(usize::from(register)).ok_or("there is no such mask register")?;
        held.ok_or_else(|| "a mask register is read before it is written".into())
    }

    fn spilled(&mut self, place: SpillNumber) -> Result<&mut Option<Value>, String> {
        self.spilled.get_mut(place.index()).ok_or_else(|| "there is no such place in memory".into())
    }
}
