//! The states of one text, and GPT-2's step over them.

use crate::gpt2::{Gpt2, Gpt2Config};
use gradloom_core::ir::{DType, Shape};
use gradloom_core::nn::{KeyValueCache, State};
use gradloom_core::trace::{Tensor, full};

/// Keys and values of every layer for one text, and its length.
///
/// The states are `NAME.length` (i32), `NAME.h.0.keys` and `NAME.h.0.values` (`[1, heads, context, depth]`),
/// and so on. What stands behind the length in the keys and values is never seen.
#[derive(Debug)]
pub struct Gpt2Cache {
    name: String,
    length: State,
    layers: Vec<KeyValueCache>,
}

impl Gpt2Cache {
    /// An empty cache for a model of these sizes, under a name. Caches of one name over one store are the
    /// same.
    pub fn new(config: &Gpt2Config, name: &str) -> Self {
        let depth = config.width / config.heads;
        let layer = |i: usize| {
            KeyValueCache::new(1, config.heads, config.context, depth).named(&format!("{name}.h.{i}"))
        };
        Self {
            name: name.to_string(),
            length: State::new([], DType::I32, 0.0).named(format!("{name}.length")),
            layers: (0..config.layers).map(layer).collect(),
        }
    }

    /// The path of all its states.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The name of the state that holds the number of tokens.
    pub(super) fn length_name(&self) -> &str {
        self.length.name().expect("it was given one")
    }
}

impl Gpt2 {
    /// Appends tokens to the cached text and gives the logits of the token after the last one,
    /// `[1, vocabulary]`.
    ///
    /// Of the ids, i32 `[1, time]`, the first `count` (i32 scalar, from 1 to `time`) are text; the rest fills
    /// up. The step fails, and changes nothing, if the count is out of range or the ids, with those that fill
    /// up, do not fit behind the text so far.
    #[track_caller]
    pub fn extend(&self, cache: &Gpt2Cache, ids: Tensor, count: Tensor) -> Tensor {
        let [_, time] = ids.dims();
        let width = self.config().width;
        let length = cache.length.tensor();
        cache.length.set(length + count);
        let zero = full(DType::I32, Shape::scalar(), 0.0);
        let positions = self.wpe.weight.tensor().dynamic_slice(&[length, zero], &[time, width]);
        let embedded = self.wte.forward(ids) + positions;
        let mixed = self
            .h
            .iter()
            .zip(&cache.layers)
            .fold(embedded, |x, (block, layer)| block.extend(x, layer, length));
        let last = (count - 1).reshape([1]);
        let hidden = self.ln_f.forward(mixed.reshape([time, width]).gather_rows(last));
        self.logits(hidden)
    }
}
