//! Paged keys and values: blocks of a pool, which a table assigns to each sequence.

use super::super::super::index_at;
use super::super::super::ir::Role;
use super::super::{Value, View};
use super::bounds::Bounds;
use super::{Attention, Head};
use crate::narrow::narrow;
use gradloom_core::ir::DType;

impl<'k> Attention<'k, '_> {
    /// Appends a check that fails the step if a table entry for existing keys is out of range. Each
    /// invocation for which `condition` is true checks every `step`-th entry of a sequence, from entry `from`
    /// on.
    pub(super) fn check_table(
        &self,
        bounds: &Bounds<'k>,
        sequence: Value<'k>,
        condition: Value<'k>,
        [from, step]: [Value<'k>; 2],
    ) {
        let Some(read) = self.problem.spec.extra_positions()[2] else { return };
        let (k, blocks) = (self.k, &self.views.reads[1].layout.shape);
        let (pool, size) = (narrow(blocks[0]), narrow(blocks[2]));
        let [sequences, columns] = [0, 1].map(|axis| narrow(self.views.reads[read].layout.shape[axis]));
        k.when(condition, || {
            k.count(from, k.u32(columns), step, |i| {
                let position = sequence * columns + i;
                let entry = self.entry(read, position);
                k.when((i * size).less(bounds.length), || {
                    k.report_index(entry, pool, position + sequences);
                });
            });
        });
    }

    /// Returns the index of the first element of a key's row in k (operand 1) or v (operand 2).
    pub(super) fn key_row(&self, read: usize, [sequence, key_head]: Head<'k>, key: Value<'k>) -> Value<'k> {
        let rows = self.operand(read);
        let Some(table) = self.problem.spec.extra_positions()[2] else {
            return rows.start([sequence, key_head], key);
        };
        let shape = &self.views.reads[read].layout.shape;
        let (pool, size) = (narrow(shape[0]), narrow(shape[2].max(1)));
        let columns = narrow(self.views.reads[table].layout.shape[1]);
        let entry = self.entry(table, sequence * columns + key / size);
        rows.start([entry.clamped(pool).cast(DType::U32), key_head], key % size)
    }

    /// Loads an entry of the table.
    fn entry(&self, read: usize, position: Value<'k>) -> Value<'k> {
        let (k, View { dtype, layout, .. }) = (self.k, &self.views.reads[read]);
        k.load(k.buffer(Role::Operand(read), *dtype), index_at(k, layout, position))
    }
}
