//! Second kernel of split-K: adds the partial sums in order, and finishes the results.

use super::grid::Tile;
use super::{At, Product};
use crate::narrow::narrow;
use crate::simt::{Builder, Kernel};
use gradloom_core::ir::DType;

impl Product<'_> {
    /// Returns the kernel that adds partial sums from the scratch memory and applies the epilogue, with one
    /// invocation per result.
    pub(super) fn add_parts(&self) -> Kernel {
        let (results, threads) = (self.problem.results(), self.schedule.adding);
        let k = Builder::new(&self.label(": sums of parts"), threads, results.div_ceil(threads as usize));
        let place = k.group() * threads + k.local();
        let whole = results.is_multiple_of(threads as usize);
        k.guard([(!whole).then(|| place.below(narrow(results)))], || {
            let scratch = self.scratch(&k, DType::F32.into());
            let part = |part: u32| k.load(scratch, place + narrow(part as usize * results));
            let sum = (1..self.parts()).fold(part(0), |sum, number| sum + part(number));
            let (m, n) = (narrow(self.problem.m), narrow(self.problem.n));
            let (row, column) = ((place / n) % m, place % n);
            let batch = place / narrow(self.problem.m * self.problem.n);
            let own = Tile::of_batch(&k, batch);
            self.finish(&k, &[(At { own, row, column }, sum)]);
        });
        k.finish()
    }
}
