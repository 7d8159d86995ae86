//! Matrix products with elementwise epilogues.
//!
//! In: a [`DotProblem`] on the first two operands, and its [`ProductSchedule`]. Out: one kernel, or two for
//! split-K. Invariants: each result passes through the epilogue exactly once; no loads are outside of the
//! operands; sums are f32, and their order depends only on the schedule, so runs are bitwise reproducible.

mod cooperative;
mod grid;
mod lanes;
mod operand;
mod portable;
mod scalar;
mod split;
mod staged;
mod streamed;

use super::super::ir::{Kernel, Role, ValueType};
use super::body::{Nodes, Operands, Position};
use super::{Builder, Table, Value, Views, index_at};
use crate::narrow::narrow;
use crate::product::DotProblem;
use gradloom_core::ir::DType;
use gradloom_core::kernel::{Body, Level, Method, ProductSchedule, Staging};

/// A product whose kernels are being built.
struct Product<'b> {
    views: &'b Views<'b>,
    problem: &'b DotProblem,
    schedule: &'b ProductSchedule,
    /// Epilogue of the product, if any.
    epilogue: Option<&'b Body>,
    label: &'b str,
    /// Start indices of the operands and results of each product, in a group of products.
    table: Option<&'b Table>,
}

/// Position of a result.
#[derive(Clone, Copy)]
struct At<'k> {
    /// Tile, of which the batch and the split-K part are used.
    own: grid::Tile<'k>,
    row: Value<'k>,
    column: Value<'k>,
}

/// Returns a bool that is true if a row or column of a tile exists; `None` if all tiles are complete.
fn inside<'k>(tile: u32, extent: usize, at: Value<'k>) -> Option<Value<'k>> {
    (!extent.is_multiple_of(tile as usize)).then(|| at.below(narrow(extent)))
}

/// Returns the kernels of a product, or the kernel of all products in a table.
pub(crate) fn product(
    views: &Views<'_>,
    problem: &DotProblem,
    schedule: &ProductSchedule,
    epilogue: Option<&Body>,
    label: &str,
    table: Option<&Table>,
) -> Vec<Kernel> {
    if problem.results() == 0 {
        return Vec::new();
    }
    let product = Product { views, problem, schedule, epilogue, label, table };
    let first = match schedule.choice.method {
        Method::Portable(tile) if tile.staging == Staging::Scalars => product.scalar(&tile),
        Method::Portable(tile) if matches!(tile.staging, Staging::Lanes(_)) => product.lanes_of_terms(&tile),
        Method::Portable(tile) => product.portable(&tile),
        Method::Cooperative(tile) if tile.is_streamed() => product.streamed(&tile),
        Method::Cooperative(tile) => product.cooperative(&tile),
    };
    if product.parts() == 1 { vec![first] } else { vec![first, product.add_parts()] }
}

impl Product<'_> {
    fn parts(&self) -> u32 {
        self.schedule.choice.parts
    }

    /// Returns a kernel's label, with the suffix `of_two` if split-K requires two kernels.
    fn label(&self, of_two: &str) -> String {
        format!("{}{}", self.label, if self.parts() > 1 { of_two } else { "" })
    }

    /// Returns the range of terms of a split-K part.
    fn terms<'k>(&self, k: &'k Builder, part: Value<'k>) -> [Value<'k>; 2] {
        let all = narrow(self.problem.k);
        if self.parts() == 1 {
            return [k.u32(0), k.u32(all)];
        }
        let length = narrow(self.schedule.choice.part_length(self.problem.k));
        let first = (part * length).min(k.u32(all));
        [first, (first + length).min(k.u32(all))]
    }

    /// Returns the number of adjacent results that are stored together: four split-K partial sums if the
    /// number of columns is a multiple of four, else one result.
    fn lanes(&self) -> u32 {
        if self.parts() > 1 && self.problem.n.is_multiple_of(4) { 4 } else { 1 }
    }

    /// Returns the scratch memory of the split-K partial sums, `[parts, batch, m, n]`, with elements of a
    /// type.
    fn scratch(&self, k: &Builder, ty: ValueType) -> u32 {
        k.buffer(Role::Workspace { start: 0, bytes: self.schedule.workspace }, ty)
    }

    /// Finishes a sum, or stores it in the scratch memory if it is a split-K partial sum. The value may be a
    /// vector of four adjacent results of a row.
    fn put<'k>(&self, k: &'k Builder, at: At<'k>, value: Value<'k>) {
        self.put_all(k, &[(at, value)]);
    }

    /// Finishes or stores several sums.
    fn put_all<'k>(&self, k: &'k Builder, sums: &[(At<'k>, Value<'k>)]) {
        if self.parts() == 1 {
            return self.finish(k, sums);
        }
        for &(at, value) in sums {
            let place = at.own.part * narrow(self.problem.results()) + self.index(at);
            let (ty, item) = match self.lanes() {
                4 => (ValueType::Vector(4), place / 4),
                _ => (DType::F32.into(), place),
            };
            k.store(self.scratch(k, ty), item, value);
        }
    }

    /// Returns the row-major index of a result, including the batch.
    fn index<'k>(&self, at: At<'k>) -> Value<'k> {
        (at.own.batch * narrow(self.problem.m) + at.row) * narrow(self.problem.n) + at.column
    }

    /// Applies the epilogue, if any, to complete sums and stores the results. The epilogue's operands are all
    /// loaded before the first store.
    fn finish<'k>(&self, k: &'k Builder, sums: &[(At<'k>, Value<'k>)]) {
        k.guard([self.views.gate(k)], || {
            let Some(body) = self.epilogue else {
                let view = &self.views.writes[0];
                let result = k.buffer(Role::Result(0), view.dtype);
                return sums.iter().for_each(|&(at, value)| {
                    let index = index_at(k, view.layout, self.index(at));
                    k.store(result, at.own.result.map_or(index, |start| start + index), value);
                });
            };
            let position = |at: At<'k>| {
                let row = at.own.batch * narrow(self.problem.m) + at.row;
                Position { row, column: at.column, number: Some(self.index(at)), owned: None }
            };
            let nodes = |value| Nodes::new(k, body, Operands::Views(self.views)).with_product(value);
            let mut all: Vec<_> = sums.iter().map(|&(at, value)| (position(at), nodes(value))).collect();
            for (position, nodes) in &mut all {
                Level::ALL.into_iter().for_each(|level| nodes.check(level, *position));
                nodes.compute_elements(*position);
            }
            all.iter_mut().for_each(|(position, nodes)| nodes.store_elements(*position));
        });
    }
}
