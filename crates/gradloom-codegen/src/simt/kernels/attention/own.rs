//! Rows that an invocation multiplies with others.
//!
//! Short ones are in registers; longer ones are read again for each product.

use super::super::Value;
use super::Attention;
use super::rows::Rows;
use super::shares::{REGISTERS, SharePlace};
use crate::narrow::narrow;

/// An invocation's rows of an operand.
pub(super) struct Own<'k, 'b> {
    operand: Rows<'k, 'b>,
    /// Indices of their first elements.
    starts: Vec<Value<'k>>,
    /// The elements of each, if they are few.
    registers: Option<Vec<Vec<Value<'k>>>>,
}

/// The products of an invocation's rows with another one.
pub(super) struct Products<'k> {
    /// For each of its rows.
    pub(super) sums: Vec<Value<'k>>,
    /// The elements of the other row, if they are few.
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

    /// Returns the products of the invocation's rows with a row of another operand, which starts there.
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

    /// Returns the products of the invocation's rows with its rows of another operand, one by one.
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
