//! Keys and values of many texts in blocks of one pool on the device.

use crate::language_model::{LanguageModel, Sizes};
use gradloom_core::ir::DType;
use gradloom_core::nn::{State, attend_to_new};
use gradloom_core::trace::{AttentionOptions, Tensor, iota};

/// The pools of all layers: states `NAME.h.0.keys` and `NAME.h.0.values`, f32
/// `[blocks, key heads, block size, depth]`, and so on, written in place.
///
/// Which block belongs to which text is the caller's.
#[derive(Debug)]
pub struct PagedKeyValues {
    layers: Vec<[State; 2]>,
    sizes: Sizes,
    block_size: usize,
}

/// What a step is told of the texts in its batch; all i32.
#[derive(Clone, Copy, Debug)]
pub struct PagedBatch {
    /// The blocks of each text in the order of its positions, `[rows, blocks]`; what follows them is any
    /// block.
    pub tables: Tensor,
    /// Number of positions of each text that are in the pool, `[rows]`.
    pub lengths: Tensor,
    /// Number of new positions of each text, `[rows]`.
    pub counts: Tensor,
}

impl PagedKeyValues {
    /// Pools of so many blocks of so many positions, under a name.
    pub fn new(sizes: Sizes, blocks: usize, block_size: usize, name: &str) -> Self {
        let state = |i: usize, part: &str| {
            let shape = [blocks, sizes.key_heads, block_size, sizes.depth];
            State::new(shape, DType::F32, 0.0).in_place().named(format!("{name}.h.{i}.{part}"))
        };
        let layers = (0..sizes.layers).map(|i| [state(i, "keys"), state(i, "values")]).collect();
        Self { layers, sizes, block_size }
    }

    /// Hidden states of new tokens of many texts, i32 ids `[rows, time]`: `[rows, time, width]`. Their keys
    /// and values join the pool at the end of the step.
    ///
    /// A row's new positions follow those that it has in the pool. Behind its count, tokens fill it up: their
    /// states mean nothing, and they are not written.
    #[track_caller]
    pub fn extend(&self, model: &impl LanguageModel, ids: Tensor, batch: PagedBatch) -> Tensor {
        let [rows, time] = ids.dims();
        let column = |per_row: Tensor| per_row.reshape([rows, 1]);
        let new = iota(DType::I32, [rows, time], 1);
        let is_text = new.lt(column(batch.counts));
        // Behind the context there is only filling.
        let positions = (new + column(batch.lengths)).minimum(self.sizes.context as i32 - 1);
        let block_of = positions / self.block_size as i32;
        let blocks = batch.tables.shape()[1];
        let table_row = iota(DType::I32, [rows, 1], 0) * blocks as i32;
        let block = batch.tables.reshape([rows * blocks]).gather_rows(block_of + table_row);
        // Row of the pool as a matrix `[blocks · heads · block size, depth]`, or one that is not there.
        let head = iota(DType::I32, [1, self.sizes.key_heads, 1], 1);
        let by_head = |x: Tensor| x.reshape([rows, 1, time]);
        let place = by_head(block) * self.sizes.key_heads as i32 + head;
        let place = place * self.block_size as i32 + by_head(positions % self.block_size as i32);
        let places = by_head(is_text).broadcast_to(place.shape()).select(place, -1);
        model.hidden(ids, positions, &mut |layer, parts| self.attend(layer, parts, batch, places))
    }

    /// As in [`KeyValueCache::extend`](gradloom_core::nn::KeyValueCache::extend), attention runs over the
    /// pool as it was before the step and over the new positions, and is put together.
    #[track_caller]
    fn attend(&self, layer: usize, [q, k, v]: [Tensor; 3], batch: PagedBatch, places: Tensor) -> Tensor {
        let [keys, values] = &self.layers[layer];
        let pooled = AttentionOptions::full().key_length(batch.lengths).block_table(batch.tables);
        let pooled = q.attention_with_log_sum(keys.tensor(), values.tensor(), pooled);
        for (state, new) in [(keys, k), (values, v)] {
            let shape = state.shape().clone();
            let rows = shape[0] * shape[1] * shape[2];
            let pool = state.tensor().reshape([rows, shape[3]]);
            state.set(pool.scatter_distinct_rows(places, new).reshape(shape));
        }
        attend_to_new(pooled, [q, k, v])
    }

    /// Copies whole blocks: block `from[i]` to block `to[i]`, i32 `[n]`, where no two are equal in `to`; -1
    /// there copies nothing.
    #[track_caller]
    pub fn copy_blocks(&self, from: Tensor, to: Tensor) {
        for state in self.layers.iter().flatten() {
            let blocks = state.tensor();
            state.set(blocks.scatter_distinct_rows(to, blocks.gather_rows(from)));
        }
    }
}
