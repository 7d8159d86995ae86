//! Attention as a single op, which targets run without materializing the matrix of scores, or as several ops
//! if an option requires that matrix.

use super::bounds::{Range, is_in_range};
use super::random::bits;
use super::tensor::{emit_all, fail, full, placeholder, refused};
use super::{Tensor, iota, is_training, op};
use crate::ir::{AttentionSpec, BinaryFraction, DType, OpKind, Shape};

/// Options of [`Tensor::attention`].
#[derive(Clone, Copy, Debug, Default)]
pub struct AttentionOptions {
    causal: bool,
    window: Option<usize>,
    scale: Option<f64>,
    query_offset: Option<Tensor>,
    key_length: Option<Tensor>,
    block_table: Option<Tensor>,
    dropout: f64,
    scores: Scores,
}

impl AttentionOptions {
    /// Returns options under which each query attends to all keys.
    pub fn full() -> Self {
        Self::default()
    }

    /// Returns options under which each query attends to the keys up to and including its own position.
    pub fn causal() -> Self {
        Self { causal: true, ..Self::default() }
    }

    /// Sets the factor on the scores; `1 / sqrt(depth)` by default.
    pub fn scale(mut self, scale: f64) -> Self {
        self.scale = Some(scale);
        self
    }

    /// Sets the position of the first query among the keys, for generation with cached keys: one i32, or one
    /// for each sequence, `[batch]`.
    pub fn query_offset(mut self, offset: Tensor) -> Self {
        self.query_offset = Some(offset);
        self
    }

    /// Sets the number of valid keys, at most the extent of the keys: one i32, or one for each sequence,
    /// `[batch]`.
    pub fn key_length(mut self, length: Tensor) -> Self {
        self.key_length = Some(length);
        self
    }

    /// Reads keys and values from a pool of blocks. Row b of the table, i32 `[batch, blocks]`, lists the
    /// blocks of sequence b.
    pub fn block_table(mut self, table: Tensor) -> Self {
        self.block_table = Some(table);
        self
    }

    /// Restricts each query to keys fewer than `positions` positions before it (and, unless causal, after
    /// it), at least 1. Blocks of keys that are outside of the window of every query of a block are skipped.
    /// With a query offset or a block table, a window of more than 2^28 positions is an error.
    pub fn window(mut self, positions: usize) -> Self {
        self.window = Some(positions);
        self
    }

    /// Lets a query attend to a key only where the mask is true. The mask is bool, `[batch, heads, queries,
    /// keys]` or a shape that broadcasts to it. Keys that no query attends to, and queries that attend to no
    /// key, may hold any values, even NaN. Like `bias`, this option materializes the matrix of scores.
    pub fn mask(mut self, mask: Tensor) -> Self {
        self.scores.mask = Some(mask);
        self
    }

    /// Sets a bias that is added to the scaled scores: f32, `[batch, heads, queries, keys]` or a shape that
    /// broadcasts to it. A bias of `-inf` hides a key as a mask does. As in PyTorch, a query whose scores are
    /// all `f32::MIN` attends to all keys equally.
    pub fn bias(mut self, bias: Tensor) -> Self {
        self.scores.bias = Some(bias);
        self
    }

    /// Sets the probability `p` in `0..=1` with which each attention weight is zeroed while a training loss
    /// is traced; the others are scaled by `1 / (1 - p)`. Unless the matrix of scores is materialized, p is
    /// rounded to a binary fraction, usually by less than a thousandth, and one bit per weight is kept for
    /// the backward pass.
    pub fn dropout(mut self, p: f64) -> Self {
        self.dropout = p;
        self
    }
}

impl Tensor {
    /// Computes `softmax(scale · q kᵀ) v`, where `self` is q, of shape `[batch, heads, queries, depth]`, and
    /// k and v are `[batch, kv_heads, keys, depth]`. Returns `[batch, heads, queries, value depth]`. Query
    /// head h reads key head `h / (heads / kv_heads)`. The result for a query that attends to no key is 0.
    /// See [`AttentionSpec`].
    ///
    /// ```
    /// # use gradloom_core::{ir::DType, reference::eval, trace::*};
    /// let y = eval(|| {
    ///     let x = full(DType::F32, [1, 1, 2, 1], 3.0);
    ///     x.attention(x, x, AttentionOptions::causal())
    /// });
    /// assert_eq!(y, [3.0, 3.0]);
    /// ```
    #[doc(alias = "scaled_dot_product_attention")]
    #[op]
    pub fn attention(self, keys: Tensor, values: Tensor, options: AttentionOptions) -> Tensor {
        self.attention_with_log_sum(keys, values, options).0
    }

    /// Computes [`attention`](Tensor::attention), and the log-sum-exp of each query's scaled scores,
    /// `[batch, heads, queries]`, which is needed to combine attention over several parts of the keys. The
    /// log-sum-exp of a query that attends to no key is `-inf`. No gradient flows through the log-sum-exp: a
    /// loss that depends on it is an error.
    ///
    /// ```
    /// # use gradloom_core::{ir::DType, reference::eval, trace::*};
    /// // Scores are 0: each key's exponential is 1, and the later query sees two.
    /// let sums = eval(|| {
    ///     let x = full(DType::F32, [1, 1, 2, 1], 0.0);
    ///     x.attention_with_log_sum(x, x, AttentionOptions::causal()).1.exp()
    /// });
    /// assert_eq!(sums, [1.0, 2.0]);
    /// ```
    #[op]
    pub fn attention_with_log_sum(
        self,
        keys: Tensor,
        values: Tensor,
        options: AttentionOptions,
    ) -> (Tensor, Tensor) {
        let shape = self.shape();
        let zeros = |sums| (placeholder(DType::F32, shape.clone()), placeholder(DType::F32, sums));
        if shape.rank() != 4 {
            let help = "q, k and v are [batch, heads, length, depth]";
            return refused("attention", format!("`attention`: q is {shape}"), help, zeros(shape.clone()));
        }
        let rows = shape.without(&[3]);
        let scale = options.scale.unwrap_or(1.0);
        if !is_in_range("attention", "scale", scale, Range::Finite)
            || !is_in_range("attention", "probability of dropout", options.dropout, Range::Part)
        {
            return zeros(rows);
        }
        if options.window == Some(0) {
            let message = "`attention` with a window of 0 positions";
            let help = "a window has at least 1: a query's own position";
            return refused("attention", message, help, zeros(rows));
        }
        if options.block_table.is_some() && options.dropout != 0.0 && is_training() {
            let message = "`attention` over a block table with dropout";
            let help = "leave one of them out: a table is of a cache, without training";
            return refused("attention", message, help, zeros(rows));
        }
        if options.scores.are_kept() {
            return self.attention_of_scores(keys, values, options);
        }
        let kept = options.kept(&shape, &keys.shape());
        let spec = AttentionSpec {
            causal: options.causal,
            window: options.window_of(&shape, &keys.shape()),
            scale: options.scale_of(shape[3]),
            query_offset: options.query_offset.is_some(),
            key_length: options.key_length.is_some(),
            block_table: options.block_table.is_some(),
            dropout: kept.map(|(_, factor)| factor),
        };
        let kept = kept.map(|(kept, _)| kept);
        let extra =
            [options.query_offset, options.key_length, options.block_table, kept].into_iter().flatten();
        let operands: Vec<Tensor> = [self, keys, values].into_iter().chain(extra).collect();
        let results = emit_all(OpKind::Attention(spec), &operands, "attention", 2);
        (results[0], results[1])
    }

    /// Computes attention by materializing the matrix of scores.
    #[track_caller]
    fn attention_of_scores(
        self,
        keys: Tensor,
        values: Tensor,
        options: AttentionOptions,
    ) -> (Tensor, Tensor) {
        let wrong = |message: String, help: &str| {
            fail("attention", message, help);
            (self, self.sum_axes(-1))
        };
        let (q, k, v) = (self.shape(), keys.shape(), values.shape());
        let fits = k.rank() == 4 && v.rank() == 4 && k[..3] == v[..3] && k[0] == q[0] && k[3] == q[3];
        if !fits || k[1] == 0 || !q[1].is_multiple_of(k[1]) || options.block_table.is_some() {
            return wrong(
                format!("`attention` of {q} over keys {k} and values {v} with its scores kept"),
                "q, k and v are [batch, heads, length, depth], with a multiple of k's heads in q, and \
                 without a block table",
            );
        }
        // Query heads that share a key head are adjacent, so a reshape turns them into rows of one matrix
        // product.
        let shared = [q[0], k[1], q[1] / k[1] * q[2], q[3]];
        let scale = options.scale_of(q[3]);
        let pairs = [q[0], q[1], q[2], k[2]];
        let broadcasts = |x: Tensor| {
            let (from, rank) = (x.shape(), x.rank());
            rank <= 4 && from.iter().zip(&pairs[4 - rank..]).all(|(&from, &to)| from == to || from == 1)
        };
        if let Some(x) =
            [options.scores.bias, options.scores.mask].into_iter().flatten().find(|&x| !broadcasts(x))
        {
            return wrong(
                format!("`attention` with scores {} and a mask or bias {}", Shape::from(pairs), x.shape()),
                "it must have the shape of the scores, or one that can be broadcast to it",
            );
        }
        let seen = options.seen(pairs);
        let (mut queries, mut keys, mut values) = (self, keys, values);
        if let Some(seen) = seen.filter(|_| !options.each_sees_itself(&pairs)) {
            // Replace queries that attend to no key, and keys that no query attends to, by zeros: a product
            // includes elements whose weight is 0, and 0 times NaN is NaN.
            let shape = seen.shape();
            let [batch, heads, from, to] = std::array::from_fn(|axis| match shape.rank() + axis {
                at @ 4.. => shape[at - 4],
                _ => 1,
            });
            queries = seen.reshape([batch, heads, from, to]).any_keep(-1).select(queries, 0.0);
            let groups = if heads == 1 { 1 } else { k[1] };
            let used = seen.reshape([batch, groups, heads / groups * from, to]).any_axes(2).unsqueeze(3);
            (keys, values) = (used.select(keys, 0.0), used.select(values, 0.0));
        }
        let mut scores = queries.reshape(shared).matmul(keys.transpose(-1, -2)).reshape(pairs) * scale;
        if let Some(bias) = options.scores.bias {
            scores = scores + bias;
        }
        if let Some(seen) = seen {
            scores = seen.select(scores, LOWEST);
        }
        let largest = scores.max_keep(-1).maximum(LOWEST).detach();
        let mut weights = (scores - largest).exp();
        if let Some(seen) = seen {
            // Set the weights of masked keys to 0 explicitly: a query whose visible scores all equal the
            // lowest number attends to its visible keys equally, so masked keys cannot be recognized by their
            // scores.
            weights = seen.select(weights, 0.0);
        }
        let total = weights.sum_keep(-1);
        let share = weights / total.eq(0.0).select(1.0, total);
        let output = share.dropout(options.dropout).reshape([shared[0], shared[1], shared[2], k[2]]);
        let output = output.matmul(values).reshape([q[0], q[1], q[2], v[3]]);
        (output, (total.log() + largest).squeeze(3).detach())
    }
}

/// Lowest finite score, which replaces the scores of masked keys.
const LOWEST: f64 = f32::MIN as f64;

/// Options that require the matrix of scores.
#[derive(Clone, Copy, Debug, Default)]
struct Scores {
    mask: Option<Tensor>,
    bias: Option<Tensor>,
}

impl Scores {
    fn are_kept(&self) -> bool {
        self.mask.is_some() || self.bias.is_some()
    }
}

impl AttentionOptions {
    /// Returns the factor on the scores of heads of a depth. It is 1 for depth 0, where all scores are 0.
    fn scale_of(&self, depth: usize) -> f64 {
        self.scale.unwrap_or(1.0 / (depth.max(1) as f64).sqrt())
    }

    /// Returns the window of attention of q over k, or `None` if it hides no key.
    fn window_of(&self, q: &Shape, k: &Shape) -> Option<u32> {
        let extent = q[2].max(k.get(2).copied().unwrap_or(0));
        let positions_are_known = self.query_offset.is_none() && self.block_table.is_none();
        let window = self.window.filter(|&window| !(positions_are_known && window >= extent.max(1)))?;
        Some(u32::try_from(window).unwrap_or(u32::MAX))
    }

    /// Draws the keys that dropout keeps, and returns them with the factor on their shares, as operands of
    /// attention of q over k. Returns `None` if nothing is dropped.
    #[track_caller]
    fn kept(&self, q: &Shape, k: &Shape) -> Option<(Tensor, f64)> {
        if self.dropout == 0.0 || !is_training() || k.rank() != 4 {
            return None;
        }
        let words = Shape::from([q[0], q[1], q[2], k[2].div_ceil(32)]);
        if self.dropout == 1.0 {
            return Some((full(DType::U32, words, 0.0), 1.0));
        }
        let kept = BinaryFraction::close_to(1.0 - self.dropout);
        Some((bits(words, kept, "attention"), 1.0 / kept.value()))
    }

    /// Returns `true` if each query attends at least to the key at its own position, so that no query and no
    /// key is unused.
    fn each_sees_itself(&self, pairs: &[usize; 4]) -> bool {
        let hidden = [self.query_offset, self.key_length, self.scores.mask, self.scores.bias];
        pairs[2] == pairs[3] && hidden.iter().all(Option::is_none)
    }

    /// Returns a mask of the keys to which each query attends, which broadcasts to the scores; `None` if each
    /// query attends to all keys.
    #[track_caller]
    fn seen(&self, pairs: [usize; 4]) -> Option<Tensor> {
        let of_each = |x: Tensor| if x.rank() == 0 { x } else { x.reshape([pairs[0], 1, 1, 1]) };
        let position = |axis: isize| iota(DType::I32, [pairs[2], pairs[3]], axis);
        let key = position(1);
        let query = match self.query_offset {
            Some(offset) => position(0) + of_each(offset),
            None => position(0),
        };
        // Limit the window to i32, the dtype of the positions: no two positions are farther apart.
        let window = self.window.map(|window| window.min(i32::MAX as usize) as f64);
        let conditions = [
            self.causal.then(|| key.le(query)),
            window.map(|window| (query - key).lt(window)),
            window.filter(|_| !self.causal).map(|window| (key - query).lt(window)),
            self.key_length.map(|length| key.lt(of_each(length))),
            self.scores.mask,
            self.scores.bias.map(|bias| bias.ne(f64::NEG_INFINITY)),
        ];
        conditions.into_iter().flatten().reduce(|a, b| a.logical_and(b))
    }
}
