//! Keys and values of many texts in blocks of one pool on the device.

use crate::language_model::{LanguageModel, Sizes};
use gradloom_core::ir::DType;
use gradloom_core::nn::{State, attend_to_new};
use gradloom_core::trace::{AttentionOptions, Tensor, iota};

/// The pools of all layers, which are updated in place. The states are `NAME.h.0.keys`, `NAME.h.0.values` and
/// so on, f32 or 16-bit floats with shape `[blocks, key heads, block size, depth]`.
///
/// [`Pages`](super::pages::Pages) tracks the text that each block belongs to.
#[derive(Debug)]
pub struct PagedKeyValues {
    layers: Vec<[State; 2]>,
    sizes: Sizes,
    block_size: usize,
}

/// Inputs that describe the texts of a step, as in [`Batch`](super::pages::Batch). All are i32.
#[derive(Clone, Copy, Debug)]
pub struct PagedBatch {
    /// Block indices of each text in order of its positions, `[rows, blocks]`, padded with arbitrary indices.
    pub tables: Tensor,
    /// Number of positions of each text in the pool, `[rows]`.
    pub starts: Tensor,
    /// Number of positions of each text including the new ones, `[rows]`.
    pub lengths: Tensor,
}

impl PagedKeyValues {
    /// Creates pools of `blocks` blocks of `block_size` positions. `name` is the prefix of the states' names.
    pub fn new(sizes: Sizes, blocks: usize, block_size: usize, name: &str) -> Self {
        let state = |i: usize, part: &str| {
            let shape = [blocks, sizes.key_heads, block_size, sizes.depth];
            State::new(shape, DType::F32, 0.0).in_place().named(format!("{name}.h.{i}.{part}"))
        };
        let layers = (0..sizes.layers).map(|i| [state(i, "keys"), state(i, "values")]).collect();
        Self { layers, sizes, block_size }
    }

    /// Returns the pools with another element type, which must be a float type. See
    /// [`KeyValueCache::kept_as`](gradloom_core::nn::KeyValueCache::kept_as).
    ///
    /// # Panics
    /// Panics if `dtype` is not a float type.
    #[must_use]
    #[track_caller]
    pub fn kept_as(self, dtype: DType) -> Self {
        let layers = self.layers.into_iter().map(|layer| layer.map(|state| state.kept_as(dtype)));
        Self { layers: layers.collect(), ..self }
    }

    /// Registers the pools in the program that is being traced, which creates them unless another program
    /// already has.
    #[track_caller]
    pub fn declare(&self) {
        self.layers.iter().flatten().for_each(|state| state.set(state.tensor()));
    }

    /// Returns the hidden states of new tokens, `[rows, time, width]`, for i32 ids `[rows, time]`. The keys
    /// and values of these tokens are added to the pool at the end of the step.
    ///
    /// A row's new positions follow those in the pool. Tokens beyond the row's length are padding: their
    /// hidden states are meaningless, and they are not written. The step fails without writing anything if a
    /// text exceeds the model's context or its block table.
    #[track_caller]
    pub fn extend(&self, model: &impl LanguageModel, ids: Tensor, batch: PagedBatch) -> Tensor {
        let [rows, time] = ids.dims();
        let column = |per_row: Tensor| per_row.reshape([rows, 1]);
        let new = iota(DType::I32, [rows, time], 1);
        let blocks = batch.tables.shape()[1];
        let end = self.sizes.context.min(blocks * self.block_size) as i32;
        let positions = new + column(batch.starts);
        let is_text = positions.lt(column(batch.lengths));
        // Clamp padding, which may exceed the end. A text that exceeds it gets an invalid index below, by
        // which the step fails.
        let positions = is_text.select(positions, positions.minimum(end - 1));
        let [in_row, in_block] = self.split(positions);
        let in_table = in_row + iota(DType::I32, [rows, 1], 0) * blocks as i32;
        let in_table = positions.lt(end).select(in_table, -1);
        let block = batch.tables.reshape([rows * blocks]).gather_rows(in_table);
        // Row of the pool as a matrix `[blocks · heads · block size, depth]`, or -1 for padding.
        let head = iota(DType::I32, [1, self.sizes.key_heads, 1], 1);
        let by_head = |x: Tensor| x.reshape([rows, 1, time]);
        let place = by_head(block) * self.sizes.key_heads as i32 + head;
        let place = place * self.block_size as i32 + by_head(in_block);
        let places = by_head(is_text).broadcast_to(place.shape()).select(place, -1);
        model.hidden(ids, positions, &mut |layer, parts| self.attend(layer, parts, batch, places))
    }

    /// Returns the index of a position's block within its text, and the offset within the block. Shifts can
    /// be fused with the surrounding ops, whereas a division takes a separate launch because it can trap.
    #[track_caller]
    fn split(&self, positions: Tensor) -> [Tensor; 2] {
        let size = self.block_size as i32;
        match self.block_size.is_power_of_two() {
            true => [positions.shift_right(size.ilog2() as i32), positions.logical_and(size - 1)],
            false => [positions / size, positions % size],
        }
    }

    /// Attends to the pool as it was before the step and to the new positions, and combines the two, as in
    /// [`KeyValueCache::extend`](gradloom_core::nn::KeyValueCache::extend).
    #[track_caller]
    fn attend(&self, layer: usize, [q, k, v]: [Tensor; 3], batch: PagedBatch, places: Tensor) -> Tensor {
        let [keys, values] = &self.layers[layer];
        let pooled = AttentionOptions::full().key_length(batch.starts).block_table(batch.tables);
        let window = self.sizes.window;
        let pooled = match window {
            Some(window) => pooled.query_offset(batch.starts).window(window),
            None => pooled,
        };
        let [all_keys, all_values] = [keys, values].map(|state| state.tensor().cast(DType::F32));
        let pooled = q.attention_with_log_sum(all_keys, all_values, pooled);
        for (state, new) in [(keys, k), (values, v)] {
            let shape = state.shape().clone();
            let rows = shape[0] * shape[1] * shape[2];
            let pool = state.tensor().reshape([rows, shape[3]]);
            state.set(pool.scatter_distinct_rows(places, new.cast(state.ty().dtype)).reshape(shape));
        }
        attend_to_new(pooled, [q, k, v], window)
    }

    /// Copies block `from[i]` to block `to[i]` for each i; both are i32 `[n]`. A destination of -1 copies
    /// nothing; all other destinations must be distinct.
    #[track_caller]
    pub fn copy_blocks(&self, from: Tensor, to: Tensor) {
        for state in self.layers.iter().flatten() {
            let blocks = state.tensor();
            state.set(blocks.scatter_distinct_rows(to, blocks.gather_rows(from)));
        }
    }
}
