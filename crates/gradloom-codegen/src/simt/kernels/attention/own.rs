//! Rows that an invocation multiplies by rows of another operand.
//!
//! Short rows are kept in registers; longer ones are reloaded for each product.

use super::super::Value;
use super::Attention;
use super::rows::Rows;
use super::shares::{REGISTERS, SharePlace};
use crate::narrow::narrow;

/// The invocation's rows of an operand.
pub(super) struct Own<'k, 'b> {
    operand: Rows<'k, 'b>,
    /// Indices of the first elements of the rows.
    starts: Vec<Value<'k>>,
    /// Elements of each row; `None` if they are too many for registers.
    registers: Option<Vec<Vec<Value<'k>>>>,
}

/// Dot products of an invocation's rows and another row.
pub(super) struct Products<'k> {
    /// One dot product per row of the invocation.
    pub(super) sums: Vec<Value<'k>>,
    /// Elements of the other row; `None` if they are too many for registers.
    pub(super) with: Option<Vec<Value<'k>>>,
}

impl<'k, 'b> Attention<'k, 'b> {
    /// Returns the invocation's rows of an operand.
    pub(super) fn own(&self, operand: Rows<'k, 'b>, place: &SharePlace<'k>) -> Own<'k, 'b> {
        let width = operand.width();
        let starts: Vec<_> = place.there.iter().map(|&row| operand.start(place.of, row)).collect();
        let elements = |&start: &Value<'k>| -> Vec<_> {
            (0..width).map(|d| operand.load(start, self.k.u32(narrow(d)))).collect()
        };
        let registers = (width <= REGISTERS).then(|| starts.iter().map(elements).collect());
        Own { operand, starts, registers }
    }

    /// Returns the dot products of the invocation's rows and the row of `other` whose first element is at
    /// `start`.
    pub(super) fn products(&self, own: &Own<'k, '_>, other: Rows<'k, '_>, start: Value<'k>) -> Products<'k> {
        let k = self.k;
        let width = narrow(own.operand.width());
        let sums: Vec<_> = own.starts.iter().map(|_| k.var(k.f32(0.0))).collect();
        let with = match &own.registers {
            Some(registers) => {
                let element = |d: u32| {
                    let with = other.load(start, k.u32(d));
                    for (sum, row) in sums.iter().zip(registers) {
                        sum.set(sum.get() + row[d as usize] * with);
                    }
                    with
                };
                Some((0..width).map(element).collect())
            }
            None => {
                k.count(k.u32(0), k.u32(width), k.u32(1), |d| {
                    let with = other.load(start, d);
                    for (sum, &row) in sums.iter().zip(&own.starts) {
                        sum.set(sum.get() + own.operand.load(row, d) * with);
                    }
                });
                None
            }
        };
        Products { sums: sums.iter().map(|sum| sum.get()).collect(), with }
    }

    /// Returns the dot products of the invocation's rows and the corresponding rows of another operand.
    pub(super) fn products_by_row(
        &self,
        own: &Own<'k, '_>,
        other: Rows<'k, '_>,
        place: &SharePlace<'k>,
    ) -> Vec<Value<'k>> {
        let k = self.k;
        let product = |(&mine, &row): (&Value<'k>, &Value<'k>)| {
            let theirs = other.start(place.of, row);
            let sum = k.var(k.f32(0.0));
            k.count(k.u32(0), k.u32(narrow(own.operand.width())), k.u32(1), |d| {
                sum.set(sum.get() + own.operand.load(mine, d) * other.load(theirs, d));
            });
            sum.get()
        };
        own.starts.iter().zip(&place.there).map(product).collect()
    }
}
