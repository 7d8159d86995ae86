//! A cache of the keys and values of earlier positions, so that attention does not recompute them.

use super::{Module, State};
use crate::ir::{DType, Shape};
use crate::trace::{AttentionOptions, Tensor, full, refused, within};

/// A buffer for the keys and values of one attention layer, which persists between runs and is updated in
/// place.
///
/// The caller stores the number of filled positions, which all layers of a model share. Keys and values are
/// f32 or 16-bit floats ([`KeyValueCache::kept_as`]).
#[derive(Clone, Debug, Module)]
pub struct KeyValueCache {
    keys: State,
    values: State,
    window: Option<usize>,
}

impl KeyValueCache {
    /// Creates a cache for keys and values `[batch, heads, capacity, depth]`.
    pub fn new(batch: usize, heads: usize, capacity: usize, depth: usize) -> Self {
        let state = || State::new([batch, heads, capacity, depth], DType::F32, 0.0).in_place();
        Self { keys: state(), values: state(), window: None }
    }

    /// Returns the cache with keys and values of the given dtype: f32, or a 16-bit float, which halves the
    /// memory. New keys and values are rounded when they are written; attention reads them in the stored
    /// dtype if the device can.
    ///
    /// # Panics
    /// Panics if `dtype` is not a float.
    #[must_use]
    #[track_caller]
    pub fn kept_as(self, dtype: DType) -> Self {
        Self { keys: self.keys.kept_as(dtype), values: self.values.kept_as(dtype), ..self }
    }

    /// Names the cache's states `name.keys` and `name.values`, independently of their path in a model.
    #[must_use]
    pub fn named(self, name: &str) -> Self {
        Self {
            keys: self.keys.named(format!("{name}.keys")),
            values: self.values.named(format!("{name}.values")),
            ..self
        }
    }

    /// Returns the cache with a window: each query attends to its own position and to the `positions - 1`
    /// before it.
    ///
    /// # Panics
    /// Panics if `positions` is 0.
    #[must_use]
    #[track_caller]
    pub fn windowed(self, positions: usize) -> Self {
        assert!(positions > 0, "a window of no positions: a query attends to its own position at least");
        Self { window: Some(positions), ..self }
    }

    /// Computes causal attention of queries whose positions begin at `length` (an i32 scalar), over the first
    /// `length` positions of the cache and over `keys` and `values`. These belong to the queries' positions,
    /// and are written to the cache at the end of the step. Queries, keys and values are
    /// `[batch, heads, time, depth]`.
    ///
    /// The step fails, and writes nothing, if the new positions exceed the capacity.
    ///
    /// The cache is read as it was before the step, so it does not contain the new positions; writing it
    /// before the step is known to succeed would require a copy. Attention is therefore computed separately
    /// over the cache and over the new positions, and the results are weighted by their sums of exponentials,
    /// like the blocks of FlashAttention-2 (Dao, 2023, section 2.3).
    #[track_caller]
    pub fn extend(&self, queries: Tensor, keys: Tensor, values: Tensor, length: Tensor) -> Tensor {
        let cached = AttentionOptions::full().key_length(length);
        let cached = match self.window {
            Some(window) => cached.query_offset(length).window(window),
            None => cached,
        };
        let [old_keys, old_values] = [&self.keys, &self.values].map(|state| state.tensor().cast(DType::F32));
        let cached = queries.attention_with_log_sum(old_keys, old_values, cached);
        let joined = attend_to_new(cached, [queries, keys, values], self.window);
        let zero = full(DType::I32, Shape::scalar(), 0.0);
        let starts = [zero, zero, length, zero];
        for (state, new) in [(&self.keys, keys), (&self.values, values)] {
            state.update_at(&starts, new.cast(state.ty().dtype));
        }
        joined
    }
}

/// Computes causal attention of queries over the keys and values of their own positions, each
/// `[batch, heads, time, depth]`, and combines it with attention over earlier positions, which is the result
/// of [`Tensor::attention_with_log_sum`]. With a window of at least 1, each query attends to its own position
/// and to the `window - 1` before it; the attention over earlier positions must have the same window.
#[track_caller]
pub fn attend_to_new(
    earlier: (Tensor, Tensor),
    [queries, keys, values]: [Tensor; 3],
    window: Option<usize>,
) -> Tensor {
    let _place = within();
    for (name, tensor) in [("queries", queries), ("keys", keys), ("values", values)] {
        let shape = tensor.shape();
        if shape.rank() != 4 {
            let message = format!("attention to new positions: the {name} are {shape}");
            return refused("attend_to_new", message, "they are [batch, heads, time, depth]", queries);
        }
    }
    let ([batch, heads, time, depth], key_heads) = (queries.dims(), keys.shape()[1]);
    if time > 1 || key_heads == 0 {
        let options = AttentionOptions::causal();
        let options = window.map_or(options, |window| options.window(window));
        let new = queries.attention_with_log_sum(keys, values, options);
        return join(earlier, new);
    }
    // A single new position attends only to itself, so the result is its value and there is one score. These
    // ops are fused with those that combine both parts.
    let of_heads = |x: Tensor| {
        let width = x.shape()[3];
        let shared = [batch, key_heads, heads / key_heads, 1, width];
        x.reshape([batch, key_heads, 1, 1, width]).broadcast_to(shared).reshape([batch, heads, 1, width])
    };
    let score = (queries * of_heads(keys)).sum_axes(-1) / (depth as f64).sqrt();
    join(earlier, (of_heads(values), score))
}

/// Combines the attention over two parts of the keys, each the result of [`Tensor::attention_with_log_sum`].
/// At least one part must have a key.
///
/// The share of the first part is `exp(a) / (exp(a) + exp(b))`, the logistic function of the difference of
/// the logarithms a and b. A part without keys has the logarithm `-inf` and the share 0.
#[track_caller]
fn join((first, first_log): (Tensor, Tensor), (second, second_log): (Tensor, Tensor)) -> Tensor {
    let share = |own: Tensor, other: Tensor| (own - other).sigmoid().unsqueeze(-1);
    first * share(first_log, second_log) + second * share(second_log, first_log)
}
