//! Assignment of tiles to workgroups.
//!
//! Workgroups are ordered, from the outermost to the innermost, by the product of a group, split-K part,
//! batch and tile, so that concurrent workgroups share operands. Tiles are ordered in bands of [`BAND`] tile
//! rows, column by column.

use super::Product;
use crate::narrow::narrow;
use crate::product::DotProblem;
use crate::simt::kernels::Table;
use crate::simt::{Builder, Value};

/// Number of tile rows in a band, so that concurrent workgroups form a square rather than a line.
const BAND: usize = 8;

/// Grid of the tiles of a product.
pub(super) struct Grid<'b> {
    tile: [u32; 2],
    rows: usize,
    columns: usize,
    batch: usize,
    parts: usize,
    table: Option<&'b Table>,
}

/// Tile of a workgroup.
#[derive(Clone, Copy)]
pub(super) struct Tile<'k> {
    pub(super) batch: Value<'k>,
    pub(super) part: Value<'k>,
    pub(super) first_row: Value<'k>,
    pub(super) first_column: Value<'k>,
    /// Indices of the first elements of the operands' matrices.
    pub(super) starts: [Value<'k>; 2],
    /// Index of the first element of the result, in a group of products.
    pub(super) result: Option<Value<'k>>,
}

impl<'k> Tile<'k> {
    /// Returns the tile of a whole product of the batch, of which only the index in the batch is used.
    pub(super) fn of_batch(k: &'k Builder, batch: Value<'k>) -> Self {
        let none = k.u32(0);
        Self { batch, part: none, first_row: none, first_column: none, starts: [none; 2], result: None }
    }
}

impl<'b> Grid<'b> {
    pub(super) fn new(product: &Product<'b>, tile: [u32; 2]) -> Self {
        let DotProblem { m, n, .. } = *product.problem;
        Self {
            tile,
            rows: m.div_ceil(tile[0] as usize),
            columns: n.div_ceil(tile[1] as usize),
            batch: product.problem.batch_count(),
            parts: product.parts() as usize,
            table: product.table,
        }
    }

    /// Returns the number of workgroups.
    pub(super) fn count(&self) -> usize {
        self.each() * self.table.map_or(1, Table::parts)
    }

    /// Returns the number of workgroups of each product.
    fn each(&self) -> usize {
        self.rows * self.columns * self.batch * self.parts
    }

    /// Returns the workgroup's tile.
    pub(super) fn tile<'k>(&self, k: &'k Builder, problem: &DotProblem) -> Tile<'k> {
        let each = narrow(self.each());
        let found = self.table.map(|table| table.part(k, k.group() / each).starts);
        let group = if found.is_some() { k.group() % each } else { k.group() };
        let tiles = narrow(self.rows * self.columns);
        let tile = if self.batch * self.parts == 1 { group } else { group % tiles };
        let batch = if self.batch == 1 { k.u32(0) } else { (group / tiles) % narrow(self.batch) };
        let part = if self.parts == 1 { k.u32(0) } else { group / narrow(tiles as usize * self.batch) };
        let columns = narrow(self.columns);
        let [row, column] = if self.rows == 1 || self.columns == 1 {
            [tile / columns, tile % columns]
        } else {
            let height = narrow(BAND);
            let (band, inside) = (tile / (columns * height), tile % (columns * height));
            let rows = match self.rows.is_multiple_of(BAND) {
                true => k.u32(height),
                false => k.u32(height).min(k.u32(narrow(self.rows)) - band * height),
            };
            [band * height + inside % rows, inside / rows]
        };
        Tile {
            batch,
            part,
            first_row: row * self.tile[0],
            first_column: column * self.tile[1],
            starts: starts(k, problem, batch, found.as_deref()),
            result: found.map(|starts| starts[2]),
        }
    }
}

/// Returns the indices of the operands' first elements for a product of the batch. `found` are the start
/// indices of a product in a group.
fn starts<'k>(
    k: &'k Builder,
    problem: &DotProblem,
    batch: Value<'k>,
    found: Option<&[Value<'k>]>,
) -> [Value<'k>; 2] {
    let mut starts = match found {
        Some(found) => [found[0], found[1]],
        None => [k.u32(narrow(problem.lhs.offset)), k.u32(narrow(problem.rhs.offset))],
    };
    let mut inner = 1;
    for (i, axis) in problem.batch.iter().enumerate().rev() {
        let quotient = batch / narrow(inner);
        let position = if i == 0 { quotient } else { quotient % narrow(axis.extent) };
        starts[0] = starts[0] + position * narrow(axis.lhs_stride);
        starts[1] = starts[1] + position * narrow(axis.rhs_stride);
        inner *= axis.extent;
    }
    starts
}
