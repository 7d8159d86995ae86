//! Sums for an invocation's output rows, or for a part of their columns.

use super::super::{Builder, Value};
use super::rows::Rows;
use super::shares::{REGISTERS, SharePlace};
use super::thread::Each;
use crate::narrow::narrow;
use crate::simt::Variable;

/// Sums of the columns of an invocation's part.
pub(super) struct AttentionPart<'k> {
    k: &'k Builder,
    /// Indices of the part's columns, clamped to the last column.
    columns: Vec<Value<'k>>,
    /// For each column, true if it exists; `None` if all do.
    is_here: Option<Vec<Value<'k>>>,
    /// For each column, the sums of the rows.
    sums: Each<Variable<'k>>,
}

impl<'k> AttentionPart<'k> {
    /// Creates sums for rows of `width` elements, initialized to zero.
    pub(super) fn new(k: &'k Builder, place: &SharePlace<'k>, width: usize) -> Self {
        let here = width.min(REGISTERS);
        let registers = narrow(REGISTERS);
        let sum = |_| place.rows.iter().map(|_| k.var(k.f32(0.0))).collect();
        let sums = (0..here).map(sum).collect();
        let numbers = || (0..narrow(here)).map(|c| place.part * registers + c);
        let columns = match width > REGISTERS {
            true => numbers().map(|at| at.min(k.u32(narrow(width) - 1))).collect(),
            false => (0..narrow(here)).map(|c| k.u32(c)).collect(),
        };
        let is_ragged = place.parts > 1 && width < place.parts * REGISTERS;
        let is_here = is_ragged.then(|| numbers().map(|at| at.below(narrow(width))).collect());
        Self { k, columns, is_here, sums }
    }

    /// Multiplies the sums of each row by the row's factor in `keep`, if present, and adds the row of an
    /// operand whose first element is at `start`, multiplied by the row's factor.
    pub(super) fn add(
        &self,
        keep: Option<&[Value<'k>]>,
        factors: &[Value<'k>],
        (operand, start): (Rows<'k, '_>, Value<'k>),
    ) {
        for (sums, &column) in self.sums.iter().zip(&self.columns) {
            add(sums, keep, factors, operand.load(start, column));
        }
    }

    /// Adds a row of an operand, multiplied by each row's factor, from registers if its elements are known.
    pub(super) fn add_known(
        &self,
        known: Option<&[Value<'k>]>,
        factors: &[Value<'k>],
        row: (Rows<'k, '_>, Value<'k>),
    ) {
        let Some(known) = known else { return self.add(None, factors, row) };
        for (sums, &with) in self.sums.iter().zip(known) {
            add(sums, None, factors, with);
        }
    }

    /// Stores the sums of row `r`, multiplied by a factor if present, to the row of the result whose first
    /// element is at `start`.
    pub(super) fn store(&self, result: Rows<'k, '_>, start: Value<'k>, r: usize, factor: Option<Value<'k>>) {
        for (c, sums) in self.sums.iter().enumerate() {
            let is_here = self.is_here.as_ref().map(|is_here| is_here[c]);
            self.k.guard([is_here], || {
                let sum = sums[r].get();
                result.store(start, self.columns[c], factor.map_or(sum, |factor| sum * factor));
            });
        }
    }
}

/// Sets `sums[r]` to `sums[r] * keep[r] + factors[r] * with` for each row `r`; without `keep`, does not scale
/// the sums.
fn add<'k>(sums: &[Variable<'k>], keep: Option<&[Value<'k>]>, factors: &[Value<'k>], with: Value<'k>) {
    for (r, (sum, &factor)) in sums.iter().zip(factors).enumerate() {
        let kept = keep.map_or(sum.get(), |keep| sum.get() * keep[r]);
        sum.set(kept + factor * with);
    }
}
