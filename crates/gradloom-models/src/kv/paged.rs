//! Keys and values of many texts in blocks of one pool on the device.

use crate::language_model::{LanguageModel, Sizes};
use gradloom_core::ir::DType;
use gradloom_core::nn::{State, attend_to_new};
use gradloom_core::trace::{AttentionOptions, Tensor, iota};

/// The pools of all layers: states `NAME.h.0.keys` and `NAME.h.0.values`, f32 or floats of 16 bits
/// `[blocks, key heads, block size, depth]`, and so on, written in place.
///
/// [`Pages`](super::pages::Pages) tracks the text that each block belongs to.
#[derive(Debug)]
pub struct PagedKeyValues {
    layers: Vec<[State; 2]>,
    sizes: Sizes,
    block_size: usize,
}

/// Inputs that describe the texts in a step's batch, as in [`Batch`](super::pages::Batch); all i32.
#[derive(Clone, Copy, Debug)]
pub struct PagedBatch {
    /// The blocks of each text in the order of its positions, `[rows, blocks]`; what follows them is any
    /// block.
    pub tables: Tensor,
    /// Number of positions of each text that are in the pool, `[rows]`.
    pub starts: Tensor,
    /// Number of positions of each text with the new ones, `[rows]`.
    pub lengths: Tensor,
}

impl PagedKeyValues {
    /// Makes pools of `blocks` blocks of `block_size` positions, under a name.
    pub fn new(sizes: Sizes, blocks: usize, block_size: usize, name: &str) -> Self {
        let state = |i: usize, part: &str| {
            let shape = [blocks, sizes.key_heads, block_size, sizes.depth];
            State::new(shape, DType::F32, 0.0).in_place().named(format!("{name}.h.{i}.{part}"))
        };
        let layers = (0..sizes.layers).map(|i| [state(i, "keys"), state(i, "values")]).collect();
        Self { layers, sizes, block_size }
    }

    /// Returns the pools with elements of this dtype, a float: see
    /// [`KeyValueCache::kept_as`](gradloom_core::nn::KeyValueCache::kept_as).
    ///
    /// # Panics
    /// When it is no float.
    #[must_use]
    #[track_caller]
    pub fn kept_as(self, dtype: DType) -> Self {
        let layers = self.layers.into_iter().map(|layer| layer.map(|state| state.kept_as(dtype)));
        Self { layers: layers.collect(), ..self }
    }

    /// Makes the program in which this is called create the pools, unless another one needed them before.
    #[track_caller]
    pub fn declare(&self) {
        self.layers.iter().flatten().for_each(|state| state.set(state.tensor()));
    }

    /// Returns the hidden states `[rows, time, width]` of new tokens of many texts, i32 ids `[rows, time]`.
    /// Their keys and values join the pool at the end of the step.
    ///
    /// A row's new positions follow those that it has in the pool. Behind its length, tokens fill it up:
    /// their states mean nothing, and they are not written. The step fails, and writes nothing, if a text
    /// goes beyond the model's context or its table.
    #[track_caller]
    pub fn extend(&self, model: &impl LanguageModel, ids: Tensor, batch: PagedBatch) -> Tensor {
        let [rows, time] = ids.dims();
        let column = |per_row: Tensor| per_row.reshape([rows, 1]);
        let new = iota(DType::I32, [rows, time], 1);
        let blocks = batch.tables.shape()[1];
        let end = self.sizes.context.min(blocks * self.block_size) as i32;
        let positions = new + column(batch.starts);
        let is_text = positions.lt(column(batch.lengths));
        // What fills up may reach beyond the end; a text that does gets an index that is out of range.
        let positions = is_text.select(positions, positions.minimum(end - 1));
        let [in_row, in_block] = self.split(positions);
        let in_table = in_row + iota(DType::I32, [rows, 1], 0) * blocks as i32;
        let in_table = positions.lt(end).select(in_table, -1);
        let block = batch.tables.reshape([rows * blocks]).gather_rows(in_table);
        // Row of the pool as a matrix `[blocks · heads · block size, depth]`, or one that is not there.
        let head = iota(DType::I32, [1, self.sizes.key_heads, 1], 1);
        let by_head = |x: Tensor| x.reshape([rows, 1, time]);
        let place = by_head(block) * self.sizes.key_heads as i32 + head;
        let place = place * self.block_size as i32 + by_head(in_block);
        let places = by_head(is_text).broadcast_to(place.shape()).select(place, -1);
        model.hidden(ids, positions, &mut |layer, parts| self.attend(layer, parts, batch, places))
    }

    /// Returns the index of a position's block within its text, and the position within the block. A
    /// division is a launch of its own, as it can trap; shifts are fused with the ops around them.
    #[track_caller]
    fn split(&self, positions: Tensor) -> [Tensor; 2] {
        let size = self.block_size as i32;
        match self.block_size.is_power_of_two() {
            true => [positions.shift_right(size.ilog2() as i32), positions.logical_and(size - 1)],
            false => [positions / size, positions % size],
        }
    }

    /// Attends over the pool as it was before the step and over the new positions, and combines the two, as
    /// in [`KeyValueCache::extend`](gradloom_core::nn::KeyValueCache::extend).
    #[track_caller]
    fn attend(&self, layer: usize, [q, k, v]: [Tensor; 3], batch: PagedBatch, places: Tensor) -> Tensor {
        let [keys, values] = &self.layers[layer];
        let pooled = AttentionOptions::full().key_length(batch.starts).block_table(batch.tables);
        let [all_keys, all_values] = [keys, values].map(|state| state.tensor().cast(DType::F32));
        let pooled = q.attention_with_log_sum(all_keys, all_values, pooled);
        for (state, new) in [(keys, k), (values, v)] {
            let shape = state.shape().clone();
            let rows = shape[0] * shape[1] * shape[2];
            let pool = state.tensor().reshape([rows, shape[3]]);
            state.set(pool.scatter_distinct_rows(places, new.cast(state.ty().dtype)).reshape(shape));
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
