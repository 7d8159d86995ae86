//! A program as human-readable text.

use super::program::{Condition, Grid, Instruction, Program, SlotPlace};
use super::{NONE, Step};
use crate::cpu::functions::MapOp;
use std::fmt::{self, Display, Formatter};

impl Display for Program {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { registers, capacity, row_registers, kept, .. } = self;
        writeln!(
            f,
            "tiles of {capacity} elements: {registers} registers, {row_registers} of rows, {kept} kept rows"
        )?;
        for (number, slot) in self.slots.iter().enumerate() {
            writeln!(f, "  s{number} = {}", slot.place)?;
        }
        list(f, "once", &self.uniform)?;
        list(f, "each strip of rows", &self.rows)?;
        for (number, pass) in self.passes.iter().enumerate() {
            list(f, &format!("pass {number}, each tile"), &pass.tile)?;
            list(f, &format!("pass {number}, rows"), &pass.rows)?;
        }
        list(f, "each strip of rows, at its end", &self.row_stores)?;
        let Some(native) = &self.native else { return Ok(()) };
        let steps = native.passes.iter().flat_map(|pass| &pass.tile);
        let (compiled, interpreted): (Vec<&Step>, Vec<&Step>) =
            steps.partition(|step| matches!(step, Step::Compiled(_)));
        writeln!(
            f,
            "machine code: {} segments, {} instructions interpreted",
            compiled.len(),
            interpreted.len()
        )
    }
}

fn list(f: &mut Formatter<'_>, title: &str, instructions: &[Instruction]) -> fmt::Result {
    if instructions.is_empty() {
        return Ok(());
    }
    writeln!(f, "{title}:")?;
    instructions.iter().try_for_each(|instruction| writeln!(f, "  {instruction}"))
}

impl Display for Instruction {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Map { op, operands, target, .. } => {
                write!(f, "s{target} = {op}")?;
                operands.iter().filter(|&&slot| slot != NONE).try_for_each(|slot| write!(f, " s{slot}"))
            }
            Self::Spread { operand, target } => write!(f, "s{target} = spread s{operand}"),
            Self::Number { target } => write!(f, "s{target} = columns"),
            Self::Gather(gather) => write!(f, "s{} = gather read {}", gather.target, gather.read),
            Self::Reduce { reduction, operand, target } => {
                write!(f, "s{target} = {} of the row, s{operand}", reduction.op.name())
            }
            Self::Columns { reduction, operand, offset } => {
                write!(f, "partials at {offset} = {} of the columns, s{operand}", reduction.op.name())
            }
            Self::Pick { index, chosen, others, target } => {
                write!(f, "s{target} = pick s{chosen} where the column is s{index}, else s{others}")
            }
            Self::Picked { index, operand, target } => {
                write!(f, "s{target} = sum with s{operand} where the column is s{index}")
            }
            Self::Check(check) => match check.condition {
                Condition::Index { extent, .. } => write!(f, "check 0 <= s{} < {extent}", check.operand),
                Condition::Divisor => write!(f, "check s{} != 0", check.operand),
            },
            Self::Scatter(scatter) => write!(f, "scatter s{} to write {}", scatter.operand, scatter.write),
        }
    }
}

impl Display for SlotPlace {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pending => write!(f, "no place"),
            Self::Register(number) => write!(f, "register {number}"),
            Self::Kept(number) => write!(f, "kept row {number}"),
            Self::RowRegister(number) => write!(f, "row register {number}"),
            Self::Uniform(number) => write!(f, "number {number}"),
            Self::Constant(number) => write!(f, "constant {number}"),
            Self::Read(read, grid) => write!(f, "read {read} {grid}"),
            Self::Write(write, grid) => write!(f, "write {write} {grid}"),
            Self::Accumulator => write!(f, "the product's block"),
        }
    }
}

impl Display for Grid {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let repeated = if self.repeated { ", repeated" } else { "" };
        write!(f, "from {}, rows {} apart{repeated}", self.offset, self.row_stride)
    }
}

impl Display for MapOp {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unary(op, dtype) => write!(f, "{}.{dtype}", op.name()),
            Self::Binary(op, dtype) => write!(f, "{}.{dtype}", op.name()),
            Self::Pair { first, second, reversed } => {
                let order = if *reversed { "from" } else { "then" };
                write!(f, "{} {order} {}", first.name(), second.name())
            }
            Self::Compare(op, dtype) => write!(f, "{}.{dtype}", op.name()),
            Self::Select(dtype) => write!(f, "select.{dtype}"),
            Self::Cast(from, to) => write!(f, "cast.{from}.{to}"),
        }
    }
}
