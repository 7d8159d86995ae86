//! Matrix products by register tiles, with scalar loads.
//!
//! On a device that splits vectors into scalars, most of the time is spent on loads: on executing them and,
//! because each compiles to many instructions, on compiling them. So there is a single load per row and
//! column of a thread, in a loop over the terms, and the results are finished in a loop over an array.

use super::grid::Grid;
use super::operand::TiledOperand;
use super::{At, Product};
use crate::narrow::narrow;
use crate::simt::{Builder, Kernel, Value};
use gradloom_core::ir::DType;
use gradloom_core::kernel::Tile;

/// Rows of the left operand, or columns of the right one, that a thread processes.
struct Axis<'k> {
    operand: TiledOperand<'k>,
    /// Index of the thread along the axis.
    thread: Value<'k>,
    /// Number of rows (or columns) of a thread.
    each: u32,
    /// Number of rows (or columns) of the tile.
    tile: u32,
}

impl<'k> Axis<'k> {
    /// Returns the index of the thread's row (or column) `i`.
    fn position(&self, i: Value<'k>) -> Value<'k> {
        self.operand.first + self.thread * self.each + i
    }

    /// Returns the start index of each row; rows that do not exist are clamped to the last.
    fn starts(&self, k: &'k Builder) -> Vec<Value<'k>> {
        let last = k.u32(narrow(self.operand.side.free.saturating_sub(1)));
        let start = |i| {
            let position = self.position(k.u32(i));
            let has_edge = self.operand.has_edge(self.tile);
            self.operand.row(if has_edge { position.min(last) } else { position })
        };
        (0..self.each).map(start).collect()
    }

    /// Returns a bool that is true if a row exists; `None` if all rows do.
    fn inside(&self, k: &'k Builder, position: Value<'k>) -> Option<Value<'k>> {
        let free = k.u32(narrow(self.operand.side.free));
        self.operand.has_edge(self.tile).then(|| position.less(free))
    }
}

impl Product<'_> {
    pub(super) fn scalar(&self, tile: &Tile) -> Kernel {
        let grid = Grid::new(self, [tile.m, tile.n]);
        let k = Builder::new(self.label, tile.threads(), grid.count());
        let own = grid.tile(&k, self.problem);
        let across = tile.n / tile.thread_n;
        let [lhs, rhs] = TiledOperand::both(&k, self, &own);
        let rows = Axis { operand: lhs, thread: k.local() / across, each: tile.thread_m, tile: tile.m };
        let columns = Axis { operand: rhs, thread: k.local() % across, each: tile.thread_n, tile: tile.n };
        let count = rows.each * columns.each;
        let sums: Vec<_> = (0..count).map(|_| k.var(k.f32(0.0))).collect();
        if self.problem.k > 0 {
            let starts = [rows.starts(&k), columns.starts(&k)];
            k.count(k.u32(0), k.u32(narrow(self.problem.k)), k.u32(1), |term| {
                let lefts: Vec<_> = starts[0].iter().map(|&row| lhs.element(lhs.term(row, term))).collect();
                let rights: Vec<_> = starts[1].iter().map(|&row| rhs.element(rhs.term(row, term))).collect();
                for (i, &left) in lefts.iter().enumerate() {
                    for (j, &right) in rights.iter().enumerate() {
                        let sum = sums[i * rights.len() + j];
                        sum.set(left.mul_add(right, sum.get()));
                    }
                }
            });
        }
        let results = k.private(DType::F32, count);
        for (i, sum) in (0..).zip(&sums) {
            k.set_element(results, k.u32(i), sum.get());
        }
        k.count(k.u32(0), k.u32(rows.each), k.u32(1), |i| {
            let row = rows.position(i);
            k.guard([rows.inside(&k, row)], || {
                k.count(k.u32(0), k.u32(columns.each), k.u32(1), |j| {
                    let column = columns.position(j);
                    k.guard([columns.inside(&k, column)], || {
                        let value = k.element(results, i * columns.each + j);
                        let at = At { own, row, column };
                        self.finish(&k, &[(at, value)]);
                    });
                });
            });
        });
        k.finish()
    }
}
