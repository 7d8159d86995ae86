//! The states of one text, and a model's step over them.

use crate::language_model::{LanguageModel, Sizes};
use gradloom_core::ir::DType;
use gradloom_core::nn::{KeyValueCache, State};
use gradloom_core::trace::{Tensor, iota};

/// Keys and values of every layer for one text, and its length.
///
/// The states are `NAME.length` (i32), `NAME.h.0.keys` and `NAME.h.0.values` (f32, or floats of 16 bits,
/// `[1, key heads, context, depth]`), and so on. What stands behind the length in the keys and values is
/// never seen.
#[derive(Debug)]
pub struct TextCache {
    name: String,
    /// Number of positions.
    room: usize,
    length: State,
    layers: Vec<KeyValueCache>,
}

impl TextCache {
    /// An empty cache for a model of these sizes, under a name. Caches of one name over one store are the
    /// same. For texts that are known to be short, the sizes may have a shorter context than the model's.
    pub fn new(sizes: Sizes, name: &str) -> Self {
        let layer = |i: usize| {
            KeyValueCache::new(1, sizes.key_heads, sizes.context, sizes.depth).named(&format!("{name}.h.{i}"))
        };
        Self {
            name: name.to_string(),
            room: sizes.context,
            length: State::new([], DType::I32, 0.0).named(format!("{name}.length")),
            layers: (0..sizes.layers).map(layer).collect(),
        }
    }

    /// The cache with keys and values of this dtype, a float: see [`KeyValueCache::kept_as`].
    ///
    /// # Panics
    /// When it is no float.
    #[must_use]
    #[track_caller]
    pub fn kept_as(self, dtype: DType) -> Self {
        let layers = self.layers.into_iter().map(|layer| layer.kept_as(dtype)).collect();
        Self { layers, ..self }
    }

    /// The path of all its states.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Tokens that it can hold.
    pub fn room(&self) -> usize {
        self.room
    }

    /// The name of the state that holds the number of tokens.
    pub(super) fn length_name(&self) -> &str {
        self.length.name().expect("it was given one")
    }

    /// Appends tokens to the cached text and gives the logits of the token after the last one,
    /// `[1, vocabulary]`.
    ///
    /// Of the ids, i32 `[1, time]`, the first `count` (i32 scalar, from 1 to `time`) are text; the rest fills
    /// up. The step fails, and changes nothing, if the count is out of range or the ids, with those that fill
    /// up, do not fit behind the text so far.
    #[track_caller]
    pub fn extend(&self, model: &impl LanguageModel, ids: Tensor, count: Tensor) -> Tensor {
        let [_, time] = ids.dims();
        let length = self.length.tensor();
        self.length.set(length + count);
        let positions = iota(DType::I32, [time], 0) + length;
        let hidden =
            model.hidden(ids, positions, &mut |layer, [q, k, v]| self.layers[layer].extend(q, k, v, length));
        let width = hidden.shape()[2];
        model.logits(hidden.reshape([time, width]).gather_rows((count - 1).reshape([1])))
    }
}
