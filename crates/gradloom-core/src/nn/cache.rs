//! The keys and values of a text so far, so that attention need not compute them again.

use super::{Module, State, Visitor};
use crate::ir::{DType, Shape};
use crate::trace::{AttentionOptions, Tensor, fail_with_help, full, within};

/// Room for the keys and values of one attention layer, kept between runs and written in place.
///
/// The number of positions that are there is the caller's: all layers of a model share one. Keys and values
/// are f32, or floats of 16 bits ([`KeyValueCache::kept_as`]).
#[derive(Clone, Debug)]
pub struct KeyValueCache {
    keys: State,
    values: State,
}

impl KeyValueCache {
    /// Creates a cache of keys and values `[batch, heads, capacity, depth]`.
    pub fn new(batch: usize, heads: usize, capacity: usize, depth: usize) -> Self {
        let state = || State::new([batch, heads, capacity, depth], DType::F32, 0.0).in_place();
        Self { keys: state(), values: state() }
    }

    /// Returns the cache with keys and values of this dtype: f32, or a float of 16 bits, which takes half
    /// the memory. New ones are rounded to it where they are written; attention reads them as they are
    /// stored, where the device can.
    ///
    /// # Panics
    /// When it is no float.
    #[must_use]
    #[track_caller]
    pub fn kept_as(self, dtype: DType) -> Self {
        Self { keys: self.keys.kept_as(dtype), values: self.values.kept_as(dtype) }
    }

    /// Names the cache's states `name.keys` and `name.values`, apart from any model.
    #[must_use]
    pub fn named(self, name: &str) -> Self {
        Self {
            keys: self.keys.named(format!("{name}.keys")),
            values: self.values.named(format!("{name}.values")),
        }
    }

    /// Computes causal attention of queries at the positions from `length` (i32 scalar) on: over the
    /// `length` positions in the cache, and over `keys` and `values`, those of the queries' own positions,
    /// which are written into the cache at the end of the step. All are `[batch, heads, time, depth]`.
    ///
    /// The step fails, and writes nothing, if the new positions do not fit behind the old ones.
    ///
    /// The cache is read as it was before the step, so the new positions cannot be seen through it; and it
    /// could not be written before the step is known to succeed without a copy of it. So attention runs over
    /// both parts, and the parts are weighed by their sums of exponentials, as the blocks of one attention
    /// are: Dao, FlashAttention-2 (2023), section 2.3.
    #[track_caller]
    pub fn extend(&self, queries: Tensor, keys: Tensor, values: Tensor, length: Tensor) -> Tensor {
        let cached = AttentionOptions::full().key_length(length);
        let [old_keys, old_values] = [&self.keys, &self.values].map(|state| state.tensor().cast(DType::F32));
        let cached = queries.attention_with_log_sum(old_keys, old_values, cached);
        let joined = attend_to_new(cached, [queries, keys, values]);
        let zero = full(DType::I32, Shape::scalar(), 0.0);
        let starts = [zero, zero, length, zero];
        for (state, new) in [(&self.keys, keys), (&self.values, values)] {
            state.update_at(&starts, new.cast(state.ty().dtype));
        }
        joined
    }
}

impl Module for KeyValueCache {
    fn visit(&self, visitor: &mut Visitor<'_>) {
        visitor.field("keys", &self.keys);
        visitor.field("values", &self.values);
    }
}

/// Computes causal attention of queries over the keys and values of their own positions,
/// `[batch, heads, time, depth]` each, put together with attention over earlier ones, as
/// [`Tensor::attention_with_log_sum`] gives it.
#[track_caller]
pub fn attend_to_new(earlier: (Tensor, Tensor), [queries, keys, values]: [Tensor; 3]) -> Tensor {
    let _place = within();
    for (name, tensor) in [("queries", queries), ("keys", keys), ("values", values)] {
        let shape = tensor.shape();
        if shape.rank() != 4 {
            let message = format!("attention to new positions: the {name} are {shape}");
            fail_with_help("attend_to_new", message, "they are [batch, heads, time, depth]");
            return queries;
        }
    }
    let ([batch, heads, time, depth], key_heads) = (queries.dims(), keys.shape()[1]);
    if time > 1 || key_heads == 0 {
        let new = queries.attention_with_log_sum(keys, values, AttentionOptions::causal());
        return join(earlier, new);
    }
    // A position that is alone sees itself: its value, and one score. That is fused with what puts both
    // together.
    let of_heads = |x: Tensor| {
        let width = x.shape()[3];
        let shared = [batch, key_heads, heads / key_heads, 1, width];
        x.reshape([batch, key_heads, 1, 1, width]).broadcast_to(shared).reshape([batch, heads, 1, width])
    };
    let score = (queries * of_heads(keys)).sum_axes(-1) / (depth as f64).sqrt();
    join(earlier, (of_heads(values), score))
}

/// Computes attention over the keys of two parts from that over each, as [`Tensor::attention_with_log_sum`]
/// gives it. At least one part must have a key.
///
/// The share of the first part is `exp(a) / (exp(a) + exp(b))`, the logistic function of the difference of
/// the logarithms; a part without keys, whose logarithm is `-inf`, has the share 0.
#[track_caller]
fn join((first, first_log): (Tensor, Tensor), (second, second_log): (Tensor, Tensor)) -> Tensor {
    let share = |own: Tensor, other: Tensor| (own - other).sigmoid().unsqueeze(-1);
    first * share(first_log, second_log) + second * share(second_log, first_log)
}
